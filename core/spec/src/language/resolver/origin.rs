//! The origin of an expression's value: it is the file only if no constant and no formula of the spec is involved.

use super::evaluate::Evaluator;
use crate::expression::{Expression, Shape, as_bool};
use crate::kind::written::Scalar;
use crate::language::origin::ValueOrigin;
use std::collections::BTreeSet;

impl Evaluator<'_> {
    /// The origin of an expression's value, in a layer.
    pub(crate) fn origin(&mut self, expression: &Expression, layer: Option<usize>) -> ValueOrigin {
        match expression.shape() {
            Shape::Name(name) => self.origin_of_name(name, layer),
            Shape::Pattern(key) => self.origin_of_key(key),
            Shape::Or(value, otherwise) => {
                let absent = matches!(value.shape(), Shape::Name(name) if !self.is_there(name, layer));
                if !absent {
                    return self.origin(value, layer);
                }
                let mut asked: BTreeSet<String> = value.mentions().map(str::to_owned).collect();
                match self.origin(otherwise, layer) {
                    ValueOrigin::Spec => ValueOrigin::SpecDefault { keys: asked.into_iter().collect() },
                    ValueOrigin::SpecDefault { keys } => {
                        asked.extend(keys);
                        ValueOrigin::SpecDefault { keys: asked.into_iter().collect() }
                    }
                    other => other,
                }
            }
            Shape::Choice { condition, then, otherwise } => {
                let held = self.shared(condition, layer).and_then(|value| as_bool(&value, condition));
                match (held, otherwise) {
                    (Ok(true), _) => self.origin(then, layer),
                    (Ok(false), Some(otherwise)) => self.origin(otherwise, layer),
                    _ => self.origin_of_formula(expression),
                }
            }
            Shape::Whole => self.origin_of_formula(expression),
        }
    }

    /// Keys of the file that an expression depends on, including those of its names.
    pub(crate) fn file_keys(&self, expression: &Expression) -> Vec<String> {
        let closure = self.closure(expression);
        let names = closure.keys.iter().map(|used| used.name.as_str());
        let mut keys = BTreeSet::new();
        let names: BTreeSet<&str> = names.chain(closure.patterns.iter().map(String::as_str)).collect();
        names.into_iter().for_each(|name| self.facts.origins(name, &mut keys));
        keys.into_iter().map(str::to_owned).collect()
    }

    fn is_there(&mut self, name: &str, layer: Option<usize>) -> bool {
        self.named(name).is_some() || self.frame(layer).get(name).is_some()
    }

    fn origin_of_name(&mut self, name: &str, layer: Option<usize>) -> ValueOrigin {
        match self.named(name).map(|named| &named.value) {
            Some(Scalar::Literal(_)) => ValueOrigin::Spec,
            Some(Scalar::Expression(expression)) => self.origin(expression, layer),
            None => self.origin_of_key(name),
        }
    }

    /// The origin of a missing key's standard default: another key, or a formula over several.
    fn origin_of_key(&self, key: &str) -> ValueOrigin {
        let mut keys = BTreeSet::new();
        self.facts.origins(key, &mut keys);
        let texts: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        if keys.is_empty() {
            ValueOrigin::SpecDefault { keys: vec![key.to_owned()] }
        } else if self.is_overridden(&texts) {
            ValueOrigin::Override { keys: texts }
        } else if texts.len() == 1 {
            ValueOrigin::File { keys: texts }
        } else {
            ValueOrigin::Formula { keys: texts }
        }
    }

    fn origin_of_formula(&self, expression: &Expression) -> ValueOrigin {
        let keys = self.file_keys(expression);
        if self.is_overridden(&keys) {
            return ValueOrigin::Override { keys };
        }
        if !keys.is_empty() {
            return ValueOrigin::Formula { keys };
        }
        let closure = self.closure(expression);
        let asked = closure.keys.iter().map(|used| used.name.clone()).chain(closure.patterns.iter().cloned());
        let asked: BTreeSet<String> = asked.collect();
        if !closure.roles.is_empty() {
            ValueOrigin::Tensors { roles: closure.roles.into_iter().collect() }
        } else if asked.is_empty() {
            ValueOrigin::Spec
        } else {
            ValueOrigin::SpecDefault { keys: asked.into_iter().collect() }
        }
    }

    fn is_overridden(&self, keys: &[String]) -> bool {
        keys.iter().any(|key| self.facts.overridden.contains(key))
    }
}
