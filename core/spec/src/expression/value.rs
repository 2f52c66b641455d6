//! Values of expressions as numbers, booleans and answers of choices.

use super::Expression;
use minijinja::Value;
use minijinja::value::ValueKind;

/// The largest valid count.
const MOST: f64 = u32::MAX as f64;

/// A count from a number.
pub(crate) fn as_count(value: f64) -> Option<usize> {
    (value.fract() == 0.0 && (0.0..=MOST).contains(&value)).then_some(value as usize)
}

/// The number that an expression evaluated to.
///
/// # Errors
/// The value is not a number, or not finite.
pub(crate) fn as_number(value: &Value, expression: &Expression) -> Result<f64, String> {
    let number = if value.kind() == ValueKind::Number { f64::try_from(value.clone()).ok() } else { None };
    match number {
        Some(number) if number.is_finite() => Ok(number),
        Some(number) => Err(format!("`{}` is {number}; expected a finite number", expression.text)),
        None => Err(format!("`{}` is {}; expected a number", expression.text, describe(value))),
    }
}

/// The value of an expression as a boolean; the integers 0 and 1 are accepted, because arrays in files contain them.
///
/// # Errors
/// The value is not a boolean.
pub(crate) fn as_bool(value: &Value, expression: &Expression) -> Result<bool, String> {
    match value.kind() {
        ValueKind::Bool => Ok(value.is_true()),
        ValueKind::Number if matches!(value.as_i64(), Some(0 | 1)) => Ok(value.is_true()),
        _ => Err(format!("`{}` is {}; expected true or false", expression.text, describe(value))),
    }
}

pub(crate) fn as_answer(value: &Value, expression: &Expression) -> Result<String, String> {
    match value.kind() {
        ValueKind::Bool => Ok(value.is_true().to_string()),
        ValueKind::Number => match value.as_i64() {
            Some(whole) => Ok(whole.to_string()),
            None => {
                Err(format!("`{}` is {value}; a choice needs an integer, boolean or string", expression.text))
            }
        },
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_string()),
        _ => Err(format!(
            "`{}` is {}; a choice needs an integer, boolean or string",
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
        ValueKind::Bool => format!("{}, a boolean", value.is_true()),
        _ => value.to_string(),
    }
}
