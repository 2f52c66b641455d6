//! `batch`: what it answers, what it refuses, and how it goes on after a kill.

use super::{Call, Changed, chat_model, fed, fixture, menagerie};
use gguf_file::GgmlType;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

pub(super) fn write(home: &Path, name: &str, lines: &[Value]) {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(home.join(name), text.join("\n") + "\n").unwrap();
}

/// Results by id.
pub(super) fn results(home: &Path, name: &str) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(home.join(name)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut results = BTreeMap::new();
    for line in lines {
        let id = line["custom_id"].as_str().unwrap().to_owned();
        assert!(results.insert(id.clone(), line).is_none(), "{id} is there twice");
    }
    results
}

pub(super) fn batch(home: &Path, model: &str, more: &[&str]) -> Call {
    let mut arguments = vec!["batch", model, "in.jsonl", "out.jsonl", "--temp", "0", "-n", "6", "-t", "1"];
    arguments.extend(more);
    menagerie(home, &arguments)
}

pub(super) fn chat(id: &str, content: &str, more: &Value) -> Value {
    let mut body = json!({ "model": "any", "messages": [{ "role": "user", "content": content }] });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body })
}

#[test]
fn lines_of_every_form_are_answered_as_run_does() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let text = ["batch one", "batch two", "batch three"];
    let expected: Vec<Value> = text
        .iter()
        .map(|text| {
            let call =
                menagerie(home.path(), &["run", &model, text, "--temp", "0", "-n", "6", "--json", "-t", "1"]);
            serde_json::from_str(&call.out).unwrap_or_else(|_| panic!("{call:?}"))
        })
        .collect();
    let raw = menagerie(
        home.path(),
        &["run", &model, text[0], "--raw", "--temp", "0", "-n", "4", "--json", "-t", "1", "--logprobs", "2"],
    );
    let raw: Value = serde_json::from_str(&raw.out).unwrap();
    let completion = json!({ "prompt": text[0], "max_tokens": 4, "logprobs": 2 });
    write(
        home.path(),
        "in.jsonl",
        &[
            chat("openai", text[0], &json!({ "max_completion_tokens": 6, "stream": false, "n": 2 })),
            json!(text[1]),
            json!({ "messages": [{ "role": "user", "content": text[2] }], "custom_id": "own" }),
            json!({ "custom_id": "raw", "method": "POST", "url": "/v1/completions", "body": completion }),
        ],
    );
    let call = batch(home.path(), &model, &["--parallel", "3", "--json"]);
    assert_eq!(call.code, Some(0), "{call:?}");
    let summary: Value = serde_json::from_str(&call.out).unwrap();
    assert_eq!((&summary["answered"], &summary["failed"]), (&json!(4), &json!(0)));
    let results = results(home.path(), "out.jsonl");
    let body = |id: &str| &results[id]["response"]["body"];
    for (id, expected) in [("openai", &expected[0]), ("line-2", &expected[1]), ("own", &expected[2])] {
        assert_eq!(results[id]["response"]["status_code"], 200);
        assert_eq!(body(id)["object"], "chat.completion");
        for choice in body(id)["choices"].as_array().unwrap() {
            assert_eq!(choice["message"]["content"], expected["text"], "{id}");
        }
        assert_eq!(body(id)["usage"]["prompt_tokens"], expected["prompt_tokens"], "{id}");
    }
    assert_eq!(body("openai")["choices"].as_array().unwrap().len(), 2);
    let choice = &body("raw")["choices"][0];
    assert_eq!((&choice["text"], &choice["finish_reason"]), (&raw["text"], &json!("length")));
    let numbers =
        |values: Vec<&Value>| values.into_iter().map(|value| value.as_f64().unwrap()).collect::<Vec<_>>();
    let expected = numbers(raw["tokens"].as_array().unwrap().iter().map(|token| &token["logprob"]).collect());
    let found = numbers(choice["logprobs"]["token_logprobs"].as_array().unwrap().iter().collect());
    assert_eq!(found.len(), 4);
    assert_eq!(found, expected, "rows beside others have the bits of a row alone");
}

