//! [`HfTensors`]: the tensors of a Hugging Face folder by role.
//!
//! If a role's tensor is stored as it is computed, its entry is that of the file. If it is a stack of several tensors or has
//! a layout, it has an additional entry after those of the file, whose bytes are made when it is loaded.

mod float8;
mod floats;
mod layout;
mod loaded_tensor;
mod mxfp4;
mod numbers;
mod role_entries;

use crate::formats::hf_storage::HfStorage;
use crate::source::{StoredNumbers, TensorEntry, TensorPiece, TensorShare, WeightSource};
use float8::Float8;
use loaded_tensor::{LoadedTensor, StackedTensor};
use menagerie_files::path_text;
use menagerie_loaders::Shards;
use menagerie_model::{Backend, ModelError, Weight, WeightShape};
use menagerie_registry::TensorPart;
use menagerie_spec::{ArchSpec, HfClass, HfKeys, HfMap, HfOrigin, KeySource, MetadataValue, RoleSource};
pub(crate) use numbers::set_numbers;
use role_entries::{EntrySource, RoleEntries, RoleFinder};
use std::collections::HashMap;
use std::sync::Arc;

/// Suffixes of scales for statically quantized activations, which are not used here.
const OF_ACTIVATIONS: [&str; 2] = [".activation_scale", ".input_scale"];

/// The tensors of a folder, named by a spec.
pub(crate) struct HfTensors {
    shards: Arc<Shards>,
    spec: Arc<ArchSpec>,
    class: HfClass,
    /// Names after the class's rewriting.
    names: Vec<String>,
    entries: Vec<TensorEntry>,
    /// The sources of the entries after those of the file.
    sources: Vec<EntrySource>,
    /// The entries of main tensor, bias and scale, by role and block.
    roles: HashMap<(String, Option<usize>), [Option<usize>; 3]>,
    block: Option<[usize; 2]>,
    grouped: Vec<layout::HeadGroups>,
}

