//! [`Printer`]: prints the events of a generation: the answer on one stream, everything else on another.

use crate::arguments::display::{DisplayArguments, Reasoning};
use crate::failure::Failure;
use crate::output;
use crate::output::answer_stream::AnswerStream;
use crate::screen::progress::PromptBar;
use crate::screen::style::{OutputStream, paint};
use crate::screen::{report, style};
use anstyle::Style;
use menagerie::engine::{Event, Outcome, StopReason};
use menagerie_openai::AnswerToken;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The row of a token in the table of log probabilities.
fn row(token: &AnswerToken) -> Vec<String> {
    let others: Vec<String> = token.top.iter().map(|t| format!("{:?} {:.2}", t.piece, t.logprob)).collect();
    let own = token.logprob.map(|logprob| format!("{logprob:.3}")).unwrap_or_default();
    vec![format!("{:?}", token.piece), own, others.join("  ")]
}

/// The streams for the answer and for everything else.
pub(crate) struct AnswerStreams<'a> {
    /// The stream for the answer.
    pub(crate) out: AnswerStream<'a>,
    /// The stream for everything else.
    pub(crate) remarks: AnswerStream<'a>,
    /// Whether the remarks go to a terminal.
    pub(crate) watched: bool,
}

impl AnswerStreams<'_> {
    /// Standard output and standard error.
    pub(crate) fn of_process<'a>(
        out: &'a mut std::io::Stdout,
        remarks: &'a mut std::io::Stderr,
    ) -> AnswerStreams<'a> {
        AnswerStreams {
            out: AnswerStream::of_process(out, OutputStream::Out),
            remarks: AnswerStream::of_process(remarks, OutputStream::Err),
            watched: OutputStream::Err.is_terminal(),
        }
    }
}

/// Prints events as they arrive. Without [`Printer::finish`] the answer is printed as far as it was generated.
pub(crate) struct Printer<'a> {
    streams: AnswerStreams<'a>,
    display: DisplayArguments,
    cancel: Arc<AtomicBool>,
    bar: PromptBar,
    in_reasoning: bool,
    /// Whether the last character of the answer so far is a newline.
    line_ended: bool,
    /// Whether something of the answer was written.
    begun: bool,
    tokens: Vec<AnswerToken>,
    failed: Option<Failure>,
}

impl<'a> Printer<'a> {
    /// A printer that sets `cancel` when its output is closed.
    pub(crate) fn new(
        streams: AnswerStreams<'a>,
        display: DisplayArguments,
        cancel: Arc<AtomicBool>,
    ) -> Self {
        let bar = PromptBar::new(streams.watched);
        Self {
            streams,
            display,
            cancel,
            bar,
            in_reasoning: false,
            line_ended: false,
            begun: false,
            tokens: Vec::new(),
            failed: None,
        }
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
            Event::CallBegin { name, .. } => self.separate(false).and_then(|()| self.call(&name)),
            Event::CallArguments { text, .. } => self.write(&text),
            Event::CallEnd { .. } => self.write("\n"),
            Event::Notice(text) => {
                self.bar.clear();
                self.note(&text)
            }
            Event::Token { id, piece, bytes, logprob: Some(logprob), top } => {
                self.probability(AnswerToken { id, piece, bytes, logprob: Some(logprob), top })
            }
            _ => Ok(()),
        };
        if let Err(failure) = written {
            // The rest of the answer cannot be printed.
            self.cancel.store(true, Ordering::SeqCst);
            self.failed.get_or_insert(failure);
        }
    }

    /// On a terminal the log probabilities are printed as a table at the end, otherwise one line at a time.
    fn probability(&mut self, shown: AnswerToken) -> Result<(), Failure> {
        if self.streams.watched {
            self.tokens.push(shown);
            return Ok(());
        }
        self.remark(&format!("{}\n", shown.json()))
    }

    /// The beginning of a call, on a line of its own.
    fn call(&mut self, name: &str) -> Result<(), Failure> {
        if self.begun && !self.line_ended {
            self.write("\n")?;
        }
        self.write(&format!("[call] {name} "))
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        (self.begun, self.line_ended) = (true, text.ends_with('\n'));
        self.streams.out.write(text, Style::new())
    }

    /// Errors of the stream for remarks are ignored.
    fn remark(&mut self, text: &str) -> Result<(), Failure> {
        self.streams.remarks.remark(text).or(Ok(()))
    }

    fn note(&mut self, text: &str) -> Result<(), Failure> {
        let line = report::note_text(text, self.streams.remarks.is_colored());
        self.remark(&format!("{line}\n"))
    }

    fn reason(&mut self, text: &str) -> Result<(), Failure> {
        match self.display.reasoning {
            Reasoning::Hide => Ok(()),
            Reasoning::Stdout => self.streams.out.write(text, style::DIM),
            Reasoning::Stderr => self.streams.remarks.write(text, style::DIM).or(Ok(())),
        }
    }

    /// Prints the words that are held back until they are complete.
    fn flush(&mut self) -> Result<(), Failure> {
        let reasoning = if self.in_reasoning { style::DIM } else { Style::new() };
        let shown = self.streams.out.flush(reasoning);
        self.streams.remarks.flush(style::DIM).or(Ok(())).and(shown)
    }

    /// Prints the marker between reasoning and answer.
    fn separate(&mut self, reasoning: bool) -> Result<(), Failure> {
        self.bar.clear();
        if self.in_reasoning == reasoning {
            return Ok(());
        }
        self.flush()?;
        self.in_reasoning = reasoning;
        match reasoning {
            true if self.display.reasoning == Reasoning::Stderr => {
                self.remark(&paint("[reasoning]\n", style::DIM, self.streams.remarks.is_colored()))
            }
            true => self.reason("[reasoning]\n"),
            false => self.reason("\n[answer]\n"),
        }
    }

    /// Ends the answer: prints the last newline, the log probabilities, and a note if the answer was cut off or is empty.
    ///
    /// # Errors
    /// The first write error, if any.
    pub(crate) fn finish(
        mut self,
        outcome: &Outcome,
        context: usize,
        limit_noted: bool,
    ) -> Result<(), Failure> {
        self.bar.clear();
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        self.flush()?;
        if self.in_reasoning {
            self.reason("\n")?;
        }
        if !self.line_ended {
            self.write("\n")?;
        }
        if !self.tokens.is_empty() {
            let rows: Vec<Vec<String>> = self.tokens.iter().map(row).collect();
            let table = output::table_text(&["token", "logprob", "most likely"], &rows);
            self.remark(&table)?;
        }
        let note =
            empty(outcome, self.display.reasoning).or_else(|| cut(&outcome.reason, context, limit_noted));
        note.map_or(Ok(()), |note| self.note(&note))
    }
}

