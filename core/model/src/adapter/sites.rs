//! [`AdapterSites`]: numbers every place of a model where an adapter may act.

use super::experts::AdaptedExperts;
use super::linear::AdaptedLinear;
use super::table::AdaptedTable;
use crate::experts::ExpertLinear;
use crate::linear::Linear;
use crate::param::WeightShape;
use crate::table::Table;
use crate::wrapper::{LinearSite, LinearWrapper};
use std::sync::{Mutex, PoisonError};

/// A place where an adapter may act; its number is its index in [`AdapterSites::into_sites`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterSite {
    /// Role, block, and rows of the stored weight.
    pub place: LinearSite,
    /// What stands there.
    pub shape: SiteShape,
}

/// The kind and the size of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteShape {
    /// A linear: one matrix `[out, in]`.
    Linear(WeightShape),
    /// A stack of experts, `[E, out, in]`.
    Experts(WeightShape),
    /// A table of tokens, `[V, D]`.
    Table(WeightShape),
}

impl SiteShape {
    /// The sizes alone.
    pub fn sizes(&self) -> WeightShape {
        match *self {
            Self::Linear(shape) | Self::Experts(shape) | Self::Table(shape) => shape,
        }
    }
}

/// The wrapper that lets a model take adapters: everything that it wraps gets a number.
#[derive(Debug, Default)]
pub struct AdapterSites {
    sites: Mutex<Vec<AdapterSite>>,
}

impl AdapterSites {
    /// The sites, in the order of their numbers.
    pub fn into_sites(self) -> Vec<AdapterSite> {
        self.sites.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self, place: &LinearSite, shape: SiteShape) -> usize {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        sites.push(AdapterSite { place: place.clone(), shape });
        sites.len() - 1
    }
}

impl LinearWrapper for AdapterSites {
    fn linear(&self, site: &LinearSite, linear: Box<dyn Linear>) -> Box<dyn Linear> {
        let shape = WeightShape { count: 1, rows: linear.out_features(), cols: linear.in_features() };
        let number = self.number(site, SiteShape::Linear(shape));
        Box::new(AdaptedLinear::new(linear, number))
    }

    fn experts(&self, site: &LinearSite, experts: Box<dyn ExpertLinear>) -> Box<dyn ExpertLinear> {
        let number = self.number(site, SiteShape::Experts(experts.shape()));
        Box::new(AdaptedExperts::new(experts, number))
    }

    fn table(&self, site: &LinearSite, table: Box<dyn Table>) -> Box<dyn Table> {
        let shape = WeightShape { count: 1, rows: table.rows(), cols: table.width() };
        let number = self.number(site, SiteShape::Table(shape));
        Box::new(AdaptedTable::new(table, number))
    }
}
