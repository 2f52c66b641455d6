//! RWKV-7 agrees with llama.cpp, however its arithmetic is reached: by kinds that are linked in, and by the plugin.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod agrees;
mod eight_bits;
mod equal;
mod stages;
mod states;
mod tokenizer;
mod way;
