//! [`Component`]: one thing that specs, or people, name.

use super::{Build, Call, DecodeCall, EncodeCall, FrequencyCall, Header, HookCall, SampleCall, Status, Text};
use std::ffi::c_void;

/// A component of a plugin. Of the functions after `destroy`, those of its family are there and the others are null.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// Size and version.
    pub header: Header,
    /// One of the constants below.
    pub family: u32,
    /// Bits of the constants below.
    pub flags: u32,
    /// `[a-z0-9-]`; in specs it is `author/name:component`.
    pub name: Text,
    /// One sentence on what it computes and the source of its formula.
    pub doc: Text,
    /// Its options.
    pub options: *const OptionDef,
    /// How many.
    pub n_options: usize,
    /// The tensors it wants.
    pub roles: *const RoleDef,
    /// How many.
    pub n_roles: usize,
    /// Makes an instance: one per place of a model; of a sampler, one per request; of a layer hook, one for all layers.
    pub create: unsafe extern "C" fn(build: *const Build, instance: *mut *mut c_void) -> Status,
    /// Ends it; no other call of the instance is under way or comes later.
    pub destroy: unsafe extern "C" fn(instance: *mut c_void),
    /// Mixers, feed-forwards, norms, activations: rows to rows. May be called from several threads at once.
    pub forward: Option<unsafe extern "C" fn(instance: *mut c_void, call: *const Call) -> Status>,
    /// Ropes: the frequencies of a head.
    pub frequencies:
        Option<unsafe extern "C" fn(instance: *mut c_void, call: *const FrequencyCall) -> Status>,
    /// Samplers: changes logits in place.
    pub sample: Option<unsafe extern "C" fn(instance: *mut c_void, call: *const SampleCall) -> Status>,
    /// Tokenizers: text to ids.
    pub encode: Option<unsafe extern "C" fn(instance: *mut c_void, call: *const EncodeCall) -> Status>,
    /// Tokenizers: an id to bytes.
    pub decode: Option<unsafe extern "C" fn(instance: *mut c_void, call: *const DecodeCall) -> Status>,
    /// Layer hooks: rows between layers, looked at or replaced. May be called from several threads at once.
    pub hook: Option<unsafe extern "C" fn(instance: *mut c_void, call: *const HookCall) -> Status>,
}

impl Component {
    /// Mixes tokens: inputs `x [T, D]`, output `[T, D]`.
    pub const MIXER: u32 = 1;
    /// Transforms each token: inputs `x`, the stream before the norm, the block's input, `[T, D]` each; output `[T, D]`.
    pub const FEED_FORWARD: u32 = 2;
    /// Input `x [T, width]`, output `[T, width]`; no state.
    pub const NORM: u32 = 3;
    /// Input `x [T, F]`, output `[T, F]`, element by element; no state.
    pub const ACTIVATION: u32 = 4;
    /// The frequencies by which a rope rotates.
    pub const ROPE: u32 = 5;
    /// A step of the sampler chain.
    pub const SAMPLER: u32 = 6;
    /// Texts to tokens and back.
    pub const TOKENIZER: u32 = 7;
    /// Looks at the rows between layers, or puts others in their place: input `[T, D]`; output `[T, D]` if it
    /// [`Component::REPLACES`], else none. No state.
    pub const LAYER_HOOK: u32 = 8;

    /// In `flags`: a mixer whose tokens see later ones, so that a sequence is computed in one step.
    pub const LOOKS_AHEAD: u32 = 1;
    /// In `flags`: a layer hook that puts rows in the place of those it is shown; without it, it only looks.
    pub const REPLACES: u32 = 2;
    /// In `flags`: a layer hook that is called before layers; one of this and the next, or both.
    pub const BEFORE_LAYERS: u32 = 4;
    /// In `flags`: a layer hook that is called after layers.
    pub const AFTER_LAYERS: u32 = 8;
    /// In `flags`: a layer hook that is shown prompts; one of this and the next, or both.
    pub const IN_PREFILL: u32 = 16;
    /// In `flags`: a layer hook that is shown what was generated.
    pub const IN_DECODE: u32 = 32;
    /// In `flags`: a mixer or feed-forward whose rows have the same bits whichever other rows are computed with them, and
    /// in however many calls. With a state per sequence and without this flag, the host guesses no tokens.
    pub const EXACT_ROWS: u32 = 64;
}

/// An option that a spec may write in the component's table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OptionDef {
    /// Its key.
    pub name: Text,
    /// One sentence.
    pub doc: Text,
    /// One of the constants below.
    pub kind: u32,
    /// 1: what no file says and only logits would show (`show` lists it).
    pub guarded: u32,
    /// What holds where it is not written, as TOML (`0.5`, `"mean"`); empty: none.
    pub default: Text,
    /// The canonical key of a file it is read from where it is not written (`rwkv.head_size`); empty: none. Without key and
    /// default it must be written.
    pub key: Text,
    /// For [`OptionDef::NAME`]: the names it may be.
    pub names: *const Text,
    /// How many.
    pub n_names: usize,
    /// Zero.
    pub reserved: [u64; 2],
}

impl OptionDef {
    /// A whole number that is not negative, or an expression that gives one.
    pub const COUNT: u32 = 1;
    /// A number, or an expression that gives one.
    pub const REAL: u32 = 2;
    /// One of a list of names.
    pub const NAME: u32 = 3;
    /// A text (the path of a file), of samplers, tokenizers and layer hooks; its default has no `"` and no `\` in it.
    pub const TEXT: u32 = 4;
}

/// A tensor that a component wants, `blk.N.<name>`; of a norm, under the role of its place.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RoleDef {
    /// Its role, GGUF's name between `blk.N.` and `.weight`; empty for a norm's own.
    pub name: Text,
    /// What it is.
    pub doc: Text,
    /// One of the constants below.
    pub form: u32,
    /// 1: a file may lack it ([`Build::has`] says).
    pub optional: u32,
    /// Sizes in symbols, the contiguous one first, as GGUF has them: `D`, `width` (a norm's), an option's name, a
    /// number, sums of products of these with `/n` at a product's end (`heads*head_size`, `D/2+1`), or another symbol, which
    /// the first tensor that has it binds.
    pub dims: *const Text,
    /// How many.
    pub n_dims: usize,
    /// Zero.
    pub reserved: [u64; 2],
}

impl RoleDef {
    /// `.weight` of a linear.
    pub const LINEAR: u32 = 1;
    /// `.weight` and `.bias` of a linear.
    pub const LINEAR_WITH_BIAS: u32 = 2;
    /// Numbers that no row is multiplied with: `.weight`, or the tensor a role with a suffix names.
    pub const VALUES: u32 = 3;
    /// `.bias` alone.
    pub const BIAS: u32 = 4;
    /// `.weight` of a linear, and its `.bias` if the file has one.
    pub const LINEAR_MAY_HAVE_BIAS: u32 = 5;
}

/// Which tensor of a role; two rows of [`RoleDef`] may share a name (a norm's `.weight` and `.bias`).
pub mod part {
    /// `.weight`, or the tensor a role with a suffix names.
    pub const MAIN: u32 = 0;
    /// `.bias`.
    pub const BIAS: u32 = 1;
}
