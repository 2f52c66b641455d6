//! Ten thousand random operations on a pool, compared with a model of it that keeps whole copies and no pages.

use super::memory::{Memory, layout, pool, recurrent, rows, store, visible};
use crate::state::{PoolOptions, SequenceId, Snapshot, StateBacking, StateId, StatePool, StateSpec};
use menagerie_formulas::KvType;
use menagerie_random::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: usize = 4;
const CAPACITY: usize = 96;
const LONGEST: usize = 60;
const STEP: usize = 10;
const SEQUENCES: usize = 5;
const APART: f32 = 0.25;
const WINDOWS: [Option<usize>; 4] = [None, Some(7), None, Some(1)];

/// A sequence as it should be.
#[derive(Clone, Default)]
struct Naive {
    rows: Vec<f32>,
    block: f32,
    /// By window: rows before this one are dropped, in whole pages.
    dropped: [usize; WINDOWS.len()],
    /// Snapshots that must be valid.
    snapshots: BTreeSet<usize>,
    /// Lengths and marks of the snapshots whose windows are retained.
    retained: BTreeSet<(usize, u64)>,
}

struct Kept {
    snapshot: Snapshot,
    rows: Vec<f32>,
    block: f32,
}

struct World {
    pool: StatePool,
    naive: BTreeMap<SequenceId, Naive>,
    snapshots: Vec<Kept>,
    random: SplitMix64,
    next_value: f32,
    block: Option<StateId>,
    /// Whether snapshots retain the pages that windows show.
    retaining: bool,
    /// State sets: set `n` holds the values of the naive pool plus [`APART`] times `n`.
    sets: usize,
    /// How often each operation was refused, so that the test shows that every refusal occurred.
    refused: BTreeMap<&'static str, usize>,
}

impl Naive {
    fn first_visible(&self, window: Option<usize>, len: usize) -> usize {
        window.map_or(0, |window| (len + 1).saturating_sub(window))
    }

    fn can_go_to(&self, len: usize) -> bool {
        let seen = |(window, dropped): (&Option<usize>, &usize)| self.first_visible(*window, len) >= *dropped;
        len == 0 || WINDOWS.iter().zip(&self.dropped).all(seen)
    }

    fn cut(&mut self, len: usize, kept: &[Kept]) {
        self.rows.truncate(len);
        self.snapshots.retain(|index| kept[*index].snapshot.tokens() <= len);
        self.retained.retain(|(tokens, _)| *tokens <= len);
        if len == 0 {
            self.dropped = [0; WINDOWS.len()];
        }
    }
}

impl World {
    fn new(has_block: bool, sets: usize, retaining: bool) -> Self {
        let mut specs: Vec<StateSpec> = WINDOWS.iter().map(|window| rows("rows", *window)).collect();
        let block = has_block.then_some(StateId(specs.len()));
        specs.extend(has_block.then(|| recurrent("block")));
        let options = PoolOptions {
            kv_type: KvType::F32,
            capacity_tokens: CAPACITY,
            page_len: PAGE,
            max_sequence_tokens: LONGEST,
            sequences: SEQUENCES,
            step_tokens: STEP,
            sets,
        };
        Self {
            pool: pool(specs, options),
            naive: BTreeMap::new(),
            snapshots: Vec::new(),
            random: SplitMix64::new(1),
            next_value: 1.0,
            block,
            retaining,
            sets,
            refused: BTreeMap::new(),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end)
    }

