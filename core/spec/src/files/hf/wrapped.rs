//! Classes around a text model and other models: the table `wrappers.toml`.

use super::every_class::reasons;
use crate::language::spec::HfClass;
use crate::text::fault::SpecFaults;
use crate::text::literal::Literal;
use crate::text::source::SpecSource;
use crate::text::tree::{TomlTable, read};
use menagerie_entries::{nearest, nearest_clause};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::sync::LazyLock;

/// Strings by name.
type Pairs = Vec<(String, String)>;

/// The contents of the table.
#[derive(Default)]
struct WrapperClasses {
    names: Pairs,
    towers: Pairs,
    text: Pairs,
    classes: Pairs,
    refused: Pairs,
    defaults: Vec<(String, Map<String, Value>)>,
}

/// The file, to which `classes` of this package is a link, so that the package is complete.
const TEXT: &str = include_str!("../../../classes/wrappers.toml");

static TABLE: LazyLock<WrapperClasses> = LazyLock::new(|| {
    let source = SpecSource { name: "specs/classes/wrappers.toml".into(), text: TEXT.into() };
    let document = read(&source).ok();
    let root = document.as_ref().and_then(|node| node.table());
    let table = |name: &str| root.and_then(|root| root.get(name)).and_then(|node| node.table());
    let pairs = |name: &str| table(name).map(reasons).unwrap_or_default();
    WrapperClasses {
        names: pairs("names"),
        towers: pairs("towers"),
        text: pairs("text"),
        classes: pairs("classes"),
        refused: pairs("refused"),
        defaults: table("defaults").map(defaults).unwrap_or_default(),
    }
});

fn defaults(table: &TomlTable) -> Vec<(String, Map<String, Value>)> {
    let json = |literal: Literal| match literal {
        Literal::Integer(whole) => Some(Value::from(whole)),
        Literal::Number(number) => Number::from_f64(number).map(Value::Number),
        Literal::Bool(value) => Some(Value::Bool(value)),
        Literal::Text(text) => Some(Value::String(text)),
        Literal::List(_) => None,
    };
    let of = |table: &TomlTable| {
        let entries = table.entries.iter();
        entries.filter_map(|entry| Some((entry.key.clone(), json(entry.node.literal()?)?))).collect()
    };
    table.entries.iter().filter_map(|entry| Some((entry.key.clone(), of(entry.node.table()?)))).collect()
}

fn found<'p>(pairs: &'p Pairs, key: &str) -> Option<&'p str> {
    pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}

/// The table of a config that a wrapping class has its text model in.
pub(super) fn table_of(class: &str) -> Option<&'static str> {
    found(&TABLE.classes, class)
}

/// Why a class is not run.
pub(super) fn refused(class: &str) -> Option<&'static str> {
    found(&TABLE.refused, class)
}

/// Classes around text models, those that are refused with a reason included.
pub fn wrapping_classes() -> impl Iterator<Item = &'static str> {
    TABLE.classes.iter().chain(&TABLE.refused).map(|(class, _)| class.as_str())
}

/// The class of a text model on its own, by the `model_type` of its table.
///
/// # Errors
/// The table has no `model_type`, or one without an architecture here.
pub(super) fn text_class(table: Option<&Map<String, Value>>) -> Result<&'static str, String> {
    let Some(kind) = table.and_then(|table| table.get("model_type")).and_then(Value::as_str) else {
        return Err("missing; it says which text model it is".to_owned());
    };
    found(&TABLE.text, kind).ok_or_else(|| {
        let shown: String = kind.chars().take(64).collect();
        let shown = shown.escape_debug().to_string();
        let near = nearest_clause(nearest(&shown, TABLE.text.iter().map(|(known, _)| known.as_str())));
        format!("\"{shown}\": no architecture here has such a text model{near}; get the model as GGUF if there is one")
    })
}

/// Adds the values that the table of a text model omits because they are defaults of its `model_type`.
pub(super) fn fill_in(table: &mut Map<String, Value>) {
    let kind = table.get("model_type").and_then(Value::as_str);
    let known = kind.and_then(|kind| TABLE.defaults.iter().find(|(known, _)| known == kind));
    for (key, value) in known.into_iter().flat_map(|(_, values)| values) {
        // Newer files have the base in a table.
        let elsewhere = key == "rope_theta" && table.contains_key("rope_parameters");
        if !elsewhere && !table.contains_key(key) {
            table.insert(key.clone(), value.clone());
        }
    }
}

/// A tensor's name as in the text model's own class.
pub fn unwrapped(name: &str) -> Cow<'_, str> {
    let found = TABLE.names.iter().find_map(|(from, to)| Some((name.strip_prefix(from.as_str())?, to)));
    found.map_or(Cow::Borrowed(name), |(rest, to)| Cow::Owned(format!("{to}{rest}")))
}

impl HfClass {
    /// The reason why a tensor does not belong to the text model, if it does not: for a class around a text model.
    pub fn beside_text(&self, name: &str) -> Option<&'static str> {
        if !self.wrapped {
            return None;
        }
        let name = name.strip_prefix("model.").unwrap_or(name);
        found(&TABLE.towers, name.split('.').next()?)
    }
}

/// The fault of an unsupported class.
pub(super) fn refusal(file: &str, class: &str) -> Option<SpecFaults> {
    let reason = refused(class)?;
    let message =
        format!("class {class} is not run: {reason}; `menagerie list` shows the architectures that are");
    Some(super::config::fault(file, "architectures", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        assert!(TABLE.names.len() > 3 && TABLE.towers.len() > 20 && TABLE.text.len() > 70);
        assert!(TABLE.classes.len() > 40 && TABLE.refused.len() > 60 && TABLE.defaults.len() > 3);
        let twice = TABLE.classes.iter().find(|(class, _)| refused(class).is_some());
        assert_eq!(twice, None);
    }

    #[test]
    fn names_lose_the_prefix_of_the_whole() {
        for (name, wanted) in [
            ("language_model.model.layers.0.mlp", "model.layers.0.mlp"),
            ("model.language_model.layers.0.mlp", "model.layers.0.mlp"),
            ("model.text_model.norm.weight", "model.norm.weight"),
            ("language_model.lm_head.weight", "lm_head.weight"),
            ("lm_head.weight", "lm_head.weight"),
        ] {
            assert_eq!(unwrapped(name), wanted);
        }
        let class = HfClass { wrapped: true, ..HfClass::default() };
        for name in
            ["vision_tower.a.weight", "model.vision_tower.a.weight", "model.image_newline", "mlp1.0.bias"]
        {
            assert!(class.beside_text(name).is_some(), "{name}");
        }
        assert_eq!(class.beside_text("model.layers.0.mlp.weight"), None);
        assert_eq!(HfClass::default().beside_text("vision_tower.a"), None);
    }

    #[test]
    fn what_a_table_leaves_out_is_filled_in() {
        let filled = |text: &str| {
            let Ok(Value::Object(mut table)) = serde_json::from_str(text) else { panic!("{text}") };
            fill_in(&mut table);
            table
        };
        let usual = filled(r#"{"model_type": "llama", "vocab_size": 7, "num_key_value_heads": null}"#);
        assert_eq!((&usual["vocab_size"], &usual["hidden_size"]), (&Value::from(7), &Value::from(4096)));
        assert!(usual.contains_key("rope_theta") && usual["num_key_value_heads"].is_null());
        let newer = filled(r#"{"model_type": "llama", "rope_parameters": {"rope_theta": 5}}"#);
        assert!(!newer.contains_key("rope_theta"));
        assert_eq!(filled(r#"{"model_type": "new"}"#).len(), 1);
    }
}
