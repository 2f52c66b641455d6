//! Numbers in schemas that can be enforced exactly.

use serde_json::Value;

/// Up to here each whole number is a 64-bit float (2^53).
const LARGEST_BOUND: f64 = 9_007_199_254_740_992.0;
/// The most digits after the decimal point of a bound or a factor.
const MOST_DECIMALS: usize = 9;

/// Checks a bound of numbers.
///
/// # Errors
/// Why it cannot be enforced, as the rest of a sentence.
pub(crate) fn check_bound(value: &Value) -> Result<(), String> {
    let Some(number) = value.as_f64() else {
        let advice = if value.is_boolean() { " (a number since draft 6 of JSON Schema)" } else { "" };
        return Err(format!("is {value}, which is not a number{advice}"));
    };
    if number.abs() > LARGEST_BOUND {
        return Err(format!("is {value}; only numbers from -2^53 to 2^53 can be enforced: remove it"));
    }
    check_decimals(number)
}

/// Checks a factor: a number above 0 of which numbers are multiples.
///
/// # Errors
/// Why it cannot be enforced, as the rest of a sentence.
pub(crate) fn check_factor(value: &Value) -> Result<(), String> {
    let number = value.as_f64().filter(|number| *number > 0.0);
    let Some(number) = number else { return Err(format!("is {value}, but must be a number above 0")) };
    check_decimals(number)?;
    let digits: String = number.to_string().chars().filter(char::is_ascii_digit).collect();
    match digits.parse::<u32>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("is {value}, which has too many digits: at most 9 can be enforced")),
    }
}

fn check_decimals(number: f64) -> Result<(), String> {
    let text = number.to_string();
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    if decimals > MOST_DECIMALS {
        return Err(format!("is {number:e}; at most {MOST_DECIMALS} digits after the point can be enforced"));
    }
    Ok(())
}
