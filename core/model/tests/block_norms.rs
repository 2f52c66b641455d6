//! Every norm of a block has its own span in the trace, and does not count as another part's time.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie_formulas::ParallelInput;
use menagerie_model::{
    Arithmetic, Branch, BranchInput, BranchPart, Compute, FeedForward, InferenceStep, KvType, Layer, Norm,
    ParallelFeedForward, Part, PoolOptions, Raw, Result, RopeRegime, Rows, SequenceLayout, SequenceMixer,
    SequenceRows, StatePool, StepInput, Trace, TransformContext, TransformerBlock,
};
use menagerie_testkit::cpu_backend;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts its calls, and takes its time.
struct SlowNorm(AtomicU64);

/// The least time of a norm.
const SLOW: Duration = Duration::from_millis(3);

impl Norm for &SlowNorm {
    fn forward(&self, x: &Rows, context: &TransformContext) -> Result<Rows> {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(SLOW);
        context.compute.backend.copy(x)
    }
}

struct Same;

impl SequenceMixer for Same {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        context.compute.backend.copy(x)
    }
}

impl FeedForward for Same {
    fn forward(&self, x: &Rows, _: Raw, context: &mut TransformContext) -> Result<Rows> {
        context.compute.backend.copy(x)
    }
}

/// A branch with a norm at each of its four places.
fn branch(norm: &SlowNorm) -> Branch<&SlowNorm, Same> {
    Branch {
        pre: Some(norm),
        part: Same,
        post: Some(norm),
        after: Some(norm),
        again: Some(norm),
        reads: BranchInput::Stream,
        scale: 1.0,
    }
}

/// Runs a block on one row; gives the trace.
fn traced(block: &dyn Layer) -> Trace {
    let compute = Compute::new(cpu_backend(1).unwrap(), Arithmetic::Exact);
    let room = PoolOptions::sequences(KvType::F32, 1, 8);
    let mut states = StatePool::new(&*compute.backend, Vec::new(), room).unwrap();
    let rows = SequenceRows {
        sequence: states.create().unwrap(),
        rows: 0..1,
        first_position: 0,
        step: InferenceStep::Decode { current_position: 0 },
        regime: RopeRegime::Short,
        logits: 0..0,
        adapters: None,
    };
    let layout = SequenceLayout::new(vec![rows]).unwrap();
    let trace = Trace::new(100);
    let mut context = TransformContext::new(&compute, &layout, StepInput::Tokens(&[]), &mut states);
    context.trace = Some(&trace);
    let x = compute.backend.upload(vec![1.0, 2.0], 2).unwrap();
    block.forward(x, &mut context).unwrap();
    trace
}

#[test]
fn every_norm_of_a_block_is_counted_and_is_no_part_of_a_feed_forward() {
    let norm = SlowNorm(AtomicU64::new(0));
    let second = ParallelFeedForward {
        part: Same,
        reads: ParallelInput::Stream,
        pre: Some(&norm),
        post: Some(&norm),
        first_post: Some(&norm),
        factor: 0.5,
    };
    // Of the block's three branches four each, three of the second feed-forward, and one on the output.
    let branches = vec![
        branch(&norm).map(BranchPart::Mixer),
        branch(&norm).map(|first| BranchPart::Parallel(first, second)),
        branch(&norm).map(BranchPart::FeedForward),
    ];
    let mut block = TransformerBlock::of(branches);
    block.output_norm = Some(&norm);
    let trace = traced(&block);
    let sum = |part| trace.sum(part, Some(0), true);
    assert_eq!(norm.0.load(Ordering::Relaxed), 16);
    assert_eq!(sum(Part::Norm).count, 16);
    assert!(sum(Part::Norm).time >= 16 * SLOW);
    // The feed-forward, the one beside it, and the third branch's.
    assert_eq!((sum(Part::Mixer).count, sum(Part::FeedForward).count), (1, 3));
    let (spans, left_out) = trace.spans();
    assert_eq!(left_out, 0);
    let of = |part| spans.iter().filter(move |span| span.of.part == part);
    for norm in of(Part::Norm) {
        for other in of(Part::FeedForward).chain(of(Part::Mixer)) {
            let apart = norm.start + norm.time <= other.start || other.start + other.time <= norm.start;
            assert!(apart, "{norm:?} is within {other:?}");
        }
    }
}
