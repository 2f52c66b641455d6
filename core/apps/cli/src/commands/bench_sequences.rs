//! `bench --sequences N`: how much several sequences that share steps gain over one.

use crate::failure::Failure;
use crate::model_arguments::ModelArguments;
use crate::{output, progress};
use menagerie::pipeline::{Rate, TextPipeline, TogetherOptions, TogetherResult};
use serde_json::json;

/// Measures each of `wanted` and prints a table, or JSON.
///
/// # Errors
/// What the pipeline returns.
pub(super) fn measure(
    model: &ModelArguments,
    pipeline: &TextPipeline,
    wanted: &[TogetherOptions],
    as_json: bool,
) -> Result<(), Failure> {
    let bar = progress::spinner("warming up");
    let mut results = Vec::new();
    for options in wanted {
        bar.set_message(output::counted(options.sequences, "sequence"));
        results.push((*options, pipeline.bench_together(options)?));
    }
    bar.finish_and_clear();
    if as_json {
        let test = |(options, result): &(TogetherOptions, TogetherResult)| {
            json!({
                "sequences": options.sequences, "prompt": options.prompt, "generate": options.generate,
                "pp_tokens_per_second": result.prompt, "tg_tokens_per_second": result.generate,
                "tokens_per_second": result.total,
            })
        };
        return output::json(&json!({
            "model": model.model,
            "architecture": pipeline.architecture(),
            "version": crate::version::short(),
            "arithmetic": model.arithmetic_name(),
            "kv_type": pipeline.kv_type().name(),
            "tests": results.iter().map(test).collect::<Vec<_>>(),
        }));
    }
    let first = results.first().and_then(|(_, result)| result.total.as_ref()).map(|rate| rate.median);
    let shown =
        |rate: &Option<Rate>| rate.as_ref().map_or("-".to_owned(), |rate| format!("{:.2}", rate.median));
    let row = |(options, result): &(TogetherOptions, TogetherResult)| {
        let gain =
            result.total.as_ref().zip(first).map(|(rate, first)| format!("{:.2}", rate.median / first));
        vec![
            options.sequences.to_string(),
            format!("{} + {}", options.prompt, options.generate),
            shown(&result.prompt),
            shown(&result.generate),
            shown(&result.total),
            gain.unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = results.iter().map(row).collect();
    output::table(
        &["sequences", "tokens", "prompt tokens/s", "generated tokens/s", "all tokens/s", "gain"],
        &rows,
    )
}
