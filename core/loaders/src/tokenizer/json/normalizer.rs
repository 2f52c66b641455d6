//! The normalization of a text before it is split (the tokenizers crate, `normalizers/`).

use std::borrow::Cow;
use std::ops::Range;
use std::string::FromUtf8Error;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde_json::Value;
use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};
use unicode_segmentation::UnicodeSegmentation;

use super::super::budget::Budget;
use super::super::byte_letters;
use super::super::char_class::CharClass;
use super::super::character_map::CharacterMap;
use super::super::error::TokenizerError;
use super::super::finder::RegexFinder;
use super::super::regex_room::RegexRoom;
use super::super::word_piece::is_chinese;
use super::part::JsonObject;
use super::pattern::translated;

/// Maximum number of steps of a normalizer or a pre-tokenizer; published files have up to a dozen.
pub(super) const MOST_STEPS: usize = 256;

/// Steps in order, each with its place in the file.
#[derive(Debug, Default)]
pub(super) struct Normalizer {
    steps: Vec<(String, NormalizerStep)>,
}

#[derive(Debug)]
enum NormalizerStep {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Lowercase,
    /// Removes marks.
    Accents,
    /// Removes control characters and replaces other white space by spaces (sentencepiece's "nmt").
    Nmt,
    Strip {
        left: bool,
        right: bool,
    },
    /// Prepends this to a text that is not empty.
    Prepend(String),
    ReplaceText {
        text: String,
        by: String,
    },
    ReplaceRegex {
        finder: Box<RegexFinder>,
        by: String,
    },
    Clean,
    Chinese,
    /// NFD without marks of zero width.
    BertAccents,
    /// Sentencepiece's character table.
    Characters(Box<CharacterMap>),
    /// Bytes become GPT-2's byte letters.
    Letters,
}

impl Normalizer {
    /// Reads the `normalizer` of a file.
    ///
    /// # Errors
    /// An unsupported or damaged normalizer.
    pub(super) fn read(value: &Value, room: RegexRoom) -> Result<Self, TokenizerError> {
        let mut reading = NormalizerReader { steps: Vec::new(), room };
        if !value.is_null() {
            reading.part(&JsonObject::new("normalizer", value)?)?;
        }
        Ok(Self { steps: reading.steps })
    }

    /// Whether it changes nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether it writes bytes as GPT-2's byte letters.
    pub(super) fn spells_letters(&self) -> bool {
        self.steps.iter().any(|(_, step)| matches!(step, NormalizerStep::Letters))
    }

    /// Whether the start of a text can vanish, so that the rest does not begin where the text began. Characters that
    /// a character table removes at the start do not count: the crate has no character before them to move.
    pub(super) fn may_drop_the_start(&self) -> bool {
        let drops = |step: &NormalizerStep| match step {
            NormalizerStep::Strip { left, .. } => *left,
            NormalizerStep::ReplaceText { by, .. } | NormalizerStep::ReplaceRegex { by, .. } => by.is_empty(),
            NormalizerStep::Accents
            | NormalizerStep::Nmt
            | NormalizerStep::Clean
            | NormalizerStep::BertAccents => true,
            _ => false,
        };
        self.steps.iter().any(|(_, step)| drops(step))
    }

    /// The normalized text.
    ///
    /// # Errors
    /// A regex failed, or the budget is exhausted.
    pub(super) fn apply<'t>(&self, text: &'t str, budget: &Budget) -> Result<Cow<'t, str>, TokenizerError> {
        let mut text = Cow::Borrowed(text);
        for (place, step) in &self.steps {
            budget.work(text.len())?;
            if let Some(changed) = step.apply(&text, place, budget)? {
                text = Cow::Owned(changed);
            }
        }
        Ok(text)
    }
}

/// Reads a normalizer.
struct NormalizerReader {
    steps: Vec<(String, NormalizerStep)>,
    room: RegexRoom,
}