#[test]
fn what_is_wrong_with_a_line_is_its_result() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let url = |url: &str| json!({ "custom_id": url, "method": "POST", "url": url, "body": { "input": "a" } });
    let long = "far too long ".repeat(2000);
    let mut lines: Vec<String> = [
        chat("good", "hello", &json!({})),
        chat("tools", "hello", &json!({ "functions": [] })),
        chat("stored", "hello", &json!({ "store": true })),
        chat("hot", "hello", &json!({ "temperature": -2 })),
        chat("long", &long, &json!({})),
        chat("bias", "hello", &json!({ "logit_bias": { "999999": 1 } })),
        url("/v1/embeddings"),
        url("/v1/responses"),
        json!({ "url": "/v1/completions", "body": { "prompt": "a" } }),
        json!({ "custom_id": "nothing" }),
        json!(17),
    ]
    .iter()
    .map(Value::to_string)
    .collect();
    lines.push("{\"custom_id\": \"torn".to_owned());
    std::fs::write(home.path().join("in.jsonl"), lines.join("\n")).unwrap();
    let call = batch(home.path(), &model, &["-c", "512"]);
    assert_eq!(call.code, Some(1), "{call:?}");
    assert!(call.err.contains("11 requests got an error"), "{}", call.err);
    let results = results(home.path(), "out.jsonl");
    assert_eq!(results.len(), 12);
    assert_eq!(results["good"]["response"]["status_code"], 200);
    for (id, said, field) in [
        ("tools", "functions: this field is not supported", json!("functions")),
        ("stored", "store: answers are not stored", json!("store")),
        ("hot", "--temp is -2", json!(null)),
        ("long", "tokens but the context holds 512", json!(null)),
        ("bias", "logit bias for token 999999", json!(null)),
        ("/v1/embeddings", "does not state the pooling of token vectors", json!("url")),
        ("/v1/responses", "is not supported, only", json!("url")),
        ("line-9", "custom_id: expected a string", json!("custom_id")),
        ("nothing", "neither prompt nor messages", json!(null)),
        ("line-11", "the line is 17", json!(null)),
        ("line-12", "is not JSON", json!(null)),
    ] {
        let response = &results[id]["response"];
        let error = &response["body"]["error"];
        assert_eq!(response["status_code"], 400, "{id}");
        assert!(error["message"].as_str().unwrap().contains(said), "{id}: {error}");
        assert_eq!(error["param"], field, "{id}");
    }
    // Nothing is computed the second time, and failures stay failures.
    let again = batch(home.path(), &model, &["-c", "512"]);
    for said in
        ["12 of 12 lines already have results: 1 answered, 11 failed", "--retry-failed computes them again"]
    {
        assert!(again.err.contains(said), "{}", again.err);
    }
    again.fails_with(&["out.jsonl: 1 answered, 11 failed"]);
}

