//! [`Conversion`]: what a file is made of.

use crate::error::ConvertError;
use crate::keys;
use crate::placing::{Differences, Placed, Placing, within};
use crate::plan::{Plan, Stored};
use crate::tensor::{OutType, Types, llama3_factors, proportional_factors};
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

/// Scaling that a file says with a tensor of factors.
const LLAMA3: &str = "llama3";
/// As above.
const PROPORTIONAL: &str = "proportional";
/// Kinds of scaling that a file does not name: tensors of factors say it, or there is none.
const UNNAMED: [&str; 4] = ["default", "longrope", LLAMA3, PROPORTIONAL];
const ARCHITECTURE: &str = "general.architecture";
/// Starts of keys that files have without the architecture before them.
const WITHOUT_PREFIX: [&str; 1] = ["xielu."];
const SCALING: &str = "rope.scaling.";
const FACTORS: &str = "rope_freqs";

/// A folder that was opened, resolved and assembled.
pub struct Conversion<'a> {
    /// The folder, for messages.
    pub folder: &'a str,
    /// The model's name, for `general.name`.
    pub name: Option<&'a str>,
    /// The spec.
    pub spec: &'a ArchSpec,
    /// The folder's canonical keys.
    pub keys: &'a dyn KeySource,
    /// What the spec means for the folder.
    pub resolution: &'a Resolution,
    /// Its tensors.
    pub tensors: &'a dyn WeightSource,
    /// Which tensors the model wants, by role.
    pub claims: &'a [Claim],
    /// Tokenizer, templates, sampling; `None` writes a file that takes token ids only.
    pub texts: Option<&'a HfTexts>,
    /// Pre-tokenizers by name.
    pub tables: &'a TokenizerTables,
    /// What reads the weights.
    pub compute: &'a Compute,
    /// What matters in each weight, for types of few bits, and the name of its file.
    pub importance: Option<(&'a str, &'a Importance)>,
}

