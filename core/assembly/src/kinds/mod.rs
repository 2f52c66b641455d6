//! Factories of the built-in kinds: configs to components.

mod attention;
mod dense;
mod moe;
mod names;
mod norm;
mod qk_norm;
mod rope;
mod short_conv;
