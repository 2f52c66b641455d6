//! [`EmbeddingBody`]: the body of a request for vectors; vectors in OpenAI's JSON.

use crate::body::{LineFault, RequestBody};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use menagerie::engine::{EmbeddingPipeline, TextTokens, Truncation};
use serde_json::{Value, json};

/// Maximum number of texts in a line, the same as OpenAI's.
const MOST_TEXTS: usize = 2048;

/// The texts of a request for vectors, and how to write the vectors.
pub struct EmbeddingBody {
    /// The texts.
    pub texts: Vec<TextTokens>,
    /// The format of the vectors.
    pub form: VectorForm,
    /// Whether long texts are truncated.
    pub truncation: Truncation,
}

/// The format of vectors in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorForm {
    /// A list of numbers.
    Numbers,
    /// Little-endian f32 in base64.
    Base64,
}

impl EmbeddingBody {
    /// The texts of a body. `truncation` applies if the body does not have the field `truncate`.
    ///
    /// # Errors
    /// A field has an error or is not supported, or a text cannot be tokenized.
    pub fn read(
        mut body: RequestBody,
        pipeline: &EmbeddingPipeline,
        truncation: Truncation,
    ) -> Result<Self, LineFault> {
        let input = body.take("input").unwrap_or_default();
        let form = match body.take("encoding_format") {
            None => VectorForm::Numbers,
            Some(format) if format == "float" => VectorForm::Numbers,
            Some(format) if format == "base64" => VectorForm::Base64,
            Some(format) => {
                return Err(LineFault::of("encoding_format", format!("{format}; expected float or base64")));
            }
        };
        let truncation = truncation_of(body.take("truncate"), truncation)?;
        body.finish()?;
        Ok(Self { texts: texts_of(pipeline, &input, truncation)?, form, truncation })
    }

    /// Tokens of all texts.
    pub fn tokens(&self) -> usize {
        self.texts.iter().map(|text| text.tokens.len()).sum()
    }

    /// Number of truncated tokens, if truncation is allowed.
    pub fn cut(&self) -> Option<usize> {
        (self.truncation == Truncation::End).then(|| self.texts.iter().map(|text| text.cut).sum())
    }
}

/// `input`: a string, a list of strings, a list of token ids, or a list of such lists.
fn texts_of(
    pipeline: &EmbeddingPipeline,
    input: &Value,
    truncation: Truncation,
) -> Result<Vec<TextTokens>, LineFault> {
    let wanted = "expected a string, a list of strings, a list of token ids, or a list of such lists";
    let wrong = || LineFault::of("input", wanted);
    let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
    let context = pipeline.engine().context;
    let ids = |list: &Value| {
        let ids = list.as_array()?.iter().map(id).collect::<Option<Vec<u32>>>()?;
        Some(cut_ids(ids, context, truncation))
    };
    let items = match input {
        Value::Array(items) if items.is_empty() => return Err(wrong()),
        Value::Array(_) if let Some(ids) = ids(input) => return Ok(vec![ids]),
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    if items.len() > MOST_TEXTS {
        let reason = format!("{} texts; the maximum is {MOST_TEXTS} per line", items.len());
        return Err(LineFault::of("input", reason));
    }
    let tokens = |item: &Value| match item {
        Value::String(text) => {
            pipeline.tokens(text, truncation).map_err(|error| LineFault::of("input", error))
        }
        Value::Array(_) => ids(item).ok_or_else(wrong),
        _ => Err(wrong()),
    };
    items.iter().map(tokens).collect()
}

/// Token ids, truncated to a context if `truncation` allows it.
pub fn cut_ids(mut tokens: Vec<u32>, context: usize, truncation: Truncation) -> TextTokens {
    let cut = match truncation {
        Truncation::Refuse => 0,
        Truncation::End => tokens.len().saturating_sub(context),
    };
    tokens.truncate(tokens.len() - cut);
    TextTokens { tokens, second: None, cut }
}

/// The field `truncate`: `true` or `"END"` truncates long texts at the end, `false` or `"NONE"` refuses them. `otherwise`
/// applies without it.
///
/// # Errors
/// Another value.
pub fn truncation_of(field: Option<Value>, otherwise: Truncation) -> Result<Truncation, LineFault> {
    match field {
        None => Ok(otherwise),
        Some(Value::Bool(true)) => Ok(Truncation::End),
        Some(Value::Bool(false)) => Ok(Truncation::Refuse),
        Some(end) if end == "END" => Ok(Truncation::End),
        Some(none) if none == "NONE" => Ok(Truncation::Refuse),
        Some(other) => {
            Err(LineFault::of("truncate", format!("{other}; expected true, false, \"END\" or \"NONE\"")))
        }
    }
}

/// The body of an answer with vectors; `tokens` counts those of the texts, `cut` those that were truncated.
pub fn embedding_list(
    vectors: &[Vec<f32>],
    form: VectorForm,
    model: &str,
    (tokens, cut): (usize, Option<usize>),
) -> Value {
    let one = |(index, vector): (usize, &Vec<f32>)| json!({ "object": "embedding", "index": index, "embedding": form.written(vector) });
    let data: Vec<Value> = vectors.iter().enumerate().map(one).collect();
    let mut usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
    if let Some(cut) = cut {
        usage["truncated_tokens"] = cut.into();
    }
    json!({ "object": "list", "data": data, "model": model, "usage": usage })
}

impl VectorForm {
    fn written(self, vector: &[f32]) -> Value {
        match self {
            Self::Numbers => json!(vector),
            Self::Base64 => {
                let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
                STANDARD.encode(bytes).into()
            }
        }
    }
}
