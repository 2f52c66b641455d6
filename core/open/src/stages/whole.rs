//! What is known of the stages of a model from the whole model over its mapped file; no matrix of it is read.

use crate::stage_options::StageStart;
use menagerie_assembly::{AssembledModel, Assembly, StagePlan};
use menagerie_model::Executor;
use menagerie_stages::ChainFacts;

/// What the stages of a plan need to know: their layers, and the slots that are declared before each of them.
pub(crate) fn starts(plan: &StagePlan, whole: &Assembly) -> Vec<StageStart> {
    let specs = whole.slots.specs();
    let start = |(index, layers): (usize, &std::ops::Range<usize>)| {
        let before = whole.slots_before.get(layers.start).copied().unwrap_or(0);
        let slots = specs.iter().take(before).map(|slot| (slot.name.clone(), slot.width)).collect();
        StageStart { index, layers: plan.stages().to_vec(), slots }
    };
    plan.stages().iter().enumerate().map(start).collect()
}

/// The facts of a model that a chain needs; `None` for an encoder.
pub(crate) fn facts_of(whole: &Assembly) -> Option<ChainFacts> {
    match &whole.model {
        AssembledModel::Whole(model) => Some(ChainFacts::of_whole(model as &dyn Executor)),
        _ => None,
    }
}
