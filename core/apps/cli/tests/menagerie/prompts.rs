//! Where `run` takes its prompt from, and what it says of an answer.

use super::{Call, chat_model, fed, fixture, menagerie};
use serde_json::Value;
use std::path::Path;

fn json(call: Call) -> Value {
    serde_json::from_str(&call.good()).unwrap()
}

/// The tokens of the prompt and the first greedy ones after it: equal for equal prompts.
fn answer(home: &Path, words: &[&str], input: &[u8]) -> (u64, Value) {
    let model = fixture("base/llama/model-f32.gguf");
    let arguments =
        [&["run", model.to_str().unwrap()], words, &["--raw", "--json", "--temp", "0", "-n", "6"]].concat();
    let report = json(fed(home, &arguments, input));
    (report["prompt_tokens"].as_u64().unwrap(), report["tokens"].clone())
}

/// A3, A4.
#[test]
fn the_same_prompt_from_everywhere_is_the_same_prompt() {
    let home = tempfile::tempdir().unwrap();
    let asked = answer(home.path(), &["What is 2+2?"], b"");
    for (input, words) in [
        (&b"What is 2+2?\n"[..], &[][..]),
        (b"What is 2+2?\r\n", &[]),
        (b"\xef\xbb\xbfWhat is 2+2?", &[]),
        (b"What is 2+2?\n", &["-"]),
        (b"What is 2+2?\n", &["-f", "-"]),
    ] {
        assert_eq!(answer(home.path(), words, input), asked, "{words:?} {input:?}");
    }
    std::fs::write(home.path().join("p.txt"), "What is 2+2?\n").unwrap();
    assert_eq!(answer(home.path(), &["-f", "p.txt"], b"not read"), asked);
    assert_ne!(answer(home.path(), &["What is 2+2?\n"], b""), asked);
}

/// A3.
#[test]
fn a_prompt_and_standard_input_are_joined() {
    let home = tempfile::tempdir().unwrap();
    let joined = answer(home.path(), &["Summarize"], b"some notes\n");
    assert_eq!(joined, answer(home.path(), &["some notes\n\nSummarize"], b""));
    assert_ne!(joined, answer(home.path(), &["Summarize"], b""));
}

/// P18, P5.
#[test]
fn prompts_that_are_no_text_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    fed(home.path(), &["run", &model], b"").refused_with(&["the prompt is empty", "help: "]);
    fed(home.path(), &["run", &model, ""], b"").refused_with(&["the prompt is empty"]);
    fed(home.path(), &["run", &model], b"ab\n\xff").fails_with(&["standard input", "byte 3 (line 2)"]);
    // What never ends must not take the memory of all.
    #[cfg(target_os = "linux")]
    for arguments in [&["run", &model, "-f", "/dev/zero"][..], &["tokenize", &model, "-f", "/dev/zero"]] {
        menagerie(home.path(), arguments)
            .fails_with(&["/dev/zero: the text is longer than 268 MB", "help: "]);
    }
}

#[test]
fn json_has_text_tokens_reason_and_statistics() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let arguments =
        ["run", &model, "hello", "--json", "-n", "5", "--seed", "3", "--ignore-eos", "--logprobs", "2"];
    let report = json(menagerie(home.path(), &arguments));
    assert_eq!(report["stop"]["reason"], "max-tokens");
    assert_eq!((report["seed"].as_u64(), report["generated_tokens"].as_u64()), (Some(3), Some(5)));
    let tokens = report["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), 5);
    assert!(tokens.iter().all(|token| token["logprob"].as_f64().unwrap() <= 0.0));
    assert!(tokens.iter().all(|token| token["top"].as_array().unwrap().len() == 2));
    assert!(report["text"].is_string() && report["seconds"]["prompt"].as_f64().unwrap() >= 0.0, "{report}");
    // The text without --json is the same.
    let text =
        menagerie(home.path(), &["run", &model, "hello", "-n", "5", "--seed", "3", "--ignore-eos"]).good();
    assert_eq!(text.trim_end_matches('\n'), report["text"].as_str().unwrap().trim_end_matches('\n'));
}

