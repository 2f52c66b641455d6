//! Fields of a body that change no answer.

use crate::body::LineFault;
use serde_json::{Map, Value};

/// Fields that change no answer, or only how long it may take. Clients send them by themselves: the first ones those of
/// OpenAI, the last ones those of llama-server.
const WITHOUT_EFFECT: [&str; 12] = [
    "user",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "verbosity",
    "cache_prompt",
    "id_slot",
    "t_max_prompt_ms",
    "t_max_predict_ms",
];

/// Removes the fields that change no answer, and those that are null; returns the names of the former.
///
/// # Errors
/// `store` asks to store the answer.
pub fn take_harmless(fields: &mut Map<String, Value>) -> Result<Vec<String>, LineFault> {
    fields.retain(|_, value| !value.is_null());
    let mut ignored = Vec::new();
    for name in WITHOUT_EFFECT {
        if fields.remove(name).is_some() {
            ignored.push(name.to_owned());
        }
    }
    match fields.remove("store") {
        None => {}
        Some(Value::Bool(false)) => ignored.push("store".to_owned()),
        Some(_) => {
            return Err(LineFault::of("store", "answers are not stored; leave it out, or set it to false"));
        }
    }
    Ok(ignored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn harmless_fields_are_listed_and_storing_is_refused() {
        let mut body =
            fields(json!({ "user": "u", "store": false, "seed": 1, "moderation": null, "id_slot": 0 }));
        assert_eq!(take_harmless(&mut body), Ok(["user", "id_slot", "store"].map(str::to_owned).to_vec()));
        assert_eq!(Value::from(body), json!({ "seed": 1 }));
        let fault = take_harmless(&mut fields(json!({ "store": true }))).unwrap_err();
        assert_eq!((fault.status, fault.field.as_deref()), (400, Some("store")));
    }
}
