//! [`StagedAlgorithm`]: the stages of a `tokenizer.json`, one after the other.

use std::ops::Range;

use super::super::algorithm::Leading;
use super::super::budget::Budget;
use super::super::error::TokenizerError;
use super::super::regex_room::RegexRoom;
use super::super::special::Trust;
use super::super::vocabulary::Vocabulary;
use super::added::AddedSet;
use super::file::File;
use super::model::PieceModel;
use super::normalizer::Normalizer;
use super::part::refused;
use super::pre_tokenizer::PreTokenizer;
use super::spelling::Spelling;

/// The stages of a file.
#[derive(Debug)]
pub(crate) struct StagedAlgorithm {
    as_written: AddedSet,
    normalized: AddedSet,
    normalizer: Normalizer,
    pre_tokenizer: PreTokenizer,
    model: PieceModel,
    spelling: Spelling,
}

impl StagedAlgorithm {
    /// Reads all stages of a file.
    ///
    /// # Errors
    /// An unsupported or damaged stage.
    pub(super) fn read(file: &File, vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let room = RegexRoom::of_json(&[&file.normalizer, &file.pre_tokenizer]);
        let normalizer = Normalizer::read(&file.normalizer, room)?;
        let pre_tokenizer = PreTokenizer::read(&file.pre_tokenizer, room)?;
        if pre_tokenizer.asks_for_the_start() && normalizer.may_drop_the_start() {
            return Err(refused(
                "pre_tokenizer",
                "depends on the start of a text, which the normalizer may remove",
            ));
        }
        let [as_written, normalized] = AddedSet::both(&file.added_tokens, vocabulary, &normalizer)?;
        let spelling =
            Spelling::read(&file.decoder, pre_tokenizer.spells_letters() || normalizer.spells_letters())?;
        let model = PieceModel::read(&file.model, vocabulary)?;
        Ok(Self { as_written, normalized, normalizer, pre_tokenizer, model, spelling })
    }

    /// Appends the ids of a text; `trust` tells which parts may contain special tokens.
    ///
    /// # Errors
    /// A character that the vocabulary cannot express, a regex that fails, or an exhausted budget.
    pub(crate) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        trust: Trust<'_>,
        budget: &Budget,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        for (token, range) in self.as_written.cut(text, budget, |range| trust.covers(range))? {
            match token {
                Some(id) => out.push(id),
                None => self.part(vocabulary, Within { text, range, trust }, budget, out)?,
            }
        }
        Ok(())
    }

    fn part(
        &self,
        vocabulary: &Vocabulary,
        within: Within<'_>,
        budget: &Budget,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let own = within.text.get(within.range.clone()).unwrap_or_default();
        let text = self.normalizer.apply(own, budget)?;
        let starts = within.range.start == 0;
        if self.normalized.is_empty() {
            return self.pieces(vocabulary, (&text, starts), budget, out);
        }
        let trusted = self.trusted(&within, &text, budget)?;
        let trust = match &trusted {
            Some(ranges) => Trust::Ranges(ranges),
            None => within.trust,
        };
        for (token, range) in self.normalized.cut(&text, budget, |range| trust.covers(range))? {
            match token {
                Some(id) => out.push(id),
                None => {
                    let piece = text.get(range.clone()).unwrap_or_default();
                    self.pieces(vocabulary, (piece, starts && range.start == 0), budget, out)?;
                }
            }
        }
        Ok(())
    }

    /// Appends the ids of a text without added tokens, and whether it begins at the start of the whole text.
    fn pieces(
        &self,
        vocabulary: &Vocabulary,
        (text, at_start): (&str, bool),
        budget: &Budget,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        for piece in self.pre_tokenizer.apply(text, at_start, budget)?.iter() {
            self.model.encode(vocabulary, piece, budget, out)?;
        }
        Ok(())
    }

    /// The trusted ranges of a part as ranges of its normalized text; `None` if all or nothing is trusted. A range is
    /// located by normalizing the text before its borders; if normalization joined characters across a border, they
    /// are not trusted.
    fn trusted(
        &self,
        within: &Within<'_>,
        normal: &str,
        budget: &Budget,
    ) -> Result<Option<Vec<Range<usize>>>, TokenizerError> {
        let Trust::Ranges(ranges) = within.trust else {
            return Ok(None);
        };
        if !self.normalized.has_guarded() {
            return Ok(None);
        }
        let mut found = Vec::new();
        for range in ranges {
            let start = range.start.max(within.range.start);
            let end = range.end.min(within.range.end);
            if start >= end {
                continue;
            }
            let place = |at: usize| self.place(within, at, normal, &budget.again());
            if let (Some(start), Some(end)) = (place(start)?, place(end)?) {
                found.push(start..end);
            }
        }
        Ok(Some(found))
    }

    /// The position in the normalized text of a part for a position in the text.
    fn place(
        &self,
        within: &Within<'_>,
        at: usize,
        normal: &str,
        budget: &Budget,
    ) -> Result<Option<usize>, TokenizerError> {
        if self.normalizer.is_empty() || at == within.range.start {
            return Ok(Some(at - within.range.start));
        }
        if at == within.range.end {
            return Ok(Some(normal.len()));
        }
        let before = within.text.get(within.range.start..at).unwrap_or_default();
        let before = self.normalizer.apply(before, budget)?;
        Ok(normal.starts_with(before.as_ref()).then_some(before.len()))
    }

    /// The bytes that an ordinary token's text stands for.
    pub(crate) fn bytes(&self, text: &str) -> Vec<u8> {
        self.spelling.bytes(text)
    }

    /// The treatment of leading spaces of a text.
    pub(crate) fn leading(&self) -> Leading {
        self.spelling.leading()
    }
}

/// A part of a text.
#[derive(Debug, Clone)]
struct Within<'t> {
    text: &'t str,
    range: Range<usize>,
    trust: Trust<'t>,
}
