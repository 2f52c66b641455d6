//! The parts of a language model: components, blocks, state, linears, and the interface of devices. It reads no file
//! and no spec.
//!
//! Read these six types first:
//!
//! | type | is |
//! |---|---|
//! | [`Backend`] | a device: it makes [`Param`]s of weights and computes on [`Rows`] |
//! | [`Rows`] | activations `[T, D]` on a device |
//! | [`Linear`] | a product with a weight; adapters wrap it, and backends compute several together ([`Terms`]) |
//! | [`TransformerBlock`] | branches on the residual stream; a [`BlockStack`] runs the blocks |
//! | [`StatePool`] | the memory of all sequences: KV cache and recurrent states |
//! | [`TransformContext`] | everything a forward needs beyond weights |
//!
//! The groups of types. The modules form no cycle, except that `context` and `hooks` refer to each other:
//!
//! | group | types |
//! |---|---|
//! | formulas | [`menagerie_formulas`], re-exported here where signatures need them |
//! | values | [`Rows`], [`Param`], [`Weight`], [`Table`], [`LinearInput`] |
//! | a step | [`SequenceLayout`], [`InferenceStep`], [`Positions`], [`RopeRegime`], [`SequenceId`] |
//! | state | [`StateSpec`], [`StatePool`], [`StateBacking`], [`StateMemory`], [`Snapshot`], [`Slots`] |
//! | devices | [`Backend`], [`Compute`], [`Operation`], [`Product`], [`ExpertPlan`] |
//! | a forward | [`TransformContext`], [`LayerHook`], [`Hooks`], [`Checkpoint`], [`StepHead`], [`Trace`], [`Scalings`] |
//! | parts | [`Linear`], [`ExpertLinear`], [`Norm`], [`SequenceMixer`], [`FeedForward`], [`components`], [`RouterRule`] |
//! | models | [`TransformerBlock`], [`BlockStack`], [`WholeModel`], the stages ([`Stage`]), [`EmbeddingModel`], [`Executor`] |
//! | adapters | [`Adapter`], [`AdapterSet`], [`AdapterSites`], [`LowRank`], [`XLoraModel`], [`LinearWrapper`] |
//!
//! Models are stateless: forwards take `&self`, and what changes is in a [`StatePool`]. The example `hand_written` of
//! the crate `menagerie` builds a whole model of these parts without a spec. One product is
//!
//! ```
//! use menagerie_cpu::CpuBackend;
//! use menagerie_kernels::Cpu;
//! use menagerie_model::{Arithmetic, Backend, LinearInput, Product, Weight, WeightShape};
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
mod cancellation;
mod classifier;
pub mod components;
mod compute;
mod context;
mod device;
mod element_wise;
mod error;
mod executor;
mod expert_plan;
mod experts;
mod failure;
mod guard;
mod hidden_rows;
mod hook;
mod hooks;
mod layout;
mod linear;
mod linear_input;
mod low_rank;
mod nextn;
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
mod step_in_flight;
mod table;
mod terms;
mod trace;
mod traits;
mod weight;
mod wrapper;

// Values.
pub use linear_input::{LinearInput, RowOrigins};
pub use param::{Param, WeightShape};
pub use rows::Rows;
pub use table::{StoredTable, Table};
pub use weight::{Weight, WeightBytes};

// A step.
pub use layout::{Positions, SequenceLayout, SequenceRows};
pub use sequence_id::SequenceId;
pub use step::{InferenceStep, RopeRegime};

// State.
pub use slots::{SlotDeclarations, SlotId, SlotUse, Slots};
pub use state::{
    BlockCopy, Pages, PlacedPages, Placement, PoolOptions, RowRun, Snapshot, StateBacking, StateDeclarations,
    StateId, StateMemory, StatePlan, StatePool, StateRoom, StateSpec,
};
#[doc(hidden)]
pub use {slots::SlotSpec, state::StateTables};

// Devices.
pub use attention_biases::AttentionBiases;
pub use backend::{
    AttentionStates, Backend, HostOperand, LowRankSum, Operation, Product, RopeTable, Rotation, StateStep,
};
pub use compute::Compute;
pub use device::{DeviceFault, DeviceKind, DeviceRequest, ThreadCount};
pub use expert_plan::{ExpertPlan, Packing};
pub use menagerie_formulas::{
    Activation, Arithmetic, AttentionShape, BranchInput, Gating, HiddenRow, JoinOrder, KeySharing, KvType,
    LinearAttentionShape, Mask, Pooling, RopePairs, RouterApply, StateUpdate, Xielu,
};
pub use recurrence::{LinearAttentionInputs, LogDecay, SelectiveScanInputs};

// A forward.
pub use cancellation::Cancellation;
pub use context::{StepInput, TransformContext};
pub use error::ModelError;
pub use failure::SequenceFailure;
pub use guard::WeightGuard;
pub use hidden_rows::HiddenRows;
pub use hook::{Checkpoint, Effect, HookInput, LayerHook, Phases, StepHead};
pub use hooks::Hooks;
pub use scalings::Scalings;
pub use serializable_hook::{HookRecipe, SerializableHook};
pub use trace::{OpenSpan, Part, PartSum, Span, SpanKey, SpanSum, Trace};

// Parts.
pub use classifier::Classifier;
pub use element_wise::{ActivationForm, ElementWise, GateForm};
pub use experts::{DenseExperts, ExpertLinear};
pub use linear::{DenseLinear, Linear};
pub use router::{GroupSelection, RouterRule};
#[doc(hidden)]
pub use router::{Routing, route};
pub use terms::Terms;
pub use traits::{FeedForward, LayerStack, Norm, OutputHead, Raw, SequenceMixer, TokenEmbedding};

// Models.
pub use block::{
    Branch, BranchPart, DynBlock, Layer, ParallelFeedForward, PreNorm, StreamEntry, TransformerBlock,
};
pub use executor::{Executor, NormedExecutor, StageTrace};
pub use nextn::{NextnExecutor, NextnHead, NextnOutput};
pub use stack::BlockStack;
pub use stage::{
    EmbeddingModel, FirstStage, LastStage, MiddleStage, ModelShape, Stage, StageBody, StageOutput,
    StagePosition, StepGoal, WholeModel,
};
pub use step_in_flight::{BegunStep, StepEnding, StepInFlight};

// Adapters.
pub use adapter::{
    AdaptedFeedForward, AdapterSite, AdapterSites, ScalingNormalization, ScalingSpread, SiteShape,
    TopScalings, XLoraActivation, XLoraClassifier, XLoraMixing, XLoraModel,
};
pub use adapter_set::{
    Adapter, AdapterSet, FullWeight, LinearPart, Magnitude, ScalingLayers, SitePart, TablePart,
};
pub use low_rank::LowRank;
pub use wrapper::{FeedForwardWrapper, HeadRows, LinearSite, LinearWrapper, SiteForm};

/// Result of everything in this crate.
pub type Result<T, E = ModelError> = std::result::Result<T, E>;