impl HfTensors {
    /// The tensors of `shards`, named by `spec`; `keys` are those of the config.
    ///
    /// # Errors
    /// Two tensors have the same name after the class has renamed them.
    pub(crate) fn new(
        shards: Arc<Shards>,
        spec: &Arc<ArchSpec>,
        class: &HfClass,
        (keys, storage): (&HfKeys, &HfStorage),
    ) -> Result<Self, String> {
        let names = renumbered(
            shards.tensors().map(|tensor| class.renamed(tensor.name()).into_owned()).collect(),
            &spec.hf,
        );
        let mut index = HashMap::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            if index.insert(name.as_str(), at).is_some() {
                return Err(format!(
                    "two tensors are called \"{name}\" after class {} of spec {} has renamed them; correct its `rename`",
                    class.name,
                    spec.id()
                ));
            }
        }
        let prefix = spec.hf.layer.split("{layer}").next().unwrap_or_default();
        let layers: Vec<Option<usize>> = names.iter().map(|name| layer_of(prefix, name)).collect();
        let blocks = layers.iter().flatten().max().map_or(0, |last| last + 1);
        let entries = shards.tensors().zip(&layers).map(|(tensor, layer)| TensorEntry {
            name: tensor.name().to_owned(),
            dims: tensor.shape().iter().rev().copied().collect(),
            kind: tensor.dtype().to_string(),
            bytes: tensor.bytes(),
            layer: *layer,
        });
        let finder = RoleFinder { shards: &shards, index, keys, grouped: groups(keys) };
        let mut found = RoleEntries { entries: entries.collect(), ..Default::default() };
        for layer in std::iter::once(None).chain((0..blocks).map(Some)) {
            finder.roles_of(spec, layer, &mut found);
            finder.times_of(spec, layer, &mut found)?;
        }
        let block = match storage {
            HfStorage::Float8 { block } => *block,
            HfStorage::Plain | HfStorage::Mxfp4 => None,
        };
        let RoleEntries { entries, sources, roles } = found;
        let grouped = finder.grouped;
        drop(finder.index);
        Ok(Self {
            shards,
            spec: Arc::clone(spec),
            class: class.clone(),
            names,
            entries,
            sources,
            roles,
            block,
            grouped,
        })
    }

    fn source(&self, index: usize) -> Option<&EntrySource> {
        self.sources.get(index.checked_sub(self.shards.len())?)
    }

    /// A tensor of the file as it is stored; 8-bit floats are multiplied with their scales.
    fn stored_weight(&self, pieces: &[usize], backend: Option<&dyn Backend>) -> Result<LoadedTensor, String> {
        let at = *pieces.first().ok_or("no tensor")?;
        let tensor = self.shards.tensor(at).ok_or("no such tensor")?;
        let bytes = self.shards.data(at).ok_or("no such tensor")?.map_err(|error| error.to_string())?;
        let Some(&factors) = pieces.get(1) else { return LoadedTensor::of(tensor, bytes) };
        let scale = self.shards.tensor(factors).ok_or("no such tensor")?;
        let scale_bytes =
            self.shards.data(factors).ok_or("no such tensor")?.map_err(|error| error.to_string())?;
        Float8::new((tensor, &bytes), (scale, &scale_bytes), self.block)?.multiplied(backend)
    }

    /// The numbers of an entry of 8-bit floats without its row scales, and the scales, if it has no layout.
    fn scaled_tensor(
        &self,
        index: usize,
        backend: &dyn Backend,
    ) -> Option<Result<(LoadedTensor, Vec<f32>), String>> {
        let EntrySource::Tensors { members, per_member: 2, layout, stack: false, .. } = self.source(index)?
        else {
            return None;
        };
        let ([weight, scale], []) = (&members[..], &layout[..]) else { return None };
        let pair = self
            .stored_bytes(weight.tensor)
            .and_then(|weight| Ok((weight, self.stored_bytes(scale.tensor)?)));
        let ((tensor, bytes), (scale, scale_bytes)) = match pair {
            Ok(pair) => pair,
            Err(error) => return Some(Err(error)),
        };
        match Float8::new((tensor, &bytes), (scale, &scale_bytes), self.block) {
            Ok(float8) => float8.with_row_scales(Some(backend)),
            Err(error) => Some(Err(error)),
        }
    }

    /// The tensor of an entry.
    fn build(&self, index: usize, backend: Option<&dyn Backend>) -> Result<StackedTensor, String> {
        let Some(source) = self.source(index) else {
            return self.stored_weight(&[index], backend).map(StackedTensor::from);
        };
        match source {
            EntrySource::List(values) => Ok(LoadedTensor::list(values).into()),
            EntrySource::Tensors { members, per_member, layout, group, .. } => {
                let group = group.and_then(|group| self.grouped.get(group));
                if let [scales, blocks] = members[..]
                    && layout.first() == Some(&menagerie_spec::Layout::Mxfp4)
                {
                    let part = |at: usize| self.stored_bytes(at);
                    let stored = mxfp4::repacked(part(blocks.tensor)?, part(scales.tensor)?)?;
                    return layout::apply(stored, &layout[1..], group).map(StackedTensor::from);
                }
                let pieces: Vec<usize> = members.iter().map(|piece| piece.tensor).collect();
                let parts: Result<Vec<LoadedTensor>, String> = pieces
                    .chunks(*per_member)
                    .map(|pieces| layout::apply(self.stored_weight(pieces, backend)?, layout, group))
                    .collect();
                let mut parts = parts?;
                match self.is_stack(index) {
                    false if parts.len() == 1 => {
                        parts.pop().map(StackedTensor::from).ok_or_else(|| "no tensor".to_owned())
                    }
                    _ => loaded_tensor::stacked(parts),
                }
            }
        }
    }

    /// The weight of an entry from its tensor.
    fn weight_of(&self, index: usize, tensor: Result<StackedTensor, String>) -> Result<Weight, ModelError> {
        let entry = self.entries.get(index);
        let entry = entry.ok_or_else(|| ModelError::Weights(format!("the folder has no tensor {index}")))?;
        let StackedTensor { shape, block, mut parts } = tensor.map_err(ModelError::Weights)?;
        let size =
            |back: usize| shape.len().checked_sub(back).and_then(|at| shape.get(at)).copied().unwrap_or(1);
        let count = shape.iter().rev().skip(2).product();
        let shape = WeightShape { count, rows: size(2), cols: size(1) };
        match (parts.len(), parts.pop()) {
            (1, Some(bytes)) => Weight::new(&entry.name, bytes, block, shape),
            (_, last) => {
                parts.extend(last);
                Weight::apart(&entry.name, parts, block, shape)
            }
        }
    }

    fn is_stack(&self, index: usize) -> bool {
        matches!(self.source(index), Some(EntrySource::Tensors { stack: true, .. }))
    }

    /// Whether the scales of a matrix apply to whole rows or to the whole matrix.
    fn has_row_scales(&self, source: &EntrySource) -> bool {
        let EntrySource::Tensors { members, per_member: 2, layout, stack: false, .. } = source else {
            return false;
        };
        let scale = members.get(1).and_then(|scale| self.shards.tensor(scale.tensor));
        layout.is_empty() && scale.is_some_and(|scale| matches!(scale.shape(), [] | [_] | [_, 1]))
    }

    /// A tensor and its bytes.
    fn stored_bytes(
        &self,
        at: usize,
    ) -> Result<(&menagerie_loaders::SafetensorsTensor, gguf_file::TensorBytes), String> {
        let tensor = self.shards.tensor(at).ok_or("no such tensor")?;
        let bytes = self.shards.data(at).ok_or("no such tensor")?.map_err(|error| error.to_string())?;
        Ok((tensor, bytes))
    }
}

