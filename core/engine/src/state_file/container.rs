//! The container of a state file: a header and sections, each with its length and a checksum.
//!
//! ```text
//! magic [8]  version u32  header length u64  header  checksum [32]
//! then per section:  length u64  bytes  checksum [32]
//! ```
//!
//! Numbers are little-endian. A checksum is the SHA-256 of the previous checksum (none before the first) and of
//! everything since. So a changed byte, or a section that is missing, moved or from another file, is detected. No
//! memory is allocated for a length in the file before the length is checked.

use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};

/// The first bytes of a state file. The first one is not text, and a line end in them detects transfers as text.
const MAGIC: [u8; 8] = *b"\x8bMNGST\r\n";

/// The version that is written and read. Version 1 recognized a model by samples of the whole file, which could miss
/// tensors.
const VERSION: u32 = 2;

/// The most bytes of a header: a conversation of a million words is smaller.
const MOST_HEADER: u64 = 64 << 20;

/// Bytes of a checksum.
const CHECKSUM: usize = 32;

/// Why a container cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContainerFault {
    /// An error of the operating system.
    #[error("cannot read it: {0}")]
    System(io::Error),
    /// The file is truncated.
    #[error("it is cut off")]
    Cut,
    /// The file is not a state file.
    #[error("it is not a state file")]
    Foreign,
    /// The file has another version.
    #[error("it is a state file of version {0}, and this program reads version {VERSION}")]
    Version(u32),
    /// A checksum is wrong.
    #[error("its {0} is damaged: the checksum is wrong")]
    Damaged(&'static str),
    /// A length is impossible.
    #[error("its {what} has {found} bytes, expected {expected}")]
    Length {
        /// The part with this length.
        what: &'static str,
        /// The length in the file.
        found: u64,
        /// The expected length.
        expected: String,
    },
    /// There are bytes after the end.
    #[error("there are bytes after its end")]
    Longer,
}

impl From<io::Error> for ContainerFault {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Cut } else { Self::System(error) }
    }
}

/// Writes a container.
pub(crate) struct ContainerWriter<W> {
    out: W,
    hash: Sha256,
}

impl<W: Write> ContainerWriter<W> {
    /// A container with this header.
    pub(crate) fn new(mut out: W, header: &[u8]) -> io::Result<Self> {
        if header.len() as u64 > MOST_HEADER {
            let reason = format!("a header of {} bytes; the most is {MOST_HEADER}", header.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let length = (header.len() as u64).to_le_bytes();
        let mut hash = Sha256::new();
        for part in [&MAGIC[..], &VERSION.to_le_bytes(), &length, header] {
            out.write_all(part)?;
            hash.update(part);
        }
        let mut writer = Self { out, hash };
        writer.seal()?;
        Ok(writer)
    }

    /// Starts a section of `length` bytes.
    pub(crate) fn begin(&mut self, length: u64) -> io::Result<()> {
        self.bytes(&length.to_le_bytes())
    }

    /// Bytes of the current section.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.out.write_all(bytes)
    }

    /// Ends the section with its checksum.
    pub(crate) fn seal(&mut self) -> io::Result<()> {
        let checksum = std::mem::take(&mut self.hash).finalize();
        self.out.write_all(&checksum)?;
        self.hash.update(checksum);
        Ok(())
    }

    /// The output.
    pub(crate) fn into_inner(self) -> W {
        self.out
    }
}

/// Reads a container.
pub(crate) struct ContainerReader<R> {
    input: R,
    hash: Sha256,
}

impl<R: Read> ContainerReader<R> {
    /// Starts reading a container of `size` bytes. Returns its header.
    pub(crate) fn new(input: R, size: u64) -> Result<(Self, Vec<u8>), ContainerFault> {
        let mut reader = Self { input, hash: Sha256::new() };
        let mut magic = [0; MAGIC.len()];
        match reader.bytes(&mut magic) {
            Err(ContainerFault::Cut) => return Err(ContainerFault::Foreign),
            other => other?,
        }
        if magic != MAGIC {
            return Err(ContainerFault::Foreign);
        }
        let mut version = [0; 4];
        reader.bytes(&mut version)?;
        let version = u32::from_le_bytes(version);
        if version != VERSION {
            return Err(ContainerFault::Version(version));
        }
        let length = reader.number()?;
        let most = MOST_HEADER.min(size);
        if length > most {
            let expected = format!("{most} at most");
            return Err(ContainerFault::Length { what: "header", found: length, expected });
        }
        let mut header = vec![0; usize::try_from(length).map_err(|_| ContainerFault::Cut)?];
        reader.bytes(&mut header)?;
        reader.check("header")?;
        Ok((reader, header))
    }

