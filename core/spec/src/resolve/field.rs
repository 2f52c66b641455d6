//! Values of fields: evaluated, checked, rounded, and recorded with where they came from.

use super::Resolver;
use crate::expression::Expression;
use crate::names::NameSet;
use crate::report::{Provenance, ValueOrigin};
use crate::tree::Place;
use crate::written::{BySource, Case, Cases, Choice, Condition, Name, Number, Scalar, Truth};
use minijinja::Value;
use minijinja::value::ValueKind;
use std::collections::BTreeSet;

/// Last part of a path whose value only logits can guard.
const GUARDED: [&str; 19] = [
    "activation",
    "weights",
    "apply",
    "at",
    "over",
    "offset",
    "pairs",
    "score",
    "select",
    "scale",
    "weight",
    "mask",
    "reads",
    "round",
    "magnitude",
    "base",
    "when",
    "length",
    "softcap",
];

/// Largest count that is taken for one.
const MOST: f64 = u32::MAX as f64;

impl<T> BySource<T> {
    /// The value for a source format.
    pub(super) fn for_source(&self, source: crate::source::SourceFormat) -> &T {
        match (self, source) {
            (BySource::Same(value), _) => value,
            (BySource::Each { gguf, .. }, crate::source::SourceFormat::Gguf) => gguf,
            (BySource::Each { hf, .. }, crate::source::SourceFormat::Hf) => hf,
        }
    }
}

impl Resolver<'_> {
    /// A fault of the spec in a layer.
    pub(super) fn fault(
        &mut self,
        place: &Place,
        path: &str,
        layer: Option<usize>,
        message: impl Into<String>,
    ) {
        let mut fault = place.fault(path, message);
        fault.layers.extend(layer);
        self.faults.push(fault);
    }

    /// Records where a value came from.
    pub(super) fn record(&mut self, path: &str, layer: Option<usize>, value: String, origin: ValueOrigin) {
        let same = self.provenance.iter_mut().find(|old| {
            old.path == path
                && old.value == value
                && old.origin == origin
                && old.layers.is_empty() == layer.is_none()
        });
        match same {
            Some(old) => old.layers.extend(layer),
            None => {
                let last = path.rsplit('.').next().unwrap_or(path);
                let guarded = GUARDED.contains(&last);
                let layers: BTreeSet<usize> = layer.into_iter().collect();
                self.provenance.push(Provenance { layers, path: path.to_string(), value, origin, guarded });
            }
        }
    }

    /// Records a default of the language.
    pub(super) fn record_default(
        &mut self,
        path: &str,
        field: &str,
        layer: Option<usize>,
        value: impl ToString,
    ) {
        self.record(&format!("{path}.{field}"), layer, value.to_string(), ValueOrigin::Default);
    }

    /// A fault of an expression: of the layer where it can differ between layers, else of the whole model.
    fn expression_fault(
        &mut self,
        at: (&Place, &str),
        by: &Expression,
        layer: Option<usize>,
        message: String,
    ) {
        let layer = layer.filter(|_| self.values.varies(by));
        self.fault(at.0, at.1, layer, message);
    }

    /// A number, before rounding.
    fn number(&mut self, number: &Number, layer: Option<usize>) -> Option<(f64, ValueOrigin)> {
        let scalar = number.value.for_source(self.input.source);
        let expression = match scalar {
            Scalar::Literal(value) => return Some((*value, ValueOrigin::Spec)),
            Scalar::Expression(expression) => expression,
        };
        let found = self.values.shared(expression, layer).and_then(|value| as_number(&value, expression));
        match found {
            Ok(value) => Some((value, self.values.origin(expression))),
            Err(message) => {
                self.expression_fault((&number.place, &number.path), expression, layer, message);
                None
            }
        }
    }

    /// A real: computed in f64, rounded to f32 once.
    pub(super) fn real(&mut self, number: &Number, layer: Option<usize>) -> Option<f32> {
        let (value, origin) = self.number(number, layer)?;
        let rounded = value as f32;
        if !rounded.is_finite() {
            self.fault(
                &number.place,
                &number.path,
                layer,
                format!("{value} is not a number an f32 can hold"),
            );
            return None;
        }
        self.record(&number.path, layer, rounded.to_string(), origin);
        Some(rounded)
    }

    /// A count: must come out a whole number.
    pub(super) fn count(&mut self, number: &Number, layer: Option<usize>) -> Option<usize> {
        let (value, origin) = self.number(number, layer)?;
        if value.fract() != 0.0 || !(0.0..=MOST).contains(&value) {
            self.fault(&number.place, &number.path, layer, format!("{value} is not a count"));
            return None;
        }
        self.record(&number.path, layer, value.to_string(), origin);
        Some(value as usize)
    }

    /// A truth.
    pub(super) fn truth(&mut self, truth: &Truth, layer: Option<usize>) -> Option<bool> {
        let (value, origin) = match &truth.value {
            Condition::Literal(value) => (*value, ValueOrigin::Spec),
            Condition::Expression(expression) => {
                match self.values.shared(expression, layer).and_then(|value| as_truth(&value, expression)) {
                    Ok(value) => (value, self.values.origin(expression)),
                    Err(message) => {
                        self.expression_fault((&truth.place, &truth.path), expression, layer, message);
                        return None;
                    }
                }
            }
        };
        self.record(&truth.path, layer, value.to_string(), origin);
        Some(value)
    }

    /// A name.
    pub(super) fn name<T: NameSet>(&mut self, name: &Name<T>, layer: Option<usize>) -> Option<T> {
        let (text, value, origin) = match &name.value {
            Choice::Given(given) => {
                let (text, value) = given.for_source(self.input.source);
                (*text, *value, ValueOrigin::Spec)
            }
            Choice::By { by, answers } => {
                let asked = self.values.shared(by, layer).and_then(|value| as_answer(&value, by));
                let found = asked.and_then(|asked| {
                    let known =
                        || answers.iter().map(|(key, ..)| key.as_str()).collect::<Vec<_>>().join(", ");
                    let answer = answers.iter().find(|(key, ..)| *key == asked);
                    answer.ok_or_else(|| {
                        format!("`{}` is {asked}; there are answers for {} only", by.text, known())
                    })
                });
                match found {
                    Ok((_, text, value)) => (*text, *value, self.values.origin(by)),
                    Err(message) => {
                        self.expression_fault((&name.place, &name.path), by, layer, message);
                        return None;
                    }
                }
            }
        };
        self.record(&name.path, layer, text.to_string(), origin);
        Some(value)
    }

    /// A name with a default.
    pub(super) fn name_or<T: NameSet>(
        &mut self,
        name: Option<&Name<T>>,
        layer: Option<usize>,
        default: T,
    ) -> Option<T> {
        match name {
            Some(name) => self.name(name, layer),
            None => Some(default),
        }
    }

    /// A real with a default.
    pub(super) fn real_or(
        &mut self,
        number: Option<&Number>,
        layer: Option<usize>,
        default: f32,
    ) -> Option<f32> {
        match number {
            Some(number) => self.real(number, layer),
            None => Some(default),
        }
    }

    /// The case that holds in a layer; for an unnamed component, itself unless its `when` is false.
    ///
    /// `None` is a fault already reported; `Some(None)` is no component.
    pub(super) fn case<'c, T>(&mut self, cases: &'c Cases<T>, layer: usize) -> Option<Option<&'c T>> {
        let mut holding: Vec<&Case<T>> = Vec::new();
        for case in &cases.cases {
            let holds = match &case.when {
                Some(when) => self.truth(when, Some(layer))?,
                None => true,
            };
            if holds {
                holding.push(case);
            }
        }
        if !cases.named {
            return Some(holding.first().map(|case| &case.component));
        }
        if let [only] = holding[..] {
            return Some(Some(&only.component));
        }
        let texts: Vec<String> =
            cases.cases.iter().map(|case| format!("{}: {}", case.name, condition(case))).collect();
        let names: Vec<&str> = holding.iter().map(|case| case.name.as_str()).collect();
        let message = if names.is_empty() {
            format!("no case of [{}] holds ({})", cases.path, texts.join("; "))
        } else {
            format!(
                "{} cases of [{}] hold, {} ({})",
                names.len(),
                cases.path,
                names.join(" and "),
                texts.join("; ")
            )
        };
        self.fault(
            &cases.place,
            &cases.path,
            Some(layer),
            format!("{message}; exactly one must hold in every layer"),
        );
        None
    }
}

