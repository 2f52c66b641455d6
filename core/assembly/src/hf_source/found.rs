//! Which tensors of a folder each role has.

use super::layout::{self, Groups};
use crate::source::{Piece, TensorEntry};
use menagerie_loaders::{Dtype, Shards};
use menagerie_spec::{ArchSpec, HfKeys, HfOrigin, Layout, RowTimes};
use std::collections::HashMap;

/// Where factors of 8-bit floats stand beside their weight.
const FACTORS: [&str; 2] = ["_scale_inv", "_scale"];

/// The role of the head.
const HEAD: &str = "output";

/// What an entry is that is no tensor of the file.
#[derive(Debug)]
pub(super) enum Made {
    /// Of tensors of the file.
    Tensors {
        /// Them: for each member of a stack its tensor, and its factors where it has some. Of MXFP4 the scales come first.
        members: Vec<Piece>,
        /// How many of them make one member.
        per_member: usize,
        /// What makes the canonical tensor of each.
        layout: Vec<Layout>,
        /// Whether they are stacked along a new first dimension.
        stack: bool,
        /// Index of the heads of its block.
        group: Option<usize>,
        /// Whether the bytes are copied.
        copied: bool,
    },
    /// A list of the config.
    List(Vec<f32>),
}

/// Entries and roles as they are found.
#[derive(Default)]
pub(super) struct Found {
    pub(super) entries: Vec<TensorEntry>,
    pub(super) made: Vec<Made>,
    pub(super) roles: HashMap<(String, Option<usize>), [Option<usize>; 3]>,
}

/// Looks tensors up.
pub(super) struct Finder<'a> {
    pub(super) shards: &'a Shards,
    /// Tensors by their names after the class's rewriting.
    pub(super) index: HashMap<&'a str, usize>,
    pub(super) keys: &'a HfKeys,
    pub(super) grouped: Vec<Groups>,
}

/// Which of a role's tensors is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Main,
    Bias,
    Scale,
}

