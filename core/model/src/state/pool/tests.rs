//! Pools over a memory of one number per row: sharing, windows, snapshots, errors, and ten thousand random operations
//! beside a naive model.

mod memory;
mod naive;
mod stored;

use super::*;
use crate::state::StateId;
use memory::{Memory, pool, read, recurrent, rows, step, visible};
use menagerie_formulas::KvType;

const ROWS: StateId = StateId(0);
const BLOCK: StateId = StateId(1);

/// One state per token, one per sequence; room for 24 tokens in sequences of at most 24.
fn small(page_len: usize) -> StatePool {
    let options = PoolOptions { page_len, sequences: 3, ..PoolOptions::one_sequence(KvType::F32, 24) };
    pool(vec![rows("blk.0.k", None), recurrent("blk.1.s")], options)
}

fn write(pool: &mut StatePool, sequence: SequenceId, base: f32, count: usize) {
    let at = pool.len(sequence).unwrap();
    let values: Vec<f32> = (at..at + count).map(|position| base + position as f32).collect();
    step(pool, sequence, &values).unwrap();
}

#[test]
fn forks_share_until_one_writes() {
    for page_len in [1, 4, 5, 24] {
        let mut pool = small(page_len);
        let first = pool.create().unwrap();
        write(&mut pool, first, 0.0, 6);
        let held = pool.bytes();
        let second = pool.fork(first).unwrap();
        assert_eq!(pool.bytes(), held + 3 * 4, "a fork takes a block and no page");
        write(&mut pool, first, 100.0, 3);
        write(&mut pool, second, 200.0, 2);
        assert_eq!(
            read(&pool, ROWS, first),
            [0., 1., 2., 3., 4., 5., 106., 107., 108.],
            "pages of {page_len}"
        );
        assert_eq!(read(&pool, ROWS, second), [0., 1., 2., 3., 4., 5., 206., 207.], "pages of {page_len}");
        pool.free(first).unwrap();
        assert_eq!(read(&pool, ROWS, second), [0., 1., 2., 3., 4., 5., 206., 207.], "pages of {page_len}");
    }
}

#[test]
fn copies_of_blocks_are_put_back_and_rows_stay() {
    let mut pool = small(4);
    let first = pool.create().unwrap();
    write(&mut pool, first, 0.0, 3);
    pool.write_block(BLOCK, first, &[1.0, 2.0, 3.0]).unwrap();
    let copies = pool.keep_blocks(first).unwrap();
    write(&mut pool, first, 0.0, 2);
    pool.write_block(BLOCK, first, &[4.0, 5.0, 6.0]).unwrap();
    pool.put_blocks(first, &copies).unwrap();
    assert_eq!(pool.read_block(BLOCK, first).unwrap(), [1.0, 2.0, 3.0]);
    assert_eq!(read(&pool, ROWS, first), [0., 1., 2., 3., 4.]);
    pool.free(first).unwrap();
    assert!(pool.keep_blocks(first).is_err() && pool.put_blocks(first, &copies).is_err());
}

#[test]
fn freed_pages_are_used_again() {
    let mut pool = small(4);
    let first = pool.create().unwrap();
    write(&mut pool, first, 0.0, 24);
    let second = pool.create().unwrap();
    write(&mut pool, second, 50.0, 8);
    let error = pool.reserve(second, 8, 1).unwrap_err().to_string();
    assert!(error.contains("1 more pages of 4 tokens, but 0 of 8 are free (2 sequences"), "{error}");
    assert_eq!(read(&pool, ROWS, second).len(), 8, "what failed changed nothing");
    pool.free(first).unwrap();
    write(&mut pool, second, 50.0, 8);
    assert_eq!(pool.bytes(), 4 * 4 * 4 + 3 * 4);
}

#[test]
fn a_freed_sequence_is_not_the_next_one() {
    let mut pool = small(24);
    let first = pool.create().unwrap();
    pool.parts_mut::<Memory>().unwrap().1.fill(BLOCK, 0, 9.0);
    pool.free(first).unwrap();
    let second = pool.create().unwrap();
    assert_ne!(first, second);
    assert!(pool.len(first).is_err() && pool.is_empty(second).unwrap());
    assert_eq!(
        pool.parts::<Memory>().unwrap().1.read_block(BLOCK, 0).unwrap(),
        [0.0; 3],
        "a block is cleared"
    );
}

/// With the same place and as many tokens, another pool's sequence would be mistaken for one of its own.
#[test]
fn a_sequence_of_another_pool_is_unknown() {
    let (mut one, mut other) = (small(4), small(4));
    let (first, second) = (one.create().unwrap(), other.create().unwrap());
    write(&mut one, first, 0.0, 6);
    write(&mut other, second, 50.0, 6);
    assert_ne!(first, second);
    let error = other.reserve(first, 6, 1).unwrap_err().to_string();
    assert!(error.contains("sequence 0 does not exist") && error.contains("another pool"), "{error}");
    assert!(other.len(first).is_err() && other.truncate(first, 0).is_err() && other.free(first).is_err());
    let snapshot = one.snapshot(first).unwrap();
    other.snapshot(second).unwrap();
    assert!(other.restore(second, &snapshot).is_err());
    one.restore(first, &snapshot).unwrap();
}

