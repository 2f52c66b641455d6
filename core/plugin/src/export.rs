//! [`export!`](crate::export!): a crate of components becomes a plugin.

/// Makes a plugin of components: as a library of its own (`crate-type = ["cdylib"]`), or linked into a program.
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
/// Components are named after their family: `mixer`, `feed_forward`, `norm`, `activation`, `rope`, `sampler`, `tokenizer`,
/// `layer_observer`, `layer_replacer`.
/// Files are named as `include_str!` names them, from the source file on. `requires: capability::SLOTS` at the end says what
/// a host must be able to do beyond rows of f32 ([`abi::capability`](crate::abi::capability)).
///
/// The crate's version is the plugin's. It says so in `MENAGERIE_PLUGIN`, which is public. If the crate has a feature
/// `static = ["menagerie-plugin/static"]` and it is on, the plugin hands itself in to the program that links it, and has not
/// the two symbols by which a host finds a plugin in a library; so many plugins can be linked together.
///
/// What cannot be a plugin does not compile: an id without an author,
///
/// ```compile_fail,E0080
/// menagerie_plugin::export! { id: "retnet", components: [] }
/// ```
///
/// or a type that is not of the family it is named after.
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
        /// What the plugin is and has.
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

        /// The symbols of a library; a plugin that is linked into a program has none.
        #[allow(unexpected_cfgs)]
        mod menagerie_plugin_library {
            #[cfg(not(feature = "static"))]
            $crate::library!(super::MENAGERIE_PLUGIN);
        }
    };
}

/// The two symbols by which a host finds a plugin in a library, for a crate that makes a library of another crate's plugin:
/// `menagerie_plugin::library!(acme_retnet::MENAGERIE_PLUGIN);`
#[macro_export]
macro_rules! library {
    ($plugin:path) => {
        /// Read from the file before anything of it runs.
        #[allow(unsafe_code)]
        #[used]
        #[unsafe(no_mangle)]
        #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mngplug"))]
        #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".mngplug"))]
        pub static MENAGERIE_PLUGIN_MANIFEST_V1: $crate::abi::Manifest = $plugin.manifest;

        /// Registers what the plugin has.
        ///
        /// # Safety
        /// Both tables are what the ABI says; the host's lives as long as the process.
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

/// Hands a plugin in to the program that it is linked into.
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

/// A plugin that is a library of its own is found by its symbols.
#[cfg(not(feature = "static"))]
#[doc(hidden)]
#[macro_export]
macro_rules! submit_plugin {
    ($plugin:path) => {};
}
