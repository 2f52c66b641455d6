//! [`MinTokens`]: forbids the end of an answer until it has a number of tokens.

use super::{Candidates, LogitsStep, SamplingError};

/// Forbids tokens until a number of tokens is part of the answer.
#[derive(Clone, Debug)]
pub(crate) struct MinTokens {
    ends: Vec<u32>,
    left: usize,
}

impl MinTokens {
    /// Forbids the tokens `ends` before `least` tokens.
    pub(crate) fn new(ends: Vec<u32>, least: usize) -> Self {
        Self { ends, left: least }
    }
}

impl LogitsStep for MinTokens {
    fn name(&self) -> &'static str {
        "min-tokens"
    }

    fn apply(&mut self, candidates: &mut Candidates, _history: &[u32]) -> Result<(), SamplingError> {
        if self.left > 0 {
            candidates.drop_tokens(&self.ends);
        }
        Ok(())
    }

    fn accept(&mut self, _token: u32) -> Result<(), SamplingError> {
        self.left = self.left.saturating_sub(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_allowed_after_the_number_of_tokens() {
        let mut step = MinTokens::new(vec![0, 2], 2);
        let mut best = || {
            let mut candidates = Candidates::from_logits(&[5.0, 1.0, 4.0]);
            step.apply(&mut candidates, &[]).unwrap();
            let best = candidates.best().unwrap().id;
            step.accept(best).unwrap();
            best
        };
        assert_eq!([best(), best(), best()], [1, 1, 0]);
    }
}