impl Finder<'_> {
    /// Finds the tensors of every role in a block, or of those of the whole model.
    pub(super) fn roles_of(&self, spec: &ArchSpec, layer: Option<usize>, found: &mut Found) {
        for (role, _) in &spec.hf().tensors {
            let suffixes = [(".weight", Wanted::Main), (".bias", Wanted::Bias), (".scale", Wanted::Scale)];
            let suffix = suffixes.iter().find_map(|(end, wanted)| Some((role.strip_suffix(end)?, *wanted)));
            let (bare, exact) = suffix.map_or((role.as_str(), None), |(bare, wanted)| (bare, Some(wanted)));
            for wanted in [Wanted::Main, Wanted::Bias, Wanted::Scale] {
                if exact.is_some_and(|exact| exact != wanted) {
                    continue;
                }
                let origins = spec.hf_origins(role, layer);
                let Some(entry) = origins.iter().find_map(|origin| self.entry(origin, wanted, layer, found))
                else {
                    continue;
                };
                let slot = &mut found.roles.entry((bare.to_owned(), layer)).or_default()[wanted as usize];
                // A role written with its suffix says more than one without.
                if exact.is_some() || slot.is_none() {
                    *slot = Some(entry);
                }
            }
        }
    }

    /// What the config says that products are multiplied with, as scales of their roles.
    ///
    /// # Errors
    /// Rows that are not those of the tensor; a scale that the folder has besides.
    pub(super) fn times_of(
        &self,
        spec: &ArchSpec,
        layer: Option<usize>,
        found: &mut Found,
    ) -> Result<(), String> {
        for (role, _) in &spec.hf().times {
            let Some(times) = self.keys.times(role) else { continue };
            let place = (role.clone(), layer);
            let [main, _, scale] = found.roles.get(&place).copied().unwrap_or_default();
            let dims = main.and_then(|main| found.entries.get(main)).map(|entry| entry.dims.clone());
            let dims = match dims {
                Some(dims) => dims,
                // A head that is the embedding.
                None if role == HEAD && layer.is_none() => Vec::new(),
                None => continue,
            };
            let fault = |problem: String| format!("what config.json multiplies {role} with: {problem}");
            if scale.is_some() {
                return Err(fault("the folder has a tensor of scales for it too".to_owned()));
            }
            let values = spread(times, &dims).map_err(fault)?;
            found.entries.push(TensorEntry {
                name: format!("what config.json multiplies {role} with"),
                dims: vec![values.len() as u64],
                kind: "F32".to_owned(),
                bytes: values.len() as u64 * 4,
                layer,
            });
            found.made.push(Made::List(values));
            found.roles.entry(place).or_default()[Wanted::Scale as usize] = Some(found.entries.len() - 1);
        }
        Ok(())
    }

    /// The entry of an origin, if its tensors are there.
    fn entry(
        &self,
        origin: &HfOrigin<'_>,
        wanted: Wanted,
        layer: Option<usize>,
        found: &mut Found,
    ) -> Option<usize> {
        let (name, whole, layout) = match origin {
            HfOrigin::Config(_) if wanted != Wanted::Main => return None,
            HfOrigin::Config(name) => return self.list(name, found),
            HfOrigin::Tensor { name, whole, layout } => (name, *whole, *layout),
        };
        let endings: &[&str] = match wanted {
            _ if whole => &[""],
            Wanted::Main => &[".weight", ""],
            Wanted::Bias => &[".bias"],
            Wanted::Scale => &[".scale"],
        };
        let acts = |layout: &&Layout| whole || wanted == Wanted::Main || layout.acts_on_bias();
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
            return Some(self.add(Parts { members, layout, stack, layer }, found));
        }
        None
    }

    /// The tensors of a name: one, or as many as there are in a row of a stack.
    fn members(&self, name: &str) -> Vec<usize> {
        let placeholder = ["{expert}", "{head}"].into_iter().find(|placeholder| name.contains(placeholder));
        let Some(placeholder) = placeholder else {
            return self.index.get(name).copied().into_iter().collect();
        };
        let numbered = (0..).map(|number: usize| name.replace(placeholder, &number.to_string()));
        numbered.map_while(|name| self.index.get(name.as_str()).copied()).collect()
    }

    /// The factors of an 8-bit float weight.
    fn factors(&self, tensor: usize) -> Option<usize> {
        let stored = self.shards.tensor(tensor)?;
        if stored.dtype() != Dtype::F8_E4M3 {
            return None;
        }
        FACTORS.iter().find_map(|ending| self.shards.find(&format!("{}{ending}", stored.name())))
    }

    fn add(&self, parts: Parts, found: &mut Found) -> usize {
        let Parts { members, layout, stack, layer } = parts;
        let factors: Vec<usize> = members.iter().map_while(|member| self.factors(*member)).collect();
        let scaled = !factors.is_empty() && factors.len() == members.len();
        if let ([only], false, false, true) = (&members[..], stack, scaled, layout.is_empty()) {
            return *only;
        }
        let share = Made::share(&layout);
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
        let piece = |tensor| Piece { tensor, share };
        let (members, per_member) = match scaled {
            false => (members.into_iter().map(piece).collect(), 1),
            true => {
                let whole = |tensor| Piece { tensor, share: crate::source::Share::Whole };
                let pairs = members
                    .into_iter()
                    .zip(factors)
                    .flat_map(|(member, factor)| [piece(member), whole(factor)]);
                (pairs.collect(), 2)
            }
        };
        found.entries.push(entry);
        found.made.push(Made::Tensors { members, per_member, layout, stack, group: Some(group), copied });
        found.entries.len() - 1
    }

    /// An entry with the dims of the first of several tensors, and the bytes of all.
    fn summed(&self, members: &[usize], found: &Found) -> TensorEntry {
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
        found: &mut Found,
    ) -> Option<usize> {
        let blocks = self.index.get(format!("{name}_blocks").as_str()).copied()?;
        let scales = self.index.get(format!("{name}_scales").as_str()).copied()?;
        let share = Made::share(&layout);
        let mut shape: Vec<usize> = self
            .shards
            .tensor(blocks)?
            .shape()
            .iter()
            .map(|dim| usize::try_from(*dim).unwrap_or(0))
            .collect();
        // Pairs of values in bytes, 16 to a block of 32.
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
        let members = [scales, blocks].map(|tensor| Piece { tensor, share }).to_vec();
        let made = Made::Tensors { members, per_member: 2, layout, stack: false, group: None, copied: true };
        found.made.push(made);
        Some(found.entries.len() - 1)
    }

    fn list(&self, name: &str, found: &mut Found) -> Option<usize> {
        let values = self.keys.numbers(name)?;
        found.entries.push(TensorEntry {
            name: format!("{name} of config.json"),
            dims: vec![values.len() as u64],
            kind: "F32".to_owned(),
            bytes: values.len() as u64 * 4,
            layer: None,
        });
        found.made.push(Made::List(values));
        Some(found.entries.len() - 1)
    }
}

/// A number for each matrix of a tensor, or for each row of its one matrix.
fn spread(times: &[RowTimes], dims: &[u64]) -> Result<Vec<f32>, String> {
    let count = |dims: Option<&[u64]>| usize::try_from(dims.unwrap_or_default().iter().product::<u64>());
    if let [RowTimes { rows: None, number }] = times {
        let matrices = count(dims.get(2..)).map_err(|_| "too many matrices".to_owned())?;
        return Ok(vec![*number; matrices]);
    }
    let rows: usize = times.iter().filter_map(|part| part.rows).sum();
    if dims.len() != 2 || dims.get(1) != Some(&(rows as u64)) {
        return Err(format!("numbers of {rows} rows, and it is {dims:?}; the config is of another model"));
    }
    let each = times.iter().flat_map(|part| std::iter::repeat_n(part.number, part.rows.unwrap_or(0)));
    Ok(each.collect())
}

/// What an entry is to be made of.
struct Parts {
    members: Vec<usize>,
    layout: Vec<Layout>,
    stack: bool,
    layer: Option<usize>,
}

/// `experts.{0..7}.w1` of the first and last name of a stack.
fn between(first: &str, last: &str, count: usize) -> String {
    let same = first.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
    let start = first[..same].rfind('.').map_or(0, |dot| dot + 1);
    match (first[start..].split_once('.'), last[start..].split_once('.')) {
        (Some((from, rest)), Some((to, _))) => format!("{}{{{from}..{to}}}.{rest}", &first[..start]),
        _ => format!("{first} and {} more", count - 1),
    }
}
