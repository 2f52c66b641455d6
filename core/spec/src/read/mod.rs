//! From the text of a spec to [`ArchSpec`]: merges it with its bases, checks every name, option and expression, and
//! collects all faults.

mod component;
mod decoder;
mod hf;
mod lets;
mod merge;
mod norm;
mod sections;
mod table;

use crate::kind::written::{Cases, WrittenTable};
use crate::kind::{Family, Kinds, Options, Table as Definition};
use crate::language::body::Body;
use crate::language::nextn::NextnOptions;
use crate::language::reads;
use crate::language::sections::{BlockOptions, EmbeddingOptions, LayersOptions, OutputOptions, SPEC};
use crate::language::spec::{ArchSpec, SpecNames};
use crate::text::fault::{Fault, SpecFaults};
use crate::text::source::{SpecLookup, SpecSource};
use crate::text::tree::TomlTable;
use decoder::{Decoder, TableReader, TreePoint};
use std::sync::Arc;

impl ArchSpec {
    /// Reads a spec: TOML, merged over its bases, with every option and expression checked by the tables of `kinds`.
    ///
    /// # Errors
    /// All faults at once, each with file, line, column, dotted key and the nearest name; with `extends`, the place
    /// is that of the value.
    pub fn parse(
        source: &SpecSource,
        lookup: &dyn SpecLookup,
        kinds: &Kinds,
    ) -> Result<ArchSpec, SpecFaults> {
        parse(source, lookup, kinds)
    }
}

/// Reads, merges and decodes a spec.
fn parse(source: &SpecSource, lookup: &dyn SpecLookup, kinds: &Kinds) -> Result<ArchSpec, SpecFaults> {
    let mut decoder = Decoder::new(kinds);
    let Some(merged) = merge::load(source, lookup, &mut decoder.faults) else {
        return Err(decoder.faults);
    };
    let spec = decode(&mut decoder, source, &merged);
    if decoder.untold > 0 {
        decoder.faults.push(Fault {
            file: source.name.clone(),
            position: None,
            subject: String::new(),
            message: format!("and {} faults more", decoder.untold),
            layers: Default::default(),
        });
    }
    decoder.faults.check(spec)
}

fn decode(decoder: &mut Decoder<'_>, source: &SpecSource, merged: &merge::MergedSpec) -> Option<ArchSpec> {
    let root = decoder.open(TreePoint { node: &merged.document, path: String::new() }, &SPEC)?;
    own_roles(decoder, root.table);
    let names = sections::architecture(decoder, &root);
    let provenance = root.get("provenance").and_then(|at| sections::provenance(decoder, at));
    let hf = root.get("hf").map(|at| hf::hf(decoder, at)).unwrap_or_default();
    let body = body(decoder, &root)?;
    let lets = lets::check(decoder, &body);
    let reads = reads::collect(&body, &decoder.expressions);
    hf::unread(decoder, root.table, &reads, &source.name);
    let SpecNames { id, gguf, hf: hf_classes, summary } = names?;
    let spec = ArchSpec {
        id,
        source_name: source.name.clone(),
        extends: merged.extends.clone(),
        warnings: merged.warnings.clone(),
        gguf_names: gguf,
        hf_classes,
        summary,
        provenance,
        hf,
        body,
        kinds: decoder.kinds.clone(),
        lets,
        reads,
        document: Arc::new(merged.document.clone()),
    };
    hf::unwritable(decoder, root.table, &spec);
    Some(spec)
}

/// Roles from `[gguf.tensors]` and `[hf.tensors]`, and those of the kinds.
fn own_roles(decoder: &mut Decoder<'_>, root: &TomlTable) {
    for section in ["gguf", "hf"] {
        let tensors = root.get(section).and_then(|node| node.table()).and_then(|table| table.get("tensors"));
        for entry in tensors.and_then(|node| node.table()).into_iter().flat_map(|table| &table.entries) {
            decoder.own_roles.insert(crate::language::roles::bare(&entry.key).to_string());
        }
    }
    let kinds = Family::ALL.into_iter().flat_map(|family| decoder.kinds.of(family));
    let names = kinds.flat_map(|kind| kind.roles).filter(|role| !role.name.is_empty());
    let names: Vec<String> = names.map(|role| role.name.to_string()).collect();
    decoder.own_roles.extend(names);
}

fn body(decoder: &mut Decoder<'_>, root: &TableReader<'_>) -> Option<Body> {
    let lets = root.get("let").map(|at| lets::lets(decoder, at)).unwrap_or_default();
    if let Some(at) = root.get("norm") {
        decoder.common_norm(&at);
    }
    let layers = section(decoder, root, "layers", LayersOptions::TABLE);
    let embedding = section(decoder, root, "embedding", EmbeddingOptions::TABLE);
    let block = root.need(decoder, "block").and_then(|at| decoder.table(&at, BlockOptions::TABLE, &[]));
    let mixer = root.need(decoder, "mixer").and_then(|at| decoder.component(&at, Family::Mixer));
    let feed_forward =
        root.need(decoder, "feed_forward").and_then(|at| decoder.component(&at, Family::FeedForward));
    let [beside, last] = ["beside", "last"].map(|key| optional_component(decoder, root, key));
    let output = root.need(decoder, "output").and_then(|at| decoder.table(&at, OutputOptions::TABLE, &[]));
    let nextn = root.get("nextn").and_then(|at| decoder.table(&at, NextnOptions::TABLE, &[]));
    let checks = root.get("check").map(|at| sections::checks(decoder, at)).unwrap_or_default();
    let gguf = root.get("gguf").and_then(|at| sections::gguf(decoder, at)).unwrap_or_default();
    let adapter_order =
        root.get("adapter").map(|at| sections::adapter_order(decoder, at)).unwrap_or_default();
    let (pre, end) = root.get("tokenizer").map(|at| sections::tokenizer(decoder, at)).unwrap_or_default();
    let chat_fallback = root.get("chat").and_then(|at| sections::chat(decoder, at));
    Some(Body {
        lets,
        layers,
        embedding,
        block: block?,
        mixer: mixer?,
        feed_forward: feed_forward?,
        beside: beside?,
        last: last?,
        output: output?,
        nextn,
        checks,
        gguf,
        adapter_order,
        pre,
        end,
        chat_fallback,
    })
}

/// An optional feed-forward of a block: no cases if it is not written.
fn optional_component(decoder: &mut Decoder<'_>, root: &TableReader<'_>, key: &'static str) -> Option<Cases> {
    match root.get(key) {
        Some(at) => decoder.component(&at, Family::FeedForward),
        None => {
            let place = root.at.node.place.clone();
            Some(Cases { cases: Vec::new(), named: false, place, path: key.to_string() })
        }
    }
}

/// An optional section.
fn section(
    decoder: &mut Decoder<'_>,
    root: &TableReader<'_>,
    key: &'static str,
    table: &'static Definition,
) -> Arc<WrittenTable> {
    let written = root.get(key).and_then(|at| decoder.table(&at, table, &[]));
    written
        .unwrap_or_else(|| Arc::new(WrittenTable::empty(table, root.at.node.place.clone(), key.to_string())))
}
