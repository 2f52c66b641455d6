//! [`Kinds`]: the kinds that a spec may name.

use super::check::TableCheck;
use super::{Family, Kind, Table};

/// The kinds that a spec may name: the built-in ones and those of other crates and plugins.
#[derive(Clone, Debug)]
pub struct Kinds {
    /// The table of a spec file: its sections must not share names of tables with the kinds.
    pub(crate) file: &'static Table,
    pub(crate) kinds: Vec<&'static Kind>,
}

/// A kind that cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KindsError {
    /// Two kinds of one family have one name.
    #[error(
        "{family} kind `{name}` is registered twice; rename one of them, or link only one of the crates that bring it"
    )]
    Duplicate {
        /// The family.
        family: &'static str,
        /// The name.
        name: &'static str,
    },
    /// The kind's table contradicts itself.
    #[error("{family} kind `{name}` cannot be used: {why}")]
    Table {
        /// The family.
        family: &'static str,
        /// The name.
        name: &'static str,
        /// What is wrong with its table.
        why: String,
    },
}

impl Kinds {
    /// These kinds and more. A kind that is already present changes nothing; a kind without an implementation can be
    /// replaced.
    ///
    /// # Errors
    /// A family and name of another kind, or a table that contradicts itself.
    pub fn with(mut self, more: impl IntoIterator<Item = &'static Kind>) -> Result<Kinds, KindsError> {
        let mut checked = TableCheck::new(self.file);
        for kind in &self.kinds {
            checked.kind(kind).map_err(|why| refused(kind, why))?;
        }
        for kind in more {
            checked.kind(kind).map_err(|why| refused(kind, why))?;
            match self.kinds.iter().position(|old| **old == *kind) {
                Some(index) if self.kinds[index].is_same(kind) => {}
                Some(index) if !self.kinds[index].is_built_in() => self.kinds[index] = kind,
                Some(_) => return Err(KindsError::Duplicate { family: kind.family.name(), name: kind.name }),
                None => self.kinds.push(kind),
            }
        }
        Ok(self)
    }

    /// The kind of a name.
    pub fn find(&self, family: Family, name: &str) -> Option<&'static Kind> {
        self.of(family).find(|kind| kind.name == name)
    }

    /// Whether any of them comes from a plugin: its id is the prefix of the name.
    pub(crate) fn has_plugin(&self, id: &str) -> bool {
        self.kinds.iter().any(|kind| kind.name.split_once(':').is_some_and(|(plugin, _)| plugin == id))
    }

    /// The kinds of a family, built-in ones first.
    pub fn of(&self, family: Family) -> impl Iterator<Item = &'static Kind> {
        self.kinds.iter().copied().filter(move |kind| kind.family == family)
    }
}

fn refused(kind: &Kind, why: String) -> KindsError {
    KindsError::Table { family: kind.family.name(), name: kind.name, why }
}
