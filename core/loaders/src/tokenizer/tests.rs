//! Tests of the tokenizer against references.

mod codecs;
mod damaged;
mod decoding;
mod ends;
mod fixtures;
pub(crate) mod gguf;
pub(crate) mod long_texts;
mod pre_tokenizers;
mod reference_bpe;
mod reference_spm;
mod segments;
mod small_vocabularies;
