//! Splitting text into the pieces that are merged separately.

use std::ops::Range;
use std::sync::LazyLock;

use fancy_regex::Regex;

use super::budget::Budget;
use super::error::TokenizerError;
use super::regex_room::RegexRoom;

/// The usual end of a regex: a run of white space, without its last character if something follows.
const WHITE_TAIL: &str = r"|\s+(?!\S)|\s+";
/// Its replacement: the last group of the regex.
const WHITE_RUN: &str = r"|(\s+)";

/// The one regex that splits white space in steps, as its beginning and its end. In its original form, each step
/// would search the whole rest of the run for a line break.
const IN_STEPS: (&str, &str) = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+",
    r"|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
);
const STEPS: [usize; 10] = [512, 256, 128, 64, 32, 16, 8, 4, 2, 1];

/// Regexes, each applied to every piece of the one before it; text without a match stays a piece of its own.
#[derive(Debug)]
pub(crate) struct Splitter {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    regex: Regex,
    way: MatchRule,
}

/// How the matches of a rule's regex become pieces. Look-ahead requires backtracking, which takes quadratic time or
/// fails on a long run: the look-aheads of the tables are removed from the regex and done in code.
#[derive(Debug, Clone, PartialEq, Eq)]
enum MatchRule {
    /// The regex is used unchanged.
    AsWritten,
    /// Matches of the last group are runs of white space: split into pieces of these lengths in characters, longest
    /// first, and the rest.
    White(&'static [usize]),
    /// The regex finds runs of digits; these are grouped by three from the right, the shorter group first.
    Digits(DigitRule),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DigitRule {
    /// Each group is a piece.
    Groups,
    /// As `Groups`, unless a letter or `_` follows the run.
    GroupsOfNumbers,
    /// The text is split before each group of three, and nowhere else.
    Cuts,
}

/// Regexes that group digits from the right, the regex of their runs, and the rule.
const DIGITS: [(&str, &str, DigitRule); 3] = [
    (r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", r"\p{N}+", DigitRule::Groups),
    (r"\d{1,3}(?=(?:\d{3})*\b)", r"\d+", DigitRule::GroupsOfNumbers),
    (r"(?=(\d{3})+(?!\d))", r"\d+", DigitRule::Cuts),
];

impl Splitter {
    /// Compiles the regexes, which share the room of a list of regexes.
    ///
    /// # Errors
    /// The invalid regex (its start), and what is wrong with it.
    pub(crate) fn new(regexes: &[String]) -> Result<Self, (String, String)> {
        Self::within(regexes, RegexRoom::of(regexes.iter().map(String::as_str)))
    }

    /// Compiles the regexes within a shared room.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub(crate) fn within(regexes: &[String], room: RegexRoom) -> Result<Self, (String, String)> {
        let rules = regexes.iter().map(|regex| {
            // A regex can be as long as a file.
            let start = || regex.chars().take(200).collect();
            Rule::new(regex, room).map_err(|problem| (start(), problem))
        });
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// The pieces of a text, in order, none empty; together they are the text. The error is a regex that fails.
    pub(crate) fn split<'t>(&self, text: &'t str, budget: &Budget) -> Result<Vec<&'t str>, TokenizerError> {
        let mut pieces = vec![text];
        for (at, rule) in self.rules.iter().enumerate() {
            let mut next = Vec::with_capacity(pieces.len());
            for piece in pieces {
                rule.cut(piece, budget, &mut next).map_err(|(place, problem)| TokenizerError::Regex {
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
    fn new(source: &str, room: RegexRoom) -> Result<Self, String> {
        let digits = DIGITS.iter().find(|(written, _, _)| *written == source);
        let (source, way) = match (digits, white_tail(source)) {
            (Some((_, run, digits)), _) => ((*run).to_owned(), MatchRule::Digits(*digits)),
            (None, Some((head, steps))) => (format!("{head}{WHITE_RUN}"), MatchRule::White(steps)),
            (None, None) => (source.to_owned(), MatchRule::AsWritten),
        };
        Ok(Self { regex: room.compile(&source)?, way })
    }

    /// Appends the matches of a piece and the text between them; the error is the position and reason of a failure.
    fn cut<'t>(
        &self,
        piece: &'t str,
        budget: &Budget,
        out: &mut Vec<&'t str>,
    ) -> Result<(), (usize, String)> {
        let mut done = 0;
        let mut from = 0;
        while from < piece.len() {
            // Short pieces have one match, and checking the clock would take longer.
            if from > 0 && budget.is_late() {
                return Err((from, "it takes too long".to_owned()));
            }
            let gave_up = |error: fancy_regex::Error| (from, error.to_string());
            let found = self.regex.find_from_pos(piece, from).map_err(gave_up)?;
            let Some(found) = found else {
                break;
            };
            let range = found.start()..found.end();
            if let MatchRule::Digits(digits) = self.way {
                from = range.end;
                digits.cut(piece, range, &mut done, out);
                continue;
            }
            push(piece, done..range.start, out);
            done = match self.steps(piece, from, &range).map_err(gave_up)? {
                Some(steps) => cut_white(piece, range.clone(), steps, out),
                None => {
                    push(piece, range.clone(), out);
                    range.end
                }
            };
            from = if done > range.start { done } else { next_char(piece, done) };
        }
        push(piece, done..piece.len(), out);
        Ok(())
    }

    /// The lengths into which the match at a position is split, if it is a run of several white-space characters.
    fn steps(&self, piece: &str, from: usize, found: &Range<usize>) -> fancy_regex::Result<Option<&[usize]>> {
        let MatchRule::White(steps) = &self.way else {
            return Ok(None);
        };
        let mut characters = piece.get(found.clone()).unwrap_or_default().chars();
        let several = characters.by_ref().take(2).filter(|character| character.is_whitespace()).count() > 1;
        if !several || !characters.all(char::is_whitespace) {
            return Ok(None);
        }
        // The alternative is determined only here, because groups cost time.
        let groups = self.regex.captures_from_pos(piece, from)?;
        let is_run = groups.is_some_and(|groups| groups.get(groups.len() - 1).is_some());
        Ok(is_run.then_some(steps))
    }
}

/// The part before the white space at the end of a regex, and the lengths for splitting it.
fn white_tail(source: &str) -> Option<(&str, &'static [usize])> {
    let in_steps = source.strip_suffix(IN_STEPS.1).filter(|head| *head == IN_STEPS.0);
    let whole = source.strip_suffix(WHITE_TAIL).map(|head| (head, [].as_slice()));
    in_steps.map(|head| (head, STEPS.as_slice())).or(whole)
}

/// Splits a run of several white-space characters; returns the end of the appended pieces, without the last character
/// if something follows.
fn cut_white<'t>(piece: &'t str, run: Range<usize>, steps: &[usize], out: &mut Vec<&'t str>) -> usize {
    let text = piece.get(run.clone()).unwrap_or_default();
    let last = text.char_indices().next_back().map_or(0, |(at, _)| at);
    let end = if run.end < piece.len() { run.start + last } else { run.end };
    let mut rest = piece.get(run.start..end).unwrap_or_default();
    let mut count = rest.chars().count();
    while let Some(step) = steps.iter().find(|step| **step <= count) {
        let (part, after) = rest.split_at(rest.char_indices().nth(*step).map_or(rest.len(), |(at, _)| at));
        out.push(part);
        count -= step;
        rest = after;
    }
    if !rest.is_empty() {
        out.push(rest);
    }
    end
}

impl DigitRule {
    /// Splits one run of digits; `done` is the end of the appended pieces.
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

/// Whether a character continues a word (`\w`), so that there is no `\b` between it and a digit.
pub(crate) fn is_word(character: char) -> bool {
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
