//! [`TemperatureStep`]: flattens or sharpens the distribution.

use super::{Candidates, LogitsStep, SamplingError};

/// Divides every logit by the temperature; 0 or less keeps only the best candidate.
///
/// If the quotient of the best logit is past the range of f32, the best logit is subtracted from all logits first.
/// That changes no probability, and the best candidate stays the best at any temperature. In other cases it would
/// change the last bits of logits, and with them the tokens of a seed; so it is not done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemperatureStep(pub(crate) f32);

impl LogitsStep for TemperatureStep {
    fn name(&self) -> &'static str {
        "temperature"
    }

    fn apply(&mut self, candidates: &mut Candidates, _history: &[u32]) -> Result<(), SamplingError> {
        if self.0 <= 0.0 {
            candidates.keep_best(1);
            return Ok(());
        }
        let Some(best) = candidates.best().map(|best| best.logit) else { return Ok(()) };
        let shift = if (best / self.0).is_finite() { 0.0 } else { best };
        for entry in candidates.entries_mut() {
            // Subtracting 0 keeps the bits of a logit.
            entry.logit = (entry.logit - shift) / self.0;
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
        TemperatureStep(0.5).apply(&mut candidates, &[]).unwrap();
        assert_eq!(candidates.entries().iter().map(|c| c.logit).collect::<Vec<_>>(), [2.0, -4.0]);
    }

    /// At the smallest temperatures the quotients are infinite, and the best candidate has probability 1.
    #[test]
    fn a_temperature_near_zero_takes_the_best() {
        for logits in [[3.0, 7.0, 5.0], [-9.0, -2.0, -3.0], [3e38, 3.1e38, -3e38]] {
            for temperature in [1e-30, 1e-38, 1e-40, f32::from_bits(1)] {
                let mut candidates = Candidates::from_logits(&logits);
                TemperatureStep(temperature).apply(&mut candidates, &[]).unwrap();
                assert_eq!(candidates.best().unwrap().id, 1, "{logits:?} at {temperature}");
                assert_eq!(candidates.probabilities(), [0.0, 1.0, 0.0], "{logits:?} at {temperature}");
            }
        }
    }

    /// The tokens of a seed must not change: ordinary logits are divided and nothing else.
    #[test]
    fn ordinary_logits_are_divided_to_the_last_bit() {
        let logits: Vec<f32> = (0..2000u32).map(|i| (i as f32 * 0.731).sin() * 31.7).collect();
        for temperature in [0.05, 0.3, 0.7, 0.8, 1.3, 2.0] {
            let mut candidates = Candidates::from_logits(&logits);
            TemperatureStep(temperature).apply(&mut candidates, &[]).unwrap();
            let bits = candidates.entries().iter().map(|entry| entry.logit.to_bits());
            assert!(bits.eq(logits.iter().map(|logit| (logit / temperature).to_bits())), "{temperature}");
        }
    }

    #[test]
    fn zero_keeps_the_best() {
        let mut candidates = Candidates::from_logits(&[1.0, 3.0, 3.0]);
        TemperatureStep(0.0).apply(&mut candidates, &[]).unwrap();
        assert_eq!(candidates.entries().iter().map(|c| c.id).collect::<Vec<_>>(), [1]);
    }
}
