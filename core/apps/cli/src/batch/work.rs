//! [`BatchWork`]: a running batch, from lines to results.

use crate::batch::output::BatchOutput;
use crate::batch::result::BatchResult;
use crate::batch::tally::BatchTally;
use crate::batch::vectors::BatchVectors;
use crate::failure::Failure;
use crate::screen::progress;
use indicatif::ProgressBar;
use menagerie::engine::{Completion, Event, GenerateError, Queue, RequestId, StopReason};
use menagerie::open::stage_fault;
use menagerie_openai::{
    AnswerToken, BatchInput, LineFault, LineKind, PromptRequest, RequestReader, fault_line,
};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// A running batch.
pub(crate) struct BatchWork<'a> {
    input: BatchInput,
    out: BatchOutput,
    /// Converts lines to requests, or the reason why the model generates no text.
    requests: Result<RequestReader<'a>, String>,
    /// Computes embeddings, or the reason why the model has none.
    vectors: Result<BatchVectors<'a>, String>,
    /// Lines that have not been started, in reverse order.
    left: Vec<usize>,
    open: HashMap<usize, BatchResult>,
    /// Index of the line and of the answer of each request.
    answers: HashMap<RequestId, (usize, usize)>,
    tally: BatchTally,
    bar: ProgressBar,
}

impl<'a> BatchWork<'a> {
    /// A batch that has not started the lines in `left`, which are in reverse order.
    pub(crate) fn new(
        input: BatchInput,
        out: BatchOutput,
        left: Vec<usize>,
        requests: Result<RequestReader<'a>, String>,
        vectors: Result<BatchVectors<'a>, String>,
    ) -> Self {
        let all = input.lines().len();
        let bar = progress::lines(all as u64, (all - left.len()) as u64);
        let (open, answers, tally) = (HashMap::new(), HashMap::new(), BatchTally::begin());
        Self { input, out, requests, vectors, left, open, answers, tally, bar }
    }

    /// Answers all lines, or those before `cancel` is set; up to `ahead` requests wait in the queue. Returns the error of a
    /// stage that ended the run early.
    ///
    /// # Errors
    /// IN cannot be read again, OUT cannot be written.
    pub(crate) fn run(
        &mut self,
        mut queue: Option<&mut Queue>,
        ahead: usize,
        cancel: &AtomicBool,
    ) -> Result<Option<String>, Failure> {
        loop {
            while queue.as_ref().is_none_or(|queue| queue.waiting() < ahead)
                && self.vectors_waiting() < ahead
                && let Some(index) = self.left.pop()
            {
                self.begin(queue.as_deref_mut(), index)?;
            }
            let idle = queue.as_ref().is_none_or(|queue| queue.is_idle());
            if cancel.load(Ordering::Relaxed) || (idle && self.vectors_waiting() == 0) {
                return Ok(None);
            }
            self.step_vectors()?;
            if let Some(queue) = queue.as_deref_mut().filter(|_| !idle)
                && let Some(fault) = self.step(queue)?
            {
                return Ok(Some(fault));
            }
        }
    }

    /// Number of lines that are being computed.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Ends the run; returns its counts and its output.
    pub(crate) fn finish(self) -> (BatchTally, BatchOutput) {
        self.bar.finish_and_clear();
        (self.tally, self.out)
    }

    fn vectors_waiting(&self) -> usize {
        self.vectors.as_ref().map_or(0, BatchVectors::waiting)
    }

    /// One step of embeddings, if there are any. It has no more rows than a step of text, so neither delays the other.
    fn step_vectors(&mut self) -> Result<(), Failure> {
        let Ok(vectors) = &mut self.vectors else { return Ok(()) };
        if vectors.waiting() == 0 {
            return Ok(());
        }
        for (line, good) in vectors.step() {
            self.write(&line, good)?;
        }
        Ok(())
    }

    /// One step of text; returns the error of a stage.
    fn step(&mut self, queue: &mut Queue) -> Result<Option<String>, Failure> {
        let ended = queue.step(|id, event| self.hear(id, event));
        let fault = link_fault(&ended);
        for (id, result) in ended {
            // An interrupted answer and a failed stage are not results: the next run computes the line.
            let interrupted = match &result {
                Ok(outcome) => outcome.reason == StopReason::Cancelled,
                Err(error) => fault.is_some() || matches!(error, GenerateError::Cancelled),
            };
            if interrupted {
                continue;
            }
            let Some((index, answer)) = self.answers.remove(&id) else { continue };
            let Some(open) = self.open.get_mut(&index) else { continue };
            if open.end(answer, result)
                && let Some(all) = self.open.remove(&index)
                && let Ok(requests) = &self.requests
            {
                let (line, good) = all.line(requests.pipeline.name());
                self.write(&line, good)?;
            }
        }
        Ok(fault)
    }

    fn begin(&mut self, queue: Option<&mut Queue>, index: usize) -> Result<(), Failure> {
        let place = self.input.lines()[index].clone();
        let line = self.input.value(index)?;
        let begun = match (place.kind, queue) {
            (LineKind::Vectors, _) => match &mut self.vectors {
                Ok(vectors) => vectors.add(index, place.clone(), line),
                Err(reason) => Err(LineFault::of("url", reason)),
            },
            (LineKind::Text, Some(queue)) => self.begin_text(queue, index, line),
            (LineKind::Text, None) => {
                Err(LineFault::whole(self.requests.as_ref().err().map_or("", String::as_str)))
            }
        };
        begun.or_else(|fault| self.write(&fault_line(&place, &fault), false))
    }

    fn begin_text(&mut self, queue: &mut Queue, index: usize, line: Option<Value>) -> Result<(), LineFault> {
        let requests = self.requests.as_ref().map_err(LineFault::whole)?;
        let PromptRequest { shape, prompt, echo, answers, .. } = requests.of(line)?;
        let place = self.input.lines()[index].clone();
        self.open.insert(index, BatchResult::new(place, shape, answers.len()).with_echo(echo));
        for (answer, request) in answers.iter().enumerate() {
            self.answers.insert(queue.submit(prompt.clone(), request), (index, answer));
        }
        Ok(())
    }

    fn write(&mut self, line: &Value, good: bool) -> Result<(), Failure> {
        self.out.write(line)?;
        self.tally.line_done(good);
        self.bar.inc(1);
        Ok(())
    }

    fn hear(&mut self, request: RequestId, event: Event) {
        let Some((index, answer)) = self.answers.get(&request) else { return };
        let Some(open) = self.open.get_mut(index) else { return };
        match event {
            Event::PromptToken { id, piece, bytes, logprob, top, .. } => {
                open.show_prompt(AnswerToken { id, piece, bytes, logprob, top });
            }
            Event::Token { id, piece, bytes, logprob, top } => {
                if logprob.is_some() {
                    open.show(*answer, AnswerToken { id, piece, bytes, logprob, top });
                }
                self.tally.token();
                self.bar.set_message(self.tally.message());
            }
            Event::EndToken { id, logprob, top, .. } => {
                open.show_end(*answer, AnswerToken::without_text(id, logprob, top));
            }
            _ => {}
        }
    }
}

/// The error of a stage or of a link to it that ended requests which may succeed when they are run again.
fn link_fault(ended: &[Completion]) -> Option<String> {
    let faults = ended.iter().filter_map(|(_, result)| stage_fault(result.as_ref().err()?));
    faults.filter(|fault| fault.is_of_links()).map(ToString::to_string).next()
}
