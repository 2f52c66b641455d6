//! One tensor of the directory, and a handle to its bytes.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::GgmlType;
use crate::header::MAX_DIMS;
use crate::storage::Storage;

/// The directory's entry for a tensor; its range lies inside its file.
#[derive(Clone, PartialEq, Eq)]
pub struct TensorInfo {
    pub(crate) name: Box<str>,
    pub(crate) dims: [u64; MAX_DIMS as usize],
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) kind: GgmlType,
    pub(crate) part: u16,
    pub(crate) rank: u8,
}

impl TensorInfo {
    /// The name, as in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Elements per dimension in ggml's order: the contiguous one first. At most 4; none for a single number.
    pub fn dims(&self) -> &[u64] {
        self.dims.get(..self.rank.into()).unwrap_or(&self.dims)
    }

    /// The type of the elements, known or not.
    pub fn kind(&self) -> GgmlType {
        self.kind
    }

    /// The part of a split model with its bytes (0 for a whole file).
    pub fn part(&self) -> usize {
        self.part.into()
    }

    /// The offset of the bytes from the start of the part's file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of bytes; 0 if the size of the type is unknown ([`GgmlType::is_known`]).
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of elements.
    pub fn elements(&self) -> u64 {
        self.dims().iter().product()
    }
}

impl fmt::Debug for TensorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {:?} at {}:{}+{}",
            self.name,
            self.kind,
            self.dims(),
            self.part,
            self.offset,
            self.bytes
        )
    }
}

/// The bytes of a tensor or of a range of one: keeps the mapping alive, cheap to clone.
///
/// After [`crate::GgufFile::poisoned`] turns true some of the bytes may read as zeros.
#[derive(Clone)]
pub struct TensorBytes {
    storage: Arc<Storage>,
    start: usize,
    len: usize,
}

impl TensorBytes {
    /// `None` if the range is not inside the storage.
    pub(crate) fn new(storage: &Arc<Storage>, offset: u64, bytes: u64) -> Option<Self> {
        let (start, len) = (usize::try_from(offset).ok()?, usize::try_from(bytes).ok()?);
        storage.bytes().get(start..start.checked_add(len)?)?;
        Some(Self { storage: storage.clone(), start, len })
    }

    /// A range of these bytes (one expert of a stack, some rows); `None` if it is not inside them.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        self.get(range.clone())?;
        Some(Self { storage: self.storage.clone(), start: self.start + range.start, len: range.len() })
    }

    /// Whether a page of the file vanished under the mapping.
    pub fn poisoned(&self) -> bool {
        self.storage.poisoned()
    }
}

impl Deref for TensorBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // The range was checked when the handle was made, and storages never change their length.
        self.storage.bytes().get(self.start..self.start + self.len).unwrap_or_default()
    }
}

impl AsRef<[u8]> for TensorBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for TensorBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorBytes({} bytes at {})", self.len, self.start)
    }
}
