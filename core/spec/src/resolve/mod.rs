//! From a spec and the keys and roles of a file to a [`ModelConfig`]: every number known, per layer.

mod coverage;
mod nextn;
mod runs;
mod whole;

use crate::config::{BesideConfig, BranchConfig, LayerConfig, ModelConfig};
use crate::kind::{Component, OptionResolver};
use crate::language::report::Resolution;
use crate::language::resolver::Resolver;
use crate::language::sections::{BesideOptions, BlockOptions, BranchOptions};
use crate::language::spec::ArchSpec;
use crate::text::fault::{RecordedFault, SpecFaults};
use crate::text::source::ResolveInput;
use std::sync::Arc;

impl ArchSpec {
    /// Every number known, layer by layer.
    ///
    /// # Errors
    /// All faults of the file under this spec at once: missing and unread keys, layers without or with several cases
    /// of a component, failed checks, values out of range, unsupported components.
    pub fn resolve(&self, input: &ResolveInput<'_>) -> Result<ModelConfig, SpecFaults> {
        self.resolve_report(input).map(|resolution| resolution.config)
    }

    /// As [`ArchSpec::resolve`], with the origin of every value and the use of every key.
    ///
    /// # Errors
    /// The errors of [`ArchSpec::resolve`].
    pub fn resolve_report(&self, input: &ResolveInput<'_>) -> Result<Resolution, SpecFaults> {
        let mut resolver = Resolver::new(self, input);
        let config = resolver.model();
        let coverage = resolver.coverage();
        let resolution = config.ok().map(|config| Resolution {
            config,
            coverage,
            values: resolver.resolved,
            warnings: resolver.warnings,
        });
        resolver.faults.check(resolution)
    }
}

impl Resolver<'_> {
    fn model(&mut self) -> Result<ModelConfig, RecordedFault> {
        let embedding_length = self.standard_count("embedding_length", None);
        let context_length = self.context_length();
        let runs = self.runs();
        let count = runs.as_ref().map_or(0, |runs| runs.count);
        let embedding = self.embedding(count);
        let output = self.output();
        let mut layers = Vec::new();
        for index in 0..count {
            layers.push(self.layer(index));
        }
        let nextn = if runs.is_ok() { self.nextn(count) } else { Ok(Vec::new()) };
        self.checks(count);
        self.unroped_scaling();
        let layers = runs?.of(layers.into_iter().collect::<Result<_, RecordedFault>>()?);
        let body = &self.spec.body;
        Ok(ModelConfig {
            architecture: self.spec.id.clone(),
            embedding_length: embedding_length?,
            context_length: context_length?,
            embedding: embedding?,
            layers,
            output: output?,
            nextn: nextn?,
            tokenizer: crate::config::TokenizerConfig { pre: body.pre.clone(), end: body.end.clone() },
            chat_fallback: body.chat_fallback.clone(),
            adapter_order: body.adapter_order.clone(),
            hints: self.hints(),
        })
    }

    fn layer(&mut self, index: usize) -> Result<LayerConfig, RecordedFault> {
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
            let message = "this layer has no feed-forward to which it could be added";
            return Err(self.fault(&place, "beside", Some(index), message.into()));
        }
        Ok(LayerConfig {
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
