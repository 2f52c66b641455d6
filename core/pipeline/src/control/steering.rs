//! [`Steering`]: a hook that adds control vectors to the stream.

use super::error::ControlVectorError;
use super::vector::ControlVector;
use crate::init::ResolvedFile;
use crate::pipeline::TextPipeline;
use crate::setters::setters;
use crate::stages::HookPlace;
use menagerie_model::{Compute, Effect, HookRecipe, LayerHook, ModelError, Param, Rows, Shown, Traveling};
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

/// A control vector as it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenControlVector {
    /// Its file.
    pub path: PathBuf,
    /// Multiplies its directions.
    pub scale: f32,
}

/// How control vectors act.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SteeringOptions {
    /// The layers after which they act, 0-based; absent = all that they have directions for.
    pub layers: Option<RangeInclusive<usize>>,
    /// Another name of the model that they may say they were made for.
    pub hint: Option<String>,
}

setters! { SteeringOptions:
    with_layers(layers: impl Into<Option<RangeInclusive<usize>>>),
    with_hint(hint: impl Into<Option<String>>),
}

/// Adds to the stream `[T, D]` after each layer the sum of the scaled directions for it.
pub struct Steering {
    layers: Range<usize>,
    directions: Vec<Option<Param>>,
    /// What the directions are made from, by layer: what copies in other processes get.
    sums: Vec<Option<Vec<f32>>>,
    effect: String,
}

impl Steering {
    /// These vectors, together, on this model.
    ///
    /// # Errors
    /// A file that is no control vector, or one that was made for another model: another width, layers that the model does
    /// not have, another architecture; layers for which there is no direction.
    pub fn open(
        pipeline: &TextPipeline,
        given: &[GivenControlVector],
        options: &SteeringOptions,
    ) -> Result<Self, ControlVectorError> {
        let shape = pipeline.engine().model.shape();
        let mut sums: Vec<Option<Vec<f32>>> = vec![None; shape.n_layers];
        for GivenControlVector { path, scale } in given {
            let vector = ControlVector::open(path)?;
            let unfit =
                |reason: String| ControlVectorError::Unfit { file: path.display().to_string(), reason };
            check(&vector, pipeline, options.hint.as_deref()).map_err(unfit)?;
            let mut acts = false;
            for (&layer, direction) in &vector.directions {
                let wanted = options.layers.as_ref().is_none_or(|layers| layers.contains(&layer));
                let Some(sum) = sums.get_mut(layer).filter(|_| wanted) else { continue };
                acts = true;
                let sum = sum.get_or_insert_with(|| vec![0.0; shape.embedding_length]);
                sum.iter_mut().zip(direction).for_each(|(sum, value)| *sum += value * scale);
            }
            if !acts {
                let [first, last] = [vector.directions.keys().next(), vector.directions.keys().next_back()];
                let has = format!("{} to {}", first.unwrap_or(&0), last.unwrap_or(&0));
                return Err(unfit(format!(
                    "it has directions for layers {has} and none for those that are asked for; give others, or leave them out"
                )));
            }
        }
        Self::of(sums, pipeline.compute()).map_err(|error| ControlVectorError::Unfit {
            file: "control vectors".to_owned(),
            reason: error.to_string(),
        })
    }

    /// These directions, by layer.
    fn of(sums: Vec<Option<Vec<f32>>>, compute: &Compute) -> Result<Self, ModelError> {
        let effect = fingerprint(&sums);
        let param = |(layer, sum): (usize, &Option<Vec<f32>>)| {
            let name = format!("control vector of layer {layer}");
            sum.clone().map(|values| compute.backend.vector(&name, values)).transpose()
        };
        let directions: Vec<Option<Param>> =
            sums.iter().enumerate().map(param).collect::<Result<_, ModelError>>()?;
        let first = directions.iter().position(Option::is_some).unwrap_or(0);
        let end = directions.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        Ok(Self { layers: first..end, directions, sums, effect })
    }

    /// What its copies are known by.
    pub(crate) const KIND: &str = "control vector";

