//! The components of `plugins/rwkv7` as a library under another id: a process can have the plugin linked in and loaded.
//!
//! `plugins/rwkv7` is itself such a library when it is built alone (`cargo build --release -p menagerie-rwkv7`); the tests
//! need it linked in, and then it is none.

use menagerie_plugin::Plugin;
use menagerie_rwkv7::MENAGERIE_PLUGIN as LINKED;

/// The same components, and no architectures: those are the linked one's.
pub const MENAGERIE_PLUGIN: Plugin = Plugin {
    manifest: Plugin::manifest(
        "menagerie/rwkv7-library",
        env!("CARGO_PKG_VERSION"),
        LINKED.manifest.required_capabilities,
    ),
    components: LINKED.components,
    architectures: &[],
    tables: &[],
};

menagerie_plugin::library!(crate::MENAGERIE_PLUGIN);
