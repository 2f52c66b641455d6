//! [`RoleFinder`]: finds the tensors of each role in a folder.

use super::layout::{self, HeadGroups};
use crate::source::{TensorEntry, TensorPiece};
use menagerie_loaders::{Dtype, Shards};
use menagerie_registry::TensorPart;
use menagerie_spec::{ArchSpec, HfKeys, HfOrigin, Layout, RowTimes};
use std::collections::HashMap;

/// Suffixes of the scales of 8-bit floats.
const SCALE_SUFFIXES: [&str; 2] = ["_scale_inv", "_scale"];

/// The role of the head.
const HEAD: &str = "output";

/// The source of an entry that is not a tensor of the file.
#[derive(Debug)]
pub(super) enum EntrySource {
    /// Tensors of the file.
    Tensors {
        /// For each member of a stack its tensor, followed by its scales if it has some. For MXFP4, the scales come first.
        members: Vec<TensorPiece>,
        /// The number of tensors for one member.
        per_member: usize,
        /// The layouts between the stored and the canonical tensor of each member.
        layout: Vec<Layout>,
        /// Whether the members are stacked along a new first dimension.
        stack: bool,
        /// The index of the heads of its block.
        group: Option<usize>,
        /// Whether the bytes are copied.
        copied: bool,
    },
    /// A list in the config.
    List(Vec<f32>),
}

/// The entries of a folder, and those of each role.
#[derive(Default)]
pub(super) struct RoleEntries {
    pub(super) entries: Vec<TensorEntry>,
    pub(super) sources: Vec<EntrySource>,
    pub(super) roles: HashMap<(String, Option<usize>), [Option<usize>; 3]>,
}

/// Finds the tensors of roles.
pub(super) struct RoleFinder<'a> {
    pub(super) shards: &'a Shards,
    /// Tensors by name, after the class has renamed them.
    pub(super) index: HashMap<&'a str, usize>,
    pub(super) keys: &'a HfKeys,
    pub(super) grouped: Vec<HeadGroups>,
}

