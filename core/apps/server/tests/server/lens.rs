//! `/lens`: what each layer of a model would predict, while other requests run.

use crate::client::{open, post};
use crate::fake;
use crate::running::Running;
use menagerie::engine::{LensOptions, LensTable, LogitLens, Prompt, Request, SchedulerOptions, TextPipeline};
use menagerie::open::ModelBuilder;
use menagerie_server::{ServedModel, TextService};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

fn tiny() -> TextPipeline {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/base/llama/model-f32.gguf");
    (*ModelBuilder::new(file).open_text().unwrap()).clone()
}

fn serve(pipeline: &TextPipeline, sequences: usize) -> Running {
    let scheduler =
        SchedulerOptions::default().with_sequences(sequences).with_capacity_tokens(pipeline.context());
    let service = TextService::new(Request::greedy(4), scheduler.with_step_tokens(32));
    Running::new(vec![ServedModel::new("m").with_text(Ok((pipeline.clone(), service)))])
}

/// The rows of a lens in a session.
fn expected(pipeline: &TextPipeline, text: &str, answer: usize, top: usize) -> Value {
    let tokenizer = pipeline.tokenizer().unwrap();
    let prompt = tokenizer.encode_prompt(text).unwrap();
    let lens = Arc::new(LogitLens::new(pipeline.engine(), LensOptions::default().with_top(top)).unwrap());
    let request = Request::greedy(answer.max(1)).with_lens(Arc::clone(&lens));
    let mut session = pipeline.session().unwrap();
    let made = session.generate(Prompt::from(prompt.clone()), &request, |_| ()).unwrap().tokens;
    let all: Vec<u32> = prompt.iter().chain(made.iter().take(answer)).copied().collect();
    json!(LensTable::new(&lens.rows(), &all, prompt.len(), Some(&**tokenizer)).rows)
}

#[test]
fn the_rows_are_those_of_a_session_while_others_answer() {
    let pipeline = tiny();
    let server = serve(&pipeline, 4);
    let text = "The animals of the menagerie";
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (address, pipeline) = (server.address, &pipeline);
            scope.spawn(move || {
                if number % 2 == 0 {
                    let body = json!({ "prompt": format!("{text} {number}"), "max_tokens": 24, "temperature": 1, "seed": 1 });
                    return drop(post(address, "/v1/completions", &body).good());
                }
                let answer = number as usize;
                let body = json!({ "model": "m", "prompt": text, "max_tokens": answer, "top": 3 });
                let reply = post(address, "/lens", &body).good();
                assert_eq!(reply["rows"], expected(pipeline, text, answer, 3), "{number}");
                assert_eq!((&reply["object"], &reply["model"]), (&json!("lens"), &json!("m")));
            });
        }
    });
}

#[test]
fn a_part_of_a_prompt_and_some_layers_are_read() {
    let pipeline = tiny();
    let server = serve(&pipeline, 2);
    let tokens: Vec<u32> = (1..60).collect();
    let ask = |more: Value| {
        let mut body = json!({ "prompt": tokens });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(server.address, "/lens", &body)
    };
    let positions = |reply: &Value| -> Vec<u64> {
        reply["rows"].as_array().unwrap().iter().map(|row| row["position"].as_u64().unwrap()).collect()
    };
    let all = ask(json!({})).good();
    assert_eq!((all["prompt_tokens"].as_u64(), positions(&all)), (Some(59), (0..59).collect()));
    let last = ask(json!({ "last": 5, "layers": [1] })).good();
    assert_eq!(positions(&last), (54..59).collect::<Vec<_>>());
    assert_eq!(last["rows"][4]["layers"], json!([all["rows"][58]["layers"][1]]));
    let before = ask(json!({ "last": 5, "before": 54 })).good();
    assert_eq!(before["rows"], json!(all["rows"].as_array().unwrap()[49..54]));
    for (wrong, param) in [
        (json!({ "last": 0 }), "last"),
        (json!({ "last": 129 }), "last"),
        (json!({ "top": 11 }), "top"),
        (json!({ "before": 60 }), "before"),
        (json!({ "layers": "all" }), "layers"),
        (json!({ "layers": [-1] }), "layers"),
        (json!({ "max_tokens": 129 }), "max_tokens"),
        (json!({ "n": 2 }), "n"),
        (json!({ "stream": true }), "stream"),
        (json!({ "depth": 2 }), "depth"),
    ] {
        let reply = ask(wrong.clone());
        assert_eq!((reply.status, &reply.error()["param"]), (400, &json!(param)), "{wrong}: {}", reply.body);
    }
    let past = ask(json!({ "layers": [3] }));
    assert!(past.status == 400 && past.error()["message"].as_str().unwrap().contains("layer 3 is past"));
}

/// A client that leaves frees the sequence while the prompt is read.
#[test]
fn leaving_ends_the_lens() {
    let pipeline = tiny();
    let server = serve(&pipeline, 1);
    let body = json!({ "prompt": vec![7; 200], "last": 128, "max_tokens": 20 }).to_string();
    for _ in 0..3 {
        drop(open(server.address, "POST", "/lens", &[], &body));
    }
    server.wait_for("menagerie_requests_open", 0);
    assert_eq!(post(server.address, "/lens", &json!({ "prompt": [7] })).good()["prompt_tokens"], 1);
}

#[test]
fn a_model_without_a_lens_says_why() {
    let server = Running::new(vec![fake::served("m", &fake::model(), 2)]);
    let reply = post(server.address, "/lens", &json!({ "prompt": "a" }));
    let said = reply.error()["message"].as_str().unwrap().to_owned();
    assert!(reply.status == 400 && said.contains("no logit lens"), "{}", reply.body);
}