fn condition<T>(case: &Case<T>) -> String {
    match case.when.as_ref().map(|when| &when.value) {
        Some(Condition::Expression(expression)) => expression.text.clone(),
        Some(Condition::Literal(value)) => value.to_string(),
        None => "always".into(),
    }
}

/// The number an expression gave.
pub(super) fn as_number(value: &Value, expression: &Expression) -> Result<f64, String> {
    let number = if value.kind() == ValueKind::Number { f64::try_from(value.clone()).ok() } else { None };
    match number {
        Some(number) if number.is_finite() => Ok(number),
        Some(number) => Err(format!("`{}` is {number}; a finite number is wanted", expression.text)),
        None => Err(format!("`{}` is {}; a number is wanted", expression.text, describe(value))),
    }
}

/// The truth an expression gave; whole numbers 0 and 1 are truths too, because arrays in files hold them.
pub(super) fn as_truth(value: &Value, expression: &Expression) -> Result<bool, String> {
    match value.kind() {
        ValueKind::Bool => Ok(value.is_true()),
        ValueKind::Number if matches!(value.as_i64(), Some(0 | 1)) => Ok(value.is_true()),
        _ => Err(format!("`{}` is {}; a truth is wanted", expression.text, describe(value))),
    }
}

fn as_answer(value: &Value, expression: &Expression) -> Result<String, String> {
    match value.kind() {
        ValueKind::Bool => Ok(value.is_true().to_string()),
        ValueKind::Number => match value.as_i64() {
            Some(whole) => Ok(whole.to_string()),
            None => Err(format!(
                "`{}` is {value}; a choice goes by whole numbers, truths or strings",
                expression.text
            )),
        },
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_string()),
        _ => Err(format!(
            "`{}` is {}; a choice goes by whole numbers, truths or strings",
            expression.text,
            describe(value)
        )),
    }
}

fn describe(value: &Value) -> String {
    match value.kind() {
        ValueKind::Seq => match value.len() {
            Some(length) => format!("a list of {length} values"),
            None => "a list".into(),
        },
        ValueKind::Map => "a group of keys".into(),
        ValueKind::String => format!("the string \"{value}\""),
        ValueKind::Bool => format!("{value}, a truth"),
        _ => value.to_string(),
    }
}
