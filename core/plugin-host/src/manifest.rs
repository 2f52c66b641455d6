//! Reads [`Manifest`]s from the bytes of a section, field by field and with checks.

use crate::cpu;
use crate::error::PluginFault;
use menagerie_plugin::abi::{ABI_MAJOR, ABI_MINOR, Manifest, capability};
use std::mem::offset_of;

/// Names of the bits of [`capability`], for messages.
const CAPABILITIES: [(u64, &str); 6] = [
    (capability::CPU_F32, "cpu-f32"),
    (capability::LINEARS, "linears"),
    (capability::PARALLEL_FOR, "parallel-for"),
    (capability::STATES, "states"),
    (capability::GGML_BLOCKS, "ggml-blocks"),
    (capability::SLOTS, "slots"),
];

/// The manifest of a plugin, read without running its code.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PluginManifest {
    /// `author/name`.
    pub id: String,
    /// Its version.
    pub version: String,
    /// Version of the ABI, `1.0`.
    pub abi: String,
    /// Version of its SDK; empty for plugins without the SDK.
    pub sdk: String,
    /// Target triple.
    pub target: String,
    /// Compiler and version.
    pub toolchain: String,
    /// Capabilities that it requires from the host.
    pub capabilities: Vec<String>,
    /// Features of the processor that it uses without a check.
    pub cpu_features: Vec<String>,
    /// The effect of a panic.
    pub panics: PanicStrategy,
}

/// The effect of a panic inside a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PanicStrategy {
    /// It unwinds, and the plugin catches it.
    Unwind,
    /// It ends the process.
    Abort,
}

/// The fields of a manifest at the beginning of these bytes.
struct ManifestFields<'a>(&'a [u8]);

impl<'a> ManifestFields<'a> {
    fn bytes<const N: usize>(&self, offset: usize) -> Result<[u8; N], PluginFault> {
        let found = self.0.get(offset..offset.saturating_add(N)).and_then(|bytes| bytes.try_into().ok());
        found.ok_or_else(|| {
            PluginFault::Damaged(format!(
                "{} bytes of manifest, expected at least {}",
                self.0.len(),
                offset + N
            ))
        })
    }

    fn u16(&self, offset: usize) -> Result<u16, PluginFault> {
        self.bytes(offset).map(u16::from_ne_bytes)
    }

    fn u32(&self, offset: usize) -> Result<u32, PluginFault> {
        self.bytes(offset).map(u32::from_ne_bytes)
    }

    fn u64(&self, offset: usize) -> Result<u64, PluginFault> {
        self.bytes(offset).map(u64::from_ne_bytes)
    }