/// The numbers of heads and key-value heads, and their width, by block (or one for all blocks).
fn groups(keys: &HfKeys) -> Vec<layout::HeadGroups> {
    let count = |value: &MetadataValue| match value {
        MetadataValue::Integer(count) => usize::try_from(*count).ok(),
        _ => None,
    };
    let lists = |key: &str| match keys.get(key) {
        Some(MetadataValue::List(values)) => values.iter().map(count).collect(),
        Some(value) => vec![count(&value)],
        None => Vec::new(),
    };
    let heads: Vec<Option<usize>> = lists("attention.head_count");
    let (kv_heads, dims, width) =
        (lists("attention.head_count_kv"), lists("attention.key_length"), lists("embedding_length"));
    let one = |key: &str| lists(key).first().copied().flatten().unwrap_or(0);
    let experts = one("expert_count");
    let delta = layout::DeltaSizes {
        keys: one("ssm.group_count"),
        key: one("ssm.state_size"),
        values: one("ssm.inner_size"),
    };
    let blocks = heads.len().max(kv_heads.len()).max(1);
    let of = |list: &[Option<usize>], at: usize| list.get(at).or(list.first()).copied().flatten();
    let groups = (0..blocks).map(|at| {
        let heads = of(&heads, at).unwrap_or(0);
        let derived = || of(&width, at).and_then(|width| width.checked_div(heads));
        layout::HeadGroups {
            heads,
            kv_heads: of(&kv_heads, at).unwrap_or(heads),
            dim: of(&dims, at).or_else(derived).unwrap_or(0),
            experts,
            delta,
        }
    });
    groups.collect()
}

/// Renumbers the blocks of further stacks, so that they follow those of the previous stacks.
fn renumbered(mut names: Vec<String>, map: &HfMap) -> Vec<String> {
    let start = |prefix: &str| prefix.strip_suffix("{layer}").unwrap_or(prefix).to_owned();
    let first = start(&map.layer);
    for after in map.layer_after.iter().map(|prefix| start(prefix)) {
        let before = names.iter().filter_map(|name| layer_of(&first, name)).max().map_or(0, |last| last + 1);
        for name in &mut names {
            let moved = layer_of(&after, name).and_then(|layer| {
                let rest = name.strip_prefix(&after)?.split_once('.').map_or("", |(_, rest)| rest);
                Some(format!("{first}{}.{rest}", layer.checked_add(before)?))
            });
            if let Some(moved) = moved {
                *name = moved;
            }
        }
    }
    names
}