    fn any(&mut self) -> Option<SequenceId> {
        let ids: Vec<SequenceId> = self.naive.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[self.below(ids.len())])
    }

    fn refuse(&mut self, what: &'static str) {
        *self.refused.entry(what).or_default() += 1;
    }

    fn operate(&mut self) {
        let Some(id) = self.any() else { return self.create() };
        match self.below(20) {
            0 => self.create(),
            1..=9 => self.step(),
            // More snapshots, so that retained pages often leave no room for a step.
            10 if self.retaining => self.snapshot(id),
            10..=12 => self.truncate(id),
            13 => self.fork(id),
            14..=15 => self.snapshot(id),
            16..=18 => self.restore(id),
            _ => {
                self.pool.free(id).unwrap();
                self.naive.remove(&id);
                assert!(self.pool.len(id).is_err());
            }
        }
    }

    fn create(&mut self) {
        let full = self.naive.len() == SEQUENCES;
        let created = self.pool.create();
        assert_eq!(created.is_err(), full);
        match created {
            Ok(id) => assert!(self.naive.insert(id, Naive::default()).is_none()),
            Err(_) => self.refuse("create"),
        }
    }

    /// A step of some sequences; sometimes it fails after it was prepared.
    fn step(&mut self) {
        let mut parts: Vec<(SequenceId, usize, usize)> = Vec::new();
        let mut left = STEP;
        for id in self.naive.keys().copied().collect::<Vec<_>>() {
            let count = if self.below(2) == 0 { 1 } else { 1 + self.below(6) };
            if count <= left && self.below(3) > 0 {
                parts.push((id, self.naive[&id].rows.len(), count));
                left -= count;
            }
        }
        let foreseen = match parts[..] {
            [(id, _, count)] => Some(self.pool.has_room(id, count).unwrap()),
            _ => None,
        };
        let prepared = self.pool.prepare(&layout(&parts));
        let too_long = prepared.as_ref().is_err_and(|error| error.to_string().contains("context"));
        assert!(foreseen.is_none_or(|room| too_long || room == prepared.is_ok()), "room for {parts:?}");
        if let Err(error) = prepared {
            return self.refused_step(&parts, &error.to_string());
        }
        let fails = self.below(10) == 0;
        for (id, at, count) in parts {
            let values: Vec<f32> = (0..count).map(|index| self.next_value + index as f32).collect();
            self.next_value += count as f32;
            self.store(id, at, &values);
            if fails {
                // Rows past the length do not count; a block would have to be restored.
                self.cut_back(id);
                continue;
            }
            self.pool.advance(id, count).unwrap();
            let naive = self.naive.get_mut(&id).unwrap();
            naive.rows.extend(&values);
            let len = naive.rows.len();
            for (index, window) in WINDOWS.iter().enumerate() {
                let first = naive.first_visible(*window, len) / PAGE * PAGE;
                naive.dropped[index] = naive.dropped[index].max(first);
            }
            if let Some(block) = self.block {
                naive.block = values[0];
                let place = self.pool.tables.block(block, id).unwrap();
                for set in 0..self.sets {
                    self.pool.use_set(set).unwrap();
                    let value = values[0] + APART * set as f32;
                    self.pool.parts_mut::<Memory>().unwrap().1.fill(block, place, value);
                }
            }
        }
    }

    fn store(&mut self, id: SequenceId, at: usize, values: &[f32]) {
        for set in 0..self.sets {
            self.pool.use_set(set).unwrap();
            let own: Vec<f32> = values.iter().map(|value| value + APART * set as f32).collect();
            store(&mut self.pool, id, at, &own).unwrap();
        }
    }

    fn refused_step(&mut self, parts: &[(SequenceId, usize, usize)], error: &str) {
        let ends: usize = parts.iter().map(|(_, _, count)| count).sum();
        let all: usize = self.naive.values().map(|naive| naive.rows.len()).sum::<usize>() + ends;
        if error.contains("do not fit into a context") {
            assert!(parts.iter().any(|(_, at, count)| at + count > LONGEST), "{error}");
            self.refuse("length");
        } else if self.retaining && error.contains("window") {
            self.release_all();
            let prepared = self.pool.prepare(&layout(parts));
            let lacks_windows = prepared.is_err_and(|error| error.to_string().contains("window"));
            assert!(!lacks_windows, "what is retained stands in the way of no step");
            self.refuse("windows");
        } else {
            assert!(!error.contains("window"), "windows have room for every step: {error}");
            assert!(error.contains("more pages") && all > CAPACITY, "{all} tokens fit: {error}");
            self.refuse("pages");
        }
        for (id, _, _) in parts {
            self.cut_back(*id);
        }
    }

    fn release_all(&mut self) {
        for (id, naive) in &mut self.naive {
            let marks = std::mem::take(&mut naive.retained);
            for kept in self.snapshots.iter().filter(|kept| marks.contains(&mark(&kept.snapshot))) {
                self.pool.release(*id, &kept.snapshot).unwrap();
            }
        }
    }

    fn cut_back(&mut self, id: SequenceId) {
        let len = self.naive[&id].rows.len();
        self.pool.truncate(id, len).unwrap();
        if len == 0 {
            self.naive.get_mut(&id).unwrap().block = 0.0;
            self.naive.get_mut(&id).unwrap().cut(0, &self.snapshots);
        }
    }

    fn truncate(&mut self, id: SequenceId) {
        let held = self.naive[&id].rows.len();
        let len = [0, self.below(held + 2), held.saturating_sub(self.below(4))][self.below(3)];
        let naive = &self.naive[&id];
        let allowed = len <= held
            && (len == 0 || len == held || self.block.is_none())
            && (len == held || naive.can_go_to(len));
        let shortest = self.pool.shortest(id).unwrap();
        assert!(
            len > held || len == 0 || allowed == (len >= shortest),
            "{len} of {held}, shortest {shortest}"
        );
        assert_eq!(self.pool.truncate(id, len).is_ok(), allowed, "{held} to {len}");
        if !allowed {
            return self.refuse("truncate");
        }
        let naive = self.naive.get_mut(&id).unwrap();
        naive.cut(len, &self.snapshots);
        if len == 0 {
            naive.block = 0.0;
        }
    }

    fn fork(&mut self, id: SequenceId) {
        match self.pool.fork(id) {
            Ok(twin) => assert!(self.naive.insert(twin, self.naive[&id].clone()).is_none()),
            Err(_) => {
                assert_eq!(self.naive.len(), SEQUENCES);
                self.refuse("fork");
            }
        }
    }

    fn snapshot(&mut self, id: SequenceId) {
        let snapshot = self.pool.snapshot(id).unwrap();
        let retains = self.retaining && self.below(4) > 0;
        let naive = self.naive.get_mut(&id).unwrap();
        assert_eq!(snapshot.tokens(), naive.rows.len());
        if retains {
            self.pool.retain(id, &snapshot).unwrap();
            naive.retained.insert(mark(&snapshot));
        }
        naive.snapshots.insert(self.snapshots.len());
        self.snapshots.push(Kept { snapshot, rows: naive.rows.clone(), block: naive.block });
    }

    fn restore(&mut self, id: SequenceId) {
        if self.snapshots.is_empty() {
            return;
        }
        let recent = self.snapshots.len().min(12);
        let index = self.snapshots.len() - 1 - self.below(recent);
        let kept = &self.snapshots[index];
        let naive = self.naive.get_mut(&id).unwrap();
        let len = kept.rows.len();
        let retained = naive.retained.contains(&mark(&kept.snapshot));
        let there = retained || naive.can_go_to(len);
        let (must, may) =
            (there && naive.snapshots.contains(&index), there && naive.rows.starts_with(&kept.rows));
        let restored = self.pool.restore(id, &kept.snapshot).is_ok();
        assert!(restored || !must, "a snapshot of {len} tokens holds");
        assert!(may || !restored, "a snapshot of {len} tokens is out of date");
        if !restored {
            return self.refuse("restore");
        }
        if retained {
            let shown = |window: &Option<usize>| naive.first_visible(*window, len) / PAGE * PAGE;
            naive.dropped = WINDOWS.each_ref().map(shown);
        }
        naive.cut(len, &self.snapshots);
        naive.block = self.snapshots[index].block;
    }

    fn check(&mut self) {
        for set in 0..self.sets {
            self.pool.use_set(set).unwrap();
            self.check_set(APART * set as f32);
        }
    }

    fn check_set(&self, apart: f32) {
        let mut pages = vec![BTreeSet::<u32>::new(); WINDOWS.len()];
        for (&id, naive) in &self.naive {
            assert_eq!(self.pool.len(id).unwrap(), naive.rows.len());
            for (index, window) in WINDOWS.iter().enumerate() {
                let from = naive.first_visible(*window, naive.rows.len());
                let wanted: Vec<f32> = naive.rows[from..].iter().map(|row| row + apart).collect();
                assert_eq!(visible(&self.pool, StateId(index), id, from), wanted, "{window:?}");
                let held = self.pool.tables.pages(StateId(index), id).unwrap();
                pages[index].extend(held.pages);
            }
            for mark in &self.pool.tables.sequence(id).unwrap().marks {
                let groups = self.pool.tables.groups.iter().zip(&mark.retained);
                groups.for_each(|(group, table)| pages[group.states[0].0].extend(&table.pages));
            }
            if let Some(block) = self.block {
                let place = self.pool.tables.block(block, id).unwrap();
                let values = self.pool.parts::<Memory>().unwrap().1.read_block(block, place).unwrap();
                // A block that was not written since it was cleared is zero in every set.
                let wanted = if naive.block == 0.0 { 0.0 } else { naive.block + apart };
                assert_eq!(values, [wanted; 3]);
            }
        }
        assert_eq!(pages[0], pages[2], "states with equal windows share tables");
        let blocks = self.block.map_or(0, |_| 12 * self.naive.len());
        let used: usize = pages.iter().map(BTreeSet::len).sum();
        assert_eq!(
            self.pool.bytes(),
            self.sets * (used * PAGE * 4 + blocks),
            "every page in use is somebody's"
        );
    }
}

