//! The structure of the header: one pass that checks every length and allocates nothing.

use crate::DEFAULT_ALIGNMENT;
use crate::cursor::{Cursor, CursorFault};
use crate::error::{GgufErrorKind, quoted};
use crate::foreign;
use crate::value::{self, Value, ValueFault, ValueType};

/// The key of the alignment of tensor data.
pub(crate) const ALIGNMENT_KEY: &str = "general.alignment";
/// Maximum alignment, in bytes.
pub(crate) const MAX_ALIGNMENT: u64 = 1 << 24;
/// Maximum length of keys and tensor names, in bytes (gguf.md gives keys 2^16 - 1).
pub(crate) const MAX_NAME: u64 = 65_535;
/// Maximum number of dimensions of a tensor (`GGML_MAX_DIMS`).
pub(crate) const MAX_DIMS: u32 = 4;
/// Minimum size of a metadata entry: key length, one character, type, one byte.
const LEAST_ENTRY: u64 = 8 + 1 + 4 + 1;
/// Minimum size of a tensor entry: name length, one character, dimension count, type, offset.
const LEAST_TENSOR: u64 = 8 + 1 + 4 + 4 + 8;

/// The offsets of a complete header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GgufHeader {
    pub(crate) version: u32,
    pub(crate) keys: usize,
    pub(crate) keys_at: usize,
    pub(crate) tensors: usize,
    pub(crate) tensors_at: usize,
    pub(crate) end: usize,
    pub(crate) alignment: u64,
}

impl GgufHeader {
    /// Reads the header of a file of `total` bytes that begins with `bytes`.
    pub(crate) fn scan(bytes: &[u8], total: u64) -> Result<Self, CursorFault> {
        foreign::check(bytes, total)?;
        let mut cursor = Cursor::new(bytes, total);
        let version = read_version(&mut cursor)?;
        let (tensor_count, key_count) = read_counts(&mut cursor)?;
        let keys_at = cursor.position();
        let mut alignment = DEFAULT_ALIGNMENT;
        for index in 0..key_count {
            scan_entry(&mut cursor, index, &mut alignment)?;
        }
        let tensors_at = cursor.position();
        check_tensor_room(&cursor, tensor_count, alignment)?;
        for index in 0..tensor_count {
            scan_tensor(&mut cursor, index)?;
        }
        // Both counts are below the number of bytes of the file's head, which is in memory.
        let (keys, tensors) = (key_count as usize, tensor_count as usize);
        Ok(Self { version, keys, keys_at, tensors, tensors_at, end: cursor.position(), alignment })
    }

    /// Where tensor data begins; `None` beyond 64 bits.
    pub(crate) fn data_at(&self) -> Option<u64> {
        (self.end as u64).checked_next_multiple_of(self.alignment)
    }
}

fn read_version(cursor: &mut Cursor<'_>) -> Result<u32, CursorFault> {
    cursor.take(4).map_err(|short| short.during(|| "the magic".into()))?;
    let version = cursor.u32().map_err(|short| short.during(|| "the version".into()))?;
    let advice = match version {
        2 | 3 => return Ok(version),
        1 => "version 1 is of August 2023: convert the original model again, or get a newer GGUF file of it",
        _ if (1..=16).contains(&version.swap_bytes()) => {
            return Err(GgufErrorKind::BigEndian { version: version.swap_bytes() }.into());
        }
        4..=16 => "it is newer than this build: use a newer build",
        _ => "the file is damaged: download it again",
    };
    Err(GgufErrorKind::Version { version, advice }.into())
}

/// Tensor count and metadata count, both compared with the size of the file.
fn read_counts(cursor: &mut Cursor<'_>) -> Result<(u64, u64), CursorFault> {
    let tensors = cursor.u64().map_err(|short| short.during(|| "the tensor count".into()))?;
    let keys = cursor.u64().map_err(|short| short.during(|| "the metadata count".into()))?;
    let room = cursor.room(keys, LEAST_ENTRY);
    room.map_err(|short| short.during(|| format!("a list of {keys} metadata keys")))?;
    let room = cursor.room(tensors, LEAST_TENSOR);
    room.map_err(|short| short.during(|| format!("a list of {tensors} tensors")))?;
    Ok((tensors, keys))
}

