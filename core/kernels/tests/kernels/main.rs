//! Every kernel on every instruction set of this machine against the plain forms of `menagerie-kernels-check`, and
//! equality of bits where it is required.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod attention;
mod blocks;
mod broken;
mod cache;
mod linear_attention;
mod low_rank;
mod matmul;
mod norm;
mod one_answer;
mod pointwise;
mod rope;
mod selective_scan;
mod short_conv;
mod softmax;