impl<'a> Conversion<'a> {
    /// What the file will hold, its matrices in the types that are wanted.
    ///
    /// # Errors
    /// What a file cannot say, a tensor that cannot be written, a tokenizer without a name, another type.
    pub fn plan(&self, types: &Types<'_>) -> Result<Plan<'a>, ConvertError> {
        let kind = match types {
            Types::One(name) => OutType::named(name)?,
            Types::AsStored | Types::Mixture(_) => OutType::of(self.tensors),
        };
        let file_type = match types {
            Types::Mixture(policy) => policy.file_type().id(),
            Types::One(_) | Types::AsStored => kind.file_type(),
        };
        let mut own = self.own_keys()?;
        let architecture = self.architecture(own.remove(ARCHITECTURE))?;
        let factors = self.factors();
        let written = self.written(&mut own, factors.is_some())?;
        let differences = self.differences(&written, factors.is_some())?;
        let mut plan = Plan {
            metadata: self.general(&architecture, file_type),
            importance: self.importance,
            ..Plan::new(self.tensors, self.compute)
        };
        for (key, value) in &own {
            let value = keys::written(key, value).map_err(|what| self.lost(format!("`{key}` is {what}")))?;
            let bare = WITHOUT_PREFIX.iter().any(|start| key.starts_with(start));
            plan.metadata.push((if bare { key.clone() } else { format!("{architecture}.{key}") }, value));
        }
        if let Some(texts) = self.texts {
            let texts = texts.gguf_keys(self.vocabulary_rows(), self.spec.pre_tokenizer(), self.tables)?;
            plan.notes = texts.lost;
            plan.metadata.extend(texts.keys);
        }
        if let Some(values) = factors {
            plan.tensors
                .push(Stored::of_values(self.spec.role_to_gguf_name(FACTORS, None) + ".weight", values));
        }
        let (spec, config) = (self.spec, &self.resolution.config);
        let placing = Placing { spec, config, claims: self.claims, differences };
        let of_times =
            |claim: &&Claim| claim.role.strip_suffix(".scale").is_some_and(|role| self.is_times(role));
        for claim in self.claims.iter().filter(|claim| !of_times(claim)) {
            for placed in placing.of(claim).map_err(|problem| self.failed(&claim.role, problem))? {
                plan.tensors.push(self.stored(claim, placed, kind)?);
            }
        }
        if let Types::Mixture(policy) = types {
            if let Some((file, importance)) = self.importance {
                if !plan.tensors().any(|(name, _, _)| importance.entries.contains_key(name)) {
                    return Err(importance.foreign(file).into());
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

    /// What the file calls the architecture: what the spec writes, a name of its own or a spec that it extends, or the first
    /// of its names.
    fn architecture(&self, written: Option<MetadataValue>) -> Result<String, ConvertError> {
        let names = self.spec.gguf_names();
        match written {
            None => Ok(names.first().map_or(self.spec.id(), String::as_str).to_owned()),
            Some(MetadataValue::Text(name)) if names.contains(&name) || self.spec.extends().contains(&name) => Ok(name),
            Some(other) => Err(self.lost(format!(
                "`{ARCHITECTURE}` of [hf.write] is {other}, which is no name of spec {} or of one that it extends",
                self.spec.id()
            ))),
        }
    }

    /// The canonical keys that are written: all but what a tensor says instead.
    fn own_keys(&self) -> Result<BTreeMap<String, MetadataValue>, ConvertError> {
        let keys = self.keys.keys().into_iter();
        let mut own: BTreeMap<String, MetadataValue> =
            keys.filter_map(|key| Some((key.clone(), self.keys.get(&key)?))).collect();
        own.extend(self.keys.for_files().map_err(|what| self.lost(what))?);
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

    /// The factors of a scaling that a file has a tensor for.
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

    /// Resolves the spec against what will be written. Keys that nothing reads there are taken out: they say something of
    /// folders.
    fn written(
        &self,
        own: &mut BTreeMap<String, MetadataValue>,
        factors: bool,
    ) -> Result<Resolution, ConvertError> {
        let keys: BTreeMap<String, MetadataValue> =
            own.iter().map(|(key, value)| (key.clone(), keys::read_back(key, value))).collect();
        let roles = Roles { claims: self.claims, factors };
        let mut input = ResolveInput::new(SourceFormat::Gguf, self.folder, self.spec.id(), &keys, &roles);
        input.accept_unread = keys.keys().cloned().collect();
        let written = self.spec.resolve_report(&input).map_err(ConvertError::Unreadable)?;
        own.retain(|key, _| !written.coverage.accepted_unread.contains(key));
        Ok(written)
    }

    /// Compares what the spec means for the file with what it means for the folder.
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
                (_, here, there, _) => {
                    let there = there.map_or_else(|| "nothing".to_owned(), |there| format!("`{there}`"));
                    let path = &entry.path;
                    return Err(self.lost(format!(
                        "{path} is `{here}` here and {there} in a file of {}",
                        self.spec.id()
                    )));
                }
            }
        }
        Ok(differences)
    }

    /// Whether a value is of latent attention, whose rows are nowhere put in another order.
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
        // What a role with its end is called is called so whole.
        let ends = [".bias", ".weight", ".scale"].iter().any(|end| role.ends_with(end));
        let bare = ends || UNSUFFIXED.iter().any(|end| stored.ends_with(end)) || stored.ends_with(".weight");
        if bare { stored } else { self.spec.role_to_gguf_name(&format!("{role}.weight"), layer) }
    }

    /// A tensor under its name in files.
    fn stored(&self, claim: &Claim, placed: Placed, kind: OutType) -> Result<Stored, ConvertError> {
        let Placed { role, dims, change } = placed;
        let name = self.name_of(&role, claim.layer);
        let part = if claim.role.ends_with(".bias") { TensorPart::Bias } else { TensorPart::Main };
        let bare = claim.role.strip_suffix(".bias").unwrap_or(&claim.role);
        let found = self.tensors.find(&claim.role, claim.layer, TensorPart::Main);
        let index = found.or_else(|| self.tensors.find(bare, claim.layer, part));
        let index = index.ok_or_else(|| self.failed(&name, "it is not in the folder".to_owned()))?;
        let cols = dims.first().copied().unwrap_or(1);
        let kind = if is_small(&name, &dims) { GgmlType::F32 } else { kind.for_row(cols) };
        let times = self.tensors.find(bare, claim.layer, TensorPart::Scale);
        let times = times.filter(|_| part == TensorPart::Main && self.is_times(bare));
        Ok(Stored::of_tensor(name, dims, kind, (index, times), change))
    }

    /// Whether a file has a role multiplied with numbers that the folder's config has.
    fn is_times(&self, role: &str) -> bool {
        self.spec.hf().times.iter().any(|(known, _)| known == role)
    }
}

/// What a file says of the importance that its weights were rounded with.
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

/// The tensors that will be there.
struct Roles<'a> {
    claims: &'a [Claim],
    factors: bool,
}

impl RoleSource for Roles<'_> {
    fn has(&self, role: &str, layer: Option<usize>) -> bool {
        let bare = role.strip_suffix(".weight").unwrap_or(role);
        let claimed = |claim: &Claim| claim.layer == layer && (claim.role == role || claim.role == bare);
        self.claims.iter().any(claimed) || (self.factors && bare == FACTORS && layer.is_none())
    }
}
