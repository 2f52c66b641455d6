//! A model written by hand: no spec, no file. Its types are named, so that everything is known at compile time:
//! `TransformerBlock<RmsNorm, Attention, GatedFeedForward>`.
//!
//! ```sh
//! cargo run --release --package menagerie --example hand_written
//! ```

use menagerie::cpu::CpuBackend;
use menagerie::kernels::Cpu;
use menagerie::model::components::{
    Attention, AttentionLinears, GatedFeedForward, LinearHead, RmsNorm, Rope, RopeDeclarations,
    TableEmbedding, base_frequencies,
};
use menagerie::model::{
    Activation, Arithmetic, AttentionShape, Backend, BlockStack, Branch, Compute, DenseLinear, Executor,
    Gating, InferenceStep, KvType, Linear, Mask, ModelShape, Norm, Param, PoolOptions, Result, RopePairs,
    RopeRegime, SequenceLayout, SequenceRows, StageBody, StateDeclarations, StatePool, StepInput,
    StoredTable, TransformContext, TransformerBlock, Weight, WeightShape, WholeModel,
};
use std::sync::Arc;

/// A block whose parts are known types.
type Block = TransformerBlock<RmsNorm, Attention, GatedFeedForward>;

const VOCABULARY: usize = 64;
const WIDTH: usize = 32;
const HEADS: usize = 4;
const HEAD_DIM: usize = 8;
const INNER: usize = 96;
const LAYERS: usize = 2;

/// Weights that need no file: a sine of their index.
struct Weights<'a> {
    backend: &'a dyn Backend,
    seed: f32,
}

impl Weights<'_> {
    fn matrix(&mut self, rows: usize, cols: usize) -> Result<Param> {
        self.seed += 1.0;
        let spread = 1.5 / (cols as f32).sqrt();
        let values: Vec<f32> =
            (0..rows * cols).map(|i| (i as f32 * 12.9898 + self.seed * 78.233).sin() * spread).collect();
        let weight = Weight::from_f32("hand-written", &values, WeightShape { count: 1, rows, cols })?;
        self.backend.matrix(&weight, Arithmetic::Exact)
    }

    fn linear(&mut self, rows: usize, cols: usize) -> Result<Box<dyn Linear>> {
        Ok(Box::new(DenseLinear::new(self.matrix(rows, cols)?, None)?))
    }

    fn norm(&self) -> Result<RmsNorm> {
        Ok(RmsNorm { weight: Some(self.backend.vector("norm", vec![1.0; WIDTH])?), eps: 1e-5 })
    }
}

fn block(
    layer: usize,
    weights: &mut Weights,
    states: &mut StateDeclarations,
    ropes: &mut RopeDeclarations,
) -> Result<Block> {
    let inner = HEADS * HEAD_DIM;
    let linears = AttentionLinears {
        query: weights.linear(inner, WIDTH)?,
        key: weights.linear(inner, WIDTH)?,
        value: Some(weights.linear(inner, WIDTH)?),
        output: weights.linear(WIDTH, inner)?,
        gate: None,
    };
    let shape = AttentionShape {
        heads: HEADS,
        kv_heads: HEADS,
        key_dim: HEAD_DIM,
        value_dim: HEAD_DIM,
        scale: 1.0 / (HEAD_DIM as f32).sqrt(),
        softcap: None,
        mask: Mask::Causal,
        alibi: None,
    };
    let frequencies = base_frequencies(10_000.0, HEAD_DIM, None);
    let rope = Rope { pairs: RopePairs::Halves, frequencies, long_frequencies: None, magnitude: 1.0 };
    let names = [format!("blk.{layer}.k"), format!("blk.{layer}.v")];
    let attention = Attention::new([&names[0], &names[1]], linears, shape, states)?.with_rope(rope, ropes);
    let feed_forward = GatedFeedForward {
        gate: weights.linear(INNER, WIDTH)?,
        up: weights.linear(INNER, WIDTH)?,
        down: weights.linear(WIDTH, INNER)?,
        gating: Gating::Plain(Activation::Silu).into(),
        inner_norm: None,
    };
    Ok(TransformerBlock::new(
        Some(Branch::new(Some(weights.norm()?), attention)),
        Some(Branch::new(Some(weights.norm()?), feed_forward)),
    ))
}

fn model(backend: &dyn Backend) -> Result<WholeModel> {
    let mut weights = Weights { backend, seed: 0.0 };
    let (mut states, mut ropes) = (StateDeclarations::default(), RopeDeclarations::default());
    let blocks = (0..LAYERS).map(|layer| block(layer, &mut weights, &mut states, &mut ropes));
    let stack = BlockStack::new(0, blocks.collect::<Result<Vec<Block>>>()?, states);
    let shape =
        ModelShape { n_layers: LAYERS, max_seq_len: None, embedding_length: WIDTH, rope_regime_limit: None };
    let table = weights.matrix(VOCABULARY, WIDTH)?;
    let table = Box::new(StoredTable(table));
    let embedding = TableEmbedding { table, scale: 1.0, positions: None, token_types: None, norm: None };
    let product = weights.linear(VOCABULARY, WIDTH)?;
    let norm = Some(Box::new(weights.norm()?) as Box<dyn Norm>);
    let head = LinearHead { norm, product, scale: 1.0, softcap: None, suppress: None };
    let body = StageBody { shape, stack: Box::new(stack) };
    Ok(WholeModel { body, embedding: Box::new(embedding), head: Box::new(head), nextn: Vec::new() })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let backend: Arc<dyn Backend> = Arc::new(CpuBackend::new(Cpu::new(None)?));
    let compute = Compute::new(Arc::clone(&backend), Arithmetic::Exact);
    let model = model(&*backend)?;
    let options = PoolOptions::one_sequence(KvType::F32, 64);
    let mut states = StatePool::new(&*backend, model.states().to_vec(), options)?;
    let sequence = states.create()?;
    let mut tokens = vec![1, 2, 3];
    let mut done = 0;
    while tokens.len() < 16 {
        let step = match done {
            0 => InferenceStep::Prefill {
                chunk_tokens: tokens.len(),
                chunk_start_position: 0,
                total_prompt_tokens: tokens.len(),
                is_final_chunk: true,
            },
            position => InferenceStep::Decode { current_position: position },
        };
        let now = &tokens[done..];
        let layout = SequenceLayout::new(vec![SequenceRows {
            sequence,
            rows: 0..now.len(),
            first_position: done,
            step,
            regime: RopeRegime::Short,
            logits: now.len() - 1..now.len(),
            adapters: None,
        }])?;
        let mut context = TransformContext::new(&compute, &layout, StepInput::Tokens(now), &mut states);
        let logits = model.execute(&mut context)?;
        let logits = backend.read(&logits)?;
        let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(id, _)| id);
        states.advance(sequence, now.len())?;
        done = tokens.len();
        tokens.push(best as u32);
    }
    println!("{tokens:?}");
    Ok(())
}
