//! [`WholeAnswer`]: the sum of the changes of answers.

use crate::answer_fold::AnswerDelta;
use crate::answering::AnswerChange;
use menagerie_openai::AnswerToken;

/// Answers that are being put together.
pub(crate) struct WholeAnswer {
    pub(crate) choices: Vec<WholeChoice>,
}

/// One of them.
#[derive(Default)]
pub(crate) struct WholeChoice {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// The reasoning and the text, in their order.
    pub(crate) all_text: String,
    /// The tokens of the text, if log probabilities are requested.
    pub(crate) tokens: Vec<AnswerToken>,
    /// The token that ended the answer, if log probabilities are requested.
    pub(crate) end_token: Option<AnswerToken>,
    calls: Vec<WholeCall>,
    /// Every change, in order.
    pub(crate) deltas: Vec<AnswerDelta>,
}

/// A call of a tool.
#[derive(Default)]
pub(crate) struct WholeCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// A JSON object.
    pub(crate) arguments: String,
    is_complete: bool,
}

impl WholeAnswer {
    /// As many answers, all empty.
    pub(crate) fn new(count: usize) -> Self {
        Self { choices: (0..count).map(|_| WholeChoice::default()).collect() }
    }

    pub(crate) fn add(&mut self, change: AnswerChange) {
        if let AnswerChange::Delta(choice, delta) = change
            && !matches!(delta, AnswerDelta::Prompt { .. })
            && let Some(choice) = self.choices.get_mut(choice)
        {
            choice.add(delta);
        }
    }
}

impl WholeChoice {
    /// The calls that are not cut off.
    pub(crate) fn complete_calls(&self) -> impl Iterator<Item = &WholeCall> {
        self.calls.iter().filter(|call| call.is_complete)
    }

    fn add(&mut self, delta: AnswerDelta) {
        self.deltas.push(delta.clone());
        match delta {
            AnswerDelta::Text { text, tokens } => {
                self.text.push_str(&text);
                self.all_text.push_str(&text);
                self.tokens.extend(tokens);
            }
            AnswerDelta::Prompt { .. } => {}
            AnswerDelta::EndToken(token) => self.end_token = Some(token),
            AnswerDelta::Reasoning(text) => {
                self.reasoning.push_str(&text);
                self.all_text.push_str(&text);
            }
            AnswerDelta::CallBegin { id, name, .. } => {
                self.calls.push(WholeCall { id, name, ..WholeCall::default() });
            }
            AnswerDelta::CallArguments { index, text } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.arguments.push_str(&text);
                }
            }
            AnswerDelta::CallEnd { index } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.is_complete = true;
                }
            }
        }
    }
}
