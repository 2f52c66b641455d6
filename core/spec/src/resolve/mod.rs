//! From a spec and the keys and roles of a file to a [`ModelConfig`]: every number known, per layer.

mod component;
mod coverage;
mod evaluate;
mod field;
mod frame;
mod origin;
mod resolving;
mod runs;
mod value;
mod whole;

use crate::config::{BesideConfig, BranchConfig, LayerConfig, ModelConfig};
use crate::fault::{Fault, SpecFaults};
use crate::kind::Component;
use crate::language::{BesideOptions, BlockOptions, BranchOptions};
use crate::report::{Provenance, Resolution};
use crate::source::{ResolveInput, SourceFormat};
use crate::spec::ArchSpec;
use evaluate::Evaluator;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use frame::{MOST_BLOCKS, MOST_PARTS};
pub use resolving::Resolving;
pub(crate) use value::{as_count, as_number, as_truth};

/// Resolves a spec; see [`ArchSpec::resolve_report`].
pub(crate) fn resolve(spec: &ArchSpec, input: &ResolveInput<'_>) -> Result<Resolution, SpecFaults> {
    let mut resolver = Resolver {
        spec,
        input,
        values: Evaluator::new(spec, input),
        faults: SpecFaults::default(),
        provenance: Vec::new(),
        recorded: BTreeMap::new(),
        accepted: BTreeSet::new(),
        warnings: Vec::new(),
    };
    let config = resolver.model();
    let coverage = resolver.coverage();
    let resolution = config.map(|config| Resolution {
        config,
        coverage,
        provenance: resolver.provenance,
        warnings: resolver.warnings,
    });
    resolver.faults.check(resolution)
}

/// One run of resolving.
pub(crate) struct Resolver<'a> {
    spec: &'a ArchSpec,
    input: &'a ResolveInput<'a>,
    values: Evaluator<'a>,
    faults: SpecFaults,
    provenance: Vec<Provenance>,
    /// Indices into `provenance`, by path.
    recorded: BTreeMap<String, Vec<usize>>,
    /// Canonical keys the user accepts although they are not understood, as far as they were met.
    accepted: BTreeSet<String>,
    warnings: Vec<String>,
}

impl Resolver<'_> {
    /// A key as the file spells it.
    fn spelled(&self, key: &str) -> String {
        match self.input.source {
            SourceFormat::Gguf if self.values.facts.foreign.contains(key) => key.to_string(),
            SourceFormat::Gguf => format!("{}.{key}", self.input.architecture),
            SourceFormat::Hf => self.input.keys.spelled(key).unwrap_or_else(|| key.to_string()),
        }
    }

    /// A fault of the file.
    fn file_fault(&mut self, layer: Option<usize>, subject: impl Into<String>, message: impl Into<String>) {
        self.faults.push(Fault {
            file: self.input.file.clone(),
            position: None,
            subject: subject.into(),
            message: message.into(),
            layers: layer.into_iter().collect(),
        });
    }

    /// A fault of a key of the file.
    fn key_fault(&mut self, layer: Option<usize>, key: &str, message: impl Into<String>) {
        let subject = format!("key {}", self.spelled(key));
        self.file_fault(layer, subject, message);
    }

    /// Whether the user accepts a key unread, canonical or as the file spells it.
    fn accepts(&self, key: &str) -> bool {
        let spelled = self.spelled(key);
        self.input.accept_unread.iter().any(|accepted| *accepted == key || *accepted == spelled)
    }

    fn model(&mut self) -> Option<ModelConfig> {
        let embedding_length = self.standard_count("embedding_length", None);
        let context_length = self.context_length();
        let runs = self.runs();
        let count = runs.as_ref().map(|runs| runs.count);
        let embedding = self.embedding(count.unwrap_or(0));
        let output = self.output();
        let mut layers = Vec::new();
        for index in 0..count.unwrap_or(0) {
            layers.extend(self.layer(index));
        }
        self.checks(count.unwrap_or(0));
        self.unroped_scaling();
        if layers.len() < count? {
            return None;
        }
        let layers = runs?.of(layers);
        let body = &self.spec.body;
        Some(ModelConfig {
            architecture: self.spec.architecture.id.clone(),
            embedding_length: embedding_length?,
            context_length: context_length?,
            embedding: embedding?,
            layers,
            output: output?,
            tokenizer: crate::config::TokenizerConfig { pre: body.pre.clone(), end: body.end.clone() },
            chat_fallback: body.chat_fallback.clone(),
            adapter_order: body.adapter_order.clone(),
            hints: self.hints(),
        })
    }

    fn layer(&mut self, index: usize) -> Option<LayerConfig> {
        let spec = self.spec;
        let block = self.options::<BlockOptions>(Arc::clone(&spec.body.block), Some(index));
        let mixer = self.component(&spec.body.mixer, index);
        let feed_forward = self.component(&spec.body.feed_forward, index);
        let second = self.component(&spec.body.beside, index);
        let last = self.component(&spec.body.last, index);
        let BlockOptions {
            mixer: mixer_branch,
            feed_forward: feed_forward_branch,
            beside,
            last: last_branch,
            embedding_scale,
            output_scale,
        } = block?;
        let (feed_forward, second) = (feed_forward?, second?);
        if second.is_some() && feed_forward.is_none() {
            let place = spec.body.beside.place.clone();
            let message = "there is no feed-forward in this layer that it could be added to";
            self.fault(&place, "beside", Some(index), message);
            return None;
        }
        Some(LayerConfig {
            index,
            mixer: mixer?,
            mixer_branch: branch(mixer_branch),
            feed_forward,
            feed_forward_branch: branch(feed_forward_branch),
            beside: second.map(|part| beside_config(part, beside)),
            last: last?,
            last_branch: branch(last_branch),
            embedding_scale,
            output_scale: output_scale.filter(|role| self.input.roles.has(role, Some(index))),
            loop_norm: None,
            entry: None,
        })
    }
}

fn beside_config(part: Component, options: BesideOptions) -> BesideConfig {
    let BesideOptions { reads, pre, post, first_post, factor } = options;
    BesideConfig { part, reads, pre: pre.0, post: post.0, first_post: first_post.0, factor }
}

fn branch(options: BranchOptions) -> BranchConfig {
    let BranchOptions { pre, post, after, again, reads, scale } = options;
    BranchConfig { pre: pre.0, post: post.0, after: after.0, again: again.0, reads, scale }
}
