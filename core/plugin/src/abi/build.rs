//! [`Build`]: what the host gives while an instance is made.

use super::{Header, Status, Tensor, Text};
use std::ffi::c_void;

/// Handed to [`super::Component::create`]; lives for that call. A function that fails has noted the fault with its place
/// (file, layer, tensor), so that `create` may go on to find more, and then gives [`super::ERROR`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// Size and version.
    pub header: Header,
    /// The block; -1 for the whole model, or where there is none.
    pub layer: i64,
    /// Blocks of the model; 0 where there is no model.
    pub layers: u64,
    /// Elements of the rows it works on: D, or a norm's width.
    pub width: u64,
    /// Given back to every function below.
    pub context: *mut c_void,
    /// The value of an option of kind [`super::OptionDef::COUNT`].
    pub count: unsafe extern "C" fn(context: *mut c_void, option: Text, value: *mut u64) -> Status,
    /// The value of an option of kind [`super::OptionDef::REAL`].
    pub real: unsafe extern "C" fn(context: *mut c_void, option: Text, value: *mut f64) -> Status,
    /// The value of an option of kind [`super::OptionDef::NAME`] or [`super::OptionDef::TEXT`]; lives for the life of the
    /// instance.
    pub name: unsafe extern "C" fn(context: *mut c_void, option: Text, value: *mut Text) -> Status,
    /// A size that a tensor has bound (a symbol of [`super::RoleDef::dims`]).
    pub size: unsafe extern "C" fn(context: *mut c_void, symbol: Text, value: *mut u64) -> Status,
    /// 1 if the file has a role's tensor, else 0. `part` is one of [`part`](super::part).
    pub has: unsafe extern "C" fn(context: *mut c_void, role: Text, part: u32) -> i32,
    /// A role's tensor as the file stores it, shape with the slowest dimension first; lives for the life of the instance.
    pub weight:
        unsafe extern "C" fn(context: *mut c_void, role: Text, part: u32, tensor: *mut Tensor) -> Status,
    /// A role's numbers as f32, in the order of the file; live for the life of the instance.
    pub values:
        unsafe extern "C" fn(context: *mut c_void, role: Text, part: u32, tensor: *mut Tensor) -> Status,
    /// A role's linear, which the host computes with [`super::Call::linear`]: quantized, with adapters, on its threads.
    pub linear: unsafe extern "C" fn(context: *mut c_void, role: Text, linear: *mut Linear) -> Status,
    /// Declares a state, which the host keeps per sequence (so that prefixes, snapshots, stages and batches work); gives its
    /// number for [`super::Call`].
    pub declare_state:
        unsafe extern "C" fn(context: *mut c_void, state: *const StateSpec, number: *mut u32) -> Status,
    /// Rows `[T, width]` that layers hand on within a step, by a name that is the model's: the first layer that asks for it
    /// writes it, later ones read it. `writes` is 1 for the layer that writes. Gives its number for [`super::Call`].
    pub slot: unsafe extern "C" fn(
        context: *mut c_void,
        name: Text,
        width: u64,
        writes: *mut u32,
        number: *mut u32,
    ) -> Status,
    /// The model's vocabulary; null where there is none (tokenizers and samplers may have one).
    pub vocabulary: *const Vocabulary,
}

/// The tokens that a file has, as it has them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Vocabulary {
    /// Size and version.
    pub header: Header,
    /// Tokens; their ids are `0..tokens`.
    pub tokens: u64,
    /// Merges of pairs, the first to be done first; 0 where the vocabulary has none.
    pub merges: u64,
    /// Given back to every function below.
    pub context: *mut c_void,
    /// A token; its text lives for the life of the instance.
    pub token: unsafe extern "C" fn(context: *mut c_void, id: u32, token: *mut Token) -> Status,
    /// A merge: its two tokens with a space between; lives for the life of the instance.
    pub merge: unsafe extern "C" fn(context: *mut c_void, index: u64, merge: *mut Text) -> Status,
}

/// A token of a [`Vocabulary`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// As the file writes it, in the writing of its algorithm.
    pub text: Text,
    /// GGUF's `tokenizer.ggml.token_type`: 1 normal, 2 unknown, 3 control, 4 of the user, 5 unused, 6 a byte.
    pub kind: i32,
    /// GGUF's `tokenizer.ggml.scores`; 0 where there are none.
    pub score: f32,
}

/// A linear that the host keeps.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// Number for [`super::Call::linear`].
    pub number: u32,
    /// Zero.
    pub padding: u32,
    /// Elements of a row that goes in.
    pub inputs: u64,
    /// Elements of a row that comes out.
    pub outputs: u64,
}

/// A state to be kept for each sequence.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StateSpec {
    /// For listings and errors: `shift`, `k`.
    pub name: Text,
    /// [`StateSpec::PER_SEQUENCE`] or [`StateSpec::PER_TOKEN`].
    pub kind: u32,
    /// Dimensions in use.
    pub ndim: u32,
    /// Per sequence: the shape of one block of f32. Per token: heads and elements of a head.
    pub shape: [u64; 4],
    /// Per token: tokens that stay visible, the newest included; 0 = all.
    pub window: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

impl StateSpec {
    /// One block of f32 per sequence, zero at its beginning.
    pub const PER_SEQUENCE: u32 = 1;
    /// One row per token, stored as the host's cache type says.
    pub const PER_TOKEN: u32 = 2;
}