impl NormalizerReader {
    fn part(&mut self, part: &JsonObject<'_>) -> Result<(), TokenizerError> {
        let step = match part.kind()? {
            "Sequence" => {
                for inner in part.parts("normalizers")? {
                    self.part(&inner)?;
                }
                return part.finish();
            }
            "BertNormalizer" => {
                self.bert(part)?;
                return part.finish();
            }
            "NFC" => NormalizerStep::Nfc,
            "NFD" => NormalizerStep::Nfd,
            "NFKC" => NormalizerStep::Nfkc,
            "NFKD" => NormalizerStep::Nfkd,
            "Lowercase" => NormalizerStep::Lowercase,
            "StripAccents" => NormalizerStep::Accents,
            "Nmt" => NormalizerStep::Nmt,
            "Strip" => NormalizerStep::Strip {
                left: part.flag("strip_left")?.unwrap_or(true),
                right: part.flag("strip_right")?.unwrap_or(true),
            },
            "Prepend" => {
                let text = part.text("prepend")?.ok_or_else(|| part.bad("it has no `prepend`"))?;
                NormalizerStep::Prepend(text.to_owned())
            }
            "Replace" => self.replace(part)?,
            "Precompiled" => NormalizerStep::Characters(Box::new(characters(part)?)),
            "ByteLevel" => NormalizerStep::Letters,
            other => return Err(part.refused(format!("is a `{other}`"))),
        };
        self.push(part, step)?;
        part.finish()
    }

    fn push(&mut self, part: &JsonObject<'_>, step: NormalizerStep) -> Result<(), TokenizerError> {
        if self.steps.len() >= MOST_STEPS {
            return Err(part.refused(format!("follows {MOST_STEPS} other steps")));
        }
        self.steps.push((part.place.clone(), step));
        Ok(())
    }

    fn replace(&self, part: &JsonObject<'_>) -> Result<NormalizerStep, TokenizerError> {
        let by = part.text("content")?.ok_or_else(|| part.bad("it has no `content`"))?.to_owned();
        let pattern = JsonObject::new(format!("{}.pattern", part.place), part.value("pattern")?)?;
        let step = match (pattern.text("String")?, pattern.text("Regex")?) {
            (Some(text), None) if !text.is_empty() => {
                NormalizerStep::ReplaceText { text: text.to_owned(), by }
            }
            (None, Some(source)) => {
                let compiled = translated(source).and_then(|regex| RegexFinder::new(&regex, self.room));
                let finder = compiled.map_err(|problem| pattern.regex(source, &problem))?;
                NormalizerStep::ReplaceRegex { finder: Box::new(finder), by }
            }
            _ => return Err(pattern.bad("expected a non-empty `String` or a `Regex`")),
        };
        pattern.finish()?;
        Ok(step)
    }

    fn bert(&mut self, part: &JsonObject<'_>) -> Result<(), TokenizerError> {
        let lowercase = part.flag("lowercase")?.unwrap_or(true);
        if part.flag("clean_text")?.unwrap_or(true) {
            self.push(part, NormalizerStep::Clean)?;
        }
        if part.flag("handle_chinese_chars")?.unwrap_or(true) {
            self.push(part, NormalizerStep::Chinese)?;
        }
        if part.flag("strip_accents")?.unwrap_or(lowercase) {
            self.push(part, NormalizerStep::BertAccents)?;
        }
        if lowercase {
            self.push(part, NormalizerStep::Lowercase)?;
        }
        Ok(())
    }
}

/// The table of a `precompiled_charsmap`.
fn characters(part: &JsonObject<'_>) -> Result<CharacterMap, TokenizerError> {
    let field = "precompiled_charsmap";
    let text = part.text(field)?.ok_or_else(|| part.bad(format!("it has no `{field}`")))?;
    let bytes =
        BASE64.decode(text).map_err(|error| part.bad(format!("`{field}` is not valid base64: {error}")))?;
    CharacterMap::read(&bytes).map_err(|problem| part.bad(format!("`{field}`: {problem}")))
}

/// Only shorter graphemes (in bytes) are replaced as a whole.
const LONG_GRAPHEME: usize = 6;

/// Replaces short graphemes as a whole by the replacement of their shortest prefix, others character by character
/// (the tokenizers crate, `normalizers/precompiled.rs`).
fn mapped(map: &CharacterMap, text: &str, place: &str, budget: &Budget) -> Result<String, TokenizerError> {
    let mut out = Vec::with_capacity(text.len());
    for grapheme in text.graphemes(true) {
        let whole = (grapheme.len() < LONG_GRAPHEME).then(|| map.of_shortest(grapheme.as_bytes())).flatten();
        if let Some(whole) = whole {
            budget.grow(place, whole.len().saturating_sub(grapheme.len()))?;
            out.extend_from_slice(whole);
            continue;
        }
        for character in grapheme.chars() {
            let mut buffer = [0; 4];
            let own = character.encode_utf8(&mut buffer).as_bytes();
            let by = map.of_shortest(own).unwrap_or(own);
            budget.grow(place, by.len().saturating_sub(own.len()))?;
            out.extend_from_slice(by);
        }
    }
    let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
    Ok(String::from_utf8(out).unwrap_or_else(lossy))
}

