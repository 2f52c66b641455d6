//! [`HfKeys`]: the canonical keys of a config.json under a spec, and how each of its names was used.

use super::config::{HfConfig, Names};
use super::every_class;
use super::values::{compute, compute_whole, is_expected, number, of_literal};
use crate::language::reads::HINTS;
use crate::language::spec::{ArchSpec, HfClass, HfTimes, HfValue};
use crate::text::fault::SpecFaults;
use crate::text::source::{KeySource, MetadataValue, NameUse, NamedKey};
use menagerie_entries::{nearest, nearest_clause};
use std::collections::{BTreeMap, BTreeSet};

const BLOCKS: &str = "block_count";

/// The rotated share of a head's dimensions; it determines `rope.dimension_count`.
const PARTIAL: [&str; 2] =
    ["rope_parameters.partial_rotary_factor", "rope_parameters.full_attention.partial_rotary_factor"];

const ATTN_FACTOR: &str = "rope.scaling.attn_factor";

/// The names from which YaRN's magnitude is computed, if both exist.
const MSCALE: [&str; 2] = ["rope_parameters.mscale", "rope_parameters.mscale_all_dim"];

/// The kind of scaling of windowed layers, which must be none: specs do not support a second scaling.
const WINDOWED_KIND: &str = "rope_parameters.sliding_attention.rope_type";

/// The names of a classifier's scores.
const LABELS: &str = "classifier.output_labels";

/// The canonical keys of a config.json.
#[derive(Clone, Debug)]
pub struct HfKeys {
    keys: BTreeMap<String, MetadataValue>,
    /// The names that a canonical key was computed from.
    origins: BTreeMap<String, Vec<String>>,
    names: Vec<NamedKey>,
    faults: Vec<(String, String)>,
    config: Names,
    tied: Option<bool>,
    times: BTreeMap<String, Vec<RowTimes>>,
    for_files: Result<BTreeMap<String, MetadataValue>, String>,
}

/// Consecutive rows of a tensor, and the factor of their products.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowTimes {
    /// The number of rows; absent for all of them.
    pub rows: Option<usize>,
    /// The factor.
    pub number: f32,
}

impl ArchSpec {
    /// The class of a config in this spec: for a class around a text model, that of the text model with the table and
    /// names of the outer class; `None` if the spec does not have it.
    pub fn hf_class_of(&self, config: &HfConfig) -> HfClass {
        let class =
            config.text_class().ok().and_then(|name| self.hf_class(name)).cloned().unwrap_or_default();
        match config.wrapped() {
            Some(table) => HfClass { config: Some(table.to_owned()), wrapped: true, ..class },
            None => class,
        }
    }

    /// The class of config.json with this name, if the spec has it.
    pub fn hf_class(&self, name: &str) -> Option<&HfClass> {
        self.hf_classes.iter().find(|class| class.name == name)
    }

    /// The canonical keys of a config under this spec.
    ///
    /// Errors of single names (an unexpected value, an expression that fails) are collected and reported with all
    /// other faults of the file when the spec is resolved.
    ///
    /// # Errors
    /// The spec does not have the class, or the config lacks the part for it.
    pub fn hf_keys(&self, config: &HfConfig) -> Result<HfKeys, SpecFaults> {
        config.text_class()?;
        let class = self.hf_class_of(config);
        let inner = class.config.as_deref();
        let names = config.names(inner)?;
        let mut translation = Translation::new(self, names);
        translation.common();
        translation.own();
        translation.partial();
        translation.magnitude();
        for (key, value) in &class.values {
            translation.keys.entry(key.clone()).or_insert_with(|| of_literal(value));
        }
        translation.times();
        translation.expected();
        translation.for_files = translation.written();
        Ok(translation.finish(config.tied(inner)))
    }
}

