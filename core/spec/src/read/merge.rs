//! `extends`: merges a spec over its base, table by table, with `unset` and replacement on `kind`.

use crate::language::sections::SCHEMA;
use crate::text::fault::{Fault, SpecFaults};
use crate::text::source::{SpecLookup, SpecSource};
use crate::text::tree::{Item, TomlNode, TomlTable, read};
use menagerie_entries::{nearest, nearest_clause};

/// Maximum number of keys of one table.
const MOST_KEYS: usize = 2000;

/// Maximum length of a chain of bases.
const DEPTH: usize = 3;

/// A spec merged with its bases.
pub(crate) struct MergedSpec {
    /// The whole document, without `schema`, `extends` and `unset`.
    pub(crate) document: TomlNode,
    /// Ids of its bases, nearest first.
    pub(crate) extends: Vec<String>,
    /// Values of the child that equal those of its base.
    pub(crate) warnings: Vec<Fault>,
}

/// Reads a spec and its bases. Faults are added to `faults`; `None` if nothing useful is left.
pub(crate) fn load(
    source: &SpecSource,
    lookup: &dyn SpecLookup,
    faults: &mut SpecFaults,
) -> Option<MergedSpec> {
    let mut chain = Vec::new();
    let mut warnings = Vec::new();
    let document = load_one(source, lookup, &mut chain, &mut warnings, faults)?;
    // The first is the spec's own id, or its placeholder.
    let extends = chain.into_iter().skip(1).collect();
    Some(MergedSpec { document, extends, warnings })
}

fn load_one(
    source: &SpecSource,
    lookup: &dyn SpecLookup,
    chain: &mut Vec<String>,
    warnings: &mut Vec<Fault>,
    faults: &mut SpecFaults,
) -> Option<TomlNode> {
    let mut node = match read(source) {
        Ok(node) => node,
        Err(fault) => {
            faults.push(fault);
            return None;
        }
    };
    if let Some((place, keys)) = widest(&node).filter(|(_, keys)| *keys > MOST_KEYS) {
        faults.push(place.fault("", format!("{keys} keys in one table; at most {MOST_KEYS} are allowed")));
        return None;
    }
    let place = node.place.clone();
    let Item::Table(document) = &mut node.item else { return None };
    if !schema_fits(document, &node.place, faults) {
        return None;
    }
    if chain.is_empty() {
        chain.extend(own_id(document).map(str::to_string));
    }
    let unset = document.remove("unset");
    let Some(extends) = document.remove("extends") else {
        if let Some(unset) = unset {
            faults.push(unset.key_place.fault("unset", "nothing to remove from; `unset` requires `extends`"));
        }
        return Some(node);
    };
    let found = find_base(&extends.node, source, lookup, chain, faults)?;
    let mut base = load_one(&found, lookup, chain, warnings, faults)?;
    if let Item::Table(base) = &mut base.item {
        base.remove("architecture");
        base.remove("provenance");
        if let Some(unset) = unset {
            remove_paths(base, &unset.node, faults);
        }
        lay_over(base, std::mem::take(document), "", warnings);
    }
    base.place = place;
    Some(base)
}

/// The place of the table with the most keys, and their number.
fn widest(node: &TomlNode) -> Option<(&crate::text::tree::SourcePlace, usize)> {
    let table = node.table()?;
    let inner = table.entries.iter().filter_map(|entry| widest(&entry.node));
    inner.chain([(&node.place, table.entries.len())]).max_by_key(|(_, keys)| *keys)
}

fn own_id(document: &TomlTable) -> Option<&str> {
    document.get("architecture")?.table()?.get("id")?.text()
}

fn schema_fits(
    document: &mut TomlTable,
    place: &crate::text::tree::SourcePlace,
    faults: &mut SpecFaults,
) -> bool {
    let Some(entry) = document.remove("schema") else {
        faults.push(place.fault("schema", format!("missing: start the file with `schema = {SCHEMA}`")));
        return true;
    };
    match entry.node.item {
        Item::Integer(SCHEMA) => true,
        Item::Integer(newer) if newer > SCHEMA => {
            let message = format!(
                "this spec uses schema {newer} and needs a newer menagerie; this version reads schema {SCHEMA}"
            );
            faults.push(entry.node.place.fault("schema", message));
            false
        }
        other => {
            let message =
                format!("expected {SCHEMA}, the schema that this version reads; found {}", other.describe());
            faults.push(entry.node.place.fault("schema", message));
            true
        }
    }
}

