//! The plugin ABI, version 1: structs of C, read and written by both sides.
//!
//! Rules that hold for all of it:
//! - Everything that a pointer leads to is **borrowed**: from the host for the call (or, in [`Build`], for the life of the
//!   instance where that is said), from the plugin for the life of the process. Nobody frees the other side's memory.
//! - Every struct of functions or descriptions begins with a [`Header`]. Within a major version fields are only added, at
//!   the end; a reader uses no more than `struct_size` bytes.
//! - [`Tensor`], [`Sequence`], [`OptionDef`], [`RoleDef`], [`StateSpec`], [`Linear`] and [`Token`] lie in arrays or are filled in by
//!   the other side: their size never changes within a major version.
//! - Texts are UTF-8, not ended by a zero. Functions that can fail give a [`Status`]; the text of [`ERROR`] has been given to
//!   `set_error` before.
//! - No panic and no exception leaves a function. [`PANIC`] says that one was caught.

mod build;
mod call;
mod component;
mod manifest;
mod register;
mod tensor;
mod versioned;

pub use build::{Build, Linear, StateSpec, Token, Vocabulary};
pub use call::{Call, DecodeCall, EncodeCall, FrequencyCall, HookCall, SampleCall, Sequence};
pub use component::{Component, OptionDef, RoleDef, part};
pub use manifest::{Manifest, capability, cpu_feature};
pub use register::{HostApi, Init, Registrar};
pub use tensor::{Tensor, device, dtype};
pub use versioned::{Unreadable, Versioned, checked, copied};

/// Struct that a plugin exports under this name; readable from the file without running it.
pub const MANIFEST_SYMBOL: &str = "MENAGERIE_PLUGIN_MANIFEST_V1";

/// Section that holds the manifest alone: legal in ELF, PE and Mach-O (`__DATA,__mngplug`).
pub const MANIFEST_SECTION: &str = ".mngplug";

/// Function that a plugin exports under this name: an [`Init`].
pub const INIT_SYMBOL: &str = "menagerie_plugin_init_v1";

/// Other majors are refused.
pub const ABI_MAJOR: u16 = 1;

/// A plugin of a newer minor is refused by an older host.
pub const ABI_MINOR: u16 = 0;

/// What a function says of how it went.
pub type Status = i32;

/// It went well.
pub const OK: Status = 0;

/// It failed; `set_error` was given the text.
pub const ERROR: Status = -1;

/// A panic was caught; the instance is not called again.
pub const PANIC: Status = -2;

/// The head of every struct that may grow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the struct as its writer knows it, this head included.
    pub struct_size: u32,
    /// Major version of the writer.
    pub abi_major: u16,
    /// Minor version of the writer.
    pub abi_minor: u16,
}

impl Header {
    /// The head of a struct of this version.
    pub const fn of<T>() -> Header {
        Header { struct_size: size_of::<T>() as u32, abi_major: ABI_MAJOR, abi_minor: ABI_MINOR }
    }
}

/// A borrowed UTF-8 text.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// Its bytes; may be null if `len` is 0.
    pub data: *const u8,
    /// How many.
    pub len: usize,
}

impl Text {
    /// A text that lives as long as it is borrowed.
    pub const fn new(text: &str) -> Text {
        Text { data: text.as_ptr(), len: text.len() }
    }
}
