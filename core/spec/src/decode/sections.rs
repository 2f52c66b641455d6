//! The tables of a spec that hold no component.

use super::fields::{At, Decoder, Fields, join};
use super::norm;
use crate::names::Reference;
use crate::roles::bare;
use crate::shapes;
use crate::spec::{Architecture, HfClass, Truth};
use crate::tree::Item;
use crate::written::{Branch, Check, Embedding, Gguf, Output};

/// `[architecture]`.
pub(super) fn architecture(decoder: &mut Decoder, root: &Fields<'_>) -> Option<Architecture> {
    let at = root.need(decoder, "architecture")?;
    let fields = decoder.open(at, &shapes::ARCHITECTURE)?;
    let at = fields.need(decoder, "id")?;
    let id = decoder.text(at.clone())?;
    let good = !id.is_empty()
        && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c));
    if !good {
        decoder.faults.push(at.fault(format!("`{id}` is no id; ids are of a-z, 0-9, `-`, `_` and `.`")));
    }
    let gguf = fields.get("gguf").map_or_else(|| vec![id.clone()], |at| decoder.texts(at));
    let hf = fields.get("hf").map(|at| hf_classes(decoder, at)).unwrap_or_default();
    let summary = fields.get("summary").and_then(|at| decoder.text(at)).unwrap_or_default();
    Some(Architecture { id, gguf, hf, summary })
}

fn hf_classes(decoder: &mut Decoder, at: At<'_>) -> Vec<HfClass> {
    let Some(table) = at.node.table() else {
        return decoder.texts(at).into_iter().map(|name| HfClass { name, ..HfClass::default() }).collect();
    };
    let mut classes = Vec::new();
    for entry in &table.entries {
        let at = At { node: &entry.node, path: join(&at.path, &entry.key) };
        classes.extend(hf_class(decoder, at, &entry.key));
    }
    classes
}

fn hf_class(decoder: &mut Decoder, at: At<'_>, name: &str) -> Option<HfClass> {
    let fields = decoder.open(at, &shapes::HF_CLASS)?;
    let mut class = HfClass { name: name.to_string(), ..HfClass::default() };
    class.config = fields.get("config").and_then(|at| decoder.text(at));
    class.rename = fields.get("rename").map(|at| decoder.text_table(at)).unwrap_or_default();
    if let Some(at) = fields.get("values") {
        let Some(table) = at.node.table() else {
            return decoder
                .reject(&at, format!("found {}; a table of values is wanted", at.node.item.describe()));
        };
        for entry in &table.entries {
            match entry.node.literal() {
                Some(value) => drop(class.values.insert(entry.key.clone(), value)),
                None => decoder
                    .faults
                    .push(entry.node.place.fault(join(&at.path, &entry.key), "a value is wanted")),
            }
        }
    }
    Some(class)
}

/// `[truth]`.
pub(super) fn truth(decoder: &mut Decoder, at: At<'_>) -> Option<Truth> {
    let fields = decoder.open(at, &shapes::TRUTH)?;
    let reference = fields.need(decoder, "reference").and_then(|at| decoder.plain_name::<Reference>(&at));
    let source = fields.need(decoder, "source").and_then(|at| decoder.text(at));
    let covers = fields.get("covers").and_then(|at| decoder.text(at)).unwrap_or_default();
    let notes = fields.get("notes").map(|at| decoder.texts(at)).unwrap_or_default();
    Some(Truth { reference: reference?.0.to_string(), source: source?, covers, notes })
}

/// `[embedding]`.
pub(super) fn embedding(decoder: &mut Decoder, at: At<'_>) -> Option<Embedding> {
    let fields = decoder.open(at, &shapes::EMBEDDING)?;
    Some(Embedding {
        scale: fields.get("scale").and_then(|at| decoder.number(at)),
        norm: fields.get("norm").and_then(|at| norm::site(decoder, at)),
        positions: fields.get("positions").and_then(|at| decoder.role(at)),
        token_types: fields.get("token_types").and_then(|at| decoder.role(at)),
    })
}

/// `[block]`: the branches of mixer and feed-forward.
pub(super) fn block(decoder: &mut Decoder, root: &Fields<'_>) -> (Branch, Branch) {
    let block = root.need(decoder, "block").and_then(|at| decoder.open(at, &shapes::BLOCK));
    let Some(block) = block else { return Default::default() };
    let mixer = block.need(decoder, "mixer").and_then(|at| branch(decoder, at)).unwrap_or_default();
    let feed_forward =
        block.need(decoder, "feed_forward").and_then(|at| branch(decoder, at)).unwrap_or_default();
    (mixer, feed_forward)
}

