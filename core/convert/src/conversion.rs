//! [`Conversion`]: the inputs of a conversion, and the plan made from them.

use crate::conversion_plan::{ConversionPlan, OutputTensor};
use crate::error::ConvertError;
use crate::metadata;
use crate::output_types::{MatrixType, OutputTypes};
use crate::rope_factors::{llama3_factors, proportional_factors};
use crate::tensor_placement::{Differences, PlacedTensor, TensorPlacement, within};
use gguf_file::{GgmlType, OwnedValue};
use menagerie_assembly::{Claim, WeightSource};
use menagerie_loaders::{HfTexts, TokenizerTables};
use menagerie_model::Compute;
use menagerie_quantize::{Importance, ModelFacts};
use menagerie_registry::TensorPart;
use menagerie_spec::config::{AttentionConfig, LatentAttentionConfig, RopeConfig};
use menagerie_spec::{
    ArchSpec, KeySource, MetadataValue, Resolution, ResolveInput, ResolvedValue, RoleSource, SourceFormat,
};
use std::collections::{BTreeMap, BTreeSet};

/// A scaling that is stored as a tensor of factors.
const LLAMA3: &str = "llama3";
/// Another scaling that is stored as a tensor of factors.
const PROPORTIONAL: &str = "proportional";
/// Kinds of scaling that have no name in GGUF files: they are stored as tensors of factors, or there is no scaling.
const UNNAMED: [&str; 4] = ["default", "longrope", LLAMA3, PROPORTIONAL];
const ARCHITECTURE: &str = "general.architecture";
/// Prefixes of keys that GGUF files have without the architecture.
const WITHOUT_PREFIX: [&str; 1] = ["xielu."];
const SCALING: &str = "rope.scaling.";
const FACTORS: &str = "rope_freqs";

/// An opened, resolved and assembled folder.
pub struct Conversion<'a> {
    /// The folder, for messages.
    pub folder: &'a str,
    /// The model's name, for `general.name`.
    pub name: Option<&'a str>,
    /// The spec.
    pub spec: &'a ArchSpec,
    /// The folder's canonical keys.
    pub keys: &'a dyn KeySource,
    /// The spec resolved for the folder.
    pub resolution: &'a Resolution,
    /// Its tensors.
    pub tensors: &'a dyn WeightSource,
    /// The tensors that the model uses, with their roles.
    pub claims: &'a [Claim],
    /// Tokenizer, templates, sampling; without them, the file accepts only token ids.
    pub texts: Option<&'a HfTexts>,
    /// Pre-tokenizers by name.
    pub tables: &'a TokenizerTables,
    /// Where weights are read.
    pub compute: &'a Compute,
    /// The name of an importance file and its content, for types with few bits.
    pub importance: Option<(&'a str, &'a Importance)>,
}