/// Whatever a kill leaves, the next run adds what is missing, once.
#[test]
fn a_batch_goes_on_where_it_was() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let lines: Vec<Value> =
        (0..6).map(|n| chat(&format!("r{n}"), &format!("number {n}"), &json!({}))).collect();
    write(home.path(), "in.jsonl", &lines);
    assert_eq!(batch(home.path(), &model, &[]).code, Some(0));
    let whole = std::fs::read(home.path().join("out.jsonl")).unwrap();
    let contents = |results: &BTreeMap<String, Value>| -> Vec<Value> {
        results.values().map(|one| one["response"]["body"]["choices"].clone()).collect()
    };
    let expected = contents(&results(home.path(), "out.jsonl"));
    for cut in [whole.len() / 3, whole.len() - 1, 0] {
        std::fs::write(home.path().join("out.jsonl"), &whole[..cut]).unwrap();
        let call = batch(home.path(), &model, &[]);
        assert_eq!(call.code, Some(0), "{call:?}");
        assert_eq!(contents(&results(home.path(), "out.jsonl")), expected, "cut at {cut}");
        let now = std::fs::read(home.path().join("out.jsonl")).unwrap();
        let kept = whole[..cut].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        assert_eq!(now[..kept], whole[..kept], "what was answered stays as it is");
    }
    // Another model, other options, another line.
    let other = batch(home.path(), &model, &["--top-k", "3"]);
    assert!(
        other.code == Some(1)
            && other.err.contains("its results were made with another model or options: sampling"),
        "{other:?}"
    );
    let base = fixture("base/qwen2/model-f32.gguf").display().to_string();
    let other = batch(home.path(), &base, &["--raw"]);
    assert!(other.code == Some(1) && other.err.contains("architecture was \"llama\""), "{other:?}");
    let mut changed = lines.clone();
    changed[2] = chat("r2", "another number", &json!({}));
    write(home.path(), "in.jsonl", &changed);
    let other = batch(home.path(), &model, &[]);
    assert!(other.code == Some(1) && other.err.contains("line 3 (\"r2\") of IN has changed"), "{other:?}");
    let forced = batch(home.path(), &model, &["--force"]);
    assert_eq!((forced.code, results(home.path(), "out.jsonl").len()), (Some(0), 6), "{forced:?}");
}

/// Files count by what is in them: another adapter under the name of the old one is another.
#[test]
fn an_adapter_that_changed_in_place_is_not_gone_on_with() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    std::fs::create_dir(home.join("adapter")).unwrap();
    let put = |name: &str| {
        for file in ["adapter_config.json", "adapter_model.safetensors"] {
            let from = fixture(&format!("lora/llama/adapters/{name}/{file}"));
            std::fs::copy(from, home.join("adapter").join(file)).unwrap();
        }
    };
    put("a0");
    write(home, "in.jsonl", &[json!({ "prompt": "one" }), json!({ "prompt": "two" })]);
    let model = fixture("base/llama/model-f32.gguf").display().to_string();
    let run = || batch(home, &model, &["--raw", "--lora", "adapter"]);
    run().good();
    let answers = results(home, "out.jsonl");
    run().good();
    put("a1");
    run().fails_with(&[
        "its results were made with another model or options: adapters was",
        "--force replaces this one",
    ]);
    assert_eq!(results(home, "out.jsonl"), answers);
    std::fs::rename(home.join("adapter"), home.join("other")).unwrap();
    std::fs::create_dir(home.join("adapter")).unwrap();
    put("a0");
    run().good();
}

#[test]
fn standard_streams_are_files_too() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let input = "{\"prompt\": \"one\"}\n\n\"two\"\n";
    let call =
        fed(home.path(), &["batch", &model, "-", "-", "--temp", "0", "-n", "3", "-t", "1"], input.as_bytes());
    assert_eq!((call.code, call.out.lines().count()), (Some(0), 2), "{call:?}");
    let twice = "{\"custom_id\": \"a\", \"prompt\": \"one\"}\n{\"custom_id\": \"a\", \"prompt\": \"two\"}\n";
    let call = fed(home.path(), &["batch", &model, "-", "-"], twice.as_bytes());
    assert!(call.code == Some(1) && call.err.contains("lines 1 and 2 both have the id \"a\""), "{call:?}");
    let call = fed(home.path(), &["batch", &model, "-", "-", "--json"], input.as_bytes());
    assert_eq!(call.code, Some(2), "{call:?}");
    let call = fed(home.path(), &["batch", &model, "-", &model], input.as_bytes());
    assert!(call.code == Some(1) && call.err.contains("is the input"), "{call:?}");
}

