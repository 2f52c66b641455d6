//! `--set KEY=VALUE`: canonical keys set by the user.

use menagerie::spec::MetadataValue;
use serde_json::Value;

/// Parses a canonical key and its value: a number, `true` or `false`, a list in brackets, or a string. A string that
/// looks like one of the others must be quoted.
pub(crate) fn key_setting(text: &str) -> Result<(String, MetadataValue), String> {
    let (key, value) = text.split_once('=').ok_or("it has no `=`; e.g. attention.sliding_window=4096")?;
    let (key, value) = (key.trim(), value.trim());
    if key.is_empty() {
        return Err("there is no key before the `=`".to_owned());
    }
    let kind =
        |what: &str| format!("the value of {key} {what}; expected a number, true, false, a string or a list");
    match serde_json::from_str::<Value>(value) {
        Ok(parsed) => key_value(&parsed).map(|value| (key.to_owned(), value)).map_err(kind),
        Err(_) if value.is_empty() => Err(kind("is empty")),
        Err(_) if value.starts_with(['[', '{', '"']) => Err(kind("is not valid JSON")),
        Err(_) => Ok((key.to_owned(), MetadataValue::Text(value.to_owned()))),
    }
}

fn key_value(value: &Value) -> Result<MetadataValue, &'static str> {
    Ok(match value {
        Value::Bool(value) => MetadataValue::Bool(*value),
        Value::String(text) => MetadataValue::Text(text.clone()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => MetadataValue::Integer(whole),
            (None, Some(real)) if real.is_finite() => MetadataValue::Number(real),
            _ => return Err("is too large a number"),
        },
        Value::Array(values) => MetadataValue::List(values.iter().map(key_value).collect::<Result<_, _>>()?),
        Value::Null => return Err("is null"),
        Value::Object(_) => return Err("is an object"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_types_they_look_like() {
        let value = |text: &str| key_setting(text).unwrap().1;
        assert_eq!(
            key_setting("attention.sliding_window = 4096").unwrap(),
            ("attention.sliding_window".to_owned(), MetadataValue::Integer(4096))
        );
        assert_eq!(value("a=1e6"), MetadataValue::Number(1e6));
        assert_eq!(value("a=-2"), MetadataValue::Integer(-2));
        assert_eq!(value("a=true"), MetadataValue::Bool(true));
        assert_eq!(value("a=yarn"), MetadataValue::Text("yarn".into()));
        assert_eq!(value("a=\"4096\""), MetadataValue::Text("4096".into()));
        assert_eq!(value("a=b=c"), MetadataValue::Text("b=c".into()));
        let list = vec![MetadataValue::Integer(1), MetadataValue::Bool(false)];
        assert_eq!(value("a=[1, false]"), MetadataValue::List(list));
        for (wrong, why) in [
            ("a", "no `=`"),
            ("=1", "no key"),
            ("a=", "is empty"),
            ("a=[1", "is not valid JSON"),
            ("a=null", "is null"),
            ("a={}", "is an object"),
        ] {
            let error = key_setting(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
