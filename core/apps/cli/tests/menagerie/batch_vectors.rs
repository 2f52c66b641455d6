//! `/v1/embeddings` in `batch`: vectors beside HF's, in OpenAI's form, beside text and alone; and what is refused.

use super::{Call, chat_model, fixture, menagerie};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

fn model(name: &str) -> String {
    fixture(&format!("zoo/{name}/model-f16.gguf")).to_str().unwrap().to_owned()
}

/// HF's token ids and a pooled vector, divided by its length.
fn reference(name: &str, tensor: &str) -> (Vec<u32>, Vec<f32>) {
    let bytes = std::fs::read(fixture(&format!("zoo/{name}/reference.safetensors"))).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let ids = file.tensor("tokens_prompt").unwrap().data().chunks_exact(8);
    let ids = ids.map(|eight| i64::from_le_bytes(eight.try_into().unwrap()) as u32).collect();
    let values = file.tensor(tensor).unwrap().data().chunks_exact(4);
    let values: Vec<f32> = values.map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
    let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    (ids, values.iter().map(|value| value / length).collect())
}

fn vectors(id: &str, body: &Value) -> Value {
    json!({ "custom_id": id, "method": "POST", "url": "/v1/embeddings", "body": body })
}

fn batch(home: &Path, model: &str, lines: &[Value], more: &[&str]) -> (Call, BTreeMap<String, Value>) {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(home.join("in.jsonl"), text.join("\n")).unwrap();
    let arguments = ["batch", model, "in.jsonl", "out.jsonl", "-t", "1", "--force", "-n", "3", "--temp", "0"];
    let call = menagerie(home, &[&arguments[..], more].concat());
    let out = std::fs::read_to_string(home.join("out.jsonl")).unwrap_or_default();
    let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let results =
        lines.map(|line| (line["custom_id"].as_str().unwrap().to_owned(), line["response"].clone()));
    (call, results.collect())
}

fn numbers(vector: &Value) -> Vec<f32> {
    serde_json::from_value(vector.clone()).unwrap()
}

fn near(found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len());
    let worst = found.iter().zip(wanted).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-4, "differs by {worst:e}");
}

/// An encoder, and a decoder that pools: alone and as one of many texts, as numbers and in base64.
#[test]
fn vectors_are_hfs() {
    for (name, tensor) in [("bert", "mean_prompt"), ("qwen3-embedding", "last_prompt")] {
        let home = tempfile::tempdir().unwrap();
        let (ids, wanted) = reference(name, tensor);
        let many: Vec<Value> =
            (1..40).map(|n| json!(&ids[..1 + n % ids.len()])).chain([json!(ids)]).collect();
        let mut lines = vec![
            vectors("one", &json!({ "model": "any", "input": ids, "encoding_format": "float", "user": "u" })),
            vectors("many", &json!({ "input": many })),
            vectors("bytes", &json!({ "input": [ids], "encoding_format": "base64" })),
        ];
        // The other one has no vocabulary.
        let reads = name == "bert";
        lines.extend(reads.then(|| vectors("text", &json!({ "input": ["one two", "three"] }))));
        let (call, results) = batch(home.path(), &model(name), &lines, &["--chunk", "100", "--json"]);
        assert_eq!(call.code, Some(0), "{call:?}, {results:?}");
        let summary: Value = serde_json::from_str(&call.out).unwrap();
        assert_eq!((&summary["answered"], &summary["failed"]), (&json!(lines.len()), &json!(0)));
        let body = &results["one"]["body"];
        assert_eq!((&body["object"], &body["data"][0]["object"]), (&json!("list"), &json!("embedding")));
        assert_eq!(body["usage"], json!({ "prompt_tokens": ids.len(), "total_tokens": ids.len() }));
        let one = numbers(&body["data"][0]["embedding"]);
        near(&one, &wanted);
        let many = results["many"]["body"]["data"].as_array().unwrap();
        assert_eq!((many.len(), &many[39]["index"]), (40, &json!(39)));
        assert_eq!(numbers(&many[39]["embedding"]), one, "the others change nothing");
        let written = results["bytes"]["body"]["data"][0]["embedding"].as_str().unwrap();
        let bytes: Vec<u8> = one.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(unbase64(written), bytes);
        if reads {
            let text = ["embed", &model(name), "one two", "three", "--normalize"];
            let text: Value = serde_json::from_str(&menagerie(home.path(), &text).good()).unwrap();
            for index in 0..2 {
                let found = numbers(&results["text"]["body"]["data"][index]["embedding"]);
                assert_eq!(found, numbers(&text["embedding"][index]));
            }
        }
    }
}

