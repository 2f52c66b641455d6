//! The tables of a spec without components.

use super::decoder::{Decoder, TableReader, TreePoint, join};
use crate::kind::NameEnum;
use crate::language::body::{Check, Gguf};
use crate::language::roles::bare;
use crate::language::sections::{self, Reference};
use crate::language::spec::{HfClass, Provenance, SpecNames};
use crate::text::tree::Item;

/// `[architecture]`.
pub(super) fn architecture(decoder: &mut Decoder<'_>, root: &TableReader<'_>) -> Option<SpecNames> {
    let at = root.need(decoder, "architecture")?;
    let fields = decoder.open(at, &sections::ARCHITECTURE)?;
    let at = fields.need(decoder, "id")?;
    let id = decoder.text(at.clone())?;
    let good = !id.is_empty()
        && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c));
    if !good {
        decoder.reject::<()>(&at, format!("`{id}` is not an id; ids consist of a-z, 0-9, `-`, `_` and `.`"));
    }
    let gguf = fields.get("gguf").map_or_else(|| vec![id.clone()], |at| decoder.texts(at));
    let hf = fields.get("hf").map(|at| hf_classes(decoder, at)).unwrap_or_default();
    let summary = fields.get("summary").and_then(|at| decoder.text(at)).unwrap_or_default();
    Some(SpecNames { id, gguf, hf, summary })
}

