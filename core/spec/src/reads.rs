//! Which canonical keys a spec reads: decided from its text, not from a run, so that the verdict does not depend on the
//! file.

use crate::expression::Expression;
use crate::kind::{Default, Field, FieldType};
use crate::written::{Body, BySource, Choice, NameIndex, Written, WrittenTable};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Keys the core reads for every architecture; no spec repeats them (spec language, section 3.1).
pub(crate) const STANDARD: [&str; 19] = [
    "block_count",
    "embedding_length",
    "attention.head_count",
    "context_length",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "rope.dimension_count",
    "expert_used_count",
    "rope.scaling.finetuned",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scale_linear",
    "feed_forward_length",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_count",
    "expert_shared_count",
    "vocab_size",
];

/// Standard keys that only hint at sizes: shapes win.
pub(crate) const HINTS: [&str; 6] = [
    "feed_forward_length",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_count",
    "expert_shared_count",
    "vocab_size",
];

/// The keys a spec reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    keys: BTreeSet<String>,
}

impl Reads {
    /// Whether a key is read.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// All of them, sorted.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }
}

/// Collects the keys of every expression, of the tables of the components used, and the standard list.
pub(crate) fn collect(body: &Body, expressions: &[Arc<Expression>]) -> Reads {
    let mut keys: BTreeSet<String> = STANDARD.iter().map(|key| key.to_string()).collect();
    let lets: BTreeSet<&str> = body.lets.iter().map(|named| named.name.as_str()).collect();
    for expression in expressions {
        keys.extend(expression.mentions().filter(|name| !lets.contains(name)).map(str::to_string));
    }
    for table in body.tables() {
        table_keys(&table, &mut |more| keys.extend(more.iter().map(|key| key.to_string())));
    }
    Reads { keys }
}

/// Keys that a table reads besides those of its expressions: of its kind, of defaults that count, of names it lists.
fn table_keys(table: &WrittenTable, add: &mut dyn FnMut(&[&str])) {
    if let Some(kind) = table.kind {
        add(kind.reads);
        kind.free.iter().for_each(|size| add(size.hints));
    }
    let listed = listed_names(table);
    for (field, written) in table.table.fields.iter().zip(&table.fields) {
        match written {
            Some(written) => written_keys(field, &written.value, &listed, add),
            None => default_keys(field, &listed, add),
        }
    }
}

fn written_keys(field: &Field, value: &Written, listed: &[&str], add: &mut dyn FnMut(&[&str])) {
    let named = |index: NameIndex| match (&field.ty, index) {
        (FieldType::Name(list) | FieldType::Names(list), NameIndex::BuiltIn(index)) => {
            list.names[index].reads
        }
        _ => &[],
    };
    match value {
        Written::Name(Choice::Given(BySource::Same(name))) => add(named(*name)),
        Written::Name(Choice::Given(BySource::Each { gguf, hf })) => {
            add(named(*gguf));
            add(named(*hf));
        }
        Written::Name(Choice::By { answers, .. }) => answers.iter().for_each(|(_, name)| add(named(*name))),
        Written::Names(names) => names.iter().for_each(|name| add(named(NameIndex::BuiltIn(*name)))),
        Written::Table(table) => {
            if field.default != Default::Listed || listed.contains(&field.name) {
                table_keys(table, add);
            }
        }
        Written::Cases(cases) => cases.cases.iter().for_each(|case| table_keys(&case.table, add)),
        Written::Site(site) => table_keys(&site.norm, add),
        Written::Number(_) | Written::Truth(_) | Written::Role(_) | Written::NotBuiltIn => {}
    }
}

fn default_keys(field: &Field, listed: &[&str], add: &mut dyn FnMut(&[&str])) {
    match field.default {
        Default::Key(key) => add(&[key]),
        Default::Computed { reads, .. } => add(reads),
        Default::Fields => inner_default_keys(field, add),
        Default::Listed if listed.contains(&field.name) => inner_default_keys(field, add),
        _ => {}
    }
}

fn inner_default_keys(field: &Field, add: &mut dyn FnMut(&[&str])) {
    if let FieldType::Table(table) | FieldType::OneOrEach(table) = field.ty {
        table.fields.iter().for_each(|field| default_keys(field, &[], add));
    }
}

/// The names in the lists of a table.
fn listed_names(table: &WrittenTable) -> Vec<&'static str> {
    let mut found = Vec::new();
    for (field, written) in table.table.fields.iter().zip(&table.fields) {
        if let (FieldType::Names(list), Some(Written::Names(names))) =
            (&field.ty, written.as_ref().map(|written| &written.value))
        {
            found.extend(names.iter().map(|index| list.names[*index].name));
        }
    }
    found
}

#[cfg(test)]
mod tests;
