//! [`BlockFile`]: the file of a block: rows of states, or a snapshot of states at its end.
//!
//! ```text
//! magic [8]  format u32  kind u32  address [32]  tokens u64  bytes u64  token ids u32..  content  checksum [32]
//! ```
//!
//! Numbers are little-endian. A reader knows everything before the content, so it compares. No length in a file is
//! believed: the file must have exactly the expected size. The checksum is SHA-256 of everything before the content and
//! of the [`FastChecksum`] of the content.

use super::address::{BlockAddress, FORMAT};
use super::checksum::FastChecksum;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// The first bytes of a file. The first one is not text, and a line end in them detects transfers as text.
const MAGIC: [u8; 8] = *b"\x8bMNGPC\r\n";

/// Bytes of the checksum.
pub(super) const CHECKSUM: usize = 32;

/// What a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// The rows of the block in states that keep a row for every token.
    Rows,
    /// The states that do not, at the end of the block: recurrent states, and the rows that windows show.
    Snapshot,
}

impl BlockKind {
    /// The extension of the file.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Snapshot => "snapshot",
        }
    }
}

/// What a file is expected to be, apart from its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockFile<'a> {
    pub(crate) kind: BlockKind,
    pub(crate) address: BlockAddress,
    /// The number of blocks up to the end of this one.
    pub(crate) depth: usize,
    /// The tokens of the block.
    pub(crate) tokens: &'a [u32],
}

/// What became of reading a file.
#[derive(Debug)]
pub(super) enum BlockRead {
    /// The content is in the buffer.
    Whole,
    /// There is no file.
    Absent,
    /// It is not the expected file, or it is damaged.
    Damaged,
    /// The system cannot read it.
    Unreadable(io::Error),
}

impl BlockFile<'_> {
    /// Writes it with this content.
    ///
    /// # Errors
    /// An error of `out`.
    pub(super) fn write(&self, out: &mut impl Write, content: &[u8]) -> io::Result<()> {
        let head = self.head(content.len());
        out.write_all(&head)?;
        out.write_all(content)?;
        out.write_all(&checksum(&head, content))
    }

    /// Reads the content of the file at `path`, which is as long as `content`.
    pub(super) fn read(&self, path: &Path, content: &mut [u8]) -> BlockRead {
        let result = File::open(path).and_then(|mut file| {
            let length = file.metadata()?.len();
            self.read_from(&mut file, length, content)
        });
        match result {
            Ok(true) => BlockRead::Whole,
            Ok(false) => BlockRead::Damaged,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BlockRead::Absent,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => BlockRead::Damaged,
            Err(error) => BlockRead::Unreadable(error),
        }
    }

    /// Reads a file of `length` bytes; returns whether it is the expected one.
    ///
    /// # Errors
    /// An error of `file`.
    pub(super) fn read_from(
        &self,
        file: &mut impl Read,
        length: u64,
        content: &mut [u8],
    ) -> io::Result<bool> {
        let head = self.head(content.len());
        let expected = (head.len() + content.len() + CHECKSUM) as u64;
        if length != expected {
            return Ok(false);
        }
        let mut found = vec![0; head.len()];
        file.read_exact(&mut found)?;
        if found != head {
            return Ok(false);
        }
        file.read_exact(content)?;
        let mut sum = [0; CHECKSUM];
        file.read_exact(&mut sum)?;
        Ok(sum == checksum(&head, content) && file.read(&mut [0])? == 0)
    }

    /// Everything before the content.
    fn head(&self, content: usize) -> Vec<u8> {
        let kind: u32 = match self.kind {
            BlockKind::Rows => 0,
            BlockKind::Snapshot => 1,
        };
        let mut head = Vec::with_capacity(64 + 4 * self.tokens.len());
        head.extend(MAGIC);
        head.extend(FORMAT.to_le_bytes());
        head.extend(kind.to_le_bytes());
        head.extend(self.address.0);
        head.extend((self.tokens.len() as u64).to_le_bytes());
        head.extend((content as u64).to_le_bytes());
        head.extend(self.tokens.iter().flat_map(|id| id.to_le_bytes()));
        head
    }

    /// Its name in the folder.
    pub(super) fn name(&self) -> String {
        format!("{}-{}.{}", self.address.hex(), self.depth, self.kind.extension())
    }
}

pub(super) fn checksum(head: &[u8], content: &[u8]) -> [u8; CHECKSUM] {
    let mut hash = Sha256::new();
    hash.update(head);
    hash.update(FastChecksum::of(content).bytes());
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: [u32; 3] = [7, 1, 70_000];

    fn file() -> BlockFile<'static> {
        let address = BlockAddress([5; 32]);
        BlockFile { kind: BlockKind::Rows, address, depth: 2, tokens: &TOKENS }
    }

    fn read(bytes: &[u8], of: &BlockFile, length: usize) -> (BlockRead, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, bytes).unwrap();
        let mut content = vec![0; length];
        (of.read(&path, &mut content), content)
    }

    /// Each bit of each byte, each cut, and an addition.
    #[test]
    fn only_the_file_that_was_written_is_read() {
        let content: Vec<u8> = (0..200).collect();
        let mut good = Vec::new();
        file().write(&mut good, &content).unwrap();
        let (found, read_back) = read(&good, &file(), 200);
        assert!(matches!(found, BlockRead::Whole) && read_back == content);
        let is_damaged = |bytes: &[u8]| matches!(read(bytes, &file(), 200).0, BlockRead::Damaged);
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(is_damaged(&bad), "bit {bit} of byte {at}");
            }
            assert!(is_damaged(&good[..at]), "cut at {at}");
        }
        assert!(is_damaged(&[&good[..], b"x"].concat()));
        let zeros = vec![0; good.len()];
        assert!(is_damaged(&zeros));
        let others = [
            BlockFile { kind: BlockKind::Snapshot, ..file() },
            BlockFile { address: BlockAddress([6; 32]), ..file() },
            BlockFile { tokens: &[7, 1, 70_001], ..file() },
        ];
        for other in others {
            assert!(matches!(read(&good, &other, 200).0, BlockRead::Damaged), "{other:?}");
        }
        for length in [0, 199, 201, 1 << 20] {
            assert!(matches!(read(&good, &file(), length).0, BlockRead::Damaged), "{length}");
        }
        let absent = file().read(Path::new("/nonexistent/a"), &mut []);
        assert!(matches!(absent, BlockRead::Absent));
    }
}