/// A6.
#[test]
fn an_answer_cut_by_the_context_says_so() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let call = menagerie(home.path(), &["run", &model, "hello", "-c", "48", "--ignore-eos"]);
    assert_eq!(call.code, Some(0));
    assert!(call.err.contains("the context of 48 tokens is full"), "{}", call.err);
}

/// P19, and what the model's sampling was.
#[test]
fn a_base_model_is_said_to_be_one() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    let call = menagerie(home.path(), &["run", model.to_str().unwrap(), "abc", "-n", "2", "-v"]);
    assert!(call.err.contains("no chat template"), "{}", call.err);
    assert!(call.err.contains("temp 0.8, top-k 40") && call.err.contains("seed "), "{}", call.err);
    let raw = menagerie(home.path(), &["run", model.to_str().unwrap(), "abc", "-n", "2", "--raw"]);
    assert!(!raw.err.contains("no chat template"), "{}", raw.err);
}

/// A23, A26, P22, P23.
#[test]
fn options_take_negative_values_and_the_last_one_wins() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let run = |extra: &[&str]| menagerie(home.path(), &[&["run", &model, "hi", "-n", "3"], extra].concat());
    run(&["--seed", "-1"]).good();
    run(&["-n", "-1", "-c", "64", "--ignore-eos"]).good();
    run(&["-c", "0"]).good();
    run(&["--kv-type", "F16"]).good();
    for (option, value) in
        [("--temp", "-1"), ("--top-k", "-1"), ("-t", "-1"), ("-c", "-1"), ("-n", "-2"), ("--seed", "-2")]
    {
        let call = run(&[option, value]);
        assert!(!call.err.contains("-- -1"), "{}", call.err);
        call.refused_with(&[value]);
    }
    let cold = run(&["--temp", "0"]).good();
    assert_eq!(run(&["--temp", "5", "--temp", "0"]).good(), cold);
    for option in ["--stop", "--dry-breaker"] {
        run(&[option, ""]).refused_with(&[option, "value is required"]);
    }
    let call = run(&["-t", "999"]);
    assert!(call.err.contains("999 threads"), "{}", call.err);
}

/// P20, P21.
#[test]
fn tokens_that_are_parts_of_characters_show_their_bytes() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    let model = model.to_str().unwrap();
    let report = json(menagerie(home.path(), &["tokenize", model, "\u{1F99C}", "--json"]));
    let bytes: Vec<u8> = report["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|token| token["bytes"].as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8))
        .collect();
    assert!(String::from_utf8_lossy(&bytes).ends_with('\u{1F99C}'), "{report}");
    assert!(menagerie(home.path(), &["tokenize", model, "\u{1F99C}"]).good().contains("<0xF0>"));
    menagerie(home.path(), &["logits", model, "--tokens", "1, 2,3", "--out", "o"]).good();
    menagerie(home.path(), &["logits", model, "--tokens", "1,2", "--out", "p", "--decode-from", "7"])
        .refused_with(&["--decode-from 7"]);
}

/// U34: an answer that ends within hidden reasoning is explained, to programs as well.
#[test]
fn an_empty_answer_is_explained() {
    let home = tempfile::tempdir().unwrap();
    let template = "{{ messages[0].content }}{% if add_generation_prompt %}<think>\n{% endif %}";
    let model = super::Changed::of("base/llama/model-f32.gguf")
        .set("tokenizer.chat_template", template)
        .write(home.path());
    let options = ["--temp", "0", "--ignore-eos", "-n", "5", "--reasoning", "hide"];
    let call = menagerie(home.path(), &[&["run", &model, "hi"][..], &options].concat());
    assert_eq!((call.code, call.out.trim()), (Some(0), ""), "{call:?}");
    assert!(
        call.err
            .contains("note: the answer is empty: the limit on tokens (-n) was reached during the reasoning"),
        "{call:?}"
    );
    let json = menagerie(home.path(), &[&["run", &model, "hi", "--json"][..], &options].concat()).good();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["text"], &json["stop"]["reason"]), (&"".into(), &"max-tokens".into()), "{json}");
    assert!(!json["reasoning"].as_str().unwrap().is_empty(), "{json}");
}
