//! Tests of the tokenizer against references.

mod decoding;
mod fixtures;
mod gguf;
mod pre_tokenizers;
mod reference_bpe;
mod reference_spm;
mod segments;
