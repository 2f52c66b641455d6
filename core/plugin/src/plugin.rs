//! [`Plugin`]: a plugin, as [`export!`](crate::export!) declares it.

use crate::abi::{self, HostApi, Manifest, Registrar, Status, Text, capability, cpu_feature};
use crate::caught::{install_hook, status};
use crate::error::{Error, Result};
use crate::log::set_host;

/// A plugin; [`export!`](crate::export!) declares it.
#[derive(Clone, Copy, Debug)]
pub struct Plugin {
    /// Its manifest.
    pub manifest: Manifest,
    /// Its components.
    pub components: &'static [fn() -> abi::Component],
    /// The specs of its architectures: file, text.
    pub architectures: &'static [(&'static str, &'static str)],
    /// Tables of vocabularies and chats: file, text.
    pub tables: &'static [(&'static str, &'static str)],
}

/// A plugin that is linked into the program; with the feature `static`, every one is in [`StaticPlugin::all`].
#[cfg(feature = "static")]
#[derive(Clone, Copy, Debug)]
pub struct StaticPlugin {
    /// Its manifest.
    pub manifest: &'static Manifest,
    /// Registers its components and files.
    pub init: abi::Init,
}

#[cfg(feature = "static")]
inventory::collect!(StaticPlugin);

#[cfg(feature = "static")]
impl StaticPlugin {
    /// The linked plugins. The linker drops crates that are not used; `use acme_retnet as _;` prevents that.
    pub fn all() -> impl Iterator<Item = &'static StaticPlugin> {
        inventory::iter::<StaticPlugin>.into_iter()
    }
}

impl Plugin {
    /// The manifest of a plugin, computed at compile time.
    ///
    /// # Panics
    /// The id is not `author/name` of `[a-z0-9._-]`, or a text is too long; then the plugin does not compile.
    #[doc(hidden)]
    pub const fn manifest(id: &str, version: &str, required: u64) -> Manifest {
        check_id(id.as_bytes());
        Manifest {
            magic: Manifest::MAGIC,
            struct_size: size_of::<Manifest>() as u32,
            abi_major: abi::ABI_MAJOR,
            abi_minor: abi::ABI_MINOR,
            required_capabilities: capability::CPU_F32 | required,
            cpu_features: COMPILED_FEATURES,
            target: padded(env!("MENAGERIE_PLUGIN_TARGET")),
            plugin_id: padded(id),
            plugin_version: padded(version),
            sdk_version: padded(env!("CARGO_PKG_VERSION")),
            toolchain: padded(env!("MENAGERIE_PLUGIN_TOOLCHAIN")),
            panic_strategy: cfg!(panic = "abort") as u8,
            padding: [0; 7],
            reserved: [0; 8],
        }
    }

    /// Registers the components and files of the plugin.
    ///
    /// # Safety
    /// Both tables conform to the ABI; the host's table lives as long as the process.
    #[doc(hidden)]
    pub unsafe fn init(&self, host: *const HostApi, registrar: *const Registrar) -> Status {
        // SAFETY: the promise above.
        let Ok(known) = (unsafe { abi::checked(host) }) else { return abi::ERROR };
        // SAFETY: of this version, and for the life of the process.
        unsafe { set_host(known) };
        install_hook();
        status(|| {
            // SAFETY: the promise above.
            let registrar = unsafe { abi::checked(registrar) }.map_err(Error::new)?;
            self.register(registrar)
        })
    }

    fn register(&self, registrar: &Registrar) -> Result<()> {
        let context = registrar.context;
        for component in self.components {
            let component: &'static abi::Component = Box::leak(Box::new(component()));
            // SAFETY: the registrar's function with its context; the component stays.
            noted(unsafe { (registrar.add_component)(context, component) })?;
        }
        for (path, text) in self.architectures {
            // SAFETY: the registrar's function with its context; texts of the program.
            noted(unsafe { (registrar.add_architecture)(context, file(path), Text::new(text)) })?;
        }
        for (path, text) in self.tables {
            // SAFETY: as above.
            noted(unsafe { (registrar.add_table)(context, file(path), Text::new(text)) })?;
        }
        Ok(())
    }
}

fn noted(status: Status) -> Result<()> {
    if status == abi::OK { Ok(()) } else { Err(Error::noted()) }
}

/// The name of a file, without its folders.
fn file(path: &'static str) -> Text {
    Text::new(path.rsplit(['/', '\\']).next().unwrap_or(path))
}

const fn padded<const N: usize>(text: &str) -> [u8; N] {
    let (bytes, mut padded, mut at) = (text.as_bytes(), [0; N], 0);
    assert!(bytes.len() < N, "a text of the manifest (id, version) is too long");
    while at < bytes.len() {
        padded[at] = bytes[at];
        at += 1;
    }
    padded
}

const fn check_id(id: &[u8]) {
    let (mut at, mut slashes) = (0, 0);
    while at < id.len() {
        match id[at] {
            b'/' => slashes += 1,
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' => {}
            _ => panic!("a plugin's id is `author/name`, both of `a-z`, `0-9`, `.`, `_` and `-`"),
        }
        at += 1;
    }
    let ends = !id.is_empty() && id[0] != b'/' && id[id.len() - 1] != b'/';
    assert!(slashes == 1 && ends, "a plugin's id is `author/name`");
}

/// The processor features that the compiler was told to use without a check.
const COMPILED_FEATURES: u64 = {
    let mut bits = 0;
    if cfg!(target_feature = "avx2") {
        bits |= cpu_feature::AVX2;
    }
    if cfg!(target_feature = "fma") {
        bits |= cpu_feature::FMA;
    }
    if cfg!(target_feature = "f16c") {
        bits |= cpu_feature::F16C;
    }
    if cfg!(target_feature = "avx512f") {
        bits |= cpu_feature::AVX512F;
    }
    if cfg!(target_feature = "avx512bw") {
        bits |= cpu_feature::AVX512BW;
    }
    if cfg!(target_feature = "avx512vl") {
        bits |= cpu_feature::AVX512VL;
    }
    if cfg!(target_feature = "avx512vnni") {
        bits |= cpu_feature::AVX512VNNI;
    }
    if cfg!(target_feature = "dotprod") {
        bits |= cpu_feature::DOTPROD;
    }
    if cfg!(target_feature = "fp16") {
        bits |= cpu_feature::FP16;
    }
    if cfg!(target_feature = "i8mm") {
        bits |= cpu_feature::I8MM;
    }
    bits
};
