//! Sequences that are read from one pool and restored in another.

use super::memory::{pool, read, recurrent, rows, step, visible};
use super::*;
use crate::state::StateId;
use menagerie_formulas::KvType;

/// Rows that all stay, rows of a window of 6, and a block.
fn specs() -> Vec<StateSpec> {
    vec![rows("all", None), rows("near", Some(6)), recurrent("block")]
}

fn made(page_len: usize, sets: usize, tokens: usize) -> StatePool {
    let options = PoolOptions { page_len, sequences: 2, ..PoolOptions::one_sequence(KvType::F32, tokens) };
    pool(specs(), options.with_sets(sets))
}

/// A pool with a sequence of `tokens` tokens in its second place, and a snapshot of it at `at`.
fn filled(tokens: usize, at: usize) -> (StatePool, SequenceId, Snapshot) {
    let mut pool = made(4, 2, 40);
    let other = pool.create().unwrap();
    let sequence = pool.create().unwrap();
    step(&mut pool, other, &[9.0; 5]).unwrap();
    let mut snapshot = None;
    for position in 0..tokens {
        for set in 0..2 {
            pool.use_set(set).unwrap();
            pool.reserve(sequence, position, 1).unwrap();
            memory::store(&mut pool, sequence, position, &[(100 * set + position) as f32]).unwrap();
            pool.write_block(StateId(2), sequence, &[position as f32, set as f32, 7.0]).unwrap();
        }
        pool.advance(sequence, 1).unwrap();
        if position + 1 == at {
            snapshot = Some(pool.snapshot(sequence).unwrap());
        }
    }
    (pool, sequence, snapshot.unwrap())
}

/// [`StatePool::held`] of every state that has rows; 0 for the block.
fn firsts(pool: &StatePool, sequence: SequenceId) -> Vec<usize> {
    let first = |state| pool.held(StateId(state), sequence).map_or(0, |held| held.start);
    (0..3).map(first).collect()
}

/// Everything of a sequence, restored in `to`.
fn carry(
    from: &mut StatePool,
    sequence: SequenceId,
    snapshot: &Snapshot,
    to: &mut StatePool,
) -> (SequenceId, Snapshot) {
    let tokens = from.len(sequence).unwrap();
    let new = to.create().unwrap();
    to.refill(new, tokens, &firsts(from, sequence)).unwrap();
    for set in 0..2 {
        from.use_set(set).unwrap();
        to.use_set(set).unwrap();
        for state in [StateId(0), StateId(1)] {
            let held = from.held(state, sequence).unwrap();
            let bytes = from.read_rows(state, sequence, held.clone()).unwrap();
            assert_eq!(bytes.len(), held.len() * from.row_bytes(state).unwrap());
            to.write_rows(state, new, held.start, &bytes).unwrap();
        }
        let block = from.read_block(StateId(2), sequence).unwrap();
        to.write_block(StateId(2), new, &block).unwrap();
    }
    let copies = from.copies(snapshot).unwrap();
    let snapshot = to.put_snapshot(new, snapshot.tokens(), copies).unwrap();
    (new, snapshot)
}

#[test]
fn a_sequence_is_the_same_in_another_pool() {
    let mut went_back = 0;
    for tokens in [1, 4, 5, 17, 32] {
        let at = tokens.max(2) - 1;
        let (mut from, sequence, snapshot) = filled(tokens, at);
        let mut to = made(4, 2, 64);
        let other = to.create().unwrap();
        step(&mut to, other, &[3.0; 7]).unwrap();
        let (new, carried) = carry(&mut from, sequence, &snapshot, &mut to);
        for set in 0..2 {
            from.use_set(set).unwrap();
            to.use_set(set).unwrap();
            assert_eq!(read(&from, StateId(0), sequence), read(&to, StateId(0), new), "{tokens} tokens");
            let seen = (tokens + 1).saturating_sub(6);
            let near = |pool, sequence| visible(pool, StateId(1), sequence, seen);
            assert_eq!(near(&from, sequence), near(&to, new), "{tokens} tokens");
            let block = |pool: &StatePool, sequence| pool.read_block(StateId(2), sequence).unwrap();
            assert_eq!(block(&from, sequence), block(&to, new));
        }
        assert_eq!(from.shortest(sequence).unwrap(), to.shortest(new).unwrap());
        // Back, as far as the window allows, and on.
        let back = from.restore(sequence, &snapshot).is_ok();
        assert_eq!(to.restore(new, &carried).is_ok(), back);
        let len = if back { at } else { tokens };
        for set in 0..2 {
            from.use_set(set).unwrap();
            to.use_set(set).unwrap();
            let block = |pool: &StatePool, sequence| pool.read_block(StateId(2), sequence).unwrap();
            assert_eq!(block(&from, sequence), block(&to, new));
        }
        went_back += usize::from(back);
        step(&mut to, new, &[50.0, 51.0]).unwrap();
        assert_eq!(to.len(new).unwrap(), len + 2);
        to.free(new).unwrap();
    }
    assert!(went_back > 1);
}

#[test]
fn what_does_not_fit_is_refused_and_the_sequence_stays_empty() {
    let mut pool = made(4, 1, 24);
    let sequence = pool.create().unwrap();
    let refuse = |pool: &mut StatePool, tokens, first: &[usize], words: &str| {
        let said = pool.refill(sequence, tokens, first).unwrap_err().to_string();
        assert!(said.contains(words), "{said} instead of {words}");
        assert!(pool.is_empty(sequence).unwrap());
    };
    refuse(&mut pool, 25, &[0, 0, 0], "at most 24 tokens");
    refuse(&mut pool, 8, &[0, 0], "of 2 states");
    refuse(&mut pool, 20, &[0, 3, 0], "inside a page of 4 tokens");
    refuse(&mut pool, 20, &[0, 16, 0], "those from 15 on are visible");
    refuse(&mut pool, 20, &[4, 12, 0], "those from 0 on are visible");
    refuse(&mut pool, usize::MAX, &[0, 0, 0], "at most 24 tokens");
    pool.refill(sequence, 20, &[0, 12, 0]).unwrap();
    assert!(pool.refill(sequence, 20, &[0, 12, 0]).is_err(), "it has tokens");
    assert!(pool.write_rows(StateId(1), sequence, 8, &[0; 4]).is_err(), "rows before those that are held");
    assert!(pool.write_rows(StateId(0), sequence, 0, &[0; 5]).is_err(), "no whole row");
    assert!(pool.read_rows(StateId(1), sequence, 8..12).is_err());
    for (tokens, values) in [(21, vec![vec![0.0; 3]]), (5, vec![vec![0.0; 2]]), (5, vec![])] {
        assert!(pool.put_snapshot(sequence, tokens, values).is_err());
    }
    pool.put_snapshot(sequence, 20, vec![vec![0.0; 3]]).unwrap();
    assert!(pool.put_snapshot(sequence, 19, vec![vec![0.0; 3]]).is_err(), "shorter ones come first");
    // Nothing leaks: refused operations gave their pages back.
    let other = pool.create().unwrap();
    let said = pool.refill(other, 20, &[0, 12, 0]).unwrap_err().to_string();
    assert!(said.contains("are free"), "{said}");
    pool.free(sequence).unwrap();
    pool.refill(other, 20, &[0, 12, 0]).unwrap();
}
