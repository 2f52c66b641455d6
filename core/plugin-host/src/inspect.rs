//! Inspects a plugin's file without opening it as a library, so none of its code runs.

use crate::error::{PluginError, PluginFault};
use crate::manifest::{self, PluginManifest};
use menagerie_plugin::abi::{INIT_SYMBOL, MANIFEST_SECTION};
use object::{Architecture, BinaryFormat, File, FileKind, Object, ObjectKind, ObjectSection};
use std::io::Read;
use std::path::Path;

/// Maximum size of a plugin's file in bytes; real libraries are smaller.
const MOST_BYTES: u64 = 1 << 30;

/// The manifest of the plugin in a file. None of its code runs.
///
/// # Errors
/// The reason why this host refuses the plugin.
pub fn inspect(path: impl AsRef<Path>) -> Result<PluginManifest, PluginError> {
    let path = path.as_ref();
    let found = read(path).and_then(|bytes| inspect_bytes(&bytes));
    found.map_err(|fault| PluginError::new(path, fault))
}

/// The manifest of the plugin in the bytes of a file.
///
/// # Errors
/// The reason why this host refuses the plugin.
pub fn inspect_bytes(bytes: &[u8]) -> Result<PluginManifest, PluginFault> {
    check_kind(bytes)?;
    let file = File::parse(bytes).map_err(damaged)?;
    check_machine(&file)?;
    check_library(&file)?;
    let section = MANIFEST_SECTION;
    let found = file.section_by_name(section).or_else(|| file.section_by_name("__mngplug"));
    let Some(found) = found else { return Err(PluginFault::NoManifest { section }) };
    let inspected = manifest::read(found.data().map_err(damaged)?)?;
    let exports = file.exports().map_err(damaged)?;
    let underscored =
        |name: &[u8]| name.strip_prefix(b"_").is_some_and(|name| name == INIT_SYMBOL.as_bytes());
    if !exports.iter().any(|export| export.name() == INIT_SYMBOL.as_bytes() || underscored(export.name())) {
        return Err(PluginFault::NoInit(INIT_SYMBOL));
    }
    Ok(inspected)
}

/// The bytes of a regular file of limited size.
fn read(path: &Path) -> Result<Vec<u8>, PluginFault> {
    // Looked at before it is opened: opening a pipe waits for its writer.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    check_size(&metadata)?;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Refuses files that are not regular or too large.
pub(crate) fn check_size(metadata: &std::fs::Metadata) -> Result<(), PluginFault> {
    if !metadata.is_file() {
        let found = if metadata.is_dir() { "a folder" } else { "no regular file" };
        return Err(PluginFault::NotALibrary { found: found.to_owned() });
    }
    if metadata.len() > MOST_BYTES {
        return Err(PluginFault::Unreadable(format!(
            "it is larger than {MOST_BYTES} bytes, which no plugin is"
        )));
    }
    Ok(())
}

pub(crate) fn unreadable(error: std::io::Error) -> PluginFault {
    PluginFault::Unreadable(error.to_string())
}

fn damaged(error: object::Error) -> PluginFault {
    PluginFault::Damaged(error.to_string())
}

/// Refuses files that are not libraries by their first bytes.
fn check_kind(bytes: &[u8]) -> Result<(), PluginFault> {
    let not = |found: &str| Err(PluginFault::NotALibrary { found: found.to_owned() });
    match FileKind::parse(bytes) {
        Ok(
            FileKind::Elf32
            | FileKind::Elf64
            | FileKind::MachO32
            | FileKind::MachO64
            | FileKind::Pe32
            | FileKind::Pe64,
        ) => Ok(()),
        Ok(FileKind::MachOFat32 | FileKind::MachOFat64) => {
            not("a library for several machines at once (take one out with `lipo -thin`)")
        }
        _ if bytes.starts_with(b"!<arch>") => {
            not("an archive of objects (crate-type = [\"cdylib\"] makes a library)")
        }
        _ if bytes.is_empty() => not("empty"),
        _ if bytes.iter().take(512).all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')) => {
            not("a text file")
        }
        _ => not("a file of another format"),
    }
}

/// Refuses libraries for another machine or system.
fn check_machine(file: &File<'_>) -> Result<(), PluginFault> {
    let wanted = (
        own_architecture(),
        BinaryFormat::native_object(),
        cfg!(target_pointer_width = "64"),
        cfg!(target_endian = "little"),
    );
    let found = (file.architecture(), file.format(), file.is_64(), file.is_little_endian());
    if found == wanted {
        return Ok(());
    }
    let named = |(architecture, format, wide, little): (Architecture, BinaryFormat, bool, bool)| {
        let bits = if wide { 64 } else { 32 };
        let order = if little { "little" } else { "big" };
        format!("{architecture:?} ({format:?}, {bits} bits, {order}-endian)")
    };
    Err(PluginFault::OtherMachine { found: named(found), own: named(wanted) })
}

fn own_architecture() -> Architecture {
    match std::env::consts::ARCH {
        "x86_64" => Architecture::X86_64,
        "x86" => Architecture::I386,
        "aarch64" => Architecture::Aarch64,
        "arm" => Architecture::Arm,
        "riscv64" => Architecture::Riscv64,
        "powerpc64" => Architecture::PowerPc64,
        "s390x" => Architecture::S390x,
        "loongarch64" => Architecture::LoongArch64,
        _ => Architecture::Unknown,
    }
}

/// Refuses programs and object files. Position-independent programs only differ from libraries in their interpreter.
fn check_library(file: &File<'_>) -> Result<(), PluginFault> {
    match file.kind() {
        ObjectKind::Dynamic if file.section_by_name(".interp").is_none() => Ok(()),
        ObjectKind::Dynamic | ObjectKind::Executable => Err(PluginFault::Executable),
        ObjectKind::Core => Err(PluginFault::NotALibrary { found: "a core dump".to_owned() }),
        _ => Err(PluginFault::NotALibrary { found: "an object file that is not linked".to_owned() }),
    }
}
