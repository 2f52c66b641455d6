//! Plain scalar references of the kernels, for tests.

pub mod attention;
mod matmul;
pub mod norm;
pub mod pointwise;
pub mod rope;

pub use matmul::{matmul, rounded};