#[test]
fn snapshots_notice_rows_that_were_written_over() {
    let mut pool = small(4);
    let sequence = pool.create().unwrap();
    write(&mut pool, sequence, 0.0, 5);
    pool.parts_mut::<Memory>().unwrap().1.write_block(BLOCK, 0, &[1.0, 2.0, 3.0]).unwrap();
    let snapshot = pool.snapshot(sequence).unwrap();
    write(&mut pool, sequence, 0.0, 3);
    pool.parts_mut::<Memory>().unwrap().1.fill(BLOCK, 0, 9.0);
    pool.restore(sequence, &snapshot).unwrap();
    let block = |pool: &StatePool| pool.parts::<Memory>().unwrap().1.read_block(BLOCK, 0).unwrap();
    assert_eq!((pool.len(sequence).unwrap(), block(&pool)), (5, vec![1.0, 2.0, 3.0]));
    pool.truncate(sequence, 0).unwrap();
    assert_eq!(block(&pool), [0.0; 3]);
    write(&mut pool, sequence, 70.0, 6);
    let error = pool.restore(sequence, &snapshot).unwrap_err().to_string();
    assert!(error.contains("out of date"), "{error}");
}

#[test]
fn a_snapshot_holds_for_forks_taken_after_it() {
    let mut pool = small(4);
    let first = pool.create().unwrap();
    write(&mut pool, first, 0.0, 5);
    pool.parts_mut::<Memory>().unwrap().1.fill(BLOCK, 0, 4.0);
    let snapshot = pool.snapshot(first).unwrap();
    write(&mut pool, first, 0.0, 2);
    let second = pool.fork(first).unwrap();
    pool.restore(second, &snapshot).unwrap();
    assert_eq!(read(&pool, ROWS, second), [0., 1., 2., 3., 4.]);
    assert_eq!(pool.parts::<Memory>().unwrap().1.read_block(BLOCK, 1).unwrap(), [4.0; 3]);
    let third = pool.create().unwrap();
    write(&mut pool, third, 0.0, 6);
    let error = pool.restore(third, &snapshot).unwrap_err().to_string();
    assert!(error.contains("of another sequence"), "{error}");
}

#[test]
fn marks_do_not_pile_up() {
    let mut pool = pool(vec![rows("k", None)], PoolOptions::one_sequence(KvType::F32, 64));
    let sequence = pool.create().unwrap();
    for _ in 0..1000 {
        write(&mut pool, sequence, 0.0, 9);
        pool.snapshot(sequence).unwrap();
        pool.snapshot(sequence).unwrap();
        pool.truncate(sequence, 3).unwrap();
    }
    assert!(pool.tables.sequence(sequence).unwrap().marks.is_empty());
}

#[test]
fn misuse_is_named() {
    let mut pool = small(24);
    let sequence = pool.create().unwrap();
    write(&mut pool, sequence, 0.0, 2);
    let error = |result: Result<()>| result.unwrap_err().to_string();
    assert!(
        error(pool.reserve(sequence, 1, 1)).contains("begins at position 1, but the sequence has 2 tokens")
    );
    assert!(error(pool.reserve(sequence, 2, 23)).contains("25 tokens do not fit into a context of 24"));
    assert!(error(pool.advance(sequence, 23)).contains("rows are prepared up to 24"));
    assert!(error(pool.truncate(sequence, 3)).contains("sequence 0: 2 tokens cannot be truncated to 3"));
    assert!(
        error(pool.truncate(sequence, 1))
            .contains("blk.1.s cannot go back from 2 tokens to 1; take a snapshot")
    );
    assert!(error(pool.tables.pages(BLOCK, sequence).map(drop)).contains("block per sequence, not rows"));
    assert!(error(pool.tables.block(ROWS, sequence).map(drop)).contains("rows per token, not a block"));
    assert!(
        error(pool.tables.dtype(StateId(2)).map(drop)).contains("state 2 was not declared; the pool has 2")
    );
    assert!(pool.parts::<String>().is_err());
    pool.create().unwrap();
    pool.create().unwrap();
    assert!(error(pool.create().map(drop)).contains("has 3 sequences, and all are in use"));
}

#[test]
fn rooms_that_cannot_be_are_refused() {
    let error = |spec: StateSpec, options: PoolOptions| options.memory(&[spec]).unwrap_err().to_string();
    let q8 = PoolOptions::one_sequence(KvType::Q8_0, 8);
    assert!(error(rows("blk.0.k", None), q8).contains("heads of 1 elements cannot be stored as q8_0"));
    let own = StateSpec::PerToken {
        name: "k".to_owned(),
        dtype: Some(KvType::F32),
        heads: 1,
        head_dim: 1,
        window: None,
    };
    assert_eq!(q8.memory(&[own]).unwrap(), 8 * 4, "a type of the state's own wins");
    let huge = PoolOptions::one_sequence(KvType::F32, usize::MAX / 4);
    assert!(error(rows("k", None), huge).contains("use a smaller context"));
    assert!(error(rows("k", Some(0)), q8).contains("a window of 0 tokens"));
    assert!(error(rows("k", None), PoolOptions { sequences: 0, ..q8 }).contains("a pool of 0 sequences"));
    let block = StateSpec::PerSequence { name: "s".to_owned(), shape: vec![usize::MAX, 2] };
    assert!(error(block, q8).contains("address space"));
}

