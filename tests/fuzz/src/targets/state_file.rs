//! State files: as they are, and with right checksums over what was changed.

use crate::Target;
use menagerie_engine::fuzzing::{read_state, sample_state, sealed_state};

pub(super) const TARGET: Target = Target {
    name: "state-file",
    run,
    seeds,
    words: &[
        "\"tokens\":",
        "\"sets\":",
        "\"states\":",
        "\"rows\":",
        "\"block\":",
        "\"snapshots\":",
        "\"first\":",
        "\"row_bytes\":",
        "\"window\":",
        "\"conversation\":",
        "\"dropped\":",
        "18446744073709551615",
        "null",
        "[]",
        "{}",
    ],
};

fn run(input: &[u8]) -> bool {
    let sealed = sealed_state(input).is_some_and(|sealed| read_state(&sealed).is_ok());
    read_state(input).is_ok() || sealed
}

fn seeds() -> Vec<Vec<u8>> {
    sample_state().into_iter().collect()
}
