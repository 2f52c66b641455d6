//! Translations that are the same for every class: the table `common.toml`.

use crate::text::glob::matches;
use crate::text::literal::Literal;
use crate::text::source::SpecSource;
use crate::text::tree::{TomlTable, read};
use std::sync::LazyLock;

/// Canonical keys with their names, and globs with reasons.
type Common = (Vec<(String, Vec<String>)>, Vec<(String, String)>);

static TABLE: LazyLock<Common> = LazyLock::new(|| {
    let source = SpecSource { name: "common.toml".into(), text: include_str!("common.toml").into() };
    let document = read(&source).ok();
    let table = document.as_ref().and_then(|node| node.table());
    let section = |name: &str| table.and_then(|table| table.get(name)).and_then(|node| node.table());
    (section("keys").map(keys).unwrap_or_default(), section("ignore").map(reasons).unwrap_or_default())
});

fn keys(table: &TomlTable) -> Vec<(String, Vec<String>)> {
    let names = |list: Literal| match list {
        Literal::List(names) => names.into_iter().filter_map(text).collect(),
        other => text(other).into_iter().collect(),
    };
    table.entries.iter().filter_map(|e| Some((e.key.clone(), names(e.node.literal()?)))).collect()
}

fn text(literal: Literal) -> Option<String> {
    if let Literal::Text(text) = literal { Some(text) } else { None }
}

pub(super) fn reasons(table: &TomlTable) -> Vec<(String, String)> {
    table
        .entries
        .iter()
        .filter_map(|e| e.node.text().map(|reason| (e.key.clone(), reason.to_string())))
        .collect()
}

/// Every canonical key with names for all configs, the most common name first.
pub(super) fn names() -> &'static [(String, Vec<String>)] {
    &TABLE.0
}

/// The reason why a name matters to no model, if there is one; the reason of a table holds for everything in it.
pub(super) fn ignored(name: &str) -> Option<&'static str> {
    ignored_by(&TABLE.1, name)
}

/// The reason of the first glob that matches a name, or a table that contains it.
pub(super) fn ignored_by<'a>(globs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let ends = name.match_indices('.').map(|(at, _)| at).chain([name.len()]);
    let mut tables = ends.map(|end| &name[..end]);
    tables
        .find_map(|table| globs.iter().find(|(glob, _)| matches(glob, table)))
        .map(|(_, reason)| reason.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let found = names().iter().find(|(key, _)| key == "block_count").unwrap();
        assert!(found.1.contains(&"num_hidden_layers".to_owned()) && names().len() > 20);
        for name in [
            "dtype",
            "attention_dropout",
            "bos_token_id",
            "id2label.0",
            "quantization_config.quant_method",
            "attn_config.dtype",
        ] {
            assert!(ignored(name).is_some(), "{name}");
        }
        for name in ["hidden_act", "sliding_window", "rope_parameters.factor", "is_encoder_decoder", "x.act"]
        {
            assert!(ignored(name).is_none(), "{name}");
        }
    }
}