/// The base of a spec; its id is added to the chain.
fn find_base(
    extends: &TomlNode,
    source: &SpecSource,
    lookup: &dyn SpecLookup,
    chain: &mut Vec<String>,
    faults: &mut SpecFaults,
) -> Option<SpecSource> {
    let mut refuse = |message: String| faults.push(extends.place.fault("extends", message));
    let Some(id) = extends.text() else {
        refuse(format!("expected the id of a spec, found {}", extends.item.describe()));
        return None;
    };
    // A spec that replaces another one with its id can extend it: the base does not see the replacement.
    let replaced = chain.last().filter(|own| *own == id).and_then(|_| lookup.find_replaced(id, source));
    if replaced.is_none() && chain.iter().any(|seen| seen == id) {
        refuse(format!("a cycle: {} -> {id}", chain.join(" -> ")));
        return None;
    }
    if chain.len().saturating_sub(1) >= DEPTH {
        refuse(format!("{} -> {id}: a spec may extend at most {DEPTH} others", chain.join(" -> ")));
        return None;
    }
    let Some(found) = replaced.or_else(|| lookup.find(id)) else {
        let ids = lookup.ids();
        let help = nearest_clause(nearest(id, ids.iter().map(String::as_str)));
        refuse(format!("unknown spec `{id}`{help}"));
        return None;
    };
    if chain.is_empty() {
        chain.push(String::from("this spec"));
    }
    chain.push(id.to_string());
    Some(found)
}

fn remove_paths(base: &mut TomlTable, unset: &TomlNode, faults: &mut SpecFaults) {
    let Item::List(paths) = &unset.item else {
        let message = format!("expected a list of dotted paths, found {}", unset.item.describe());
        faults.push(unset.place.fault("unset", message));
        return;
    };
    for path in paths {
        match path.text() {
            Some(text) => {
                if let Err(help) = remove_path(base, text) {
                    faults.push(path.place.fault("unset", format!("the base has no `{text}`{help}")));
                }
            }
            None => {
                let message = format!("expected a path, found {}", path.item.describe());
                faults.push(path.place.fault("unset", message));
            }
        }
    }
}

/// Removes a dotted path; keys that contain dots are found by trying the longest key first, and may be quoted as in a
/// header (`check."a <= 1"`).
fn remove_path(table: &mut TomlTable, path: &str) -> Result<(), String> {
    let plain = unquoted(path);
    if remove_plain(table, path) || remove_plain(table, &plain) {
        return Ok(());
    }
    Err(nearest_below(table, "", &plain))
}

/// A path without the quotes around its keys.
fn unquoted(path: &str) -> String {
    let inner = path.replace(".\"", ".").replace("\".", ".");
    let inner = inner.strip_prefix('"').unwrap_or(&inner);
    let quoted = path.ends_with('"') && path.matches('"').count().is_multiple_of(2);
    if quoted { inner.strip_suffix('"').unwrap_or(inner).to_owned() } else { inner.to_owned() }
}

fn remove_plain(table: &mut TomlTable, path: &str) -> bool {
    if table.remove(path).is_some() {
        return true;
    }
    let mut split = path.len();
    while let Some(dot) = path[..split].rfind('.') {
        let (head, rest) = (&path[..dot], &path[dot + 1..]);
        if let Some(Item::Table(inner)) = table.entry_mut(head).map(|entry| &mut entry.node.item) {
            return remove_plain(inner, rest);
        }
        split = dot;
    }
    false
}

/// The keys at the last known table of a path.
fn nearest_below(table: &TomlTable, above: &str, path: &str) -> String {
    let deeper = path.match_indices('.').rev().find_map(|(dot, _)| {
        let inner = table.get(&path[..dot])?.table()?;
        let dotted = if above.is_empty() { String::new() } else { format!("{above}.") };
        Some(nearest_below(inner, &format!("{dotted}{}", &path[..dot]), &path[dot + 1..]))
    });
    if let Some(deeper) = deeper {
        return deeper;
    }
    let keys = || table.entries.iter().map(|entry| entry.key.as_str());
    let first = path.split('.').next().unwrap_or(path);
    if let Some(near) = [path, first].into_iter().find_map(|name| nearest(name, keys())) {
        return nearest_clause(Some(near));
    }
    let all: Vec<String> = keys().take(12).map(|key| format!("`{key}`")).collect();
    let at = if above.is_empty() { "it".to_owned() } else { format!("[{above}] of it") };
    format!("; {at} has {}", all.join(", "))
}

/// Merges a child over its base. A child table with `kind` (or, for a choice, `by`) replaces the base's table.
fn lay_over(base: &mut TomlTable, child: TomlTable, path: &str, warnings: &mut Vec<Fault>) {
    for entry in child.entries {
        let here = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        let Some(old) = base.entry_mut(&entry.key) else {
            base.entries.push(entry);
            continue;
        };
        let replaces = entry.node.table().is_none_or(|table| table.has("kind") || table.has("by"));
        if let (false, Item::Table(below)) = (replaces, &mut old.node.item) {
            if let Item::Table(above) = entry.node.item {
                lay_over(below, above, &here, warnings);
            }
            continue;
        }
        if old.node.same(&entry.node) {
            let message = format!("the base already has this value ({:?})", old.node.place);
            warnings.push(entry.node.place.fault(here, message));
        }
        *old = entry;
    }
}
