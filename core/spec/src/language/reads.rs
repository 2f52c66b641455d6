//! The canonical keys that a spec reads: determined by its text, not by a run, so that they do not depend on the
//! file.

use crate::expression::Expression;
use crate::kind::written::{BySource, NameChoice, WrittenTable, WrittenValue};
use crate::kind::{Field, FieldDefault, FieldType};
use crate::language::body::Body;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Keys that are read for every architecture; no spec repeats them (spec language, section 3.1).
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

/// Standard keys that are only size hints: the shapes of tensors decide.
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
    /// The required ones, as far as the text tells.
    needed: BTreeSet<String>,
}

impl Reads {
    /// Whether a key is read.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// Keys without a default: of expressions outside of `| default(..)`, and of options that are not written.
    pub(crate) fn needed(&self) -> impl Iterator<Item = &str> {
        self.needed.iter().map(String::as_str)
    }

    fn add(&mut self, keys: &[&str]) {
        self.keys.extend(keys.iter().map(|key| key.to_string()));
    }

    /// All of them, sorted.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }
}

/// Collects the keys of every expression, of the tables of the used components, and the standard list.
pub(crate) fn collect(body: &Body, expressions: &[Arc<Expression>]) -> Reads {
    let mut reads = Reads::default();
    reads.add(&STANDARD);
    let lets: BTreeSet<&str> = body.lets.iter().map(|named| named.name.as_str()).collect();
    for expression in expressions {
        let keys = expression.mentions().filter(|name| !lets.contains(name));
        reads.keys.extend(keys.map(str::to_string));
        let needed = expression.names.iter().filter(|used| !used.optional && !lets.contains(&*used.name));
        reads.needed.extend(needed.map(|used| used.name.clone()));
    }
    for table in body.tables() {
        table_keys(&table, &mut reads);
    }
    reads
}

/// Keys that a table reads besides those of its expressions: of its kind, of used defaults, of names in lists.
fn table_keys(table: &WrittenTable, into: &mut Reads) {
    if let Some(kind) = table.kind {
        into.add(kind.reads);
        kind.free.iter().for_each(|size| into.add(size.hints));
    }
    let listed = listed_names(table);
    for (field, written) in table.table.fields.iter().zip(&table.fields) {
        match written {
            Some(written) => written_keys(field, &written.value, &listed, into),
            None => default_keys(field, &listed, into),
        }
    }
}

fn written_keys(field: &Field, value: &WrittenValue, listed: &[&str], into: &mut Reads) {
    let named = |index: usize| match &field.ty {
        FieldType::Name(list) | FieldType::NameOrKind(list, _) | FieldType::Names(list) => {
            list.names[index].reads
        }
        _ => &[],
    };
    match value {
        WrittenValue::Name(NameChoice::Given(BySource::Same(name))) => into.add(named(*name)),
        WrittenValue::Name(NameChoice::Given(BySource::Each { gguf, hf })) => {
            into.add(named(*gguf));
            into.add(named(*hf));
        }
        WrittenValue::Name(NameChoice::By { answers, .. }) => {
            answers.iter().for_each(|(_, name)| into.add(named(*name)));
        }
        WrittenValue::Names(names) => names.iter().for_each(|name| into.add(named(*name))),
        WrittenValue::NumberedName(name, numbers) => {
            into.add(named(*name));
            table_keys(numbers, into);
        }
        WrittenValue::Table(table) => {
            if field.default != FieldDefault::Listed || listed.contains(&field.name) {
                table_keys(table, into);
            }
        }
        WrittenValue::Cases(cases) => cases.cases.iter().for_each(|case| table_keys(&case.table, into)),
        WrittenValue::Site(site) => table_keys(&site.norm, into),
        WrittenValue::Number(_)
        | WrittenValue::Bool(_)
        | WrittenValue::Role(_)
        | WrittenValue::NotBuiltIn => {}
    }
}

fn default_keys(field: &Field, listed: &[&str], into: &mut Reads) {
    match field.default {
        FieldDefault::Key(key) => {
            into.add(&[key]);
            into.needed.insert(key.to_string());
        }
        FieldDefault::KeyOr(key, _) => into.add(&[key]),
        FieldDefault::Computed { reads, .. } => into.add(reads),
        FieldDefault::Fields => inner_default_keys(field, into),
        FieldDefault::Listed if listed.contains(&field.name) => inner_default_keys(field, into),
        _ => {}
    }
}

fn inner_default_keys(field: &Field, into: &mut Reads) {
    if let FieldType::Table(table) | FieldType::OneOrEach(table) = field.ty {
        table.fields.iter().for_each(|field| default_keys(field, &[], into));
    }
}

/// The names in the lists of a table.
fn listed_names(table: &WrittenTable) -> Vec<&'static str> {
    let mut found = Vec::new();
    for (field, written) in table.table.fields.iter().zip(&table.fields) {
        if let (FieldType::Names(list), Some(WrittenValue::Names(names))) =
            (&field.ty, written.as_ref().map(|written| &written.value))
        {
            found.extend(names.iter().map(|index| list.names[*index].name));
        }
    }
    found
}

#[cfg(test)]
mod tests;
