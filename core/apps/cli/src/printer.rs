//! [`Printer`]: the events of a generation on two streams: the answer on one, all else on the other.

use crate::failure::Failure;
use crate::output;
use crate::progress::PromptBar;
use crate::report;
use crate::style::{self, Stream, paint};
use clap::{Args, ValueEnum};
use menagerie::pipeline::{Event, Outcome, StopReason, TokenLogprob};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where reasoning goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reasoning {
    /// Standard error
    #[default]
    Stderr,
    /// Standard output, between markers
    Stdout,
    /// Nowhere
    Hide,
}

/// How answers are shown.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct DisplayArguments {
    /// Where a model's reasoning goes (never into --json's text)
    #[arg(long, value_enum, value_name = "WHERE", default_value = "stderr", help_heading = "Display")]
    pub(crate) reasoning: Reasoning,
    /// Do not keep what is typed in a conversation for the next time
    #[arg(long, help_heading = "Chat")]
    pub(crate) no_history: bool,
}

/// A token with its log probability.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) id: u32,
    pub(crate) piece: String,
    pub(crate) logprob: Option<f32>,
    pub(crate) top: Vec<TokenLogprob>,
}

impl Shown {
    /// `{"id", "token", "logprob", "top"}`; what was not asked for is left out.
    pub(crate) fn json(&self) -> serde_json::Value {
        let mut value = serde_json::json!({ "id": self.id, "token": self.piece });
        if let Some(logprob) = self.logprob {
            value["logprob"] = logprob.into();
            let one =
                |t: &TokenLogprob| serde_json::json!({ "id": t.id, "token": t.piece, "logprob": t.logprob });
            value["top"] = self.top.iter().map(one).collect();
        }
        value
    }

    /// The row of a table.
    fn row(&self) -> Vec<String> {
        let others: Vec<String> =
            self.top.iter().map(|t| format!("{:?} {:.2}", t.piece, t.logprob)).collect();
        let own = self.logprob.map(|logprob| format!("{logprob:.3}")).unwrap_or_default();
        vec![format!("{:?}", self.piece), own, others.join("  ")]
    }
}

/// The streams and what they can show.
pub(crate) struct Streams<'a> {
    /// Where the answer goes.
    pub(crate) out: &'a mut dyn Write,
    /// Where all else goes.
    pub(crate) remarks: &'a mut dyn Write,
    /// Whether a person sees the remarks.
    pub(crate) watched: bool,
    /// Whether each is coloured.
    pub(crate) colours: (bool, bool),
}

impl Streams<'_> {
    /// Standard output and standard error.
    pub(crate) fn of_process<'a>(
        out: &'a mut std::io::Stdout,
        remarks: &'a mut std::io::Stderr,
    ) -> Streams<'a> {
        Streams {
            out,
            remarks,
            watched: Stream::Err.is_terminal(),
            colours: (Stream::Out.is_coloured(), Stream::Err.is_coloured()),
        }
    }
}

/// Prints events as they come.
pub(crate) struct Printer<'a> {
    streams: Streams<'a>,
    display: DisplayArguments,
    cancel: Arc<AtomicBool>,
    bar: PromptBar,
    in_reasoning: bool,
    tokens: Vec<Shown>,
    failed: Option<Failure>,
}

impl<'a> Printer<'a> {
    /// A printer that sets `cancel` where nobody reads the answer any more.
    pub(crate) fn new(streams: Streams<'a>, display: DisplayArguments, cancel: Arc<AtomicBool>) -> Self {
        let bar = PromptBar::new(streams.watched);
        Self { streams, display, cancel, bar, in_reasoning: false, tokens: Vec::new(), failed: None }
    }

    /// One event of a generation.
    pub(crate) fn event(&mut self, event: Event) {
        let written = match event {
            Event::Prefill { done, total, .. } => {
                self.bar.set(done, total);
                return;
            }
            Event::Text(text) => self.separate(false).and_then(|()| self.write(&text)),
            Event::Reasoning(text) => self.separate(true).and_then(|()| self.reason(&text)),
            Event::Notice(text) => {
                self.bar.clear();
                let line = report::note_text(&text, self.streams.colours.1);
                self.remark(&format!("{line}\n"))
            }
            Event::Token { id, piece, logprob: Some(logprob), top } => {
                self.probability(Shown { id, piece, logprob: Some(logprob), top })
            }
            _ => Ok(()),
        };
        if let Err(failure) = written {
            // Nobody reads what is still to come.
            self.cancel.store(true, Ordering::SeqCst);
            self.failed.get_or_insert(failure);
        }
    }

    /// A person gets a table in the end, a program a line at once.
    fn probability(&mut self, shown: Shown) -> Result<(), Failure> {
        if self.streams.watched {
            self.tokens.push(shown);
            return Ok(());
        }
        self.remark(&format!("{}\n", shown.json()))
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        output::write_to(self.streams.out, text)
    }

    /// Nothing fails because nobody listens to remarks.
    fn remark(&mut self, text: &str) -> Result<(), Failure> {
        output::write_to(self.streams.remarks, text).or(Ok(()))
    }

    fn reason(&mut self, text: &str) -> Result<(), Failure> {
        let (out, remarks) = self.streams.colours;
        match self.display.reasoning {
            Reasoning::Hide => Ok(()),
            Reasoning::Stdout => self.write(&paint(text, style::DIM, out)),
            Reasoning::Stderr => self.remark(&paint(text, style::DIM, remarks)),
        }
    }

