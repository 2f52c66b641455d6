//! What the components compute, over slices: no host, no file, no threads.
//!
//! Every result has one order of arithmetic, whatever the processor has: the same numbers come out with and without AVX2, and
//! however the caller shares heads and rows out over threads.

mod functions;
mod head;
mod shift;
mod sum;

pub use functions::{exp, sigmoid, sigmoid_rows, squared_relu_rows, tanh_rows};
pub use head::{FirstValues, HeadNorm, Heads, Projected};
pub use shift::{Shift, Span};
