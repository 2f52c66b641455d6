//! [`Conversion`]: what a file is made of.

use crate::change::{Change, Differences};
use crate::error::ConvertError;
use crate::keys;
use crate::plan::{Plan, Stored};
use crate::tensor::{OutType, Types, llama3_factors};
use gguf_file::{GgmlType, OwnedValue};
use menagerie_assembly::{Claim, WeightSource};
use menagerie_loaders::{HfTexts, TokenizerTables};
use menagerie_model::Compute;
use menagerie_quantise::ModelFacts;
use menagerie_registry::Part;
use menagerie_spec::config::AttentionConfig;
use menagerie_spec::kind::Component;
use menagerie_spec::{
    ArchSpec, KeySource, KeyValue, Provenance, Resolution, ResolveInput, RoleSource, SourceFormat,
};
use std::collections::{BTreeMap, BTreeSet};

/// Scaling that a file says with a tensor of factors.
const LLAMA3: &str = "llama3";
/// Kinds of scaling that a file does not name: tensors of factors say it, or there is none.
const UNNAMED: [&str; 3] = ["default", "longrope", LLAMA3];
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
    /// Tokenizer, templates, sampling.
    pub texts: &'a HfTexts,
    /// Pre-tokenizers by name.
    pub tables: &'a TokenizerTables,
    /// What reads the weights.
    pub compute: &'a Compute,
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
        let own = self.own_keys();
        let factors = self.factors();
        let differences = self.check(&own, factors.is_some())?;
        let architecture = self.spec.gguf_names().first().map_or(self.spec.id(), String::as_str).to_owned();
        let mut plan = Plan {
            metadata: self.general(&architecture, file_type),
            ..Plan::new(self.tensors, self.compute)
        };
        for (key, value) in &own {
            let value = keys::written(key, value).map_err(|what| self.lost(format!("`{key}` is {what}")))?;
            plan.metadata.push((format!("{architecture}.{key}"), value));
        }
        let vocabulary = self.vocabulary_rows();
        let texts = self.texts.gguf_keys(vocabulary, self.spec.pre_tokenizer(), self.tables)?;
        plan.notes = texts.lost;
        plan.metadata.extend(texts.keys);
        if let Some(values) = factors {
            plan.tensors
                .push(Stored::of_values(self.spec.role_to_gguf_name(FACTORS, None) + ".weight", values));
        }
        for claim in self.claims {
            plan.tensors.push(self.stored(claim, differences, kind)?);
        }
        if let Types::Mixture(policy) = types {
            plan.choose(policy, &ModelFacts::of(|key| self.keys.get(key)?.first_count()))?;
        }
        Ok(plan)
    }

    fn lost(&self, what: String) -> ConvertError {
        ConvertError::Lost { folder: self.folder.to_owned(), what }
    }

    /// The canonical keys that are written: all but what a tensor says instead.
    fn own_keys(&self) -> BTreeMap<String, KeyValue> {
        let keys = self.keys.keys().into_iter();
        let mut own: BTreeMap<String, KeyValue> =
            keys.filter_map(|key| Some((key.clone(), self.keys.get(&key)?))).collect();
        let named = own.get("rope.scaling.type").cloned();
        if let Some(KeyValue::Text(name)) = named
            && UNNAMED.contains(&name.as_str())
        {
            own.remove("rope.scaling.type");
            if name == LLAMA3 {
                own.retain(|key, _| !key.starts_with(SCALING));
            }
        }
        own
    }

    /// The factors of a scaling that a file has a tensor for.
    fn factors(&self) -> Option<Vec<f32>> {
        let scaled = self.keys.get("rope.scaling.type") == Some(KeyValue::Text(LLAMA3.to_owned()));
        let mixers = self.resolution.config.layers.iter().filter_map(|layer| layer.mixer.as_ref());
        let rope = mixers.filter_map(attention).find_map(|attention| attention.rope.as_ref());
        rope.filter(|_| scaled).and_then(|rope| llama3_factors(rope, self.keys))
    }

    /// Resolves the spec against what will be written, and compares with what it means for the folder.
    fn check(&self, own: &BTreeMap<String, KeyValue>, factors: bool) -> Result<Differences, ConvertError> {
        let keys: BTreeMap<String, KeyValue> =
            own.iter().map(|(key, value)| (key.clone(), keys::read_back(key, value))).collect();
        let roles = Roles { claims: self.claims, factors };
        let mut input = ResolveInput::new(SourceFormat::Gguf, self.folder, self.spec.id(), &keys, &roles);
        input.accept_unread = keys.keys().cloned().collect();
        let written = self.spec.resolve_report(&input).map_err(ConvertError::Unreadable)?;
        let mut differences = Differences { pairs: false, offset: 0.0 };
        let said = |entry: &Provenance| (entry.layers.clone(), entry.path.clone());
        let theirs: BTreeMap<(BTreeSet<usize>, String), &str> =
            written.provenance.iter().map(|entry| (said(entry), entry.value.as_str())).collect();
        for entry in &self.resolution.provenance {
            let value = theirs.get(&said(entry)).copied();
            if value == Some(entry.value.as_str()) {
                continue;
            }
            let last = entry.path.rsplit('.').next().unwrap_or_default();
            let numbers =
                (entry.value.parse::<f32>().ok(), value.and_then(|value| value.parse::<f32>().ok()));
            match (last, entry.value.as_str(), value, numbers) {
                ("pairs", "halves", Some("adjacent"), _) => differences.pairs = true,
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

    fn general(&self, architecture: &str, file_type: u32) -> Vec<(String, OwnedValue)> {
        let mut keys: Vec<(String, OwnedValue)> = vec![
            ("general.architecture".into(), architecture.into()),
            ("general.type".into(), "model".into()),
        ];
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

    /// A tensor under its name in files.
    fn stored(&self, claim: &Claim, differences: Differences, kind: OutType) -> Result<Stored, ConvertError> {
        let ends = [".bias", ".weight", ".scale"].iter().find(|end| claim.role.ends_with(**end)).copied();
        let name = match ends {
            Some(end) => {
                let bare = claim.role.strip_suffix(end).unwrap_or(&claim.role);
                let whole = self.spec.role_to_gguf_name(&claim.role, claim.layer);
                if whole.ends_with(end) {
                    whole
                } else {
                    self.spec.role_to_gguf_name(bare, claim.layer) + end
                }
            }
            None => {
                let stored = self.spec.role_to_gguf_name(&claim.role, claim.layer);
                let bare = UNSUFFIXED.iter().any(|end| stored.ends_with(end)) || stored.ends_with(".weight");
                if bare { stored } else { stored + ".weight" }
            }
        };
        let failed = |problem: String| ConvertError::Tensor {
            folder: self.folder.to_owned(),
            tensor: name.clone(),
            problem,
        };
        let part = if claim.role.ends_with(".bias") { Part::Bias } else { Part::Main };
        let role = claim.role.strip_suffix(".bias").unwrap_or(&claim.role);
        let found = self.tensors.find(&claim.role, claim.layer, Part::Main);
        let index = found.or_else(|| self.tensors.find(role, claim.layer, part));
        let index = index.ok_or_else(|| failed("it is not in the folder".to_owned()))?;
        let dims = &claim.tensor.dims;
        let cols = dims.first().copied().unwrap_or(1);
        let rows = if dims.len() < 2 { cols } else { dims.get(1).copied().unwrap_or(1) };
        let rows = usize::try_from(rows).map_err(|_| failed("too many rows".to_owned()))?;
        let change =
            Change::of(claim, (self.spec, &self.resolution.config), differences, rows).map_err(failed)?;
        let kind = if is_small(&name, dims) { GgmlType::F32 } else { kind.for_row(cols) };
        Ok(Stored::of_tensor(name, dims.clone(), kind, index, change))
    }
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

/// The attention in a component, or in one of its parts.
fn attention(component: &Component) -> Option<&AttentionConfig> {
    component.downcast_ref().or_else(|| component.parts().into_iter().find_map(attention))
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