/// The plain form of RFC 4648.
fn unbase64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> = text
        .bytes()
        .filter(|byte| *byte != b'=')
        .map(|byte| DIGITS.iter().position(|digit| *digit == byte).unwrap() as u32)
        .collect();
    let three = |four: &[u32]| {
        let bits = four.iter().enumerate().fold(0, |bits, (at, digit)| bits | digit << (18 - 6 * at));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(three).collect()
}

/// Text and vectors of one model in one batch, which goes on after a kill.
#[test]
fn text_and_vectors_stand_in_one_batch() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let mut lines = vec![json!({ "custom_id": "said", "prompt": "hello" })];
    lines.extend((0..5).map(|n| vectors(&format!("v{n}"), &json!({ "input": format!("text number {n}") }))));
    lines.push(json!("hello again"));
    let pooled = ["--pooling", "mean", "--metrics", "metrics.txt"];
    let (call, results) = batch(home.path(), &model, &lines, &pooled);
    assert_eq!((call.code, results.len()), (Some(0), 7), "{call:?}");
    for (n, id) in (0..5).map(|n| (n, format!("v{n}"))) {
        let text = format!("text number {n}");
        let arguments = ["embed", &model, &text, "--normalize", "--pooling", "mean", "-t", "1"];
        let own: Value = serde_json::from_str(&menagerie(home.path(), &arguments).good()).unwrap();
        let found = numbers(&results[&id]["body"]["data"][0]["embedding"]);
        assert_eq!(found, numbers(&own["embedding"][0]));
    }
    assert_eq!(results["said"]["body"]["object"], "chat.completion");
    let metrics = std::fs::read_to_string(home.path().join("metrics.txt")).unwrap();
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("menagerie_{name} ")));
        line.unwrap_or_else(|| panic!("{name} in {metrics}")).parse().unwrap()
    };
    let open = ["requests_open", "requests_waiting", "requests_running"].map(value);
    assert_eq!(open, [0.0; 3]);
    assert_eq!(value("generated_tokens_total"), 6.0);
    assert_eq!(value("requests_total{outcome=\"computed\"}"), 5.0, "a text of a line is a request");
    assert!(value("pages_used") > 0.0 && value("pages_free") > 0.0, "{metrics}");
    // What is answered stays; what is not is added.
    let out = std::fs::read_to_string(home.path().join("out.jsonl")).unwrap();
    let half: String = out.lines().take(3).map(|line| format!("{line}\n")).collect();
    std::fs::write(home.path().join("out.jsonl"), &half).unwrap();
    let again = ["batch", &model, "in.jsonl", "out.jsonl", "-t", "1", "-n", "3", "--temp", "0", "--pooling"];
    let call = menagerie(home.path(), &[&again[..], &["mean"]].concat());
    assert_eq!(call.code, Some(0), "{call:?}");
    let now = std::fs::read_to_string(home.path().join("out.jsonl")).unwrap();
    assert!(now.starts_with(&half) && now.lines().count() == 7);
    let call = menagerie(home.path(), &[&again[..], &["last"]].concat());
    assert!(
        call.code == Some(1) && call.err.contains("pooling was \"mean\" and is now \"last\""),
        "{call:?}"
    );
}

