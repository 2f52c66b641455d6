//! From the TOML tree to [`ArchSpec`]: every name, option and expression checked, all faults collected.

mod feed_forward;
mod fields;
mod hf;
mod lets;
mod mixer;
mod norm;
mod sections;

use crate::fault::SpecFaults;
use crate::shapes;
use crate::source::{SpecLookup, SpecSource};
use crate::spec::ArchSpec;
use crate::tree::Table;
use crate::written::Body;
use crate::{merge, reads};
use fields::{At, Decoder, Fields};
use std::collections::BTreeSet;

/// Reads, merges and decodes a spec.
pub(crate) fn parse(source: &SpecSource, lookup: &dyn SpecLookup) -> Result<ArchSpec, SpecFaults> {
    let mut decoder = Decoder::new();
    let Some(merged) = merge::load(source, lookup, &mut decoder.faults) else {
        return Err(decoder.faults);
    };
    let spec = decode(&mut decoder, source, &merged);
    decoder.faults.check(spec)
}

fn decode(decoder: &mut Decoder, source: &SpecSource, merged: &merge::Merged) -> Option<ArchSpec> {
    let root = decoder.open(At { node: &merged.document, path: String::new() }, &shapes::SPEC)?;
    decoder.own_roles = own_roles(root.table);
    let architecture = sections::architecture(decoder, &root);
    let truth = root.get("truth").and_then(|at| sections::truth(decoder, at));
    let hf = root.get("hf").map(|at| hf::hf(decoder, at)).unwrap_or_default();
    let body = body(decoder, &root)?;
    lets::check(decoder, &body);
    let reads = reads::collect(&body, &decoder.expressions);
    hf::unread(decoder, root.table, &reads, &source.name);
    Some(ArchSpec {
        source_name: source.name.clone(),
        extends: merged.extends.clone(),
        warnings: merged.warnings.clone(),
        architecture: architecture?,
        truth,
        hf,
        body,
        reads,
    })
}

/// Roles that `[gguf.tensors]` and `[hf.tensors]` introduce.
fn own_roles(root: &Table) -> BTreeSet<String> {
    let mut roles = BTreeSet::new();
    for section in ["gguf", "hf"] {
        let tensors = root.get(section).and_then(|node| node.table()).and_then(|table| table.get("tensors"));
        if let Some(table) = tensors.and_then(|node| node.table()) {
            roles.extend(table.entries.iter().map(|entry| crate::roles::bare(&entry.key).to_string()));
        }
    }
    roles
}

fn body(decoder: &mut Decoder, root: &Fields<'_>) -> Option<Body> {
    let lets = root.get("let").map(|at| lets::lets(decoder, at)).unwrap_or_default();
    let count = root.get("layers").and_then(|at| {
        let layers = decoder.open(at, &shapes::LAYERS)?;
        layers.get("count").and_then(|at| decoder.number(at))
    });
    let embedding = root.get("embedding").and_then(|at| sections::embedding(decoder, at)).unwrap_or_default();
    let norm = root.get("norm").and_then(|at| norm::norm(decoder, at));
    let (mixer_branch, feed_forward_branch) = sections::block(decoder, root);
    let mixer = root.need(decoder, "mixer").and_then(|at| mixer::mixer(decoder, at));
    let feed_forward =
        root.need(decoder, "feed_forward").and_then(|at| feed_forward::feed_forward(decoder, at));
    let output = root.need(decoder, "output").and_then(|at| sections::output(decoder, at));
    let checks = root.get("check").map(|at| sections::checks(decoder, at)).unwrap_or_default();
    let gguf = root.get("gguf").and_then(|at| sections::gguf(decoder, at)).unwrap_or_default();
    let adapter_order =
        root.get("adapter").map(|at| sections::adapter_order(decoder, at)).unwrap_or_default();
    let (pre, end) = root.get("tokenizer").map(|at| sections::tokenizer(decoder, at)).unwrap_or_default();
    let chat_fallback = root.get("chat").and_then(|at| sections::chat(decoder, at));
    Some(Body {
        lets,
        count,
        embedding,
        norm,
        mixer_branch,
        feed_forward_branch,
        mixer: mixer?,
        feed_forward: feed_forward?,
        output: output?,
        checks,
        gguf,
        adapter_order,
        pre,
        end,
        chat_fallback,
    })
}
