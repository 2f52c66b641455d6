//! [`Policy`]: the type of each tensor of a quantized model.

mod tables;

use crate::error::QuantizeError;
use gguf_file::{FileType, GgmlType};
use std::collections::BTreeMap;
use tables::{
    ALIASES, EIGHT_EXPERT_RULES, FALLBACKS, GROUPS, LARGE_MODEL_VALUES, LayerCondition, MIXTURES,
    REFUSED_WITHOUT_IMPORTANCE, Rule, SMALLEST_MIXTURES, TensorGroup, TypeMixture, UNCHANGED,
};

/// Sizes of a model that a policy needs; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// Number of blocks.
    pub blocks: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key-value heads.
    pub kv_heads: usize,
    /// Number of experts in a layer.
    pub experts: usize,
}

impl ModelFacts {
    /// The facts from canonical keys, whose values are given by `number` (for a list per layer, its first element).
    pub fn of(number: impl Fn(&str) -> Option<usize>) -> Self {
        let heads = number("attention.head_count").unwrap_or(0);
        Self {
            blocks: number("block_count").unwrap_or(0),
            heads,
            kv_heads: number("attention.head_count_kv").unwrap_or(heads),
            experts: number("expert_count").unwrap_or(0),
        }
    }
}

/// A tensor whose type a policy chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyTensor {
    /// Its name in a GGUF file, including `.weight`.
    pub name: String,
    /// Elements per dimension, the contiguous one first.
    pub dims: Vec<u64>,
    /// Its current type.
    pub kind: GgmlType,
}

/// The chosen type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeChoice {
    /// The type; the current one if the tensor stays unchanged.
    pub kind: GgmlType,
    /// The type that was replaced because its blocks do not divide the rows.
    pub instead_of: Option<GgmlType>,
    /// Whether the type requires importance.
    pub needs_importance: bool,
}

/// The types of tensors: those of a file type, and overrides.
#[derive(Clone, Debug)]
pub struct Policy {
    mixture: &'static TypeMixture,
    /// Whether every tensor gets the main type of the file type.
    pub pure: bool,
    /// The type of the head, if overridden.
    pub output: Option<GgmlType>,
    /// The type of the token embedding, if overridden.
    pub embedding: Option<GgmlType>,
    /// Overrides by role (`ffn_down`) or name (`blk.0.ffn_down.weight`); the first that matches applies.
    pub tensors: Vec<(String, GgmlType)>,
    /// Whether there is importance.
    pub importance: bool,
}

impl Policy {
    /// The policy of a file type, by name in any case (`q4_k_m`).
    ///
    /// # Errors
    /// [`QuantizeError::UnknownFileType`], which lists the known names.
    pub fn named(name: &str) -> Result<Self, QuantizeError> {
        let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name));
        let file = alias.map(|(_, file)| *file).or_else(|| FileType::from_name(name));
        let mixture = MIXTURES.iter().find(|mixture| Some(mixture.file) == file);
        let unknown = || QuantizeError::UnknownFileType {
            name: name.to_owned(),
            known: Self::names().collect::<Vec<_>>().join(", "),
        };
        Ok(Self {
            mixture: mixture.ok_or_else(unknown)?,
            pure: false,
            output: None,
            embedding: None,
            tensors: Vec::new(),
            importance: false,
        })
    }

    /// The names of all file types.
    pub fn names() -> impl Iterator<Item = &'static str> {
        MIXTURES.iter().filter_map(|mixture| mixture.file.name())
    }

    /// The file type.
    pub fn file_type(&self) -> FileType {
        self.mixture.file
    }

    /// The type of most tensors.
    pub fn own_type(&self) -> GgmlType {
        self.mixture.own
    }

    /// The type of each tensor, in the same order.
    ///
    /// # Errors
    /// [`QuantizeError::NoFallback`]: rows that are not whole blocks of a type without a fallback.
    pub fn choose(
        &self,
        tensors: &[PolicyTensor],
        facts: &ModelFacts,
    ) -> Result<Vec<TypeChoice>, QuantizeError> {
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        // The order in which llama.cpp counts: tensors outside blocks, then by block and name.
        order.sort_by_key(|&at| (block_of(&tensors[at].name), tensors[at].name.as_str()));
        let mut count = Counters::new(self, tensors, facts);
        let mut made = BTreeMap::new();
        for at in order {
            made.insert(at, count.choice(&tensors[at])?);
        }
        Ok(made.into_values().collect())
    }

    /// The override for a role or name.
    fn requested(&self, name: &str) -> Option<GgmlType> {
        let fits = |requested: &str| {
            requested == name || requested == role_of(name) || format!("{requested}.weight") == name
        };
        self.tensors.iter().find(|(requested, _)| fits(requested)).map(|(_, kind)| *kind)
    }
}

