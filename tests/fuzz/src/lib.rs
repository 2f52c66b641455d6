//! Fuzz targets: readers of files and messages that other programs write.
//!
//! A target is a function of bytes ([`Target::run`]). It must return, in bounded time and memory, whatever the bytes
//! are; a panic is a failure. Two runners call the targets:
//!
//! - [`replay`] on any toolchain: the seeds of a target, then inputs made from them by a reproducible mutator.
//!   `cargo test` replays some thousands; `cargo run -p menagerie-fuzz -- run` replays for a given time.
//! - libFuzzer on nightly, guided by coverage: `scripts/fuzz`, over the crate in `libfuzzer/`.
//!
//! An input that caused a failure goes into `found/<target>/` once its cause is fixed; both runners start from it.

mod found;
mod limits;
mod mutator;
mod replay;
mod targets;

pub use found::found;
pub use limits::{LONGEST_INPUT, Limits};
pub use mutator::Mutator;
pub use replay::{Replayed, replay};
pub use targets::TARGETS;

/// A reader under test.
pub struct Target {
    /// Name on command lines and of the folder of its findings.
    pub name: &'static str,
    /// Reads the input with everything that normally follows; returns whether the input was accepted.
    pub run: fn(&[u8]) -> bool,
    /// Valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words of the format, for the mutator.
    pub words: &'static [&'static str],
}

impl Target {
    /// The target of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// The seeds, and inputs that were findings once.
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let mut corpus = (self.seeds)();
        corpus.extend(found(self.name));
        corpus
    }
}
