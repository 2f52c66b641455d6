//! Values of the whole model: layer count, embedding, output, checks, hints.

use super::Resolver;
use super::field::{as_number, as_truth};
use super::frame::MOST_BLOCKS;
use crate::config::{BiasRule, EmbeddingConfig, HeadKind, OutputConfig};
use crate::expression::{Expression, Scope};
use crate::names::Pooling;
use crate::reads::HINTS;
use crate::report::ValueOrigin;
use crate::source::KeyValue;
use std::collections::BTreeMap;

impl Resolver<'_> {
    /// A count that a standard key (or its default) gives.
    pub(super) fn standard_count(&mut self, key: &'static str, layer: Option<usize>) -> Option<usize> {
        let expression = match Expression::parse(key, Scope::Keys) {
            Ok(expression) => expression,
            Err(message) => {
                self.key_fault(layer, key, message);
                return None;
            }
        };
        let value = self.values.shared(&expression, layer).and_then(|value| as_number(&value, &expression));
        match value {
            Ok(value) if value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value) => {
                Some(value as usize)
            }
            Ok(value) => {
                self.key_fault(layer, key, format!("{value} is not a count"));
                None
            }
            Err(message) => {
                let missing = self.values.frame(layer).get(key).is_none();
                let layer = layer.filter(|_| self.values.varies(&expression));
                let message =
                    if missing { format!("missing; spec {} needs it", self.spec.id()) } else { message };
                self.key_fault(layer, key, message);
                None
            }
        }
    }

    /// The trained context, if the file states one. `None` is a fault already reported.
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
        let Some(count) = &self.spec.body.count else { return Some(blocks) };
        let run = self.count(count, None)?;
        if run == 0 || run > blocks {
            let message = format!("{run} blocks are to be run; the file has {blocks}");
            self.fault(&count.place, &count.path, None, message);
            return None;
        }
        Some(run)
    }

    pub(super) fn embedding(&mut self) -> Option<EmbeddingConfig> {
        let own = &self.spec.body.embedding;
        let scale = self.real_or(own.scale.as_ref(), None, 1.0);
        let norm = self.site(own.norm.as_ref(), None);
        Some(EmbeddingConfig {
            scale: scale?,
            norm: norm?,
            positions: own.positions.clone(),
            token_types: own.token_types.clone().filter(|role| self.input.roles.has(role, None)),
        })
    }

    pub(super) fn output(&mut self) -> Option<OutputConfig> {
        let own = &self.spec.body.output;
        let norm = self.site(own.norm.as_ref(), None);
        let head: Option<HeadKind> = self.name(&own.head, None);
        let bias = self.name_or(own.bias.as_ref(), None, BiasRule::None);
        let scale = self.real_or(own.scale.as_ref(), None, 1.0);
        let softcap = self.positive(own.softcap.as_ref(), None);
        if let Some(pooling) = &own.pooling
            && self.name(pooling, None)? != Pooling::None
        {
            self.fault(&pooling.place, &pooling.path, None, "pooling is not built in; built in is: none");
            return None;
        }
        Some(OutputConfig { norm: norm?, head: head?, bias: bias?, scale: scale?, softcap: softcap? })
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
        let number = |key: &str| match self.values.facts.keys.get(key)? {
            KeyValue::Number(value) => Some(*value),
            KeyValue::Integer(value) => Some(*value as f64),
            _ => None,
        };
        HINTS.iter().filter_map(|key| number(key).map(|value| (key.to_string(), value))).collect()
    }
}
