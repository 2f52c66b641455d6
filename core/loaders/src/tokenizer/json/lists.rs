//! The long lists of a `tokenizer.json`: tokens and merges, with their strings in one buffer each.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Strings in one buffer.
#[derive(Debug, Default)]
pub(crate) struct StringList {
    buffer: String,
    ends: Vec<usize>,
}

impl StringList {
    fn push(&mut self, text: &str) {
        self.buffer.push_str(text);
        self.ends.push(self.buffer.len());
    }

    /// The number of strings.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// One string; empty past the end.
    pub(crate) fn get(&self, at: usize) -> &str {
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
        let end = self.ends.get(at).copied().unwrap_or(start);
        self.buffer.get(start..end).unwrap_or_default()
    }
}

/// Reads a string and appends it to the buffer.
struct Append<'a>(&'a mut StringList);

impl<'de> DeserializeSeed<'de> for Append<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Append<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.push(text);
        Ok(())
    }
}

/// Tokens with their ids (an object: text to id) or their scores (a list of pairs, whose positions are the ids).
#[derive(Debug, Default)]
pub(crate) struct TokenList {
    pub(crate) texts: StringList,
    /// One for each text.
    pub(crate) ids: Vec<u64>,
    /// One for each text, or none.
    pub(crate) scores: Vec<f64>,
}

impl TokenList {
    /// Tokens whose ids are their positions, starting with `first`.
    pub(crate) fn of<'t>(first: u64, texts: impl Iterator<Item = &'t str>) -> Self {
        let mut tokens = Self::default();
        for (id, text) in (first..).zip(texts) {
            tokens.texts.push(text);
            tokens.ids.push(id);
        }
        tokens
    }
}

impl<'de> Deserialize<'de> for TokenList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TokensVisitor)
    }
}

struct TokensVisitor;

impl<'de> Visitor<'de> for TokensVisitor {
    type Value = TokenList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tokens with ids, or a list of tokens with scores")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TokenList, A::Error> {
        let mut tokens = TokenList::default();
        while map.next_key_seed(Append(&mut tokens.texts))?.is_some() {
            tokens.ids.push(map.next_value()?);
        }
        Ok(tokens)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<TokenList, A::Error> {
        let mut tokens = TokenList::default();
        while let Some(score) = list.next_element_seed(ScoreSeed(&mut tokens.texts))? {
            tokens.ids.push(tokens.ids.len() as u64);
            tokens.scores.push(score);
        }
        Ok(tokens)
    }
}

/// A token with its score.
struct ScoreSeed<'a>(&'a mut StringList);

impl<'de> DeserializeSeed<'de> for ScoreSeed<'_> {
    type Value = f64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<f64, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ScoreSeed<'_> {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token and its score")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<f64, A::Error> {
        let short = || A::Error::custom("expected a token and its score");
        pair.next_element_seed(Append(self.0))?.ok_or_else(short)?;
        let score = pair.next_element()?.ok_or_else(short)?;
        match pair.next_element::<serde::de::IgnoredAny>()? {
            None => Ok(score),
            Some(_) => Err(A::Error::custom("expected a token and its score, found more values")),
        }
    }
}

/// Merges in order: two strings each, written `"a b"` or `["a", "b"]`.
#[derive(Debug, Default)]
pub(crate) struct MergeList {
    texts: StringList,
}

impl MergeList {
    /// Merges of these pairs.
    pub(crate) fn of<T: AsRef<str>>(pairs: impl Iterator<Item = [T; 2]>) -> Self {
        let mut merges = Self::default();
        pairs.for_each(|pair| pair.iter().for_each(|part| merges.texts.push(part.as_ref())));
        merges
    }

    /// The number of merges.
    pub(crate) fn len(&self) -> usize {
        self.texts.len() / 2
    }

    /// The two parts of each merge.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.texts.len() / 2).map(|at| (self.texts.get(2 * at), self.texts.get(2 * at + 1)))
    }
}

impl<'de> Deserialize<'de> for MergeList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(MergesVisitor)
    }
}

struct MergesVisitor;

impl<'de> Visitor<'de> for MergesVisitor {
    type Value = MergeList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of merges")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<MergeList, A::Error> {
        let mut merges = MergeList::default();
        while list.next_element_seed(MergeSeed(&mut merges.texts))?.is_some() {}
        Ok(merges)
    }
}

/// One merge.
struct MergeSeed<'a>(&'a mut StringList);

impl<'de> DeserializeSeed<'de> for MergeSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MergeSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a merge: \"a b\" or [\"a\", \"b\"]")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        // The first line of the former merges.txt.
        if text.starts_with("#version") {
            return Ok(());
        }
        match text.split_once(' ').filter(|(_, right)| !right.contains(' ')) {
            Some((left, right)) => {
                self.0.push(left);
                self.0.push(right);
                Ok(())
            }
            None => Err(E::custom(format!(
                "the merge {text:?} does not consist of two parts with a space between them"
            ))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<(), A::Error> {
        let wrong = || A::Error::custom("a merge has two parts");
        pair.next_element_seed(Append(self.0))?.ok_or_else(wrong)?;
        pair.next_element_seed(Append(self.0))?.ok_or_else(wrong)?;
        match pair.next_element::<serde::de::IgnoredAny>()? {
            None => Ok(()),
            Some(_) => Err(wrong()),
        }
    }
}
