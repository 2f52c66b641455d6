//! Comparison of a model's logits and layer values with those of a reference file.

use crate::failure::Failure;
use crate::reference::layer_values::{LayerValues, PLACES};
use crate::reference::reference_file::{ReferenceFile, ReferencePair};
use menagerie::engine::TextPipeline;
use menagerie::measure::{LogitsOptions, logits};
use std::path::Path;
use std::sync::Arc;

/// One comparison with a reference.
#[derive(Debug, serde::Serialize)]
pub(crate) struct TensorComparison {
    /// Name of the values in the reference.
    pub(crate) name: String,
    /// Number of rows.
    pub(crate) rows: usize,
    /// Largest absolute difference.
    pub(crate) difference: f32,
    /// Largest difference that passes: the tolerance; for layer values, times the largest reference value if that is above 1.
    pub(crate) limit: f32,
    /// Whether it is within the limit.
    pub(crate) passed: bool,
    /// The place of the largest difference; `None` if the sizes differ.
    pub(crate) worst: Option<LargestDifference>,
}

/// The place of the largest difference.
#[derive(Debug, serde::Serialize)]
pub(crate) struct LargestDifference {
    /// Row of the reference, from 0.
    pub(crate) row: usize,
    /// Column: for logits the token, for layer values the channel.
    pub(crate) column: usize,
    /// The model's value.
    pub(crate) ours: f32,
    /// The reference value.
    pub(crate) theirs: f32,
}

/// The result of a comparison with a reference file.
#[derive(Debug, Default, serde::Serialize)]
pub(crate) struct Comparison {
    /// Tensors that were compared: logits first, then layer values in the order of computation.
    pub(crate) compared: Vec<TensorComparison>,
    /// Tensors that could not be compared.
    pub(crate) left_out: Vec<SkippedTensor>,
}

/// A tensor that could not be compared.
#[derive(Debug, serde::Serialize)]
pub(crate) struct SkippedTensor {
    /// Their name in the reference.
    pub(crate) name: String,
    /// The reason.
    pub(crate) why: String,
}

impl Comparison {
    /// Whether all differences are within their limits.
    pub(crate) fn passed(&self) -> bool {
        self.compared.iter().all(|one| one.passed)
    }

    /// The first layer values that differ.
    pub(crate) fn first_layer(&self) -> Option<&TensorComparison> {
        self.compared.iter().find(|one| !one.passed && !one.name.starts_with("logits"))
    }
}

/// Compares the model with every tensor of `file` that can be computed; the others are listed with the reason.
pub(crate) fn with_reference(
    pipeline: &mut TextPipeline,
    file: &Path,
    tolerance: f32,
) -> Result<Comparison, Failure> {
    let reference = ReferenceFile::open(file)?;
    let hook = Arc::new(LayerValues::default());
    pipeline.add_hook(Arc::<LayerValues>::clone(&hook));
    let (pairs, left_out) = reference.pairs();
    let left_out = left_out.into_iter().map(|(name, why)| SkippedTensor { name, why }).collect();
    let mut comparison = Comparison { compared: Vec::new(), left_out };
    let mut layers = Vec::new();
    for pair in &pairs {
        let decode_from = (pair.decode_from > 0).then_some(pair.decode_from);
        let wanted = reference.layers(pair);
        hook.listen(!wanted.is_empty());
        let ours = logits(pipeline, &pair.tokens, &LogitsOptions::default().with_decode_from(decode_from))?;
        let width = ours.vocabulary;
        let rows: Vec<f32> = pair.rows.iter().flat_map(|&row| ours.row(row)).copied().collect();
        if let Some(name) = &pair.logits {
            comparison.compared.push(compare(name, width, &rows, &reference.values(name)?, tolerance));
        }
        for (name, place, layer) in wanted {
            let theirs = reference.values(&name)?;
            let scale = theirs.iter().fold(1.0f32, |most, value| most.max(value.abs()));
            match hook.take(layer, PLACES[place]) {
                Some((width, mut ours)) => {
                    // Values of some tokens only.
                    if ours.len() != theirs.len() && theirs.len() == pair.rows.len() * width {
                        let row = |row: &usize| ours.get(row * width..(row + 1) * width).unwrap_or_default();
                        ours = pair.rows.iter().flat_map(row).copied().collect();
                    }
                    layers.push(((layer, place), compare(&name, width, &ours, &theirs, tolerance * scale)));
                }
                None => comparison
                    .left_out
                    .push(SkippedTensor { name, why: "the model has no such layer".into() }),
            }
        }
    }
    if comparison.compared.is_empty() && layers.is_empty() {
        return Err(nothing(file, &comparison.left_out));
    }
    comparison.compared.sort_by(|a, b| a.name.cmp(&b.name));
    layers.sort_by_key(|(place, _)| *place);
    comparison.compared.extend(layers.into_iter().map(|(_, compared)| compared));
    Ok(comparison)
}