    /// A copy in another process.
    ///
    /// # Errors
    /// What are no directions of its model.
    pub(crate) fn copied(recipe: &[u8], place: &HookPlace) -> Result<Self, String> {
        let HookPlace { width, layers, .. } = *place;
        let size = size_of::<u32>() + width * size_of::<f32>();
        if !recipe.len().is_multiple_of(size) {
            return Err(format!("{} bytes are no directions of {width} numbers", recipe.len()));
        }
        let mut sums: Vec<Option<Vec<f32>>> = vec![None; layers];
        for one in recipe.chunks_exact(size) {
            let (numbers, _) = one.as_chunks::<4>();
            let Some((layer, values)) = numbers.split_first() else { continue };
            let layer = u32::from_le_bytes(*layer) as usize;
            let sum =
                sums.get_mut(layer).ok_or_else(|| format!("a direction for layer {layer} of {layers}"))?;
            *sum = Some(values.iter().map(|value| f32::from_le_bytes(*value)).collect());
        }
        Self::of(sums, &place.compute).map_err(|error| error.to_string())
    }
}

impl Traveling for Steering {
    fn recipe(&self) -> HookRecipe {
        let mut content = Vec::new();
        for (layer, sum) in self.sums.iter().enumerate() {
            let Some(sum) = sum else { continue };
            content.extend((layer as u32).to_le_bytes());
            content.extend(sum.iter().flat_map(|value| value.to_le_bytes()));
        }
        HookRecipe { kind: Self::KIND.to_owned(), content }
    }
}

impl LayerHook for Steering {
    fn name(&self) -> &str {
        Self::KIND
    }

    fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    fn effect(&self) -> Effect {
        Effect::Replaces(self.effect.clone())
    }

    fn after_layer(&self, shown: &Shown) -> Result<Option<Rows>, ModelError> {
        let Some(direction) = self.directions.get(shown.layer).and_then(Option::as_ref) else {
            return Ok(None);
        };
        let backend = &shown.compute.backend;
        backend.add_vector(backend.copy(shown.rows)?, direction).map(Some)
    }

    fn travels(&self) -> Option<&dyn Traveling> {
        Some(self)
    }
}

/// What does not fit, in words.
fn check(vector: &ControlVector, pipeline: &TextPipeline, hint: Option<&str>) -> Result<(), String> {
    let shape = pipeline.engine().model.shape();
    let (width, wanted) = (vector.width(), shape.embedding_length);
    let again = "take one that was made for it (`control-vector make` makes one)";
    if width != wanted {
        return Err(format!(
            "its directions have {width} numbers, and the stream of this model has {wanted}: {again}"
        ));
    }
    if let Some(past) = vector.directions.keys().find(|layer| **layer >= shape.n_layers) {
        let last = shape.n_layers.saturating_sub(1);
        return Err(format!(
            "it has a direction for layer {past}, and the last layer of this model is {last}: {again}"
        ));
    }
    let Some((made_for, resolved)) = vector.hint.as_deref().zip(pipeline.resolved()) else { return Ok(()) };
    if Some(made_for) == hint || names(resolved).iter().any(|name| name == made_for) {
        return Ok(());
    }
    Err(format!(
        "it says that it was made for `{made_for}`, and this model is `{}`: {again}, or say that they are the same with \
         --control-vector-hint {made_for}",
        pipeline.architecture()
    ))
}

/// What a file may call the architecture of a model: its id, the file's own name of it, and what its classes are called at
/// the Hugging Face hub (`mistral` of MistralForCausalLM).
fn names(resolved: &ResolvedFile) -> Vec<String> {
    let stem = |name: &str| name.split("For").next().unwrap_or(name).to_lowercase();
    let classes = resolved.spec.hf_classes().iter().map(|class| stem(&class.name));
    let own = resolved.file.architecture().ok().map(str::to_owned);
    let own = own.into_iter().flat_map(|name| [stem(&name), name]);
    classes.chain(own).chain([resolved.spec.id().to_owned()]).collect()
}

/// The same text for the same sums: FNV-1a, 64 bits.
fn fingerprint(sums: &[Option<Vec<f32>>]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |bytes: &[u8]| {
        bytes.iter().for_each(|byte| hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    };
    for (layer, sum) in sums.iter().enumerate() {
        let Some(sum) = sum else { continue };
        add(&(layer as u64).to_le_bytes());
        sum.iter().for_each(|value| add(&value.to_bits().to_le_bytes()));
    }
    format!("adds directions {hash:016x}")
}
