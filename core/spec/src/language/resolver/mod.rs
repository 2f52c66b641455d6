//! Computes written values: expressions over the keys and roles of a file, in one layer or in the whole model. A kind
//! has access to it through [`ResolveContext`](crate::kind::ResolveContext).

mod evaluate;
mod faults;
mod frame;
mod key;
mod options;
mod origin;

use crate::language::report::ResolvedValue;
use crate::language::spec::ArchSpec;
use crate::text::fault::SpecFaults;
use crate::text::source::ResolveInput;
use evaluate::Evaluator;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use frame::MOST_BLOCKS;

/// The state of one resolution.
pub(crate) struct Resolver<'a> {
    pub(crate) spec: &'a ArchSpec,
    pub(crate) input: &'a ResolveInput<'a>,
    pub(crate) values: Evaluator<'a>,
    pub(crate) faults: SpecFaults,
    pub(crate) resolved: Vec<ResolvedValue>,
    /// Indices into `resolved`, by path.
    pub(crate) recorded: BTreeMap<String, Vec<usize>>,
    /// Unread canonical keys that the user accepts and that the file has.
    pub(crate) accepted: BTreeSet<String>,
    pub(crate) warnings: Vec<String>,
}

impl<'a> Resolver<'a> {
    /// A new resolution.
    pub(crate) fn new(spec: &'a ArchSpec, input: &'a ResolveInput<'a>) -> Resolver<'a> {
        Resolver {
            spec,
            input,
            values: Evaluator::new(spec, input),
            faults: SpecFaults::default(),
            resolved: Vec::new(),
            recorded: BTreeMap::new(),
            accepted: BTreeSet::new(),
            warnings: Vec::new(),
        }
    }
}
