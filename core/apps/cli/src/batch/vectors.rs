//! [`BatchVectors`]: lines of a batch that request embeddings, from their texts to their results.

use menagerie::engine::{
    EmbeddingOptions, EmbeddingPipeline, GenerateError, RequestId, Truncation, VectorQueue,
};
use menagerie_openai::{
    EmbeddingBody, LineFault, LinePlace, VectorForm, embedding_list, fault_line, fault_of, opened,
    result_line,
};
use serde_json::Value;
use std::collections::HashMap;

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
        let (_, body) = opened(fields)?;
        let read = EmbeddingBody::read(body, self.pipeline, self.truncation)?;
        let (tokens, cut) = (read.tokens(), read.cut());
        let EmbeddingBody { texts, form, .. } = read;
        let vectors = texts.iter().map(|_| None).collect();
        for (place, text) in texts.into_iter().enumerate() {
            self.texts.insert(self.queue.submit(text, &self.options, 0), (line, place));
        }
        self.open.insert(line, VectorLine { place, form, tokens, cut, vectors });
        Ok(())
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

impl VectorLine {
    /// The result line, and whether it is an answer. If one text failed, the line is an error.
    fn line(self, model: &str) -> (Value, bool) {
        let vectors: Result<Vec<Vec<f32>>, GenerateError> = self.vectors.into_iter().flatten().collect();
        let vectors = match vectors {
            Ok(vectors) => vectors,
            Err(error) => return (fault_line(&self.place, &fault_of(error)), false),
        };
        let body = embedding_list(&vectors, self.form, model, (self.tokens, self.cut));
        (result_line(&self.place, 200, body), true)
    }
}
