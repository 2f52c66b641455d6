//! What tokens look like as text (the tokenizers crate, `decoders/`).

use serde_json::Value;

use super::super::algorithm::Leading;
use super::super::byte_letters;
use super::super::error::TokenizerError;
use super::part::JsonObject;
use super::pre_tokenizer::{replacement, scheme};

/// How an ordinary token spells text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spelling {
    /// In GPT-2's letters for bytes.
    Letters,
    /// In characters, with this one for a space.
    Spaces { replacement: char, leading: Leading },
    /// In words; this prefix says that a token continues one.
    Words { prefix: Option<String> },
    /// In characters; this at the end of a token ends a word.
    Ended { suffix: String },
}

impl Spelling {
    /// Reads the `decoder` of a file; `letters`: what it is where there is none, because the stages before the model say
    /// so. Else tokens without a decoder stand with spaces between them, as the crate joins them.
    ///
    /// # Errors
    /// A decoder that is not done, a damaged one.
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
                // Joins "do n't" and the like, in texts that nobody generates.
                part.skip("cleanup");
                Self::Words { prefix: Some(part.text("prefix")?.unwrap_or("##").to_owned()) }
            }
            // The crate writes no space for the end of the last word, which is not known while tokens come.
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

    /// What happens to spaces at the start of a text.
    pub(super) fn leading(&self) -> Leading {
        match self {
            Self::Letters | Self::Ended { .. } => Leading::Kept,
            Self::Spaces { leading, .. } => *leading,
            Self::Words { .. } => Leading::OneGone,
        }
    }
}

/// Spaces by a replacement, bytes by their names, and perhaps a space at the start taken off.
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
                    _ => return Err(inner.refused("is another `Replace` than of a character by a space")),
                }
            }
            "ByteFallback" | "Fuse" => {}
            "Strip" => {
                let counts = (inner.text("content")?, inner.count("start")?, inner.count("stop")?);
                match counts {
                    (Some(" "), Some(1), Some(0)) => leading = Some(Leading::OneGone),
                    (Some(" "), Some(0), Some(0)) => {}
                    _ => return Err(inner.refused("is another `Strip` than of one space at the start")),
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
    let none = || part.refused("says nothing of spaces");
    Ok(Spelling::Spaces {
        replacement: spelling.ok_or_else(none)?,
        leading: leading.unwrap_or(Leading::Kept),
    })
}
