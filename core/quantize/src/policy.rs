//! [`Policy`]: which type each tensor gets when a model is quantized.

mod tables;

use crate::error::QuantizeError;
use gguf_file::{FileType, GgmlType};
use std::collections::BTreeMap;
use tables::{
    ALIASES, EIGHT, FALLBACKS, GROUPS, Group, KEPT, LARGE, LayerCondition, MIXTURES, Mixture,
    REFUSED_WITHOUT_IMPORTANCE, Rule, SMALLEST,
};

/// What a policy asks of a model, beside its tensors; 0 where it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// Blocks.
    pub blocks: usize,
    /// Query heads.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Experts of a layer.
    pub experts: usize,
}

impl ModelFacts {
    /// The facts by canonical keys, as `number` knows them; of a list per layer the first.
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

/// A tensor as a policy sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyTensor {
    /// Its name in a GGUF file, with `.weight`.
    pub name: String,
    /// Elements per dimension, the contiguous one first.
    pub dims: Vec<u64>,
    /// The type it has.
    pub kind: GgmlType,
}

/// What a tensor gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The type; that which it has where it is left as it is.
    pub kind: GgmlType,
    /// The type it would have, were its rows whole blocks of it.
    pub instead_of: Option<GgmlType>,
    /// Whether without importance nothing useful comes of it.
    pub needs_importance: bool,
}

/// Which type each tensor gets: the mixture of a file type, and what is asked for otherwise.
#[derive(Clone, Debug)]
pub struct Policy {
    mixture: &'static Mixture,
    /// Every tensor in the own type of the mixture.
    pub pure: bool,
    /// Another type for the head.
    pub output: Option<GgmlType>,
    /// Another type for the token embedding.
    pub embedding: Option<GgmlType>,
    /// Other types by role (`ffn_down`) or name (`blk.0.ffn_down.weight`); the first that fits.
    pub tensors: Vec<(String, GgmlType)>,
    /// Whether an importance matrix is given.
    pub importance: bool,
}

impl Policy {
    /// The policy of a file type by its name (`q4_k_m`, in any case).
    ///
    /// # Errors
    /// [`QuantizeError::UnknownFileType`] lists those there are.
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

    /// The names of the file types there are.
    pub fn names() -> impl Iterator<Item = &'static str> {
        MIXTURES.iter().filter_map(|mixture| mixture.file.name())
    }

    /// The file type.
    pub fn file_type(&self) -> FileType {
        self.mixture.file
    }

    /// The type that most tensors get.
    pub fn own_type(&self) -> GgmlType {
        self.mixture.own
    }

    /// What each tensor of a model gets, in their order.
    ///
    /// # Errors
    /// [`QuantizeError::NoFallback`]: rows that are no whole blocks of a type that has no other in its place.
    pub fn choose(&self, tensors: &[PolicyTensor], facts: &ModelFacts) -> Result<Vec<Choice>, QuantizeError> {
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        // llama.cpp counts in this order: those of no block, then block after block, by name.
        order.sort_by_key(|&at| (block_of(&tensors[at].name), tensors[at].name.as_str()));
        let mut count = Counters::new(self, tensors, facts);
        let mut made = BTreeMap::new();
        for at in order {
            made.insert(at, count.choice(&tensors[at])?);
        }
        Ok(made.into_values().collect())
    }

    /// What was asked for by role or name.
    fn asked(&self, name: &str) -> Option<GgmlType> {
        let fits = |asked: &str| asked == name || asked == role_of(name) || format!("{asked}.weight") == name;
        self.tensors.iter().find(|(asked, _)| fits(asked)).map(|(_, kind)| *kind)
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

fn group_of(name: &str) -> Group {
    GROUPS.iter().find(|(part, _)| has(name, part)).map_or(Group::Other, |(_, group)| *group)
}

/// Whether a tensor is quantized at all.
fn is_quantized(tensor: &PolicyTensor) -> bool {
    let matrix = tensor.dims.iter().skip(1).any(|size| *size > 1);
    matrix && tensor.name.ends_with("weight") && !KEPT.iter().any(|part| has(&tensor.name, part))
}

/// What has been counted so far.
struct Counters<'a> {
    policy: &'a Policy,
    facts: &'a ModelFacts,
    tied: bool,
    /// Tensors with values in all.
    values: usize,
    /// Tensors seen of values, up, gate and down.
    seen: [usize; 4],
}

impl<'a> Counters<'a> {
    fn new(policy: &'a Policy, tensors: &[PolicyTensor], facts: &'a ModelFacts) -> Self {
        let groups = || tensors.iter().map(|tensor| group_of(&tensor.name));
        let values = groups().filter(|group| *group == Group::Values).count();
        Self { policy, facts, tied: !groups().any(|group| group == Group::Head), values, seen: [0; 4] }
    }

