//! A stage checks the memory that the states of a request need before it allocates any.

use crate::split::{Making, Part, Split, TOKENS, computed_part, generated};
use menagerie::model::{Executor, PoolOptions, StatePool};

/// Memory for the states in a stage: far more than the request of [`generated`] needs.
const LIMIT: u64 = 64 << 20;

fn limited() -> Split {
    Split::made(Making { state_memory: Some(LIMIT), ..Making::default() })
        .unwrap_or_else(|fault| panic!("{fault}"))
}

/// Opens a request with these options, and computes a prompt in it.
fn opened(split: &Split, options: PoolOptions) -> Result<StatePool, String> {
    let mut pool = split.chain.pool(&split.engine.compute, options).unwrap();
    let sequence = pool.create().unwrap();
    let part = Part { sequence, first: 0, tokens: &TOKENS, wants: 1 };
    match computed_part(&split.engine, &mut pool, part, None) {
        Ok(_) => Ok(pool),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn sizes_that_a_stage_has_no_memory_for_are_refused() {
    let split = limited();
    let small = PoolOptions::one_sequence(split.engine.kv_type, 64);
    let tokens = 1 << 26;
    let all = PoolOptions { capacity_tokens: tokens, max_sequence_tokens: tokens, ..small };
    for (options, words) in [
        (all, "are available in this stage"),
        (PoolOptions { sequences: 1 << 17, ..small }, "131072 sequences, at most 65536 are supported"),
        (small.with_sets(9), "9 state sets, at most 8 are supported"),
    ] {
        let error = opened(&split, options).map(drop).unwrap_err();
        assert!(error.contains("stage 0 (layer") && error.contains(words), "{error}");
        assert!(opened(&split, small).is_ok());
    }
    assert!(generated(&split.engine).unwrap() == generated(&split.whole).unwrap());
    split.end();
}

#[test]
fn all_requests_of_a_stage_share_its_memory() {
    let split = limited();
    let options = PoolOptions::one_sequence(split.engine.kv_type, 1 << 14);
    let mut open = Vec::new();
    let error = loop {
        assert!(open.len() < 4000, "no request is refused");
        match opened(&split, options) {
            Ok(pool) => open.push(pool),
            Err(error) => break error,
        }
    };
    assert!(!open.is_empty() && error.contains("are available in this stage"), "{error}");
    // The memory of requests that have ended is available again.
    open.clear();
    assert!(opened(&split, options).is_ok());
    split.end();
}
