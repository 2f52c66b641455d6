//! Many clients at once: each gets the answer that it would get alone.

use crate::client::post;
use crate::running::Running;
use menagerie::engine::{Request, SchedulerOptions};
use menagerie::open::ModelBuilder;
use menagerie_server::{ServedModel, TextService};
use serde_json::json;
use std::path::Path;

#[test]
fn answers_are_those_of_a_session_alone() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/base/llama/model-f32.gguf");
    let model = ModelBuilder::new(file).open_text().unwrap();
    let mut sampling = model.sampling_defaults();
    (sampling.temperature, sampling.top_k) = (1.0, 0);
    let request = |seed: u64| {
        let mut sampling = sampling.clone();
        sampling.seed = Some(seed);
        Request::default().with_sampling(sampling).with_max_tokens(24)
    };
    let prompt =
        |number: u64| "The animals of the menagerie ".repeat(1 + number as usize % 5) + &number.to_string();
    let alone: Vec<String> = (0..24)
        .map(|number| {
            let text = prompt(number);
            model.session().unwrap().generate(&text, &request(number), |_| {}).unwrap().text
        })
        .collect();
    // Few places and little memory, so that requests wait, share prefixes and are preempted.
    let scheduler = SchedulerOptions::default()
        .with_sequences(5)
        .with_prefixes(3)
        .with_capacity_tokens(model.context())
        .with_step_tokens(37);
    let service = TextService::new(request(0), scheduler);
    let server = Running::new(vec![ServedModel::new("m").with_text(Ok(((*model).clone(), service)))]);
    std::thread::scope(|scope| {
        for (number, alone) in alone.iter().enumerate() {
            let (prompt, address) = (prompt(number as u64), server.address);
            scope.spawn(move || {
                let mut body = json!({ "prompt": prompt, "seed": number });
                let whole = post(address, "/v1/completions", &body).good();
                assert_eq!(whole["choices"][0]["text"].as_str(), Some(alone.as_str()), "{number}");
                body["stream"] = true.into();
                let events = post(address, "/v1/completions", &body).events();
                let text = events.iter().map(|event| event["choices"][0]["text"].as_str().unwrap());
                assert_eq!(&text.collect::<String>(), alone, "{number}");
            });
        }
    });
}
