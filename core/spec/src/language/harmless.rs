//! Metadata keys that do not change what a model computes, with the reason; the table is `harmless.toml`.

use crate::text::glob::matches;
use crate::text::source::SpecSource;
use crate::text::tree::{TomlTable, read};
use std::sync::LazyLock;

/// Globs and reasons.
type Reasons = Vec<(String, String)>;

static TABLE: LazyLock<(Reasons, Reasons)> = LazyLock::new(|| {
    let source = SpecSource { name: "harmless.toml".into(), text: include_str!("harmless.toml").into() };
    let document = read(&source).ok();
    let table = document.as_ref().and_then(|node| node.table());
    let section =
        |name: &str| table.and_then(|table| table.get(name)).and_then(|node| node.table()).map(reasons);
    (section("outside").unwrap_or_default(), section("under").unwrap_or_default())
});

fn reasons(table: &TomlTable) -> Reasons {
    table
        .entries
        .iter()
        .filter_map(|e| e.node.text().map(|reason| (e.key.clone(), reason.to_string())))
        .collect()
}

fn find(reasons: &'static Reasons, key: &str) -> Option<&'static str> {
    reasons.iter().find(|(glob, _)| matches(glob, key)).map(|(_, reason)| reason.as_str())
}

/// The reason why a metadata key outside of the architecture prefix (`general.name`) does not matter to the model, if
/// there is one.
pub fn outside_prefix(key: &str) -> Option<&'static str> {
    find(&TABLE.0, key)
}

/// The reason why a canonical key matters to no model, if there is one.
pub(crate) fn under_prefix(key: &str) -> Option<&'static str> {
    find(&TABLE.1, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        assert!(outside_prefix("general.name").is_some());
        assert!(outside_prefix("tokenizer.ggml.model").is_some());
        assert!(outside_prefix("general.base_model.0.name").is_some());
        assert!(outside_prefix("tokenizer.chat_template.tool_use").is_some());
        for refused in [
            "xielu.alpha_p",
            "general.unheard",
            "general.base_model.0.unheard",
            "tokenizer.ggml.suppress_tokens",
            "tokenizer.ggml.unheard",
            "tokenizer.unheard",
        ] {
            assert!(outside_prefix(refused).is_none(), "{refused}");
        }
        assert!(under_prefix("attention.scale").is_none());
    }
}
