//! What a language model is made of: parts, blocks, state, linears, and the seam to devices. No file format, no spec.
//!
//! Three things stand on each other. A [`Backend`] computes: it takes weights in as [`Param`]s and changes [`Rows`] of
//! activations. [`components`] are written once over it: norms, attention, feed-forwards, embedding and head; everything
//! that multiplies is a [`Linear`] (or an [`ExpertLinear`]), which is what adapters wrap. A [`BlockStack`] of
//! [`TransformerBlock`]s runs them; [`WholeModel`], the three stages and [`EmbeddingModel`] own what their place has.
//!
//! Models are stateless. What changes lives in a [`StatePool`], by the [`StateSpec`]s that components declare; what a
//! forward needs beyond weights travels in a [`TransformContext`]. The example `hand_written` of the façade makes a whole
//! model of these parts without any spec; one product is
//!
//! ```
//! use menagerie_cpu::CpuBackend;
//! use menagerie_kernels::Cpu;
//! use menagerie_model::{LinearInput, Arithmetic, Backend, Product, Weight, WeightShape};
//!
//! let backend = CpuBackend::new(Cpu::new(Some(1))?);
//! let weight = Weight::from_f32("w", &[1.0, 2.0, 3.0, 4.0], WeightShape { count: 1, rows: 2, cols: 2 })?;
//! let weight = backend.matrix(&weight, Arithmetic::Exact)?;
//! let x = backend.upload(vec![1.0, 1.0], 2)?;
//! let product = Product { weight: &weight, bias: None };
//! let y = backend.products(&[product], &LinearInput::new(&x), Arithmetic::Exact)?;
//! assert_eq!(*backend.read(&y[0])?, [3.0, 7.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod adapter;
mod adapter_set;
mod attention_biases;
mod backend;
mod block;
mod classifier;
pub mod components;
mod compute;
mod context;
mod element_wise;
mod error;
mod executor;
mod expert_plan;
mod experts;
mod failure;
mod guard;
mod hook;
mod hooks;
mod layout;
mod linear;
mod linear_input;
mod low_rank;
mod param;
mod pooling;
mod recurrence;
mod rope_tables;
mod router;
mod rows;
mod scalings;
mod sequence_id;
mod serializable_hook;
mod slots;
mod stack;
mod stage;
mod state;
mod step;
mod table;
mod terms;
mod trace;
mod traits;
mod weight;
mod wrapper;

pub use adapter::{
    AdaptedFeedForward, AdapterSite, AdapterSites, ScalingNormalization, ScalingSpread, SiteShape,
    TopScalings, XLoraActivation, XLoraClassifier, XLoraMixing, XLoraModel,
};
pub use adapter_set::{
    Adapter, AdapterSet, FullWeight, LinearPart, Magnitude, ScalingLayers, SitePart, TablePart,
};
pub use attention_biases::AttentionBiases;
pub use backend::{
    AttentionStates, Backend, HostOperand, LowRankSum, Operation, Product, RopeTable, Rotation, StateStep,
};
pub use block::{
    Branch, BranchPart, DynBlock, Layer, ParallelFeedForward, PreNorm, StreamEntry, TransformerBlock,
};
pub use classifier::Classifier;
pub use compute::Compute;
pub use context::{StepInput, TransformContext};
pub use element_wise::{ActivationForm, ElementWise, GateForm};
pub use error::ModelError;
pub use executor::{Executor, NormedExecutor, StageTrace};
pub use expert_plan::{ExpertPlan, Packing};
pub use experts::{DenseExperts, ExpertLinear, experts_many};
pub use failure::SequenceFailure;
pub use guard::WeightGuard;
pub use hook::{Checkpoint, Effect, HookInput, LayerHook, Phases};
pub use hooks::Hooks;
pub use layout::{Positions, SequenceLayout, SequenceRows};
pub use linear::{DenseLinear, Linear, linear_many};
pub use linear_input::{LinearInput, RowOrigins};
pub use low_rank::LowRank;
pub use menagerie_formulas::{
    Activation, Arithmetic, AttentionShape, BranchInput, ClassifierActivation, ClassifierScores, Gating,
    GroupScore, HeldStream, KeySharing, KvType, LinearAttentionShape, Mask, ParallelInput, Pooling,
    RopePairs, RouterApply, RouterInput, RouterScore, RouterSelect, RouterWeights, SparseMixer, StateUpdate,
    Xielu,
};
pub use param::{Param, WeightShape};
pub use recurrence::{LinearAttentionInputs, LogDecay, SelectiveScanInputs};
pub use router::{GroupSelection, RouterRule, Routing, route};
pub use rows::Rows;
pub use scalings::Scalings;
pub use sequence_id::SequenceId;
pub use serializable_hook::{HookRecipe, SerializableHook};
pub use slots::{SlotDeclarations, SlotId, SlotSpec, SlotUse, Slots};
pub use stack::BlockStack;
pub use stage::{
    EmbeddingModel, FirstStage, LastStage, MiddleStage, ModelShape, Stage, StageBody, StageOutput,
    StagePosition, StepGoal, WholeModel,
};
pub use state::{
    BlockCopy, Pages, PlacedPages, Placement, PoolOptions, RowRun, Snapshot, StateBacking, StateDeclarations,
    StateId, StateMemory, StatePlan, StatePool, StateRoom, StateSpec, StateTables,
};
pub use step::{InferenceStep, RopeRegime};
pub use table::{StoredTable, Table};
pub use terms::{AfterProduct, Terms};
pub use trace::{OpenSpan, Part, PartSum, Span, SpanKey, SpanSum, Trace};
pub use traits::{FeedForward, LayerStack, Norm, OutputHead, Raw, SequenceMixer, TokenEmbedding};
pub use weight::{Weight, WeightBytes};
pub use wrapper::{FeedForwardWrapper, HeadRows, LinearSite, LinearWrapper, SiteForm};

/// Result of everything in this crate.
pub type Result<T, E = ModelError> = std::result::Result<T, E>;
