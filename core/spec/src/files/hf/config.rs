//! [`HfConfig`]: a config.json, and its names after old spellings are rewritten.

use super::{rope, wrapped};
use crate::text::fault::{Fault, SpecFaults};
use crate::text::source::MetadataValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Maximum size of a config.json, in bytes.
const MOST_BYTES: usize = 16 << 20;

/// Maximum number of layers for lists per layer.
const MOST_LAYERS: u64 = 4096;

/// A config.json as written.
#[derive(Clone, Debug)]
pub struct HfConfig {
    file: String,
    root: Map<String, Value>,
}

/// The names of a config: nested tables as dotted names, without nulls.
pub(super) type Names = BTreeMap<String, MetadataValue>;

impl HfConfig {
    /// Reads the text of a config.json; `file` is its path, for messages.
    ///
    /// # Errors
    /// The text is too long, not JSON, or not an object.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecFaults> {
        let wrong = |message: String| fault(file, "", message);
        if text.len() > MOST_BYTES {
            return Err(wrong(format!("it has {} bytes; at most {MOST_BYTES} are allowed", text.len())));
        }
        match serde_json::from_str(&without_bare_numbers(text)) {
            Ok(Value::Object(root)) => Ok(Self { file: file.to_owned(), root }),
            Ok(_) => Err(wrong("expected a table; this file is not the config of a model".to_owned())),
            Err(error) => Err(wrong(format!("not valid JSON: {error}; download the file again"))),
        }
    }

    /// Its path, for messages.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Its class: the first of `architectures`.
    ///
    /// # Errors
    /// The config has no class.
    pub fn class(&self) -> Result<&str, SpecFaults> {
        let named = self.root.get("architectures").and_then(Value::as_array).and_then(|names| names.first());
        named.and_then(Value::as_str).filter(|name| !name.is_empty()).ok_or_else(|| {
            let message = "it names no class, so the meaning of the weights is unknown; add \"architectures\": \
                           [\"<class of transformers>\"] (adapters and tokenizers have no such file: give the model's folder)";
            fault(&self.file, "architectures", message)
        })
    }

    /// The class whose spec describes the text model: for a class around a text model, that of the text model.
    ///
    /// # Errors
    /// The errors of [`Self::class`]; an unsupported class, with the reason; a text model without an architecture
    /// here.
    pub fn text_class(&self) -> Result<&str, SpecFaults> {
        let class = self.class()?;
        if let Some(refused) = wrapped::refusal(&self.file, class) {
            return Err(refused);
        }
        let Some(table) = wrapped::table_of(class) else { return Ok(class) };
        if !self.root.contains_key(table) {
            return Err(missing(&self.file, table));
        }
        let found = wrapped::text_class(self.root.get(table).and_then(Value::as_object));
        found.map_err(|message| fault(&self.file, &format!("{table}.model_type"), message))
    }

    /// The table of the text model, if the class is one around it.
    pub(super) fn wrapped(&self) -> Option<&'static str> {
        wrapped::table_of(self.class().ok()?)
    }

    /// A value of the top level, as written.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.root.get(name).filter(|value| !value.is_null())
    }

    /// Whether the head is the embedding, if the config says it; `inner` is the table of the text part, if there is
    /// one. The value of the top level takes precedence.
    pub(super) fn tied(&self, inner: Option<&str>) -> Option<bool> {
        let inner =
            inner.and_then(|table| self.root.get(table)).and_then(|table| table.get("tie_word_embeddings"));
        self.root.get("tie_word_embeddings").or(inner)?.as_bool()
    }

    /// Every name of the text part, after old spellings are rewritten.
    ///
    /// # Errors
    /// The table of the text part is missing.
    pub(super) fn names(&self, inner: Option<&str>) -> Result<Names, SpecFaults> {
        let mut table = match inner {
            None => self.root.clone(),
            Some(inner) => match self.root.get(inner).and_then(Value::as_object) {
                Some(table) => {
                    let mut table = table.clone();
                    wrapped::fill_in(&mut table);
                    table
                }
                None => return Err(missing(&self.file, inner)),
            },
        };
        rope::rewrite(&mut table);
        per_layer(&mut table);
        let mut names = Names::new();
        for (name, value) in &table {
            flatten(name.clone(), value, &mut names);
        }
        Ok(names)
    }
}

/// Rewrites `per_layer_config` of transformers 5 (`{"1": {"head_dim": 16}}`: the values of a layer that differ from
/// the common ones) into lists with one element per layer.
fn per_layer(config: &mut Map<String, Value>) {
    let Some(count) = config.get("num_hidden_layers").and_then(Value::as_u64) else { return };
    let Some(Value::Object(layers)) = config.get("per_layer_config").cloned() else { return };
    let numbers: Option<Vec<usize>> = layers.keys().map(|layer| layer.parse().ok()).collect();
    let fits = |layers: &Vec<usize>| layers.iter().all(|layer| (*layer as u64) < count.min(MOST_LAYERS));
    let Some(numbers) = numbers.filter(fits) else { return };
    config.shift_remove("per_layer_config");
    for (layer, values) in numbers.into_iter().zip(layers.values()) {
        for (name, value) in values.as_object().into_iter().flatten() {
            let usual = config.get(name).cloned().unwrap_or(Value::Null);
            let list = config.entry(name.clone()).or_insert(Value::Null);
            if !list.is_array() {
                *list = Value::Array(vec![usual; count as usize]);
            }
            if let Some(element) = list.get_mut(layer) {
                *element = value.clone();
            }
        }
    }
}

