//! [`export!`](crate::export!): a crate of components becomes a plugin.

/// Makes a plugin from components: a library (`crate-type = ["cdylib"]`), or a part of a program that links the crate.
///
/// ```text
/// menagerie_plugin::export! {
///     id: "acme/retnet",
///     components: [mixer Retention, feed_forward Gated, norm GroupNorm],
///     architectures: ["retnet.toml"],
///     tables: [],
/// }
/// ```
///
/// Each component has its family in front of it: `mixer`, `feed_forward`, `norm`, `activation`, `rope`, `sampler`,
/// `tokenizer`, `layer_observer`, `layer_replacer`.
/// Paths of files are relative to the source file, as in `include_str!`. `requires: capability::SLOTS` at the end lists the
/// capabilities that a host must have beyond rows of f32 ([`abi::capability`](crate::abi::capability)).
///
/// The plugin has the version of the crate. The macro declares the public constant `MENAGERIE_PLUGIN`. If the crate has the
/// feature `static = ["menagerie-plugin/static"]` and it is enabled, the plugin registers itself in the program that links
/// it, and does not export the two symbols of plugin libraries; so a program can link several plugins.
///
/// Invalid plugins do not compile: an id without an author,
///
/// ```compile_fail,E0080
/// menagerie_plugin::export! { id: "retnet", components: [] }
/// ```
///
/// or a type that does not implement the trait of its family.
///
/// ```compile_fail,E0277
/// struct Nothing;
/// menagerie_plugin::export! { id: "acme/retnet", components: [mixer Nothing] }
/// ```
#[macro_export]
macro_rules! export {
    (
        id: $id:literal,
        components: [$($family:ident $component:ty),* $(,)?]
        $(, architectures: [$($architecture:literal),* $(,)?])?
        $(, tables: [$($table:literal),* $(,)?])?
        $(, requires: $requires:expr)?
        $(,)?
    ) => {
        /// The plugin.
        pub const MENAGERIE_PLUGIN: $crate::Plugin = $crate::Plugin {
            manifest: $crate::Plugin::manifest($id, env!("CARGO_PKG_VERSION"), 0 $(| $requires)?),
            components: &[$({
                const { $crate::entry::check_component::<$component>() };
                $crate::entry::$family::<$component>
            }),*],
            architectures: &[$($(($architecture, include_str!($architecture))),*)?],
            tables: &[$($(($table, include_str!($table))),*)?],
        };

        $crate::submit_plugin!(MENAGERIE_PLUGIN);

        /// The symbols of a library; a linked plugin does not export them.
        #[allow(unexpected_cfgs)]
        mod menagerie_plugin_library {
            #[cfg(not(feature = "static"))]
            $crate::library!(super::MENAGERIE_PLUGIN);
        }
    };
}

/// The two symbols of a plugin library, for a crate that makes a library from the plugin of another crate:
/// `menagerie_plugin::library!(acme_retnet::MENAGERIE_PLUGIN);`
#[macro_export]
macro_rules! library {
    ($plugin:path) => {
        /// The manifest, which the host reads from the file before it runs any code.
        #[allow(unsafe_code)]
        #[used]
        #[unsafe(no_mangle)]
        #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mngplug"))]
        #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".mngplug"))]
        pub static MENAGERIE_PLUGIN_MANIFEST_V1: $crate::abi::Manifest = $plugin.manifest;

        /// Registers the components and files of the plugin.
        ///
        /// # Safety
        /// Both tables conform to the ABI; the host's table lives as long as the process.
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn menagerie_plugin_init_v1(
            host: *const $crate::abi::HostApi,
            registrar: *const $crate::abi::Registrar,
        ) -> $crate::abi::Status {
            const PLUGIN: $crate::Plugin = $plugin;
            // SAFETY: the promise above.
            unsafe { PLUGIN.init(host, registrar) }
        }
    };
}

/// Registers a plugin in the program that links it.
#[cfg(feature = "static")]
#[doc(hidden)]
#[macro_export]
macro_rules! submit_plugin {
    ($plugin:path) => {
        $crate::inventory::submit! {
            $crate::StaticPlugin {
                manifest: {
                    const PLUGIN: $crate::Plugin = $plugin;
                    &PLUGIN.manifest
                },
                init: {
                    /// # Safety
                    /// As the ABI says.
                    #[allow(unsafe_code)]
                    unsafe extern "C" fn init(
                        host: *const $crate::abi::HostApi,
                        registrar: *const $crate::abi::Registrar,
                    ) -> $crate::abi::Status {
                        const PLUGIN: $crate::Plugin = $plugin;
                        // SAFETY: the promise above.
                        unsafe { PLUGIN.init(host, registrar) }
                    }
                    init
                },
            }
        }
    };
}

/// Nothing to do: the host finds a plugin library by its symbols.
#[cfg(not(feature = "static"))]
#[doc(hidden)]
#[macro_export]
macro_rules! submit_plugin {
    ($plugin:path) => {};
}
