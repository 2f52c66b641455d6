//! What is done to a text before it is cut (the tokenizers crate, `normalizers/`).

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use fancy_regex::Regex;
use serde_json::Value;
use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};
use unicode_segmentation::UnicodeSegmentation;

use super::super::byte_letters;
use super::super::char_class::CharClass;
use super::super::character_map::CharacterMap;
use super::super::error::TokenizerError;
use super::super::word_piece::is_chinese;
use super::part::Part;
use super::pattern::translated;

/// Steps, one after the other.
#[derive(Debug, Default)]
pub(super) struct Normalizer {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Lowercase,
    /// Marks are left out.
    Accents,
    /// Control characters are left out, other white space becomes spaces (sentencepiece's "nmt").
    Nmt,
    Strip {
        left: bool,
        right: bool,
    },
    /// Before a text that is not empty.
    Prepend(String),
    ReplaceText {
        text: String,
        by: String,
    },
    ReplaceRegex {
        regex: Box<Regex>,
        by: String,
    },
    Clean,
    Chinese,
    /// NFD, and marks without room of their own are left out.
    BertAccents,
    /// Sentencepiece's table of characters.
    Characters(Box<CharacterMap>),
    /// Bytes become GPT-2's letters.
    Letters,
}

impl Normalizer {
    /// Reads the `normalizer` of a file.
    ///
    /// # Errors
    /// A normalizer that is not done, a damaged one.
    pub(super) fn read(value: &Value) -> Result<Self, TokenizerError> {
        let mut steps = Vec::new();
        if !value.is_null() {
            read(&Part::new("normalizer", value)?, &mut steps)?;
        }
        Ok(Self { steps })
    }

    /// Whether it changes nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether it writes bytes in GPT-2's letters.
    pub(super) fn spells_letters(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Letters))
    }

    /// Whether what a text begins with can vanish, so that what is left does not begin where the text began. What a table
    /// of characters takes out at the start counts as nothing there: the crate has no character before it to move.
    pub(super) fn may_drop_the_start(&self) -> bool {
        let drops = |step: &Step| match step {
            Step::Strip { left, .. } => *left,
            Step::ReplaceText { by, .. } | Step::ReplaceRegex { by, .. } => by.is_empty(),
            Step::Accents | Step::Nmt | Step::Clean | Step::BertAccents => true,
            _ => false,
        };
        self.steps.iter().any(drops)
    }

    /// The text as the model was trained on it.
    ///
    /// # Errors
    /// A regex gave up.
    pub(super) fn apply<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, TokenizerError> {
        let mut text = Cow::Borrowed(text);
        for step in &self.steps {
            if let Some(changed) = step.apply(&text)? {
                text = Cow::Owned(changed);
            }
        }
        Ok(text)
    }
}

fn read(part: &Part<'_>, steps: &mut Vec<Step>) -> Result<(), TokenizerError> {
    match part.kind()? {
        "Sequence" => {
            for inner in part.parts("normalizers")? {
                read(&inner, steps)?;
            }
        }
        "NFC" => steps.push(Step::Nfc),
        "NFD" => steps.push(Step::Nfd),
        "NFKC" => steps.push(Step::Nfkc),
        "NFKD" => steps.push(Step::Nfkd),
        "Lowercase" => steps.push(Step::Lowercase),
        "StripAccents" => steps.push(Step::Accents),
        "Nmt" => steps.push(Step::Nmt),
        "Strip" => steps.push(Step::Strip {
            left: part.flag("strip_left")?.unwrap_or(true),
            right: part.flag("strip_right")?.unwrap_or(true),
        }),
        "Prepend" => {
            let text = part.text("prepend")?.ok_or_else(|| part.bad("it has no `prepend`"))?;
            steps.push(Step::Prepend(text.to_owned()));
        }
        "Replace" => steps.push(replace(part)?),
        "BertNormalizer" => bert(part, steps)?,
        "Precompiled" => steps.push(Step::Characters(Box::new(characters(part)?))),
        "ByteLevel" => steps.push(Step::Letters),
        other => return Err(part.refused(format!("is a `{other}`"))),
    }
    part.finish()
}

fn replace(part: &Part<'_>) -> Result<Step, TokenizerError> {
    let by = part.text("content")?.ok_or_else(|| part.bad("it has no `content`"))?.to_owned();
    let pattern = Part::new(format!("{}.pattern", part.place), part.value("pattern")?)?;
    let step = match (pattern.text("String")?, pattern.text("Regex")?) {
        (Some(text), None) if !text.is_empty() => Step::ReplaceText { text: text.to_owned(), by },
        (None, Some(source)) => {
            let refused =
                |problem: String| pattern.refused(format!("is the regex {source:?} with {problem}"));
            let regex = translated(source).map_err(refused)?;
            let regex = Regex::new(&regex).map_err(|error| refused(error.to_string()))?;
            Step::ReplaceRegex { regex: Box::new(regex), by }
        }
        _ => return Err(pattern.bad("a `String` that is not empty or a `Regex` was expected")),
    };
    pattern.finish()?;
    Ok(step)
}

