//! `bench --sequences N`: throughput of several sequences in one batch, compared with one sequence.

use crate::arguments::model::ModelArguments;
use crate::commands::bench::delimited::Delimited;
use crate::commands::bench::form::{OutputForm, mean_of};
use crate::failure::Failure;
use crate::output;
use crate::screen::progress;
use menagerie::engine::TextPipeline;
use menagerie::measure::{Rate, TogetherOptions, TogetherResult, bench_together};
use menagerie::open::LoadedModel;
use serde_json::{Value, json};

/// Measures each of `wanted` and prints the measurements.
///
/// # Errors
/// What the pipeline returns.
pub(super) fn measure(
    model: &ModelArguments,
    pipeline: &LoadedModel<TextPipeline>,
    wanted: &[TogetherOptions],
    form: OutputForm,
) -> Result<(), Failure> {
    let bar = progress::spinner("warming up");
    let mut results = Vec::new();
    for options in wanted {
        bar.set_message(output::counted(options.sequences, "sequence"));
        results.push((*options, bench_together(pipeline, options)?));
    }
    bar.finish_and_clear();
    match form {
        OutputForm::Columns => print(&results),
        OutputForm::Delimited(how) => output::write(&delimited(model, pipeline, &results, how)),
        OutputForm::Json => output::json(&report(model, pipeline, &results)),
    }
}

/// Options and result of a measurement.
type Measurement = (TogetherOptions, TogetherResult);

fn report(model: &ModelArguments, pipeline: &LoadedModel<TextPipeline>, results: &[Measurement]) -> Value {
    let test = |(options, result): &Measurement| {
        json!({
            "sequences": options.sequences, "prompt": options.prompt, "generate": options.generate,
            "pp_tokens_per_second": result.prompt, "tg_tokens_per_second": result.generate,
            "tokens_per_second": result.total,
        })
    };
    json!({
        "model": model.model,
        "architecture": pipeline.architecture(),
        "version": crate::version::short(),
        "arithmetic": model.arithmetic_name(),
        "kv_type": pipeline.kv_type().name(),
        "tests": results.iter().map(test).collect::<Vec<_>>(),
    })
}

/// A row per measurement, with means as in the other machine-readable formats.
fn delimited(
    model: &ModelArguments,
    pipeline: &LoadedModel<TextPipeline>,
    results: &[Measurement],
    how: Delimited,
) -> String {
    let heads = ["model", "arithmetic", "kv", "sequences", "pp", "tg", "pp t/s", "tg t/s", "t/s", "stddev"];
    let mean = |rate: &Option<Rate>| {
        rate.as_ref().map_or_else(String::new, |rate| format!("{:.2}", mean_of(&rate.samples)))
    };
    let row = |(options, result): &Measurement| {
        let counts = [options.sequences, options.prompt, options.generate].map(|count| count.to_string());
        let mut cells = vec![model.model.to_string(), model.arithmetic_name().to_owned()];
        cells.push(pipeline.kv_type().name().to_owned());
        cells.extend(counts);
        cells.extend([&result.prompt, &result.generate, &result.total].map(mean));
        cells.push(result.total.as_ref().map_or_else(String::new, |rate| format!("{:.2}", rate.deviation)));
        cells
    };
    how.table(&heads, &results.iter().map(row).collect::<Vec<_>>())
}

/// Seconds per step of generation, in which each sequence has a token.
fn step((options, result): &Measurement) -> Option<f64> {
    let rate = result.generate.as_ref()?;
    Some(options.sequences as f64 / rate.median)
}

fn print(results: &[Measurement]) -> Result<(), Failure> {
    let first_step = results.first().and_then(step);
    let first = results.first().and_then(|(_, result)| result.total.as_ref()).map(|rate| rate.median);
    let shown =
        |rate: &Option<Rate>| rate.as_ref().map_or("-".to_owned(), |rate| format!("{:.2}", rate.median));
    let row = |measurement: &Measurement| {
        let (options, result) = measurement;
        let gain =
            result.total.as_ref().zip(first).map(|(rate, first)| format!("{:.2}", rate.median / first));
        let cost = step(measurement).zip(first_step).map(|(step, first)| format!("{:.2}", step / first));
        vec![
            options.sequences.to_string(),
            format!("{} + {}", options.prompt, options.generate),
            shown(&result.prompt),
            shown(&result.generate),
            shown(&result.total),
            gain.unwrap_or_default(),
            cost.unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = results.iter().map(row).collect();
    output::table(
        &[
            "sequences",
            "tokens",
            "prompt tokens/s",
            "generated tokens/s",
            "all tokens/s",
            "gain",
            "step time",
        ],
        &rows,
    )
}
