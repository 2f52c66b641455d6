//! The kernels in their plainest form, in f64.

pub mod attention;
pub mod linear_attention;
mod matmul;
pub mod norm;
pub mod pointwise;
pub mod rope;
pub mod selective_scan;
pub mod short_conv;

pub use matmul::{matmul, rounded};
