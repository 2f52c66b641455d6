//! [`CallReader`]: one call, step by step.

mod report;

use super::argument::ArgumentReader;
use super::object::ObjectReader;
use super::pair::PairReader;
use crate::format::CallFormat;
use crate::json_scan::JsonScanner;
use crate::literal::{MOST_SPACE, Match};
use crate::part::{AnswerEnd, AnswerPart};
use crate::pattern::{Step, is_id_character};
use crate::syntax::CallSyntax;
use crate::tool::is_name_character;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most characters of a name or an id.
const LONGEST_NAME: usize = 128;

/// The most bytes of a call before its name is known.
const MOST_BEFORE_NAME: usize = 256 << 10;

/// What a step of a reader did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReaderStep {
    /// There may be another step.
    Again,
    /// More text is needed.
    Wait,
    /// The call is read.
    Done,
    /// The text is no call of the format, for this reason.
    Failed(String),
}

/// What the read text becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallPurpose {
    /// Not known yet: kept.
    Undecided,
    /// A call.
    Call,
    /// Text, because the tool is not declared.
    Text,
}

/// The state within a step.
#[derive(Clone, Debug)]
enum Work {
    None,
    Json(JsonScanner),
    Object(ObjectReader),
    Arguments(ArgumentReader),
    Pairs(PairReader),
}

/// Reads one call. The alternatives of a format are programs, which are followed as long as they agree with the text.
#[derive(Clone, Debug)]
pub(super) struct CallReader {
    pub(super) calls: CallSyntax,
    further: bool,
    programs: Vec<usize>,
    at: usize,
    index: usize,
    work: Work,
    purpose: CallPurpose,
    /// Whether a call of a tool that is not declared is a failure.
    declared_only: bool,
    /// What was read while the purpose is not known.
    raw: String,
    /// The id as far as it is read, while it is read.
    id_text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
    keys: BTreeSet<String>,
    arguments_done: bool,
}

impl CallReader {
    /// A reader of the call with this number; `before` is text before it that is dropped if it is a call.
    pub(super) fn new(calls: CallSyntax, further: bool, index: usize, before: &str) -> Self {
        let programs = if further { calls.format.further() } else { calls.format.first() };
        Self {
            programs: (0..programs.len()).collect(),
            calls,
            further,
            at: 0,
            index,
            work: Work::None,
            purpose: CallPurpose::Undecided,
            declared_only: false,
            raw: before.to_owned(),
            id_text: None,
            id: None,
            name: None,
            arguments: String::new(),
            keys: BTreeSet::new(),
            arguments_done: false,
        }
    }

    /// Makes a call of a tool that is not declared a failure.
    pub(super) fn require_declared(&mut self) {
        self.declared_only = true;
    }

    /// Whether the call was reported.
    pub(super) fn has_begun(&self) -> bool {
        self.purpose == CallPurpose::Call
    }

    /// Ends a call that failed; returns its text, if it is to be text.
    pub(super) fn fail(&mut self, reason: &str, parts: &mut Vec<AnswerPart>) -> String {
        if self.has_begun() {
            let name = self.name.as_deref().unwrap_or_default();
            parts.push(AnswerPart::Notice(format!(
                "the call of `{name}` is not valid and not reported as complete: {reason}"
            )));
        }
        std::mem::take(&mut self.raw)
    }

    /// Ends the answer within the call; returns its text, if it is to be text. The beginning of a call that was cut is
    /// none, if it is certain that a call began: if `is_call`, or because the format has markers.
    pub(super) fn finish(
        &mut self,
        held: &str,
        (end, is_call): (AnswerEnd, bool),
        parts: &mut Vec<AnswerPart>,
    ) -> Option<String> {
        if self.purpose == CallPurpose::Undecided
            && end == AnswerEnd::Cut
            && (is_call || !self.calls.format.keys().bare)
        {
            parts.push(cut_call());
            return None;
        }
        if self.purpose != CallPurpose::Call {
            return Some(std::mem::take(&mut self.raw) + held);
        }
        if end == AnswerEnd::Model && self.arguments_done && self.only_text_is_left() {
            if let ReaderStep::Failed(reason) = self.end(parts) {
                self.fail(&reason, parts);
            }
            return None;
        }
        let name = self.name.as_deref().unwrap_or_default();
        parts.push(AnswerPart::Notice(format!(
            "the answer ends within the call of `{name}`: it is not complete"
        )));
        None
    }