/// The translation of one config.
struct Translation<'a> {
    spec: &'a ArchSpec,
    config: Names,
    blocks: usize,
    keys: BTreeMap<String, MetadataValue>,
    origins: BTreeMap<String, Vec<String>>,
    /// Names that were used, and the keys they gave.
    used: BTreeMap<String, BTreeSet<String>>,
    faults: Vec<(String, String)>,
    times: BTreeMap<String, Vec<RowTimes>>,
    for_files: Result<BTreeMap<String, MetadataValue>, String>,
}

impl<'a> Translation<'a> {
    fn new(spec: &'a ArchSpec, config: Names) -> Self {
        let keys = BTreeMap::new();
        let mut new = Self {
            spec,
            config,
            blocks: 0,
            keys,
            origins: BTreeMap::new(),
            used: BTreeMap::new(),
            faults: Vec::new(),
            times: BTreeMap::new(),
            for_files: Ok(BTreeMap::new()),
        };
        new.blocks = new.block_count();
        new
    }

    /// The number of blocks, which is the length of a list per layer; 0 if unknown.
    fn block_count(&self) -> usize {
        let own = self.spec.hf.config.iter().find(|(key, _)| key == BLOCKS);
        let own = own.and_then(|(_, line)| compute(line, &self.config, 0).ok()?.value);
        let common = || {
            let (_, names) = every_class::names().iter().find(|(key, _)| key == BLOCKS)?;
            names.iter().find_map(|name| self.config.get(name)).cloned()
        };
        match own.or_else(common) {
            Some(MetadataValue::Integer(count)) => {
                usize::try_from(count).unwrap_or(0).min(crate::language::resolver::MOST_BLOCKS)
            }
            _ => 0,
        }
    }

    fn set(&mut self, key: &str, value: MetadataValue, names: Vec<String>) {
        for name in &names {
            self.used.entry(name.clone()).or_default().insert(key.to_owned());
        }
        self.origins.insert(key.to_owned(), names);
        self.keys.insert(key.to_owned(), value);
    }

    /// Keys with the same names in all configs.
    fn common(&mut self) {
        for (key, candidates) in every_class::names() {
            let found: Vec<&String> = candidates
                .iter()
                .filter(|name| self.config.contains_key(*name) && !self.is_not_a_key(key, name))
                .collect();
            let Some(first) = found.first() else { continue };
            let value = self.config[*first].clone();
            if let Some(other) = found.iter().find(|name| !is_expected(&self.config[**name], &value)) {
                let message =
                    format!("{}, and {first} says {value}: which one is meant?", self.config[*other]);
                self.faults.push(((*other).clone(), message));
            }
            let names = found.into_iter().cloned().collect();
            self.set(key, value, names);
        }
    }

    /// Whether the spec ignores exactly this name: its classes do not have it or do not use it, so that it gives no
    /// key. Size hints are never trusted, and other programs expect them in files.
    fn is_not_a_key(&self, key: &str, name: &str) -> bool {
        !HINTS.contains(&key) && self.spec.hf.ignore_keys.iter().any(|(ignored, _)| ignored == name)
    }

    /// The spec's own keys, which replace the common ones; an undefined one is absent.
    fn own(&mut self) {
        for (key, line) in &self.spec.hf.config {
            match compute(line, &self.config, self.blocks) {
                Ok(computed) => {
                    self.forget(key);
                    match computed.value {
                        Some(value) => self.set(key, value, computed.mentions),
                        None => self.look_at(computed.mentions),
                    }
                }
                Err(message) => {
                    let subject = match line {
                        HfValue::Expression(_) => format!("[hf.config] \"{key}\" of spec {}", self.spec.id()),
                        HfValue::Literal(_) => key.clone(),
                    };
                    self.faults.push((subject, message));
                }
            }
        }
    }

    /// Removes the results of the common names that have another meaning here.
    fn forget(&mut self, key: &str) {
        self.keys.remove(key);
        for name in self.origins.remove(key).unwrap_or_default() {
            if let Some(keys) = self.used.get_mut(&name) {
                keys.remove(key);
                if keys.is_empty() {
                    self.used.remove(&name);
                }
            }
        }
    }

