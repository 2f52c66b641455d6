//! The bytes of a part: mapped or in memory. The only module that maps files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use memmap2::{Mmap, MmapMut, MmapOptions};

use crate::cursor::CursorFault;
use crate::error::GgufErrorKind;
use crate::guard::GuardSlot;
use crate::header::GgufHeader;

/// The number of bytes that are first read to find the end of the header.
const FIRST_PIECE: u64 = 256 << 10;
/// The extension of GGUF files.
const GGUF: &str = "gguf";
/// Maximum size of a header in bytes (the largest published ones have some 30 MiB).
const MAX_HEADER: u64 = 1 << 30;

/// The bytes of one part.
#[derive(Debug)]
pub(crate) enum Storage {
    /// Passed by the caller.
    Given(Vec<u8>),
    /// Read from a file into anonymous, page-aligned memory.
    Read(Mmap),
    /// A mapped file.
    Mapped(Mapping),
}

/// A mapping and the state of the file when it was made.
#[derive(Debug)]
pub(crate) struct Mapping {
    // Dropped in this order: the range leaves the table before it is unmapped.
    slot: GuardSlot,
    map: Mmap,
    file: File,
    modified: Option<SystemTime>,
}

impl Storage {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Given(bytes) => bytes,
            Self::Read(memory) => memory,
            Self::Mapped(mapped) => &mapped.map,
        }
    }

    pub(crate) fn poisoned(&self) -> bool {
        matches!(self, Self::Mapped(mapped) if mapped.slot.poisoned())
    }

    /// An error if the file under a mapping became shorter or was written to.
    pub(crate) fn check_alive(&self) -> Result<(), GgufErrorKind> {
        let Self::Mapped(mapped) = self else { return Ok(()) };
        let changed = |problem: String| Err(GgufErrorKind::Changed { problem });
        if mapped.slot.poisoned() {
            return changed(
                "a page of it vanished (truncated, or the disk failed) and was read as zeros".into(),
            );
        }
        let now = mapped.file.metadata().map_err(|source| GgufErrorKind::io("look at the file", source))?;
        let was = mapped.map.len() as u64;
        if now.len() < was {
            return changed(format!("it was truncated from {was} to {} bytes", now.len()));
        }
        if now.len() > was || now.modified().ok() != mapped.modified {
            return changed("it was written to (replace model files by renaming a new one over them)".into());
        }
        Ok(())
    }

    /// A whole regular file, mapped or read; advice in errors mentions files with `extension`.
    pub(crate) fn open(path: &Path, mmap: bool, extension: &str) -> Result<Self, GgufErrorKind> {
        let (file, about) = open_regular(path, extension)?;
        match about.len() {
            0 => Ok(Self::Given(Vec::new())),
            len if mmap => Self::map(file, len, about.modified().ok()),
            len => Self::read(file, len),
        }
    }

    fn map(file: File, len: u64, modified: Option<SystemTime>) -> Result<Self, GgufErrorKind> {
        let size = in_memory(len)?;
        // SAFETY: the mapping is read-only and `size` was the file's length a moment ago; its bytes are only ever used
        // as plain bytes, never as text or numbers with invalid values, so a writer elsewhere can spoil results but not
        // memory. A truncation is caught by the fault guard and by `check_alive`.
        let map = unsafe { MmapOptions::new().len(size).map(&file) };
        let map = map.map_err(|source| GgufErrorKind::Io {
            action: "map the file",
            source,
            advice: "; read it into memory in its place (--no-mmap)".into(),
        })?;
        let Some(slot) = GuardSlot::register(map.as_ptr() as usize, map.len()) else {
            let source = io::Error::other("too many files are mapped");
            let advice = "; read it into memory in its place (--no-mmap)".into();
            return Err(GgufErrorKind::Io { action: "map the file", source, advice });
        };
        Ok(Self::Mapped(Mapping { slot, map, file, modified }))
    }

    fn read(mut file: File, len: u64) -> Result<Self, GgufErrorKind> {
        let size = in_memory(len)?;
        let memory = MmapMut::map_anon(size)
            .map_err(|source| GgufErrorKind::io("reserve memory for the file", source));
        let mut memory = memory?;
        file.read_exact(&mut memory).map_err(|source| GgufErrorKind::io("read the file", source))?;
        let memory = memory.make_read_only();
        memory.map(Self::Read).map_err(|source| GgufErrorKind::io("protect the memory of the file", source))
    }
}

fn in_memory(len: u64) -> Result<usize, GgufErrorKind> {
    usize::try_from(len).map_err(|_| GgufErrorKind::Io {
        action: "hold the file",
        source: io::Error::other(format!("{len} bytes do not fit the address space of this machine")),
        advice: String::new(),
    })
}

/// The header's bytes: a copy from a mapped file, or the start of bytes in memory.
#[derive(Debug)]
pub(crate) enum HeaderBytes {
    Copied(Vec<u8>),
    InMemory(Arc<Storage>),
}

impl HeaderBytes {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::InMemory(storage) => storage.bytes(),
        }
    }
}

/// A part with a scanned header; nothing else was checked.
#[derive(Debug)]
pub(crate) struct FilePart {
    pub(crate) storage: Arc<Storage>,
    pub(crate) header: Arc<HeaderBytes>,
    pub(crate) shape: GgufHeader,
}

