//! [`BatchVectors`]: lines of a batch that ask for vectors, from their texts to their results.

use crate::arguments::truncation::cut_ids;
use crate::batch::body::LineFault;
use crate::batch::input::LinePlace;
use crate::batch::request::opened;
use crate::batch::result::{fault_line, fault_of, line};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use menagerie::engine::{EmbeddingOptions, EmbeddingPipeline, GenerateError, TextTokens, Truncation};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};

/// Most texts of a line, as OpenAI has it.
const MOST_TEXTS: usize = 2048;

/// Lines that ask for vectors, on their way.
pub(crate) struct BatchVectors<'a> {
    pipeline: &'a EmbeddingPipeline,
    options: EmbeddingOptions,
    /// What becomes of long texts of lines that do not say.
    truncation: Truncation,
    waiting: VecDeque<Text>,
    /// By line.
    open: HashMap<usize, VectorLine>,
}

/// A text that waits.
struct Text {
    line: usize,
    /// Its place among those of its line.
    place: usize,
    tokens: Vec<u32>,
}

/// A line whose texts are not all done.
struct VectorLine {
    place: LinePlace,
    form: VectorForm,
    tokens: usize,
    /// Tokens that were left out, where that was allowed.
    cut: Option<usize>,
    vectors: Vec<Option<Result<Vec<f32>, GenerateError>>>,
}

/// How vectors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VectorForm {
    Numbers,
    /// Little-endian f32 in base64.
    Base64,
}

impl<'a> BatchVectors<'a> {
    /// None yet.
    pub(crate) fn new(
        pipeline: &'a EmbeddingPipeline,
        options: EmbeddingOptions,
        truncation: Truncation,
    ) -> Self {
        Self { pipeline, options, truncation, waiting: VecDeque::new(), open: HashMap::new() }
    }

    /// Texts that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a line, `line` being its number among those of the batch.
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
                return Err(LineFault::of("encoding_format", format!("{format}; float or base64 is wanted")));
            }
        };
        let truncation = truncation_of(body.take("truncate"), self.truncation)?;
        body.finish()?;
        let texts = self.texts(&input, truncation)?;
        let tokens = texts.iter().map(|text| text.tokens.len()).sum();
        let cut = (truncation == Truncation::End).then(|| texts.iter().map(|text| text.cut).sum());
        let vectors = texts.iter().map(|_| None).collect();
        let texts = texts.into_iter().enumerate();
        self.waiting.extend(texts.map(|(place, text)| Text { line, place, tokens: text.tokens }));
        self.open.insert(line, VectorLine { place, form, tokens, cut, vectors });
        Ok(())
    }

    /// `input`: a text, a list of texts, token ids, or a list of lists of them.
    fn texts(&self, input: &Value, truncation: Truncation) -> Result<Vec<TextTokens>, LineFault> {
        let wanted = "a text, a list of texts, a list of token ids or a list of such lists is wanted";
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
            let reason = format!("{} texts; a line has at most {MOST_TEXTS}", items.len());
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

    /// Computes the next texts, as many as a step has rows for, one at least; gives the results of lines that are done with
    /// them, and whether each is an answer.
    pub(crate) fn step(&mut self) -> Vec<(Value, bool)> {
        let (mut rows, most) = (0, self.pipeline.engine().step_tokens);
        let fitting = self.waiting.iter().take_while(|text| {
            rows += text.tokens.len();
            rows <= most
        });
        let count = fitting.count().max(1).min(self.waiting.len());
        let texts: Vec<Text> = self.waiting.drain(..count).collect();
        let tokens: Vec<&[u32]> = texts.iter().map(|text| text.tokens.as_slice()).collect();
        let vectors = self.pipeline.embed(&tokens, &self.options);
        let mut done = Vec::new();
        for (text, vector) in texts.iter().zip(vectors) {
            let Some(open) = self.open.get_mut(&text.line) else { continue };
            open.vectors[text.place] = Some(vector);
            if open.vectors.iter().all(Option::is_some)
                && let Some(whole) = self.open.remove(&text.line)
            {
                done.push(whole.line(self.pipeline.name()));
            }
        }
        done
    }
}

/// The field `truncate`: `true` or `"END"` leaves out the last tokens of long texts, `false` or `"NONE"` refuses them.
fn truncation_of(field: Option<Value>, otherwise: Truncation) -> Result<Truncation, LineFault> {
    match field {
        None => Ok(otherwise),
        Some(Value::Bool(true)) => Ok(Truncation::End),
        Some(Value::Bool(false)) => Ok(Truncation::Refuse),
        Some(end) if end == "END" => Ok(Truncation::End),
        Some(none) if none == "NONE" => Ok(Truncation::Refuse),
        Some(other) => {
            Err(LineFault::of("truncate", format!("{other}; use true, false, \"END\" or \"NONE\"")))
        }
    }
}

impl VectorLine {
    /// The line, and whether it is an answer. One text that fails is a failure of all.
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
