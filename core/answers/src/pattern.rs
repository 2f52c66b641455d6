//! Patterns of calls as steps: fixed text and holes.

use crate::format_fault::CallFormatFault;
use crate::literal::FixedText;
use crate::tool::is_name_character;

/// The most bytes of the name of an argument.
pub(crate) const LONGEST_KEY: usize = 256;

/// A step of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Fixed text.
    Fixed(FixedText),
    /// `${name}`: the name of a tool.
    Name,
    /// `${id}`: an id that the model chooses.
    Id,
    /// The beginning and the end of an id that consists of other steps.
    IdBegin,
    /// See [`Step::IdBegin`].
    IdEnd,
    /// `${index}`: the number of the call.
    Index,
    /// `${arguments}`: a JSON object.
    Arguments,
    /// `${object}`: a JSON object with name and arguments.
    Object,
    /// `${args}`: arguments in the forms `arg` and `arg_json`.
    Args,
    /// `${python}`: `key=value` with Python literals.
    Python,
    /// `${pairs}`: `key:value` with bare keys.
    Pairs,
}

impl Step {
    /// Whether the step has the arguments.
    pub(crate) fn is_arguments(&self) -> bool {
        matches!(self, Self::Arguments | Self::Object | Self::Args | Self::Python | Self::Pairs)
    }
}

/// The pieces of a pattern: text, or the name of a hole.
enum PatternPiece<'p> {
    Text(&'p str),
    Hole(&'p str),
}

fn pieces(pattern: &str) -> Vec<PatternPiece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((hole, after)) = after.split_once('}') else { break };
        if !before.is_empty() {
            pieces.push(PatternPiece::Text(before));
        }
        pieces.push(PatternPiece::Hole(hole));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(PatternPiece::Text(rest));
    }
    pieces
}

/// The steps of a pattern of a call; `id` is the pattern of ids.
pub(crate) fn steps(pattern: &str, id: Option<&str>) -> Result<Vec<Step>, CallFormatFault> {
    let mut steps = Vec::new();
    for piece in pieces(pattern) {
        match piece {
            PatternPiece::Text(text) => push_text(&mut steps, text),
            PatternPiece::Hole("id") => match id {
                Some(id) => {
                    steps.push(Step::IdBegin);
                    for step in self::steps(id, None)? {
                        steps.push(step);
                    }
                    steps.push(Step::IdEnd);
                }
                None => steps.push(Step::Id),
            },
            PatternPiece::Hole(hole) => steps.push(match hole {
                "name" => Step::Name,
                "index" => Step::Index,
                "arguments" => Step::Arguments,
                "object" => Step::Object,
                "args" => Step::Args,
                "python" => Step::Python,
                "pairs" => Step::Pairs,
                _ => return Err(CallFormatFault::UnknownHole { hole: hole.to_owned() }),
            }),
        }
    }
    Ok(steps)
}

/// Adds text; text after text is one literal.
fn push_text(steps: &mut Vec<Step>, text: &str) {
    match steps.last_mut() {
        Some(Step::Fixed(last)) => *last = FixedText::new(&format!("{}{text}", last.text())),
        _ => steps.push(Step::Fixed(FixedText::new(text))),
    }
}

/// A whole call: the text before it, and its steps.
pub(crate) fn with_opening(opening: &str, call: &[Step]) -> Vec<Step> {
    let mut steps = Vec::new();
    if !opening.is_empty() {
        push_text(&mut steps, opening);
    }
    for step in call {
        match step {
            Step::Fixed(literal) => push_text(&mut steps, literal.text()),
            other => steps.push(other.clone()),
        }
    }
    steps
}

/// Checks that a call has a name and arguments, once, and that each hole can be told from what follows it.
pub(crate) fn check(steps: &[Step]) -> Result<(), CallFormatFault> {
    let count = |wanted: fn(&Step) -> bool| steps.iter().filter(|step| wanted(step)).count();
    let objects = count(|step| *step == Step::Object);
    if count(|step| *step == Step::Name) + objects != 1 || count(Step::is_arguments) != 1 {
        return Err(CallFormatFault::Holes);
    }
    for (at, step) in steps.iter().enumerate() {
        let next = steps[at + 1..].iter().find(|step| !matches!(step, Step::IdBegin | Step::IdEnd));
        let follows = |allowed: &dyn Fn(char) -> bool| match next {
            Some(Step::Fixed(literal)) => literal.text().chars().next().is_some_and(allowed),
            _ => false,
        };
        let told = match step {
            Step::Name => follows(&|next| !is_name_character(next)),
            Step::Id | Step::Index => follows(&|next| !is_id_character(next)),
            Step::Args | Step::Python | Step::Pairs => follows(&|_| true),
            _ => true,
        };
        if !told {
            return Err(CallFormatFault::Unbounded);
        }
        if step.is_arguments() && *step != Step::Object && !steps[..at].contains(&Step::Name) {
            return Err(CallFormatFault::Holes);
        }
    }
    Ok(())
}

/// Whether a character can be part of an id that the model chooses.
pub(crate) fn is_id_character(character: char) -> bool {
    is_name_character(character) || character == ':'
}

/// The form of one argument: text, key, text, value, text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentForm {
    /// Before the key.
    pub(crate) lead: FixedText,
    /// Between key and value, without the white space before the value.
    pub(crate) middle: FixedText,
    /// White space before the value, which is not part of it.
    pub(crate) before_value: String,
    /// White space after the value, which is not part of it.
    pub(crate) after_value: String,
    /// After the value, up to the next white space; the rest is white space.
    pub(crate) end: String,
}

impl ArgumentForm {
    /// Reads a form.
    ///
    /// # Errors
    /// It is not text, `${key}`, text, `${value}`, text.
    pub(crate) fn new(form: &str) -> Result<Self, CallFormatFault> {
        use PatternPiece::{Hole, Text};
        let pieces = pieces(form);
        let [Text(lead), Hole("key"), Text(middle), Hole("value"), Text(end)] = pieces.as_slice() else {
            return Err(CallFormatFault::ArgumentForm);
        };
        let (trimmed, word) = (middle.trim_end(), end.trim());
        if trimmed.is_empty()
            || word.is_empty()
            || lead.trim().is_empty()
            || word.contains(char::is_whitespace)
        {
            return Err(CallFormatFault::ArgumentForm);
        }
        Ok(Self {
            lead: FixedText::new(lead),
            middle: FixedText::new(trimmed),
            before_value: middle[trimmed.len()..].to_owned(),
            after_value: end[..end.len() - end.trim_start().len()].to_owned(),
            end: word.to_owned(),
        })
    }
}
