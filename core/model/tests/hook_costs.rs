//! The cost of a step without hooks, or without hooks for it: no call of a hook, no operation of the backend and no
//! copied byte more than the same blocks without the calls.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie_model::components::RopeDeclarations;
use menagerie_model::{
    Arithmetic, BlockStack, Checkpoint, Compute, DynBlock, Executor, HookInput, Hooks, KvType, Layer,
    LayerHook, Phases, PoolOptions, Result, Rows, StateDeclarations, StatePool, StepInput, TransformContext,
    WholeModel,
};
use menagerie_testkit::{
    CountingBackend, Counts, Declared, Session, SplitMix64, TinyModel, TinyShape, cpu_backend,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Every block of a model as one layer: no hook is called between them.
struct Together(Vec<DynBlock>);

impl Layer for Together {
    fn forward(&self, mut rows: Rows, context: &mut TransformContext) -> Result<Rows> {
        for (index, block) in self.0.iter().enumerate() {
            context.layer = index;
            rows = block.forward(rows, context)?;
        }
        Ok(rows)
    }

    fn is_bidirectional(&self) -> bool {
        self.0.iter().any(Layer::is_bidirectional)
    }
}

fn tiny() -> TinyModel {
    TinyModel::new(TinyShape::default(), 11)
}

/// The model whose blocks are one layer.
fn without_calls() -> WholeModel {
    let (tiny, backend) = (tiny(), cpu_backend(1).unwrap());
    let (mut states, mut ropes) = (StateDeclarations::default(), RopeDeclarations::default());
    let block = |layer| {
        let mut declared = Declared { states: &mut states, ropes: &mut ropes };
        tiny.block(layer, &*backend, &|_, _, linear| Box::new(linear), &mut declared).unwrap()
    };
    let blocks = (0..TinyShape::default().layers).map(block).collect();
    tiny.around(0..1, &*backend, BlockStack::new(0, vec![Together(blocks)], states)).unwrap()
}

/// Counts how often it is called, and may read the rows.
struct Called {
    layers: Range<usize>,
    phases: Phases,
    looks: bool,
    calls: AtomicUsize,
}

impl Called {
    fn new(layers: Range<usize>, phases: Phases, looks: bool) -> Arc<Self> {
        Arc::new(Self { layers, phases, looks, calls: AtomicUsize::new(0) })
    }

    fn look(&self, shown: &HookInput) -> Result<()> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.looks {
            shown.compute.backend.read(shown.rows)?;
        }
        Ok(())
    }
}

impl LayerHook for Called {
    fn name(&self) -> &str {
        "test/called"
    }

    fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    fn phases(&self) -> Phases {
        self.phases
    }

    fn before_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        self.look(shown).map(|()| None)
    }

    fn after_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        self.look(shown).map(|()| None)
    }

    fn at(&self, _checkpoint: Checkpoint, shown: &HookInput) -> Result<()> {
        self.look(shown)
    }
}

/// The operations that a prompt in two chunks requests from the backend, and its logits.
fn prompt(model: &dyn Executor, hooks: Hooks) -> (Counts, Vec<Vec<f32>>) {
    let counting = Arc::new(CountingBackend::new(cpu_backend(2).unwrap()));
    let compute = Compute::new(Arc::clone(&counting) as _, Arithmetic::Exact);
    let options = PoolOptions::sequences(KvType::F32, 2, 64).with_page_len(64);
    let states = StatePool::new(&*compute.backend, model.states().to_vec(), options).unwrap();
    let cancelled = AtomicBool::new(false);
    let mut session =
        Session { model, compute, states, hooks, adapters: Vec::new(), scalings: None, cancelled };
    let tokens = SplitMix64::new(5).tokens(21, TinyShape::default().vocabulary);
    let sequence = session.states.create().unwrap();
    counting.take();
    let mut logits = session.feed_part(sequence, &tokens[..13], tokens.len()).unwrap();
    logits.extend(session.feed_part(sequence, &tokens[13..], tokens.len()).unwrap());
    (counting.take(), logits)
}

fn with(hook: &Arc<Called>) -> Hooks {
    std::iter::once(Arc::clone(hook) as Arc<dyn LayerHook>).collect()
}

#[test]
fn no_hook_costs_no_operation_and_no_byte() {
    let (model, bare) = (tiny().to_model().unwrap(), without_calls());
    let (wanted, logits) = prompt(&bare, Hooks::default());
    assert!(wanted.calls["products"] > 0, "{wanted:?}");
    let (counts, same) = prompt(&model, Hooks::default());
    assert_eq!(counts, wanted);
    assert!(same == logits);
}

#[test]
fn a_hook_that_is_not_meant_is_not_called_and_costs_nothing() {
    let model = tiny().to_model().unwrap();
    let layers = TinyShape::default().layers;
    let (wanted, logits) = prompt(&model, Hooks::default());
    for (range, phases) in
        [(0..0, Phases::All), (layers..layers + 3, Phases::All), (0..layers, Phases::Decode)]
    {
        let hook = Called::new(range, phases, true);
        let (counts, same) = prompt(&model, with(&hook));
        assert_eq!((counts, hook.calls.load(Ordering::Relaxed)), (wanted.clone(), 0), "{:?}", hook.layers);
        assert!(same == logits);
    }
}

/// Before and after a layer, and at three checkpoints: each is a call, and reading in place copies nothing.
#[test]
fn a_hook_that_looks_reads_where_the_rows_are() {
    let model = tiny().to_model().unwrap();
    let (wanted, logits) = prompt(&model, Hooks::default());
    for looks in [false, true] {
        let hook = Called::new(1..2, Phases::All, looks);
        let (mut counts, same) = prompt(&model, with(&hook));
        let calls = hook.calls.load(Ordering::Relaxed);
        assert_eq!(calls, 2 * 5, "two chunks of a layer");
        let read = counts.calls.entry("read").or_default();
        *read -= if looks { calls } else { 0 };
        counts.calls.retain(|_, count| *count > 0);
        assert_eq!(counts, wanted);
        assert!(same == logits);
    }
}

#[test]
fn tokens_are_there_unless_rows_stand_in_their_place() {
    assert_eq!(StepInput::Tokens(&[3, 4]).tokens(), Some(&[3, 4][..]));
    assert_eq!(StepInput::Embeddings(&[0.5, 1.5]).tokens(), None);
}
