//! Values of the whole model: layer count, embedding, output, checks, hints.

use crate::config::{
    BiasRule, ClassifierConfig, EmbeddingConfig, HeadKind, OutputConfig, PerLayerConfig, Pooling,
};
use crate::expression::{Expression, as_bool};
use crate::kind::{Cap, OptionResolver, Optional, Positive, RecordedFault, ResolveContext};
use crate::kinds::rope;
use crate::language::reads::HINTS;
use crate::language::resolver::Resolver;
use crate::language::sections::{
    ClassifierOptions, DenseOptions, EmbeddingOptions, OutputOptions, PerLayerOptions,
};
use crate::text::source::MetadataValue;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Resolver<'_> {
    /// The trained context, if the file states one.
    pub(super) fn context_length(&mut self) -> Result<Option<usize>, RecordedFault> {
        if !self.values.facts.keys.contains_key("context_length") {
            return Ok(None);
        }
        self.standard_count("context_length", None).map(Some)
    }

    pub(super) fn embedding(&mut self, layers: usize) -> Result<EmbeddingConfig, RecordedFault> {
        let options = self.options::<EmbeddingOptions>(Arc::clone(&self.spec.body.embedding), None)?;
        let EmbeddingOptions { scale, norm, positions, token_types, per_layer: Optional(per_layer) } =
            options;
        let per_layer = per_layer.map(|nested| {
            let PerLayerOptions { width: Positive(width), token_scale, projection_scale, norm, scale } =
                nested.options;
            PerLayerConfig { width, layers, token_scale, projection_scale, norm: norm.0, scale }
        });
        let token_types = token_types.filter(|role| self.input.roles.has(role, None));
        Ok(EmbeddingConfig { scale, norm: norm.0, positions, token_types, per_layer })
    }

    pub(super) fn output(&mut self) -> Result<OutputConfig, RecordedFault> {
        let options = self.options::<OutputOptions>(Arc::clone(&self.spec.body.output), None)?;
        let OutputOptions {
            norm,
            head,
            bias,
            scale,
            softcap: Cap(softcap),
            suppress,
            pooling,
            classifier,
            dense: Optional(dense),
        } = options;
        let classifier = classifier.0.map(|classifier| {
            let ClassifierOptions { activation, norm, scores } = classifier.options;
            ClassifierConfig { activation, norm: norm.0, scores }
        });
        let table = Arc::clone(&self.spec.body.output);
        let mut at = ResolveContext::new(self, table, None);
        let without_head = [
            ("bias", bias != BiasRule::None),
            ("scale", scale != 1.0),
            ("softcap", softcap.is_some()),
            ("suppress", suppress.is_some()),
        ];
        let given = without_head.into_iter().find(|(_, given)| *given);
        if let Some((option, _)) = given.filter(|_| head == HeadKind::None) {
            return at.fault(
                option,
                "a model without a head (`head = \"none\"`) has no logits; remove this option",
            );
        }
        let pooling = pooling.unwrap_or_else(|| self.stated_pooling());
        let dense = dense.map_or_else(Vec::new, |dense| {
            let DenseOptions { first, second } = dense.options;
            [first, second].into_iter().filter(|role| self.input.roles.has(role, None)).collect()
        });
        self.own_head_is_there(head);
        Ok(OutputConfig { norm: norm.0, head, bias, scale, softcap, suppress, pooling, classifier, dense })
    }

    /// If the file says that the model has its own head, the tensor must exist: using the embedding would be another
    /// model.
    fn own_head_is_there(&mut self, head: HeadKind) {
        let apart = self.input.keys.head_is_embedding() == Some(false);
        if head == HeadKind::OwnOrTied && apart && !self.input.roles.has("output", None) {
            let message = "missing, and tie_word_embeddings is false: the head is not the embedding; the file is incomplete";
            self.file_fault(None, "tensor output".into(), message.into());
        }
    }

    /// The pooling of `pooling_type` (llama.h, `llama_pooling_type`; 4 is that of a classifier, which decoders have
    /// on the last row).
    fn stated_pooling(&self) -> Pooling {
        let named = |key: &str| match self.values.facts.consult(key) {
            Some(MetadataValue::Integer(1)) => Some(Pooling::Mean),
            Some(MetadataValue::Integer(2)) => Some(Pooling::Cls),
            Some(MetadataValue::Integer(3)) => Some(Pooling::Last),
            _ => None,
        };
        let ranks = matches!(self.values.facts.consult("pooling_type"), Some(MetadataValue::Integer(4)));
        let classifier = ranks.then(|| named("classifier.pooling_type").unwrap_or(Pooling::Last));
        named("pooling_type").or(classifier).unwrap_or(Pooling::None)
    }

    /// Refuses a rope scaling of the file that no layer applies, because the spec has no rope.
    pub(super) fn unroped_scaling(&mut self) {
        let cases = &self.spec.body.mixer.cases;
        if cases.iter().any(|case| rope::applies_scaling(&case.table)) {
            return;
        }
        let nothing = Arc::clone(&self.spec.body.layers);
        rope::refuse_scaling(&mut ResolveContext::new(self, nothing, None));
    }

    /// `[check]`: every line must be true in every layer.
    pub(super) fn checks(&mut self, layers: usize) {
        let spec = self.spec;
        for check in &spec.body.checks {
            let path = format!("check.\"{}\"", check.expression.text);
            let varies = self.values.varies(&check.expression);
            let places: Vec<Option<usize>> =
                if varies { (0..layers).map(Some).collect() } else { vec![None] };
            for at in places {
                let held =
                    self.values.value(&check.expression, at).and_then(|v| as_bool(&v, &check.expression));
                match held {
                    Ok(true) => {}
                    Ok(false) => {
                        let said = self.said(&check.expression, at);
                        let message =
                            format!("check `{}` failed{said}: {}", check.expression.text, check.message);
                        self.file_fault(at, String::new(), message);
                    }
                    Err(message) => {
                        self.fault(&check.place, &path, at, message);
                    }
                }
            }
        }
    }

    /// The values of the keys of a check.
    fn said(&mut self, expression: &Expression, at: Option<usize>) -> String {
        let keys = self.values.file_keys(expression);
        let frame = self.values.frame(at);
        let texts: Vec<String> = keys
            .iter()
            .filter_map(|key| frame.get(key).map(|value| format!("{} is {value}", self.spelled(key))))
            .collect();
        if texts.is_empty() { String::new() } else { format!(" ({})", texts.join(", ")) }
    }

    /// Size hints that the file has as one number.
    pub(super) fn hints(&self) -> BTreeMap<String, f64> {
        let number = |key: &str| match self.values.facts.consult(key)? {
            MetadataValue::Number(value) => Some(*value),
            MetadataValue::Integer(value) => Some(*value as f64),
            _ => None,
        };
        let cases = self.spec.body.components().into_iter().flat_map(|cases| &cases.cases);
        let kinds = cases.filter_map(|case| case.table.kind);
        let free = kinds.flat_map(|kind| kind.free).flat_map(|size| size.hints);
        let known = HINTS.iter().chain(free);
        known.filter_map(|key| number(key).map(|value| (key.to_string(), value))).collect()
    }
}
