//! `echo` of `batch`: completions that begin with their prompt, and the log probabilities of its tokens.

use super::batches::{batch, chat, results, write};
use super::{chat_model, menagerie};
use serde_json::{Value, json};

const TEXT: &str = "the gates were opened";

fn completion(id: &str, body: Value) -> Value {
    json!({ "custom_id": id, "method": "POST", "url": "/v1/completions", "body": body })
}

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// As a prompt, tokens have the log probabilities that they had as an answer.
#[test]
fn prompts_are_echoed_and_scored() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let model = chat_model(home);
    let parsed =
        |arguments: &[&str]| -> Value { serde_json::from_str(&menagerie(home, arguments).out).unwrap() };
    let ids = |of: &Value| -> Vec<u64> {
        of["tokens"].as_array().unwrap().iter().map(|token| token["id"].as_u64().unwrap()).collect()
    };
    let prompt = ids(&parsed(&["tokenize", &model, TEXT, "--frame", "--json"]));
    let run = ["run", &model, TEXT, "--raw", "--temp", "0", "-n", "6", "--ignore-eos", "-t", "1", "--json"];
    let answer = parsed(&[&run[..], &["--logprobs", "2"]].concat());
    let whole = [prompt.clone(), ids(&answer)].concat();
    write(
        home,
        "in.jsonl",
        &[
            completion("scored", json!({ "prompt": whole, "echo": true, "logprobs": 2, "max_tokens": 0 })),
            completion(
                "two",
                json!({ "prompt": TEXT, "echo": true, "logprobs": 1, "n": 2, "ignore_eos": true }),
            ),
            completion("plain", json!({ "prompt": TEXT, "echo": true, "ignore_eos": true })),
            completion("off", json!({ "prompt": TEXT, "echo": false, "logprobs": 1, "ignore_eos": true })),
            chat("chat", TEXT, &json!({ "echo": true })),
        ],
    );
    let call = batch(home, &model, &["--parallel", "4"]);
    assert_eq!(call.code, Some(1), "{call:?}");
    let results = results(home, "out.jsonl");
    let choice = |id: &str, index: usize| &results[id]["response"]["body"]["choices"][index];

    let scored = choice("scored", 0);
    let logprobs = &scored["logprobs"];
    let (own, top) = (logprobs["token_logprobs"].as_array().unwrap(), &logprobs["top_logprobs"]);
    assert_eq!((own.len(), &own[0], &top[0]), (whole.len(), &json!(null), &json!(null)));
    assert_eq!(logprobs["tokens"].as_array().unwrap().len(), whole.len());
    let found = numbers(&json!(&own[prompt.len()..]));
    let expected: Vec<f64> =
        answer["tokens"].as_array().unwrap().iter().map(|token| token["logprob"].as_f64().unwrap()).collect();
    assert_eq!(found, expected, "the rows of a prompt have the bits of generated ones");
    let best = |at: usize| numbers(&top[at].as_object().unwrap().values().cloned().collect());
    for (at, own) in own.iter().enumerate().take(whole.len()).skip(prompt.len()) {
        let highest = best(at).into_iter().fold(f64::NEG_INFINITY, f64::max);
        assert!((highest - own.as_f64().unwrap()).abs() < 1e-6, "a greedy answer is the most likely one");
    }
    assert_eq!((&scored["finish_reason"], numbers(&logprobs["text_offset"])[0]), (&json!("length"), 0.0));
    assert_eq!(results["scored"]["response"]["body"]["usage"]["completion_tokens"], 0);

    let text = format!("{TEXT}{}", answer["text"].as_str().unwrap());
    for (id, index) in [("two", 0), ("two", 1), ("plain", 0)] {
        assert_eq!(choice(id, index)["text"], text, "{id}");
    }
    assert_eq!((&choice("plain", 0)["logprobs"], &choice("off", 0)["text"]), (&json!(null), &answer["text"]));
    for index in [0, 1] {
        let logprobs = &choice("two", index)["logprobs"];
        assert_eq!(logprobs["token_logprobs"][1], own[1], "both answers have the tokens of the prompt");
        assert_eq!(numbers(&logprobs["text_offset"])[prompt.len()], TEXT.chars().count() as f64);
    }
    assert_eq!(numbers(&choice("off", 0)["logprobs"]["text_offset"])[0], 0.0);

    let refused = &results["chat"]["response"];
    assert_eq!((&refused["status_code"], &refused["body"]["error"]["param"]), (&json!(400), &json!("echo")));
}
