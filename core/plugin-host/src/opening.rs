//! Opens plugins: the only place that loads code of a file into this process.

use crate::error::{PluginError, PluginFault};
use crate::inspect::{self, inspect_bytes, unreadable};
use crate::lock::Lock;
use crate::manifest::{self, PluginManifest};
use crate::plugin::{LoadedPlugin, PluginLocation, loaded};
use crate::registering;
use crate::trust;
use menagerie_plugin::StaticPlugin;
use menagerie_plugin::abi::{INIT_SYMBOL, Init};
use menagerie_registry::Environment;
use sha2::{Digest, Sha256};
use std::error::Error;
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Restrictions on the plugins that are loaded.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct PluginLoadOptions<'a> {
    /// If set, only plugins of this lock are loaded, and only with the SHA-256 in it.
    pub locked: Option<&'a Lock>,
}

impl<'a> PluginLoadOptions<'a> {
    /// The same with this [`Self::locked`].
    #[must_use]
    pub fn with_locked(self, locked: impl Into<Option<&'a Lock>>) -> Self {
        Self { locked: locked.into(), ..self }
    }
}

/// A file that was verified and is not yet opened as a library.
struct VerifiedFile {
    file: File,
    /// Links resolved.
    path: PathBuf,
    inspected: PluginManifest,
    sha256: String,
    before: Metadata,
}

/// The plugin files in a folder, in alphabetical order.
///
/// # Errors
/// The folder cannot be read.
pub fn files_of(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>, PluginError> {
    let folder = folder.as_ref();
    let failed = |error: std::io::Error| PluginError::new(folder, PluginFault::Unreadable(error.to_string()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_library =
            path.extension().is_some_and(|end| ["so", "dylib", "dll"].iter().any(|known| end == *known));
        if is_library {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// SHA-256 of a file, in hexadecimal, as in a [`Lock`].
///
/// # Errors
/// The file cannot be read.
pub fn sha256_of(path: impl AsRef<Path>) -> Result<String, PluginError> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|error| PluginError::new(path, unreadable(error)))?;
    Ok(sum(&bytes))
}

/// Loads a plugin from its file, and returns the environment with its entries. The library stays loaded until the process
/// ends; loading the same file again does not open it again. Call this before a model is loaded, and from one thread.
///
/// # Errors
/// The reason why the plugin is refused. If it was refused before it was opened, none of its code has run.
pub fn load(
    environment: &Environment,
    path: impl AsRef<Path>,
    options: PluginLoadOptions<'_>,
) -> Result<(Environment, &'static LoadedPlugin), PluginError> {
    let path = path.as_ref();
    let with_it = || {
        let checked = check(path, options)?;
        registering::check_id(environment, &checked.inspected.id)?;
        let is_it = |plugin: &&LoadedPlugin| {
            plugin.location == PluginLocation::File(checked.path.clone()) && plugin.sha256 == checked.sha256
        };
        let plugin = match loaded().into_iter().find(is_it) {
            Some(plugin) => plugin,
            None => open(checked)?,
        };
        Ok((registering::installed(environment, plugin)?, plugin))
    };
    with_it().map_err(|fault| PluginError::new(path, fault))
}

/// The environment with the plugins that are linked into this program and that it does not have yet; and the refused
/// plugins.
pub fn with_linked_plugins(environment: &Environment) -> (Environment, Vec<PluginError>) {
    let (mut extended, mut refused) = (environment.clone(), Vec::new());
    for linked in StaticPlugin::all() {
        let inspected = manifest::of_struct(linked.manifest);
        let id =
            inspected.as_ref().map_or("(its manifest cannot be read)", |inspected| &inspected.id).to_owned();
        let is_it = |plugin: &&&LoadedPlugin| {
            plugin.location == PluginLocation::Static
                && plugin.inspected.id == id
                && std::ptr::fn_addr_eq(plugin.init, linked.init)
        };
        if environment.all::<&'static LoadedPlugin>().iter().any(|plugin| is_it(&plugin)) {
            continue;
        }
        let plugin = match loaded().iter().find(is_it) {
            Some(plugin) => Ok(*plugin),
            None => inspected.and_then(|inspected| {
                registering::check_id(&extended, &inspected.id)?;
                registering::register(inspected, PluginLocation::Static, String::new(), linked.init)
            }),
        };
        match plugin.and_then(|plugin| registering::installed(&extended, plugin)) {
            Ok(with_it) => extended = with_it,
            Err(fault) => refused.push(PluginError::new(&linked_name(&id), fault)),
        }
    }
    (extended, refused)
}

/// The name of a linked plugin in errors.
fn linked_name(id: &str) -> PathBuf {
    PathBuf::from(format!("{id} (linked in)"))
}

fn check(path: &Path, options: PluginLoadOptions<'_>) -> Result<VerifiedFile, PluginFault> {
    let canonical = trust::trusted(path)?;
    inspect::check_size(&std::fs::metadata(&canonical).map_err(unreadable)?)?;
    let mut file = File::open(&canonical).map_err(unreadable)?;
    let before = file.metadata().map_err(unreadable)?;
    inspect::check_size(&before)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    let inspected = inspect_bytes(&bytes)?;
    let sha256 = sum(&bytes);
    if let Some(lock) = options.locked {
        lock.check(&inspected.id, &sha256)?;
    }
    Ok(VerifiedFile { file, path: canonical, inspected, sha256, before })
}

/// Opens exactly the verified file: by its descriptor, if the system supports it.
fn open(checked: VerifiedFile) -> Result<&'static LoadedPlugin, PluginFault> {
    let VerifiedFile { file, path, inspected, sha256, before } = checked;
    let library = library(&opened_as(&file, &path))?;
    let swapped = |why: &str| Err(PluginFault::Swapped(why.to_owned()));
    match (file.metadata(), std::fs::metadata(&path)) {
        (Ok(after), Ok(_)) if !same(&before, &after) => return swapped("its bytes"),
        (Ok(after), Ok(now)) if !same(&after, &now) => return swapped("it was replaced by another file"),
        (Ok(_), Ok(_)) => {}
        (Err(error), _) | (_, Err(error)) => return swapped(&error.to_string()),
    }
    // The loader knows libraries by the name they were opened by: this one's stays its own, because the descriptor does.
    std::mem::forget(file);
    let init = symbol(&library);
    // Never closed: threads, and instances, may be inside.
    std::mem::forget(library);
    registering::register(inspected, PluginLocation::File(path), sha256, init?)
}

/// The path for opening a verified file: its descriptor, so that no other file can take its place.
#[cfg(target_os = "linux")]
fn opened_as(file: &File, path: &Path) -> PathBuf {
    use std::os::fd::AsRawFd;
    let by_descriptor = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if by_descriptor.exists() { by_descriptor } else { path.to_owned() }
}

/// The path for opening a verified file; whether it was replaced is checked afterwards.
#[cfg(not(target_os = "linux"))]
fn opened_as(_file: &File, path: &Path) -> PathBuf {
    path.to_owned()
}

/// Whether a file is unchanged between two reads of its metadata.
#[cfg(unix)]
fn same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let seen = |file: &Metadata| {
        (
            file.dev(),
            file.ino(),
            file.size(),
            file.mtime(),
            file.mtime_nsec(),
            file.ctime(),
            file.ctime_nsec(),
        )
    };
    seen(one) == seen(other)
}

