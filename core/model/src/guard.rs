//! [`WeightGuard`]: whether the weights can still be read.

use crate::Result;

/// Fails once the files of a model differ from what was opened: a page that vanished under a mapping reads as zeros.
/// The caller of a step calls it once after each step, and discards the step if it fails.
pub type WeightGuard = Box<dyn Fn() -> Result<()> + Send + Sync>;
