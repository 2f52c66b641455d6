//! `reasoning_effort`: how much a model reasons, as variables of its chat template.

use crate::body::{LineFault, RequestBody};
use menagerie::engine::RenderOptions;

const FIELD: &str = "reasoning_effort";
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Removes the field. Returns the options with the variables that templates know for it, unless they are set otherwise;
/// `None` without the field.
///
/// # Errors
/// It is not the name of an effort.
pub(crate) fn with_effort(
    body: &mut RequestBody,
    options: &RenderOptions,
) -> Result<Option<RenderOptions>, LineFault> {
    let Some(effort) = body.take(FIELD) else { return Ok(None) };
    if !effort.as_str().is_some_and(|effort| EFFORTS.contains(&effort)) {
        return Err(LineFault::of(FIELD, format!("{effort} is not one of {}", EFFORTS.join(", "))));
    }
    let mut with = options.clone();
    with.arguments.entry("enable_thinking").or_insert((effort != "none").into());
    with.arguments.entry(FIELD).or_insert(effort);
    Ok(Some(with))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn an_effort_is_variables_of_the_template() {
        let read = |fields: Value, options: &RenderOptions| {
            let mut body = RequestBody::new(fields.as_object().unwrap().clone());
            with_effort(&mut body, options)
                .map(|options| options.map(|options| Value::from(options.arguments)))
        };
        let plain = RenderOptions::default();
        let none = json!({ "enable_thinking": false, "reasoning_effort": "none" });
        assert_eq!(read(json!({ "reasoning_effort": "none" }), &plain), Ok(Some(none)));
        assert_eq!(read(json!({}), &plain), Ok(None));
        assert_eq!(
            read(json!({ "reasoning_effort": 3 }), &plain).unwrap_err().field.as_deref(),
            Some("reasoning_effort")
        );
        let given = json!({ "enable_thinking": false });
        let set = plain.with_arguments(given.as_object().unwrap().clone());
        let high = json!({ "enable_thinking": false, "reasoning_effort": "high" });
        assert_eq!(read(json!({ "reasoning_effort": "high" }), &set), Ok(Some(high)));
    }
}
