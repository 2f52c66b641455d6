//! [`AnswerPrediction`]: guesses from a text that the answer is expected to be.

use super::lookup::{OccurrenceIndex, grade};
use super::{DraftCost, DraftRequest, DraftSource, DraftToken, Drafter};
use crate::error::GenerateError;
use std::fmt;
use std::sync::Arc;

/// The least grade of its guesses: who predicts an answer is mostly right.
const LEAST_GRADE: u8 = 4;

/// Guesses that the answer is a known text, or parts of it: where the answer differs, it is followed again from the next
/// three tokens on that occur in it.
///
/// Where it says nothing, another source guesses, if there is one.
#[derive(Clone)]
pub struct AnswerPrediction {
    known: Arc<KnownText>,
    others: Option<Arc<dyn DraftSource>>,
}

/// The text, and where each group of three tokens occurs in it.
struct KnownText {
    tokens: Vec<u32>,
    index: OccurrenceIndex,
}

impl AnswerPrediction {
    /// The answer is expected to be `tokens`; where they say nothing, `others` guesses.
    pub fn new(tokens: Vec<u32>, others: Option<Arc<dyn DraftSource>>) -> Self {
        let mut index = OccurrenceIndex::default();
        index.extend(&tokens);
        Self { known: Arc::new(KnownText { tokens, index }), others }
    }
}

impl fmt::Debug for AnswerPrediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnswerPrediction({} tokens, {:?})", self.known.tokens.len(), self.others)
    }
}

impl DraftSource for AnswerPrediction {
    fn start(&self, request: &DraftRequest) -> Result<Box<dyn Drafter>, GenerateError> {
        let others = self.others.as_ref().map(|source| source.start(request)).transpose()?;
        let known = Arc::clone(&self.known);
        Ok(Box::new(PredictionDrafter { known, others, place: None, seen: 0, from: 0, is_predicted: false }))
    }

    fn is_model_head(&self) -> bool {
        self.others.as_ref().is_some_and(|source| source.is_model_head())
    }
}

/// The place in the text that an answer has reached.
#[derive(Clone, Copy, Debug)]
struct FollowedPlace {
    /// The next token.
    next: usize,
    /// How many tokens before it are those of the answer.
    length: usize,
}

/// Follows the text of one answer.
struct PredictionDrafter {
    known: Arc<KnownText>,
    others: Option<Box<dyn Drafter>>,
    /// `None` where the answer differs.
    place: Option<FollowedPlace>,
    /// Tokens of prompt and answer that it has seen.
    seen: usize,
    /// The last place that the answer has reached.
    from: usize,
    is_predicted: bool,
}

impl PredictionDrafter {
    /// Follows the tokens that are new since the last call.
    fn follow(&mut self, tokens: &[u32]) {
        if self.seen == 0 && !tokens.is_empty() {
            // The first call is after the first token of the answer.
            self.seen = tokens.len() - 1;
            self.place = Some(FollowedPlace { next: 0, length: 0 });
        }
        for end in self.seen..tokens.len() {
            let known = &self.known.tokens;
            self.place = match self.place {
                Some(place) if known.get(place.next) == Some(&tokens[end]) => {
                    Some(FollowedPlace { next: place.next + 1, length: place.length + 1 })
                }
                _ => {
                    let found = self.known.index.longest_in(known, &tokens[..=end], self.from);
                    found.map(|(end, length)| FollowedPlace { next: end + 1, length })
                }
            };
            self.from = self.place.map_or(self.from, |place| place.next);
        }
        self.seen = tokens.len();
    }

    /// The place that the answer has reached, if the text goes on there.
    fn reached(&mut self, tokens: &[u32]) -> Option<FollowedPlace> {
        self.follow(tokens);
        self.place.filter(|place| place.next < self.known.tokens.len())
    }
}

