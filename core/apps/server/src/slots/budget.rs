//! The memory of all models: idle ones are dropped for others.

use super::ModelSlots;
use super::table::SlotState;
use crate::fault::ApiFault;
use menagerie::open::byte_text;
use std::time::{Duration, Instant};

/// How long a load waits for models whose requests are about to end.
const MOMENT: Duration = Duration::from_millis(500);
/// How often it looks.
const POLL: Duration = Duration::from_millis(5);

impl ModelSlots {
    /// Drops idle models, those used longest ago first, until a model with these bytes fits into memory.
    ///
    /// # Errors
    /// It does not fit beside the models that are used or pinned. Then nothing is dropped.
    pub(super) fn make_room(&self, id: &str, bytes: u64) -> Result<(), ApiFault> {
        let Some(budget) = self.limits.memory else { return Ok(()) };
        let start = Instant::now();
        loop {
            self.sweep();
            let mut table = self.lock();
            if table.bytes().saturating_add(bytes) <= budget {
                return Ok(());
            }
            let (kept, taken) = table.kept();
            let idle = (taken.saturating_add(bytes) <= budget).then(|| table.take_idle()).flatten();
            drop(table);
            let Some((dropped, running)) = idle else {
                let fault = too_large(id, bytes, budget, (&kept, taken));
                // The client of an answer that is complete may be here before the answer is put away.
                if fault.is_for_now() && start.elapsed() < MOMENT {
                    std::thread::sleep(POLL);
                    continue;
                }
                return Err(fault);
            };
            running.end();
            self.set(&dropped, SlotState::Absent);
        }
    }
}

fn too_large(id: &str, bytes: u64, budget: u64, (kept, taken): (&[String], u64)) -> ApiFault {
    let mut reason = format!(
        "the model {id} needs {} of memory, and the models may use {} (--memory)",
        byte_text(bytes),
        byte_text(budget)
    );
    if !kept.is_empty() {
        let used =
            format!("; {} of it are used by models that are pinned or have requests: ", byte_text(taken));
        reason.push_str(&used);
        reason.push_str(&kept.join(", "));
    }
    let fault = ApiFault::new(503, reason).with_code("insufficient_memory");
    // When the others have ended their requests it may fit.
    if bytes <= budget && !kept.is_empty() { fault.with_retry_after(Duration::from_secs(2)) } else { fault }
}
