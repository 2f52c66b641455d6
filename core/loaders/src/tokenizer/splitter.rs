//! Cutting text into the pieces that are merged on their own.

use std::ops::Range;
use std::sync::LazyLock;

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
    way: Way,
}

/// How the matches of a rule's regex become pieces. Look-ahead makes a regex a backtracking one, which takes quadratic
/// time or gives up on a long run: the look-aheads that tables use are left out of the regex and done by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The regex is used as it stands.
    AsWritten,
    /// `\s+(?!\S)|\s+` ends most regexes: white space, less its last character where something follows. All matches of
    /// nothing but white space came from there.
    White,
    /// As `White`, but those that end in a line break came from `\s*[\r\n]`.
    WhiteNotLines,
    /// The regex finds runs of digits; these are grouped by three from the right, the shorter group first.
    Digits(Digits),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    /// Each group is a piece.
    Groups,
    /// As `Groups`, unless a letter or `_` follows the run.
    GroupsOfNumbers,
    /// The text is cut before each group of three, and nowhere else.
    Cuts,
}

/// Regexes that group digits from the right, what finds the runs, and how they are cut.
const DIGITS: [(&str, &str, Digits); 3] = [
    (r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", r"\p{N}+", Digits::Groups),
    (r"\d{1,3}(?=(?:\d{3})*\b)", r"\d+", Digits::GroupsOfNumbers),
    (r"(?=(\d{3})+(?!\d))", r"\d+", Digits::Cuts),
];

impl Splitter {
    /// Compiles the regexes.
    ///
    /// # Errors
    /// The regex that is faulty, and what is wrong with it.
    pub(crate) fn new(regexes: &[String]) -> Result<Self, (String, String)> {
        let rules =
            regexes.iter().map(|regex| Rule::new(regex).map_err(|error| (regex.clone(), error.to_string())));
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
        let digits = DIGITS.iter().find(|(written, _, _)| *written == source);
        let (source, way) = match (digits, source.strip_suffix(WHITE_TAIL)) {
            (Some((_, run, digits)), _) => ((*run).to_owned(), Way::Digits(*digits)),
            (None, Some(head)) if head.ends_with(r"|\s*[\r\n]+") || head.ends_with(r"|\s*[\r\n]") => {
                (format!(r"{head}|\s+"), Way::WhiteNotLines)
            }
            (None, Some(head)) => (format!(r"{head}|\s+"), Way::White),
            (None, None) => (source.to_owned(), Way::AsWritten),
        };
        let regex = RegexBuilder::new(&source).backtrack_limit(BACKTRACK_LIMIT).build().map_err(Box::new)?;
        Ok(Self { regex, way })
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
            if let Way::Digits(digits) = self.way {
                from = found.end();
                digits.cut(piece, found.start()..found.end(), &mut done, out);
                continue;
            }
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
        if self.way == Way::AsWritten || end == piece.len() || !text.chars().all(char::is_whitespace) {
            return end;
        }
        let Some((last, character)) = text.char_indices().next_back() else {
            return end;
        };
        let line = self.way == Way::WhiteNotLines && matches!(character, '\r' | '\n');
        if line || last == 0 { end } else { start + last }
    }
}

impl Digits {
    /// Cuts one run of digits; `done` is the end of what was pushed.
    fn cut<'t>(self, piece: &'t str, run: Range<usize>, done: &mut usize, out: &mut Vec<&'t str>) {
        let after = piece.get(run.end..).and_then(|rest| rest.chars().next());
        if self == Self::GroupsOfNumbers && after.is_some_and(is_word) {
            return;
        }
        let digits = piece.get(run.clone()).unwrap_or_default();
        let count = digits.chars().count();
        for (at, (byte, _)) in digits.char_indices().enumerate() {
            let begins = (count - at).is_multiple_of(3) || (at == 0 && self != Self::Cuts);
            if begins {
                push(piece, *done..run.start + byte, out);
                *done = run.start + byte;
            }
        }
        if self != Self::Cuts {
            push(piece, *done..run.end, out);
            *done = run.end;
        }
    }
}

/// Whether a character continues a word (`\w`), so that there is no `\b` between a digit and it.
fn is_word(character: char) -> bool {
    static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\A\w").ok());
    let matches = |regex: &Regex| regex.is_match(character.encode_utf8(&mut [0; 4])).unwrap_or(false);
    WORD.as_ref().is_some_and(matches)
}

fn push<'t>(piece: &'t str, range: Range<usize>, out: &mut Vec<&'t str>) {
    if let Some(part) = piece.get(range).filter(|part| !part.is_empty()) {
        out.push(part);
    }
}

fn next_char(text: &str, at: usize) -> usize {
    at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}