impl Drafter for PredictionDrafter {
    fn draft(&mut self, tokens: &[u32], most: usize) -> Vec<DraftToken> {
        let reached = self.reached(tokens);
        self.is_predicted = reached.is_some();
        let Some(FollowedPlace { next, length }) = reached else {
            return self.others.as_mut().map(|others| others.draft(tokens, most)).unwrap_or_default();
        };
        let guesses = self.known.tokens[next..].iter().take(most).zip(length..);
        guesses.map(|(&id, length)| DraftToken { id, grade: grade(length).max(LEAST_GRADE) }).collect()
    }

    fn announce(&mut self, tokens: &[u32], most: usize) {
        if let (None, Some(others)) = (self.reached(tokens), &mut self.others) {
            others.announce(tokens, most);
        }
    }

    fn cost(&mut self, tokens: &[u32]) -> DraftCost {
        match (self.reached(tokens), &mut self.others) {
            (None, Some(others)) => others.cost(tokens),
            _ => DraftCost::default(),
        }
    }

    fn is_predicted(&self) -> bool {
        self.is_predicted
    }

    fn fault(&mut self) -> Option<String> {
        self.others.as_mut()?.fault()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::PromptLookup;

    /// The guesses after each token of an answer.
    fn guesses(predicted: &[u32], prompt: &[u32], answer: &[u32], others: bool) -> Vec<(Vec<u32>, bool)> {
        let others: Option<Arc<dyn DraftSource>> = if others { Some(Arc::new(PromptLookup)) } else { None };
        let source = AnswerPrediction::new(predicted.to_vec(), others);
        let mut drafter = source.start(&DraftRequest::default()).unwrap();
        let mut text = prompt.to_vec();
        let each = answer.iter().map(|id| {
            text.push(*id);
            assert!(drafter.cost(&text).is_free());
            let draft = drafter.draft(&text, 3);
            assert!(draft.iter().all(|guess| !drafter.is_predicted() || guess.grade >= LEAST_GRADE));
            (draft.into_iter().map(|guess| guess.id).collect(), drafter.is_predicted())
        });
        each.collect()
    }

    fn predicted(ids: &[u32]) -> (Vec<u32>, bool) {
        (ids.to_vec(), true)
    }

    fn none() -> (Vec<u32>, bool) {
        (Vec::new(), false)
    }

    #[test]
    fn the_text_is_followed_from_its_start_to_its_end() {
        let found = guesses(&[5, 6, 7, 8, 9], &[1, 2], &[5, 6, 7, 8, 9, 4], false);
        let expected = [
            predicted(&[6, 7, 8]),
            predicted(&[7, 8, 9]),
            predicted(&[8, 9]),
            predicted(&[9]),
            none(),
            none(),
        ];
        assert_eq!(found, expected);
        assert!(guesses(&[], &[1], &[5, 6], false).iter().all(|found| *found == none()));
    }

    #[test]
    fn where_the_answer_differs_it_is_followed_again_from_three_known_tokens_on() {
        // The answer has other tokens in place of 6, and again of 6 7 later.
        let text = [5, 6, 7, 8, 9, 5, 6, 7, 8, 4];
        let found = guesses(&text, &[1, 2], &[5, 3, 7, 8, 9, 5, 3, 3], false);
        let expected = [
            predicted(&[6, 7, 8]),
            none(),
            none(),
            none(),
            predicted(&[5, 6, 7]),
            predicted(&[6, 7, 8]),
            none(),
            none(),
        ];
        assert_eq!(found, expected);
        // Of equally long places, the first one after the last: 1 2 3 goes on with 4, then with 5.
        let text = [1, 2, 3, 4, 9, 1, 2, 3, 5, 9, 1, 2, 3, 6];
        let found = guesses(&text, &[0], &[8, 1, 2, 3, 7, 1, 2, 3, 7, 1, 2, 3], false);
        let after = |at: usize| found[at].0.first().copied();
        assert_eq!([after(3), after(7), after(11)], [Some(4), Some(5), Some(6)]);
    }

    #[test]
    fn other_guesses_come_where_it_says_nothing() {
        let found = guesses(&[5, 6], &[1, 2, 3, 4, 1, 2], &[5, 6, 1, 2, 3], true);
        assert_eq!(found[0], predicted(&[6]));
        assert_eq!(found[4], (vec![4, 1, 2], false));
    }
}
