//! Reads little-endian fields from the start of a file without trusting any of them.

use crate::error::GgufErrorKind;

/// Bytes from the start of a file: `total` bytes exist on disk, `bytes` are available.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
    total: u64,
}

/// A read past the available bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Short {
    at: u64,
    needed: u64,
    left: u64,
}

/// Why the header cannot be read: it is invalid, or more of the file is needed (up to this byte) to decide.
#[derive(Debug)]
pub(crate) enum CursorFault {
    More(u64),
    Bad(GgufErrorKind),
}

impl From<GgufErrorKind> for CursorFault {
    fn from(kind: GgufErrorKind) -> Self {
        Self::Bad(kind)
    }
}

impl Short {
    /// The fault, with the part that was being read.
    pub(crate) fn during(self, what: impl FnOnce() -> String) -> CursorFault {
        if self.needed <= self.left {
            return CursorFault::More(self.at.saturating_add(self.needed));
        }
        CursorFault::Bad(GgufErrorKind::Truncated {
            at: self.at,
            what: what(),
            needed: self.needed,
            left: self.left,
        })
    }
}

impl<'a> Cursor<'a> {
    /// `total` is the length of the whole file; `bytes` are its start.
    pub(crate) fn new(bytes: &'a [u8], total: u64) -> Self {
        Self { bytes, position: 0, total: total.max(bytes.len() as u64) }
    }

    /// A cursor at `position` of a complete buffer.
    pub(crate) fn at(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position: position.min(bytes.len()), total: bytes.len() as u64 }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Bytes of the file after the position.
    pub(crate) fn left(&self) -> u64 {
        self.total - self.position as u64
    }

    fn short(&self, needed: u64) -> Short {
        Short { at: self.position as u64, needed, left: self.left() }
    }

    /// An error unless `count` items of at least `each` bytes fit into the rest of the file.
    pub(crate) fn room(&self, count: u64, each: u64) -> Result<(), Short> {
        let needed = count.saturating_mul(each);
        if needed > self.left() { Err(self.short(needed)) } else { Ok(()) }
    }

    pub(crate) fn take(&mut self, count: u64) -> Result<&'a [u8], Short> {
        let end = usize::try_from(count).ok().and_then(|count| self.position.checked_add(count));
        match end.and_then(|end| self.bytes.get(self.position..end).map(|found| (end, found))) {
            Some((end, found)) => {
                self.position = end;
                Ok(found)
            }
            None => Err(self.short(count)),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let found = self.take(N as u64)?;
        <[u8; N]>::try_from(found).map_err(|_| self.short(N as u64))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Short> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length (u64) and this many bytes.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Short> {
        let mut ahead = *self;
        let length = ahead.u64()?;
        let found = ahead.take(length)?;
        *self = ahead;
        Ok(found)
    }
}
