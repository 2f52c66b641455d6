//! [`AnswerToken`]: a token of an answer with its log probability.

use menagerie::engine::TokenLogprob;

/// A token with its log probability.
#[derive(Clone, Debug)]
pub struct AnswerToken {
    /// Its id.
    pub id: u32,
    /// Its text by itself.
    pub piece: String,
    /// The bytes that it adds to the text.
    pub bytes: Vec<u8>,
    /// Its log probability, if requested.
    pub logprob: Option<f32>,
    /// The most likely tokens, if requested, best first.
    pub top: Vec<TokenLogprob>,
}

impl AnswerToken {
    /// A token that is no part of the text, such as the one that ends an answer.
    pub fn without_text(id: u32, logprob: f32, top: Vec<TokenLogprob>) -> Self {
        Self { id, piece: String::new(), bytes: Vec::new(), logprob: Some(logprob), top }
    }

    /// `{"id", "token", "logprob", "top"}`; the last two only if they were requested.
    pub fn json(&self) -> serde_json::Value {
        let mut value = serde_json::json!({ "id": self.id, "token": self.piece });
        if let Some(logprob) = self.logprob {
            value["logprob"] = logprob.into();
            let one =
                |t: &TokenLogprob| serde_json::json!({ "id": t.id, "token": t.piece, "logprob": t.logprob });
            value["top"] = self.top.iter().map(one).collect();
        }
        value
    }
}
