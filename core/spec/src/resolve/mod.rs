//! From a spec and the keys and roles of a file to a [`ModelConfig`]: every number known, per layer.

mod attention;
mod coverage;
mod evaluate;
mod feed_forward;
mod field;
mod frame;
mod norm;
mod rope;
mod whole;

use crate::config::{BranchConfig, LayerConfig, ModelConfig, Reads};
use crate::fault::{Fault, SpecFaults};
use crate::report::{Provenance, Resolution};
use crate::source::{ResolveInput, SourceFormat};
use crate::spec::ArchSpec;
use crate::written::Branch;
use evaluate::Evaluator;
use std::collections::BTreeSet;

/// Resolves a spec; see [`ArchSpec::resolve_report`].
pub(crate) fn resolve(spec: &ArchSpec, input: &ResolveInput<'_>) -> Result<Resolution, SpecFaults> {
    let mut resolver = Resolver {
        spec,
        input,
        values: Evaluator::new(spec, input),
        faults: SpecFaults::default(),
        provenance: Vec::new(),
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
struct Resolver<'a> {
    spec: &'a ArchSpec,
    input: &'a ResolveInput<'a>,
    values: Evaluator<'a>,
    faults: SpecFaults,
    provenance: Vec<Provenance>,
    /// Canonical keys the user accepts although they are not understood, as far as they were met.
    accepted: BTreeSet<String>,
    warnings: Vec<String>,
}

impl Resolver<'_> {
    /// A key as the file spells it.
    fn spelled(&self, key: &str) -> String {
        match self.input.source {
            SourceFormat::Gguf => format!("{}.{key}", self.input.architecture),
            SourceFormat::Hf => key.to_string(),
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
        let count = self.layer_count();
        let embedding = self.embedding();
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
        Some(ModelConfig {
            architecture: self.spec.architecture.id.clone(),
            embedding_length: embedding_length?,
            context_length: context_length?,
            embedding: embedding?,
            layers,
            output: output?,
            tokenizer: crate::config::TokenizerConfig {
                pre: self.spec.body.pre.clone(),
                end: self.spec.body.end.clone(),
            },
            chat_fallback: self.spec.body.chat_fallback.clone(),
            adapter_order: self.spec.body.adapter_order.clone(),
            hints: self.hints(),
        })
    }

    fn layer(&mut self, index: usize) -> Option<LayerConfig> {
        let body = &self.spec.body;
        let mixer_branch = self.branch("mixer", &body.mixer_branch, index);
        let feed_forward_branch = self.branch("feed_forward", &body.feed_forward_branch, index);
        let mixer = self.mixer(index);
        let feed_forward = self.feed_forward(index);
        Some(LayerConfig {
            index,
            mixer: mixer?,
            mixer_branch: mixer_branch?,
            feed_forward: feed_forward?,
            feed_forward_branch: feed_forward_branch?,
        })
    }

    fn branch(&mut self, name: &str, branch: &Branch, layer: usize) -> Option<BranchConfig> {
        let at = Some(layer);
        let pre = self.site(branch.pre.as_ref(), at);
        let post = self.site(branch.post.as_ref(), at);
        let after = self.site(branch.after.as_ref(), at);
        if branch.reads.is_none() {
            self.record_default(&format!("block.{name}"), "reads", at, "stream");
        }
        let reads = self.name_or(branch.reads.as_ref(), at, Reads::Stream);
        let scale = self.real_or(branch.scale.as_ref(), at, 1.0);
        Some(BranchConfig { pre: pre?, post: post?, after: after?, reads: reads?, scale: scale? })
    }
}
