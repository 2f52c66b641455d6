//! Tokenizers of files, as the engine gets them.

use menagerie_engine::{TextError, TextStream, Tokenizing};
use menagerie_loaders::{HfTexts, Special, TextDecoder, TokenKind, Tokenizer, TokenizerOptions};
use std::sync::Arc;

/// A path below the fixtures.
pub(crate) fn fixture(path: &str) -> String {
    format!("{}/../../tests/fixtures/{path}", env!("CARGO_MANIFEST_DIR"))
}

/// The tokenizers of these names: byte pairs (GPT-2, Llama 3), sentencepiece, and longest match over bytes (RWKV).
pub(crate) const NAMES: [&str; 4] = ["gpt2", "llama3", "spm", "longest"];

pub(crate) fn tokenizer(name: &str) -> Arc<dyn Tokenizing> {
    let folder = fixture(&format!("tok/{name}"));
    let options = TokenizerOptions::default();
    let tokenizer = match name {
        "longest" => {
            let file =
                gguf_file::GgufFile::open(format!("{folder}/vocab.gguf"), &Default::default()).unwrap();
            Tokenizer::from_gguf(file.metadata(), &options).unwrap()
        }
        _ => HfTexts::open(&folder).unwrap().tokenizer(&options).unwrap(),
    };
    Arc::new(FileTokens(tokenizer))
}

struct FileTokens(Tokenizer);

struct Stream(TextDecoder);

impl TextStream for Stream {
    fn push(&mut self, id: u32) -> Result<String, TextError> {
        self.0.push(id).map_err(TextError::new)
    }

    fn finish(&mut self) -> String {
        self.0.flush()
    }
}

impl Tokenizing for FileTokens {
    fn vocabulary(&self) -> usize {
        self.0.vocab_size()
    }

    fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, TextError> {
        self.encode(text)
    }

    fn encode_prompt_within(&self, _: &str, _: usize) -> Result<(Vec<u32>, usize), TextError> {
        Err(TextError::new("not in these tests"))
    }

    fn beginning(&self) -> Option<u32> {
        None
    }

    fn encode_pair(&self, _: &str, _: &str) -> Result<(Vec<u32>, usize), TextError> {
        Err(TextError::new("not in these tests"))
    }

    fn encode_pair_within(
        &self,
        _: &str,
        _: &str,
        _: usize,
    ) -> Result<((Vec<u32>, usize), usize), TextError> {
        Err(TextError::new("not in these tests"))
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        self.0.encode(text, Special::Plain).map_err(TextError::new)
    }

    fn piece(&self, id: u32) -> String {
        self.0.token_piece(id).unwrap_or_default()
    }

    fn bytes(&self, id: u32) -> Vec<u8> {
        self.0.token_bytes(id).unwrap_or_default()
    }

    fn is_control(&self, id: u32) -> bool {
        matches!(self.0.token_kind(id), Ok(TokenKind::Control | TokenKind::Unknown))
    }

    fn control_text(&self, id: u32) -> Option<String> {
        self.is_control(id).then(|| self.piece(id))
    }

    fn end_of_generation(&self) -> &[u32] {
        self.0.end_of_generation()
    }

    fn stream(&self) -> Box<dyn TextStream + Send> {
        Box::new(Stream(TextDecoder::new(&self.0)))
    }
}
