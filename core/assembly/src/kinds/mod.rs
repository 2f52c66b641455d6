//! Factories of the built-in kinds: configs to components.

mod attention;
mod dense;
mod gated_delta_net;
mod kda;
mod latent_attention;
mod linear;
mod mamba1;
mod mamba2;
mod mamba2_low_rank;
mod moe;
mod names;
mod norm;
mod per_layer_input;
mod qk_norm;
mod recurrent;
mod rope;
mod shared_attention;
mod short_conv;
mod sum;