/// Every tensor needs its entry and, except the last one, at least `alignment` bytes of data.
fn check_tensor_room(cursor: &Cursor<'_>, tensors: u64, alignment: u64) -> Result<(), CursorFault> {
    let first = cursor.room(tensors.saturating_sub(1), LEAST_TENSOR + alignment);
    let all = first.and_then(|()| cursor.room(tensors, LEAST_TENSOR));
    all.map_err(|short| short.during(|| format!("a list of {tensors} tensors with their data")))
}

fn scan_entry(cursor: &mut Cursor<'_>, index: u64, alignment: &mut u64) -> Result<(), CursorFault> {
    let at = cursor.position() as u64;
    let key = read_name(cursor, || format!("metadata key {index}"))?;
    let name = || quoted(key.as_bytes());
    let kind = value::read_type(cursor).map_err(|fault| fault.of_key(at, name))?;
    let mut before = *cursor;
    value::check(kind, cursor).map_err(|fault| fault.of_key(at, name))?;
    if key == ALIGNMENT_KEY {
        *alignment = read_alignment(kind, &mut before).map_err(|fault| fault.of_key(at, name))?;
    }
    Ok(())
}

fn read_alignment(kind: ValueType, cursor: &mut Cursor<'_>) -> Result<u64, ValueFault> {
    let value = Value::decode(kind, cursor).and_then(|value| value.as_u64());
    match value {
        Some(value) if alignment_is_sane(value) => Ok(value),
        Some(value) => Err(ValueFault::Wrong(format!(
            "alignment {value} is not a power of two from 8 to {MAX_ALIGNMENT}; the file is damaged"
        ))),
        None => Err(ValueFault::Wrong(format!("the alignment must be a u32, not a {kind}"))),
    }
}

/// A power of two, a multiple of 8 (gguf.md), at most [`MAX_ALIGNMENT`].
pub(crate) fn alignment_is_sane(alignment: u64) -> bool {
    alignment.is_power_of_two() && (8..=MAX_ALIGNMENT).contains(&alignment)
}

/// A name that is text, not empty and not too long. `what` names it in errors.
pub(crate) fn read_name<'a>(
    cursor: &mut Cursor<'a>,
    what: impl Fn() -> String,
) -> Result<&'a str, CursorFault> {
    let at = cursor.position() as u64;
    let bad = |problem: String| GgufErrorKind::Malformed { at, problem };
    let mut ahead = *cursor;
    let length = ahead.u64().map_err(|short| short.during(&what))?;
    if length == 0 {
        return Err(bad(format!("{} has an empty name", what())).into());
    }
    if length > MAX_NAME {
        let problem = format!("{} has a name of {length} bytes, more than {MAX_NAME}", what());
        return Err(bad(problem).into());
    }
    let bytes = cursor.string().map_err(|short| short.during(&what))?;
    let text = std::str::from_utf8(bytes);
    Ok(text.map_err(|_| bad(format!("{} has a name that is not UTF-8: {}", what(), quoted(bytes))))?)
}

/// Moves past a tensor entry; the directory checks its contents.
fn scan_tensor(cursor: &mut Cursor<'_>, index: u64) -> Result<(), CursorFault> {
    let at = cursor.position() as u64;
    let name = read_name(cursor, || format!("tensor {index}"))?;
    let what = || format!("the entry of tensor {}", quoted(name.as_bytes()));
    let dims = cursor.u32().map_err(|short| short.during(what))?;
    if dims > MAX_DIMS {
        let problem = format!("{} has {dims} dimensions, more than {MAX_DIMS}", what());
        return Err(GgufErrorKind::Malformed { at, problem }.into());
    }
    cursor.take(u64::from(dims) * 8 + 12).map_err(|short| short.during(what))?;
    Ok(())
}