    fn look_at(&mut self, names: Vec<String>) {
        for name in names {
            self.used.entry(name).or_default();
        }
    }

    /// `rope.dimension_count` from the rotated share of a head's dimensions.
    fn partial(&mut self) {
        let stated = |(key, _): &(String, HfValue)| key == "rope.dimension_count";
        let found = PARTIAL.iter().find(|name| self.config.contains_key(**name));
        let Some(name) = found.filter(|_| !self.spec.hf.config.iter().any(stated)) else { return };
        let number = |value: &MetadataValue| match value {
            MetadataValue::Integer(whole) => Some(*whole as f64),
            MetadataValue::Number(number) => Some(*number),
            _ => None,
        };
        let key = |key: &str| self.keys.get(key).and_then(number);
        let derived = || Some((key("embedding_length")? / key("attention.head_count")?).floor());
        let head = key("attention.key_length").or_else(derived);
        match (head, self.config.get(*name).and_then(number)) {
            (Some(head), Some(share)) => {
                // Truncated, like `int(head_dim * share)`.
                let dims = MetadataValue::Integer((head * share) as i64);
                self.set("rope.dimension_count", dims, vec![(*name).to_owned()]);
            }
            // If the sizes are missing, that is already a fault.
            (None, Some(_)) => self.look_at(vec![(*name).to_owned()]),
            (_, None) => self.faults.push(((*name).to_owned(), "not a number".to_owned())),
        }
    }

    /// The factor of rotated queries and keys. Here `attention_factor` is the whole factor; in a canonical key of
    /// YaRN it multiplies `1 + 0.1 * ln(factor)`; `mscale` is read only together with `mscale_all_dim`.
    ///
    /// Source: `_compute_yarn_parameters` of transformers 5.23.
    fn magnitude(&mut self) {
        let real = |key: &str| match self.keys.get(key) {
            Some(MetadataValue::Number(number)) => Some(*number),
            Some(MetadataValue::Integer(whole)) => Some(*whole as f64),
            _ => None,
        };
        let yarn = self.keys.get("rope.scaling.type") == Some(&MetadataValue::Text("yarn".to_owned()));
        let own = self.spec.hf.config.iter().any(|(key, _)| key == ATTN_FACTOR);
        if let (true, false, Some(whole), Some(factor)) =
            (yarn, own, real(ATTN_FACTOR), real("rope.scaling.factor"))
        {
            let factor = MetadataValue::Number(whole / (1.0 + 0.1 * libm::log(factor.max(1.0))));
            self.keys.insert(ATTN_FACTOR.to_owned(), factor);
        }
        let [mscale, all] = MSCALE.map(|name| match self.config.get(name) {
            Some(MetadataValue::Number(number)) => Some(*number),
            Some(MetadataValue::Integer(whole)) => Some(*whole as f64),
            _ => None,
        });
        match (mscale, all) {
            (Some(one), Some(other)) if one != other && one != 0.0 && other != 0.0 => {
                let message = format!(
                    "{one}, and mscale_all_dim is {other}; only models where they are equal are understood"
                );
                self.faults.push((MSCALE[0].to_owned(), message));
            }
            (Some(_), _) => self.look_at(vec![MSCALE[0].to_owned()]),
            (None, _) => {}
        }
    }

