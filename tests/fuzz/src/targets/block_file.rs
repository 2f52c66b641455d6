//! Files of the disk cache: as they are, and with right checksums over what was changed.

use crate::Target;
use menagerie_engine::block_fuzzing::{read_block, sample_blocks, sealed_block};

pub(super) const TARGET: Target = Target { name: "block-file", run, seeds, words: &["MNGPC", "\0\0\0\0"] };

/// A file that is accepted although nobody writes it so is a failure.
fn run(input: &[u8]) -> bool {
    let read = |bytes: &[u8]| read_block(bytes).unwrap_or_else(|fault| panic!("{fault}")) > 0;
    let sealed = sealed_block(input).is_some_and(|sealed| read(&sealed));
    read(input) || sealed
}

fn seeds() -> Vec<Vec<u8>> {
    sample_blocks().into_iter().flatten().collect()
}