/// `attn_q` of `blk.3.attn_q.weight`.
fn role_of(name: &str) -> &str {
    let name = name.strip_suffix(".weight").unwrap_or(name);
    match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
        Some((_, role)) => role,
        None => name,
    }
}

fn block_of(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

fn has(name: &str, part: &str) -> bool {
    part.strip_prefix('=').map_or_else(|| name.contains(part), |whole| name == whole)
}

fn group_of(name: &str) -> TensorGroup {
    GROUPS.iter().find(|(part, _)| has(name, part)).map_or(TensorGroup::Other, |(_, group)| *group)
}

/// Whether a tensor is quantized.
fn is_quantized(tensor: &PolicyTensor) -> bool {
    let matrix = tensor.dims.iter().skip(1).any(|size| *size > 1);
    matrix && tensor.name.ends_with("weight") && !UNCHANGED.iter().any(|part| has(&tensor.name, part))
}

/// The counters of llama.cpp's rules.
struct Counters<'a> {
    policy: &'a Policy,
    facts: &'a ModelFacts,
    tied: bool,
    /// Number of tensors in the group of values.
    values: usize,
    /// Number of tensors so far of values, up, gate and down.
    seen: [usize; 4],
}

impl<'a> Counters<'a> {
    fn new(policy: &'a Policy, tensors: &[PolicyTensor], facts: &'a ModelFacts) -> Self {
        let groups = || tensors.iter().map(|tensor| group_of(&tensor.name));
        let values = groups().filter(|group| *group == TensorGroup::Values).count();
        Self { policy, facts, tied: !groups().any(|group| group == TensorGroup::Head), values, seen: [0; 4] }
    }

    fn choice(&mut self, tensor: &PolicyTensor) -> Result<TypeChoice, QuantizeError> {
        if !is_quantized(tensor) {
            return Ok(TypeChoice { kind: tensor.kind, instead_of: None, needs_importance: false });
        }
        let group = group_of(&tensor.name);
        let (mixture, policy) = (self.policy.mixture, self.policy);
        let named = policy.requested(&tensor.name);
        let whole = match group {
            // The embedding per layer follows the token embedding, unless it is named.
            TensorGroup::Embedding if named.is_none() || tensor.name.starts_with("token") => policy.embedding,
            TensorGroup::Head => policy.output,
            _ => None,
        };
        if let Some(kind) = whole {
            return fallback(tensor, kind, false);
        }
        if is_float(mixture.own) {
            return Ok(TypeChoice { kind: mixture.own, instead_of: None, needs_importance: false });
        }
        let kind = match named {
            Some(kind) => kind,
            None if policy.pure => mixture.own,
            None => self.of_mixture(tensor, group),
        };
        let exempt = matches!(group, TensorGroup::Head | TensorGroup::Embedding);
        let mut choice = fallback(tensor, kind, true)?;
        let of_q2_k_s = choice.kind == GgmlType::Q2_K && mixture.file == FileType::Q2_K_S;
        choice.needs_importance = !exempt && (of_q2_k_s || REFUSED_WITHOUT_IMPORTANCE.contains(&choice.kind));
        Ok(choice)
    }

    /// The type by the rules of the mixture.
    fn of_mixture(&mut self, tensor: &PolicyTensor, group: TensorGroup) -> GgmlType {
        let mixture = self.policy.mixture;
        let head = group == TensorGroup::Head || (self.tied && group == TensorGroup::Embedding);
        if head {
            let block = mixture.own.block_len().unwrap_or(1) as u64;
            let whole = tensor.dims.first().is_some_and(|cols| cols.is_multiple_of(block));
            let own = if whole { mixture.head } else { GgmlType::Q8_0 };
            return self.policy.output.unwrap_or(own);
        }
        let smallest = SMALLEST_MIXTURES.contains(&mixture.file);
        let first: &[Rule] =
            if smallest || mixture.file == FileType::MXFP4_MOE { &[] } else { EIGHT_EXPERT_RULES };
        let at = self.place(tensor, group);
        let holds = |when: &LayerCondition| self.holds(*when, at, tensor);
        let rules = first.iter().chain(mixture.rules);
        let rule = rules.clone().find(|(of, when, _)| *of == group && when.iter().all(holds));
        let mut kind = rule.map_or(mixture.own, |(_, _, kind)| *kind);
        let (when, from, to) = LARGE_MODEL_VALUES;
        if group == TensorGroup::Values && !smallest && from.contains(&kind) && holds(&when) {
            kind = to;
        }
        if let Some(seen) = counter(group) {
            self.seen[seen] += 1;
        }
        kind
    }

