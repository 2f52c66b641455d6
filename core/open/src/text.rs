//! The tokenizer of a file as a capability: [`FileTokenizer`]; what a file has of text: [`TextCapabilities`].

use crate::chat_template::TemplateFormat;
use crate::notice::Notice;
use crate::options::TemplateSource;
use crate::resolved::ResolvedFile;
use crate::tables::tokenizer_tables;
use menagerie_engine::{ChatCapable, InfillTokens, MissingCapability, TextError, TextStream, Tokenizing};
use menagerie_loaders::{
    ChatTemplate, InfillPart, Segment, Special, TextDecoder, TokenKind, Tokenizer, TokenizerOptions,
    TokenizerTables,
};
use std::sync::Arc;

/// The tokenizer of a file.
#[derive(Clone, Debug)]
pub(crate) struct FileTokenizer {
    pub(crate) tokenizer: Tokenizer,
    /// The template `rerank` of the file: the prompt of a reranker with `{query}` and `{document}` as placeholders.
    /// `None`: the two texts follow each other.
    pub(crate) pair: Option<String>,
}

impl FileTokenizer {
    /// The template with the texts in it. Only the text of the template can contain special tokens.
    fn in_template(&self, template: &str, first: &str, second: &str) -> Result<Vec<u32>, TextError> {
        let mut segments = Vec::new();
        for (at, part) in template.split("{query}").enumerate() {
            if at > 0 {
                segments.push(Segment::untrusted(first));
            }
            for (at, part) in part.split("{document}").enumerate() {
                if at > 0 {
                    segments.push(Segment::untrusted(second));
                }
                segments.push(Segment::trusted(part));
            }
        }
        self.tokenizer.encode_segments(&segments).map_err(TextError::new)
    }

    /// The template with as much of the second text as fits into `most` tokens, and the number of tokens that were cut.
    fn in_template_within(
        &self,
        template: &str,
        (first, second): (&str, &str),
        most: usize,
    ) -> Result<(Vec<u32>, usize), TextError> {
        let whole = self.in_template(template, first, second)?;
        if whole.len() <= most {
            return Ok((whole, 0));
        }
        let ends: Vec<usize> = second.char_indices().map(|(at, _)| at).collect();
        // Numbers of characters of the second text: `fits` is the largest known to fit, `too_many` does not fit.
        let (mut fits, mut too_many) = (0, ends.len());
        let mut kept = self.in_template(template, first, "")?;
        while fits + 1 < too_many {
            let middle = fits.midpoint(too_many);
            let ids = self.in_template(template, first, &second[..ends[middle]])?;
            if ids.len() <= most {
                (fits, kept) = (middle, ids);
            } else {
                too_many = middle;
            }
        }
        let cut = whole.len().saturating_sub(kept.len());
        Ok((kept, cut))
    }
}

/// Lengths of two texts after `cut` tokens are removed: from the longer text first, then from both.
fn longest_first(lengths: [usize; 2], cut: usize) -> [usize; 2] {
    let [first, second] = lengths;
    let room = (first + second).saturating_sub(cut);
    let (short, long) = (first.min(second), first.max(second));
    let (short, long) = match room.checked_sub(short) {
        Some(rest) if rest >= short => (short, rest.min(long)),
        _ => (room / 2, room - room / 2),
    };
    if first > second { [long, short] } else { [short, long] }
}

/// The text of an answer, token by token.
struct FileStream(TextDecoder);

impl TextStream for FileStream {
    fn push(&mut self, id: u32) -> Result<String, TextError> {
        self.0.push(id).map_err(TextError::new)
    }

    fn finish(&mut self) -> String {
        self.0.flush()
    }
}

impl Tokenizing for FileTokenizer {
    fn vocabulary(&self) -> usize {
        self.tokenizer.vocab_size()
    }

    fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, TextError> {
        Ok(self.tokenizer.frame(self.encode(text)?))
    }

