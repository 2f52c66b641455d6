//! A tiny model built from components: its results are right, and the same however it is run.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie_model::components::RopeDeclarations;
use menagerie_model::{
    Arithmetic, BlockStack, Branch, Checkpoint, DenseLinear, Effect, FeedForward, HookInput, Hooks,
    LayerHook, Linear, LinearInput, ModelError, Norm, Param, Raw, Result, Rows, SequenceMixer,
    StateDeclarations, StateId, StateSpec, TransformContext, Weight, WeightShape,
};
use menagerie_testkit::session::Feed;
use menagerie_testkit::{
    Declared, Session, SplitMix64, TinyModel, TinyShape, assert_close, assert_equal_bits, cpu_backend, naive,
};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

const CAPACITY: usize = 64;

fn tiny() -> TinyModel {
    TinyModel::new(TinyShape::default(), 7)
}

fn tokens(count: usize, seed: u64) -> Vec<u32> {
    SplitMix64::new(seed).tokens(count, TinyShape::default().vocabulary)
}

fn assert_rows_close(what: &str, found: &[Vec<f32>], expected: &[Vec<f32>]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_close(&format!("{what}, row {index}"), found, expected, 2e-5);
    }
}

fn assert_rows_equal(what: &str, found: &[Vec<f32>], expected: &[Vec<f32>]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_equal_bits(&format!("{what}, row {index}"), found, expected);
    }
}

#[test]
fn logits_are_those_of_the_naive_model() {
    let tiny = tiny();
    let model = tiny.to_model().unwrap();
    let tokens = tokens(23, 1);
    let mut session = Session::exact(&model, 2, CAPACITY, CAPACITY).unwrap();
    let sequence = session.states.create().unwrap();
    let found = session.feed(sequence, &tokens).unwrap();
    assert_rows_close("prefill", &found, &naive::logits(&tiny, &tokens));
}

#[test]
fn a_prompt_in_chunks_and_token_by_token_gives_the_same() {
    let tiny = tiny();
    let model = tiny.to_model().unwrap();
    let tokens = tokens(23, 2);
    let expected = naive::logits(&tiny, &tokens);
    for sizes in [vec![5, 1, 9, 8], vec![1; 23], vec![22, 1], vec![2, 21]] {
        let mut session = Session::exact(&model, 1, CAPACITY, CAPACITY).unwrap();
        let sequence = session.states.create().unwrap();
        let mut found = Vec::new();
        let mut start = 0;
        for size in &sizes {
            found.extend(session.feed(sequence, &tokens[start..start + size]).unwrap());
            start += size;
        }
        assert_rows_close(&format!("chunks of {sizes:?}"), &found, &expected);
    }
}

/// Bit-equal whichever other sequences share a step.
#[test]
fn two_sequences_in_one_step_are_each_alone() {
    let model = tiny().to_model().unwrap();
    let (first, second) = (tokens(9, 3), tokens(14, 4));
    let alone = |tokens: &[u32]| {
        let mut session = Session::exact(&model, 1, CAPACITY, CAPACITY).unwrap();
        let sequence = session.states.create().unwrap();
        let mut rows = session.feed(sequence, &tokens[..5]).unwrap();
        rows.extend(session.feed(sequence, &tokens[5..]).unwrap());
        rows
    };
    let mut session = Session::exact(&model, 2, CAPACITY, CAPACITY).unwrap();
    let (a, b) = (session.states.create().unwrap(), session.states.create().unwrap());
    let mut found = [Vec::new(), Vec::new()];
    for (x, y) in [(&first[..5], &second[..5]), (&first[5..], &second[5..])] {
        let feeds = [
            Feed { sequence: a, tokens: x, total: 9, adapters: None },
            Feed { sequence: b, tokens: y, total: 14, adapters: None },
        ];
        let step = session.step(&feeds).unwrap();
        found.iter_mut().zip(step).for_each(|(all, rows)| all.extend(rows));
    }
    assert_rows_equal("first", &found[0], &alone(&first));
    assert_rows_equal("second", &found[1], &alone(&second));
}

