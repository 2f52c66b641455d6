//! A spec merged with its bases, as TOML; lines from other files end with a comment with their place.

use crate::language::sections::SCHEMA;
use crate::language::spec::ArchSpec;
use crate::text::toml_text::{key, value};
use crate::text::tree::{TomlEntry, TomlTable};

/// Maximum length of a table in one line.
const LINE: usize = 100;

impl ArchSpec {
    /// The whole spec merged with its bases, as TOML; lines from another file end with a comment with that file and
    /// line.
    pub fn merged(&self) -> String {
        let mut text = format!("schema = {SCHEMA}\n");
        if let Some(table) = self.document.table() {
            section(table, "", &self.source_name, &mut text);
        }
        text
    }
}

/// The lines of a table, then the tables in it that need a header.
fn section(table: &TomlTable, path: &str, own: &str, text: &mut String) {
    // If one table needs a header, all get one: their order may matter.
    let headers = table.entries.iter().any(|entry| is_section(entry, path));
    let (tables, lines): (Vec<&TomlEntry>, Vec<&TomlEntry>) =
        table.entries.iter().partition(|entry| headers && entry.node.table().is_some());
    if !path.is_empty() && (!lines.is_empty() || tables.is_empty()) {
        text.push_str(&format!("\n[{path}]\n"));
    }
    for entry in lines {
        text.push_str(&format!("{} = {}{}\n", key(&entry.key), value(&entry.node), origin(entry, own)));
    }
    for entry in tables {
        let Some(inner) = entry.node.table() else { continue };
        let dot = if path.is_empty() { "" } else { "." };
        section(inner, &format!("{path}{dot}{}", key(&entry.key)), own, text);
    }
}

/// Whether an entry is a table with a header: one of the top level, of several files, with nested tables, or a long
/// one.
fn is_section(entry: &TomlEntry, path: &str) -> bool {
    let Some(table) = entry.node.table() else { return false };
    let file = entry.node.place.file();
    let mixed = table.entries.iter().any(|inner| inner.node.place.file() != file);
    let nested = table.entries.iter().any(|inner| inner.node.table().is_some());
    path.is_empty() || mixed || nested || value(&entry.node).len() > LINE
}

fn origin(entry: &TomlEntry, own: &str) -> String {
    let place = &entry.node.place;
    if place.file() == own { String::new() } else { format!("  # {}:{}", place.file(), place.position().0) }
}
