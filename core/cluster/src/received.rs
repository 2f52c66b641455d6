//! [`check_description`]: what another node says about itself, before it is used.

use crate::description::StageDescription;
use crate::names::check_name;

/// The most layers of a model.
pub(crate) const MOST_LAYERS: usize = 1 << 16;
/// The most bytes of a text, and of the longest one, the identity of the weights of many files.
const TEXT_BYTES: usize = 8 << 10;
const IDENTITY_BYTES: usize = 256 << 10;
/// The most items of a list.
const MOST_ITEMS: usize = 1024;

/// Checks the sizes and numbers of a description. Texts may have any characters: they are escaped where they are shown.
pub(crate) fn check_description(stage: &StageDescription) -> Result<(), String> {
    let StageDescription { node, host, endpoints, model, replica, identity, plugins, .. } = stage;
    let StageDescription { first, end, layers, last_fault, .. } = stage;
    check_name("model", model)
        .and_then(|()| check_name("replica", replica))
        .map_err(|error| error.to_string())?;
    if node.is_empty() || node.len() > 32 || !node.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!("its node is invalid: {:?}", shortened(node)));
    }
    if *layers > MOST_LAYERS || first >= end || end > layers {
        return Err(format!("it has layers {first} to {end} of {layers}, which cannot be"));
    }
    let lists = [endpoints.len(), identity.len(), plugins.len()];
    if lists.iter().any(|length| *length > MOST_ITEMS) {
        return Err(format!("it has a list of more than {MOST_ITEMS} items"));
    }
    let texts =
        std::iter::once(host).chain(endpoints).chain(identity.keys()).chain(plugins).chain(last_fault);
    if let Some(long) = texts.into_iter().find(|text| text.len() > TEXT_BYTES) {
        return Err(format!("it has a text of {} bytes: {:?}", long.len(), shortened(long)));
    }
    if let Some(long) = identity.values().find(|text| text.len() > IDENTITY_BYTES) {
        return Err(format!("it has an identity of {} bytes", long.len()));
    }
    match stage.steps.layer_ms {
        Some(ms) if !ms.is_finite() || ms < 0.0 => Err(format!("it has {ms} milliseconds per layer")),
        _ => Ok(()),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::OpenRequest;
    use crate::description::{MemoryFigures, StageState, StepFigures};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn description() -> StageDescription {
        StageDescription {
            protocol: 1,
            frames: 1,
            node: "1f".to_owned(),
            host: "a".to_owned(),
            process: 7,
            endpoints: vec!["tcp/127.0.0.1:1".to_owned()],
            model: "m@00000000".to_owned(),
            replica: "main".to_owned(),
            identity: BTreeMap::from([("weights".to_owned(), "w".to_owned())]),
            plugins: Vec::new(),
            first: 0,
            end: 2,
            layers: 4,
            memory: MemoryFigures { weights: 1, states: None, free: Some(2) },
            steps: StepFigures { layer_ms: Some(0.5), ..StepFigures::default() },
            state: StageState::Ready,
            last_fault: None,
        }
    }

    #[test]
    fn every_field_of_a_description_is_bounded() {
        check_description(&description()).unwrap();
        let long = "x".repeat(TEXT_BYTES + 1);
        let wrong = [
            StageDescription { node: "../x".to_owned(), ..description() },
            StageDescription { node: "1".repeat(33), ..description() },
            StageDescription { model: "a/b".to_owned(), ..description() },
            StageDescription { replica: String::new(), ..description() },
            StageDescription { host: long.clone(), ..description() },
            StageDescription { endpoints: vec![String::new(); MOST_ITEMS + 1], ..description() },
            StageDescription { plugins: vec![long.clone()], ..description() },
            StageDescription { last_fault: Some(long), ..description() },
            StageDescription { end: 5, ..description() },
            StageDescription { first: 2, ..description() },
            StageDescription { end: usize::MAX, layers: usize::MAX, ..description() },
            StageDescription {
                steps: StepFigures { layer_ms: Some(-1.0), ..StepFigures::default() },
                ..description()
            },
            StageDescription {
                identity: BTreeMap::from([("weights".to_owned(), "x".repeat(IDENTITY_BYTES + 1))]),
                ..description()
            },
        ];
        for wrong in wrong {
            assert!(check_description(&wrong).is_err(), "{:.300}", format!("{wrong:?}"));
        }
    }

    /// A request, and the same as text.
    fn request() -> String {
        r#"{"protocol":1,"epoch":"1f","head":"h","index":0,"stages":[[0,2],[2,4]],"credits":3,"identity":{},"plugins":[]}"#
            .to_owned()
    }

    /// A text with some bytes replaced, and cut.
    fn damaged(text: String) -> impl Strategy<Value = Vec<u8>> {
        let length = text.len();
        let changes = proptest::collection::vec((0..length, any::<u8>()), 0..6);
        (changes, 0..=length).prop_map(move |(changes, end)| {
            let mut bytes = text.clone().into_bytes();
            changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
            bytes.truncate(end);
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            cases: 2000,
            rng_seed: proptest::test_runner::RngSeed::Fixed(11),
            ..ProptestConfig::default()
        })]

        /// Whatever arrives, nothing panics, and what is accepted is within its bounds.
        #[test]
        fn damaged_control_messages_are_refused_or_within_bounds(
            answer in damaged(serde_json::to_string(&description()).unwrap()),
            asked in damaged(request()),
        ) {
            if let Ok(stage) = serde_json::from_slice::<StageDescription>(&answer)
                && check_description(&stage).is_ok()
            {
                prop_assert!(stage.first < stage.end && stage.end <= stage.layers && stage.layers <= MOST_LAYERS);
            }
            if let Ok(request) = serde_json::from_slice::<OpenRequest>(&asked)
                && request.check([0, 2]).is_ok()
            {
                prop_assert_eq!(request.stages[request.index], [0, 2]);
                prop_assert!((1..=64).contains(&request.credits) && request.stages.len() <= 1024);
                prop_assert_eq!(request.names().len(), request.stages.len());
            }
        }
    }
}
