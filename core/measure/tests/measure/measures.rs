//! The bench runs what llama-bench runs.

use crate::fake;
use crate::fixture::engine;
use menagerie_measure::{BenchOptions, BenchProgress, bench};
use menagerie_model::InferenceStep;
use menagerie_testkit::FakeModel;
use std::sync::Arc;

#[test]
fn prompts_and_generations_are_measured_from_the_same_depth() {
    let model = Arc::new(FakeModel::new(50, |_| 1));
    let pipeline = fake(&engine(&model, 64, 8));
    let options = BenchOptions::default()
        .with_prompt(16)
        .with_generate(3)
        .with_depth(4)
        .with_repetitions(2)
        .with_warm_up(false);
    let mut progress = Vec::new();
    let result = bench(&pipeline, &options, &mut |step| progress.push(step)).unwrap();
    assert_eq!(progress.len(), 4);
    assert_eq!(progress[3], BenchProgress::Generate(2));
    assert_eq!(result.prompt.unwrap().samples.len(), 2);
    assert_eq!(result.generate.unwrap().samples.len(), 2);
    let seen = model.take_seen();
    let decoded: Vec<usize> = seen
        .iter()
        .filter_map(|seen| match seen.step {
            InferenceStep::Decode { current_position } => Some(current_position),
            InferenceStep::Prefill { .. } => None,
        })
        .collect();
    assert_eq!(decoded, [4, 5, 6, 4, 5, 6]);
    let prompts = seen.iter().filter(|seen| seen.step.total_tokens() == 20).map(|seen| seen.tokens.len());
    assert_eq!(prompts.sum::<usize>(), 32);
}

#[test]
fn what_does_not_fit_is_refused() {
    let model = Arc::new(FakeModel::new(50, |_| 1));
    let pipeline = fake(&engine(&model, 64, 8));
    let error = bench(&pipeline, &BenchOptions::default(), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("512 tokens but the context holds 64"), "{error}");
    let huge = BenchOptions::default().with_depth(usize::MAX);
    assert!(bench(&pipeline, &huge, &mut |_| {}).unwrap_err().to_string().contains("context holds 64"));
}