    fn encode_prompt_within(&self, text: &str, most: usize) -> Result<(Vec<u32>, usize), TextError> {
        let mut ids = self.encode(text)?;
        let whole = self.tokenizer.frame(ids.clone());
        let cut = whole.len().saturating_sub(most).min(ids.len());
        if cut == 0 {
            return Ok((whole, 0));
        }
        ids.truncate(ids.len() - cut);
        Ok((self.tokenizer.frame(ids), cut))
    }

    fn beginning(&self) -> Option<u32> {
        self.tokenizer.bos().filter(|_| self.tokenizer.adds_bos())
    }

    fn encode_pair(&self, first: &str, second: &str) -> Result<(Vec<u32>, usize), TextError> {
        if let Some(template) = &self.pair {
            let ids = self.in_template(template, first, second)?;
            let end = ids.len();
            return Ok((ids, end));
        }
        let (first, second) = (self.encode(first)?, self.encode(second)?);
        Ok(self.tokenizer.frame_pair(first, &second))
    }

    fn encode_pair_within(
        &self,
        first: &str,
        second: &str,
        most: usize,
    ) -> Result<((Vec<u32>, usize), usize), TextError> {
        if let Some(template) = &self.pair {
            let (ids, cut) = self.in_template_within(template, (first, second), most)?;
            let end = ids.len();
            return Ok(((ids, end), cut));
        }
        let (mut first, mut second) = (self.encode(first)?, self.encode(second)?);
        let whole = self.tokenizer.frame_pair(first.clone(), &second);
        let cut = whole.0.len().saturating_sub(most).min(first.len() + second.len());
        if cut == 0 {
            return Ok((whole, 0));
        }
        let [one, two] = longest_first([first.len(), second.len()], cut);
        first.truncate(one);
        second.truncate(two);
        Ok((self.tokenizer.frame_pair(first, &second), cut))
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        self.tokenizer.encode(text, Special::Plain).map_err(TextError::new)
    }

    fn piece(&self, id: u32) -> String {
        self.tokenizer.token_piece(id).unwrap_or_default()
    }

    fn bytes(&self, id: u32) -> Vec<u8> {
        self.tokenizer.token_bytes(id).unwrap_or_default()
    }

    fn is_control(&self, id: u32) -> bool {
        matches!(self.tokenizer.token_kind(id), Ok(TokenKind::Control | TokenKind::Unknown))
    }

    fn control_text(&self, id: u32) -> Option<String> {
        self.is_control(id).then(|| self.tokenizer.token_text(id).ok().map(str::to_owned))?
    }

    fn end_of_generation(&self) -> &[u32] {
        self.tokenizer.end_of_generation()
    }

    fn infill(&self) -> Option<InfillTokens> {
        let token = |part| self.tokenizer.infill_token(part);
        let (prefix, suffix) = (token(InfillPart::Prefix)?, token(InfillPart::Suffix)?);
        let tokens = InfillTokens::new(prefix, suffix, token(InfillPart::Middle)?);
        Some(tokens.with_file(token(InfillPart::File)))
    }

    fn stream(&self) -> Box<dyn TextStream + Send> {
        Box::new(FileStream(TextDecoder::new(&self.tokenizer)))
    }
}

/// Tokenizer and chat format, or the reasons why they are missing.
pub(crate) struct TextCapabilities {
    pub(crate) tokenizer: Result<Arc<dyn Tokenizing>, MissingCapability>,
    pub(crate) chat_format: Result<Arc<dyn ChatCapable>, MissingCapability>,
    /// Notices about the tables of spec folders.
    pub(crate) notices: Vec<Notice>,
}

impl TextCapabilities {
    pub(crate) fn read(resolved: &ResolvedFile, template: Option<&TemplateSource>) -> Self {
        let model = resolved.name();
        let config = &resolved.config().tokenizer;
        let (tables, notices) = match tokenizer_tables(&resolved.environment) {
            Ok(tables) => tables,
            Err(error) => return Self::without(model, &error.to_string()),
        };
        let own = TokenizerOptions::default().with_pre(config.pre.as_deref()).with_tables(tables.clone());
        match resolved.file.tokenizer(&own) {
            Ok(tokenizer) => {
                let tokenizer = tokenizer.with_end_tokens(&config.end);
                let chat_format = chat_format(resolved, template, &tokenizer, &tables)
                    .map_err(|reason| MissingCapability::ChatTemplate { model, reason });
                let pair = match resolved.file.template_source("rerank") {
                    Ok(pair) => pair,
                    Err(error) => return Self::without(resolved.name(), &error.to_string()),
                };
                Self { tokenizer: Ok(Arc::new(FileTokenizer { tokenizer, pair })), chat_format, notices }
            }
            Err(error) => Self::without(model, &error.to_string()),
        }
    }