/// The key that distinguishes the snapshots of a sequence.
fn mark(snapshot: &Snapshot) -> (usize, u64) {
    (snapshot.len, snapshot.mark)
}

fn run(has_block: bool, sets: usize, retaining: bool) {
    let mut world = World::new(has_block, sets, retaining);
    for _ in 0..10_000 {
        world.operate();
        world.check();
    }
    let windows = retaining.then_some("windows");
    let expected = ["create", "fork", "length", "pages", "restore", "truncate"].into_iter().chain(windows);
    assert!(world.refused.keys().copied().eq(expected), "{:?}", world.refused);
    // Often enough that another sequence of random numbers has every refusal too.
    assert!(world.refused.values().all(|times| *times >= 10), "{:?}", world.refused);
    // No page is lost: the whole capacity is available again.
    for id in world.naive.keys().copied().collect::<Vec<_>>() {
        world.pool.free(id).unwrap();
    }
    assert_eq!(world.pool.bytes(), 0);
    let (first, second) = (world.pool.create().unwrap(), world.pool.create().unwrap());
    world.pool.reserve(first, 0, LONGEST).unwrap_err();
    world.pool.reserve(first, 0, STEP).unwrap();
    world.pool.reserve(second, 0, STEP).unwrap();
}

#[test]
fn ten_thousand_operations_are_what_a_naive_pool_says() {
    run(false, 1, false);
}

#[test]
fn ten_thousand_operations_with_a_recurrent_state_are_too() {
    run(true, 1, false);
}

#[test]
fn ten_thousand_operations_on_two_sets_are_too() {
    run(true, 2, false);
    run(false, 2, false);
}

#[test]
fn ten_thousand_operations_with_what_windows_showed_are_too() {
    run(false, 1, true);
    run(true, 2, true);
}

#[test]
fn a_set_that_is_not_there_is_refused() {
    let mut world = World::new(false, 2, false);
    assert!(
        world.pool.use_set(2).unwrap_err().to_string().contains("state set 2 does not exist: the pool has 2")
    );
}
