//! [`LensTable`]: what a logit lens read, with the texts of tokens, for people and as JSON.

use super::{LensReading, LensRow, LensToken};
use crate::capability::Tokenizing;
use serde::{Serialize, Serializer};

/// What a logit lens read of a text: a row for each token that it read, with its layers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LensTable {
    /// Tokens of the prompt; those after it are the answer.
    pub prompt_tokens: usize,
    /// The tokens, ascending by position.
    pub rows: Vec<LensTableRow>,
}

/// A token of a text, and what each layer would predict after it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LensTableRow {
    /// Its position, 0-based.
    pub position: usize,
    /// Its id.
    pub id: u32,
    /// Its text.
    pub text: String,
    /// The token that follows in the text, if there is one.
    pub next: Option<NamedToken>,
    /// The token that the model, which is its last layer, finds most likely to follow.
    pub predicted: NamedToken,
    /// The layers, ascending.
    pub layers: Vec<LensCell>,
}

/// A token with its text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedToken {
    /// Its id.
    pub id: u32,
    /// Its text; empty without a tokenizer.
    pub text: String,
    /// Its probability, between 0 and 1, where a layer predicts it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shortest_if_any")]
    pub probability: Option<f32>,
}

/// What a layer would predict after a token.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LensCell {
    /// The layer, 0-based.
    pub layer: usize,
    /// The rank of the token that the model predicts; 1 = this layer predicts it, too.
    pub rank: usize,
    /// The probability of that token.
    #[serde(serialize_with = "shortest")]
    pub probability: f32,
    /// The most likely tokens, best first.
    pub top: Vec<NamedToken>,
}

/// An f32 as the f64 with the same shortest decimal form: JSON has 0.1, not 0.10000000149011612.
fn shortest<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(value.to_string().parse().unwrap_or(f64::from(*value)))
}

fn shortest_if_any<S: Serializer>(value: &Option<f32>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => shortest(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// The names of tokens; empty without a tokenizer.
#[derive(Clone, Copy)]
struct TokenNames<'t>(Option<&'t dyn Tokenizing>);

impl TokenNames<'_> {
    fn text(self, id: u32) -> String {
        self.0.map_or_else(String::new, |tokenizer| tokenizer.piece(id))
    }

    fn of(self, id: u32) -> NamedToken {
        NamedToken { id, text: self.text(id), probability: None }
    }

    fn likely(self, token: &LensToken) -> NamedToken {
        NamedToken { probability: Some(libm::expf(token.logprob)), ..self.of(token.id) }
    }
}

impl LensTable {
    /// The table of `rows`, which a lens read of `tokens`: those of a prompt, of which there are `prompt_tokens`, and of
    /// its answer. Rows past the tokens are left out.
    pub fn new(
        rows: &[LensRow],
        tokens: &[u32],
        prompt_tokens: usize,
        tokenizer: Option<&dyn Tokenizing>,
    ) -> Self {
        let names = TokenNames(tokenizer);
        let row = |row: &LensRow| {
            let id = *tokens.get(row.position)?;
            Some(LensTableRow {
                position: row.position,
                id,
                text: names.text(id),
                next: tokens.get(row.position + 1).map(|next| names.of(*next)),
                predicted: names.of(row.likeliest),
                layers: row.readings.iter().map(|reading| cell(reading, names)).collect(),
            })
        };
        Self { prompt_tokens, rows: rows.iter().filter_map(row).collect() }
    }
}

fn cell(reading: &LensReading, names: TokenNames) -> LensCell {
    LensCell {
        layer: reading.layer,
        rank: reading.rank,
        probability: libm::expf(reading.logprob),
        top: reading.top.iter().map(|token| names.likely(token)).collect(),
    }
}
