//! `--metrics FILE`: what a command did, as Prometheus reads it, whatever its requests ask for.

use super::{chat_model, fed, fixture, menagerie};
use std::path::Path;

/// The value of a line of `m.txt`.
pub(super) fn value(home: &Path, name: &str) -> f64 {
    let text = std::fs::read_to_string(home.join("m.txt")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("menagerie_{name} ")));
    line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse().unwrap()
}

fn model(name: &str) -> String {
    fixture(name).to_str().unwrap().to_owned()
}

#[test]
fn answers_are_counted() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let llama = model("base/llama/model-f32.gguf");
    let run = |more: &[&str]| {
        let usual = ["run", &llama, "--raw", "--temp", "0", "-n", "6", "--ignore-eos", "--state", "a.state"];
        let prompt = ["The keeper counted every animal twice before the gates were opened."];
        menagerie(home, &[&usual[..], &prompt, more].concat()).good()
    };
    run(&[]);
    let answer: serde_json::Value = serde_json::from_str(&run(&["--json", "--metrics", "m.txt"])).unwrap();
    let value = |name: &str| value(home, name);
    let count = |key: &str| answer[key].as_f64().unwrap();
    assert_eq!(value("requests_total{outcome=\"length\"}"), 1.0);
    assert_eq!(value("requests_open"), 0.0);
    assert_eq!(value("prompt_tokens_total"), count("prompt_tokens"));
    assert_eq!(value("cached_tokens_total"), count("cached_tokens"));
    assert_eq!(value("generated_tokens_total"), 6.0);
    // The rest of the prompt in one step, and one for each token that was fed back.
    assert_eq!((value("steps_total"), value("step_rows_total")), (6.0, 1.0 + 5.0));
    assert_eq!((value("step_seconds_count"), value("time_between_tokens_seconds_count")), (6.0, 5.0));
    assert_eq!(value("time_to_first_token_seconds_count"), 1.0);
    assert!(value("state_bytes") > 0.0 && value("step_seconds_sum") > 0.0);
    // Nothing to count: the model does not open.
    menagerie(home, &["run", "absent.gguf", "hello", "--metrics", "n.txt"]).fails_with(&["absent.gguf"]);
    assert!(!home.join("n.txt").exists());
}

/// The outcomes of all requests, and those that are still open.
fn ended(home: &Path) -> [f64; 4] {
    let of = |outcome: &str| value(home, &format!("requests_total{{outcome=\"{outcome}\"}}"));
    [of("computed"), of("refused"), of("length"), value(home, "requests_open")]
}

/// Measurements, chunks of a text, vectors and scores are requests too, those that fail as well.
#[test]
fn what_asks_for_no_answer_is_counted() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let llama = model("base/llama/model-f32.gguf");
    let counted = |command: &[&str]| menagerie(home, &[command, &["--metrics", "m.txt"]].concat());
    counted(&["bench", &llama, "-p", "8", "-n", "3", "-r", "2", "--json"]).good();
    // Of each a warm-up, which has both, and two measurements.
    assert_eq!(ended(home), [8.0, 0.0, 0.0, 0.0]);
    assert_eq!(value(home, "generated_tokens_total"), 2.0 * 3.0 + 3.0 + 1.0);
    counted(&["bench", &llama, "-p", "8", "-n", "3", "-r", "1", "--sequences", "2", "--json"]).good();
    assert_eq!(ended(home), [4.0, 0.0, 0.0, 0.0]);
    let text = model("perplexity/coriolanus.txt");
    let scored = counted(&["perplexity", &llama, "-f", &text, "--ctx-size", "32", "--chunks", "3", "--json"]);
    scored.good();
    assert_eq!((ended(home), value(home, "prompt_tokens_total")), ([3.0, 0.0, 0.0, 0.0], 96.0));
    let bert = model("zoo/bert/model-f16.gguf");
    counted(&["embed", &bert, "one two", "three"]).good();
    assert_eq!((ended(home), value(home, "steps_total")), ([2.0, 0.0, 0.0, 0.0], 1.0));
    counted(&["embed", &bert, "--tokens", "5", "--tokens", "5000"]).fails_with(&["text 2", "5000"]);
    assert_eq!(ended(home), [1.0, 1.0, 0.0, 0.0]);
    let rank = model("zoo/bert-rank/model-f16.gguf");
    counted(&["rerank", &rank, "what is a zoo?", "the price of tea", "animals", "a place"]).good();
    assert_eq!((ended(home), value(home, "generated_tokens_total")), ([3.0, 0.0, 0.0, 0.0], 0.0));
    let chat = chat_model(home);
    let chat = ["chat", &chat, "-n", "4", "--temp", "0", "--ignore-eos", "--metrics", "m.txt"];
    fed(home, &chat, b"first\nsecond\n").good();
    assert_eq!(ended(home), [0.0, 0.0, 2.0, 0.0]);
}

/// A file that is not one of metrics is not replaced, and `-` is no file.
#[test]
fn metrics_replace_no_other_file() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let bert = model("zoo/bert/model-f16.gguf");
    std::fs::write(home.join("notes.txt"), "mine").unwrap();
    let embed = |file: &str| menagerie(home, &["embed", &bert, "one two", "--metrics", file]);
    let refused = embed("notes.txt");
    assert!(refused.out.is_empty(), "before anything is computed: {}", refused.out);
    refused.fails_with(&["notes.txt: exists and is not a metrics file", "help: name another file"]);
    assert_eq!(std::fs::read_to_string(home.join("notes.txt")).unwrap(), "mine");
    embed("m.txt").good();
    embed("m.txt").good();
    assert_eq!(value(home, "requests_total{outcome=\"computed\"}"), 1.0, "replaced, not added to");
    embed("-").refused_with(&["--metrics -", "standard output", "/dev/stderr"]);
    assert!(!home.join("-").exists());
}

/// Beginnings are given up between steps too, and after the last one; and the pages are as many as the document says.
#[test]
fn all_evictions_and_all_pages_are_counted() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let lines: Vec<serde_json::Value> = (0..9)
        .map(|line| serde_json::json!({ "prompt": format!("{line} animals were counted before the gates were opened") }))
        .collect();
    super::batches::write(home, "in.jsonl", &lines);
    let llama = model("base/llama/model-f32.gguf");
    let more =
        ["--raw", "--parallel", "3", "-c", "600", "--cache-tokens", "600", "--json", "--metrics", "m.txt"];
    let answer: serde_json::Value =
        serde_json::from_str(&super::batches::batch(home, &llama, &more).good()).unwrap();
    // Nine sequences, of which the three places for beginnings keep the last ones.
    assert_eq!(answer["scheduler"]["evictions"], 6);
    assert_eq!(value(home, "evictions_total"), 6.0);
    for (name, key) in [("steps_total", "steps"), ("step_rows_total", "rows")] {
        assert_eq!(Some(value(home, name)), answer["scheduler"][key].as_f64(), "{name}");
    }
    // 600 tokens are three pages, and five more for six sequences.
    assert_eq!(value(home, "pages_used") + value(home, "pages_free"), 8.0);
    let help = menagerie(home, &["batch", "--help"]).good();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("pages of 256") && help.contains("2 x --parallel - 1 more pages"), "{help}");
}
