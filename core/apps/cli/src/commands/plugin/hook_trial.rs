//! Tests a plugin's layer hook in tiny random models of several shapes.

use super::cases::TestCases;
use super::trial::{Trial, case, compared, grid, open, said, tokens};
use crate::failure::Failure;
use menagerie::engine::{NamedHook, TextPipeline};
use menagerie::measure::LogitsOptions;
use menagerie::open::LoadedModel;
use menagerie::plugin_host::{LoadedPlugin, PluginComponent};
use menagerie::registry::Environment;
use menagerie::spec::kind::Family;
use std::collections::BTreeMap;

/// Tests a layer hook of a plugin; `given` are values of its options.
pub(super) fn hooked(
    (plugin, component): (&LoadedPlugin, &PluginComponent),
    given: &BTreeMap<String, String>,
    environment: &Environment,
) -> Result<Trial, Failure> {
    let mut trial = Trial { options: given.clone(), ..Trial::default() };
    let mut cases = TestCases::of(plugin, grid().len());
    let pairs: Vec<String> = given.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let hook =
        match NamedHook::parse(&format!("{}={}", component.name, pairs.join(",")), environment.entries()) {
            Ok(hook) => hook,
            Err(fault) => {
                trial.faults.push(format!("{fault}; --set {}.OPTION=VALUE sets an option", component.name));
                return Ok(trial);
            }
        };
    let kinds = environment.components().kinds()?;
    let Some(norm) = kinds.find(Family::Norm, "rms") else {
        return Err(Failure::Failed("the norm `rms`, which tiny models need, is missing".to_owned()));
    };
    for (shape, scale) in grid() {
        let options = BTreeMap::from([("eps".to_owned(), "1e-5".to_owned())]);
        let opened = open(norm, &options, shape, scale, environment).map_err(said);
        let result = opened.and_then(|pipeline| run(pipeline, &hook, &mut trial, &tokens(shape.2)));
        if cases.note(case(shape, scale), result).is_break() {
            break;
        }
    }
    trial.faults = cases.faults();
    Ok(trial)
}

/// Runs a model with the hook in every way. If the hook only reads, the logits must be bit-identical to those without it.
fn run(
    mut pipeline: LoadedModel<TextPipeline>,
    hook: &NamedHook,
    trial: &mut Trial,
    tokens: &[u32],
) -> Result<(), String> {
    let bare = logits(&pipeline, tokens)?;
    pipeline.add_named_hook(hook)?;
    let observes = pipeline.hooks().layers.effects().is_empty();
    if observes && logits(&pipeline, tokens)? != bare {
        return Err("the hook only reads, but the logits differ from those without it".to_owned());
    }
    compared(&pipeline, tokens, trial)
}

fn logits(pipeline: &TextPipeline, tokens: &[u32]) -> Result<Vec<u32>, String> {
    let computed = menagerie::measure::logits(pipeline, tokens, &LogitsOptions::default());
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect();
    computed.map(|logits| bits(logits.values)).map_err(|error| error.to_string())
}
