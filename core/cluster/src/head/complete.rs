//! [`complete`]: from stages that are there to stages that have all layers together.

use crate::description::StageDescription;
use std::collections::BTreeSet;

/// Stages that together have the layers 0 to `layers`, each once, in order. `None` if there are none.
pub(super) fn complete(stages: &[&StageDescription], layers: usize) -> Option<Vec<StageDescription>> {
    let mut chosen = Vec::new();
    extend(stages, layers, 0, &mut chosen, &mut BTreeSet::new()).then_some(chosen)
}

fn extend(
    stages: &[&StageDescription],
    layers: usize,
    from: usize,
    chosen: &mut Vec<StageDescription>,
    dead_ends: &mut BTreeSet<usize>,
) -> bool {
    if from == layers {
        return !chosen.is_empty();
    }
    if dead_ends.contains(&from) {
        return false;
    }
    for stage in stages.iter().filter(|stage| stage.first == from && stage.end > from) {
        chosen.push((*stage).clone());
        if stage.end <= layers && extend(stages, layers, stage.end, chosen, dead_ends) {
            return true;
        }
        chosen.pop();
    }
    dead_ends.insert(from);
    false
}

/// The layers that no stage has, as text.
pub(super) fn missing(stages: &[&StageDescription], layers: usize) -> String {
    let has = |layer: usize| stages.iter().any(|stage| (stage.first..stage.end).contains(&layer));
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for layer in (0..layers).filter(|layer| !has(*layer)) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == layer => *last = layer,
            _ => ranges.push((layer, layer)),
        }
    }
    let text = |(first, last): &(usize, usize)| {
        if first == last { format!("layer {first}") } else { format!("layers {first} to {last}") }
    };
    match ranges.is_empty() {
        true => "a set of stages without overlapping layers".to_owned(),
        false => ranges.iter().map(text).collect::<Vec<_>>().join(" and "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::{MemoryFigures, StageState, StepFigures};
    use std::collections::BTreeMap;

    fn stage(first: usize, end: usize, node: &str) -> StageDescription {
        StageDescription {
            protocol: 1,
            frames: 1,
            node: node.to_owned(),
            host: String::new(),
            process: 0,
            endpoints: Vec::new(),
            model: String::new(),
            replica: String::new(),
            identity: BTreeMap::new(),
            plugins: Vec::new(),
            first,
            end,
            layers: 6,
            memory: MemoryFigures::default(),
            steps: StepFigures::default(),
            state: StageState::Ready,
            last_fault: None,
        }
    }

    fn nodes(stages: &[StageDescription], layers: usize) -> Option<String> {
        let all: Vec<&StageDescription> = stages.iter().collect();
        complete(&all, layers).map(|chosen| chosen.iter().map(|stage| stage.node.as_str()).collect())
    }

    #[test]
    fn stages_that_fit_are_found_among_others() {
        let all = [stage(0, 2, "a"), stage(0, 3, "b"), stage(3, 5, "c"), stage(3, 6, "d"), stage(5, 9, "e")];
        assert_eq!(nodes(&all, 6).as_deref(), Some("bd"));
        assert_eq!(nodes(&all, 5).as_deref(), Some("bc"));
        assert_eq!(nodes(&all[..3], 6), None);
        assert_eq!(nodes(&[stage(0, 6, "a"), stage(0, 0, "b")], 6).as_deref(), Some("a"));
        assert_eq!(nodes(&[], 6), None);
    }

    /// Each start is tried once, so many overlapping stages take no exponential time.
    #[test]
    fn many_overlapping_stages_are_searched_fast() {
        let all: Vec<StageDescription> =
            (0..200).flat_map(|first| [stage(first, first + 1, "x"), stage(first, first + 2, "y")]).collect();
        assert_eq!(nodes(&all, 500), None);
    }

    #[test]
    fn missing_layers_are_named() {
        let (a, b) = (stage(1, 2, "a"), stage(4, 5, "b"));
        assert_eq!(missing(&[&a, &b], 6), "layer 0 and layers 2 to 3 and layer 5");
        assert_eq!(missing(&[], 6), "layers 0 to 5");
        let (a, b) = (stage(0, 4, "a"), stage(3, 6, "b"));
        assert!(missing(&[&a, &b], 6).contains("overlapping"));
    }
}
