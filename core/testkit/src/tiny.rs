//! [`TinyModel`]: a dense model with random weights, as a GGUF file, as components, and for the naive forward.

use gguf_file::{GgmlType, GgufError, GgufWriter};
use menagerie_cpu::CpuBackend;
use menagerie_kernels::{Cpu, Isa};
use menagerie_model::components::{
    Attention, AttentionLinears, GatedFeedForward, LinearHead, RmsNorm, Rope, RopeDeclarations,
    TableEmbedding, base_frequencies,
};
use menagerie_model::{
    Activation, Arithmetic, AttentionShape, Backend, BlockStack, Branch, DenseLinear, DynBlock, FeedForward,
    Gating, Linear, Mask, ModelError, ModelShape, Norm, Param, Result, RopePairs, SequenceMixer, StageBody,
    StateDeclarations, StoredTable, TransformerBlock, Weight, WeightShape, WholeModel,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::SplitMix64;

/// Sizes of a tiny model.
#[derive(Clone, Copy, Debug)]
pub struct TinyShape {
    /// Tokens.
    pub vocabulary: usize,
    /// D.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// F.
    pub inner: usize,
    /// Blocks.
    pub layers: usize,
}

impl Default for TinyShape {
    fn default() -> Self {
        Self { vocabulary: 40, width: 24, heads: 4, kv_heads: 2, head_dim: 10, inner: 36, layers: 3 }
    }
}

/// Epsilon of every norm.
pub const EPS: f32 = 1e-5;
/// Base of the rope.
pub const ROPE_BASE: f32 = 10_000.0;

/// Llama's architecture with random weights and halves as rope pairs.
#[derive(Clone, Debug)]
pub struct TinyModel {
    /// Its sizes.
    pub shape: TinyShape,
    /// Dimensions (fastest first) and values of every tensor, by GGUF name.
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

/// The CPU with `threads` threads, as a backend.
///
/// # Errors
/// Errors of the thread pool.
pub fn cpu_backend(threads: usize) -> Result<Arc<dyn Backend>> {
    let cpu = Isa::from_environment().and_then(|isa| Cpu::with_isa(Some(threads), isa));
    let cpu = cpu.map_err(|error| ModelError::backend("cpu", error))?;
    Ok(Arc::new(CpuBackend::new(cpu)))
}

/// Wraps the linear of a role in a block, for tests of adapters.
pub type Wrap<'a> = &'a dyn Fn(usize, &str, DenseLinear) -> Box<dyn Linear>;

/// The declarations of the parts of a model.
pub struct Declared<'a> {
    /// States.
    pub states: &'a mut StateDeclarations,
    /// Ropes.
    pub ropes: &'a mut RopeDeclarations,
}

impl TinyModel {
    /// Weights from a seed.
    pub fn new(shape: TinyShape, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut tensors = BTreeMap::new();
        let TinyShape { vocabulary, width, heads, kv_heads, head_dim, inner, layers } = shape;
        let mut matrix = |name: String, cols: usize, rows: usize| {
            let spread = 2.0 / (cols as f32).sqrt();
            tensors.insert(name, (vec![cols, rows], random.values(cols * rows, 0.0, spread)));
        };
        matrix("token_embd.weight".to_owned(), width, vocabulary);
        matrix("output.weight".to_owned(), width, vocabulary);
        for layer in 0..layers {
            let name = |role: &str| format!("blk.{layer}.{role}.weight");
            matrix(name("attn_q"), width, heads * head_dim);
            matrix(name("attn_k"), width, kv_heads * head_dim);
            matrix(name("attn_v"), width, kv_heads * head_dim);
            matrix(name("attn_output"), heads * head_dim, width);
            matrix(name("ffn_gate"), width, inner);
            matrix(name("ffn_up"), width, inner);
            matrix(name("ffn_down"), inner, width);
        }
        let norms = (0..layers)
            .flat_map(|layer| ["attn_norm", "ffn_norm"].map(|role| format!("blk.{layer}.{role}.weight")));
        for name in norms.chain(["output_norm.weight".to_owned()]) {
            tensors.insert(name, (vec![width], random.values(width, 1.0, 0.2)));
        }
        Self { shape, tensors }
    }

    /// Values of a tensor.
    pub fn values(&self, name: &str) -> &[f32] {
        &self.tensors[name].1
    }

    /// A GGUF file with these tensors and only the architecture as metadata.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn to_gguf(&self) -> std::result::Result<Vec<u8>, GgufError> {
        let mut writer = GgufWriter::new();
        writer.metadata("general.architecture", "tiny")?;
        for (name, (dims, values)) in &self.tensors {
            let dims: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            writer.tensor(name, &dims, GgmlType::F32, bytes)?;
        }
        writer.to_bytes()
    }

    fn weight(&self, name: &str, backend: &dyn Backend) -> Result<Param> {
        let (dims, values) = &self.tensors[name];
        let weight = Weight::from_f32(name, values, WeightShape { count: 1, rows: dims[1], cols: dims[0] })?;
        backend.matrix(&weight, Arithmetic::Exact)
    }

    fn norm(&self, name: &str, backend: &dyn Backend) -> Result<Box<dyn Norm>> {
        let weight = backend.vector(name, self.values(name).to_vec())?;
        Ok(Box::new(RmsNorm { weight: Some(weight), eps: EPS }))
    }

    /// The model built from components.
    ///
    /// # Errors
    /// Errors of a component.
    pub fn to_model(&self) -> Result<WholeModel> {
        self.to_wrapped_model(&*cpu_backend(1)?, &|_, _, linear| Box::new(linear))
    }

    /// The same with every linear of the blocks wrapped by `wrap`.
    ///
    /// # Errors
    /// Errors of a component.
    pub fn to_wrapped_model(&self, backend: &dyn Backend, wrap: Wrap) -> Result<WholeModel> {
        let mut states = StateDeclarations::default();
        let mut ropes = RopeDeclarations::default();
        let blocks = (0..self.shape.layers).map(|layer| {
            let mut declared = Declared { states: &mut states, ropes: &mut ropes };
            self.block(layer, backend, wrap, &mut declared)
        });
        let stack = BlockStack::new(0, blocks.collect::<Result<Vec<_>>>()?, states);
        self.around(0..self.shape.layers, backend, stack)
    }

    /// Embedding and head around a stack of layers.
    ///
    /// # Errors
    /// Errors of a component.
    pub fn around<L: menagerie_model::Layer + 'static>(
        &self,
        layers: Range<usize>,
        backend: &dyn Backend,
        stack: BlockStack<L>,
    ) -> Result<WholeModel> {
        let table = self.weight("token_embd.weight", backend)?;
        let table = Box::new(StoredTable(table));
        let embedding = TableEmbedding { table, scale: 1.0, positions: None, token_types: None, norm: None };
        let product = Box::new(DenseLinear::new(self.weight("output.weight", backend)?, None)?);
        let norm = Some(self.norm("output_norm.weight", backend)?);
        let shape = ModelShape {
            n_layers: layers.len(),
            max_seq_len: None,
            embedding_length: self.shape.width,
            rope_regime_limit: None,
        };
        Ok(WholeModel {
            body: StageBody { shape, stack: Box::new(stack) },
            embedding: Box::new(embedding),
            head: Box::new(LinearHead { norm, product, scale: 1.0, softcap: None, suppress: None }),
            nextn: Vec::new(),
        })
    }

    /// A block, with its linears wrapped by `wrap`.
    ///
    /// # Errors
    /// Errors of a component.
    pub fn block(
        &self,
        layer: usize,
        backend: &dyn Backend,
        wrap: Wrap,
        declared: &mut Declared,
    ) -> Result<DynBlock> {
        let name = |role: &str| format!("blk.{layer}.{role}.weight");
        let linear = |role: &str| -> Result<Box<dyn Linear>> {
            Ok(wrap(layer, role, DenseLinear::new(self.weight(&name(role), backend)?, None)?))
        };
        let shape = AttentionShape {
            heads: self.shape.heads,
            kv_heads: self.shape.kv_heads,
            key_dim: self.shape.head_dim,
            value_dim: self.shape.head_dim,
            scale: 1.0 / (self.shape.head_dim as f32).sqrt(),
            softcap: None,
            mask: Mask::Causal,
            alibi: None,
        };
        let (query, key, value) = (linear("attn_q")?, linear("attn_k")?, linear("attn_v")?);
        let output = linear("attn_output")?;
        let linears = AttentionLinears { query, key, value: Some(value), output, gate: None };
        let frequencies = base_frequencies(ROPE_BASE, self.shape.head_dim, None);
        let rope = Rope { pairs: RopePairs::Halves, frequencies, long_frequencies: None, magnitude: 1.0 };
        let names = ["k", "v"].map(|state| format!("blk.{layer}.{state}"));
        let attention = Attention::new([&names[0], &names[1]], linears, shape, declared.states)?
            .with_rope(rope, declared.ropes);
        let (gate, up, down) = (linear("ffn_gate")?, linear("ffn_up")?, linear("ffn_down")?);
        let feed_forward = GatedFeedForward {
            gate,
            up,
            down,
            gating: Gating::Plain(Activation::Silu).into(),
            inner_norm: None,
        };
        let mixer: Branch<_, Box<dyn SequenceMixer>> =
            Branch::new(Some(self.norm(&name("attn_norm"), backend)?), Box::new(attention));
        let feed_forward: Branch<_, Box<dyn FeedForward>> =
            Branch::new(Some(self.norm(&name("ffn_norm"), backend)?), Box::new(feed_forward));
        Ok(TransformerBlock::new(Some(mixer), Some(feed_forward)))
    }
}
