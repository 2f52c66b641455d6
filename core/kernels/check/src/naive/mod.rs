//! The kernels as plainly as they can be written, in f64.

pub mod attention;
mod matmul;
pub mod norm;
pub mod pointwise;
pub mod rope;
pub mod short_conv;

pub use matmul::{matmul, rounded};