/// `model.layers.7.mlp` belongs to block 7, where blocks begin with `model.layers.`.
fn layer_of(prefix: &str, name: &str) -> Option<usize> {
    if prefix.is_empty() {
        return None;
    }
    name.strip_prefix(prefix)?.split('.').next()?.parse().ok()
}

/// A role without its suffix, and the part that the suffix denotes.
fn split_role(role: &str, part: TensorPart) -> (&str, TensorPart) {
    for (end, part) in [(".bias", TensorPart::Bias), (".scale", TensorPart::Scale)] {
        if let Some(bare) = role.strip_suffix(end) {
            return (bare, part);
        }
    }
    (role.strip_suffix(".weight").unwrap_or(role), part)
}

impl WeightSource for HfTensors {
    fn file(&self) -> String {
        let first = self.shards.paths().first();
        match (first, self.shards.paths().len()) {
            (Some(path), 1) => path_text(path),
            (Some(path), _) => path_text(path.parent().unwrap_or(path)),
            (None, _) => "the folder".to_owned(),
        }
    }

    fn entries(&self) -> &[TensorEntry] {
        &self.entries
    }

    fn canonical_name(&self, index: usize) -> Option<String> {
        let of = |slot: usize| {
            move |(_, entries): &(&(String, Option<usize>), &[Option<usize>; 3])| entries[slot] == Some(index)
        };
        let name = |slot: usize, suffix: &str| {
            // A tensor may have several roles: the first by name is used, independent of the order of the map.
            let roles = self.roles.iter().filter(of(slot)).map(|((role, layer), _)| (role, *layer));
            roles.min().map(|(role, layer)| format!("{}{suffix}", self.spec.role_to_gguf_name(role, layer)))
        };
        name(0, ".weight").or_else(|| name(1, ".bias"))
    }

    fn file_tensors(&self) -> usize {
        self.shards.len()
    }

    fn pieces(&self, index: usize) -> &[TensorPiece] {
        match self.source(index) {
            Some(EntrySource::Tensors { members, .. }) => members,
            Some(EntrySource::List(_)) | None => &[],
        }
    }

    fn stored_numbers(&self, index: usize) -> Result<Vec<StoredNumbers>, ModelError> {
        let about = |reason: String| {
            let name = self.entries.get(index).map_or("", |entry| &entry.name);
            ModelError::Weights(format!("tensor \"{name}\": {reason}"))
        };
        let plain = |tensor: usize| self.shards.tensor(tensor).is_some_and(|it| it.dtype().block().is_some());
        let coded = || {
            about(
                "it is stored in 8 or 4 bits with separate scales, and cannot be written in that form; write a .gguf file, \
                 or get the model in BF16"
                    .to_owned(),
            )
        };
        match self.source(index) {
            None if plain(index) => Ok(vec![StoredNumbers { tensor: index, numbers: None }]),
            Some(EntrySource::List(_)) => Err(about("its values are a list in config.json".to_owned())),
            Some(EntrySource::Tensors { members, per_member: 1, layout, group, .. })
                if members.iter().all(|piece| plain(piece.tensor)) =>
            {
                let group = group.and_then(|group| self.grouped.get(group));
                let of = |piece: &TensorPiece| {
                    let tensor = self.shards.tensor(piece.tensor).ok_or("no such tensor")?;
                    let numbers = layout::numbers(loaded_tensor::shape_of(tensor)?, layout, group)?;
                    Ok(StoredNumbers { tensor: piece.tensor, numbers })
                };
                members.iter().map(of).collect::<Result<_, String>>().map_err(about)
            }
            _ => Err(coded()),
        }
    }

    fn converted_bytes(&self) -> u64 {
        let converted = |(source, entry): (&EntrySource, &TensorEntry)| match source {
            EntrySource::Tensors { copied: true, .. } => {
                // Numbers with row scales become f16; others f32, unless the scales are powers of two.
                let wide = match (entry.kind.starts_with("F8"), self.has_row_scales(source)) {
                    (true, true) => 2,
                    (true, false) => 4,
                    (false, _) => 1,
                };
                entry.bytes.saturating_mul(wide)
            }
            _ => 0,
        };
        self.sources.iter().zip(self.entries.iter().skip(self.file_tensors())).map(converted).sum()
    }