    fn choice(&mut self, tensor: &PolicyTensor) -> Result<Choice, QuantizeError> {
        if !is_quantized(tensor) {
            return Ok(Choice { kind: tensor.kind, instead_of: None, needs_importance: false });
        }
        let group = group_of(&tensor.name);
        let (mixture, policy) = (self.policy.mixture, self.policy);
        let named = policy.asked(&tensor.name);
        let whole = match group {
            // The rows per layer follow the embedding, unless they are named.
            Group::Embedding if named.is_none() || tensor.name.starts_with("token") => policy.embedding,
            Group::Head => policy.output,
            _ => None,
        };
        if let Some(kind) = whole {
            return fitting(tensor, kind, false);
        }
        if is_float(mixture.own) {
            return Ok(Choice { kind: mixture.own, instead_of: None, needs_importance: false });
        }
        let kind = match named {
            Some(kind) => kind,
            None if policy.pure => mixture.own,
            None => self.of_mixture(tensor, group),
        };
        let exempt = matches!(group, Group::Head | Group::Embedding);
        let mut choice = fitting(tensor, kind, true)?;
        let starved = choice.kind == GgmlType::Q2_K && mixture.file == FileType::Q2_K_S;
        choice.needs_importance = !exempt && (starved || REFUSED_WITHOUT_IMPORTANCE.contains(&choice.kind));
        Ok(choice)
    }

    /// The type that the mixture gives.
    fn of_mixture(&mut self, tensor: &PolicyTensor, group: Group) -> GgmlType {
        let mixture = self.policy.mixture;
        let head = group == Group::Head || (self.tied && group == Group::Embedding);
        if head {
            let block = mixture.own.block_len().unwrap_or(1) as u64;
            let whole = tensor.dims.first().is_some_and(|cols| cols.is_multiple_of(block));
            let own = if whole { mixture.head } else { GgmlType::Q8_0 };
            return self.policy.output.unwrap_or(own);
        }
        let smallest = SMALLEST.contains(&mixture.file);
        let first: &[Rule] = if smallest || mixture.file == FileType::MXFP4_MOE { &[] } else { EIGHT };
        let at = self.place(tensor, group);
        let holds = |when: &LayerCondition| self.holds(*when, at, tensor);
        let rules = first.iter().chain(mixture.rules);
        let rule = rules.clone().find(|(of, when, _)| *of == group && when.iter().all(holds));
        let mut kind = rule.map_or(mixture.own, |(_, _, kind)| *kind);
        let (when, from, to) = LARGE;
        if group == Group::Values && !smallest && from.contains(&kind) && holds(&when) {
            kind = to;
        }
        if let Some(seen) = counter(group) {
            self.seen[seen] += 1;
        }
        kind
    }

    /// Which of how many a tensor is; and which of its group.
    fn place(&self, tensor: &PolicyTensor, group: Group) -> Place {
        let counted = counter(group).map_or(0, |counter| self.seen[counter]);
        match group {
            Group::Values => Place { index: counted, counted, of: self.values },
            _ => {
                let block = block_of(&tensor.name).unwrap_or(0);
                let index = if self.facts.experts > 1 { block } else { counted };
                Place { index, counted, of: self.facts.blocks }
            }
        }
    }

    fn holds(&self, when: LayerCondition, at: Place, tensor: &PolicyTensor) -> bool {
        let Place { index, counted, of } = at;
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
            LayerCondition::Seventy => blocks == 80 && shared > 1 && experts == 0,
        }
    }
}

/// Which of how many a tensor is.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
    counted: usize,
    of: usize,
}

/// Where tensors of a group are counted.
fn counter(group: Group) -> Option<usize> {
    match group {
        Group::Values => Some(0),
        Group::Up => Some(1),
        Group::Gate => Some(2),
        Group::Down => Some(3),
        Group::Head
        | Group::Embedding
        | Group::Keys
        | Group::Queries
        | Group::AttentionOutput
        | Group::Other => None,
    }
}

fn is_float(kind: GgmlType) -> bool {
    matches!(kind, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16)
}

/// The type, or the one in its place where rows are not whole blocks of it.
fn fitting(tensor: &PolicyTensor, kind: GgmlType, may_change: bool) -> Result<Choice, QuantizeError> {
    let cols = tensor.dims.first().copied().unwrap_or(0);
    let fits = |kind: GgmlType| kind.block_len().is_some_and(|block| cols.is_multiple_of(block as u64));
    let choice = |kind, instead_of| Ok(Choice { kind, instead_of, needs_importance: false });
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