/// The fault of a config without the table of its text model.
fn missing(file: &str, table: &str) -> SpecFaults {
    fault(file, table, "missing; a class around several models has its text part's config there")
}

/// One fault of a file.
pub(super) fn fault(file: &str, subject: &str, message: impl Into<String>) -> SpecFaults {
    let mut faults = SpecFaults::default();
    faults.push(Fault {
        file: file.to_owned(),
        position: None,
        subject: subject.to_owned(),
        message: message.into(),
        layers: Default::default(),
    });
    faults
}

fn flatten(name: String, value: &Value, into: &mut Names) {
    match value {
        Value::Null => {}
        Value::Object(table) => match special(table) {
            Some(number) => drop(into.insert(name, MetadataValue::Number(number))),
            None => table.iter().for_each(|(key, value)| flatten(format!("{name}.{key}"), value, into)),
        },
        value => drop(into.insert(name, key_value(value))),
    }
}

/// `{"__float__": "Infinity"}`: transformers 5's form of numbers that JSON cannot express.
fn special(table: &Map<String, Value>) -> Option<f64> {
    let text = table.get("__float__").filter(|_| table.len() == 1)?.as_str()?;
    match text {
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        _ => None,
    }
}

fn key_value(value: &Value) -> MetadataValue {
    match value {
        Value::Bool(value) => MetadataValue::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => MetadataValue::Integer(whole),
            None => MetadataValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => MetadataValue::Text(text.clone()),
        Value::Array(values) => MetadataValue::List(values.iter().map(key_value).collect()),
        Value::Object(table) => {
            special(table).map_or_else(|| MetadataValue::Text(value.to_string()), MetadataValue::Number)
        }
        Value::Null => MetadataValue::Text("null".to_owned()),
    }
}

/// The text with Python's `Infinity` and `NaN`, which JSON does not allow, in the form of transformers 5.
fn without_bare_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut inside) = (text, false);
    while let Some(first) = rest.chars().next() {
        let word = (!inside)
            .then(|| ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| rest.starts_with(word)));
        if let Some(Some(word)) = word {
            out.push_str(&format!("{{\"__float__\": \"{word}\"}}"));
            rest = &rest[word.len()..];
            continue;
        }
        let mut length = first.len_utf8();
        match first {
            '"' => inside = !inside,
            // The next character is part of the string, even if it is a quote.
            '\\' if inside => length += rest[length..].chars().next().map_or(0, char::len_utf8),
            _ => {}
        }
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Names {
        HfConfig::parse("config.json", text).unwrap().names(None).unwrap()
    }

    #[test]
    fn tables_are_dotted_names_and_nulls_are_absent() {
        let names = names(r#"{"a": {"b": {"c": 1}, "d": null}, "e": [1, 2.5, "x"], "f": null, "g": {}}"#);
        let keys: Vec<&str> = names.keys().map(String::as_str).collect();
        assert_eq!(keys, ["a.b.c", "e"]);
        assert_eq!(names["a.b.c"], MetadataValue::Integer(1));
    }

    #[test]
    fn what_differs_in_a_layer_makes_a_list() {
        let names = names(
            r#"{"num_hidden_layers": 3, "head_dim": 8, "per_layer_config": {"1": {"head_dim": 16}, "2": {"x": 1}}}"#,
        );
        let list = |values: &[i64]| {
            MetadataValue::List(values.iter().map(|value| MetadataValue::Integer(*value)).collect())
        };
        assert_eq!(names["head_dim"], list(&[8, 16, 8]));
        assert!(!names.keys().any(|name| name.starts_with("per_layer_config")));
        let beyond =
            super::tests::names(r#"{"num_hidden_layers": 1, "per_layer_config": {"1": {"head_dim": 16}}}"#);
        assert!(beyond.contains_key("per_layer_config.1.head_dim"), "a layer that is not there is nobody's");
    }

    #[test]
    fn numbers_that_json_lacks_are_read_outside_of_texts() {
        let names = names(
            r#"{"a": [0.0, Infinity], "b": -Infinity, "c": "NaN \" Infinity", "d": {"__float__": "Infinity"}}"#,
        );
        let infinite = MetadataValue::Number(f64::INFINITY);
        assert_eq!(names["a"], MetadataValue::List(vec![MetadataValue::Number(0.0), infinite.clone()]));
        assert_eq!(names["b"], MetadataValue::Number(f64::NEG_INFINITY));
        assert_eq!(names["c"], MetadataValue::Text("NaN \" Infinity".to_owned()));
        assert_eq!(names["d"], infinite);
    }

    #[test]
    fn what_is_no_config_says_so() {
        let said = |text: &str| HfConfig::parse("c.json", text).unwrap_err().to_string();
        assert!(said("[]").contains("expected a table"));
        assert!(said("{").contains("not valid JSON"));
        assert!(said(&"[".repeat(100_000)).contains("not valid JSON"));
        let class = |text: &str| HfConfig::parse("c.json", text).unwrap().class().map(str::to_owned);
        assert_eq!(class(r#"{"architectures": ["A", "B"]}"#).unwrap(), "A");
        for none in
            ["{}", r#"{"architectures": []}"#, r#"{"architectures": [1]}"#, r#"{"architectures": null}"#]
        {
            assert!(class(none).unwrap_err().to_string().contains("names no class"), "{none}");
        }
        let inner = HfConfig::parse("c.json", "{}").unwrap().names(Some("text_config")).unwrap_err();
        assert!(inner.to_string().contains("text_config"));
    }
}
