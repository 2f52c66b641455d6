//! Values with floating-point numbers as Python writes them (`repr`).

use std::fmt::{self, Write};

use minijinja::Value;
use minijinja::value::ValueKind;

use super::json::float_text;

/// Whether a value is or holds a floating-point number: minijinja writes 1e21 with all its digits, and 1e20 in a list
/// without the sign of the exponent.
pub(super) fn holds_float(value: &Value) -> bool {
    match (value.kind(), value.try_iter()) {
        (ValueKind::Number, _) => is_float(value),
        (ValueKind::Seq, Ok(mut items)) => items.any(|item| holds_float(&item)),
        (ValueKind::Map, Ok(mut keys)) => {
            keys.any(|key| holds_float(&key) || value.get_item(&key).is_ok_and(|item| holds_float(&item)))
        }
        _ => false,
    }
}

fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

/// Writes a value as Python's `repr` does.
///
/// # Errors
/// The errors of `out`.
pub(super) fn write(value: &Value, out: &mut impl Write) -> fmt::Result {
    match (value.kind(), value.try_iter()) {
        (ValueKind::Number, _) if is_float(value) => out.write_str(&float(value)),
        (ValueKind::Seq, Ok(items)) => {
            let tuple = value.is_tuple();
            out.write_char(if tuple { '(' } else { '[' })?;
            let mut count = 0;
            for item in items {
                out.write_str(if count > 0 { ", " } else { "" })?;
                write(&item, out)?;
                count += 1;
            }
            out.write_str(match (tuple, count) {
                (true, 1) => ",)",
                (true, _) => ")",
                (false, _) => "]",
            })
        }
        (ValueKind::Map, Ok(keys)) => {
            out.write_char('{')?;
            for (at, key) in keys.enumerate() {
                out.write_str(if at > 0 { ", " } else { "" })?;
                write(&key, out)?;
                out.write_str(": ")?;
                write(&value.get_item(&key).unwrap_or_default(), out)?;
            }
            out.write_char('}')
        }
        _ => write!(out, "{value:?}"),
    }
}

/// Python's `repr` of a float, which spells non-finite numbers differently from JSON.
fn float(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(number) if number.is_nan() => "nan".to_owned(),
        Ok(number) if number.is_infinite() => (if number > 0.0 { "inf" } else { "-inf" }).to_owned(),
        Ok(number) => float_text(number),
        Err(_) => value.to_string(),
    }
}
