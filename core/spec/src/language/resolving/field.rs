//! Values of fields: evaluated, checked, rounded, and recorded with where they came from.

use super::Resolver;
use super::value::{as_answer, as_bool, as_number};
use crate::expression::Expression;
use crate::language::report::{ResolvedValue, ValueOrigin};
use crate::language::written::{BySource, Choice, Condition, Scalar, When, WrittenField};
use crate::text::fault::Noted;
use crate::text::source::MetadataValue;
use crate::text::tree::Place;
use std::collections::BTreeSet;

impl<T> BySource<T> {
    /// The value for a source format.
    pub(crate) fn for_source(&self, source: crate::text::source::SourceFormat) -> &T {
        match (self, source) {
            (BySource::Same(value), _) => value,
            (BySource::Each { gguf, .. }, crate::text::source::SourceFormat::Gguf) => gguf,
            (BySource::Each { hf, .. }, crate::text::source::SourceFormat::Hf) => hf,
        }
    }
}

/// A value to be recorded.
pub(crate) struct Record<'p> {
    /// Dotted path in the spec.
    pub(crate) path: &'p str,
    /// The layer, or the whole model.
    pub(crate) layer: Option<usize>,
    /// The value, as text.
    pub(crate) value: String,
    /// Where it came from.
    pub(crate) origin: ValueOrigin,
    /// Whether only logits would show that it is wrong.
    pub(crate) guarded: bool,
}

impl Resolver<'_> {
    /// A fault of the spec in a layer.
    pub(crate) fn fault(
        &mut self,
        place: &Place,
        path: &str,
        layer: Option<usize>,
        message: impl Into<String>,
    ) -> Noted {
        let mut fault = place.fault(path, message);
        fault.layers.extend(layer);
        self.faults.push(fault)
    }

    /// Records where a value came from; the same value in another layer only adds the layer.
    pub(crate) fn record(&mut self, record: Record<'_>) {
        let Record { path, layer, value, origin, guarded } = record;
        let known = self.recorded.get(path).map_or(&[][..], Vec::as_slice);
        let same = known.iter().copied().find(|index| {
            let old = &self.resolved[*index];
            old.value == value && old.origin == origin && old.layers.is_empty() == layer.is_none()
        });
        match same {
            Some(index) => self.resolved[index].layers.extend(layer),
            None => {
                self.recorded.entry(path.to_string()).or_default().push(self.resolved.len());
                let layers: BTreeSet<usize> = layer.into_iter().collect();
                self.resolved.push(ResolvedValue { layers, path: path.to_string(), value, origin, guarded });
            }
        }
    }

    /// A fault of an expression: of the layer where it can differ between layers, else of the whole model. Where the expression
    /// depends on a key that was set by hand, the fault is of that setting: the spec is good for other values.
    pub(crate) fn expression_fault(
        &mut self,
        at: (&Place, &str),
        by: &Expression,
        layer: Option<usize>,
        message: String,
    ) -> Noted {
        let layer = layer.filter(|_| self.values.varies(by));
        match self.set_by_hand(by, layer) {
            Some(settings) => {
                let message = format!("{message}\nnote: {} of spec {} depends on it", at.1, self.spec.id());
                self.file_fault(layer, settings, message)
            }
            None => self.fault(at.0, at.1, layer, message),
        }
    }

    /// The settings by hand that an expression depends on, as they are typed.
    fn set_by_hand(&mut self, by: &Expression, layer: Option<usize>) -> Option<String> {
        let ValueOrigin::Override { keys } = self.values.origin(by, layer) else { return None };
        let input = self.input;
        let typed = |key: &String| match input.overrides.get(key)? {
            MetadataValue::Text(text) => Some(format!("--set {key}={text}")),
            other => Some(format!("--set {key}={other}")),
        };
        let settings: Vec<String> = keys.iter().filter_map(typed).collect();
        (!settings.is_empty()).then(|| settings.join(" "))
    }

    /// A number, before rounding.
    pub(crate) fn number(
        &mut self,
        at: &WrittenField,
        value: &BySource<Scalar>,
        layer: Option<usize>,
    ) -> Result<(f64, ValueOrigin), Noted> {
        let expression = match value.for_source(self.input.source) {
            Scalar::Literal(value) => return Ok((*value, ValueOrigin::Spec)),
            Scalar::Expression(expression) => expression,
        };
        let found = self.values.shared(expression, layer).and_then(|value| as_number(&value, expression));
        match found {
            Ok(value) => Ok((value, self.values.origin(expression, layer))),
            Err(message) => Err(self.expression_fault((&at.place, &at.path), expression, layer, message)),
        }
    }

    /// The value of a condition, recorded.
    pub(crate) fn when(&mut self, when: &When, layer: Option<usize>) -> Result<bool, Noted> {
        let (value, origin) = self.condition((&when.place, &when.path), &when.value, layer)?;
        self.record(Record { path: &when.path, layer, value: value.to_string(), origin, guarded: true });
        Ok(value)
    }

    /// A boolean and its origin.
    pub(crate) fn condition(
        &mut self,
        at: (&Place, &str),
        condition: &Condition,
        layer: Option<usize>,
    ) -> Result<(bool, ValueOrigin), Noted> {
        let expression = match condition {
            Condition::Literal(value) => return Ok((*value, ValueOrigin::Spec)),
            Condition::Expression(expression) => expression,
        };
        match self.values.shared(expression, layer).and_then(|value| as_bool(&value, expression)) {
            Ok(value) => Ok((value, self.values.origin(expression, layer))),
            Err(message) => Err(self.expression_fault(at, expression, layer, message)),
        }
    }

    /// A name of a list and where it came from.
    pub(crate) fn choice(
        &mut self,
        at: &WrittenField,
        choice: &Choice,
        layer: Option<usize>,
    ) -> Result<(usize, ValueOrigin), Noted> {
        let (by, answers) = match choice {
            Choice::Given(given) => return Ok((*given.for_source(self.input.source), ValueOrigin::Spec)),
            Choice::By { by, answers } => (by, answers),
        };
        let asked = self.values.shared(by, layer).and_then(|value| as_answer(&value, by));
        let found = asked.and_then(|asked| {
            let known = || answers.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(", ");
            let answer = answers.iter().find(|(key, _)| *key == asked);
            answer.ok_or_else(|| {
                format!("`{}` is {asked}; the choice has answers only for {}", by.text, known())
            })
        });
        match found {
            // The file gives what is asked about; which name that stands for is the spec's rule.
            Ok((_, name)) => Ok((
                *name,
                match self.values.origin(by, layer) {
                    ValueOrigin::File { keys } => ValueOrigin::Formula { keys },
                    other => other,
                },
            )),
            Err(message) => Err(self.expression_fault((&at.place, &at.path), by, layer, message)),
        }
    }
}