#[test]
fn a_paged_store_is_a_contiguous_one() {
    let model = tiny().to_model().unwrap();
    let tokens = tokens(30, 5);
    let run = |page_len: usize| {
        let mut session = Session::exact(&model, 2, CAPACITY, page_len).unwrap();
        let other = session.states.create().unwrap();
        session.feed(other, &tokens[..3]).unwrap();
        let sequence = session.states.create().unwrap();
        let mut rows = session.feed(sequence, &tokens[..20]).unwrap();
        // The other sequence takes pages in between.
        session.feed(other, &tokens[3..12]).unwrap();
        session.states.truncate(sequence, 17).unwrap();
        rows.truncate(17);
        rows.extend(session.feed(sequence, &tokens[17..]).unwrap());
        rows
    };
    let contiguous = run(CAPACITY);
    for page_len in [1, 4, 7] {
        assert_rows_equal(&format!("pages of {page_len}"), &run(page_len), &contiguous);
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let model = tiny().to_model().unwrap();
    let tokens = tokens(31, 6);
    let run = |threads: usize| {
        let mut session = Session::exact(&model, threads, CAPACITY, CAPACITY).unwrap();
        let sequence = session.states.create().unwrap();
        let mut rows = session.feed(sequence, &tokens[..30]).unwrap();
        rows.extend(session.feed(sequence, &tokens[30..]).unwrap());
        rows
    };
    assert_rows_equal("three threads", &run(3), &run(1));
}

/// An adapter: the product that it wraps, plus its own.
struct Adapted {
    base: DenseLinear,
    delta: DenseLinear,
}

impl Linear for Adapted {
    fn in_features(&self) -> usize {
        self.base.in_features()
    }

    fn out_features(&self) -> usize {
        self.base.out_features()
    }

    fn forward(&self, x: &LinearInput, context: &TransformContext) -> Result<Rows> {
        let base = self.base.forward(x, context)?;
        context.compute.backend.add(base, &self.delta.forward(x, context)?)
    }
}

fn matrix(values: &[f32], rows: usize, cols: usize) -> Param {
    let weight = Weight::from_f32("delta", values, WeightShape { count: 1, rows, cols }).unwrap();
    cpu_backend(1).unwrap().matrix(&weight, Arithmetic::Exact).unwrap()
}

#[test]
fn a_wrapped_linear_acts_as_the_sum_of_weights() {
    let tiny = tiny();
    let wrapped = ["attn_q", "attn_output", "ffn_up", "ffn_down"];
    let mut merged = tiny.clone();
    let mut deltas = std::collections::BTreeMap::new();
    let mut random = SplitMix64::new(99);
    for role in wrapped {
        let (dims, values) = merged.tensors.get_mut(&format!("blk.1.{role}.weight")).unwrap();
        let delta = random.values(values.len(), 0.0, 0.2);
        values.iter_mut().zip(&delta).for_each(|(w, d)| *w += d);
        deltas.insert(role, matrix(&delta, dims[1], dims[0]));
    }
    let wrap = |layer: usize, role: &str, base: DenseLinear| -> Box<dyn Linear> {
        match deltas.get(role).filter(|_| layer == 1) {
            Some(delta) => Box::new(Adapted { base, delta: DenseLinear::new(delta.clone(), None).unwrap() }),
            None => Box::new(base),
        }
    };
    let model = tiny.to_wrapped_model(&*cpu_backend(1).unwrap(), &wrap).unwrap();
    let tokens = tokens(12, 8);
    let mut session = Session::exact(&model, 1, CAPACITY, CAPACITY).unwrap();
    let sequence = session.states.create().unwrap();
    let found = session.feed(sequence, &tokens).unwrap();
    assert_rows_close("adapted", &found, &naive::logits(&merged, &tokens));
}

/// Adds the running mean of all rows of the sequence so far: a state per sequence next to the attention's.
struct RunningSum {
    state: StateId,
}

impl SequenceMixer for RunningSum {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let width = x.cols();
        let x = context.compute.backend.read(x)?.into_owned();
        let mut out = vec![0.0; x.len()];
        for part in context.layout.sequences() {
            let mut sums = context.states.read_block(self.state, part.sequence)?;
            for row in part.rows.clone() {
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum += x[row * width + column];
                    out[row * width + column] = *sum * 0.1;
                }
            }
            context.states.write_block(self.state, part.sequence, &sums)?;
        }
        context.compute.backend.upload(out, width)
    }
}