    /// What stands between reasoning and answer.
    fn separate(&mut self, reasoning: bool) -> Result<(), Failure> {
        self.bar.clear();
        let changed = std::mem::replace(&mut self.in_reasoning, reasoning) != reasoning;
        match (changed, reasoning) {
            (true, true) => self.reason("[reasoning]\n"),
            (true, false) => self.reason("\n[answer]\n"),
            _ => Ok(()),
        }
    }

    /// Ends the answer: its last newline, probabilities, and notes if it was cut.
    ///
    /// # Errors
    /// The first failure to write, if any.
    pub(crate) fn finish(
        mut self,
        outcome: &Outcome,
        context: usize,
        limit_noted: bool,
    ) -> Result<(), Failure> {
        self.bar.clear();
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        if self.in_reasoning {
            self.reason("\n")?;
        }
        if !outcome.text.ends_with('\n') {
            self.write("\n")?;
        }
        if !self.tokens.is_empty() {
            let rows: Vec<Vec<String>> = self.tokens.iter().map(Shown::row).collect();
            let table = output::table_text(&["token", "logprob", "most likely"], &rows);
            self.remark(&table)?;
        }
        if let Some(note) = cut(&outcome.reason, context, limit_noted) {
            let line = report::note_text(&note, self.streams.colours.1);
            self.remark(&format!("{line}\n"))?;
        }
        Ok(())
    }
}

/// What must be said where an answer did not end by itself.
fn cut(reason: &StopReason, context: usize, limit_noted: bool) -> Option<String> {
    match reason {
        StopReason::ContextFull => Some(format!(
            "the answer is cut: the context of {context} tokens is full (a larger one: -c {})",
            context.saturating_mul(2)
        )),
        StopReason::MaxTokens if limit_noted => {
            Some("the answer is cut: it reached the number of tokens asked for (-n)".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(reason: StopReason) -> Outcome {
        let mut outcome = Outcome::new(reason);
        outcome.text = "answer".to_owned();
        outcome
    }

    /// What both streams get from these events.
    fn shown(reasoning: Reasoning, watched: bool, events: &[Event], reason: StopReason) -> (String, String) {
        let (mut out, mut remarks) = (Vec::new(), Vec::new());
        let streams = Streams { out: &mut out, remarks: &mut remarks, watched, colours: (false, false) };
        let mut printer = Printer::new(
            streams,
            DisplayArguments { reasoning, ..DisplayArguments::default() },
            Arc::default(),
        );
        events.iter().for_each(|event| printer.event(event.clone()));
        printer.finish(&outcome(reason), 64, true).unwrap();
        (String::from_utf8(out).unwrap(), String::from_utf8(remarks).unwrap())
    }

    #[test]
    fn reasoning_never_mixes_with_the_answer_unasked() {
        let events = [Event::Reasoning("hm".to_owned()), Event::Text("yes".to_owned())];
        let end = || StopReason::EndOfGeneration(2);
        let by = |reasoning| shown(reasoning, false, &events, end());
        assert_eq!(by(Reasoning::Stderr), ("yes\n".to_owned(), "[reasoning]\nhm\n[answer]\n".to_owned()));
        assert_eq!(by(Reasoning::Hide), ("yes\n".to_owned(), String::new()));
        assert_eq!(by(Reasoning::Stdout), ("[reasoning]\nhm\n[answer]\nyes\n".to_owned(), String::new()));
    }

    #[test]
    fn an_answer_that_was_cut_says_so() {
        let note = |reason| shown(Reasoning::Hide, false, &[Event::Text("a".to_owned())], reason).1;
        assert!(
            note(StopReason::ContextFull).contains("context of 64 tokens is full (a larger one: -c 128)")
        );
        assert!(note(StopReason::MaxTokens).contains("(-n)"));
        assert_eq!(note(StopReason::EndOfGeneration(2)), "");
    }

    #[test]
    fn probabilities_are_a_table_after_the_answer_where_somebody_watches() {
        let top = vec![TokenLogprob { id: 5, piece: "Hi".to_owned(), logprob: -0.5 }];
        let token = Event::Token { id: 17, piece: "!".to_owned(), logprob: Some(-1.25), top };
        let events = [Event::Text("Hello".to_owned()), token, Event::Text("!".to_owned())];
        let (out, remarks) = shown(Reasoning::Hide, true, &events, StopReason::EndOfGeneration(2));
        assert_eq!(out, "Hello!\n");
        assert_eq!(remarks, "token  logprob  most likely\n\"!\"    -1.250   \"Hi\" -0.50\n");
        let (_, lines) = shown(Reasoning::Hide, false, &events, StopReason::EndOfGeneration(2));
        let line: serde_json::Value = serde_json::from_str(&lines).unwrap();
        assert_eq!((line["id"].as_u64(), line["top"][0]["token"].as_str()), (Some(17), Some("Hi")));
    }

    /// A stream that nobody reads.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_ends_the_generation() {
        let (mut remarks, cancel) = (Vec::new(), Arc::new(AtomicBool::new(false)));
        let streams =
            Streams { out: &mut Closed, remarks: &mut remarks, watched: false, colours: (false, false) };
        let mut printer = Printer::new(streams, DisplayArguments::default(), Arc::clone(&cancel));
        printer.event(Event::Text("x".to_owned()));
        assert!(cancel.load(Ordering::SeqCst));
        assert!(matches!(
            printer.finish(&outcome(StopReason::Cancelled), 64, true),
            Err(Failure::OutputClosed)
        ));
    }
}
