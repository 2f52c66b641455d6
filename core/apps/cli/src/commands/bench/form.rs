//! [`OutputForm`]: the form that measurements are printed in.

use crate::commands::bench::delimited::Delimited;

/// The output form that `--format` and `--json` select.
#[derive(Clone, Copy, Debug)]
pub(super) enum OutputForm {
    Columns,
    Delimited(Delimited),
    Json,
}

/// The mean of samples; 0 for an empty list.
pub(super) fn mean_of(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}