fn hf_classes(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Vec<HfClass> {
    let Some(table) = at.node.table() else {
        return decoder.texts(at).into_iter().map(|name| HfClass { name, ..HfClass::default() }).collect();
    };
    let mut classes = Vec::new();
    for entry in &table.entries {
        let at = at.inner(&entry.node, &entry.key);
        classes.extend(hf_class(decoder, at, &entry.key));
    }
    classes
}

fn hf_class(decoder: &mut Decoder<'_>, at: TreePoint<'_>, name: &str) -> Option<HfClass> {
    let fields = decoder.open(at, &sections::HF_CLASS)?;
    let mut class = HfClass { name: name.to_string(), ..HfClass::default() };
    class.config = fields.get("config").and_then(|at| decoder.text(at));
    class.rename = fields.get("rename").map(|at| decoder.text_table(at)).unwrap_or_default();
    if let Some(at) = fields.get("values") {
        let Some(table) = at.node.table() else {
            return decoder.wanted(&at, "a table of values");
        };
        for entry in &table.entries {
            match entry.node.literal() {
                Some(value) => drop(class.values.insert(entry.key.clone(), value)),
                None => drop(decoder.reject::<()>(&at.inner(&entry.node, &entry.key), "expected a value")),
            }
        }
    }
    Some(class)
}

/// `[provenance]`.
pub(super) fn provenance(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Option<Provenance> {
    let fields = decoder.open(at, &sections::PROVENANCE)?;
    let reference = fields.need(decoder, "reference").and_then(|at| decoder.plain_name(&at, Reference::LIST));
    let source = fields.need(decoder, "source").and_then(|at| decoder.text(at));
    let covers = fields.get("covers").and_then(|at| decoder.text(at)).unwrap_or_default();
    let notes = fields.get("notes").map(|at| decoder.texts(at)).unwrap_or_default();
    let reference = Reference::LIST.names[reference?].name.to_string();
    Some(Provenance { reference, source: source?, covers, notes })
}

/// `[check]`: expressions that must be true, and their messages.
pub(super) fn checks(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Vec<Check> {
    let Some(table) = at.node.table() else {
        return decoder.reject(&at, "expected a table: \"<expression>\" = \"<message>\"").unwrap_or_default();
    };
    let mut checks = Vec::new();
    for entry in &table.entries {
        let path = join(&at.path, &entry.key);
        let message = decoder.text(TreePoint { node: &entry.node, path: path.clone() });
        let key = crate::text::tree::TomlNode {
            place: entry.key_place.clone(),
            item: Item::Text(entry.key.clone()),
        };
        let expression = decoder.expression(&TreePoint { node: &key, path }, &entry.key);
        if let (Some(message), Some(expression)) = (message, expression) {
            checks.push(Check { place: entry.key_place.clone(), expression, message });
        }
    }
    checks
}

/// Fused matrices that can be written in parts.
const FUSED: [&str; 5] = ["attn_qkv", "attn_kv_b", "ffn_up", "ffn_gate_up_exps", "ffn_up_shexp"];

fn apart(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Vec<String> {
    let roles = decoder.texts(at.clone());
    let unknown = roles.iter().find(|role| !FUSED.contains(&role.as_str()));
    if let Some(role) = unknown {
        decoder.fault(&at.node.place, &at.path, || {
            format!("`{role}` cannot be written in parts; these can: {}", FUSED.join(", "))
        });
    }
    roles
}

/// `[gguf]`.
pub(super) fn gguf(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Option<Gguf> {
    let fields = decoder.open(at, &sections::GGUF)?;
    let layer = fields.get("layer").and_then(|at| {
        let prefix = decoder.text(at.clone())?;
        if prefix.matches("{layer}").count() == 1 {
            return Some(prefix);
        }
        decoder.reject(&at, "the prefix of a block must contain `{layer}` exactly once")
    });
    let gguf = Gguf {
        layer,
        tensors: fields.get("tensors").map(|at| decoder.text_table(at)).unwrap_or_default(),
        apart: fields.get("apart").map(|at| apart(decoder, at)).unwrap_or_default(),
        ignore_tensors: fields.get("ignore_tensors").map(|at| reasons(decoder, at)).unwrap_or_default(),
        ignore_keys: fields.get("ignore_keys").map(|at| reasons(decoder, at)).unwrap_or_default(),
    };
    for (index, (role, stored)) in gguf.tensors.iter().enumerate() {
        let twice = gguf.tensors[..index].iter().find(|(_, other)| bare(other) == bare(stored));
        if let Some((first, _)) = twice {
            let path = join(&join(&fields.at.path, "tensors"), role);
            decoder.fault(&fields.at.node.place, &path, || {
                format!("`{stored}` is already the tensor of role `{first}`")
            });
        }
    }
    Some(gguf)
}

/// Globs with the reason why their matches do not matter.
pub(super) fn reasons(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Vec<(String, String)> {
    let found = decoder.text_table(at.clone());
    for (glob, reason) in &found {
        if reason.trim().is_empty() {
            decoder.fault(&at.node.place, &join(&at.path, glob), || "expected a reason".into());
        }
    }
    found
}

/// `[adapter]`.
pub(super) fn adapter_order(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Vec<String> {
    let Some(fields) = decoder.open(at, &sections::ADAPTER) else { return Vec::new() };
    let Some(at) = fields.get("order") else { return Vec::new() };
    let order = decoder.texts(at.clone());
    for role in &order {
        decoder.known_role(&at.node.place, &at.path, role);
    }
    order
}

/// `[tokenizer]`.
pub(super) fn tokenizer(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> (Option<String>, Vec<String>) {
    let Some(fields) = decoder.open(at, &sections::TOKENIZER) else { return Default::default() };
    let pre = fields.get("pre").and_then(|at| decoder.text(at));
    let end = fields.get("end").map(|at| decoder.texts(at)).unwrap_or_default();
    (pre, end)
}

/// `[chat]`.
pub(super) fn chat(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Option<String> {
    let fields = decoder.open(at, &sections::CHAT)?;
    let at = fields.get("fallback")?;
    let template = decoder.text(at.clone())?;
    // Text with a `{` is a template; other text is the name of one, which is looked up in the tables.
    if template.contains('{') && !template.contains("messages") {
        let message = "the template never mentions `messages`, so that every message would be dropped: write a Jinja \
                       template that prints them, or the name of a template of the tables";
        return decoder.reject(&at, message);
    }
    Some(template)
}
