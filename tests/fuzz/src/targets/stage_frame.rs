//! Frames between stages: as they are, and with a right header and checksum around what was changed.

use crate::Target;
use menagerie_stages::fuzzing::{read_frame, sample_frames, sealed_frame};

pub(super) const TARGET: Target =
    Target { name: "stage-frame", run, seeds, words: &["MNGF", "f16", "q8_0", "capture"] };

fn run(input: &[u8]) -> bool {
    let sealed = sealed_frame(input).is_some_and(|sealed| read_frame(&sealed).is_ok());
    read_frame(input).is_ok() || sealed
}

fn seeds() -> Vec<Vec<u8>> {
    sample_frames()
}
