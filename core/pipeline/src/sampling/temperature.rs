//! [`Temperature`]: flattens or sharpens the distribution.

use super::{Candidates, LogitsPart, SamplingError};

/// Divides every logit by the temperature; 0 or less keeps the best candidate alone.
#[derive(Clone, Copy, Debug)]
pub struct Temperature(pub f32);

impl LogitsPart for Temperature {
    fn name(&self) -> &'static str {
        "temperature"
    }

    fn apply(&mut self, candidates: &mut Candidates, _history: &[u32]) -> Result<(), SamplingError> {
        if self.0 <= 0.0 {
            candidates.keep_best(1);
            return Ok(());
        }
        for entry in candidates.entries_mut() {
            entry.logit /= self.0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_are_divided() {
        let mut candidates = Candidates::from_logits(&[1.0, -2.0]);
        Temperature(0.5).apply(&mut candidates, &[]).unwrap();
        assert_eq!(candidates.entries().iter().map(|c| c.logit).collect::<Vec<_>>(), [2.0, -4.0]);
    }

    #[test]
    fn zero_keeps_the_best() {
        let mut candidates = Candidates::from_logits(&[1.0, 3.0, 3.0]);
        Temperature(0.0).apply(&mut candidates, &[]).unwrap();
        assert_eq!(candidates.entries().iter().map(|c| c.id).collect::<Vec<_>>(), [1]);
    }
}
