//! [`InfillPart`]: the parts of a prompt for a text with a gap, and the tokens before them.

use super::error::TokenizerError;
use super::vocabulary::Vocabulary;
use crate::tables::TokenizerTables;

/// A part of a prompt for a text with a gap (fill in the middle).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InfillPart {
    /// The text in front of the gap.
    Prefix,
    /// The text behind the gap.
    Suffix,
    /// The text in the gap.
    Middle,
    /// Another file.
    File,
}

impl InfillPart {
    pub(crate) const ALL: [Self; 4] = [Self::Prefix, Self::Suffix, Self::Middle, Self::File];

    /// Its name in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::Suffix => "suffix",
            Self::Middle => "middle",
            Self::File => "file",
        }
    }
}

/// The token before each part, as far as there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InfillIds([Option<u32>; 4]);

impl InfillIds {
    /// The tokens that the file's keys name (`keyed` gives the token of a key), or that the tables know by text.
    ///
    /// # Errors
    /// The error of `keyed`.
    pub(crate) fn find(
        vocabulary: &Vocabulary,
        keyed: impl Fn(&str) -> Result<Option<u32>, TokenizerError>,
        tables: &TokenizerTables,
    ) -> Result<Self, TokenizerError> {
        let mut ids = Self::default();
        for entry in tables.infill() {
            let mut id = None;
            for key in &entry.keys {
                id = id.or(keyed(key)?);
            }
            let id = id.or_else(|| entry.texts.iter().find_map(|text| vocabulary.id(text)));
            if let Some(slot) = ids.0.get_mut(entry.part as usize) {
                *slot = id;
            }
        }
        Ok(ids)
    }

    pub(crate) fn of(&self, part: InfillPart) -> Option<u32> {
        self.0.get(part as usize).copied().flatten()
    }
}
