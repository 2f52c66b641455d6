//! The text form of tokens (the tokenizers crate, `decoders/`).

use serde_json::Value;

use super::super::algorithm::Leading;
use super::super::byte_letters;
use super::super::error::TokenizerError;
use super::part::JsonObject;
use super::pre_tokenizer::{replacement, scheme};

/// How an ordinary token spells text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spelling {
    /// In GPT-2's byte letters.
    Letters,
    /// In characters, with this character for a space.
    Spaces { replacement: char, leading: Leading },
    /// In words; this prefix marks a token that continues one.
    Words { prefix: Option<String> },
    /// In characters; this suffix marks the end of a word.
    Ended { suffix: String },
}

impl Spelling {
    /// Reads the `decoder` of a file; `letters`: the spelling without a decoder, as implied by the stages before the
    /// model. Otherwise tokens without a decoder are separated by spaces, as in the crate.
    ///
    /// # Errors
    /// An unsupported or damaged decoder.
    pub(super) fn read(value: &Value, letters: bool) -> Result<Self, TokenizerError> {
        if value.is_null() {
            return Ok(if letters { Self::Letters } else { Self::Words { prefix: None } });
        }
        let part = JsonObject::new("decoder", value)?;
        let spelling = match part.kind()? {
            "ByteLevel" => {
                ["add_prefix_space", "trim_offsets", "use_regex"]
                    .into_iter()
                    .for_each(|field| part.skip(field));
                Self::Letters
            }
            "Metaspace" => {
                part.skip("str_rep");
                part.skip("split");
                let kept = part.flag("add_prefix_space")? == Some(false) || scheme(&part)? == Some("never");
                let leading = if kept { Leading::Kept } else { Leading::AllGone };
                Self::Spaces { replacement: replacement(&part)?, leading }
            }
            "WordPiece" => {
                // The crate joins "do n't" and the like, which generated texts do not contain.
                part.skip("cleanup");
                Self::Words { prefix: Some(part.text("prefix")?.unwrap_or("##").to_owned()) }
            }
            // The crate writes no space after the last word, which is unknown during generation.
            "BPEDecoder" => Self::Ended { suffix: part.text("suffix")?.unwrap_or("</w>").to_owned() },
            "Sequence" => sequence(&part)?,
            other => return Err(part.refused(format!("is a `{other}`"))),
        };
        part.finish()?;
        Ok(spelling)
    }

    /// The bytes that a token's text stands for.
    pub(super) fn bytes(&self, text: &str) -> Vec<u8> {
        match self {
            Self::Letters => {
                let bytes: Option<Vec<u8>> = text.chars().map(byte_letters::byte).collect();
                bytes.unwrap_or_else(|| text.as_bytes().to_vec())
            }
            Self::Spaces { replacement, .. } => text.replace(*replacement, " ").into_bytes(),
            Self::Ended { suffix } => text.replace(suffix.as_str(), " ").into_bytes(),
            Self::Words { prefix } => match prefix.as_deref().and_then(|prefix| text.strip_prefix(prefix)) {
                Some(rest) => rest.as_bytes().to_vec(),
                None => format!(" {text}").into_bytes(),
            },
        }
    }

    /// The treatment of leading spaces of a text.
    pub(super) fn leading(&self) -> Leading {
        match self {
            Self::Letters | Self::Ended { .. } => Leading::Kept,
            Self::Spaces { leading, .. } => *leading,
            Self::Words { .. } => Leading::OneGone,
        }
    }
}

/// A replacement for spaces, names for bytes, and possibly the removal of a leading space.
fn sequence(part: &JsonObject<'_>) -> Result<Spelling, TokenizerError> {
    let mut spelling = None;
    let mut leading = None;
    for inner in part.parts("decoders")? {
        match inner.kind()? {
            "Replace" => {
                let pattern = JsonObject::new(format!("{}.pattern", inner.place), inner.value("pattern")?)?;
                let mut characters = pattern.text("String")?.unwrap_or_default().chars();
                match (characters.next(), characters.next(), inner.text("content")?) {
                    (Some(one), None, Some(" ")) if spelling.is_none() => spelling = Some(one),
                    _ => {
                        return Err(
                            inner.refused("is a `Replace` of something else than a character by a space")
                        );
                    }
                }
            }
            "ByteFallback" | "Fuse" => {}
            "Strip" => {
                let counts = (inner.text("content")?, inner.count("start")?, inner.count("stop")?);
                match counts {
                    (Some(" "), Some(1), Some(0)) => leading = Some(Leading::OneGone),
                    (Some(" "), Some(0), Some(0)) => {}
                    _ => {
                        return Err(
                            inner.refused("is a `Strip` of something else than one space at the start")
                        );
                    }
                }
            }
            "Metaspace" => {
                inner.skip("str_rep");
                inner.skip("split");
                let kept = inner.flag("add_prefix_space")? == Some(false) || scheme(&inner)? == Some("never");
                leading = (!kept).then_some(Leading::AllGone);
                spelling = Some(replacement(&inner)?);
            }
            "ByteLevel" if spelling.is_none() && leading.is_none() => return Ok(Spelling::Letters),
            other => return Err(inner.refused(format!("is a `{other}`"))),
        }
        inner.finish()?;
    }
    let none = || part.refused("does not define spaces");
    Ok(Spelling::Spaces {
        replacement: spelling.ok_or_else(none)?,
        leading: leading.unwrap_or(Leading::Kept),
    })
}
