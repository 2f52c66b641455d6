//! Values of `[hf.config]`: expressions over the names of a config, per layer where they vary.

use super::config::Names;
use crate::expression::MOST_PARTS;
use crate::expression::{Expression, NameScope, explain};
use crate::language::spec::HfValue;
use crate::text::literal::Literal;
use crate::text::source::MetadataValue;
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::collections::BTreeMap;

/// The value of a canonical key; `None` if the config does not state it.
pub(super) struct ComputedValue {
    pub(super) value: Option<MetadataValue>,
    /// Names that it is computed from, whether the config has them or not.
    pub(super) mentions: Vec<String>,
}

/// The value of a line of `[hf.config]`; `blocks` is the length of a list per layer, 0 if unknown.
///
/// # Errors
/// What is wrong with the expression or its result.
pub(super) fn compute(line: &HfValue, names: &Names, blocks: usize) -> Result<ComputedValue, String> {
    let text = match line {
        HfValue::Literal(literal) => {
            return Ok(ComputedValue { value: Some(of_literal(literal)), mentions: Vec::new() });
        }
        HfValue::Expression(text) => text,
    };
    let expression = Expression::parse(text, NameScope::Config)?;
    let mentions: Vec<String> = expression.names.iter().map(|used| used.name.clone()).collect();
    let listed =
        |name: &String| matches!(names.get(name), Some(MetadataValue::List(list)) if list.len() == blocks);
    let varies = blocks > 0 && (expression.layer || mentions.iter().any(listed));
    let layers = LayerList { blocks, lists: LayerListForm::ByLayer };
    let value = if varies { per_layer(&expression, names, layers)? } else { once(&expression, names, None)? };
    Ok(ComputedValue { value, mentions })
}

/// As [`compute`], but lists stay lists: `layer_types[layer]` is the value of a layer.
///
/// # Errors
/// The errors of [`compute`].
pub(super) fn compute_whole(
    line: &HfValue,
    names: &Names,
    blocks: usize,
) -> Result<Option<MetadataValue>, String> {
    let text = match line {
        HfValue::Literal(literal) => return Ok(Some(of_literal(literal))),
        HfValue::Expression(text) => text,
    };
    let expression = Expression::parse(text, NameScope::Config)?;
    match expression.layer && blocks > 0 {
        true => per_layer(&expression, names, LayerList { blocks, lists: LayerListForm::Whole }),
        false => once(&expression, names, None),
    }
}

/// The meaning of a name with a value per layer.
#[derive(Clone, Copy, PartialEq)]
enum LayerListForm {
    /// The value of the layer.
    ByLayer,
    /// The whole list.
    Whole,
}

/// The number of layers, and the meaning of lists in each.
#[derive(Clone, Copy)]
struct LayerList {
    blocks: usize,
    lists: LayerListForm,
}

/// The finite number of an expression in the whole model, if the config states it, and the names in it.
///
/// # Errors
/// What is wrong with the expression, or that the result is not a finite number.
pub(super) fn number(line: &HfValue, names: &Names) -> Result<(Option<f64>, Vec<String>), String> {
    // Lists stay lists, whatever the number of layers.
    let computed = compute(line, names, 0)?;
    let number = match computed.value {
        None => None,
        Some(MetadataValue::Integer(whole)) => Some(whole as f64),
        Some(MetadataValue::Number(number)) if number.is_finite() => Some(number),
        Some(other) => return Err(format!("{other}; expected a finite number")),
    };
    Ok((number, computed.mentions))
}

fn per_layer(
    expression: &Expression,
    names: &Names,
    layers: LayerList,
) -> Result<Option<MetadataValue>, String> {
    let blocks = layers.blocks;
    let values: Result<Vec<_>, String> =
        (0..blocks).map(|layer| once(expression, names, Some((layer, layers)))).collect();
    let values = values?;
    let given = values.iter().filter(|value| value.is_some()).count();
    if given == 0 {
        return Ok(None);
    }
    if given < blocks {
        let layer = values.iter().position(Option::is_none).unwrap_or(0);
        return Err(format!(
            "`{}` has no value in layer {layer} and has one in other layers",
            expression.text
        ));
    }
    Ok(Some(MetadataValue::List(values.into_iter().flatten().collect())))
}

