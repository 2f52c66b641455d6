//! The order of arithmetic in its plainest form: f32, one operation after the other, fused where the guide of
//! `menagerie-kernels` says fused. While [`naive`](crate::naive) is the reference, this is the definition: every kernel
//! on every instruction set, for one row and for many, equals it bit for bit. Slow.

pub mod attention;
pub mod float_product;
pub mod functions;
pub mod linear_attention;
pub mod product;
pub mod rows;
pub mod selective_scan;
pub mod short_conv;