fn nothing(file: &Path, left_out: &[SkippedTensor]) -> Failure {
    let reasons: Vec<String> = left_out.iter().map(|one| format!("{}: {}", one.name, one.why)).collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
    Failure::about(file.display(), format!("the file has nothing that can be compared{reasons}"))
        .with_help("it must have `tokens_NAME` i64 [T] and `logits_NAME` f32 [T, V]: see check --help")
}

/// The largest absolute difference and its place; infinite if the sizes differ or a value is NaN.
fn compare(name: &str, width: usize, ours: &[f32], theirs: &[f32], limit: f32) -> TensorComparison {
    let mut difference = if ours.len() == theirs.len() { 0.0 } else { f32::INFINITY };
    let mut worst = None;
    for (at, (&ours, &theirs)) in ours.iter().zip(theirs).enumerate() {
        let apart = (ours - theirs).abs();
        let apart = if apart.is_nan() { f32::INFINITY } else { apart };
        if apart > difference || worst.is_none() {
            difference = difference.max(apart);
            let (row, column) = (at / width.max(1), at % width.max(1));
            worst = Some(LargestDifference { row, column, ours, theirs });
        }
    }
    let worst = worst.filter(|_| ours.len() == theirs.len());
    let rows = theirs.len() / width.max(1);
    TensorComparison { name: name.to_owned(), rows, difference, limit, passed: difference <= limit, worst }
}

impl TensorComparison {
    /// The result in one line.
    pub(crate) fn line(&self) -> String {
        let Self { name, rows, difference, limit, passed, worst } = self;
        let verdict = if *passed { "ok" } else { "DIFFERS" };
        let rows = crate::output::counted(*rows, "row");
        let head = format!("{name}: {rows}, largest difference {difference:.2e} (limit {limit:.1e})");
        let column = if name.starts_with("logits") { "token" } else { "channel" };
        match worst {
            Some(LargestDifference { row, column: at, ours, theirs }) if *difference > 0.0 => {
                format!("{head} at row {row}, {column} {at} ({ours}, reference {theirs}): {verdict}")
            }
            None => format!("{head}: {verdict}: the numbers of values differ"),
            Some(_) => format!("{head}: {verdict}"),
        }
    }
}

/// Compares the logits of two models for the same tokens.
pub(crate) fn between(
    first: &TextPipeline,
    second: &TextPipeline,
    tokens: &[u32],
) -> Result<TensorComparison, Failure> {
    let options = LogitsOptions::default();
    let (ours, theirs) = (logits(first, tokens, &options)?, logits(second, tokens, &options)?);
    Ok(compare("logits", ours.vocabulary, &ours.values, &theirs.values, 0.0))
}

/// The tokens of the longest pair in a reference file.
pub(crate) fn tokens_of(file: &Path) -> Result<Vec<u32>, Failure> {
    let reference = ReferenceFile::open(file)?;
    let (pairs, left_out) = reference.pairs();
    let longest = pairs.into_iter().max_by_key(|pair: &ReferencePair| pair.tokens.len());
    let left_out: Vec<SkippedTensor> =
        left_out.into_iter().map(|(name, why)| SkippedTensor { name, why }).collect();
    longest.map(|pair| pair.tokens).ok_or_else(|| nothing(file, &left_out))
}
