//! The tokens of a file: texts, kinds, scores, and the look-up from text to id.

use gguf_file::Metadata;

use super::error::TokenizerError;
use super::keys;
use super::kind::TokenKind;
use super::text_index::TextIndex;

/// All tokens, the texts in one buffer.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    texts: String,
    ends: Vec<u32>,
    kinds: Vec<TokenKind>,
    scores: Vec<f32>,
    index: TextIndex,
}

impl Vocabulary {
    /// Reads `tokenizer.ggml.tokens`, `.token_type` and, where `with_scores`, `.scores`.
    ///
    /// Without types all tokens are normal, without scores all scores are 0.
    ///
    /// # Errors
    /// Missing tokens, a list of a wrong type, a list shorter than the tokens, an unknown type, or a duplicate text
    /// (a text would have two ids).
    pub(crate) fn read(metadata: &Metadata, with_scores: bool) -> Result<Self, TokenizerError> {
        let tokens = keys::strings(metadata, keys::TOKENS)?.ok_or(TokenizerError::MissingKey {
            key: keys::TOKENS,
            advice: "the file has no vocabulary; use a file with one, or token ids",
        })?;
        let kinds = read_kinds(metadata, tokens.len())?;
        let scores = if with_scores { read_scores(metadata, tokens.len())? } else { Vec::new() };
        let mut vocabulary = Self {
            texts: String::new(),
            ends: Vec::new(),
            kinds,
            scores,
            index: TextIndex::with_capacity(tokens.len()),
        };
        vocabulary.texts.reserve(tokens.raw().len().saturating_sub(8 * tokens.len()));
        vocabulary.ends.reserve(tokens.len());
        for (id, text) in tokens.strings().into_iter().flatten().enumerate() {
            match text {
                // llama.cpp gives empty entries distinct names.
                "" => vocabulary.texts.push_str(&format!("[EMPTY_{id}]")),
                text => vocabulary.texts.push_str(text),
            }
            let end = u32::try_from(vocabulary.texts.len())
                .map_err(|_| bad(keys::TOKENS, "more than 4 GiB of text"))?;
            vocabulary.ends.push(end);
        }
        vocabulary.fill_index().map_err(|(first, id, text)| {
            bad(keys::TOKENS, format!("tokens {first} and {id} have the same text {text:?}"))
        })?;
        Ok(vocabulary)
    }

    /// Texts in the order of their ids, all normal; ids without a text are unused, and named by their number.
    ///
    /// # Errors
    /// A duplicate text: both ids, and the text.
    pub(crate) fn of(texts: &[Option<&str>]) -> Result<Self, (u32, u32, String)> {
        let mut vocabulary = Self {
            texts: String::new(),
            ends: Vec::with_capacity(texts.len()),
            kinds: Vec::with_capacity(texts.len()),
            scores: Vec::new(),
            index: TextIndex::with_capacity(texts.len()),
        };
        for (id, text) in texts.iter().enumerate() {
            match text {
                None => vocabulary.texts.push_str(&format!("[PAD{id}]")),
                Some("") => vocabulary.texts.push_str(&format!("[EMPTY_{id}]")),
                Some(text) => vocabulary.texts.push_str(text),
            }
            vocabulary.ends.push(u32::try_from(vocabulary.texts.len()).unwrap_or(u32::MAX));
            vocabulary.kinds.push(if text.is_some() { TokenKind::Normal } else { TokenKind::Unused });
        }
        vocabulary.fill_index()?;
        Ok(vocabulary)
    }

    fn fill_index(&mut self) -> Result<(), (u32, u32, String)> {
        let (texts, ends) = (self.texts.as_str(), self.ends.as_slice());
        let text_of = |id: u32| text_at(texts, ends, id);
        for id in 0..u32::try_from(ends.len()).unwrap_or(u32::MAX) {
            if let Some(first) = self.index.insert(text_of(id), id, text_of) {
                return Err((first, id, text_of(id).to_owned()));
            }
        }
        Ok(())
    }

    /// The number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The text of a token as the file spells it, or `None` past the end.
    pub(crate) fn text(&self, id: u32) -> Option<&str> {
        (usize::try_from(id).ok()? < self.ends.len()).then(|| text_at(&self.texts, &self.ends, id))
    }

    /// The id with exactly this text.
    pub(crate) fn id(&self, text: &str) -> Option<u32> {
        self.index.get(text, |id| text_at(&self.texts, &self.ends, id))
    }

    /// The kind of a token; unused past the end.
    pub(crate) fn kind(&self, id: u32) -> TokenKind {
        let kind = usize::try_from(id).ok().and_then(|at| self.kinds.get(at));
        kind.copied().unwrap_or(TokenKind::Unused)
    }

    /// Changes the kind of a token.
    pub(crate) fn set_kind(&mut self, id: u32, kind: TokenKind) {
        if let Some(place) = usize::try_from(id).ok().and_then(|at| self.kinds.get_mut(at)) {
            *place = kind;
        }
    }

    /// The score of a token, 0 if the file has none.
    pub(crate) fn score(&self, id: u32) -> f32 {
        usize::try_from(id).ok().and_then(|at| self.scores.get(at)).copied().unwrap_or_default()
    }

    /// All tokens: id, text, kind.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &str, TokenKind)> {
        (0u32..).zip(&self.kinds).map(|(id, kind)| (id, text_at(&self.texts, &self.ends, id), *kind))
    }
}

fn text_at<'a>(texts: &'a str, ends: &[u32], id: u32) -> &'a str {
    let at = id as usize;
    let start = at.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
    let end = ends.get(at).copied().unwrap_or(start);
    texts.get(start as usize..end as usize).unwrap_or_default()
}

fn bad(key: &str, problem: impl Into<String>) -> TokenizerError {
    TokenizerError::BadKey { key: key.to_owned(), problem: problem.into() }
}

fn read_kinds(metadata: &Metadata, count: usize) -> Result<Vec<TokenKind>, TokenizerError> {
    let Some(list) = keys::array(metadata, keys::TOKEN_TYPE)? else {
        return Ok(vec![TokenKind::Normal; count]);
    };
    if list.len() < count {
        return Err(bad(keys::TOKEN_TYPE, format!("{} types for {count} tokens", list.len())));
    }
    let ids = list.integers().ok_or_else(|| {
        bad(keys::TOKEN_TYPE, format!("expected an array of integers, found one of {}", list.element_type()))
    })?;
    ids.take(count)
        .enumerate()
        .map(|(at, id)| {
            TokenKind::from_id(id).ok_or_else(|| {
                bad(keys::TOKEN_TYPE, format!("token {at} has the unknown type {id}; expected 0 to 6"))
            })
        })
        .collect()
}

fn read_scores(metadata: &Metadata, count: usize) -> Result<Vec<f32>, TokenizerError> {
    let Some(list) = keys::array(metadata, keys::SCORES)? else {
        // As llama.cpp; XVERSE's files have none.
        return Ok(vec![0.0; count]);
    };
    if list.len() < count {
        return Err(bad(keys::SCORES, format!("{} scores for {count} tokens", list.len())));
    }
    let numbers = list.numbers().ok_or_else(|| {
        bad(keys::SCORES, format!("expected an array of numbers, found one of {}", list.element_type()))
    })?;
    let scores: Vec<f32> = numbers.take(count).map(|score| score as f32).collect();
    match scores.iter().position(|score| score.is_nan()) {
        Some(at) => Err(bad(keys::SCORES, format!("the score of token {at} is not a number"))),
        None => Ok(scores),
    }
}
