//! [`steering`]: control vectors from files as a hook.

use super::error::ControlVectorError;
use super::vector::ControlVector;
use menagerie_engine::{Steering, TextPipeline, setters};
use menagerie_open::{LoadedModel, ResolvedFile};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A control vector and its scale.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlVectorOption {
    /// Its file.
    pub path: PathBuf,
    /// The factor of its directions.
    pub scale: f32,
}

/// How control vectors act.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SteeringOptions {
    /// The layers after which they act, from 0. `None`: all layers that they have directions for.
    pub layers: Option<RangeInclusive<usize>>,
    /// Another name of the model that the files may state.
    pub hint: Option<String>,
}

setters! { SteeringOptions:
    with_layers(layers: impl Into<Option<RangeInclusive<usize>>>),
    with_hint(hint: impl Into<Option<String>>),
}

/// A hook that adds the sum of these vectors to the stream of this model.
///
/// # Errors
/// A file that is not a control vector, or that was made for another model: another width, layers that the model does
/// not have, another architecture; layers without a direction.
pub fn steering(
    pipeline: &LoadedModel<TextPipeline>,
    given: &[ControlVectorOption],
    options: &SteeringOptions,
) -> Result<Steering, ControlVectorError> {
    let shape = pipeline.engine().model.shape();
    let mut sums: Vec<Option<Vec<f32>>> = vec![None; shape.n_layers];
    for ControlVectorOption { path, scale } in given {
        let vector = ControlVector::open(path)?;
        let unfit = |reason: String| ControlVectorError::Unfit { file: path.display().to_string(), reason };
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
                "it has directions for layers {has} and none for the requested layers; request other layers, or all"
            )));
        }
    }
    Steering::new(sums, pipeline.compute()).map_err(|error| ControlVectorError::Unfit {
        file: "control vectors".to_owned(),
        reason: error.to_string(),
    })
}

/// The difference between a control vector and the model, as text.
fn check(
    vector: &ControlVector,
    pipeline: &LoadedModel<TextPipeline>,
    hint: Option<&str>,
) -> Result<(), String> {
    let shape = pipeline.engine().model.shape();
    let (width, wanted) = (vector.width(), shape.embedding_length);
    let again = "use a control vector of this model (`control-vector make` creates one)";
    if width != wanted {
        return Err(format!(
            "its directions have {width} numbers, but the stream of this model has {wanted}: {again}"
        ));
    }
    if let Some(past) = vector.directions.keys().find(|layer| **layer >= shape.n_layers) {
        let last = shape.n_layers.saturating_sub(1);
        return Err(format!(
            "it has a direction for layer {past}, but the last layer of this model is {last}: {again}"
        ));
    }
    let Some(made_for) = vector.hint.as_deref() else { return Ok(()) };
    if Some(made_for) == hint || names(pipeline.resolved()).iter().any(|name| name == made_for) {
        return Ok(());
    }
    Err(format!(
        "it says that it was made for `{made_for}`, and this model is `{}`: {again}, or say that they are the same with \
         --control-vector-hint {made_for}",
        pipeline.architecture()
    ))
}

/// The names of a model's architecture that a file may state: its id, the name in the model's file, and those of its
/// Hugging Face classes (`mistral` of MistralForCausalLM).
fn names(resolved: &ResolvedFile) -> Vec<String> {
    let stem = |name: &str| name.split("For").next().unwrap_or(name).to_lowercase();
    let classes = resolved.spec.hf_classes.iter().map(|class| stem(&class.name));
    let own = resolved.file.architecture().ok().map(str::to_owned);
    let own = own.into_iter().flat_map(|name| [stem(&name), name]);
    classes.chain(own).chain([resolved.spec.id().to_owned()]).collect()
}