impl NormalizerStep {
    /// The changed text, or `None` if nothing changes.
    fn apply(&self, text: &str, place: &str, budget: &Budget) -> Result<Option<String>, TokenizerError> {
        match self {
            Self::Nfc if is_nfc_quick(text.chars()) == IsNormalized::Yes => return Ok(None),
            Self::Nfc => budget.collect(place, text, text.nfc()),
            Self::Nfd => budget.collect(place, text, text.nfd()),
            Self::Nfkc => budget.collect(place, text, text.nfkc()),
            Self::Nfkd => budget.collect(place, text, text.nfkd()),
            Self::Lowercase => budget.collect(place, text, text.chars().flat_map(char::to_lowercase)),
            Self::Accents => {
                let kept = text.chars().filter(|character| !is_combining_mark(*character));
                budget.collect(place, text, kept)
            }
            Self::Nmt => budget.collect(place, text, text.chars().filter_map(nmt)),
            Self::Strip { left, right } => {
                let text = if *left { text.trim_start() } else { text };
                Ok((if *right { text.trim_end() } else { text }).to_owned())
            }
            Self::Prepend(_) if text.is_empty() => return Ok(None),
            Self::Prepend(before) => {
                budget.grow(place, before.len())?;
                Ok(format!("{before}{text}"))
            }
            Self::ReplaceText { text: from, .. } if !text.contains(from.as_str()) => return Ok(None),
            Self::ReplaceText { text: from, by } => {
                let found = text.match_indices(from.as_str()).map(|(at, found)| at..at + found.len());
                replaced(text, found, by, |bytes| budget.grow(place, bytes))
            }
            Self::ReplaceRegex { finder, by } => {
                let found = finder.all(text, budget)?.into_iter();
                replaced(text, found, by, |bytes| budget.grow(place, bytes))
            }
            Self::Clean => budget.collect(place, text, text.chars().filter_map(cleaned)),
            Self::Chinese => {
                let spaced = text.chars().flat_map(|character| match is_chinese(character) {
                    true => [Some(' '), Some(character), Some(' ')],
                    false => [Some(character), None, None],
                });
                budget.collect(place, text, spaced.flatten())
            }
            Self::Characters(map) => mapped(map, text, place, budget),
            Self::Letters => budget.collect(place, text, text.bytes().map(byte_letters::letter)),
            Self::BertAccents => {
                let kept = text.nfd().filter(|character| !CharClass::Mark.has(*character));
                budget.collect(place, text, kept)
            }
        }
        .map(Some)
    }
}

/// A text after replacing ranges of it; `grow` is called before each replacement.
fn replaced(
    text: &str,
    found: impl Iterator<Item = Range<usize>>,
    by: &str,
    grow: impl Fn(usize) -> Result<(), TokenizerError>,
) -> Result<String, TokenizerError> {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for range in found {
        grow(by.len().saturating_sub(range.len()))?;
        out.push_str(text.get(done..range.start).unwrap_or_default());
        out.push_str(by);
        done = range.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Ok(out)
}

fn cleaned(character: char) -> Option<char> {
    let white = matches!(character, '\t' | '\n' | '\r');
    let dropped = matches!(character, '\0' | '\u{FFFD}') || (!white && CharClass::Control.has(character));
    (!dropped).then_some(if character.is_whitespace() { ' ' } else { character })
}

fn nmt(character: char) -> Option<char> {
    match u32::from(character) {
        0x01..=0x08 | 0x0B | 0x0E..=0x1F | 0x7F | 0x8F | 0x9F => None,
        0x09 | 0x0A | 0x0C | 0x0D | 0x1680 | 0x200B..=0x200F | 0x2028 | 0x2029 | 0x2581 | 0xFEFF | 0xFFFD => {
            Some(' ')
        }
        _ => Some(character),
    }
}
