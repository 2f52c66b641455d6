//! Splitting a text before the model (the tokenizers crate, `pre_tokenizers/`).

use serde_json::Value;

use super::super::budget::Budget;
use super::super::byte_letters;
use super::super::error::TokenizerError;
use super::super::finder::RegexFinder;
use super::super::regex_room::RegexRoom;
use super::super::splitter::Splitter;
use super::cut::{Behavior, Characters, Cut, MatchPart, SplitPattern};
use super::normalizer::MOST_STEPS;
use super::part::JsonObject;
use super::pattern::translated;
use super::pieces::Pieces;

/// The regex of `ByteLevel` (`pre_tokenizers/byte_level.rs`).
const BYTE_LEVEL: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Steps in order.
#[derive(Debug, Default)]
pub(crate) struct PreTokenizer {
    steps: Vec<PreTokenizerStep>,
    /// The isolated regexes, if the only other step is byte letters at the end.
    listed: Option<Vec<String>>,
}

#[derive(Debug)]
enum PreTokenizerStep {
    Cut(Cut),
    /// Adds a space before each piece that does not begin with one.
    SpaceFirst,
    /// Bytes become GPT-2's byte letters.
    Letters,
    /// Spaces become this character, and one is added at the start.
    Spaces {
        by: char,
        first: First,
    },
}

/// The pieces that get a leading space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Never,
    Always,
    AtTheStart,
}

impl PreTokenizer {
    /// Reads the `pre_tokenizer` of a file.
    ///
    /// # Errors
    /// An unsupported or damaged pre-tokenizer.
    pub(crate) fn read(value: &Value, room: RegexRoom) -> Result<Self, TokenizerError> {
        let mut reading = PreTokenizerReader::new(room);
        if !value.is_null() {
            reading.part(&JsonObject::new("pre_tokenizer", value)?)?;
        }
        reading.end_regexes()?;
        let lettered = matches!(reading.steps.last(), Some(PreTokenizerStep::Letters));
        let listed = Some(reading.listed).filter(|_| lettered && !reading.has_others);
        Ok(Self { steps: reading.steps, listed })
    }

    /// The regexes that split a text one after the other, if the pre-tokenizer consists of them and byte letters
    /// only.
    pub(crate) fn listed(&self) -> Option<&[String]> {
        self.listed.as_deref()
    }

    /// Whether tokens are spelled in GPT-2's byte letters.
    pub(super) fn spells_letters(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, PreTokenizerStep::Letters))
    }

    /// Whether the result depends on the start of the whole text.
    pub(super) fn asks_for_the_start(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step, PreTokenizerStep::Spaces { first: First::AtTheStart, .. }))
    }

    /// The pieces of a text.
    ///
    /// # Errors
    /// A regex failed, or the budget is exhausted.
    pub(super) fn apply(
        &self,
        text: &str,
        at_start: bool,
        budget: &Budget,
    ) -> Result<Pieces, TokenizerError> {
        let mut pieces = Pieces::new(text, at_start);
        for step in &self.steps {
            budget.work(pieces.text.len())?;
            match step {
                PreTokenizerStep::Cut(cut) => pieces.cut(|piece| cut.ranges(piece, budget))?,
                PreTokenizerStep::SpaceFirst => pieces.rewrite(budget, |piece, _, out| {
                    if !piece.starts_with(' ') {
                        out.push(' ');
                    }
                    out.push_str(piece);
                })?,
                PreTokenizerStep::Letters => pieces.rewrite(budget, |piece, _, out| {
                    out.extend(piece.bytes().map(byte_letters::letter));
                })?,
                PreTokenizerStep::Spaces { by, first } => {
                    pieces.rewrite(budget, |piece, at_start, out| {
                        let wanted = match first {
                            First::Never => false,
                            First::Always => true,
                            First::AtTheStart => at_start,
                        };
                        if wanted && !piece.starts_with([' ', *by]) {
                            out.push(*by);
                        }
                        out.extend(piece.chars().map(|it| if it == ' ' { *by } else { it }));
                    })?
                }
            }
        }
        Ok(pieces)
    }
}