    fn ignore_table(&self) -> &'static str {
        "[hf.ignore_tensors]"
    }

    fn find(&self, role: &str, layer: Option<usize>, part: TensorPart) -> Option<usize> {
        let (role, part) = split_role(role, part);
        let found = self.roles.get(&(role.to_owned(), layer))?;
        match part {
            TensorPart::Main => found[0],
            TensorPart::Bias => found[1],
            TensorPart::Scale => found[2],
        }
    }

    fn name_of(&self, role: &str, layer: Option<usize>, part: TensorPart) -> String {
        if let Some(entry) = self.find(role, layer, part).and_then(|index| self.entries.get(index)) {
            return entry.name.clone();
        }
        let (bare, part) = split_role(role, part);
        let suffix = match part {
            TensorPart::Main => ".weight",
            TensorPart::Bias => ".bias",
            TensorPart::Scale => ".weight_scale",
        };
        let origins = self.spec.hf_origins(role, layer);
        match origins.first() {
            Some(HfOrigin::Tensor { name, whole: true, .. }) => name.clone(),
            Some(HfOrigin::Tensor { name, .. }) => {
                format!("{}{suffix}", name.replace("{expert}", "0").replace("{head}", "0"))
            }
            Some(HfOrigin::Config(name)) => format!("{name} of config.json"),
            // The role is not in [hf.tensors]: its own name says what is missing.
            None => layer.map_or_else(|| bare.to_owned(), |layer| format!("{bare} of layer {layer}")),
        }
    }

    fn weight(&self, index: usize) -> Result<Weight, ModelError> {
        self.weight_of(index, self.build(index, None))
    }

    fn weight_on(&self, index: usize, backend: &dyn Backend) -> Result<Weight, ModelError> {
        self.weight_of(index, self.build(index, Some(backend)))
    }

    fn scaled_rows(
        &self,
        index: usize,
        backend: &dyn Backend,
    ) -> Option<Result<(Weight, Vec<f32>), ModelError>> {
        Some(match self.scaled_tensor(index, backend)? {
            Ok((stored, factors)) => self.weight_of(index, Ok(stored.into())).map(|weight| (weight, factors)),
            Err(error) => Err(ModelError::Weights(error)),
        })
    }

    fn ignored(&self, index: usize, layers: usize) -> Option<String> {
        let (name, written) = (self.names.get(index)?, &self.entries.get(index)?.name);
        if OF_ACTIVATIONS.iter().any(|ending| name.ends_with(ending)) {
            return Some("a scale for activations in 8-bit floats, which are not used here".to_owned());
        }
        if let Some(key) = self.spec.hf_number(name) {
            return Some(format!("a number that is read as the key {key}"));
        }
        let reason = self
            .spec
            .hf_ignored_tensor(name, layers)
            .or_else(|| self.spec.hf_ignored_tensor(written, layers))
            .or_else(|| self.class.beside_text(name));
        reason.map(str::to_owned)
    }
}

impl RoleSource for HfTensors {
    fn has(&self, role: &str, layer: Option<usize>) -> bool {
        self.find(role, layer, TensorPart::Main).is_some()
    }
}

impl EntrySource {
    /// The part of a tensor that a layout takes.
    fn share(layout: &[menagerie_spec::Layout]) -> TensorShare {
        use menagerie_spec::Layout;
        let share = layout.iter().find_map(|layout| match layout {
            Layout::EvenRows => Some(TensorShare::EvenRows),
            Layout::OddRows => Some(TensorShare::OddRows),
            Layout::EvenColumns => Some(TensorShare::EvenColumns),
            Layout::OddColumns => Some(TensorShare::OddColumns),
            Layout::DeltaQkv | Layout::QkvBehindGate => Some(TensorShare::OnePart),
            Layout::DeltaGate | Layout::GateOfQkv => Some(TensorShare::OtherPart),
            _ => None,
        });
        share.unwrap_or(TensorShare::Whole)
    }
}
