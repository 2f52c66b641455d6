//! [`WordWrap`]: breaks text that arrives in pieces between words at the width of a terminal.

use crate::screen::escape;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns from one tab stop to the next.
const TAB: usize = 8;

/// The state of a text that is written to a terminal. The last word is held back until it is complete.
#[derive(Debug)]
pub(crate) struct WordWrap {
    /// Returns the current number of columns of the terminal; 0 if unknown.
    columns: fn() -> usize,
    /// Number of columns that are used in the current line.
    column: usize,
    /// White space after the written text.
    gap: String,
    /// The escaped word after the white space.
    word: String,
    /// The word is longer than a line, and its beginning has been written.
    is_long: bool,
    /// The last character was a carriage return.
    returned: bool,
}

impl WordWrap {
    pub(crate) fn new(columns: fn() -> usize) -> Self {
        Self { columns, column: 0, gap: String::new(), word: String::new(), is_long: false, returned: false }
    }

    /// Whether the current line has text.
    pub(crate) fn is_open(&self) -> bool {
        self.column > 0
    }

    /// Starts on a new line after other output ended the line; pending white space is dropped.
    pub(crate) fn restart(&mut self) {
        self.column = 0;
        self.gap.clear();
    }

    /// Adds a piece and returns the text that can be written: escaped, without breaking words that fit into a line.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for c in piece.chars() {
            if std::mem::take(&mut self.returned) && c != '\n' {
                escape::push(&mut self.word, '\r');
            }
            match c {
                '\r' => self.returned = true,
                '\n' => {
                    self.write_word(&mut out);
                    self.gap.clear();
                    out.push('\n');
                    self.column = 0;
                }
                ' ' | '\t' => {
                    self.write_word(&mut out);
                    self.gap.push(c);
                }
                _ => self.push_visible(&mut out, c),
            }
        }
        out
    }

    /// Lines may be broken before and after a wide character, because such scripts have no spaces.
    fn push_visible(&mut self, out: &mut String, c: char) {
        let is_wide = |c: char| c.width() == Some(2);
        let after_wide = self.word.chars().last().is_some_and(is_wide) && c.width() != Some(0);
        if is_wide(c) || after_wide {
            self.write_word(out);
        }
        let room = (self.columns)();
        escape::push(&mut self.word, c);
        if room > 0 && (self.is_long || self.word.width() > room) {
            self.write_long(out, room);
        }
    }

    /// Returns the text that was held back: no more text follows for now.
    pub(crate) fn flush(&mut self) -> String {
        let mut out = String::new();
        if std::mem::take(&mut self.returned) {
            escape::push(&mut self.word, '\r');
        }
        self.write_word(&mut out);
        self.column += width_from(self.column, &self.gap);
        out.push_str(&std::mem::take(&mut self.gap));
        out
    }

    fn write_word(&mut self, out: &mut String) {
        self.is_long = false;
        if self.word.is_empty() {
            return;
        }
        let room = (self.columns)();
        let begin = self.column + width_from(self.column, &self.gap);
        if room > 0 && self.column > 0 && begin + self.word.width() > room {
            out.push('\n');
            self.column = 0;
        } else {
            out.push_str(&self.gap);
            self.column = begin;
        }
        self.gap.clear();
        out.push_str(&self.word);
        self.column += self.word.width();
        self.word.clear();
    }

    /// A word longer than a line starts at the current column and is broken at the ends of lines.
    fn write_long(&mut self, out: &mut String, room: usize) {
        self.is_long = true;
        self.column += width_from(self.column, &self.gap);
        out.push_str(&std::mem::take(&mut self.gap));
        for c in std::mem::take(&mut self.word).chars() {
            let width = c.width().unwrap_or(0);
            if self.column + width > room {
                out.push('\n');
                self.column = 0;
            }
            out.push(c);
            self.column += width;
        }
    }
}

/// Number of columns of white space that starts at a column.
fn width_from(column: usize, gap: &str) -> usize {
    let end = gap.chars().fold(column, |at, c| if c == '\t' { (at / TAB + 1) * TAB } else { at + 1 });
    end - column
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(columns: fn() -> usize, pieces: &[&str]) -> String {
        let mut wrap = WordWrap::new(columns);
        let mut text: String = pieces.iter().map(|piece| wrap.push(piece)).collect();
        text.push_str(&wrap.flush());
        text
    }

    #[test]
    fn words_are_broken_nowhere_wherever_tokens_end() {
        let expected = "the quick\nbrown fox\njumps over\nit";
        assert_eq!(wrapped(|| 10, &["the quick brown fox jumps over it"]), expected);
        assert_eq!(
            wrapped(|| 10, &["the qu", "ick bro", "wn", " fox j", "umps", " ", "over", " it"]),
            expected
        );
        let letters: Vec<String> = "the quick brown fox jumps over it".chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(wrapped(|| 10, &letters), expected);
    }

    #[test]
    fn lines_and_spaces_of_the_text_stay() {
        assert_eq!(wrapped(|| 20, &["if x:\n    y\n\n\tz  w\r\n"]), "if x:\n    y\n\n\tz  w\n");
        assert_eq!(
            wrapped(|| 0, &["no width is known, nothing is broken"]),
            "no width is known, nothing is broken"
        );
    }

    #[test]
    fn a_wide_character_takes_two_columns() {
        // Ten columns hold five of them, and after one letter four.
        assert_eq!(wrapped(|| 10, &["漢字漢字漢字漢"]), "漢字漢字漢\n字漢");
        assert_eq!(wrapped(|| 10, &["a漢字漢字漢"]), "a漢字漢字\n漢");
        assert_eq!(wrapped(|| 10, &["漢字漢字漢abc"]), "漢字漢字漢\nabc");
    }

    #[test]
    fn what_fits_into_no_line_is_broken_at_its_end() {
        assert_eq!(wrapped(|| 5, &["ab abcdefghij k"]), "ab ab\ncdefg\nhij k");
    }

    /// The escape of a control character is shown, also where it comes alone.
    #[test]
    fn nothing_acts_on_the_terminal() {
        assert_eq!(
            wrapped(|| 80, &["a\x1b", "]0;x", "\x07 b\r", "\nc\rd"]),
            "a\\u{1b}]0;x\\u{7} b\nc\\u{d}d"
        );
    }

    #[test]
    fn after_a_line_that_other_output_ended_all_columns_are_free() {
        let mut wrap = WordWrap::new(|| 10);
        assert_eq!(wrap.push("abcdefg ") + &wrap.flush(), "abcdefg ");
        wrap.restart();
        assert_eq!(wrap.push("abcdefg hi") + &wrap.flush(), "abcdefg hi");
    }
}