struct Nothing;

impl Norm for Nothing {
    fn forward(&self, x: &Rows, context: &TransformContext) -> Result<Rows> {
        context.compute.backend.copy(x)
    }
}

/// A feed-forward with states of its own, besides the mixer's.
struct Zero;

impl FeedForward for Zero {
    fn forward(&self, x: &Rows, _raw: Raw, context: &mut TransformContext) -> Result<Rows> {
        context.compute.backend.upload(vec![0.0; x.rows() * x.cols()], x.cols())
    }
}

fn model_with_running_sum() -> menagerie_model::WholeModel {
    let tiny = tiny();
    let mut states = StateDeclarations::default();
    let mut ropes = RopeDeclarations::default();
    let backend = cpu_backend(1).unwrap();
    let mut declared = Declared { states: &mut states, ropes: &mut ropes };
    let attention = tiny.block(0, &*backend, &|_, _, linear| Box::new(linear), &mut declared).unwrap();
    let shape = vec![tiny.shape.width];
    let state = states.declare(StateSpec::PerSequence { name: "running".to_owned(), shape });
    let second = menagerie_model::TransformerBlock::new(
        Some(Branch::new(Some(Nothing), RunningSum { state })),
        Some(Branch::new(Some(Nothing), Zero)),
    );
    let layers: Vec<Box<dyn menagerie_model::Layer>> = vec![Box::new(attention), Box::new(second)];
    tiny.around(0..2, &*backend, BlockStack::new(0, layers, states)).unwrap()
}

#[test]
fn a_second_state_is_kept_snapshot_and_restored() {
    let model = model_with_running_sum();
    assert_eq!(model.body.stack.states().len(), 3);
    let tokens = tokens(20, 9);
    let mut session = Session::exact(&model, 1, CAPACITY, 8).unwrap();
    let whole = session.states.create().unwrap();
    let expected = session.feed(whole, &tokens).unwrap();
    let sequence = session.states.create().unwrap();
    session.feed(sequence, &tokens[..12]).unwrap();
    let snapshot = session.states.snapshot(sequence).unwrap();
    let first = session.feed(sequence, &tokens[12..]).unwrap();
    assert_rows_close("in two steps", &first, &expected[12..]);
    let error = session.states.truncate(sequence, 12).unwrap_err().to_string();
    assert!(error.contains("snapshot"), "{error}");
    session.states.restore(sequence, &snapshot).unwrap();
    let again = session.feed(sequence, &tokens[12..]).unwrap();
    assert_rows_equal("after restoring", &again, &first);
    let twin = session.states.fork(sequence).unwrap();
    let more = session.feed(sequence, &tokens[..4]).unwrap();
    assert_rows_equal("a fork", &session.feed(twin, &tokens[..4]).unwrap(), &more);
}

/// Records the rows that it receives, and doubles the rows after layer 0.
#[derive(Default)]
struct Watcher {
    seen: Mutex<Vec<(usize, &'static str, Vec<f32>)>>,
    doubles: bool,
}

impl LayerHook for Watcher {
    fn name(&self) -> &str {
        "watcher"
    }

    fn layers(&self) -> Range<usize> {
        0..2
    }

    fn effect(&self) -> Effect {
        if self.doubles { Effect::Replaces("doubled".to_owned()) } else { Effect::Observes }
    }

    fn before_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        let values = shown.compute.backend.read(shown.rows)?.into_owned();
        self.seen.lock().unwrap().push((shown.layer, "before", values));
        Ok(None)
    }

    fn after_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        if !self.doubles || shown.layer != 0 {
            return Ok(None);
        }
        let copy = shown.compute.backend.copy(shown.rows)?;
        shown.compute.backend.scale(copy, 2.0).map(Some)
    }

    fn at(&self, checkpoint: Checkpoint, shown: &HookInput) -> Result<()> {
        let values = shown.compute.backend.read(shown.rows)?.into_owned();
        self.seen.lock().unwrap().push((shown.layer, checkpoint.name(), values));
        Ok(())
    }
}

