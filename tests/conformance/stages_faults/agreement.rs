//! Stages that are not those of the chain: each is refused by name, and none is left.

use crate::mischief::{Mischief, Place};
use crate::split::{Making, Split, generated};
use menagerie::stages::Identity;
use std::time::Duration;

fn identity() -> Identity {
    Identity {
        version: "1.2.3".to_owned(),
        spec: "llama 0a1b".to_owned(),
        weights: "1000 bytes, 2c3d".to_owned(),
        arithmetic: "Fast, F16 prompts in Float32".to_owned(),
        adapters: "a0 x 1: 4e5f".to_owned(),
    }
}

#[test]
fn stages_that_agree_compute() {
    let identities = [identity(), identity(), identity()];
    let split = Split::made(Making { identities, ..Making::default() }).unwrap();
    assert!(generated(&split.engine).unwrap() == generated(&split.whole).unwrap());
    split.end();
}

/// A field of an identity.
type Field = (&'static str, fn(&mut Identity) -> &mut String);

#[test]
fn another_version_spec_weights_arithmetic_or_adapter_is_named() {
    let fields: [Field; 5] = [
        ("version", |one| &mut one.version),
        ("spec", |one| &mut one.spec),
        ("weights", |one| &mut one.weights),
        ("arithmetic", |one| &mut one.arithmetic),
        ("adapters", |one| &mut one.adapters),
    ];
    for stage in 0..2 {
        for (name, field) in fields {
            let mut identities = [identity(), identity(), identity()];
            "something else".clone_into(field(&mut identities[stage + 1]));
            let Err(fault) = Split::made(Making { identities, ..Making::default() }) else {
                panic!("stage {stage} has another {name}");
            };
            let (said, theirs) = (fault.to_string(), field(&mut identity()).clone());
            assert!(said.starts_with(&format!("stage {stage} (layer")), "{said}");
            let words = [
                format!("{name}: found something else, expected {theirs} as in the stages before it"),
                "start all stages with the same model file, options and program".to_owned(),
            ];
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }
}

/// A stage that says nothing when the model is opened is named, and none is left.
#[test]
fn a_stage_that_is_silent_is_named_when_the_model_is_opened() {
    for stage in 0..2 {
        let mischief = Some((Mischief::Mute, Place { link: stage, frame: 0 }));
        let opening = Duration::from_secs(2);
        let Err(fault) = Split::made(Making { mischief, opening, ..Making::default() }) else {
            panic!("stage {stage} is silent");
        };
        let said = fault.to_string();
        let words = [format!("stage {stage} (layer"), "has not opened the model for 2 s".to_owned()];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}