impl RoleFinder<'_> {
    /// Finds the tensors of every role in a block, or of the whole model (`None`).
    pub(super) fn roles_of(&self, spec: &ArchSpec, layer: Option<usize>, found: &mut RoleEntries) {
        for (role, _) in &spec.hf.tensors {
            let suffixes =
                [(".weight", TensorPart::Main), (".bias", TensorPart::Bias), (".scale", TensorPart::Scale)];
            let suffix = suffixes.iter().find_map(|(end, part)| Some((role.strip_suffix(end)?, *part)));
            let (bare, exact) = suffix.map_or((role.as_str(), None), |(bare, part)| (bare, Some(part)));
            for part in [TensorPart::Main, TensorPart::Bias, TensorPart::Scale] {
                if exact.is_some_and(|exact| exact != part) {
                    continue;
                }
                let origins = spec.hf_origins(role, layer);
                let Some(entry) = origins.iter().find_map(|origin| self.entry(origin, part, layer, found))
                else {
                    continue;
                };
                let slot = &mut found.roles.entry((bare.to_owned(), layer)).or_default()[part as usize];
                // A role with its suffix takes precedence.
                if exact.is_some() || slot.is_none() {
                    *slot = Some(entry);
                }
            }
        }
    }

    /// Adds the factors of products that the config states, as scales of their roles.
    ///
    /// # Errors
    /// The number of rows differs from the tensor; the folder also has scales for the role.
    pub(super) fn times_of(
        &self,
        spec: &ArchSpec,
        layer: Option<usize>,
        found: &mut RoleEntries,
    ) -> Result<(), String> {
        for (role, _) in &spec.hf.times {
            let Some(times) = self.keys.times(role) else { continue };
            let place = (role.clone(), layer);
            let [main, _, scale] = found.roles.get(&place).copied().unwrap_or_default();
            let dims = main.and_then(|main| found.entries.get(main)).map(|entry| entry.dims.clone());
            let dims = match dims {
                Some(dims) => dims,
                // The head is the embedding.
                None if role == HEAD && layer.is_none() => Vec::new(),
                None => continue,
            };
            let fault = |problem: String| format!("the factors of {role} in config.json: {problem}");
            if scale.is_some() {
                return Err(fault("the folder also has a tensor of scales for it".to_owned()));
            }
            let values = spread(times, &dims).map_err(fault)?;
            found.entries.push(TensorEntry {
                name: format!("the factors of {role} in config.json"),
                dims: vec![values.len() as u64],
                kind: "F32".to_owned(),
                bytes: values.len() as u64 * 4,
                layer,
            });
            found.sources.push(EntrySource::List(values));
            found.roles.entry(place).or_default()[TensorPart::Scale as usize] = Some(found.entries.len() - 1);
        }
        Ok(())
    }

    /// The entry of an origin, if the folder has its tensors.
    fn entry(
        &self,
        origin: &HfOrigin<'_>,
        part: TensorPart,
        layer: Option<usize>,
        found: &mut RoleEntries,
    ) -> Option<usize> {
        let (name, whole, layout) = match origin {
            HfOrigin::Config(_) if part != TensorPart::Main => return None,
            HfOrigin::Config(name) => return self.list(name, found),
            HfOrigin::Tensor { name, whole, layout } => (name, *whole, *layout),
        };
        let endings: &[&str] = match part {
            _ if whole => &[""],
            TensorPart::Main => &[".weight", ""],
            TensorPart::Bias => &[".bias"],
            TensorPart::Scale => &[".scale"],
        };
        let acts = |layout: &&Layout| whole || part == TensorPart::Main || layout.acts_on_bias();
        let layout: Vec<Layout> = layout.iter().filter(acts).copied().collect();
        if layout.first() == Some(&Layout::Mxfp4) {
            return self.mxfp4(name, layout, layer, found);
        }
        for ending in endings {
            let name = format!("{name}{ending}");
            let members = self.members(&name);
            if members.is_empty() {
                continue;
            }
            let stack = name.contains('{');
            return Some(self.add(EntryParts { members, layout, stack, layer }, found));
        }
        None
    }

    /// The tensors of a name: one, or the consecutive members of a stack.
    fn members(&self, name: &str) -> Vec<usize> {
        let placeholder = ["{expert}", "{head}"].into_iter().find(|placeholder| name.contains(placeholder));
        let Some(placeholder) = placeholder else {
            return self.index.get(name).copied().into_iter().collect();
        };
        let numbered = (0..).map(|number: usize| name.replace(placeholder, &number.to_string()));
        numbered.map_while(|name| self.index.get(name.as_str()).copied()).collect()
    }

    /// The scales of an 8-bit float weight.
    fn scales(&self, tensor: usize) -> Option<usize> {
        let stored = self.shards.tensor(tensor)?;
        if stored.dtype() != Dtype::F8_E4M3 {
            return None;
        }
        SCALE_SUFFIXES.iter().find_map(|ending| self.shards.find(&format!("{}{ending}", stored.name())))
    }

    fn add(&self, parts: EntryParts, found: &mut RoleEntries) -> usize {
        let EntryParts { members, layout, stack, layer } = parts;
        let scales: Vec<usize> = members.iter().map_while(|member| self.scales(*member)).collect();
        let scaled = !scales.is_empty() && scales.len() == members.len();
        if let ([only], false, false, true) = (&members[..], stack, scaled, layout.is_empty()) {
            return *only;
        }
        let share = EntrySource::share(&layout);
        let group = layer.filter(|layer| *layer < self.grouped.len()).unwrap_or(0);
        let mut entry = TensorEntry { layer, ..self.summed(&members, found) };
        let mut shape: Vec<usize> = entry.dims.iter().rev().map(|dim| *dim as usize).collect();
        let flat = shape.len() < 2;
        let whole: usize = shape.iter().product();
        layout::shape_after(&mut shape, &layout, self.grouped.get(group));
        let taken: usize = shape.iter().product();
        entry.bytes = entry.bytes / (whole.max(1) as u64) * taken as u64;
        if stack {
            shape.insert(0, members.len());
        }
        entry.dims = shape.iter().rev().map(|dim| *dim as u64).collect();
        let in_place = [Layout::Squeeze, Layout::GateOfQkv, Layout::QkvBehindGate];
        let viewed = layout.iter().all(|layout| in_place.contains(layout)) && !scaled;
        let copied = !viewed || (stack && flat);
        let piece = |tensor| TensorPiece { tensor, share };
        let (members, per_member) = match scaled {
            false => (members.into_iter().map(piece).collect(), 1),
            true => {
                let whole = |tensor| TensorPiece { tensor, share: crate::source::TensorShare::Whole };
                let pairs =
                    members.into_iter().zip(scales).flat_map(|(member, scale)| [piece(member), whole(scale)]);
                (pairs.collect(), 2)
            }
        };
        found.entries.push(entry);
        found.sources.push(EntrySource::Tensors {
            members,
            per_member,
            layout,
            stack,
            group: Some(group),
            copied,
        });
        found.entries.len() - 1
    }

    /// An entry with the dimensions of the first of several tensors, and the bytes of all.
    fn summed(&self, members: &[usize], found: &RoleEntries) -> TensorEntry {
        let entries: Vec<&TensorEntry> =
            members.iter().filter_map(|member| found.entries.get(*member)).collect();
        let (first, last) = (entries[0], entries[entries.len() - 1]);
        let name = match entries.len() {
            1 => first.name.clone(),
            count => between(&first.name, &last.name, count),
        };
        let bytes = entries.iter().map(|entry| entry.bytes).sum();
        TensorEntry { name, bytes, ..first.clone() }
    }

    /// `<name>_blocks` and `<name>_scales`.
    fn mxfp4(
        &self,
        name: &str,
        layout: Vec<Layout>,
        layer: Option<usize>,
        found: &mut RoleEntries,
    ) -> Option<usize> {
        let blocks = self.index.get(format!("{name}_blocks").as_str()).copied()?;
        let scales = self.index.get(format!("{name}_scales").as_str()).copied()?;
        let share = EntrySource::share(&layout);
        let mut shape: Vec<usize> = self
            .shards
            .tensor(blocks)?
            .shape()
            .iter()
            .map(|dim| usize::try_from(*dim).unwrap_or(0))
            .collect();
        // Two values in a byte, 16 bytes in a block of 32 values.
        let (bytes, count) = (shape.pop()?, shape.pop()?);
        shape.push(bytes.saturating_mul(count).saturating_mul(2));
        layout::shape_after(&mut shape, layout.get(1..).unwrap_or_default(), None);
        let elements: u64 = shape.iter().map(|dim| *dim as u64).product();
        found.entries.push(TensorEntry {
            name: self.shards.tensor(blocks)?.name().to_owned(),
            dims: shape.iter().rev().map(|dim| *dim as u64).collect(),
            kind: "MXFP4".to_owned(),
            bytes: elements / 32 * 17,
            layer,
        });
        let members = [scales, blocks].map(|tensor| TensorPiece { tensor, share }).to_vec();
        let source =
            EntrySource::Tensors { members, per_member: 2, layout, stack: false, group: None, copied: true };
        found.sources.push(source);
        Some(found.entries.len() - 1)
    }

    fn list(&self, name: &str, found: &mut RoleEntries) -> Option<usize> {
        let values = self.keys.numbers(name)?;
        found.entries.push(TensorEntry {
            name: format!("{name} of config.json"),
            dims: vec![values.len() as u64],
            kind: "F32".to_owned(),
            bytes: values.len() as u64 * 4,
            layer: None,
        });
        found.sources.push(EntrySource::List(values));
        Some(found.entries.len() - 1)
    }
}

