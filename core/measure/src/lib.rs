//! Measurements of an open model: logits, perplexity and divergence, speed, importance, control vectors, and the
//! training of a mixture's gates.
//!
//! Each measurement is a function of a `TextPipeline`: [`logits()`], [`perplexity()`], [`bench()`], [`bench_together()`].
//! [`make_control_vector`] and [`gate_rows`] take a loaded model. [`ImportanceCollector`] wraps the linears of a model while it is opened.
#![forbid(unsafe_code)]

mod bench;
mod control;
mod gates;
mod importance;
mod logits;
mod perplexity;

pub use bench::{
    BenchOptions, BenchProgress, BenchResult, Rate, TogetherOptions, TogetherResult, bench, bench_together,
};
pub use control::{
    ControlVector, ControlVectorError, ControlVectorOption, DirectionMethod, PromptPair, SteeringOptions,
    make_control_vector, steering,
};
pub use gates::{GateExample, GateRows, GateScore, GateTrainer, GateTrainingOptions, gate_rows, gate_shares};
pub use importance::ImportanceCollector;
pub use logits::{Logits, LogitsOptions, logits, logits_by_step};
pub use perplexity::{
    Against, BaseReader, BaseText, BaseWriter, Divergence, Estimate, PerplexityOptions, PerplexityProgress,
    PerplexityResult, TextChunks, encode_row, perplexity,
};
