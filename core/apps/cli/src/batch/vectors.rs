//! [`BatchVectors`]: lines of a batch that request embeddings, from their texts to their results.

use crate::arguments::truncation::cut_ids;
use crate::batch::body::LineFault;
use crate::batch::input::LinePlace;
use crate::batch::request::opened;
use crate::batch::result::{fault_line, fault_of, line};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use menagerie::engine::{
    EmbeddingOptions, EmbeddingPipeline, GenerateError, RequestId, TextTokens, Truncation, VectorQueue,
};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Maximum number of texts in a line, the same as OpenAI's.
const MOST_TEXTS: usize = 2048;

/// The embedding lines that are being computed.
pub(crate) struct BatchVectors<'a> {
    pipeline: &'a EmbeddingPipeline,
    queue: VectorQueue,
    options: EmbeddingOptions,
    /// The truncation of long texts for lines without the field `truncate`.
    truncation: Truncation,
    /// The line of each text that has not been computed, and its index among the texts of the line.
    texts: HashMap<RequestId, (usize, usize)>,
    /// By line.
    open: HashMap<usize, VectorLine>,
}

/// A line with texts that have not been computed yet.
struct VectorLine {
    place: LinePlace,
    form: VectorForm,
    tokens: usize,
    /// Number of truncated tokens, if truncation is allowed.
    cut: Option<usize>,
    vectors: Vec<Option<Result<Vec<f32>, GenerateError>>>,
}

/// The format of vectors in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VectorForm {
    Numbers,
    /// Little-endian f32 in base64.
    Base64,
}

impl<'a> BatchVectors<'a> {
    /// Without any lines.
    pub(crate) fn new(
        pipeline: &'a EmbeddingPipeline,
        options: EmbeddingOptions,
        truncation: Truncation,
    ) -> Self {
        let (queue, texts, open) = (pipeline.queue(), HashMap::new(), HashMap::new());
        Self { pipeline, queue, options, truncation, texts, open }
    }

    /// Number of texts that have not been computed yet.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Adds a line; `line` is its index in the batch.
    pub(crate) fn add(
        &mut self,
        line: usize,
        place: LinePlace,
        value: Option<Value>,
    ) -> Result<(), LineFault> {
        let Some(Value::Object(fields)) = value else { return Err(LineFault::whole("the line is not JSON")) };
        let (_, mut body) = opened(fields)?;
        let input = body.take("input").unwrap_or_default();
        let form = match body.take("encoding_format") {
            None => VectorForm::Numbers,
            Some(format) if format == "float" => VectorForm::Numbers,
            Some(format) if format == "base64" => VectorForm::Base64,
            Some(format) => {
                return Err(LineFault::of("encoding_format", format!("{format}; expected float or base64")));
            }
        };
        let truncation = truncation_of(body.take("truncate"), self.truncation)?;
        body.finish()?;
        let texts = self.texts(&input, truncation)?;
        let tokens = texts.iter().map(|text| text.tokens.len()).sum();
        let cut = (truncation == Truncation::End).then(|| texts.iter().map(|text| text.cut).sum());
        let vectors = texts.iter().map(|_| None).collect();
        for (place, text) in texts.into_iter().enumerate() {
            self.texts.insert(self.queue.submit(text, &self.options, 0), (line, place));
        }
        self.open.insert(line, VectorLine { place, form, tokens, cut, vectors });
        Ok(())
    }

    /// `input`: a string, a list of strings, a list of token ids, or a list of such lists.
    fn texts(&self, input: &Value, truncation: Truncation) -> Result<Vec<TextTokens>, LineFault> {
        let wanted = "expected a string, a list of strings, a list of token ids, or a list of such lists";
        let wrong = || LineFault::of("input", wanted);
        let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
        let context = self.pipeline.engine().context;
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
                self.pipeline.tokens(text, truncation).map_err(|error| LineFault::of("input", error))
            }
            Value::Array(_) => ids(item).ok_or_else(wrong),
            _ => Err(wrong()),
        };
        items.iter().map(tokens).collect()
    }

    /// Computes the next texts. Returns the results of the lines that are complete, and whether each is an answer.
    pub(crate) fn step(&mut self) -> Vec<(Value, bool)> {
        let mut done = Vec::new();
        for (id, vector) in self.queue.step(None) {
            let Some((line, place)) = self.texts.remove(&id) else { continue };
            let Some(open) = self.open.get_mut(&line) else { continue };
            open.vectors[place] = Some(vector);
            if open.vectors.iter().all(Option::is_some)
                && let Some(whole) = self.open.remove(&line)
            {
                done.push(whole.line(self.pipeline.name()));
            }
        }
        done
    }
}

/// The field `truncate`: `true` or `"END"` truncates long texts at the end, `false` or `"NONE"` refuses them.
fn truncation_of(field: Option<Value>, otherwise: Truncation) -> Result<Truncation, LineFault> {
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

impl VectorLine {
    /// The result line, and whether it is an answer. If one text failed, the line is an error.
    fn line(self, model: &str) -> (Value, bool) {
        let vectors: Result<Vec<Vec<f32>>, GenerateError> = self.vectors.into_iter().flatten().collect();
        let vectors = match vectors {
            Ok(vectors) => vectors,
            Err(error) => return (fault_line(&self.place, &fault_of(error)), false),
        };
        let one = |(index, vector): (usize, &Vec<f32>)| json!({ "object": "embedding", "index": index, "embedding": self.form.written(vector) });
        let data: Vec<Value> = vectors.iter().enumerate().map(one).collect();
        let mut usage = json!({ "prompt_tokens": self.tokens, "total_tokens": self.tokens });
        if let Some(cut) = self.cut {
            usage["truncated_tokens"] = cut.into();
        }
        let body = json!({ "object": "list", "data": data, "model": model, "usage": usage });
        (line(&self.place, 200, body), true)
    }
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
