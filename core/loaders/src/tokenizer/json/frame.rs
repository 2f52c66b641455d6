//! The tokens that are added around a text (the tokenizers crate, `processors/`).

use serde_json::Value;

use super::super::error::TokenizerError;
use super::super::framing::Framing;
use super::part::{JsonObject, bad};

/// Maximum number of tokens on one side of a text; published files have up to three. Each piece of a template can
/// name arbitrarily many.
const MOST_AROUND: usize = 256;

/// Reads the `post_processor` of a file; `size`: the number of tokens.
///
/// # Errors
/// An unsupported or damaged processor, or an id outside of the vocabulary.
pub(crate) fn read(value: &Value, size: usize) -> Result<Framing, TokenizerError> {
    if value.is_null() {
        return Ok(Framing::default());
    }
    let framing = part(&JsonObject::new("post_processor", value)?)?.unwrap_or_default();
    let past = framing.ids().copied().find(|id| usize::try_from(*id).is_ok_and(|id| id >= size));
    match past {
        None => Ok(framing),
        Some(id) => {
            Err(bad("post_processor", format!("the id {id} is outside the vocabulary of {size} tokens")))
        }
    }
}

/// `None` for a processor that adds nothing.
fn part(part: &JsonObject<'_>) -> Result<Option<Framing>, TokenizerError> {
    let framing = match part.kind()? {
        "ByteLevel" => {
            ["add_prefix_space", "trim_offsets", "use_regex"].into_iter().for_each(|field| part.skip(field));
            None
        }
        "Sequence" => {
            let mut framing = None;
            for inner in part.parts("processors")? {
                if let Some(found) = self::part(&inner)? {
                    if framing.is_some() {
                        return Err(inner.refused("is a second template"));
                    }
                    framing = Some(found);
                }
            }
            framing
        }
        kind @ ("BertProcessing" | "RobertaProcessing") => {
            part.skip("trim_offsets");
            part.skip("add_prefix_space");
            let (first, last) = (named(part, "cls")?, named(part, "sep")?);
            let between = if kind == "RobertaProcessing" { vec![last] } else { Vec::new() };
            Some(Framing { opening: vec![first], closing: vec![last], between, ending: vec![last] })
        }
        "TemplateProcessing" => Some(template(part)?),
        other => return Err(part.refused(format!("is a `{other}`"))),
    };
    part.finish()?;
    Ok(framing)
}

/// The id in a pair like `["[SEP]", 102]`.
fn named(part: &JsonObject<'_>, field: &'static str) -> Result<u32, TokenizerError> {
    let pair = part.value(field)?.as_array().filter(|pair| pair.len() == 2);
    let id = pair.and_then(|pair| pair.last()).and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| part.bad(format!("expected a pair of a token and its id in `{field}`")))
}

fn template(part: &JsonObject<'_>) -> Result<Framing, TokenizerError> {
    let single = pieces(part, "single")?;
    let pair = pieces(part, "pair")?;
    let (opening, closing) = match single.as_slice() {
        [opening, closing] => (opening.clone(), closing.clone()),
        _ => return Err(part.refused("has a `single` without one text")),
    };
    let [before, between, ending] = pair.as_slice() else {
        return Err(part.refused("has a `pair` without two texts"));
    };
    match between.strip_prefix(closing.as_slice()).filter(|_| *before == opening) {
        Some(between) => Ok(Framing { opening, closing, between: between.to_vec(), ending: ending.clone() }),
        None => Err(part.refused("has a `pair` whose first text has other special tokens than in `single`")),
    }
}

/// The ids before, between and after the texts of a template.
fn pieces(part: &JsonObject<'_>, field: &'static str) -> Result<Vec<Vec<u32>>, TokenizerError> {
    let special = part.value("special_tokens")?;
    let mut parts = vec![Vec::new()];
    let mut texts = Vec::new();
    for piece in part.parts(field)? {
        let wrong = || piece.bad("expected a `SpecialToken` or a `Sequence` with an `id`");
        let inner = |name: &'static str| -> Result<Option<&str>, TokenizerError> {
            Ok(piece.value(name).ok().and_then(|value| value.get("id")).and_then(Value::as_str))
        };
        match (inner("SpecialToken")?, inner("Sequence")?) {
            (Some(name), None) => {
                let ids = special.get(name).and_then(|token| token.get("ids")).and_then(Value::as_array);
                let ids = ids.and_then(|ids| {
                    ids.iter()
                        .map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()))
                        .collect::<Option<Vec<_>>>()
                });
                let unknown = || piece.bad(format!("`special_tokens` has no ids for {name:?}"));
                if let Some(last) = parts.last_mut() {
                    last.extend(ids.ok_or_else(unknown)?);
                    if last.len() > MOST_AROUND {
                        return Err(
                            piece.refused(format!("adds more than {MOST_AROUND} tokens around a text"))
                        );
                    }
                }
            }
            (None, Some(name)) => {
                texts.push(name);
                parts.push(Vec::new());
            }
            _ => return Err(wrong()),
        }
        piece.finish()?;
    }
    match texts.as_slice() {
        ["A"] | ["A", "B"] => Ok(parts),
        _ => Err(part.refused(format!("has a `{field}` of the texts {texts:?}"))),
    }
}