    /// `[hf.times]`: factors of products; absent if the config does not state them.
    fn times(&mut self) {
        let spec = self.spec;
        for (role, stated) in &spec.hf.times {
            let parts: Vec<(Option<&HfValue>, &HfValue)> = match stated {
                HfTimes::All(value) => vec![(None, value)],
                HfTimes::Rows(parts) => parts.iter().map(|(rows, value)| (Some(rows), value)).collect(),
            };
            let made: Result<Option<Vec<RowTimes>>, String> = parts
                .into_iter()
                .map(|(rows, value)| {
                    let rows = match rows.map(|rows| self.number(rows)).transpose()? {
                        Some(rows) => Some(rows.map(whole).transpose()?),
                        None => None,
                    };
                    let number = self.number(value)?.map(|number| number as f32);
                    Ok(match (rows, number) {
                        (None, Some(number)) => Some(RowTimes { rows: None, number }),
                        (Some(Some(rows)), Some(number)) => Some(RowTimes { rows: Some(rows), number }),
                        _ => None,
                    })
                })
                .collect();
            match made {
                Ok(Some(parts)) if parts.iter().any(|part| part.number != 1.0) => {
                    drop(self.times.insert(role.clone(), parts));
                }
                Ok(_) => {}
                Err(message) => {
                    let subject = format!("[hf.times] \"{role}\" of spec {}", self.spec.id());
                    self.faults.push((subject, message));
                }
            }
        }
    }

    /// A finite number of `[hf.times]`, if the config states it; its names count as read.
    fn number(&mut self, value: &HfValue) -> Result<Option<f64>, String> {
        let (found, mentions) = number(value, &self.config)?;
        self.look_at(mentions);
        Ok(found)
    }

    /// `[hf.expect]`: the supported values of a name.
    fn expected(&mut self) {
        let windowed =
            (WINDOWED_KIND.to_owned(), vec![crate::text::literal::Literal::Text("default".to_owned())]);
        for (name, wanted) in self.spec.hf.expect.iter().chain([&windowed]) {
            self.used.entry(name.clone()).or_default();
            let Some(found) = self.config.get(name) else { continue };
            let wanted: Vec<MetadataValue> = wanted.iter().map(of_literal).collect();
            let whole = MetadataValue::List(wanted.clone());
            if !wanted.iter().chain([&whole]).any(|wanted| is_expected(found, wanted)) {
                let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
                let message = format!(
                    "{found}, and spec {} ({}) is only the model with {}; another value is another model: it needs a spec \
                     that says so",
                    self.spec.id(),
                    self.spec.source_name,
                    wanted.join(" or ")
                );
                self.faults.push((name.clone(), message));
            }
        }
    }

    /// The names of a classifier's scores; without names they are numbered, and without a count there are two.
    ///
    /// Source: `id2label` and `num_labels` of configuration_utils.py, transformers 5.23.
    fn labels(&self) -> Option<MetadataValue> {
        let Some(MetadataValue::List(classes)) = self.config.get("architectures") else { return None };
        let Some(MetadataValue::Text(class)) = classes.first() else { return None };
        let taken = self.spec.reads.has(LABELS) || self.spec.ignored_key(LABELS).is_some();
        if !taken || !class.ends_with("ForSequenceClassification") {
            return None;
        }
        let named = |index: usize| self.config.get(&format!("id2label.{index}")).cloned();
        let names: Vec<MetadataValue> = (0..).map_while(named).collect();
        let count = self.config.get("num_labels").and_then(MetadataValue::first_count).unwrap_or(2);
        let numbered = || (0..count).map(|index| MetadataValue::Text(format!("LABEL_{index}"))).collect();
        Some(MetadataValue::List(if names.is_empty() { numbered() } else { names }))
    }

    /// `[hf.write]`: keys that other programs expect in a file. Names used only for them stay unread, and their
    /// errors are reported when a file is written.
    fn written(&self) -> Result<BTreeMap<String, MetadataValue>, String> {
        let mut written: BTreeMap<String, MetadataValue> =
            self.labels().map(|labels| (LABELS.to_owned(), labels)).into_iter().collect();
        for (key, line) in &self.spec.hf.write {
            let value = compute_whole(line, &self.config, self.blocks)
                .map_err(|message| format!("[hf.write] \"{key}\" of spec {}: {message}", self.spec.id()))?;
            written.extend(value.map(|value| (key.clone(), value)));
        }
        Ok(written)
    }

