//! Values of the whole model: layer count, embedding, output, checks, hints.

use super::frame::MOST_BLOCKS;
use super::value::{as_count, as_number, as_truth};
use super::{Resolver, Resolving};
use crate::config::{BiasRule, EmbeddingConfig, HeadKind, OutputConfig, Pooling};
use crate::expression::Expression;
use crate::kind::{Cap, Options};
use crate::kinds::rope;
use crate::language::{EmbeddingOptions, LayersOptions, OutputOptions};
use crate::reads::HINTS;
use crate::report::ValueOrigin;
use crate::source::KeyValue;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Resolver<'_> {
    /// The number that a key (or its standard default) gives, and where it came from.
    pub(super) fn key_value(
        &mut self,
        key: &'static str,
        layer: Option<usize>,
    ) -> Option<(f64, ValueOrigin)> {
        let found = self.values.key(key).and_then(|expression| {
            let value = self.values.shared(&expression, layer)?;
            as_number(&value, &expression).map(|value| (value, self.values.origin(&expression)))
        });
        match found {
            Ok(found) => Some(found),
            Err(message) => {
                let missing = self.values.frame(layer).get(key).is_none();
                let varies = self.values.facts.varies_by_default(key);
                let message =
                    if missing { format!("missing; spec {} needs it", self.spec.id()) } else { message };
                self.key_fault(layer.filter(|_| varies), key, message);
                None
            }
        }
    }

    /// The count that a key (or its standard default) gives.
    pub(super) fn key_count(
        &mut self,
        key: &'static str,
        layer: Option<usize>,
    ) -> Option<(usize, ValueOrigin)> {
        let (value, origin) = self.key_value(key, layer)?;
        let count = as_count(value);
        if count.is_none() {
            self.key_fault(layer, key, format!("{value} is not a count"));
        }
        count.map(|count| (count, origin))
    }

    /// A count that a standard key gives.
    pub(super) fn standard_count(&mut self, key: &'static str, layer: Option<usize>) -> Option<usize> {
        self.key_count(key, layer).map(|(count, _)| count)
    }

    /// The trained context, if the file states one. `None` is a fault already reported.
    #[allow(clippy::option_option)]
    pub(super) fn context_length(&mut self) -> Option<Option<usize>> {
        if !self.values.facts.keys.contains_key("context_length") {
            return Some(None);
        }
        self.standard_count("context_length", None).map(Some)
    }

    /// How many blocks are run.
    pub(super) fn layer_count(&mut self) -> Option<usize> {
        let blocks = self.standard_count("block_count", None)?;
        if blocks == 0 || blocks > MOST_BLOCKS {
            self.key_fault(None, "block_count", format!("{blocks}; 1 to {MOST_BLOCKS} blocks are wanted"));
            return None;
        }
        let mut at = Resolving::new(self, Arc::clone(&self.spec.body.layers), None);
        let LayersOptions { count } = LayersOptions::read(&mut at)?;
        if count == 0 || count > blocks {
            return at.fault("count", format!("{count} blocks are to be run; the file has {blocks}"));
        }
        Some(count)
    }

    pub(super) fn embedding(&mut self) -> Option<EmbeddingConfig> {
        let options = self.options::<EmbeddingOptions>(Arc::clone(&self.spec.body.embedding), None)?;
        let EmbeddingOptions { scale, norm, positions, token_types } = options;
        let token_types = token_types.filter(|role| self.input.roles.has(role, None));
        Some(EmbeddingConfig { scale, norm: norm.0, positions, token_types })
    }

    pub(super) fn output(&mut self) -> Option<OutputConfig> {
        let options = self.options::<OutputOptions>(Arc::clone(&self.spec.body.output), None)?;
        let OutputOptions { norm, head, bias, scale, softcap: Cap(softcap), pooling } = options;
        let mut at = Resolving::new(self, Arc::clone(&self.spec.body.output), None);
        let without_head =
            [("bias", bias != BiasRule::None), ("scale", scale != 1.0), ("softcap", softcap.is_some())];
        if head == HeadKind::None {
            if let Some((option, _)) = without_head.into_iter().find(|(_, given)| *given) {
                return at
                    .fault(option, "a model without a head (`head = \"none\"`) has no logits; take it out");
            }
        } else if pooling != Pooling::None {
            let message =
                "only a model without a head (`head = \"none\"`) pools its rows; take one of the two out";
            return at.fault("pooling", message);
        }
        Some(OutputConfig { norm: norm.0, head, bias, scale, softcap, pooling })
    }

    /// A rope scaling of the file that no layer could apply, because the spec has no rope at all.
    pub(super) fn unroped_scaling(&mut self) {
        let cases = &self.spec.body.mixer.cases;
        if cases.iter().any(|case| rope::applies_scaling(&case.table)) {
            return;
        }
        let nothing = Arc::clone(&self.spec.body.layers);
        rope::refuse_scaling(&mut Resolving::new(self, nothing, None));
    }

    /// `[check]`: every line must hold in every layer.
    pub(super) fn checks(&mut self, layers: usize) {
        let spec = self.spec;
        for check in &spec.body.checks {
            let path = format!("check.\"{}\"", check.expression.text);
            let varies = self.values.varies(&check.expression);
            let places: Vec<Option<usize>> =
                if varies { (0..layers).map(Some).collect() } else { vec![None] };
            for at in places {
                let held =
                    self.values.value(&check.expression, at).and_then(|v| as_truth(&v, &check.expression));
                match held {
                    Ok(true) => {}
                    Ok(false) => {
                        let said = self.said(&check.expression, at);
                        let message =
                            format!("`{}` does not hold{said}: {}", check.expression.text, check.message);
                        self.file_fault(at, "", message);
                    }
                    Err(message) => self.fault(&check.place, &path, at, message),
                }
            }
        }
    }

    /// What the file says of the keys a check is about.
    fn said(&mut self, expression: &Expression, at: Option<usize>) -> String {
        let (ValueOrigin::File { keys } | ValueOrigin::Override { keys }) = self.values.origin(expression)
        else {
            return String::new();
        };
        let frame = self.values.frame(at);
        let texts: Vec<String> = keys
            .iter()
            .filter_map(|key| frame.get(key).map(|value| format!("{} is {value}", self.spelled(key))))
            .collect();
        if texts.is_empty() { String::new() } else { format!(" ({})", texts.join(", ")) }
    }

    /// Size hints that the file states as one number.
    pub(super) fn hints(&self) -> BTreeMap<String, f64> {
        let number = |key: &str| match self.values.facts.consult(key)? {
            KeyValue::Number(value) => Some(*value),
            KeyValue::Integer(value) => Some(*value as f64),
            _ => None,
        };
        let cases = self.spec.body.mixer.cases.iter().chain(&self.spec.body.feed_forward.cases);
        let kinds = cases.filter_map(|case| case.table.kind);
        let free = kinds.flat_map(|kind| kind.free).flat_map(|size| size.hints);
        let known = HINTS.iter().chain(free);
        known.filter_map(|key| number(key).map(|value| (key.to_string(), value))).collect()
    }
}
