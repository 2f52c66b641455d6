//! [`Call`] and its siblings: what the host gives while an instance computes.

use super::{Header, Status, Tensor};
use std::ffi::c_void;

/// Handed to [`super::Component::forward`]; lives for that call. Functions may be called from the thread of the call only, and
/// not from bodies of `parallel_for`, which may call `parallel_for` alone; anything else fails, and the call with it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Size and version.
    pub header: Header,
    /// Rows of f32 that go in, read only.
    pub inputs: *const Tensor,
    /// How many arrays.
    pub n_inputs: usize,
    /// Rows of f32 to be written, every element; they overlap no input.
    pub outputs: *const Tensor,
    /// How many arrays.
    pub n_outputs: usize,
    /// The sequences whose rows these are, in order, covering all rows; none for norms and activations.
    pub sequences: *const Sequence,
    /// How many.
    pub n_sequences: usize,
    /// Blocks of the states per sequence, read and changed in place: `[n_sequences][n_states]`; a state per token has an
    /// empty array here.
    pub states: *const Tensor,
    /// States that the instance declared.
    pub n_states: usize,
    /// Rows `[T, width]` of the slots that the instance asked for, read only but for the layer that writes.
    pub slots: *const Tensor,
    /// How many.
    pub n_slots: usize,
    /// Ids of the rows' tokens, one per row; null for norms and activations, whose rows may be heads or some rows of the
    /// step only, and where rows were given in place of tokens.
    pub token_ids: *const u32,
    /// Threads that [`Call::parallel_for`] works on, at least 1.
    pub threads: u64,
    /// Given back to every function below.
    pub context: *mut c_void,
    /// `y = W x + b` for all rows of `x [T', inputs]` into `y [T', outputs]`, f32. If `x` has the rows of the step, adapters act
    /// on them.
    pub linear:
        unsafe extern "C" fn(context: *mut c_void, number: u32, x: *const Tensor, y: *const Tensor) -> Status,
    /// Calls `body(argument, i)` for every `i` below `n` on the host's threads; within a body it runs on the same thread.
    pub parallel_for: unsafe extern "C" fn(
        context: *mut c_void,
        n: u64,
        body: unsafe extern "C" fn(argument: *mut c_void, index: u64),
        argument: *mut c_void,
    ) -> Status,
    /// Memory for this call: every byte has a value, and any value; `align` is a power of two; null if there is none.
    pub scratch: unsafe extern "C" fn(context: *mut c_void, bytes: u64, align: u64) -> *mut c_void,
    /// Stores a row for every row of the step in a state per token, `x [T, heads * head_dim]`.
    pub store: unsafe extern "C" fn(context: *mut c_void, state: u32, x: *const Tensor) -> Status,
    /// Reads rows of a state per token: those of tokens `first..` of a sequence of the step, as many as `y` has rows.
    pub stored: unsafe extern "C" fn(
        context: *mut c_void,
        state: u32,
        sequence: u64,
        first: u64,
        y: *const Tensor,
    ) -> Status,
}

/// A sequence's rows in a step.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// Its first row.
    pub first_row: u64,
    /// How many rows.
    pub rows: u64,
    /// Tokens of it that came before this step.
    pub past: u64,
    /// Positions of its rows, `[rows][axes]`.
    pub positions: *const u32,
    /// Numbers of a position: 1 for text.
    pub axes: u32,
    /// 1 while it is generating, 0 while its prompt is computed.
    pub decoding: u32,
    /// With `number`, what no other sequence of the process has, before or after it; in stages it has one in each.
    pub pool: u64,
    /// Of those of its pool.
    pub number: u64,
}

/// Handed to [`super::Component::hook`]; lives for that call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HookCall {
    /// Size and version.
    pub header: Header,
    /// The rows `[T, D]` between layers, whose they are, the ids of their tokens, threads and memory. It has one input; one output
    /// if the component replaces, else none; no linears, no states and no slots.
    pub call: *const Call,
    /// The layer, 0-based as in `blk.N`.
    pub layer: u64,
    /// One of the constants below.
    pub point: u32,
    /// Zero.
    pub padding: u32,
}

impl HookCall {
    /// The rows are what the layer is going to read.
    pub const BEFORE: u32 = 1;
    /// The rows are what the layer leaves.
    pub const AFTER: u32 = 2;
}

/// Handed to [`super::Component::frequencies`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FrequencyCall {
    /// Size and version.
    pub header: Header,
    /// Base of the rope.
    pub base: f64,
    /// Elements of a head that rotate.
    pub rotated: u64,
    /// Tokens that the sequence will have, if the regime depends on that; else the model's context.
    pub context_length: u64,
    /// Radians per position of each pair, `[rotated / 2]` f32, to be written.
    pub frequencies: *const Tensor,
    /// Multiplies cosines and sines; 1 before the call.
    pub magnitude: *mut f32,
}

/// Handed to [`super::Component::sample`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SampleCall {
    /// Size and version.
    pub header: Header,
    /// Logits `[V]` f32, changed in place; minus infinity takes a token out.
    pub logits: *const Tensor,
    /// Tokens so far, the prompt's included.
    pub tokens: *const u32,
    /// How many.
    pub n_tokens: usize,
    /// Of them, how many are the prompt's.
    pub n_prompt: usize,
    /// A number that is the same for the same seed and position, whatever else is generated.
    pub random: u64,
}

/// Handed to [`super::Component::encode`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EncodeCall {
    /// Size and version.
    pub header: Header,
    /// The text, without special tokens.
    pub text: super::Text,
    /// Given back to `push`.
    pub context: *mut c_void,
    /// Takes the ids in order.
    pub push: unsafe extern "C" fn(context: *mut c_void, id: u32) -> Status,
}

/// Handed to [`super::Component::decode`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DecodeCall {
    /// Size and version.
    pub header: Header,
    /// The token.
    pub id: u32,
    /// Zero.
    pub padding: u32,
    /// Given back to `push`.
    pub context: *mut c_void,
    /// Takes the token's bytes, in one or several pieces.
    pub push: unsafe extern "C" fn(context: *mut c_void, bytes: super::Text) -> Status,
}