/// Reads a pre-tokenizer.
struct PreTokenizerReader {
    room: RegexRoom,
    steps: Vec<PreTokenizerStep>,
    /// Isolated regexes, which form one splitter.
    regexes: Vec<String>,
    /// All isolated regexes, as written.
    listed: Vec<String>,
    /// Whether there are other steps.
    has_others: bool,
}

impl PreTokenizerReader {
    fn new(room: RegexRoom) -> Self {
        Self { room, steps: Vec::new(), regexes: Vec::new(), listed: Vec::new(), has_others: false }
    }

    /// The kind of an object; too many steps are an error.
    fn kind<'p>(&self, part: &JsonObject<'p>) -> Result<&'p str, TokenizerError> {
        match self.steps.len() + self.regexes.len() < MOST_STEPS {
            true => part.kind(),
            false => Err(part.refused(format!("follows {MOST_STEPS} other steps"))),
        }
    }

    fn part(&mut self, part: &JsonObject<'_>) -> Result<(), TokenizerError> {
        match self.kind(part)? {
            "Sequence" => {
                for inner in part.parts("pretokenizers")? {
                    self.part(&inner)?;
                }
            }
            "ByteLevel" => self.byte_level(part)?,
            "Split" => self.split(part)?,
            "Metaspace" => self.metaspace(part)?,
            "Digits" => self.digits(part)?,
            "Punctuation" => {
                let behavior = behavior(part)?.unwrap_or(Behavior::Isolated);
                self.push(PreTokenizerStep::Cut(Cut::of(Characters::Punctuation, behavior)))?;
            }
            "Whitespace" => {
                let finder =
                    RegexFinder::new(r"\w+|[^\w\s]+", self.room).map_err(|problem| part.bad(problem))?;
                let (sought, counts) = (SplitPattern::Regex(finder), MatchPart::Between);
                self.push(PreTokenizerStep::Cut(Cut { sought, behavior: Behavior::Removed, counts }))?;
            }
            "WhitespaceSplit" => {
                self.push(PreTokenizerStep::Cut(Cut::of(Characters::White, Behavior::Removed)))?
            }
            "BertPreTokenizer" => {
                self.push(PreTokenizerStep::Cut(Cut::of(Characters::White, Behavior::Removed)))?;
                self.push(PreTokenizerStep::Cut(Cut::of(Characters::Punctuation, Behavior::Isolated)))?;
            }
            "CharDelimiterSplit" => {
                let one = part.character("delimiter")?.ok_or_else(|| part.bad("it has no `delimiter`"))?;
                self.push(PreTokenizerStep::Cut(Cut::of(Characters::One(one), Behavior::Removed)))?;
            }
            "UnicodeScripts" => self.cut_by(SplitPattern::Scripts)?,
            "FixedLength" => {
                let length = part.count("length")?.unwrap_or(5);
                let length = usize::try_from(length).ok().filter(|length| *length > 0);
                self.cut_by(SplitPattern::Lengths(length.ok_or_else(|| part.bad("`length` is 0"))?))?;
            }
            other => return Err(part.refused(format!("is a `{other}`"))),
        }
        part.finish()
    }

    fn byte_level(&mut self, part: &JsonObject<'_>) -> Result<(), TokenizerError> {
        part.skip("trim_offsets");
        if part.flag("add_prefix_space")?.unwrap_or(true) {
            self.push(PreTokenizerStep::SpaceFirst)?;
        }
        if part.flag("use_regex")?.unwrap_or(true) {
            self.regexes.push(BYTE_LEVEL.to_owned());
            self.listed.push(BYTE_LEVEL.to_owned());
        }
        self.has_others |= self.steps.iter().any(|step| matches!(step, PreTokenizerStep::Letters));
        self.push(PreTokenizerStep::Letters)
    }

    fn digits(&mut self, part: &JsonObject<'_>) -> Result<(), TokenizerError> {
        let alone = part.flag("individual_digits")?.unwrap_or(false);
        let (behavior, regex) = match alone {
            true => (Behavior::Isolated, r"\p{N}"),
            false => (Behavior::Contiguous, r"\p{N}+"),
        };
        self.listed.push(regex.to_owned());
        let others = self.has_others;
        self.push(PreTokenizerStep::Cut(Cut::of(Characters::Numeric, behavior)))?;
        self.has_others = others;
        Ok(())
    }

    fn cut_by(&mut self, sought: SplitPattern) -> Result<(), TokenizerError> {
        self.push(PreTokenizerStep::Cut(Cut {
            sought,
            behavior: Behavior::Isolated,
            counts: MatchPart::Found,
        }))
    }

    fn push(&mut self, step: PreTokenizerStep) -> Result<(), TokenizerError> {
        self.end_regexes()?;
        self.has_others |= !matches!(step, PreTokenizerStep::Letters);
        self.steps.push(step);
        Ok(())
    }

    /// Makes a splitter of the collected regexes.
    fn end_regexes(&mut self) -> Result<(), TokenizerError> {
        if !self.regexes.is_empty() {
            let regexes = std::mem::take(&mut self.regexes);
            let splitter = Splitter::within(&regexes, self.room)
                .map_err(|(regex, problem)| TokenizerError::PreRegex { regex, problem })?;
            let sought = SplitPattern::Isolated(splitter);
            let cut = Cut { sought, behavior: Behavior::Isolated, counts: MatchPart::Found };
            self.steps.push(PreTokenizerStep::Cut(cut));
        }
        Ok(())
    }

    fn split(&mut self, part: &JsonObject<'_>) -> Result<(), TokenizerError> {
        let behavior = behavior(part)?.ok_or_else(|| part.bad("it has no `behavior`"))?;
        let counts =
            if part.flag("invert")?.unwrap_or(false) { MatchPart::Between } else { MatchPart::Found };
        let pattern = JsonObject::new(format!("{}.pattern", part.place), part.value("pattern")?)?;
        let sought = match (pattern.text("String")?, pattern.text("Regex")?) {
            (Some(text), None) if !text.is_empty() => SplitPattern::Text(text.to_owned()),
            (None, Some(source)) => {
                let refused = |problem: String| pattern.regex(source, &problem);
                let regex = translated(source).map_err(refused)?;
                if behavior == Behavior::Isolated {
                    self.regexes.push(regex);
                    self.listed.push(source.to_owned());
                    return pattern.finish();
                }
                SplitPattern::Regex(RegexFinder::new(&regex, self.room).map_err(refused)?)
            }
            _ => return Err(pattern.bad("expected a non-empty `String` or a `Regex`")),
        };
        pattern.finish()?;
        self.push(PreTokenizerStep::Cut(Cut { sought, behavior, counts }))
    }

    fn metaspace(&mut self, part: &JsonObject<'_>) -> Result<(), TokenizerError> {
        part.skip("str_rep");
        let by = replacement(part)?;
        let first = match (scheme(part)?, part.flag("add_prefix_space")?) {
            (None | Some("never"), Some(false)) | (Some("never"), _) => First::Never,
            (Some(scheme), Some(false)) => {
                return Err(
                    part.bad(format!("`add_prefix_space` is false and `prepend_scheme` is `{scheme}`"))
                );
            }
            (None | Some("always"), _) => First::Always,
            (Some("first"), _) => First::AtTheStart,
            (Some(other), _) => return Err(part.refused(format!("has the `prepend_scheme` `{other}`"))),
        };
        self.push(PreTokenizerStep::Spaces { by, first })?;
        if part.flag("split")?.unwrap_or(true) {
            self.push(PreTokenizerStep::Cut(Cut::of(Characters::One(by), Behavior::MergedWithNext)))?;
        }
        Ok(())
    }
}

/// The character that replaces a space.
pub(super) fn replacement(part: &JsonObject<'_>) -> Result<char, TokenizerError> {
    Ok(part.character("replacement")?.unwrap_or('\u{2581}'))
}

/// The pieces that get a leading space.
pub(super) fn scheme<'a>(part: &JsonObject<'a>) -> Result<Option<&'a str>, TokenizerError> {
    part.text("prepend_scheme")
}

fn behavior(part: &JsonObject<'_>) -> Result<Option<Behavior>, TokenizerError> {
    let Some(name) = part.text("behavior")? else {
        return Ok(None);
    };
    Behavior::named(name).map(Some).ok_or_else(|| part.refused(format!("has the `behavior` `{name}`")))
}
