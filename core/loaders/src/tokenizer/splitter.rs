//! Cutting text into the pieces that are merged on their own.

use fancy_regex::{Regex, RegexBuilder};

use super::error::TokenizerError;

/// How far a look-around regex may backtrack in one search before it is an error.
const BACKTRACK_LIMIT: usize = 10_000_000;
const WHITE_TAIL: &str = r"|\s+(?!\S)|\s+";

/// A list of regexes, each applied to every piece the one before it left; what none matches stays a piece of its own.
#[derive(Debug)]
pub(crate) struct Splitter {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    regex: Regex,
    tail: Tail,
}

/// Most lists end in `\s+(?!\S)|\s+`: white space, less its last character where something follows. That look-ahead
/// would make the whole regex a backtracking one; it is left out and done by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// The regex is used as it stands.
    AsWritten,
    /// All matches of nothing but white space came from the tail.
    White,
    /// As `White`, but those that end in a line break came from `\s*[\r\n]`.
    WhiteNotLines,
}

impl Splitter {
    /// Compiles the regexes; an error names the one that is faulty.
    pub(crate) fn new(regexes: &[String]) -> Result<Self, TokenizerError> {
        let rules = regexes.iter().enumerate().map(|(at, regex)| {
            Rule::new(regex).map_err(|error| TokenizerError::Table {
                place: format!("regex {} {regex:?}", at + 1),
                problem: error.to_string(),
            })
        });
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// The pieces of a text, in order, none empty; together they are the text. An error where a regex gives up.
    pub(crate) fn split<'t>(&self, text: &'t str) -> Result<Vec<&'t str>, TokenizerError> {
        let mut pieces = vec![text];
        for (at, rule) in self.rules.iter().enumerate() {
            let mut next = Vec::with_capacity(pieces.len());
            for piece in pieces {
                rule.cut(piece, &mut next).map_err(|(place, problem)| TokenizerError::Regex {
                    regex: at + 1,
                    at: (piece.as_ptr() as usize).saturating_sub(text.as_ptr() as usize) + place,
                    length: text.len(),
                    problem,
                })?;
            }
            pieces = next;
        }
        pieces.retain(|piece| !piece.is_empty());
        Ok(pieces)
    }
}

impl Rule {
    fn new(source: &str) -> Result<Self, Box<fancy_regex::Error>> {
        let (source, tail) = match source.strip_suffix(WHITE_TAIL) {
            Some(head) if head.ends_with(r"|\s*[\r\n]+") || head.ends_with(r"|\s*[\r\n]") => {
                (format!(r"{head}|\s+"), Tail::WhiteNotLines)
            }
            Some(head) if !head.ends_with(r"|[\r\n]") => (format!(r"{head}|\s+"), Tail::White),
            _ => (source.to_owned(), Tail::AsWritten),
        };
        let regex = RegexBuilder::new(&source).backtrack_limit(BACKTRACK_LIMIT).build().map_err(Box::new)?;
        Ok(Self { regex, tail })
    }

    /// Pushes the matches of a piece and what lies between them; an error is where and why the regex gave up.
    fn cut<'t>(&self, piece: &'t str, out: &mut Vec<&'t str>) -> Result<(), (usize, String)> {
        let mut done = 0;
        let mut from = 0;
        while from < piece.len() {
            let found = self.regex.find_from_pos(piece, from).map_err(|error| (from, error.to_string()))?;
            let Some(found) = found else {
                break;
            };
            let (start, end) = (found.start(), self.end_of(piece, found.start(), found.end()));
            push(piece, done..start, out);
            push(piece, start..end, out);
            done = end;
            from = if end > start { end } else { next_char(piece, end) };
        }
        push(piece, done..piece.len(), out);
        Ok(())
    }

    /// The end of a match; one character earlier for white space of several characters before something else.
    fn end_of(&self, piece: &str, start: usize, end: usize) -> usize {
        let text = piece.get(start..end).unwrap_or_default();
        if self.tail == Tail::AsWritten || end == piece.len() || !text.chars().all(char::is_whitespace) {
            return end;
        }
        let Some((last, character)) = text.char_indices().next_back() else {
            return end;
        };
        let line = self.tail == Tail::WhiteNotLines && matches!(character, '\r' | '\n');
        if line || last == 0 { end } else { start + last }
    }
}

fn push<'t>(piece: &'t str, range: std::ops::Range<usize>, out: &mut Vec<&'t str>) {
    if let Some(part) = piece.get(range).filter(|part| !part.is_empty()) {
        out.push(part);
    }
}

fn next_char(text: &str, at: usize) -> usize {
    at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}
