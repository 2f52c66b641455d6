//! [`replay`]: the runner for any toolchain.

use crate::{Limits, Mutator, Target};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// What a replay did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replayed {
    /// Inputs that were run.
    pub inputs: u64,
    /// Those that the target accepted.
    pub accepted: u64,
    /// The longest time of one.
    pub slowest: Duration,
}

/// Runs the corpus of a target, then mutated inputs while `more(number)` says so; `seed` determines the inputs.
///
/// # Errors
/// The first input with which the target panicked or exceeded its limits, and why.
pub fn replay(
    target: &Target,
    seed: u64,
    more: &mut dyn FnMut(u64) -> bool,
) -> Result<Replayed, (Vec<u8>, String)> {
    let mut replayed = Replayed::default();
    for input in target.corpus() {
        run(target, input, &mut replayed)?;
    }
    let mut mutator = Mutator::new(target, seed);
    for number in 0.. {
        if !more(number) {
            break;
        }
        run(target, mutator.input(), &mut replayed)?;
    }
    Ok(replayed)
}

fn run(target: &Target, input: Vec<u8>, replayed: &mut Replayed) -> Result<(), (Vec<u8>, String)> {
    let limits = Limits::begin();
    let accepted = match catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) {
        Ok(accepted) => accepted,
        Err(_) => return Err((input, "it panicked".to_owned())),
    };
    if let Some(exceeded) = limits.exceeded() {
        return Err((input, exceeded));
    }
    replayed.inputs += 1;
    replayed.accepted += u64::from(accepted);
    replayed.slowest = replayed.slowest.max(limits.elapsed());
    Ok(())
}