fn bert(part: &Part<'_>, steps: &mut Vec<Step>) -> Result<(), TokenizerError> {
    let lowercase = part.flag("lowercase")?.unwrap_or(true);
    if part.flag("clean_text")?.unwrap_or(true) {
        steps.push(Step::Clean);
    }
    if part.flag("handle_chinese_chars")?.unwrap_or(true) {
        steps.push(Step::Chinese);
    }
    if part.flag("strip_accents")?.unwrap_or(lowercase) {
        steps.push(Step::BertAccents);
    }
    if lowercase {
        steps.push(Step::Lowercase);
    }
    Ok(())
}

/// The table of a `precompiled_charsmap`.
fn characters(part: &Part<'_>) -> Result<CharacterMap, TokenizerError> {
    let field = "precompiled_charsmap";
    let text = part.text(field)?.ok_or_else(|| part.bad(format!("it has no `{field}`")))?;
    let bytes = BASE64.decode(text).map_err(|error| part.bad(format!("`{field}` is no base64: {error}")))?;
    CharacterMap::read(&bytes).map_err(|problem| part.bad(format!("`{field}`: {problem}")))
}

/// Graphemes of fewer bytes are replaced as a whole.
const LONG_GRAPHEME: usize = 6;

/// Replaces short graphemes as a whole by what stands for the shortest prefix of them, else character by character
/// (the tokenizers crate, `normalizers/precompiled.rs`).
fn mapped(map: &CharacterMap, text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    for grapheme in text.graphemes(true) {
        let whole = (grapheme.len() < LONG_GRAPHEME).then(|| map.of_shortest(grapheme.as_bytes())).flatten();
        if let Some(whole) = whole {
            out.extend_from_slice(whole);
            continue;
        }
        for character in grapheme.chars() {
            let mut buffer = [0; 4];
            let own = character.encode_utf8(&mut buffer).as_bytes();
            out.extend_from_slice(map.of_shortest(own).unwrap_or(own));
        }
    }
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

impl Step {
    /// The changed text, or `None` where nothing changes.
    fn apply(&self, text: &str) -> Result<Option<String>, TokenizerError> {
        Ok(Some(match self {
            Self::Nfc if is_nfc_quick(text.chars()) == IsNormalized::Yes => return Ok(None),
            Self::Nfc => text.nfc().collect(),
            Self::Nfd => text.nfd().collect(),
            Self::Nfkc => text.nfkc().collect(),
            Self::Nfkd => text.nfkd().collect(),
            Self::Lowercase => text.chars().flat_map(char::to_lowercase).collect(),
            Self::Accents => text.chars().filter(|character| !is_combining_mark(*character)).collect(),
            Self::Nmt => text.chars().filter_map(nmt).collect(),
            Self::Strip { left, right } => {
                let text = if *left { text.trim_start() } else { text };
                (if *right { text.trim_end() } else { text }).to_owned()
            }
            Self::Prepend(_) if text.is_empty() => return Ok(None),
            Self::Prepend(before) => format!("{before}{text}"),
            Self::ReplaceText { text: from, .. } if !text.contains(from.as_str()) => return Ok(None),
            Self::ReplaceText { text: from, by } => text.replace(from.as_str(), by),
            Self::ReplaceRegex { regex, by } => replaced(regex, text, by)?,
            Self::Clean => text.chars().filter_map(cleaned).collect(),
            Self::Chinese => text.chars().fold(String::with_capacity(text.len()), |mut out, character| {
                if is_chinese(character) {
                    out.extend([' ', character, ' ']);
                } else {
                    out.push(character);
                }
                out
            }),
            Self::Characters(map) => mapped(map, text),
            Self::Letters => byte_letters::to_letters(text),
            Self::BertAccents => text.nfd().filter(|character| !CharClass::Mark.has(*character)).collect(),
        }))
    }
}

fn replaced(regex: &Regex, text: &str, by: &str) -> Result<String, TokenizerError> {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for found in regex.find_iter(text) {
        let found = found.map_err(|error| TokenizerError::Regex {
            regex: 1,
            at: done,
            length: text.len(),
            problem: error.to_string(),
        })?;
        out.push_str(text.get(done..found.start()).unwrap_or_default());
        out.push_str(by);
        done = found.end();
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
