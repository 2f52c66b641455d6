//! Tests of the tokenizer against references.

mod damaged;
mod decoding;
mod ends;
mod fixtures;
mod gguf;
mod pre_tokenizers;
mod reference_bpe;
mod reference_spm;
mod segments;