impl<'a> Conversion<'a> {
    /// Plans the file, with matrices of the given types.
    ///
    /// # Errors
    /// Something that a GGUF file cannot express, a tensor that cannot be written, an unnamed tokenizer, an unknown type.
    pub fn plan(&self, types: &OutputTypes<'_>) -> Result<ConversionPlan<'a>, ConvertError> {
        let kind = match types {
            OutputTypes::Single(name) => MatrixType::named(name)?,
            OutputTypes::AsStored | OutputTypes::Policy(_) => MatrixType::of(self.tensors),
        };
        let file_type = match types {
            OutputTypes::Policy(policy) => policy.file_type().id(),
            OutputTypes::Single(_) | OutputTypes::AsStored => kind.file_type(),
        };
        let mut own = self.own_keys()?;
        let architecture = self.architecture(own.remove(ARCHITECTURE))?;
        let factors = self.factors();
        let written = self.written(&mut own, factors.is_some())?;
        let differences = self.differences(&written, factors.is_some())?;
        let mut plan = ConversionPlan {
            metadata: self.general(&architecture, file_type),
            importance: self.importance,
            ..ConversionPlan::new(self.tensors, self.compute)
        };
        for (key, value) in &own {
            let value =
                metadata::to_gguf(key, value).map_err(|what| self.lost(format!("`{key}` is {what}")))?;
            let bare = WITHOUT_PREFIX.iter().any(|start| key.starts_with(start));
            plan.metadata.push((if bare { key.clone() } else { format!("{architecture}.{key}") }, value));
        }
        if let Some(texts) = self.texts {
            let texts = texts.gguf_keys(self.vocabulary_rows(), self.spec.pre_tokenizer(), self.tables)?;
            plan.notes = texts.lost;
            plan.metadata.extend(texts.keys);
        }
        if let Some(values) = factors {
            plan.tensors.push(OutputTensor::of_values(
                self.spec.role_to_gguf_name(FACTORS, None) + ".weight",
                values,
            ));
        }
        let (spec, config) = (self.spec, &self.resolution.config);
        let placement = TensorPlacement { spec, config, claims: self.claims, differences };
        let is_factor =
            |claim: &&Claim| claim.role.strip_suffix(".scale").is_some_and(|role| self.has_factors(role));
        for claim in self.claims.iter().filter(|claim| !is_factor(claim)) {
            for placed in placement.of(claim).map_err(|problem| self.failed(&claim.role, problem))? {
                plan.tensors.push(self.stored(claim, placed, kind)?);
            }
        }
        if let OutputTypes::Policy(policy) = types {
            if let Some((file, importance)) = self.importance {
                if !plan.tensors().any(|(name, _, _)| importance.entries.contains_key(name)) {
                    return Err(importance.of_other_model(file).into());
                }
                plan.metadata.extend(importance_keys(file, importance));
            }
            plan.choose(policy, &ModelFacts::of(|key| self.keys.get(key)?.first_count()))?;
        }
        Ok(plan)
    }

    fn lost(&self, what: String) -> ConvertError {
        ConvertError::Lost { folder: self.folder.to_owned(), what }
    }

    /// The architecture in the file: the one that the spec writes (its own name or that of a spec that it extends), or the
    /// first name of the spec.
    fn architecture(&self, written: Option<MetadataValue>) -> Result<String, ConvertError> {
        let names = &self.spec.gguf_names;
        match written {
            None => Ok(names.first().map_or(self.spec.id(), String::as_str).to_owned()),
            Some(MetadataValue::Text(name)) if names.contains(&name) || self.spec.extends.contains(&name) => Ok(name),
            Some(other) => Err(self.lost(format!(
                "`{ARCHITECTURE}` of [hf.write] is {other}, expected a name of spec {} or of a spec that it extends",
                self.spec.id()
            ))),
        }
    }

    /// The canonical keys that are written: all except those stored as a tensor.
    fn own_keys(&self) -> Result<BTreeMap<String, MetadataValue>, ConvertError> {
        let keys = self.keys.keys().into_iter();
        let mut own: BTreeMap<String, MetadataValue> =
            keys.filter_map(|key| Some((key.clone(), self.keys.get(&key)?))).collect();
        let heads = &self.resolution.config.nextn;
        let for_others = self.keys.for_files().map_err(|what| self.lost(what))?;
        let blocks = self.resolution.config.layers.len();
        own.extend(for_others.into_iter().map(|(key, value)| (key, with_heads(value, blocks, heads.len()))));
        if let Some(last) = heads.last() {
            // A file counts the blocks of heads for further tokens among the blocks, and a folder does not.
            let integer = |count: usize| MetadataValue::Integer(i64::try_from(count).unwrap_or(i64::MAX));
            own.insert("block_count".to_owned(), integer(last.block.index + 1));
            own.insert("nextn_predict_layers".to_owned(), integer(heads.len()));
        }
        let named = own.get("rope.scaling.type").cloned();
        if let Some(MetadataValue::Text(name)) = named
            && UNNAMED.contains(&name.as_str())
        {
            own.remove("rope.scaling.type");
            if name == LLAMA3 || name == PROPORTIONAL {
                own.retain(|key, _| !key.starts_with(SCALING));
            }
        }
        Ok(own)
    }

    /// The factors of a scaling that is stored as a tensor.
    fn factors(&self) -> Option<Vec<f32>> {
        let Some(MetadataValue::Text(name)) = self.keys.get("rope.scaling.type") else { return None };
        match name.as_str() {
            LLAMA3 => self.ropes().find_map(|rope| llama3_factors(rope, self.keys)),
            PROPORTIONAL => self.ropes().find_map(proportional_factors),
            _ => None,
        }
    }

    fn ropes(&self) -> impl Iterator<Item = &RopeConfig> {
        let mixers = self.resolution.config.layers.iter().filter_map(|layer| layer.mixer.as_ref());
        mixers.filter_map(|mixer| within::<AttentionConfig>(mixer)?.rope.as_ref())
    }

    /// Resolves the spec for the planned file. Keys that are not read for it are removed, because they only concern
    /// folders.
    fn written(
        &self,
        own: &mut BTreeMap<String, MetadataValue>,
        factors: bool,
    ) -> Result<Resolution, ConvertError> {
        let keys: BTreeMap<String, MetadataValue> =
            own.iter().map(|(key, value)| (key.clone(), metadata::read_back(key, value))).collect();
        let roles = ClaimedRoles { claims: self.claims, factors };
        let mut input = ResolveInput::new(SourceFormat::Gguf, self.folder, self.spec.id(), &keys, &roles);
        input.accept_unread = keys.keys().cloned().collect();
        input.nextn = !self.resolution.config.nextn.is_empty();
        let written = self.spec.resolve_report(&input).map_err(ConvertError::Unreadable)?;
        own.retain(|key, _| !written.coverage.accepted_unread.contains(key));
        Ok(written)
    }

    /// Compares the spec resolved for the file with the spec resolved for the folder.
    fn differences(&self, written: &Resolution, factors: bool) -> Result<Differences, ConvertError> {
        let mut differences = Differences::default();
        let said = |entry: &ResolvedValue| (entry.layers.clone(), entry.path.clone());
        let theirs: BTreeMap<(BTreeSet<usize>, String), &str> =
            written.values.iter().map(|entry| (said(entry), entry.value.as_str())).collect();
        for entry in &self.resolution.values {
            let value = theirs.get(&said(entry)).copied();
            if value == Some(entry.value.as_str()) {
                continue;
            }
            let last = entry.path.rsplit('.').next().unwrap_or_default();
            let numbers =
                (entry.value.parse::<f32>().ok(), value.and_then(|value| value.parse::<f32>().ok()));
            match (last, entry.value.as_str(), value, numbers) {
                ("pairs", "halves", Some("adjacent"), _) if !self.is_latent(entry) => {
                    differences.pairs = true
                }
                ("sharing", "consecutive", Some("tiled"), _) => differences.sharing = true,
                ("offset", _, _, (Some(here), Some(there))) => differences.offset = here - there,
                _ if factors && entry.path.contains("scaling") => {}
                // A folder does not state it.
                _ if entry.path == "nextn.count" => {}
                (_, here, there, _) => {
                    let there = there.map_or_else(|| "absent".to_owned(), |there| format!("`{there}`"));
                    let path = &entry.path;
                    return Err(self.lost(format!(
                        "{path} is `{here}` in the folder, but would be {there} in a GGUF file of {}",
                        self.spec.id()
                    )));
                }
            }
        }
        Ok(differences)
    }

    /// Whether a value belongs to latent attention, whose rows have the same order in both.
    fn is_latent(&self, entry: &ResolvedValue) -> bool {
        let layers = self.resolution.config.layers.iter().filter(|layer| entry.layers.contains(&layer.index));
        layers
            .filter_map(|layer| layer.mixer.as_ref())
            .any(|mixer| within::<LatentAttentionConfig>(mixer).is_some())
    }

    fn general(&self, architecture: &str, file_type: u32) -> Vec<(String, OwnedValue)> {
        let mut keys: Vec<(String, OwnedValue)> =
            vec![(ARCHITECTURE.into(), architecture.into()), ("general.type".into(), "model".into())];
        if let Some(name) = self.name {
            keys.push(("general.name".into(), name.into()));
        }
        keys.push(("general.file_type".into(), file_type.into()));
        keys.push(("general.quantization_version".into(), 2u32.into()));
        keys
    }

    /// Rows of the token embedding.
    fn vocabulary_rows(&self) -> usize {
        let embedding = self.claims.iter().find(|claim| claim.role == "token_embd");
        let rows = embedding.and_then(|claim| claim.tensor.dims.get(1)).copied().unwrap_or_default();
        usize::try_from(rows).unwrap_or_default()
    }

    fn failed(&self, tensor: &str, problem: String) -> ConvertError {
        ConvertError::Tensor { folder: self.folder.to_owned(), tensor: tensor.to_owned(), problem }
    }

    /// The name of a tensor in files.
    fn name_of(&self, role: &str, layer: Option<usize>) -> String {
        let stored = self.spec.role_to_gguf_name(role, layer);
        // A role with a suffix has it in its name.
        let ends = [".bias", ".weight", ".scale"].iter().any(|end| role.ends_with(end));
        let bare = ends || UNSUFFIXED.iter().any(|end| stored.ends_with(end)) || stored.ends_with(".weight");
        if bare { stored } else { self.spec.role_to_gguf_name(&format!("{role}.weight"), layer) }
    }

    /// The tensor of the file for a placed tensor.
    fn stored(
        &self,
        claim: &Claim,
        placed: PlacedTensor,
        kind: MatrixType,
    ) -> Result<OutputTensor, ConvertError> {
        let PlacedTensor { role, dims, change } = placed;
        let name = self.name_of(&role, claim.layer);
        let part = if claim.role.ends_with(".bias") { TensorPart::Bias } else { TensorPart::Main };
        let bare = claim.role.strip_suffix(".bias").unwrap_or(&claim.role);
        let found = self.tensors.find(&claim.role, claim.layer, TensorPart::Main);
        let index = found.or_else(|| self.tensors.find(bare, claim.layer, part));
        let index = index.ok_or_else(|| self.failed(&name, "the folder does not contain it".to_owned()))?;
        let cols = dims.first().copied().unwrap_or(1);
        let kind = if is_small(&name, &dims) { GgmlType::F32 } else { kind.for_row(cols) };
        let factor = self.tensors.find(bare, claim.layer, TensorPart::Scale);
        let factor = factor.filter(|_| part == TensorPart::Main && self.has_factors(bare));
        Ok(OutputTensor::of_tensor(name, dims, kind, (index, factor), change))
    }

    /// Whether a role is multiplied, in GGUF files, with numbers in the folder's config.
    fn has_factors(&self, role: &str) -> bool {
        self.spec.hf.times.iter().any(|(known, _)| known == role)
    }
}

/// The metadata about the importance that weights were quantized with.
fn importance_keys(file: &str, importance: &Importance) -> Vec<(String, OwnedValue)> {
    let count = u32::try_from(importance.entries.len()).unwrap_or(u32::MAX);
    let mut keys: Vec<(String, OwnedValue)> = vec![("quantize.imatrix.file".into(), file.into())];
    if let Some(dataset) = importance.datasets.first() {
        keys.push(("quantize.imatrix.dataset".into(), dataset.as_str().into()));
    }
    keys.push(("quantize.imatrix.entries_count".into(), count.into()));
    keys.push(("quantize.imatrix.chunks_count".into(), importance.chunks.into()));
    keys
}

/// Tensors that have no suffix in files (llama.cpp, `LLM_TENSOR_SSM_A` and `LLM_TENSOR_SSM_D`).
const UNSUFFIXED: [&str; 2] = [".ssm_a", ".ssm_d"];

/// Whether a tensor is written in full, as llama.cpp's converter does (conversion/base.py, `prepare_tensors`).
fn is_small(name: &str, dims: &[u64]) -> bool {
    const FULL: [&str; 8] = [
        ".ffn_gate_inp.weight",
        "position_embd.weight",
        "token_types.weight",
        ".ssm_conv1d.weight",
        ".shortconv.conv.weight",
        ".ssm_a",
        ".ssm_d",
        "_norm.weight",
    ];
    dims.iter().filter(|dim| **dim > 1).count() < 2
        || FULL.iter().any(|end| name.ends_with(end))
        || dims.len() < 2
}

/// The roles of the planned file.
struct ClaimedRoles<'a> {
    claims: &'a [Claim],
    factors: bool,
}

impl RoleSource for ClaimedRoles<'_> {
    fn has(&self, role: &str, layer: Option<usize>) -> bool {
        let bare = role.strip_suffix(".weight").unwrap_or(role);
        let claimed = |claim: &Claim| claim.layer == layer && (claim.role == role || claim.role == bare);
        self.claims.iter().any(claimed) || (self.factors && bare == FACTORS && layer.is_none())
    }
}

/// A value for other programs with the blocks of heads for further tokens: a list of what sets blocks apart says of each of
/// them that it is of the usual kind.
fn with_heads(value: MetadataValue, blocks: usize, heads: usize) -> MetadataValue {
    match value {
        MetadataValue::List(mut list)
            if list.len() == blocks && list.iter().all(|one| matches!(one, MetadataValue::Bool(_))) =>
        {
            list.extend(std::iter::repeat_n(MetadataValue::Bool(false), heads));
            MetadataValue::List(list)
        }
        other => other,
    }
}