    /// A text of printable ASCII, padded with zeros.
    fn text(&self, offset: usize, len: usize, what: &str) -> Result<String, PluginFault> {
        let all = self.0.get(offset..offset + len).unwrap_or_default();
        let end = all.iter().position(|byte| *byte == 0).unwrap_or(all.len());
        let (text, padding) = all.split_at(end);
        let printable = text.iter().all(|byte| (b' '..=b'~').contains(byte));
        if !printable || padding.iter().any(|byte| *byte != 0) {
            return Err(PluginFault::Manifest(format!("{what} is not a text padded with zeros")));
        }
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}

/// Reads the manifest in these bytes, and checks it against this host.
///
/// # Errors
/// The part of it that cannot be used.
pub(crate) fn read(section: &[u8]) -> Result<PluginManifest, PluginFault> {
    let fields = ManifestFields(section);
    let magic: [u8; 8] = fields.bytes(offset_of!(Manifest, magic))?;
    if magic != Manifest::MAGIC {
        return Err(PluginFault::Manifest(format!(
            "it begins with \"{}\", expected \"MNGPLUG\\x01\"",
            magic.escape_ascii()
        )));
    }
    let size = fields.u32(offset_of!(Manifest, struct_size))? as usize;
    let abi = version(&fields)?;
    if size < size_of::<Manifest>() || size > section.len() {
        return Err(PluginFault::Manifest(format!(
            "it states a size of {size} bytes; expected {} to {} (the size of its section)",
            size_of::<Manifest>(),
            section.len()
        )));
    }
    needs(&fields)?;
    zeros(&fields)?;
    let id = fields.text(offset_of!(Manifest, plugin_id), 64, "its id")?;
    if !is_id(&id) {
        return Err(PluginFault::Manifest(format!(
            "`{id}` is not an id; expected author/name, both of a-z, 0-9, `.`, `_`, `-`"
        )));
    }
    let [strategy] = fields.bytes(offset_of!(Manifest, panic_strategy))?;
    let panics = match strategy {
        0 => PanicStrategy::Unwind,
        1 => PanicStrategy::Abort,
        other => return Err(PluginFault::Manifest(format!("panic_strategy is {other}, expected 0 or 1"))),
    };
    Ok(PluginManifest {
        id,
        version: fields.text(offset_of!(Manifest, plugin_version), 32, "its version")?,
        abi,
        sdk: fields.text(offset_of!(Manifest, sdk_version), 32, "the version of its SDK")?,
        target: fields.text(offset_of!(Manifest, target), 48, "its target")?,
        toolchain: fields.text(offset_of!(Manifest, toolchain), 96, "its toolchain")?,
        capabilities: capability_names(fields.u64(offset_of!(Manifest, required_capabilities))?),
        cpu_features: cpu::names(fields.u64(offset_of!(Manifest, cpu_features))?),
        panics,
    })
}

/// The manifest of a linked plugin, with the same checks.
///
/// # Errors
/// As [`read`].
pub(crate) fn of_struct(manifest: &Manifest) -> Result<PluginManifest, PluginFault> {
    let size = size_of::<Manifest>();
    // SAFETY: a struct of this version, whose fields leave no padding between them.
    read(unsafe { std::slice::from_raw_parts(std::ptr::from_ref(manifest).cast::<u8>(), size) })
}

/// The version of the ABI, if this host supports it.
fn version(fields: &ManifestFields<'_>) -> Result<String, PluginFault> {
    let major = fields.u16(offset_of!(Manifest, abi_major))?;
    let minor = fields.u16(offset_of!(Manifest, abi_minor))?;
    let (found, own) = (format!("{major}.{minor}"), format!("{ABI_MAJOR}.{ABI_MINOR}"));
    if major != ABI_MAJOR {
        return Err(PluginFault::Major { found, own });
    }
    if minor > ABI_MINOR {
        return Err(PluginFault::Minor { found, own });
    }
    Ok(found)
}

fn needs(fields: &ManifestFields<'_>) -> Result<(), PluginFault> {
    let missing = fields.u64(offset_of!(Manifest, required_capabilities))? & !capability::ALL;
    if missing != 0 {
        return Err(PluginFault::Capabilities { missing: capability_names(missing) });
    }
    let missing = fields.u64(offset_of!(Manifest, cpu_features))? & !cpu::features();
    if missing != 0 {
        return Err(PluginFault::CpuFeatures { missing: cpu::names(missing) });
    }
    Ok(())
}

/// Checks that reserved bytes are zero, because a later version may give them a meaning.
fn zeros(fields: &ManifestFields<'_>) -> Result<(), PluginFault> {
    let padding: [u8; 7] = fields.bytes(offset_of!(Manifest, padding))?;
    let reserved: [u8; 64] = fields.bytes(offset_of!(Manifest, reserved))?;
    if padding.iter().chain(&reserved).any(|byte| *byte != 0) {
        return Err(PluginFault::Manifest("reserved bytes are not zero".to_owned()));
    }
    Ok(())
}

fn is_id(id: &str) -> bool {
    let part = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
    };
    id.split_once('/').is_some_and(|(author, name)| part(author) && part(name))
}

fn capability_names(bits: u64) -> Vec<String> {
    let name = |bit: u64| {
        let known = CAPABILITIES.iter().find(|(known, _)| *known == bit).map(|(_, name)| (*name).to_owned());
        known.unwrap_or_else(|| format!("capability {}", bit.trailing_zeros()))
    };
    (0..64).map(|place| 1u64 << place).filter(|bit| bits & bit != 0).map(name).collect()
}