fn branch(decoder: &mut Decoder, at: At<'_>) -> Option<Branch> {
    let fields = decoder.open(at, &shapes::BRANCH)?;
    Some(Branch {
        pre: fields.get("pre").and_then(|at| norm::site(decoder, at)),
        post: fields.get("post").and_then(|at| norm::site(decoder, at)),
        after: fields.get("after").and_then(|at| norm::site(decoder, at)),
        reads: fields.get("reads").and_then(|at| decoder.name(at)),
        scale: fields.get("scale").and_then(|at| decoder.number(at)),
    })
}

/// `[output]`.
pub(super) fn output(decoder: &mut Decoder, at: At<'_>) -> Option<Output> {
    let fields = decoder.open(at, &shapes::OUTPUT)?;
    let norm = fields.get("norm").and_then(|at| norm::site(decoder, at));
    let head = fields.need(decoder, "head").and_then(|at| decoder.name(at));
    let bias = fields.get("bias").and_then(|at| decoder.name(at));
    let scale = fields.get("scale").and_then(|at| decoder.number(at));
    let softcap = fields.get("softcap").and_then(|at| decoder.number(at));
    let pooling = fields.get("pooling").and_then(|at| decoder.name(at));
    Some(Output { norm, head: head?, bias, scale, softcap, pooling })
}

/// `[check]`: expressions that must hold, and what it means when they do not.
pub(super) fn checks(decoder: &mut Decoder, at: At<'_>) -> Vec<Check> {
    let Some(table) = at.node.table() else {
        decoder.faults.push(at.fault("a table is wanted: \"<expression>\" = \"<message>\""));
        return Vec::new();
    };
    let mut checks = Vec::new();
    for entry in &table.entries {
        let path = join(&at.path, &entry.key);
        let message = decoder.text(At { node: &entry.node, path: path.clone() });
        let key = crate::tree::Node { place: entry.key_place.clone(), item: Item::Text(entry.key.clone()) };
        let expression = decoder.expression(&At { node: &key, path }, &entry.key);
        if let (Some(message), Some(expression)) = (message, expression) {
            checks.push(Check { place: entry.key_place.clone(), expression, message });
        }
    }
    checks
}

/// `[gguf]`.
pub(super) fn gguf(decoder: &mut Decoder, at: At<'_>) -> Option<Gguf> {
    let fields = decoder.open(at, &shapes::GGUF)?;
    let gguf = Gguf {
        tensors: fields.get("tensors").map(|at| decoder.text_table(at)).unwrap_or_default(),
        ignore_tensors: fields.get("ignore_tensors").map(|at| reasons(decoder, at)).unwrap_or_default(),
        ignore_keys: fields.get("ignore_keys").map(|at| reasons(decoder, at)).unwrap_or_default(),
    };
    for (index, (role, stored)) in gguf.tensors.iter().enumerate() {
        let twice = gguf.tensors[..index].iter().find(|(_, other)| bare(other) == bare(stored));
        if let Some((first, _)) = twice {
            let message = format!("`{stored}` is already the tensor of role `{first}`");
            let path = join(&join(&fields.at.path, "tensors"), role);
            decoder.faults.push(fields.at.node.place.fault(path, message));
        }
    }
    Some(gguf)
}

/// Globs and why what they match does not matter.
pub(super) fn reasons(decoder: &mut Decoder, at: At<'_>) -> Vec<(String, String)> {
    let found = decoder.text_table(at.clone());
    for (glob, reason) in &found {
        if reason.trim().is_empty() {
            decoder.faults.push(at.node.place.fault(join(&at.path, glob), "a reason is wanted"));
        }
    }
    found
}

/// `[adapter]`.
pub(super) fn adapter_order(decoder: &mut Decoder, at: At<'_>) -> Vec<String> {
    let Some(fields) = decoder.open(at, &shapes::ADAPTER) else { return Vec::new() };
    let Some(at) = fields.get("order") else { return Vec::new() };
    let order = decoder.texts(at.clone());
    for role in &order {
        decoder.known_role(&at.node.place, &at.path, role);
    }
    order
}

/// `[tokenizer]`.
pub(super) fn tokenizer(decoder: &mut Decoder, at: At<'_>) -> (Option<String>, Vec<String>) {
    let Some(fields) = decoder.open(at, &shapes::TOKENIZER) else { return Default::default() };
    let pre = fields.get("pre").and_then(|at| decoder.text(at));
    let end = fields.get("end").map(|at| decoder.texts(at)).unwrap_or_default();
    (pre, end)
}

/// `[chat]`.
pub(super) fn chat(decoder: &mut Decoder, at: At<'_>) -> Option<String> {
    let fields = decoder.open(at, &shapes::CHAT)?;
    fields.get("fallback").and_then(|at| decoder.text(at))
}