    fn finish(mut self, tied: Option<bool>) -> HfKeys {
        let lists: Vec<String> =
            self.spec.hf.tensors.iter().flat_map(|(_, sources)| sources).filter_map(config_list).collect();
        self.look_at(lists);
        let Self { spec, used, keys, origins, faults, config, times, for_files, .. } = self;
        let mut known: BTreeSet<&str> = used.keys().map(String::as_str).collect();
        known.extend(common_names());
        let mut unknown = 0;
        let mut use_of = |name: &String| {
            if let Some(keys) = used.get(name) {
                return NameUse::Read(keys.iter().cloned().collect());
            }
            let own = every_class::ignored_by(&spec.hf.ignore_keys, name);
            match own.or_else(|| every_class::ignored(name)) {
                Some(reason) => NameUse::Ignored(reason.to_owned()),
                None => {
                    unknown += 1;
                    // Only the first few are named; a broken file can have any number of them.
                    let near = unknown <= MOST_NEAR;
                    let help = near.then(|| nearest_clause(nearest(name, known.iter().copied())));
                    NameUse::Unknown(help.unwrap_or_default())
                }
            }
        };
        let names = config.keys().map(|name| NamedKey { name: name.clone(), is: use_of(name) }).collect();
        HfKeys { keys, origins, names, faults, config, tied, times, for_files }
    }
}

/// The number of unknown names for which the nearest known one is searched.
const MOST_NEAR: usize = 200;

/// A count of rows.
fn whole(number: f64) -> Result<usize, String> {
    match number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
        true => Ok(number as usize),
        false => Err(format!("{number} is not a number of rows")),
    }
}

/// The list in a config that replaces a tensor.
fn config_list(source: &crate::language::spec::HfTensor) -> Option<String> {
    match source {
        crate::language::spec::HfTensor::Config(name) => Some(name.clone()),
        crate::language::spec::HfTensor::Tensor { .. } => None,
    }
}

fn common_names<'a>() -> impl Iterator<Item = &'a str> {
    every_class::names().iter().flat_map(|(_, names)| names).map(String::as_str)
}

impl HfKeys {
    /// A list of numbers of the config, for the role whose tensor it replaces.
    pub fn numbers(&self, name: &str) -> Option<Vec<f32>> {
        let Some(MetadataValue::List(values)) = self.config.get(name) else { return None };
        let number = |value: &MetadataValue| match value {
            MetadataValue::Integer(whole) => Some(*whole as f32),
            MetadataValue::Number(number) => Some(*number as f32),
            _ => None,
        };
        values.iter().map(number).collect()
    }
}

impl HfKeys {
    /// The factors of a role's products, if any differs from 1.
    pub fn times(&self, role: &str) -> Option<&[RowTimes]> {
        self.times.get(role).map(Vec::as_slice)
    }

    /// Sets a key whose value is not in the config, but in a tensor.
    pub fn set_number(&mut self, key: &str, value: MetadataValue, tensor: &str) {
        self.keys.insert(key.to_owned(), value);
        self.origins.insert(key.to_owned(), vec![format!("tensor {tensor}")]);
    }
}

impl KeySource for HfKeys {
    fn get(&self, canonical_key: &str) -> Option<MetadataValue> {
        self.keys.get(canonical_key).cloned()
    }

    fn keys(&self) -> Vec<String> {
        self.keys.keys().cloned().collect()
    }

    fn spelled(&self, canonical_key: &str) -> Option<String> {
        if let Some(names) = self.origins.get(canonical_key).filter(|names| !names.is_empty()) {
            return Some(names.join(" and "));
        }
        let (_, names) = every_class::names().iter().find(|(key, _)| key == canonical_key)?;
        names.first().cloned()
    }

    fn names(&self) -> Option<&[NamedKey]> {
        Some(&self.names)
    }

    fn faults(&self) -> &[(String, String)] {
        &self.faults
    }

    fn for_files(&self) -> Result<BTreeMap<String, MetadataValue>, String> {
        self.for_files.clone()
    }

    fn head_is_embedding(&self) -> Option<bool> {
        self.tied
    }
}
