//! Bits of routers and of the sum over experts: a token takes the same experts with the same weights, and the sum of
//! their outputs has the same bits, alone and next to any other tokens, on any number of threads and every instruction
//! set; they equal those of `ordered`.
#![allow(missing_docs, clippy::unwrap_used)]

mod experts;
mod ordered;
mod router;

/// The bits of numbers; one pattern for every NaN, because processors have several.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| if v.is_nan() { f32::NAN.to_bits() } else { v.to_bits() }).collect()
}