/// With too few pages for all, with one row to a step: the same answers.
/// What went wrong first is not hidden by what went wrong because of it.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said_of_each_file() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf").display().to_string();
    std::fs::write(home.path().join("in.jsonl"), "\"abc\"\n").unwrap();
    let batch = ["batch", &model, "in.jsonl", "/dev/full", "--raw", "-n", "2", "--metrics", "/dev/full"];
    let call = menagerie(home.path(), &batch);
    let said = format!("{call:?}");
    assert_eq!(said.matches("/dev/full: No space left").count(), 2, "{said}");
    assert!(!said.contains("continues where it stopped"), "a device keeps nothing: {said}");
    call.fails_with(&["/dev/full"]);
}

#[test]
fn room_and_steps_change_no_answer() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let lines: Vec<Value> = (0..5)
        .map(|n| chat(&format!("r{n}"), &"word ".repeat(40 * n + 1), &json!({ "max_tokens": 40 })))
        .collect();
    write(home.path(), "in.jsonl", &lines);
    let texts = |more: &[&str]| {
        let call = batch(home.path(), &model, &[&["--force", "--exact", "--parallel", "5"], more].concat());
        assert_eq!(call.code, Some(0), "{call:?}");
        let results = results(home.path(), "out.jsonl");
        results.values().map(|one| one["response"]["body"]["choices"].clone()).collect::<Vec<_>>()
    };
    let expected = texts(&[]);
    assert_eq!(texts(&["--cache-tokens", "1300"]), expected);
    assert_eq!(texts(&["--step-tokens", "3"]), expected);
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_whole_lines() {
    use std::process::{Command, Stdio};
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let mut lines = vec![chat("quick", "hello", &json!({ "max_tokens": 1 }))];
    lines
        .extend((0..3).map(|n| {
            chat(&format!("slow{n}"), "hello", &json!({ "max_tokens": 50000, "ignore_eos": true }))
        }));
    write(home.path(), "in.jsonl", &lines);
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args(["batch", &model, "in.jsonl", "out.jsonl", "-c", "60000", "-t", "1"]);
    command.current_dir(home.path()).env_clear().env("HOME", home.path()).env("HF_HUB_OFFLINE", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let answered =
        || std::fs::read_to_string(home.path().join("out.jsonl")).is_ok_and(|text| text.ends_with('\n'));
    while !answered() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("/bin/sh").args(["-c", &kill]).status().unwrap().success());
    assert_eq!(super::signals::ended(&mut child), Some(130));
    assert_eq!(results(home.path(), "out.jsonl").keys().collect::<Vec<_>>(), ["quick"]);
}

/// Stages answer as the whole model does, bit for bit: mixed lengths, shared beginnings, several answers, few pages.
#[cfg(unix)]
#[test]
fn stages_answer_as_one_model_does() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let more = |n: usize| json!({ "max_tokens": 8 + n, "logprobs": true, "top_logprobs": 3, "temperature": n as f64 / 4.0, "seed": n, "ignore_eos": true });
    let mut lines: Vec<Value> =
        (0..6).map(|n| chat(&format!("r{n}"), &"word ".repeat(40 * n + 1), &more(n))).collect();
    let twice = json!({ "n": 2, "max_tokens": 9, "seed": 3, "temperature": 1.0, "ignore_eos": true });
    lines.push(chat("twice", &"word ".repeat(60), &twice));
    lines.push(json!({ "custom_id": "plain", "method": "POST", "url": "/v1/completions", "body": { "prompt": "word word", "max_tokens": 5 } }));
    write(home.path(), "in.jsonl", &lines);
    let answers = |more: &[&str]| {
        let call = batch(home.path(), &model, &[&["--force", "--parallel", "5"], more].concat());
        assert_eq!(call.code, Some(0), "{more:?}: {call:?}");
        let results = results(home.path(), "out.jsonl");
        results.values().map(|one| one["response"]["body"]["choices"].clone()).collect::<Vec<_>>()
    };
    let expected = answers(&[]);
    for more in [
        &["--stages", "2"][..],
        &["--stage-processes", "2"],
        &["--stage-processes", "2", "--cache-tokens", "900", "--step-tokens", "33"],
    ] {
        assert_eq!(answers(more), expected, "{more:?}");
    }
}