impl Drop for Printer<'_> {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// The note for an answer without text, which explains why it is empty.
fn empty(outcome: &Outcome, reasoning: Reasoning) -> Option<String> {
    if !outcome.text.trim().is_empty()
        || !outcome.tool_calls.is_empty()
        || outcome.reason == StopReason::Cancelled
    {
        return None;
    }
    let place = if outcome.reasoning.is_empty() { "before it started" } else { "during the reasoning" };
    let why = match &outcome.reason {
        StopReason::MaxTokens => format!("the limit on tokens (-n) was reached {place}"),
        StopReason::ContextFull => format!("the context was full {place}"),
        StopReason::StopString(text) => format!("the stop string {text:?} was generated {place}"),
        StopReason::EndOfGeneration(_) if outcome.reasoning.is_empty() => {
            "the model stopped immediately".to_owned()
        }
        StopReason::EndOfGeneration(_) => format!("the model stopped {place}"),
        other => format!("{other} {place}"),
    };
    let hidden = reasoning == Reasoning::Hide && !outcome.reasoning.is_empty();
    let hint = if hidden { " (--reasoning stderr shows it)" } else { "" };
    Some(format!("the answer is empty: {why}{hint}"))
}

/// The note for an answer that the model did not finish.
fn cut(reason: &StopReason, context: usize, limit_noted: bool) -> Option<String> {
    match reason {
        StopReason::ContextFull => Some(format!(
            "the answer is cut off: the context of {context} tokens is full (try a larger one: -c {})",
            context.saturating_mul(2)
        )),
        StopReason::MaxTokens if limit_noted => {
            Some("the answer is cut off: it reached the limit on tokens (-n)".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::open_line::OpenLine;
    use menagerie::engine::TokenLogprob;
    use std::io::Write;
    use std::sync::Mutex;

    fn outcome(reason: StopReason) -> Outcome {
        let mut outcome = Outcome::new(reason);
        outcome.text = "answer".to_owned();
        outcome
    }

    /// The contents of both streams after these events.
    fn shown(reasoning: Reasoning, watched: bool, events: &[Event], reason: StopReason) -> (String, String) {
        let (mut out, mut remarks) = (Vec::new(), Vec::new());
        let (out_stream, remarks_stream) = (AnswerStream::pipe(&mut out), AnswerStream::pipe(&mut remarks));
        let streams = AnswerStreams { out: out_stream, remarks: remarks_stream, watched };
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
            note(StopReason::ContextFull).contains("context of 64 tokens is full (try a larger one: -c 128)")
        );
        assert!(note(StopReason::MaxTokens).contains("(-n)"));
        assert_eq!(note(StopReason::EndOfGeneration(2)), "");
    }

    #[test]
    fn probabilities_are_a_table_after_the_answer_on_a_terminal() {
        let top = vec![TokenLogprob { id: 5, piece: "Hi".to_owned(), bytes: b"Hi".to_vec(), logprob: -0.5 }];
        let (piece, bytes) = ("!".to_owned(), b"!".to_vec());
        let token = Event::Token { id: 17, piece, bytes, logprob: Some(-1.25), top };
        let events = [Event::Text("Hello".to_owned()), token, Event::Text("!".to_owned())];
        let (out, remarks) = shown(Reasoning::Hide, true, &events, StopReason::EndOfGeneration(2));
        assert_eq!(out, "Hello!\n");
        assert_eq!(remarks, "token  logprob  most likely\n\"!\"    -1.250   \"Hi\" -0.50\n");
        let (_, lines) = shown(Reasoning::Hide, false, &events, StopReason::EndOfGeneration(2));
        let line: serde_json::Value = serde_json::from_str(&lines).unwrap();
        assert_eq!((line["id"].as_u64(), line["top"][0]["token"].as_str()), (Some(17), Some("Hi")));
    }

    /// A screen to which both streams write.
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The contents of a terminal of 20 columns after these events; `None` if the generation fails after them.
    fn on_screen(events: &[Event], reason: Option<StopReason>) -> String {
        let (screen, line) = (Screen::default(), OpenLine::default());
        let (mut out, mut remarks) = (screen.clone(), screen.clone());
        let streams = AnswerStreams {
            out: AnswerStream::terminal(&mut out, || 20, &line),
            remarks: AnswerStream::terminal(&mut remarks, || 20, &line),
            watched: true,
        };
        let mut printer = Printer::new(streams, DisplayArguments::default(), Arc::default());
        events.iter().for_each(|event| printer.event(event.clone()));
        match reason {
            Some(reason) => printer.finish(&outcome(reason), 64, true).unwrap(),
            None => {
                drop(printer);
                let begin = line.end();
                writeln!(screen.clone(), "{begin}error: gone").unwrap();
            }
        }
        let bytes = screen.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// The last word of the answer is printed, and notes about the answer begin on a new line.
    #[test]
    fn notes_and_errors_begin_on_a_line_of_their_own() {
        let begun = [Event::Text("The Zha".to_owned()), Event::Text("'th".to_owned())];
        assert_eq!(on_screen(&begun, None), "The Zha'th\nerror: gone\n");
        let noted = [
            Event::Text("one tw".to_owned()),
            Event::Notice("left out".to_owned()),
            Event::Text("o three".to_owned()),
        ];
        let end = Some(StopReason::EndOfGeneration(2));
        assert_eq!(on_screen(&noted, end), "one\nnote: left out\ntwo three\n");
    }

    /// Whole words and no control characters, wherever tokens end; a column that a note freed is used.
    #[test]
    fn a_terminal_gets_whole_words_that_do_not_act_on_it() {
        let text = [
            Event::Text("A quick brown fox ju".to_owned()),
            Event::Text("mps \u{1b}".to_owned()),
            Event::Text("[2J".to_owned()),
        ];
        let end = Some(StopReason::EndOfGeneration(2));
        assert_eq!(on_screen(&text, end.clone()), "A quick brown fox\njumps \\u{1b}[2J\n");
        let pieces = [
            Event::Reasoning("hm".to_owned()),
            Event::Text("yes".to_owned()),
            Event::Reasoning("no".to_owned()),
            Event::Text("well".to_owned()),
        ];
        let expected = "[reasoning]\nhm\n[answer]\nyes\n[reasoning]\nno\n[answer]\nwell\n";
        assert_eq!(on_screen(&pieces, end), expected);
    }

    #[test]
    fn a_pipe_gets_the_text_as_it_is() {
        let text = "a\u{1b}[2J and a line that is longer than any terminal has columns \u{202e}x";
        let end = StopReason::EndOfGeneration(2);
        assert_eq!(
            shown(Reasoning::Hide, false, &[Event::Text(text.to_owned())], end).0,
            format!("{text}\n")
        );
    }

    #[test]
    fn an_empty_answer_is_explained_to_programs_too() {
        let note = |reason: StopReason, reasoning: &str, shown: Reasoning| {
            let mut nothing = Outcome::new(reason);
            nothing.reasoning = reasoning.to_owned();
            empty(&nothing, shown).unwrap_or_default()
        };
        let hidden = note(StopReason::MaxTokens, "hm", Reasoning::Hide);
        assert!(
            hidden.contains("(-n) was reached during the reasoning (--reasoning stderr shows it)"),
            "{hidden}"
        );
        assert!(
            note(StopReason::ContextFull, "hm", Reasoning::Stderr).ends_with("full during the reasoning")
        );
        let ended = note(StopReason::EndOfGeneration(2), "", Reasoning::Hide);
        assert_eq!(ended, "the answer is empty: the model stopped immediately");
        assert!(
            note(StopReason::StopString("x".to_owned()), "", Reasoning::Hide).contains("stop string \"x\"")
        );
        assert_eq!(note(StopReason::Cancelled, "", Reasoning::Hide), "");
        assert_eq!(empty(&outcome(StopReason::MaxTokens), Reasoning::Hide), None);
    }

    /// A closed stream.
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
        let mut closed = Closed;
        let (out, remarks) = (AnswerStream::pipe(&mut closed), AnswerStream::pipe(&mut remarks));
        let streams = AnswerStreams { out, remarks, watched: false };
        let mut printer = Printer::new(streams, DisplayArguments::default(), Arc::clone(&cancel));
        printer.event(Event::Text("x".to_owned()));
        assert!(cancel.load(Ordering::SeqCst));
        assert!(matches!(
            printer.finish(&outcome(StopReason::Cancelled), 64, true),
            Err(Failure::OutputClosed)
        ));
    }
}
