//! [`AnswerStream`]: writes a model's text: unchanged to a pipe, in whole words and escaped to a terminal.

use crate::failure::Failure;
use crate::output;
use crate::screen::open_line;
use crate::screen::open_line::OpenLine;
use crate::screen::style::{OutputStream, paint};
use crate::screen::word_wrap::WordWrap;
use anstyle::Style;
use std::io::Write;

/// A stream for a model's text while it is generated.
pub(crate) struct AnswerStream<'a> {
    to: &'a mut dyn Write,
    /// The line breaks of a terminal; `None` for other streams.
    wrap: Option<WordWrap>,
    /// The current line of a terminal to which remarks are written as well.
    line: Option<&'a OpenLine>,
    colored: bool,
}

impl<'a> AnswerStream<'a> {
    /// Standard output or standard error of this process, written through `to`.
    pub(crate) fn of_process(to: &'a mut dyn Write, stream: OutputStream) -> Self {
        let columns: fn() -> usize = match stream {
            OutputStream::Out => || OutputStream::Out.columns().unwrap_or(0),
            OutputStream::Err => || OutputStream::Err.columns().unwrap_or(0),
        };
        let line =
            (stream.is_terminal() && OutputStream::Err.is_terminal()).then_some(&open_line::OF_PROCESS);
        Self {
            to,
            wrap: stream.is_terminal().then(|| WordWrap::new(columns)),
            line,
            colored: stream.is_colored(),
        }
    }

    /// A stream that is not a terminal.
    #[cfg(test)]
    pub(crate) fn pipe(to: &'a mut dyn Write) -> Self {
        Self { to, wrap: None, line: None, colored: false }
    }

    /// A terminal with this number of columns.
    #[cfg(test)]
    pub(crate) fn terminal(to: &'a mut dyn Write, columns: fn() -> usize, line: &'a OpenLine) -> Self {
        Self { to, wrap: Some(WordWrap::new(columns)), line: Some(line), colored: false }
    }

    /// Whether notes are colored here.
    pub(crate) fn is_colored(&self) -> bool {
        self.colored
    }

    /// Writes a piece of text. On a terminal an incomplete word is held back until the next piece.
    pub(crate) fn write(&mut self, piece: &str, style: Style) -> Result<(), Failure> {
        let Some(wrap) = &mut self.wrap else { return self.write_shown(&paint(piece, style, self.colored)) };
        if wrap.is_open() && self.line.is_some_and(|line| !line.is_open()) {
            wrap.restart();
        }
        let shown = wrap.push(piece);
        self.write_wrapped(&shown, style)
    }

    /// Writes the text that was held back: no more text follows for now.
    pub(crate) fn flush(&mut self, style: Style) -> Result<(), Failure> {
        let Some(wrap) = &mut self.wrap else { return Ok(()) };
        let shown = wrap.flush();
        self.write_wrapped(&shown, style)
    }

    fn write_wrapped(&mut self, shown: &str, style: Style) -> Result<(), Failure> {
        if shown.is_empty() {
            return Ok(());
        }
        self.write_shown(&paint(shown, style, self.colored))?;
        if let (Some(line), Some(wrap)) = (self.line, &self.wrap) {
            line.set(wrap.is_open());
        }
        Ok(())
    }

    /// Writes text that needs no escaping, on a new line of the terminal.
    pub(crate) fn remark(&mut self, text: &str) -> Result<(), Failure> {
        let begin = self.line.map_or("", OpenLine::end);
        self.write_shown(&format!("{begin}{text}"))
    }

    fn write_shown(&mut self, text: &str) -> Result<(), Failure> {
        output::write_to(self.to, text)
    }
}
