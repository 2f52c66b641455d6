//! The state store: contiguous and paged are the same, and misuse is named.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie_kernels::KvType;
use menagerie_model::{SequenceId, StateId, StateSpec, StateStore};

const ROWS: StateId = StateId(0);
const BLOCK: StateId = StateId(1);

fn specs() -> Vec<StateSpec> {
    vec![
        StateSpec::PerToken { name: "blk.0.k".to_owned(), heads: 2, head_dim: 2, window: None },
        StateSpec::PerSequence { name: "blk.1.s".to_owned(), shape: vec![3] },
    ]
}

fn store(page_len: usize) -> StateStore {
    StateStore::new(specs(), KvType::F32, 24, page_len).unwrap()
}

/// Row `position` holds `base + position` four times.
fn write(store: &mut StateStore, sequence: SequenceId, base: f32, count: usize) {
    let at = store.len(sequence).unwrap();
    let values: Vec<f32> = (at..at + count).flat_map(|p| [base + p as f32; 4]).collect();
    store.write_rows(ROWS, sequence, at, &values).unwrap();
    store.advance(sequence, count).unwrap();
}

fn read(store: &StateStore, sequence: SequenceId) -> Vec<f32> {
    let rows = store.rows(ROWS, sequence).unwrap();
    let value = |position: usize| {
        let row = rows.pages[position / rows.page_len] as usize * rows.page_len + position % rows.page_len;
        let bytes = &rows.bytes[row * 16 + 12..row * 16 + 16];
        f32::from_le_bytes(bytes.try_into().unwrap())
    };
    (0..store.len(sequence).unwrap()).map(value).collect()
}

#[test]
fn forks_share_until_one_writes() {
    for page_len in [1, 4, 5, 24] {
        let mut store = store(page_len);
        let first = store.create().unwrap();
        write(&mut store, first, 0.0, 6);
        let second = store.fork(first).unwrap();
        write(&mut store, first, 100.0, 3);
        write(&mut store, second, 200.0, 2);
        assert_eq!(read(&store, first), [0., 1., 2., 3., 4., 5., 106., 107., 108.], "pages of {page_len}");
        assert_eq!(read(&store, second), [0., 1., 2., 3., 4., 5., 206., 207.], "pages of {page_len}");
        store.free(first).unwrap();
        assert_eq!(read(&store, second), [0., 1., 2., 3., 4., 5., 206., 207.], "pages of {page_len}");
    }
}

#[test]
fn freed_pages_are_used_again() {
    let mut store = store(4);
    let first = store.create().unwrap();
    write(&mut store, first, 0.0, 20);
    let second = store.create().unwrap();
    write(&mut store, second, 50.0, 4);
    let error = store.write_rows(ROWS, second, 4, &[0.0; 4]).unwrap_err().to_string();
    assert!(error.contains("all 6 pages of 4 tokens are in use"), "{error}");
    store.free(first).unwrap();
    write(&mut store, second, 50.0, 8);
    assert_eq!(store.bytes(), 3 * 4 * 16 + 3 * 4);
}

#[test]
fn a_freed_sequence_is_not_the_next_one() {
    let mut store = store(24);
    let first = store.create().unwrap();
    store.free(first).unwrap();
    let second = store.create().unwrap();
    assert_ne!(first, second);
    assert!(store.len(first).is_err() && store.is_empty(second).unwrap());
}

#[test]
fn snapshots_notice_rows_that_were_written_over() {
    let mut store = store(4);
    let sequence = store.create().unwrap();
    write(&mut store, sequence, 0.0, 5);
    store.get_mut(BLOCK, sequence).unwrap().copy_from_slice(&[1.0, 2.0, 3.0]);
    let snapshot = store.snapshot(sequence).unwrap();
    write(&mut store, sequence, 0.0, 3);
    store.get_mut(BLOCK, sequence).unwrap().fill(9.0);
    store.restore(sequence, &snapshot).unwrap();
    assert_eq!(
        (store.len(sequence).unwrap(), store.get(BLOCK, sequence).unwrap()),
        (5, &[1.0, 2.0, 3.0][..])
    );
    store.truncate(sequence, 0).unwrap();
    assert_eq!(store.get(BLOCK, sequence).unwrap(), [0.0; 3]);
    write(&mut store, sequence, 70.0, 6);
    let error = store.restore(sequence, &snapshot).unwrap_err().to_string();
    assert!(error.contains("out of date"), "{error}");
}

#[test]
fn misuse_is_named() {
    let mut store = store(24);
    let sequence = store.create().unwrap();
    write(&mut store, sequence, 0.0, 2);
    let error = |result: menagerie_model::Result<()>| result.unwrap_err().to_string();
    assert!(error(store.write_rows(ROWS, sequence, 1, &[0.0; 4])).contains("already committed"));
    assert!(error(store.write_rows(BLOCK, sequence, 2, &[0.0; 4])).contains("block per sequence, no rows"));
    assert!(error(store.write_rows(ROWS, sequence, 2, &[0.0; 5])).contains("not rows of 4"));
    assert!(error(store.truncate(sequence, 3)).contains("cannot truncate 2 tokens to 3"));
    assert!(error(store.truncate(sequence, 1)).contains("take a snapshot"));
    assert!(error(store.advance(sequence, 23)).contains("context of 24"));
    assert!(
        StateStore::new(specs(), KvType::Q8_0, 8, 8)
            .is_err_and(|e| e.to_string().contains("choose f16 or f32"))
    );
    assert!(StateStore::new(specs(), KvType::F32, usize::MAX / 4, usize::MAX).is_err());
}