    /// Starts a section, which must have the expected number of bytes.
    pub(crate) fn begin(&mut self, what: &'static str, expected: u64) -> Result<(), ContainerFault> {
        let found = self.number()?;
        if found == expected {
            return Ok(());
        }
        Err(ContainerFault::Length { what, found, expected: expected.to_string() })
    }

    /// The next bytes of the current section.
    pub(crate) fn bytes(&mut self, bytes: &mut [u8]) -> Result<(), ContainerFault> {
        self.input.read_exact(bytes)?;
        self.hash.update(bytes);
        Ok(())
    }

    /// Ends the section: the bytes are known to be correct only now.
    pub(crate) fn check(&mut self, what: &'static str) -> Result<(), ContainerFault> {
        let mut found = [0; CHECKSUM];
        self.input.read_exact(&mut found)?;
        let checksum = std::mem::take(&mut self.hash).finalize();
        if checksum[..] != found {
            return Err(ContainerFault::Damaged(what));
        }
        self.hash.update(checksum);
        Ok(())
    }

    /// Checks that nothing follows.
    pub(crate) fn end(mut self) -> Result<(), ContainerFault> {
        match self.input.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(ContainerFault::Longer),
        }
    }

    fn number(&mut self) -> Result<u64, ContainerFault> {
        let mut bytes = [0; 8];
        self.bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Vec<u8> {
        let mut writer = ContainerWriter::new(Vec::new(), b"{\"a\":1}").unwrap();
        for section in [&b"one"[..], b"two", b""] {
            writer.begin(section.len() as u64).unwrap();
            writer.bytes(section).unwrap();
            writer.seal().unwrap();
        }
        writer.into_inner()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, ContainerFault> {
        let (mut reader, header) = ContainerReader::new(bytes, bytes.len() as u64)?;
        let mut all = vec![header];
        for length in [3, 3, 0] {
            let mut section = vec![0; length];
            reader.begin("section", length as u64)?;
            reader.bytes(&mut section)?;
            reader.check("section")?;
            all.push(section);
        }
        reader.end().map(|()| all)
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(read(&written()).unwrap(), [&b"{\"a\":1}"[..], b"one", b"two", b""]);
    }

    #[test]
    fn every_flipped_bit_is_refused_and_every_cut_and_every_addition() {
        let good = written();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(read(&bad).is_err(), "bit {bit} of byte {at}");
            }
            assert!(read(&good[..at]).is_err(), "cut at {at}");
        }
        assert!(matches!(read(&[&good[..], b"x"].concat()), Err(ContainerFault::Longer)));
    }

    #[test]
    fn sections_that_changed_places_are_refused() {
        let good = written();
        let first = good.len() - 3 * (8 + CHECKSUM) - 6;
        let (one, two) =
            (first..first + 8 + 3 + CHECKSUM, first + 8 + 3 + CHECKSUM..good.len() - 8 - CHECKSUM);
        let moved = [&good[..first], &good[two], &good[one], &good[good.len() - 8 - CHECKSUM..]].concat();
        assert_eq!(moved.len(), good.len());
        assert!(matches!(read(&moved), Err(ContainerFault::Damaged("section"))));
    }

    #[test]
    fn hostile_lengths_allocate_nothing() {
        let mut bad = written();
        bad[12..20].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(read(&bad), Err(ContainerFault::Length { what: "header", .. })));
        let header = 8 + 4 + 8 + 7 + CHECKSUM;
        let mut bad = written();
        bad[header..header + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(read(&bad), Err(ContainerFault::Length { what: "section", .. })));
        assert!(matches!(read(b"GGUF"), Err(ContainerFault::Foreign)));
        assert!(matches!(read(b"GGUF and more bytes"), Err(ContainerFault::Foreign)));
        let mut newer = written();
        newer[8] = 3;
        assert!(matches!(read(&newer), Err(ContainerFault::Version(3))));
        let mut older = written();
        older[8] = 1;
        let said = read(&older).unwrap_err().to_string();
        assert_eq!(said, "it is a state file of version 1, and this program reads version 2");
    }
}
