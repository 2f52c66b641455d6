//! [`Infill`]: the step of llama.cpp for texts with a gap.

use super::{CandidateToken, Candidates, LogitsStep, SamplingError};
use std::sync::Arc;

/// The bytes that a token adds to a text; none for control tokens.
type TokenBytes = dyn Fn(u32) -> Vec<u8> + Send + Sync;

/// What [`Infill`] knows about the vocabulary.
#[derive(Clone)]
pub(crate) struct InfillVocabulary {
    pub(crate) bytes: Arc<TokenBytes>,
    /// The tokens that end an answer.
    pub(crate) ends: Arc<[u32]>,
}

/// Candidates that are compared with each other; less likely ones are dropped before.
const COMPARED: usize = 512;
/// The probability that a token needs.
const LIKELY: f32 = 0.2;

/// Ends the answer where the end is likely enough, or where no token is likely. Of tokens of which one begins with the
/// other, the more likely one stays and has the probability of both (llama.cpp's sampler `infill`).
pub(crate) struct Infill(pub(crate) InfillVocabulary);

/// A candidate with its probability; a merged one is gone.
struct Weighted {
    index: usize,
    is_end: bool,
    probability: f32,
}

impl Infill {
    /// The probabilities, with those of tokens whose text begins like a more likely one added to it.
    fn merged(&self, candidates: &Candidates) -> Vec<Weighted> {
        let ids: Vec<u32> = candidates.entries().iter().map(|entry| entry.id).collect();
        let texts: Vec<Vec<u8>> = ids.iter().map(|id| (self.0.bytes)(*id)).collect();
        let mut shares: Vec<Option<f32>> = candidates.probabilities().into_iter().map(Some).collect();
        for (one, start) in texts.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            for (other, text) in texts.iter().enumerate().filter(|(other, _)| *other != one) {
                let Some(own) = shares[one] else { break };
                let Some(others) = shares[other].filter(|_| text.starts_with(start)) else { continue };
                let (kept, gone) = if others > own { (other, one) } else { (one, other) };
                shares[kept] = Some(own + others);
                shares[gone] = None;
            }
        }
        let ends = &self.0.ends;
        let weighted = |(index, share): (usize, Option<f32>)| {
            Some(Weighted { index, is_end: ends.contains(&ids[index]), probability: share? })
        };
        shares.into_iter().enumerate().filter_map(weighted).collect()
    }

    /// Leaves only tokens that end the answer.
    fn end(&self, candidates: &mut Candidates) {
        let ends = &self.0.ends;
        let is_end = |(_, entry): &(usize, &CandidateToken)| ends.contains(&entry.id);
        let kept: Vec<usize> =
            candidates.entries().iter().enumerate().filter(is_end).map(|(index, _)| index).collect();
        match (kept.is_empty(), ends.first()) {
            (false, _) => candidates.keep_indices(&kept),
            (true, Some(&id)) => candidates.keep_only(CandidateToken { id, logit: 1.0 }),
            // A model without an end.
            (true, None) => candidates.keep_best(1),
        }
    }
}

impl LogitsStep for Infill {
    fn name(&self) -> &'static str {
        "infill"
    }

    fn apply(&mut self, candidates: &mut Candidates, _history: &[u32]) -> Result<(), SamplingError> {
        candidates.keep_best(COMPARED);
        let ends = &self.0.ends;
        let (mut end_sum, mut text_sum) = (0.0f32, 0.0f32);
        for (entry, probability) in candidates.entries().iter().zip(candidates.probabilities()) {
            match ends.contains(&entry.id) {
                true => end_sum += probability,
                false => text_sum += probability,
            }
        }
        if 3.0 * end_sum * candidates.len() as f32 > text_sum {
            self.end(candidates);
            return Ok(());
        }
        let mut left = self.merged(candidates);
        left.retain(|one| one.is_end || one.probability >= LIKELY);
        let texts = left.iter().filter(|one| !one.is_end).count();
        if texts == 0 {
            self.end(candidates);
            return Ok(());
        }
        let sum: f32 = left.iter().map(|one| one.probability).sum();
        let least = 1.0 / (texts + 1) as f32;
        left.retain(|one| one.is_end || one.probability / sum >= least);
        candidates.keep_indices(&left.iter().map(|one| one.index).collect::<Vec<_>>());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(words: &[&'static str], probabilities: &[f32]) -> Vec<u32> {
        let logits: Vec<f32> = probabilities.iter().map(|p| p.ln()).collect();
        let mut candidates = Candidates::from_logits(&logits);
        // The last word ends an answer.
        let end = words.len() as u32 - 1;
        let texts: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let bytes = move |id: u32| if id == end { Vec::new() } else { texts[id as usize].clone() };
        let vocabulary = InfillVocabulary { bytes: Arc::new(bytes), ends: [end].into() };
        Infill(vocabulary).apply(&mut candidates, &[]).unwrap();
        let mut ids: Vec<u32> = candidates.entries().iter().map(|entry| entry.id).collect();
        ids.sort_unstable();
        ids
    }

    /// The example in llama.cpp's description of the sampler: hel 0.5, hell 0.2, hello 0.1 and dummy 0.1 become hel 0.8
    /// and dummy 0.1, of which 0.1 is not likely enough. The end has the rest.
    #[test]
    fn tokens_with_a_common_beginning_are_one() {
        let words = ["hel", "hell", "hello", "dummy", "<end>"];
        // 3 * 0.001 * 5 candidates is below the probability of the texts.
        assert_eq!(left(&words, &[0.55, 0.2, 0.1, 0.149, 0.001]), [0, 4]);
        // "hello" is the most likely one, and gets the others.
        assert_eq!(left(&words, &[0.1, 0.2, 0.55, 0.149, 0.001]), [2, 4]);
        // Two likely ones: 0.6 and 0.3; the second pass wants a third.
        assert_eq!(left(&words, &[0.6, 0.001, 0.001, 0.397, 0.001]), [0, 3, 4]);
        assert_eq!(left(&words, &[0.7, 0.001, 0.001, 0.297, 0.001]), [0, 4]);
    }

    #[test]
    fn the_end_comes_where_it_is_likely_or_nothing_is() {
        let words = ["a", "b", "c", "d", "e", "f", "<end>"];
        assert_eq!(left(&words, &[0.9, 0.01, 0.01, 0.01, 0.01, 0.01, 0.05]), [6]);
        assert_eq!(left(&words, &[0.18, 0.17, 0.17, 0.16, 0.16, 0.15, 0.01]), [6]);
    }
}
