//! Comparisons of a model with a reference file or with another spec, and tests of a tiny model of a spec.

pub(crate) mod against;
pub(crate) mod comparison;
mod layer_values;
mod reference_file;
pub(crate) mod tiny_run;
