//! [`Adapter`]: the changes of an adapter at each site of one model.

use super::magnitude::Magnitude;
use crate::low_rank::LowRank;
use crate::param::Param;

/// An adapter in the form that a model uses: its part at each site, by number. Immutable.
#[derive(Debug)]
pub struct Adapter {
    name: String,
    parts: Vec<Option<SitePart>>,
}

/// The part of an adapter at a site.
// One for each site of a model: nearly all are linears, and a box would add an indirection to each of their products.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum SitePart {
    /// At a linear.
    Linear(LinearPart),
    /// At a stack of experts.
    Experts(LowRank),
    /// At a table of tokens.
    Table(TablePart),
}

/// The part of an adapter at a linear; every field is optional.
#[derive(Clone, Debug, Default)]
pub struct LinearPart {
    /// Added to the product.
    pub low_rank: Option<LowRank>,
    /// Trained bias minus that of the model, `[out]`: added once, whatever the adapter's weight.
    pub bias: Option<Param>,
    /// DoRA's lengths.
    pub magnitude: Option<Magnitude>,
    /// A weight that replaces the model's (PEFT's `modules_to_save`), whatever the adapter's weight.
    pub whole: Option<FullWeight>,
}

/// A weight and a bias that replace the model's.
#[derive(Clone, Debug)]
pub struct FullWeight {
    /// `[out, in]`.
    pub weight: Param,
    /// `[out]`.
    pub bias: Option<Param>,
}

/// The part of an adapter at a table of tokens.
#[derive(Clone, Debug)]
pub enum TablePart {
    /// Added to the rows.
    LowRank(LowRank),
    /// A table that replaces the model's, `[V, D]`.
    Whole(Param),
}

impl Adapter {
    /// An adapter with its parts in the order of the sites.
    pub fn new(name: &str, parts: Vec<Option<SitePart>>) -> Self {
        Self { name: name.to_owned(), parts }
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does at a site.
    pub fn part(&self, site: usize) -> Option<&SitePart> {
        self.parts.get(site)?.as_ref()
    }

    /// By number of the site, its part there.
    pub fn parts(&self) -> &[Option<SitePart>] {
        &self.parts
    }

    pub(crate) fn linear(&self, site: usize) -> Option<&LinearPart> {
        match self.part(site) {
            Some(SitePart::Linear(part)) => Some(part),
            _ => None,
        }
    }

    pub(crate) fn experts(&self, site: usize) -> Option<&LowRank> {
        match self.part(site) {
            Some(SitePart::Experts(part)) => Some(part),
            _ => None,
        }
    }

    pub(crate) fn table(&self, site: usize) -> Option<&TablePart> {
        match self.part(site) {
            Some(SitePart::Table(part)) => Some(part),
            _ => None,
        }
    }
}