/// Whether a file is unchanged between two reads of its metadata.
#[cfg(not(unix))]
fn same(one: &Metadata, other: &Metadata) -> bool {
    one.len() == other.len() && one.modified().ok() == other.modified().ok()
}

#[cfg(unix)]
type Library = libloading::os::unix::Library;
#[cfg(windows)]
type Library = libloading::os::windows::Library;

#[cfg(unix)]
fn library(path: &Path) -> Result<Library, PluginFault> {
    use libloading::os::unix::{RTLD_LOCAL, RTLD_NOW};
    // SAFETY: running code of a file is what loading a plugin is: the user has asked for this one, and it says that it is
    // built for this program.
    let opened = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    opened.map_err(|error| PluginFault::Open(chain(&error)))
}

#[cfg(windows)]
fn library(path: &Path) -> Result<Library, PluginFault> {
    // SAFETY: as on other systems.
    unsafe { Library::new(path) }.map_err(|error| PluginFault::Open(chain(&error)))
}

fn symbol(library: &Library) -> Result<Init, PluginFault> {
    // SAFETY: the ABI gives the symbol this type.
    let found = unsafe { library.get::<Init>(INIT_SYMBOL) };
    found.map(|init| *init).map_err(|error| PluginFault::Open(chain(&error)))
}

/// An error with its causes, such as the text of the dynamic linker.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
