//! [`Init`], [`HostApi`] and [`Registrar`]: how a plugin says what it has.

use super::{Component, Header, Status, Text};
use std::ffi::c_void;

/// The function a plugin exports: registers everything it has, then gives [`super::OK`]. Called once, before any model is
/// loaded. If it fails, nothing of the plugin is registered.
pub type Init = unsafe extern "C" fn(host: *const HostApi, registrar: *const Registrar) -> Status;

/// What the host does for a plugin anywhere, on any thread; lives as long as the process.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HostApi {
    /// Size and version.
    pub header: Header,
    /// Bits of [`super::capability`].
    pub capabilities: u64,
    /// Bits of [`super::cpu_feature`] that this machine has.
    pub cpu_features: u64,
    /// Given back to every function below.
    pub context: *mut c_void,
    /// Writes a line to the host's log: 1 error, 2 warning, 3 information, 4 debugging, 5 tracing.
    pub log: unsafe extern "C" fn(context: *mut c_void, level: u32, text: Text),
    /// Says why the function that the host is waiting for on this thread fails; before it gives [`super::ERROR`].
    pub set_error: unsafe extern "C" fn(context: *mut c_void, text: Text),
}

/// Takes what a plugin has; lives until [`Init`] returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Registrar {
    /// Size and version.
    pub header: Header,
    /// Given back to every function below.
    pub context: *mut c_void,
    /// Adds a component; it must live as long as the process.
    pub add_component: unsafe extern "C" fn(context: *mut c_void, component: *const Component) -> Status,
    /// Adds an architecture: a spec as a file in a spec folder has it, under a file name (`rwkv7.toml`).
    pub add_architecture: unsafe extern "C" fn(context: *mut c_void, file: Text, toml: Text) -> Status,
    /// Adds a table of vocabularies or chats, as a file in `tokenizers/` of a spec folder has it.
    pub add_table: unsafe extern "C" fn(context: *mut c_void, file: Text, toml: Text) -> Status,
}
