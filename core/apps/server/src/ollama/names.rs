//! Names of models as ollama writes them: with a tag.

use crate::object_fields::ObjectFields;
use menagerie_openai::LineFault;
use serde_json::{Map, Value};

/// The tag of a name that has none.
const LATEST: &str = ":latest";

/// A name with a tag.
pub(crate) fn shown_name(name: &str) -> String {
    if name.contains(':') { name.to_owned() } else { format!("{name}{LATEST}") }
}

/// Removes the name of a model, from `model` or from its older form `name`, and returns it as the server knows it: a tag
/// is left out if `is_known` does not know the name with it.
pub(crate) fn take_name(
    fields: &mut Map<String, Value>,
    is_known: impl Fn(&str) -> bool,
) -> Result<String, LineFault> {
    let mut names = ObjectFields::of_body(std::mem::take(fields));
    let (model, name) = (names.text("model")?, names.text("name")?);
    *fields = names.into_rest();
    let name = model.or(name).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| LineFault::of("model", "expected the name of a model"))?;
    match name.strip_suffix(LATEST) {
        Some(short) if !is_known(&name) => Ok(short.to_owned()),
        _ => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tags_are_optional() {
        assert_eq!((shown_name("m"), shown_name("m:1b")), ("m:latest".to_owned(), "m:1b".to_owned()));
        let take = |body: Value| {
            let Value::Object(mut fields) = body else { panic!("{body}") };
            take_name(&mut fields, |name| name == "n:latest").map(|name| (name, fields.len()))
        };
        assert_eq!(take(json!({ "model": "m:latest", "more": 1 })), Ok(("m".to_owned(), 1)));
        assert_eq!(take(json!({ "name": "n:latest" })), Ok(("n:latest".to_owned(), 0)));
        assert_eq!(take(json!({ "model": "m:1b" })), Ok(("m:1b".to_owned(), 0)));
        for wrong in [json!({}), json!({ "model": 1 }), json!({ "model": "" })] {
            assert_eq!(take(wrong).unwrap_err().field.as_deref(), Some("model"));
        }
    }
}
