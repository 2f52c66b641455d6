//! Names of roles in a Hugging Face folder, and the reverse.

use super::wrapped::unwrapped;
use crate::kind::written::{BySource, NameChoice, WrittenTable, WrittenValue};
use crate::language::roles::bare;
use crate::language::spec::{ArchSpec, HfClass, HfTensor, Layout};
use crate::text::glob::matches_tail;
use menagerie_formulas::RopePairs;
use std::borrow::Cow;

/// Placeholders for the index in a stack.
const MEMBERS: [&str; 2] = ["{expert}", "{head}"];
const LAYER: &str = "{layer}";

/// A possible source of a role's tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HfOrigin<'a> {
    /// A tensor, or a stack of them.
    Tensor {
        /// Its name without `.weight` and `.bias`; for a stack with `{expert}` or `{head}` in it.
        name: String,
        /// Whether the name is complete, because the role includes its suffix.
        whole: bool,
        /// Conversions from the stored to the canonical tensor, in order.
        layout: &'a [Layout],
    },
    /// A list of numbers in the config, by its dotted name.
    Config(&'a str),
}

/// The part of a module that a Hugging Face name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HfPart {
    /// A module, which has a weight and possibly a bias.
    Module,
    /// A weight.
    Weight,
    /// A bias.
    Bias,
    /// The factor of the weight's products.
    Scale,
}

/// The role of a module or tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HfPlace {
    /// The role, without suffix.
    pub role: String,
    /// The block, or `None` for a role of the whole model.
    pub layer: Option<usize>,
    /// The index in a stack (an expert, a head), if the role's tensor is stacked.
    pub member: Option<usize>,
    /// The part that the name refers to.
    pub part: HfPart,
    /// Conversions from the stored to the canonical tensor, in order. For the bias of a module, only those with
    /// [`Layout::acts_on_bias`].
    pub layout: Vec<Layout>,
}

impl Layout {
    /// Whether the conversion applies to a bias as to the weight.
    pub fn acts_on_bias(self) -> bool {
        matches!(
            self,
            Self::GroupedQkv
                | Self::EvenRows
                | Self::OddRows
                | Self::DeltaQkv
                | Self::DeltaGate
                | Self::GateOfQkv
                | Self::QkvBehindGate
        )
    }
}

impl HfClass {
    /// A tensor's name with the class's first matching prefix rewritten, after that of an outer class.
    pub fn renamed<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let name = if self.wrapped { unwrapped(name) } else { Cow::Borrowed(name) };
        let found = self.rename.iter().find_map(|(from, to)| Some((name.strip_prefix(from.as_str())?, to)));
        match found {
            Some((rest, to)) => Cow::Owned(format!("{to}{rest}")),
            None => name,
        }
    }
}

