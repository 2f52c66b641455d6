//! How written values become numbers: expressions over the keys and roles of a file, in one layer or in the whole model.
//! [`Resolving`] is what a kind sees of it.

mod component;
mod context;
mod evaluate;
mod field;
mod frame;
mod key;
mod origin;
mod value;

use crate::language::report::ResolvedValue;
use crate::language::spec::ArchSpec;
use crate::text::fault::{Fault, Noted, SpecFaults};
use crate::text::source::{ResolveInput, SourceFormat};
use evaluate::Evaluator;
use std::collections::{BTreeMap, BTreeSet};

pub use context::Resolving;
pub(crate) use frame::MOST_BLOCKS;
pub(crate) use value::{as_bool, as_count, as_number};

/// One run of resolving.
pub(crate) struct Resolver<'a> {
    pub(crate) spec: &'a ArchSpec,
    pub(crate) input: &'a ResolveInput<'a>,
    pub(crate) values: Evaluator<'a>,
    pub(crate) faults: SpecFaults,
    pub(crate) resolved: Vec<ResolvedValue>,
    /// Indices into `resolved`, by path.
    pub(crate) recorded: BTreeMap<String, Vec<usize>>,
    /// Canonical keys the user accepts although they are not understood, as far as they were met.
    pub(crate) accepted: BTreeSet<String>,
    pub(crate) warnings: Vec<String>,
}

impl<'a> Resolver<'a> {
    /// A run that has not read anything.
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

    /// A key as the file spells it.
    pub(crate) fn spelled(&self, key: &str) -> String {
        match self.input.source {
            SourceFormat::Gguf if self.values.facts.foreign.contains(key) => key.to_string(),
            SourceFormat::Gguf => format!("{}.{key}", self.input.architecture),
            SourceFormat::Hf => self.input.keys.spelled(key).unwrap_or_else(|| key.to_string()),
        }
    }

    /// A fault of the file.
    pub(crate) fn file_fault(
        &mut self,
        layer: Option<usize>,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> Noted {
        self.faults.push(Fault {
            file: self.input.file.clone(),
            position: None,
            subject: subject.into(),
            message: message.into(),
            layers: layer.into_iter().collect(),
        })
    }

    /// A fault of a key of the file.
    pub(crate) fn key_fault(&mut self, layer: Option<usize>, key: &str, message: impl Into<String>) -> Noted {
        let subject = format!("key {}", self.spelled(key));
        self.file_fault(layer, subject, message)
    }

    /// Whether the user accepts a key unread, canonical or as the file spells it.
    pub(crate) fn accepts(&self, key: &str) -> bool {
        let spelled = self.spelled(key);
        self.input.accept_unread.iter().any(|accepted| *accepted == key || *accepted == spelled)
    }
}