    fn only_text_is_left(&self) -> bool {
        let format = Arc::clone(&self.calls.format);
        let programs = self.program_list(&format);
        self.programs.iter().any(|&program| {
            programs[program][self.at..].iter().all(|step| matches!(step, Step::Fixed(_) | Step::IdEnd))
        })
    }

    fn program_list<'f>(&self, format: &'f CallFormat) -> &'f [Vec<Step>] {
        if self.further { format.further() } else { format.first() }
    }

    /// One step.
    pub(super) fn advance(&mut self, held: &mut String, parts: &mut Vec<AnswerPart>) -> ReaderStep {
        if self.purpose == CallPurpose::Undecided && self.raw.len() > MOST_BEFORE_NAME {
            return ReaderStep::Failed("its name is missing".to_owned());
        }
        let format = Arc::clone(&self.calls.format);
        let programs = self.program_list(&format);
        let step = self.programs.first().and_then(|&program| programs[program].get(self.at));
        let Some(step) = step else { return self.end(parts) };
        // Where one form has text and another a hole, the text is compared first.
        let has_text = |&program: &usize| matches!(programs[program].get(self.at), Some(Step::Fixed(_)));
        if self.programs.iter().any(has_text) {
            return self.literal(programs, held, parts);
        }
        match step {
            Step::IdBegin => {
                self.id_text = Some(String::new());
                return self.next(step, programs);
            }
            Step::IdEnd => {
                self.id = self.id_text.take();
                return self.next(step, programs);
            }
            _ => {}
        }
        if matches!(self.work, Work::None)
            && let Some(waiting) = self.space(held, parts)
        {
            return waiting;
        }
        let done = match step {
            Step::Name | Step::Id | Step::Index => self.word_step(step, held, parts),
            Step::Arguments => self.arguments_step(held, parts),
            Step::Object => self.object_step(held, parts),
            Step::Args => {
                let next = self.literals_after(programs);
                self.args_step(held, parts, &next)
            }
            _ => {
                let next = self.literals_after(programs);
                self.pairs_step(step, held, parts, &next)
            }
        };
        match done {
            ReaderStep::Done => {
                self.work = Work::None;
                self.arguments_done |= step.is_arguments();
                self.next(step, programs)
            }
            other => other,
        }
    }

    /// Goes to the next step of the programs that have the current one.
    fn next(&mut self, step: &Step, programs: &[Vec<Step>]) -> ReaderStep {
        let at = self.at;
        self.programs.retain(|&program| programs[program].get(at) == Some(step));
        self.at += 1;
        ReaderStep::Again
    }

    /// The fixed texts that may follow the current step.
    fn literals_after(&self, programs: &[Vec<Step>]) -> Vec<crate::literal::FixedText> {
        let after = |&program: &usize| match programs[program].get(self.at + 1) {
            Some(Step::Fixed(literal)) => Some(literal.clone()),
            _ => None,
        };
        self.programs.iter().filter_map(after).collect()
    }

    fn literal(
        &mut self,
        programs: &[Vec<Step>],
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> ReaderStep {
        for &program in &self.programs.clone() {
            let Some(step @ Step::Fixed(literal)) = programs[program].get(self.at) else { continue };
            match literal.matches(held) {
                Match::No => {}
                Match::Partial => return ReaderStep::Wait,
                Match::Full(length) => {
                    self.take(held, length, parts);
                    return self.next(step, programs);
                }
            }
        }
        // Programs that have something else here.
        let at = self.at;
        self.programs.retain(|&program| !matches!(programs[program].get(at), Some(Step::Fixed(_)) | None));
        match self.programs.is_empty() {
            true => ReaderStep::Failed(format!("{} does not follow the format", next_in(held))),
            false => ReaderStep::Again,
        }
    }

    /// Skips white space; returns a step if nothing else is there yet, or too much of it.
    fn space(&mut self, held: &mut String, parts: &mut Vec<AnswerPart>) -> Option<ReaderStep> {
        // White space alone stays held, so that its length is limited however it arrives.
        if held.trim_start().is_empty() && held.len() <= MOST_SPACE {
            return Some(ReaderStep::Wait);
        }
        self.skip_space(held, parts).err()
    }

    /// The bytes of a word at the beginning of the held text, once its end is there.
    fn word(held: &str, is_part: fn(char) -> bool) -> Result<usize, ReaderStep> {
        match held.find(|character| !is_part(character)) {
            Some(1..=LONGEST_NAME) => Ok(held.find(|character| !is_part(character)).unwrap_or(0)),
            None if held.len() <= LONGEST_NAME => Err(ReaderStep::Wait),
            _ => Err(ReaderStep::Failed(format!("{} is not a name", next_in(held)))),
        }
    }

    /// The name, an id or the number of the call.
    fn word_step(&mut self, step: &Step, held: &mut String, parts: &mut Vec<AnswerPart>) -> ReaderStep {
        let is_part = match step {
            Step::Name => is_name_character,
            Step::Id => is_id_character,
            _ => |character: char| character.is_ascii_digit(),
        };
        let length = match Self::word(held, is_part) {
            Ok(length) => length,
            Err(step) => return step,
        };
        let word = self.take(held, length, parts);
        match step {
            Step::Name => self.name = Some(word),
            Step::Id => self.id = Some(word),
            _ => {}
        }
        ReaderStep::Done
    }

    fn arguments_step(&mut self, held: &mut String, parts: &mut Vec<AnswerPart>) -> ReaderStep {
        if matches!(self.work, Work::None) {
            if !held.starts_with('{') {
                return ReaderStep::Failed(format!("{} is not a JSON object", next_in(held)));
            }
            if let Err(failed) = self.begin(parts) {
                return failed;
            }
            self.work = Work::Json(JsonScanner::new());
        }
        let Work::Json(mut scanner) = std::mem::replace(&mut self.work, Work::None) else {
            return ReaderStep::Wait;
        };
        let (text, done) = self.scan(&mut scanner, held, parts);
        self.work = Work::Json(scanner);
        self.emit(&text, parts);
        match done {
            Ok(true) => ReaderStep::Done,
            Ok(false) => ReaderStep::Wait,
            Err(failed) => failed,
        }
    }

    fn object_step(&mut self, held: &mut String, parts: &mut Vec<AnswerPart>) -> ReaderStep {
        let mut reader = match std::mem::replace(&mut self.work, Work::None) {
            Work::Object(reader) => reader,
            _ => ObjectReader::default(),
        };
        let step = reader.advance(self, held, parts);
        self.work = Work::Object(reader);
        step
    }

    fn args_step(
        &mut self,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
        next: &[crate::literal::FixedText],
    ) -> ReaderStep {
        let mut reader = match std::mem::replace(&mut self.work, Work::None) {
            Work::Arguments(reader) => reader,
            _ => match self.begin_object(parts) {
                Ok(()) => ArgumentReader::default(),
                Err(failed) => return failed,
            },
        };
        let step = reader.advance(self, held, parts, next);
        self.work = Work::Arguments(reader);
        step
    }

    fn pairs_step(
        &mut self,
        step: &Step,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
        next: &[crate::literal::FixedText],
    ) -> ReaderStep {
        let mut reader = match std::mem::replace(&mut self.work, Work::None) {
            Work::Pairs(reader) => reader,
            _ => match self.begin_object(parts) {
                Ok(()) => PairReader::new(*step == Step::Python),
                Err(failed) => return failed,
            },
        };
        let step = reader.advance(self, held, parts, next);
        self.work = Work::Pairs(reader);
        step
    }
}

/// The note about a call that was cut before its name was known.
pub(super) fn cut_call() -> AnswerPart {
    AnswerPart::Notice("the answer ends where a call begins: the call is not complete".to_owned())
}

/// The beginning of a text, for messages.
pub(super) fn shown(text: &str) -> String {
    let short: String = text.chars().take(32).collect();
    format!("{short:?}")
}

/// The next character of a text that is still arriving, for messages.
pub(super) fn next_in(text: &str) -> String {
    shown(&text.chars().take(1).collect::<String>())
}