/// A token whose row of the embedding is no number fails the line that has it, in stages as in one, with an X-LoRA too: the others
/// are answered, bit for bit.
#[cfg(unix)]
#[test]
fn a_row_that_is_no_number_fails_its_line_alone() {
    let home = tempfile::tempdir().unwrap();
    let mut changed =
        Changed::of("base/llama/model-f32.gguf").set("tokenizer.chat_template", super::TEMPLATE);
    let embedding = changed.tensors.iter_mut().find(|tensor| tensor.name == "token_embd.weight").unwrap();
    assert_eq!(embedding.kind, GgmlType::F32);
    // "z"
    let at = 94 * embedding.dims[0] as usize * 4;
    embedding.data[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let model = changed.write(home.path());
    let more = json!({ "max_tokens": 6, "logprobs": true, "ignore_eos": true, "logit_bias": { "94": -100 } });
    let word = |id: &str, text: &str| chat(id, &text.repeat(30), &more);
    let lines = [word("one", "word "), word("bad", "zebra "), word("two", "tree ")];
    write(home.path(), "in.jsonl", &lines);
    let answers = |more: &[&str]| {
        let usual = ["--force", "--parallel", "3", "--step-tokens", "64"];
        let call = batch(home.path(), &model, &[&usual, more].concat());
        assert_eq!(call.code, Some(1), "{more:?}: {call:?}");
        let results = results(home.path(), "out.jsonl");
        let error = results["bad"]["response"]["body"]["error"]["message"].as_str().map(str::to_owned);
        let error = error.unwrap_or_else(|| panic!("{more:?}: {}", results["bad"]));
        (["one", "two"].map(|id| results[id]["response"]["body"]["choices"].clone()), error)
    };
    let xlora = fixture("lora/llama/xlora/depth2_topk2");
    for with in [&[][..], &["--xlora", xlora.to_str().unwrap()]] {
        let (expected, error) = answers(with);
        assert!(expected.iter().all(Value::is_array) && error.contains("is NaN"), "{expected:?} {error}");
        for stages in [["--stages", "2"], ["--stage-processes", "2"], ["--stage-processes", "3"]] {
            let more = [with, &stages, &["--no-stage-probe"]].concat();
            let (answered, error) = answers(&more);
            assert_eq!(answered, expected, "{more:?}");
            assert!(error.contains("stage 1 (layer") && error.contains("is NaN"), "{more:?}: {error}");
        }
    }
}

/// Penalties past the range of 32-bit numbers are errors of their line, by name.
#[test]
fn penalties_that_overflow_are_errors_of_their_lines() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf").to_str().unwrap().to_owned();
    let line = |id: &str, field: &str, value: f64| json!({ "custom_id": id, "prompt": "the gates, the gates, the gates", field: value });
    let lines = [
        line("repeat", "repetition_penalty", 1e-38),
        line("frequency", "frequency_penalty", -3e38),
        line("good", "temperature", 1e-40),
        line("greedy", "temperature", 0.0),
    ];
    write(home.path(), "in.jsonl", &lines);
    batch(home.path(), &model, &["--raw"]).fails_with(&["2 requests got an error"]);
    let results = results(home.path(), "out.jsonl");
    for (id, option) in [("repeat", "--repeat-penalty (1e-38)"), ("frequency", "--frequency-penalty (-3e38)")]
    {
        let response = &results[id]["response"];
        assert_eq!(response["status_code"], 400, "{response}");
        assert!(response["body"]["error"]["message"].as_str().unwrap().contains(option), "{response}");
    }
    let text = |id: &str| results[id]["response"]["body"]["choices"][0]["text"].clone();
    assert_eq!((text("good"), text("good").is_string()), (text("greedy"), true));
}