impl FilePart {
    /// Opens a regular file and scans its header.
    pub(crate) fn open(path: &Path, mmap: bool) -> Result<Self, GgufErrorKind> {
        let (mut file, about) = open_regular(path, GGUF)?;
        let len = about.len();
        if !mmap && len > 0 {
            // The start of the file decides whether the rest is worth reading.
            let (_, shape) = read_header(&mut file, len)?;
            io::Seek::rewind(&mut file).map_err(|source| GgufErrorKind::io("read the file", source))?;
            let part = Self::in_memory(Storage::read(file, len)?)?;
            return if part.shape == shape { Ok(part) } else { Err(changed_while_read()) };
        }
        let (header, shape) = read_header(&mut file, len)?;
        let storage = Arc::new(Storage::map(file, len, about.modified().ok())?);
        Ok(Self { storage, header: Arc::new(HeaderBytes::Copied(header)), shape })
    }

    /// A part with all its bytes.
    pub(crate) fn in_memory(storage: Storage) -> Result<Self, GgufErrorKind> {
        let bytes = storage.bytes();
        let shape = match GgufHeader::scan(bytes, bytes.len() as u64) {
            Ok(shape) => shape,
            Err(CursorFault::Bad(kind)) => return Err(kind),
            Err(CursorFault::More(_)) => return Err(changed_while_read()),
        };
        if shape.end as u64 > MAX_HEADER {
            return Err(too_long(shape.end as u64));
        }
        let storage = Arc::new(storage);
        Ok(Self { header: Arc::new(HeaderBytes::InMemory(storage.clone())), storage, shape })
    }
}

fn changed_while_read() -> GgufErrorKind {
    GgufErrorKind::Changed { problem: "its header changed while it was read".into() }
}

fn too_long(end: u64) -> GgufErrorKind {
    let problem =
        format!("the header would reach byte {end}; headers of at most {MAX_HEADER} bytes are supported");
    GgufErrorKind::Malformed { at: 0, problem }
}

/// Reads as much of the file's start as its header needs, and at most about twice that.
fn read_header(file: &mut File, len: u64) -> Result<(Vec<u8>, GgufHeader), GgufErrorKind> {
    let mut bytes = Vec::new();
    let mut wanted = FIRST_PIECE;
    loop {
        let missing = wanted.min(len).saturating_sub(bytes.len() as u64);
        let no_memory = |_| GgufErrorKind::io("hold the header", io::Error::from(io::ErrorKind::OutOfMemory));
        bytes.try_reserve_exact(in_memory(missing)?).map_err(no_memory)?;
        let read = file.take(missing).read_to_end(&mut bytes);
        let read = read.map_err(|source| GgufErrorKind::io("read the header", source))?;
        if (read as u64) < missing {
            return Err(changed_while_read());
        }
        match GgufHeader::scan(&bytes, len) {
            Ok(shape) if shape.end as u64 > MAX_HEADER => return Err(too_long(shape.end as u64)),
            Ok(shape) => return Ok((bytes, shape)),
            Err(CursorFault::Bad(kind)) => return Err(kind),
            Err(CursorFault::More(end)) if end > MAX_HEADER => return Err(too_long(end)),
            Err(CursorFault::More(end)) => wanted = end.max((bytes.len() as u64).saturating_mul(2)),
        }
    }
}

/// Opens a regular file without blocking; directories, pipes and devices are refused.
fn open_regular(path: &Path, extension: &str) -> Result<(File, fs::Metadata), GgufErrorKind> {
    let opening = |source: io::Error| {
        let missing = source.kind() == io::ErrorKind::NotFound;
        let advice = if missing { beside(path, extension) } else { String::new() };
        GgufErrorKind::Io { action: "open the file", source, advice }
    };
    let before = fs::metadata(path).map_err(opening)?;
    check_regular(path, &before, extension)?;
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        // If a pipe took the file's place, opening it does not wait for a writer.
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NONBLOCK);
    }
    let file = options.open(path).map_err(opening)?;
    let about = file.metadata().map_err(opening)?;
    check_regular(path, &about, extension)?;
    Ok((file, about))
}

fn check_regular(path: &Path, about: &fs::Metadata, extension: &str) -> Result<(), GgufErrorKind> {
    if about.is_file() {
        return Ok(());
    }
    if about.is_dir() {
        let found = names_of(path, extension);
        let advice = match found.is_empty() {
            true => format!("give the .{extension} file itself (there is none in this folder)"),
            false => format!("give the file itself; this folder has {}", found.join(", ")),
        };
        return Err(GgufErrorKind::NotRegular { what: "a directory", advice });
    }
    let what = special(about);
    Err(GgufErrorKind::NotRegular { what, advice: "save its content to a file and give that".into() })
}

#[cfg(unix)]
fn special(about: &fs::Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = about.file_type();
    match () {
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_block_device() || kind.is_char_device() => "a device",
        () => "something special",
    }
}

#[cfg(not(unix))]
fn special(_about: &fs::Metadata) -> &'static str {
    "something special"
}

/// The files of its kind in the folder where a file was not found.
fn beside(path: &Path, extension: &str) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let found = names_of(folder.unwrap_or(Path::new(".")), extension);
    if found.is_empty() { String::new() } else { format!("; this folder has {}", found.join(", ")) }
}

/// A few names of files of a kind in a folder, sorted.
fn names_of(folder: &Path, extension: &str) -> Vec<String> {
    const LIMIT: usize = 5;
    let ending = format!(".{extension}");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(10_000);
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.to_ascii_lowercase().ends_with(&ending))
        .collect();
    names.sort();
    if names.len() > LIMIT {
        let more = names.len() - LIMIT;
        names.truncate(LIMIT);
        names.push(format!("and {more} more"));
    }
    names
}
