//! Block files as bytes, for fuzz targets.

use super::address::BlockAddress;
use super::block_file::{BlockFile, BlockKind, CHECKSUM, checksum};

/// The tokens of the expected block.
const TOKENS: [u32; 4] = [7, 1, 70_000, u32::MAX];

/// Bytes around the content: everything before it, and the checksum.
const AROUND: usize = 64 + 4 * TOKENS.len() + CHECKSUM;

/// The files that a reader may expect: rows, and a snapshot.
fn expected() -> [BlockFile<'static>; 2] {
    let file = |kind, depth| BlockFile { kind, address: BlockAddress([5; 32]), depth, tokens: &TOKENS };
    [file(BlockKind::Rows, 2), file(BlockKind::Snapshot, 9)]
}

/// Reads the bytes as each expected file, with contents of several lengths. Returns the number that is accepted.
///
/// # Errors
/// A file is accepted that is not the one that was written with its content.
#[doc(hidden)]
pub fn read_block(bytes: &[u8]) -> Result<usize, String> {
    let mut accepted = 0;
    for file in expected() {
        for length in [bytes.len().saturating_sub(AROUND), 0, 200] {
            let mut content = vec![0; length];
            let result = file.read_from(&mut &bytes[..], bytes.len() as u64, &mut content);
            if !result.map_err(|error| error.to_string())? {
                continue;
            }
            if written(&file, &content)? != bytes {
                return Err(format!("{file:?}: other bytes are accepted than those that were written"));
            }
            accepted += 1;
        }
    }
    Ok(accepted)
}

/// The same bytes with a right checksum, so that changed ones reach the code behind it. `None` if there are fewer bytes
/// than a file has.
#[doc(hidden)]
pub fn sealed_block(bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = bytes.split_at_checked(AROUND - CHECKSUM)?;
    let (content, _) = rest.split_at_checked(rest.len().checked_sub(CHECKSUM)?)?;
    Some([head, content, &checksum(head, content)].concat())
}

/// Valid files.
///
/// # Errors
/// They cannot be written.
#[doc(hidden)]
pub fn sample_blocks() -> Result<Vec<Vec<u8>>, String> {
    let content: Vec<u8> = (0..200).collect();
    let pairs = expected().into_iter().flat_map(|file| [(file, &content[..]), (file, &[][..])]);
    pairs.map(|(file, content)| written(&file, content)).collect()
}

fn written(file: &BlockFile, content: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.write(&mut bytes, content).map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_are_read_and_sealing_keeps_them() {
        for sample in sample_blocks().unwrap() {
            assert!(read_block(&sample).unwrap() > 0);
            assert_eq!(sealed_block(&sample).unwrap(), sample);
            let mut changed = sample.clone();
            let content = AROUND - CHECKSUM;
            changed[content] ^= 1;
            assert_eq!(read_block(&changed), Ok(0));
            // Without content, the byte is one of the checksum.
            assert!(read_block(&sealed_block(&changed).unwrap()).unwrap() > 0);
            assert_eq!(read_block(&sealed_block(&sample[1..]).unwrap_or_default()), Ok(0));
        }
        assert_eq!((read_block(&[]), sealed_block(&[])), (Ok(0), None));
    }
}