/// A number for each matrix of a tensor, or for each row of a single matrix.
fn spread(times: &[RowTimes], dims: &[u64]) -> Result<Vec<f32>, String> {
    let count = |dims: Option<&[u64]>| usize::try_from(dims.unwrap_or_default().iter().product::<u64>());
    if let [RowTimes { rows: None, number }] = times {
        let matrices = count(dims.get(2..)).map_err(|_| "the tensor has too many matrices".to_owned())?;
        return Ok(vec![*number; matrices]);
    }
    let rows: usize = times.iter().filter_map(|part| part.rows).sum();
    if dims.len() != 2 || dims.get(1) != Some(&(rows as u64)) {
        return Err(format!(
            "expected numbers for the rows of {dims:?}, found {rows}; the config belongs to another model"
        ));
    }
    let each = times.iter().flat_map(|part| std::iter::repeat_n(part.number, part.rows.unwrap_or(0)));
    Ok(each.collect())
}

/// The parts of a new entry.
struct EntryParts {
    members: Vec<usize>,
    layout: Vec<Layout>,
    stack: bool,
    layer: Option<usize>,
}

/// Shortens a stack to `experts.{0..7}.w1`, from its first and last name.
fn between(first: &str, last: &str, count: usize) -> String {
    let same = first.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
    let start = first[..same].rfind('.').map_or(0, |dot| dot + 1);
    match (first[start..].split_once('.'), last[start..].split_once('.')) {
        (Some((from, rest)), Some((to, _))) => format!("{}{{{from}..{to}}}.{rest}", &first[..start]),
        _ => format!("{first} and {} more", count - 1),
    }
}