    /// The position of a tensor in the model and in its group.
    fn place(&self, tensor: &PolicyTensor, group: TensorGroup) -> TensorPosition {
        let counted = counter(group).map_or(0, |counter| self.seen[counter]);
        match group {
            TensorGroup::Values => TensorPosition { index: counted, counted, of: self.values },
            _ => {
                let block = block_of(&tensor.name).unwrap_or(0);
                let index = if self.facts.experts > 1 { block } else { counted };
                TensorPosition { index, counted, of: self.facts.blocks }
            }
        }
    }

    fn holds(&self, when: LayerCondition, at: TensorPosition, tensor: &PolicyTensor) -> bool {
        let TensorPosition { index, counted, of } = at;
        let ModelFacts { blocks, heads, kv_heads, experts } = *self.facts;
        let shared = heads.checked_div(kv_heads).unwrap_or(0);
        let eighth = of / 8;
        match when {
            LayerCondition::MoreBits => index < eighth || index >= 7 * of / 8 || (index - eighth) % 3 == 2,
            LayerCondition::FirstEighth => index < eighth,
            LayerCondition::FirstEighthCounted => counted < eighth,
            LayerCondition::FirstSixteenth => index < of / 16,
            LayerCondition::Middle => index >= eighth && index < 7 * of / 8,
            LayerCondition::Below(most) => index < most,
            LayerCondition::ManyShare => shared >= 4,
            LayerCondition::EightExperts => experts == 8,
            LayerCondition::NotEightExperts => experts != 8,
            LayerCondition::FourExperts => experts >= 4,
            LayerCondition::Importance => self.policy.importance,
            LayerCondition::NoImportance => !self.policy.importance,
            LayerCondition::Stacked => tensor.dims.get(2).is_some_and(|count| *count > 1),
            LayerCondition::SharedEighty => blocks == 80 && shared > 1 && experts == 0,
        }
    }
}

/// The position of a tensor.
#[derive(Clone, Copy)]
struct TensorPosition {
    index: usize,
    counted: usize,
    of: usize,
}

/// The index of the counter of a group.
fn counter(group: TensorGroup) -> Option<usize> {
    match group {
        TensorGroup::Values => Some(0),
        TensorGroup::Up => Some(1),
        TensorGroup::Gate => Some(2),
        TensorGroup::Down => Some(3),
        TensorGroup::Head
        | TensorGroup::Embedding
        | TensorGroup::Keys
        | TensorGroup::Queries
        | TensorGroup::AttentionOutput
        | TensorGroup::Other => None,
    }
}

fn is_float(kind: GgmlType) -> bool {
    matches!(kind, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16)
}

/// The type, or its fallback if rows are not whole blocks.
fn fallback(tensor: &PolicyTensor, kind: GgmlType, may_change: bool) -> Result<TypeChoice, QuantizeError> {
    let cols = tensor.dims.first().copied().unwrap_or(0);
    let fits = |kind: GgmlType| kind.block_len().is_some_and(|block| cols.is_multiple_of(block as u64));
    let choice = |kind, instead_of| Ok(TypeChoice { kind, instead_of, needs_importance: false });
    if fits(kind) || !may_change {
        return choice(kind, None);
    }
    let fallback = FALLBACKS.iter().find(|(from, _)| *from == kind).map(|(_, to)| *to);
    let small = kind.block_len().is_some_and(|block| block <= 32);
    match fallback.or(small.then_some(kind)) {
        Some(other) if fits(other) => choice(other, Some(kind)),
        Some(_) => choice(GgmlType::F16, Some(kind)),
        None => Err(QuantizeError::NoFallback { tensor: tensor.name.clone(), kind, cols }),
    }
}
