//! Each stage asks once after each of its steps whether its weights can still be read.

use crate::split::{Making, Split, generated};
use menagerie::model::ModelError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn every_stage_asks_once_per_step() {
    let asked: Arc<[AtomicUsize; 2]> = Arc::default();
    let counting = Arc::clone(&asked);
    let guard = move |stage: usize| {
        counting[stage].fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    let split = Split::made(Making { guard: Some(Arc::new(guard)), ..Making::default() }).unwrap();
    assert!(generated(&split.engine).unwrap() == generated(&split.whole).unwrap());
    // Four chunks of the prompt and three tokens.
    assert_eq!([0, 1].map(|stage| asked[stage].load(Ordering::Relaxed)), [7, 7]);
    split.end();
}

#[test]
fn a_stage_whose_weights_are_gone_is_named() {
    for gone in 0..2 {
        let guard = move |stage: usize| match stage == gone {
            true => Err(ModelError::Weights("model.gguf changed on disk while in use".to_owned())),
            false => Ok(()),
        };
        let split = Split::made(Making { guard: Some(Arc::new(guard)), ..Making::default() }).unwrap();
        let said = generated(&split.engine).unwrap_err();
        let words = [format!("stage {gone} (layer"), "model.gguf changed on disk while in use".to_owned()];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        split.end();
    }
}