    fn without(model: String, reason: &str) -> Self {
        let missing = MissingCapability::Tokenizer { model, reason: reason.to_owned() };
        Self { tokenizer: Err(missing.clone()), chat_format: Err(missing), notices: Vec::new() }
    }

    pub(crate) fn failed(resolved: &ResolvedFile) -> Self {
        Self::without(
            resolved.name(),
            "building the tokenizer failed (a defect: please report it with the file's name)",
        )
    }
}

/// The user's template, that of the file, or that of the spec.
fn chat_format(
    resolved: &ResolvedFile,
    template: Option<&TemplateSource>,
    tokenizer: &Tokenizer,
    tables: &TokenizerTables,
) -> Result<Arc<dyn ChatCapable>, String> {
    let compile = |name: &str, source: &str| {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id).ok());
        let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos()));
        ChatTemplate::new(name, source, bos, eos).map(Some).map_err(|error| error.to_string())
    };
    let template = match (template, &resolved.config().chat_fallback) {
        (Some(given), _) => compile(&given.name, &given.source)?,
        (None, fallback) => {
            match resolved.file.chat_template(tokenizer).map_err(|error| error.to_string())? {
                None => match fallback {
                    Some(fallback) => compile("fallback of the spec", tables.chat_template_of(fallback)?)?,
                    None => None,
                },
                own => own,
            }
        }
    };
    let template = template.ok_or_else(|| "the file has no chat template".to_owned())?;
    Ok(Arc::new(TemplateFormat::new(template, tokenizer.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a text's tokens are the text, in a vocabulary of parts of characters.
    #[test]
    fn tokens_have_bytes_and_control_tokens_are_told_from_text() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tok/longest/vocab.gguf");
        let file = gguf_file::GgufFile::open(file, &gguf_file::OpenOptions::default()).unwrap();
        let tokenizer = Tokenizer::from_gguf(file.metadata(), &TokenizerOptions::default()).unwrap();
        let tokenizer = FileTokenizer { tokenizer, pair: None };
        for text in ["The License", "é€\u{1F600}", "a\0b\n"] {
            let ids = Tokenizing::encode(&tokenizer, text).unwrap();
            let bytes: Vec<u8> = ids.iter().flat_map(|id| tokenizer.bytes(*id)).collect();
            assert_eq!(bytes, text.as_bytes(), "{text:?}");
            assert!(!ids.iter().any(|id| tokenizer.is_control(*id)), "{text:?}");
        }
        for id in 0..=tokenizer.vocabulary() as u32 {
            assert_eq!(tokenizer.is_control(id), tokenizer.control_text(id).is_some(), "{id}");
        }
        let past = tokenizer.vocabulary() as u32;
        assert_eq!((tokenizer.bytes(past), tokenizer.is_control(past)), (Vec::new(), false));
    }

    /// Against the definition: one token at a time leaves the longer text, the second one where both are equally long.
    #[test]
    fn the_longer_text_is_cut_first() {
        for first in 0..12usize {
            for second in 0..12usize {
                for cut in 0..=first + second {
                    let [mut one, mut two] = [first, second];
                    for _ in 0..cut {
                        if one > two { one -= 1 } else { two -= 1 }
                    }
                    let found = longest_first([first, second], cut);
                    let sum = |lengths: [usize; 2]| lengths[0] + lengths[1];
                    assert_eq!(sum(found), sum([one, two]), "{first} {second} {cut}");
                    // The definition does not determine which of two equally long texts loses its last token first.
                    assert!(
                        found[0].abs_diff(one) <= 1 && found[0] <= first && found[1] <= second,
                        "{found:?}"
                    );
                }
            }
        }
    }
}
