//! `[mixer]`: attention with all its options, and kinds that are known but not built in.

use super::fields::{At, Decoder, Fields, join};
use super::norm;
use crate::fault::Fault;
use crate::names::{MixerKind, NameSet, RotaryKind, ScalingKind};
use crate::nearest::nearest_help;
use crate::shapes::{self, Shape};
use crate::tree::Item;
use crate::written::{Attention, Case, Cases, Mixer, QkNorm, Rope, Scaling, Temperature, Window};

/// What a component decoder is given: its table.
type Read<T> = fn(&mut Decoder, At<'_>) -> Option<T>;

/// `[mixer]`.
pub(super) fn mixer(decoder: &mut Decoder, at: At<'_>) -> Option<Cases<Mixer>> {
    cases(decoder, at, &shapes::ATTENTION, false, mixer_case)
}

/// A component: one table, or named cases. `optional` ones may have a `when` of their own.
pub(super) fn cases<T>(
    decoder: &mut Decoder,
    at: At<'_>,
    shape: &Shape,
    optional: bool,
    read: Read<T>,
) -> Option<Cases<T>> {
    let Some(table) = at.node.table() else {
        return decoder.reject(&at, format!("found {}; a table is wanted", at.node.item.describe()));
    };
    let (place, path) = (at.node.place.clone(), at.path.clone());
    let named = !table.entries.is_empty()
        && table.entries.iter().all(|e| e.node.table().is_some() && !shape.fields.contains(&e.key.as_str()));
    let mut found = Vec::new();
    if named {
        for entry in &table.entries {
            let at = At { node: &entry.node, path: join(&path, &entry.key) };
            let when = match entry.node.table().and_then(|table| table.get("when")) {
                Some(node) => decoder.truth(At { node, path: join(&at.path, "when") }),
                None => decoder.reject(&at, "a named case needs `when`"),
            };
            if let Some(component) = read(decoder, at) {
                found.push(Case { name: entry.key.clone(), when, component });
            }
        }
        if found.len() < table.entries.len() {
            return None;
        }
    } else {
        let when = table.get("when").map(|node| At { node, path: join(&path, "when") });
        if let (false, Some(when)) = (optional, &when) {
            decoder
                .faults
                .push(when.fault("only a named case or an optional component has `when`; name the cases"));
        }
        let when = when.filter(|_| optional).and_then(|at| decoder.truth(at));
        found.push(Case { name: String::new(), when, component: read(decoder, at)? });
    }
    Some(Cases { place, path, named, cases: found })
}

/// `kind` of a component table, which must be there.
pub(super) fn kind<T: NameSet>(decoder: &mut Decoder, at: &At<'_>) -> Option<(&'static str, T)> {
    let allowed: Vec<&str> = T::names().collect();
    let Some(table) = at.node.table() else {
        return decoder.reject(at, format!("found {}; a table is wanted", at.node.item.describe()));
    };
    match table.get("kind") {
        Some(node) => decoder.plain_name(&At { node, path: join(&at.path, "kind") }),
        None => {
            let path = join(&at.path, "kind");
            let known = table
                .entries
                .iter()
                .find_map(|e| nearest_help(&e.key, ["kind"]).strip_prefix(';').map(|_| &e.key));
            let hint = known.map(|key| format!("; did `{key}` mean it?")).unwrap_or_default();
            let message = format!("missing{hint}; one of {}", allowed.join(", "));
            decoder.faults.push(at.node.place.fault(path, message));
            None
        }
    }
}

/// A fault for something the language knows and this build does not have.
pub(super) fn not_built_in(at: &At<'_>, what: &str, built_in: &[&str]) -> Fault {
    at.fault(format!("{what} is not built in; built in are: {}", built_in.join(", ")))
}

fn mixer_case(decoder: &mut Decoder, at: At<'_>) -> Option<Mixer> {
    let (name, kind) = kind::<MixerKind>(decoder, &at)?;
    match kind {
        MixerKind::Attention => attention(decoder, at).map(|found| Mixer::Attention(Box::new(found))),
        MixerKind::None => decoder.open(at, &shapes::NONE).map(|_| Mixer::None),
        MixerKind::NotBuiltIn(kind) => {
            let shape =
                if name == "latent-attention" { &shapes::LATENT_ATTENTION } else { &shapes::RECURRENT };
            decoder.open(at.clone(), shape)?;
            expressions_within(decoder, &at);
            let fault = not_built_in(&at, &format!("mixer kind `{name}`"), &["attention", "none"]);
            Some(Mixer::NotBuiltIn { kind, fault })
        }
    }
}

/// Checks the expressions of a table whose options no code here reads.
fn expressions_within(decoder: &mut Decoder, at: &At<'_>) {
    let Some(table) = at.node.table() else { return };
    for entry in &table.entries {
        let inner = At { node: &entry.node, path: join(&at.path, &entry.key) };
        let expected = [
            "heads",
            "kv_heads",
            "key_dim",
            "value_dim",
            "scale",
            "softcap",
            "clamp",
            "eps",
            "size",
            "length",
            "offset",
            "dims",
            "base",
            "magnitude",
            "when",
        ];
        match &entry.node.item {
            Item::Text(text) if expected.contains(&entry.key.as_str()) => {
                drop(decoder.expression(&inner, text))
            }
            Item::Table(_) => expressions_within(decoder, &inner),
            _ => {}
        }
    }
}

fn attention(decoder: &mut Decoder, at: At<'_>) -> Option<Attention> {
    let fields = decoder.open(at.clone(), &shapes::ATTENTION)?;
    let (qkv_bias, output_bias) = attention_bias(decoder, &fields);
    Some(Attention {
        path: at.path.clone(),
        heads: fields.get("heads").and_then(|at| decoder.number(at)),
        kv_heads: fields.get("kv_heads").and_then(|at| decoder.number(at)),
        key_dim: fields.get("key_dim").and_then(|at| decoder.number(at)),
        value_dim: fields.get("value_dim").and_then(|at| decoder.number(at)),
        qkv_bias,
        output_bias,
        scale: fields.get("scale").and_then(|at| decoder.number(at)),
        mask: fields.get("mask").and_then(|at| decoder.name(at)),
        softcap: fields.get("softcap").and_then(|at| decoder.number(at)),
        clamp: fields.get("clamp").and_then(|at| decoder.number(at)),
        sinks: fields.get("sinks").and_then(|at| decoder.role(at)),
        qk_norm: fields.get("qk_norm").and_then(|at| cases(decoder, at, &shapes::QK_NORM, true, qk_norm)),
        window: fields.get("window").and_then(|at| cases(decoder, at, &shapes::WINDOW, true, window)),
        temperature: fields
            .get("temperature")
            .and_then(|at| cases(decoder, at, &shapes::TEMPERATURE, true, temperature)),
        rope: fields.get("rope").and_then(|at| cases(decoder, at, &shapes::ROPE, true, rope)),
        not_built_in: ["v_norm", "gate"]
            .into_iter()
            .filter_map(|key| {
                fields.get(key).map(|at| not_built_in(&at, &format!("`{key}` of attention"), &["qk_norm"]))
            })
            .collect(),
    })
}

type BiasName = Option<crate::written::Name<crate::config::BiasRule>>;

fn attention_bias(decoder: &mut Decoder, fields: &Fields<'_>) -> (BiasName, BiasName) {
    let Some(at) = fields.get("bias") else { return (None, None) };
    let split =
        at.node.table().is_some_and(|table| !(table.has("by") || table.has("gguf") && table.has("hf")));
    if !split {
        let both = decoder.name(at);
        return (both.clone(), both);
    }
    let Some(fields) = decoder.open(at, &shapes::ATTENTION_BIAS) else { return (None, None) };
    let qkv = fields.get("qkv").and_then(|at| decoder.name(at));
    let output = fields.get("output").and_then(|at| decoder.name(at));
    (qkv, output)
}

fn qk_norm(decoder: &mut Decoder, at: At<'_>) -> Option<QkNorm> {
    let (spot, path) = (at.node.place.clone(), at.path.clone());
    let fields = decoder.open(at, &shapes::QK_NORM)?;
    let over = fields.need(decoder, "over").and_then(|at| decoder.name(at));
    let place = fields.need(decoder, "at").and_then(|at| decoder.name(at));
    let norm = norm::overrides(decoder, &fields, true);
    Some(QkNorm { place: spot, path, over: over?, at: place?, norm })
}

fn window(decoder: &mut Decoder, at: At<'_>) -> Option<Window> {
    let fields = decoder.open(at, &shapes::WINDOW)?;
    let kind = fields.need(decoder, "kind").and_then(|at| decoder.name(at));
    let size = fields.need(decoder, "size").and_then(|at| decoder.number(at));
    Some(Window { kind: kind?, size: size? })
}

fn temperature(decoder: &mut Decoder, at: At<'_>) -> Option<Temperature> {
    let fields = decoder.open(at, &shapes::TEMPERATURE)?;
    let scale = fields.need(decoder, "scale").and_then(|at| decoder.number(at));
    let length = fields.need(decoder, "length").and_then(|at| decoder.number(at));
    let offset = fields.need(decoder, "offset").and_then(|at| decoder.number(at));
    Some(Temperature { scale: scale?, length: length?, offset: offset? })
}

fn rope(decoder: &mut Decoder, at: At<'_>) -> Option<Rope> {
    let (place, path) = (at.node.place.clone(), at.path.clone());
    kind::<RotaryKind>(decoder, &at);
    let fields = decoder.open(at, &shapes::ROPE)?;
    let pairs = fields.need(decoder, "pairs").and_then(|at| decoder.name(at));
    let dims = fields.get("dims").and_then(|at| decoder.number(at));
    let base = fields.need(decoder, "base").and_then(|at| decoder.number(at));
    let scaling = fields.get("scaling").and_then(|at| scaling(decoder, at));
    Some(Rope { place, path, pairs: pairs?, dims, base: base?, scaling })
}

fn scaling(decoder: &mut Decoder, at: At<'_>) -> Option<Scaling> {
    let fields = decoder.open(at, &shapes::SCALING)?;
    let mut found = Scaling {
        accept: Vec::new(),
        when: fields.get("when").and_then(|at| decoder.truth(at)),
        yarn_magnitude: None,
        yarn_round: None,
        longrope_magnitude: None,
    };
    if let Some(at) = fields.need(decoder, "accept") {
        if let Item::List(nodes) = &at.node.item {
            for (index, node) in nodes.iter().enumerate() {
                let name =
                    decoder.plain_name::<ScalingKind>(&At { node, path: join(&at.path, &index.to_string()) });
                found.accept.extend(name.map(|(_, kind)| kind));
            }
        } else {
            decoder
                .faults
                .push(at.fault(format!("found {}; a list of scalings is wanted", at.node.item.describe())));
        }
    }
    if let Some(yarn) = fields.get("yarn").and_then(|at| decoder.open(at, &shapes::YARN)) {
        found.yarn_magnitude = yarn.get("magnitude").and_then(|at| decoder.number(at));
        found.yarn_round = yarn.get("round").and_then(|at| decoder.name(at));
    }
    if let Some(longrope) = fields.get("longrope").and_then(|at| decoder.open(at, &shapes::LONGROPE)) {
        found.longrope_magnitude = longrope.get("magnitude").and_then(|at| decoder.number(at));
    }
    for key in ["linear", "llama3", "factors"] {
        fields.get(key).and_then(|at| decoder.open(at, &shapes::NO_OPTIONS));
    }
    Some(found)
}
