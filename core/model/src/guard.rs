//! [`WeightGuard`]: whether the weights can still be read.

use crate::Result;

/// Fails once the files of a model are not what was opened: a page that vanished under a mapping reads as zeros.
/// Whoever runs steps asks it once after each step, and uses nothing of the step where it fails.
pub type WeightGuard = Box<dyn Fn() -> Result<()> + Send + Sync>;
