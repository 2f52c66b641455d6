//! `[hf]`: decoded and checked.

use super::decoder::{Decoder, TreePoint, join};
use super::sections::reasons;
use crate::expression::{Expression, NameScope};
use crate::kind::NameEnum;
use crate::language::reads::Reads;
use crate::language::sections;
use crate::language::spec::{ARCHITECTURE, ArchSpec, HfMap, HfTensor, HfTimes, HfValue, Layout};
use crate::text::literal::Literal;
use crate::text::tree::{Item, TomlTable};
use menagerie_entries::{nearest, nearest_clause};

const LAYER: &str = "{layer}";

/// `[hf]`.
pub(super) fn hf(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> HfMap {
    let Some(fields) = decoder.open(at, &sections::HF) else { return HfMap::default() };
    let mut map = HfMap::default();
    if let Some(at) = fields.get("layer") {
        map.layer = decoder.text(at.clone()).unwrap_or_default();
        if !map.layer.contains(LAYER) {
            decoder.reject::<()>(&at, "the prefix of a block must contain `{layer}`");
        }
    }
    if let Some(at) = fields.get("layer_after") {
        map.layer_after = decoder.texts(at.clone());
        // The layer number must be at the end of each prefix; only the rest of a tensor name may follow.
        if map.layer_after.iter().chain([&map.layer]).any(|prefix| !prefix.ends_with(LAYER)) {
            decoder.reject::<()>(&at, "every prefix of a stack, `layer` included, must end in `{layer}`");
        }
    }
    if let Some(at) = fields.get("config") {
        map.config = entries(decoder, &at, config_value);
    }
    if let Some(at) = fields.get("write") {
        map.write = entries(decoder, &at, config_value);
    }
    if let Some(at) = fields.get("expect") {
        map.expect = entries(decoder, &at, expected);
    }
    if let Some(at) = fields.get("tensors") {
        map.tensors = entries(decoder, &at, tensors);
    }
    if let Some(at) = fields.get("numbers") {
        map.numbers = decoder.text_table(at);
    }
    if let Some(at) = fields.get("times") {
        map.times = entries(decoder, &at, times);
        for (role, _) in &map.times {
            if !map.tensors.iter().any(|(known, _)| known == role) {
                let known = map.tensors.iter().map(|(role, _)| role.as_str());
                let message =
                    format!("[hf.tensors] has no role `{role}`{}", nearest_clause(nearest(role, known)));
                decoder.reject::<()>(&at, message);
            }
        }
    }
    map.ignore_tensors = fields.get("ignore_tensors").map(|at| reasons(decoder, at)).unwrap_or_default();
    map.ignore_keys = fields.get("ignore_keys").map(|at| reasons(decoder, at)).unwrap_or_default();
    map
}

fn entries<T>(
    decoder: &mut Decoder<'_>,
    at: &TreePoint<'_>,
    read: fn(&mut Decoder<'_>, TreePoint<'_>) -> Option<T>,
) -> Vec<(String, T)> {
    let Some(table) = at.node.table() else {
        return decoder.wanted(at, "a table").unwrap_or_default();
    };
    let mut found = Vec::new();
    for entry in &table.entries {
        let value = read(decoder, at.inner(&entry.node, &entry.key));
        found.extend(value.map(|value| (entry.key.clone(), value)));
    }
    found
}

fn config_value(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Option<HfValue> {
    let Some(text) = at.node.text() else {
        let literal = at.node.literal().map(HfValue::Literal);
        return literal
            .or_else(|| decoder.reject(&at, "expected a value or an expression over config names"));
    };
    match Expression::parse(text, NameScope::Config) {
        Ok(_) => Some(HfValue::Expression(text.to_string())),
        Err(message) => decoder.reject(&at, message),
    }
}

fn times(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Option<HfTimes> {
    let Item::List(nodes) = &at.node.item else { return config_value(decoder, at).map(HfTimes::All) };
    let mut parts = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        let at = at.inner(node, &index.to_string());
        let Item::List(pair) = &at.node.item else { return decoder.wanted(&at, "a list `[rows, number]`") };
        let [rows, number] = pair.as_slice() else { return decoder.wanted(&at, "a list `[rows, number]`") };
        let rows = config_value(decoder, at.inner(rows, "rows"))?;
        parts.push((rows, config_value(decoder, at.inner(number, "number"))?));
    }
    match parts.is_empty() {
        true => decoder.reject(&at, "an empty list; expected at least one `[rows, number]`"),
        false => Some(HfTimes::Rows(parts)),
    }
}

fn expected(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Option<Vec<Literal>> {
    match at.node.literal() {
        Some(Literal::List(values)) if !values.is_empty() => Some(values),
        Some(value) => Some(vec![value]),
        None => decoder.reject(&at, "expected a value or a list of the accepted values"),
    }
}

fn tensors(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Option<Vec<HfTensor>> {
    let Item::List(nodes) = &at.node.item else {
        return tensor(decoder, at).map(|found| vec![found]);
    };
    if nodes.is_empty() {
        return decoder.reject(&at, "an empty list; expected at least one name");
    }
    let mut found = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        found.push(tensor(decoder, at.inner(node, &index.to_string()))?);
    }
    Some(found)
}

fn tensor(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Option<HfTensor> {
    match &at.node.item {
        Item::Text(from) => {
            placeholders(decoder, &at, from);
            Some(HfTensor::Tensor { from: from.clone(), layout: Vec::new() })
        }
        Item::Table(table) if table.has("config") => {
            let fields = decoder.open(at, &sections::HF_CONFIG_TENSOR)?;
            fields.get("config").and_then(|at| decoder.text(at)).map(HfTensor::Config)
        }
        Item::Table(_) => {
            let fields = decoder.open(at, &sections::HF_TENSOR)?;
            let name = fields.need(decoder, "from")?;
            let from = decoder.text(name.clone())?;
            placeholders(decoder, &name, &from);
            let layout = fields.get("layout").map_or_else(|| Some(Vec::new()), |at| layouts(decoder, at))?;
            Some(HfTensor::Tensor { from, layout })
        }
        _ => decoder.wanted(&at, "a name, a list of names or a table"),
    }
}

/// A name may contain `{expert}` or `{head}`, one of them, once.
fn placeholders(decoder: &mut Decoder<'_>, at: &TreePoint<'_>, name: &str) {
    let mut rest = name;
    let mut count = 0;
    while let Some(start) = rest.find('{') {
        let end = rest[start..].find('}').map_or(rest.len(), |end| start + end + 1);
        let found = &rest[start..end];
        count += 1;
        if found != "{expert}" && found != "{head}" {
            let help = nearest_clause(nearest(found, ["{expert}", "{head}"]));
            let message = format!("unknown placeholder `{found}`{help}; allowed: {{expert}}, {{head}}");
            decoder.reject::<()>(at, message);
        }
        rest = &rest[end..];
    }
    if count > 1 {
        decoder.reject::<()>(at, "a name may contain only one of {expert} and {head}");
    }
    if name.trim_start_matches('.').is_empty() {
        decoder.reject::<()>(at, "an empty name");
    }
}

fn layouts(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Option<Vec<Layout>> {
    let Item::List(nodes) = &at.node.item else {
        return layout(decoder, &at).map(|layout| vec![layout]);
    };
    let mut found = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        found.push(layout(decoder, &at.inner(node, &index.to_string()))?);
    }
    Some(found)
}

fn layout(decoder: &mut Decoder<'_>, at: &TreePoint<'_>) -> Option<Layout> {
    Layout::VALUES.get(decoder.plain_name(at, Layout::LIST)?).copied()
}

/// Reports keys that `[hf.config]` and the class table set and nothing reads.
///
/// Only those that the spec's own file sets: a base's keys may be for another child.
pub(super) fn unread(decoder: &mut Decoder<'_>, root: &TomlTable, reads: &Reads, file: &str) {
    let config = root.get("hf").and_then(|node| node.table()).and_then(|table| table.get("config"));
    if let Some(table) = config.and_then(|node| node.table()) {
        unread_keys(decoder, table, ("hf.config", file), reads);
    }
    let numbers = root.get("hf").and_then(|node| node.table()).and_then(|table| table.get("numbers"));
    if let Some(table) = numbers.and_then(|node| node.table()) {
        unread_keys(decoder, table, ("hf.numbers", file), reads);
    }
    let classes = root.get("architecture").and_then(|node| node.table()).and_then(|table| table.get("hf"));
    for entry in classes.and_then(|node| node.table()).into_iter().flat_map(|table| &table.entries) {
        let values = entry.node.table().and_then(|table| table.get("values"));
        if let Some(table) = values.and_then(|node| node.table()) {
            unread_keys(decoder, table, (&format!("architecture.hf.{}.values", entry.key), file), reads);
        }
    }
}

/// Reports keys of `[hf.write]` that the spec would refuse in a file.
pub(super) fn unwritable(decoder: &mut Decoder<'_>, root: &TomlTable, spec: &ArchSpec) {
    let write = root.get("hf").and_then(|node| node.table()).and_then(|table| table.get("write"));
    for entry in write.and_then(|node| node.table()).into_iter().flat_map(|table| &table.entries) {
        let key = entry.key.as_str();
        if key != ARCHITECTURE && !spec.reads.has(key) && spec.ignored_key(key).is_none() {
            decoder.fault(&entry.key_place, &join("hf.write", key), || {
                "this key is written here, and a file that has it would be refused: read it, or list it under \
                 [gguf.ignore_keys] with a reason"
                    .to_owned()
            });
        }
    }
}

fn unread_keys(decoder: &mut Decoder<'_>, table: &TomlTable, (path, file): (&str, &str), reads: &Reads) {
    for entry in &table.entries {
        if !reads.has(&entry.key) && entry.key_place.file() == file {
            decoder.fault(&entry.key_place, &join(path, &entry.key), || {
                let help = nearest_clause(nearest(&entry.key, reads.keys()));
                format!("nothing in the spec reads this key{help}")
            });
        }
    }
}