#[test]
fn a_window_keeps_its_rows_and_no_more() {
    let options = PoolOptions { page_len: 4, step_tokens: 8, ..PoolOptions::one_sequence(KvType::F32, 4000) };
    let mut pool = pool(vec![rows("full", None), rows("window", Some(10))], options);
    let sequence = pool.create().unwrap();
    for chunk in 0..500 {
        write(&mut pool, sequence, 0.0, if chunk % 3 == 0 { 8 } else { 1 });
        let len = pool.len(sequence).unwrap();
        let from = (len + 1).saturating_sub(10);
        let expected: Vec<f32> = (from..len).map(|position| position as f32).collect();
        assert_eq!(visible(&pool, StateId(1), sequence, from), expected);
        let windowed = pool.tables.pages(StateId(1), sequence).unwrap().pages.len();
        assert!(windowed <= 4, "{windowed} pages for 9 tokens that a query still sees");
    }
    let len = pool.len(sequence).unwrap();
    assert_eq!(
        pool.bytes(),
        (len.div_ceil(4) + pool.tables.pages(StateId(1), sequence).unwrap().pages.len()) * 16
    );
}

#[test]
fn what_a_window_dropped_does_not_come_back() {
    let options = PoolOptions { page_len: 4, step_tokens: 8, ..PoolOptions::one_sequence(KvType::F32, 64) };
    let mut pool = pool(vec![rows("full", None), rows("window", Some(6))], options);
    let sequence = pool.create().unwrap();
    (0..5).for_each(|_| write(&mut pool, sequence, 0.0, 5));
    let early = pool.snapshot(sequence).unwrap();
    // A query after 25 tokens sees those from 20 on: the pages of the first 20 are gone.
    assert_eq!(pool.shortest(sequence).unwrap(), 25);
    write(&mut pool, sequence, 0.0, 2);
    pool.truncate(sequence, 25).unwrap();
    assert_eq!(visible(&pool, StateId(1), sequence, 20), [20., 21., 22., 23., 24.]);
    let error = pool.truncate(sequence, 24).unwrap_err().to_string();
    assert!(error.contains("25 tokens cannot go back to 24") && error.contains("truncate to 0"), "{error}");
    assert_eq!(pool.len(sequence).unwrap(), 25, "what failed changed nothing");
    write(&mut pool, sequence, 0.0, 5);
    assert!(pool.restore(sequence, &early).unwrap_err().to_string().contains("dropped rows"));
    pool.truncate(sequence, 0).unwrap();
    write(&mut pool, sequence, 40.0, 3);
    assert_eq!(read(&pool, StateId(1), sequence), [40., 41., 42.]);
}

/// 30 layers of which every sixth sees everything and the others 1,024 tokens (Gemma 3's pattern), 4 heads of 256, f16.
#[test]
fn a_context_of_windows_needs_the_memory_it_needs() {
    let spec = |layer: usize, part: &str| StateSpec::PerToken {
        name: format!("blk.{layer}.{part}"),
        dtype: None,
        heads: 4,
        head_dim: 256,
        window: (layer % 6 != 5).then_some(1024),
    };
    let specs: Vec<StateSpec> = (0..30).flat_map(|layer| [spec(layer, "k"), spec(layer, "v")]).collect();
    let options = PoolOptions::one_sequence(KvType::F16, 32_768).with_step_tokens(512);
    let row = 2 * 4 * 256 * 2;
    // 1,023 tokens that stay and 512 of a step lie on at most 7 pages of 256.
    let expected = 5 * 32_768 * row + 25 * 7 * 256 * row;
    assert_eq!(options.memory(&specs).unwrap(), expected);
    assert!(expected * 4 < 30 * 32_768 * row, "a quarter of what it takes without windows");
    // Eight sequences that share 32,768 tokens: eight windows and one step, not eight steps.
    let eight = PoolOptions { sequences: 8, max_sequence_tokens: 32_768, ..options };
    let windows = (8 * 5 + 2 + 7) * 256;
    assert_eq!(eight.memory(&specs).unwrap(), 5 * (32_768 + 7 * 256) * row + 25 * windows * row);
}

#[test]
fn runs_follow_the_pages() {
    let pages = Pages { first_page: 2, pages: &[7, 8, 3], page_len: 4 };
    let run = |row, len| RowRun { row, len };
    let runs = |positions| pages.runs(positions).map(Iterator::collect::<Vec<_>>);
    assert_eq!(runs(9..20).unwrap(), [run(29, 3), run(32, 4), run(12, 4)]);
    assert_eq!(runs(17..18).unwrap(), [run(13, 1)]);
    assert_eq!(runs(8..8).unwrap(), []);
    assert!(runs(7..9).unwrap_err().to_string().contains("pages exist for 8..20"));
    assert!(runs(19..21).is_err());
}