impl ArchSpec {
    /// The possible sources of a role's tensor, in the order of precedence; `role` may have its suffix.
    pub fn hf_origins(&self, role: &str, layer: Option<usize>) -> Vec<HfOrigin<'_>> {
        let sources = |wanted: &str| {
            self.hf.tensors.iter().find(|(role, _)| role == wanted).map(|(_, sources)| sources)
        };
        let exact = (bare(role) != role).then(|| sources(role)).flatten();
        let whole = exact.is_some();
        let Some(found) = exact.or_else(|| sources(bare(role))) else { return Vec::new() };
        found.iter().filter_map(|source| self.source(source, whole, layer)).collect()
    }

    fn source<'a>(&'a self, source: &'a HfTensor, whole: bool, layer: Option<usize>) -> Option<HfOrigin<'a>> {
        match source {
            HfTensor::Config(name) => Some(HfOrigin::Config(name)),
            HfTensor::Tensor { from, layout } => {
                let name = match (from.strip_prefix('.'), layer) {
                    (Some(_), None) => return None,
                    (Some(_), Some(layer)) => {
                        format!("{}{from}", self.hf.layer.replace(LAYER, &layer.to_string()))
                    }
                    (None, None) => from.clone(),
                    (None, Some(_)) => return None,
                };
                Some(HfOrigin::Tensor { name, whole, layout })
            }
        }
    }

    /// Every role of a module or tensor, by its name after [`HfClass::renamed`]: usually one, two if its rows belong
    /// to two roles (gate and up alternating), none if the spec has no such role.
    ///
    /// Includes a role that another kind of layer has under the same name; the layer's config decides which one
    /// applies.
    pub fn hf_places(&self, name: &str) -> Vec<HfPlace> {
        let tensors = self.hf.tensors.iter();
        let sources = tensors.flat_map(|(role, sources)| sources.iter().map(move |source| (role, source)));
        sources.filter_map(|(role, source)| self.place(name, role, source)).collect()
    }

    fn place(&self, name: &str, role: &str, source: &HfTensor) -> Option<HfPlace> {
        let HfTensor::Tensor { from, layout } = source else { return None };
        let pattern = if from.starts_with('.') { format!("{}{from}", self.hf.layer) } else { from.clone() };
        let found = NumberedName::of(&pattern, name)?;
        let whole = bare(role) != role;
        let part = match found.rest {
            "" if whole && role.ends_with(".bias") => HfPart::Bias,
            "" if whole && role.ends_with(".scale") => HfPart::Scale,
            "" if whole => HfPart::Weight,
            _ if whole => return None,
            "" => HfPart::Module,
            ".weight" => HfPart::Weight,
            ".bias" => HfPart::Bias,
            _ => return None,
        };
        let acts = |layout: &Layout| whole || part != HfPart::Bias || layout.acts_on_bias();
        let layout = layout.iter().copied().filter(acts);
        let (layer, member) = (found.layer, found.member);
        Some(HfPlace { role: bare(role).to_owned(), layer, member, part, layout: layout.collect() })
    }

    /// The canonical key whose value is stored in a tensor of one element, by
    /// [`HfMap::numbers`](crate::HfMap::numbers).
    pub fn hf_number(&self, name: &str) -> Option<&str> {
        let numbers = self.hf.numbers.iter();
        let holds = |from: &String| {
            let pattern =
                if from.starts_with('.') { format!("{}{from}", self.hf.layer) } else { from.clone() };
            NumberedName::of(&pattern, name).is_some_and(|found| found.rest.is_empty())
        };
        numbers.into_iter().find(|(_, from)| holds(from)).map(|(key, _)| key.as_str())
    }

    /// The name of the tensor of a line of [`HfMap::numbers`](crate::HfMap::numbers), in a block or in the whole
    /// model.
    pub fn hf_number_name(&self, from: &str, layer: usize) -> String {
        match from.starts_with('.') {
            true => format!("{}{from}", self.hf.layer.replace(LAYER, &layer.to_string())),
            false => from.to_owned(),
        }
    }

    /// The reason why a tensor of a Hugging Face folder is ignored, if it is; `layers` as in
    /// [`ArchSpec::ignored_tensor`].
    pub fn hf_ignored_tensor(&self, name: &str, layers: usize) -> Option<&str> {
        let globs = &self.hf.ignore_tensors;
        globs.iter().find(|(glob, _)| matches_tail(glob, name, layers)).map(|(_, reason)| reason.as_str())
    }

    /// Whether a role's rows (and its bias) are in a different order in a GGUF file and in a Hugging Face folder: in
    /// the former, pairs that rotate together are adjacent, in the latter half a head apart. Within each head of `d`
    /// rows, row `2 * j + i` of the GGUF is row `i * d / 2 + j` of the folder.
    pub fn rows_are_paired(&self, role: &str) -> bool {
        let turned = matches!(bare(role), "attn_q" | "attn_k");
        turned && self.body.mixer.cases.iter().any(|case| table_turns(&case.table))
    }
}

/// Whether a table, or one inside it, says that pairs are adjacent in a GGUF and halves here.
fn table_turns(table: &WrittenTable) -> bool {
    table.fields.iter().flatten().any(|field| match &field.value {
        WrittenValue::Name(NameChoice::Given(BySource::Each { gguf, hf }))
            if field.path.ends_with("pairs") =>
        {
            let name = |index: &usize| RopePairs::ALL.get(*index).copied();
            name(gguf) == Some(RopePairs::Adjacent) && name(hf) == Some(RopePairs::Halves)
        }
        WrittenValue::Table(inner) => table_turns(inner),
        WrittenValue::Cases(cases) => cases.cases.iter().any(|case| table_turns(&case.table)),
        _ => false,
    })
}

/// A name that matches the beginning of a pattern, with the numbers of its placeholders.
struct NumberedName<'n> {
    layer: Option<usize>,
    member: Option<usize>,
    rest: &'n str,
}

impl<'n> NumberedName<'n> {
    fn of(pattern: &str, name: &'n str) -> Option<Self> {
        let mut found = Self { layer: None, member: None, rest: name };
        let mut pattern = pattern;
        while let Some(start) = pattern.find('{') {
            let end = start + pattern[start..].find('}')? + 1;
            let rest = found.rest.strip_prefix(&pattern[..start])?;
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let number = Some(rest[..digits].parse().ok()?);
            match &pattern[start..end] {
                LAYER => found.layer = number,
                member if MEMBERS.contains(&member) => found.member = number,
                _ => return None,
            }
            found.rest = &rest[digits..];
            pattern = &pattern[end..];
        }
        found.rest = found.rest.strip_prefix(pattern)?;
        Some(found)
    }
}