/// The value in one layer, or in the whole model.
fn once(
    expression: &Expression,
    names: &Names,
    layer: Option<(usize, LayerList)>,
) -> Result<Option<MetadataValue>, String> {
    let missing = expression.names.iter().any(|used| !names.contains_key(&used.name));
    match expression.evaluate(root(expression, names, layer)) {
        Ok(value) => of_value(&value, &expression.text),
        Err(error) if missing && is_undefined(&error) => Ok(None),
        Err(error) => Err(explain(&error, &expression.text)),
    }
}

/// Whether an error is about a name that the config does not have.
fn is_undefined(error: &Error) -> bool {
    error.kind() == ErrorKind::UndefinedError
        || error.detail().is_some_and(|detail| detail.contains("undefined"))
}

/// The names that an expression can use, as nested tables.
fn root(expression: &Expression, names: &Names, layer: Option<(usize, LayerList)>) -> Value {
    let mut root = ConfigNames::default();
    for used in expression.names.iter().filter(|used| used.name.matches('.').count() < MOST_PARTS) {
        let mut parts: Vec<&str> = used.name.split('.').collect();
        let Some(last) = parts.pop() else { continue };
        let space =
            parts.into_iter().fold(&mut root, |at, part| at.inner.entry(part.to_owned()).or_default());
        let value = names.get(&used.name).map(|value| match (value, layer) {
            (
                MetadataValue::List(list),
                Some((layer, LayerList { blocks, lists: LayerListForm::ByLayer })),
            ) if list.len() == blocks => to_value(&list[layer]),
            (value, _) => to_value(value),
        });
        if let Some(value) = value {
            space.values.insert(last.to_owned(), value);
        }
    }
    if let Some((layer, _)) = layer {
        root.values.insert("layer".to_owned(), Value::from(layer));
    }
    root.close()
}

#[derive(Default)]
struct ConfigNames {
    values: BTreeMap<String, Value>,
    inner: BTreeMap<String, ConfigNames>,
}

impl ConfigNames {
    fn close(self) -> Value {
        let mut values = self.values;
        for (name, space) in self.inner {
            values.insert(name, space.close());
        }
        Value::from(values)
    }
}

fn to_value(value: &MetadataValue) -> Value {
    match value {
        MetadataValue::Number(number) => Value::from(*number),
        MetadataValue::Integer(number) => Value::from(*number),
        MetadataValue::Bool(value) => Value::from(*value),
        MetadataValue::Text(text) => Value::from(text.as_str()),
        MetadataValue::List(values) => Value::from(values.iter().map(to_value).collect::<Vec<_>>()),
    }
}

fn of_value(value: &Value, text: &str) -> Result<Option<MetadataValue>, String> {
    Ok(Some(match value.kind() {
        ValueKind::Undefined => return Ok(None),
        ValueKind::Bool => MetadataValue::Bool(value.is_true()),
        ValueKind::Number => match value.as_i64().filter(|_| value.is_integer()) {
            Some(whole) => MetadataValue::Integer(whole),
            None => MetadataValue::Number(
                f64::try_from(value.clone()).map_err(|error| format!("`{text}`: {error}"))?,
            ),
        },
        ValueKind::String => MetadataValue::Text(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Seq => {
            let items = value.try_iter().map_err(|error| explain(&error, text))?;
            let items: Result<Vec<_>, String> = items.map(|item| of_value(&item, text)).collect();
            MetadataValue::List(items?.into_iter().flatten().collect())
        }
        other => return Err(format!("`{text}` is a {other}; expected a number, boolean, string or list")),
    }))
}

pub(super) fn of_literal(literal: &Literal) -> MetadataValue {
    match literal {
        Literal::Integer(value) => MetadataValue::Integer(*value),
        Literal::Number(value) => MetadataValue::Number(*value),
        Literal::Bool(value) => MetadataValue::Bool(*value),
        Literal::Text(value) => MetadataValue::Text(value.clone()),
        Literal::List(values) => MetadataValue::List(values.iter().map(of_literal).collect()),
    }
}

/// Whether a value equals the expected one; integers and floats are compared as numbers.
pub(super) fn is_expected(found: &MetadataValue, wanted: &MetadataValue) -> bool {
    match (found, wanted) {
        (MetadataValue::Integer(a), MetadataValue::Number(b))
        | (MetadataValue::Number(b), MetadataValue::Integer(a)) => *a as f64 == *b,
        (MetadataValue::List(a), MetadataValue::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_expected(a, b))
        }
        (a, b) => a == b,
    }
}