#[test]
fn hooks_see_their_layers_and_may_replace_the_rows() {
    let model = tiny().to_model().unwrap();
    let tokens = tokens(4, 10);
    let run = |hook: Option<Arc<Watcher>>| {
        let mut session = Session::exact(&model, 1, CAPACITY, CAPACITY).unwrap();
        session.hooks = hook.map(|hook| hook as Arc<dyn LayerHook>).into_iter().collect();
        let sequence = session.states.create().unwrap();
        session.feed(sequence, &tokens).unwrap()
    };
    let plain = run(None);
    let watcher = Arc::new(Watcher::default());
    assert_rows_equal("watched", &run(Some(Arc::clone(&watcher))), &plain);
    let seen = watcher.seen.lock().unwrap();
    let places: Vec<(usize, &str)> = seen.iter().map(|(layer, place, _)| (*layer, *place)).collect();
    let of = |layer| ["before", "attn_out", "ffn_out", "l_out"].map(|place| (layer, place));
    assert_eq!(places, [of(0), of(1)].concat());
    // before + attn_out + ffn_out = l_out = before of the next layer.
    let sum: Vec<f32> = (0..seen[0].2.len()).map(|i| seen[0].2[i] + seen[1].2[i] + seen[2].2[i]).collect();
    assert_close("residual", &sum, &seen[3].2, 1e-6);
    assert_equal_bits("next layer", &seen[3].2, &seen[4].2);
    let doubled = run(Some(Arc::new(Watcher { doubles: true, ..Watcher::default() })));
    assert!(menagerie_testkit::max_difference(&doubled[0], &plain[0]) > 1e-3);
}

/// Sets the flag while layer 0 runs.
struct Canceller(Arc<Mutex<usize>>);

impl LayerHook for Canceller {
    fn name(&self) -> &str {
        "canceller"
    }

    fn layers(&self) -> Range<usize> {
        0..9
    }

    fn before_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        *self.0.lock().unwrap() = shown.layer;
        if shown.layer == 1 { Err(ModelError::Unsupported("enough".to_owned())) } else { Ok(None) }
    }
}

#[test]
fn a_cancelled_step_ends_and_an_error_names_its_layer() {
    let model = tiny().to_model().unwrap();
    let mut session = Session::exact(&model, 1, CAPACITY, CAPACITY).unwrap();
    let sequence = session.states.create().unwrap();
    session.cancelled.store(true, Ordering::Relaxed);
    assert!(matches!(session.feed(sequence, &[1, 2]), Err(ModelError::Cancelled)));
    session.cancelled.store(false, Ordering::Relaxed);
    let reached = Arc::new(Mutex::new(0));
    session.hooks.push(Arc::new(Canceller(Arc::clone(&reached))));
    let error = session.feed(sequence, &[1, 2]).unwrap_err();
    assert_eq!(error.to_string(), "layer 1: enough");
    assert_eq!(*reached.lock().unwrap(), 1);
    // Nothing was committed: the same tokens can be fed again.
    session.hooks = Hooks::default();
    let again = session.feed(sequence, &[1, 2]).unwrap();
    assert_rows_close("again", &again, &naive::logits(&tiny(), &[1, 2]));
}

#[test]
fn what_does_not_fit_is_refused() {
    let model = tiny().to_model().unwrap();
    let mut session = Session::exact(&model, 1, 8, 8).unwrap();
    let sequence = session.states.create().unwrap();
    let error = session.feed(sequence, &[40]).unwrap_err().to_string();
    assert_eq!(error, "token id 40 is past the vocabulary of 40 tokens");
    let error = session.feed(sequence, &tokens(9, 11)).unwrap_err().to_string();
    assert!(error.contains("9 tokens do not fit into a context of 8"), "{error}");
    session.states.free(sequence).unwrap();
    let error = session.feed(sequence, &[1]).unwrap_err().to_string();
    assert!(error.contains("does not exist"), "{error}");
}