#[test]
fn what_a_model_cannot_do_is_refused_line_by_line() {
    let home = tempfile::tempdir().unwrap();
    let message = |response: &Value| response["body"]["error"]["message"].as_str().unwrap().to_owned();
    let lines = [
        vectors("good", &json!({ "input": "a" })),
        json!({ "custom_id": "text", "prompt": "a" }),
        vectors("none", &json!({})),
        vectors("empty", &json!({ "input": [] })),
        vectors("mixed", &json!({ "input": ["a", 1] })),
        vectors("size", &json!({ "input": "a", "dimensions": 3 })),
        vectors("form", &json!({ "input": "a", "encoding_format": "int8" })),
        vectors("token", &json!({ "input": [999_999] })),
        vectors("many", &json!({ "input": vec!["a"; 2049] })),
    ];
    let (call, results) = batch(home.path(), &model("bert"), &lines, &[]);
    assert_eq!(call.code, Some(1), "{call:?}");
    assert_eq!(results["good"]["status_code"], 200);
    for (id, said) in [
        ("text", "an encoder: it outputs embeddings"),
        ("none", "input: expected a string, a list of strings"),
        ("empty", "input: expected a string, a list of strings"),
        ("mixed", "input: expected a string, a list of strings"),
        ("size", "dimensions: this field is not supported"),
        ("form", "expected float or base64"),
        ("token", "999999"),
        ("many", "the maximum is 2048"),
    ] {
        assert_eq!(results[id]["status_code"], 400, "{id}");
        assert!(message(&results[id]).contains(said), "{id}: {}", results[id]);
    }
    // A reranker gives scores.
    let (call, results) = batch(home.path(), &model("bert-rank"), &lines[..1], &[]);
    assert!(call.code == Some(1) && message(&results["good"]).contains("a reranker"), "{results:?}");
    // Adapters act in texts: lines of text are answered, vectors refused.
    let llama = fixture("base/llama/model-f32.gguf").display().to_string();
    let adapter = fixture("lora/llama/adapters/a0").display().to_string();
    let adapted = ["--lora", &adapter, "--pooling", "mean", "--raw"];
    let (call, results) = batch(home.path(), &llama, &lines[..2], &adapted);
    assert_eq!((call.code, &results["text"]["status_code"]), (Some(1), &json!(200)), "{call:?}");
    assert!(
        message(&results["good"]).contains("adapters are supported for text generation only"),
        "{results:?}"
    );
    let (call, _) = batch(home.path(), &llama, &lines[..1], &adapted);
    assert!(
        call.code == Some(2) && call.err.contains("adapters are supported for text generation only"),
        "{call:?}"
    );
}

/// `truncate` of a line, or the option for lines that do not say.
#[test]
fn long_texts_are_cut_where_a_line_asks_for_it() {
    let home = tempfile::tempdir().unwrap();
    let bert = model("bert");
    let long = "a ".repeat(400);
    let asks =
        |id: &str, truncate: &Value| vectors(id, &json!({ "input": [long, "short"], "truncate": truncate }));
    let lines = [
        asks("yes", &json!(true)),
        asks("end", &json!("END")),
        asks("no", &json!(false)),
        asks("none", &json!("NONE")),
        asks("start", &json!("START")),
        vectors("unsaid", &json!({ "input": long })),
        vectors("empty", &json!({ "input": ["short", ""] })),
    ];
    let said =
        |results: &BTreeMap<String, Value>, id: &str| results[id]["body"]["error"]["message"].to_string();
    let (call, results) = batch(home.path(), &bert, &lines, &[]);
    assert_eq!(call.code, Some(1), "{call:?}");
    for id in ["yes", "end"] {
        let usage = json!({ "prompt_tokens": 327, "total_tokens": 327, "truncated_tokens": 82 });
        assert_eq!(results[id]["body"]["usage"], usage, "{id}");
    }
    let ids = [vec![2], vec![43; 318], vec![3]].concat();
    let (_, expected) = batch(home.path(), &bert, &[vectors("ids", &json!({ "input": ids }))], &[]);
    assert_eq!(results["yes"]["body"]["data"][0], expected["ids"]["body"]["data"][0]);
    for id in ["no", "none", "unsaid"] {
        assert!(said(&results, id).contains("learned positions for 320"), "{}", said(&results, id));
        assert_eq!(results[id]["status_code"], 400, "{id}");
    }
    assert!(said(&results, "start").contains("truncate: ") && said(&results, "start").contains("END"));
    assert!(said(&results, "empty").contains("input: the text is empty"), "{}", said(&results, "empty"));
    let (_, results) = batch(home.path(), &bert, &lines, &["--truncate"]);
    assert_eq!(results["unsaid"]["body"]["usage"]["truncated_tokens"], 82);
    assert!(said(&results, "no").contains("learned positions"));
}
