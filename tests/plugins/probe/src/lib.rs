//! A plugin for the tests of plugins: components that compute what another crate computes, and one that misbehaves.
//!
//! A test changes the texts in [`ORDERS`] and [`MARKER`] in the bytes of the library: what its init function does, and
//! which file it makes as soon as any code of it runs.
#![allow(missing_docs)]

mod good;
mod good_hooks;
mod rogue;
mod rogue_hooks;

use menagerie_plugin::abi::{self, HostApi, Manifest, Registrar, Status};
use menagerie_plugin::{Plugin, entry};

/// What init is to do; the rest of the bytes is a word of `rogue::init`.
pub static ORDERS: [u8; 32] = *b"PROBE-ORDERS=obey\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Path of the file that is made when the library is loaded.
pub static MARKER: [u8; 256] = {
    let mut bytes = [0; 256];
    let name = *b"PROBE-MARKER=";
    let mut at = 0;
    while at < name.len() {
        bytes[at] = name[at];
        at += 1;
    }
    bytes
};

/// The text after the `=`, as it stands in memory: the compiler must not know it.
fn told(bytes: &'static [u8]) -> Vec<u8> {
    let read = (0..bytes.len()).map(|at| {
        // SAFETY: inside the array.
        unsafe { std::ptr::from_ref(&bytes[at]).read_volatile() }
    });
    read.skip_while(|byte| *byte != b'=').skip(1).take_while(|byte| *byte != 0).collect()
}

extern "C" fn mark() {
    let path = String::from_utf8_lossy(&told(&MARKER)).into_owned();
    if !path.is_empty() {
        let _ = std::fs::write(path, "code of the plugin ran");
    }
}

/// Run by the dynamic linker, before anything else of the library can be.
#[used]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static CONSTRUCTOR: extern "C" fn() = mark;

const PLUGIN: Plugin = Plugin {
    manifest: Plugin::manifest("probe/parts", "0.1.0", 0),
    components: &[
        entry::norm::<good::DynamicTanh>,
        entry::mixer::<good::DecayingMean>,
        entry::mixer::<good::Remembering>,
        entry::feed_forward::<good::Gated>,
        entry::activation::<good::Mish>,
        entry::rope::<good::Stretched>,
        entry::norm::<rogue::Misbehaving>,
        entry::mixer::<rogue::Poisonous>,
        entry::layer_observer::<good_hooks::RowLog>,
        entry::layer_replacer::<good_hooks::Adding>,
        entry::layer_replacer::<rogue_hooks::MisbehavingHook>,
    ],
    architectures: &[("probe-model.toml", include_str!("probe-model.toml"))],
    tables: &[],
};

#[used]
#[unsafe(no_mangle)]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mngplug"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".mngplug"))]
pub static MENAGERIE_PLUGIN_MANIFEST_V1: Manifest = PLUGIN.manifest;

/// # Safety
/// As the ABI says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn menagerie_plugin_init_v1(
    host: *const HostApi,
    registrar: *const Registrar,
) -> Status {
    let orders = String::from_utf8_lossy(&told(&ORDERS)).into_owned();
    // SAFETY: the promise above.
    let status = unsafe { PLUGIN.init(host, registrar) };
    if status != abi::OK {
        return status;
    }
    // SAFETY: the promise above.
    unsafe { rogue::init(&orders, &*host, &*registrar) }
}
