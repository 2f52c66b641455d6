//! [`CallLark`]: the shape of calls as a Lark grammar over the tokens of a model.

use crate::control_tokens::{ControlTokens, MarkerPart};
use crate::error::GrammarError;
use crate::schema;
use menagerie_engine::{CallShape, UntilText};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write;

/// The most white space at one place.
const SPACE: &str = r"/[ \t\r\n]{1,16}/";
/// White space of Unicode, which the parser removes around values.
const WHITE: &str =
    r"\t\n\x0B\x0C\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}";

/// Writes a grammar. Equal parts are one rule.
pub(crate) struct CallLark<'a> {
    format: &'a str,
    controls: &'a ControlTokens,
    lines: String,
    names: HashMap<String, String>,
}

/// An expression of a rule, and whether the answer ends in it.
struct WrittenShape {
    text: String,
    ends: bool,
}

impl<'a> CallLark<'a> {
    /// The grammar of calls in the format with this name.
    ///
    /// # Errors
    /// A schema is refused, or an answer would end within a call.
    pub(crate) fn text(
        shape: &CallShape,
        format: &'a str,
        controls: &'a ControlTokens,
    ) -> Result<String, GrammarError> {
        let mut lark = Self { format, controls, lines: String::new(), names: HashMap::new() };
        let start = lark.shape(shape)?.text;
        Ok(format!("start: {start}\n{}", lark.lines))
    }

    /// The grammar of answers that consist of calls, or of a text that fits a checked schema, behind the marker of text.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub(crate) fn with_text(
        shape: &CallShape,
        format: &'a str,
        controls: &'a ControlTokens,
        (marker, schema): (&str, &Value),
    ) -> Result<String, GrammarError> {
        let mut lark = Self { format, controls, lines: String::new(), names: HashMap::new() };
        let calls = lark.shape(shape)?.text;
        let calls = lark.named("rule", calls);
        let json = lark.named("json", format!("%json {schema}"));
        let text = format!("{} {json}", lark.marker(marker).text);
        let text = lark.named("rule", text.trim_start().to_owned());
        Ok(format!("start: {calls} | {text}\n{}", lark.lines))
    }

    fn fault(&self, reason: &str) -> GrammarError {
        GrammarError::Calls { format: self.format.to_owned(), reason: reason.to_owned() }
    }

    /// The name of a rule or terminal with this body.
    fn named(&mut self, prefix: &str, body: String) -> String {
        let number = self.names.len();
        let key = format!("{prefix}: {body}");
        if let Some(name) = self.names.get(&key) {
            return name.clone();
        }
        let name = format!("{prefix}{number}");
        let _ = writeln!(self.lines, "{name}: {body}");
        self.names.insert(key, name.clone());
        name
    }

    fn shape(&mut self, shape: &CallShape) -> Result<WrittenShape, GrammarError> {
        let whole = |text: String| Ok(WrittenShape { text, ends: false });
        match shape {
            CallShape::Marker(text) => Ok(self.marker(text)),
            CallShape::Text(text) => whole(quoted(text)),
            CallShape::Space => {
                let name = self.named("SPACE", SPACE.to_owned());
                whole(format!("{name}?"))
            }
            CallShape::Regex(pattern) => whole(self.named("TEXT", regex(pattern))),
            CallShape::Until(until) => whole(self.until(until)?),
            CallShape::Json { tool, at, schema } => {
                let schema = self.json(tool, at, schema)?;
                whole(self.named("json", format!("%json {schema}")))
            }
            CallShape::Sequence(shapes) => self.sequence(shapes),
            CallShape::OneOf(shapes) => self.one_of(shapes),
            CallShape::Optional(inner) => {
                let inner = self.inner(inner)?;
                whole(format!("{inner}?"))
            }
            CallShape::Repeated(inner) => {
                let inner = self.inner(inner)?;
                whole(format!("{inner}*"))
            }
            _ => Err(self.fault("a part of it is not known (a defect: please report it)")),
        }
    }

    /// A part that may be left out or repeated, as a rule.
    fn inner(&mut self, shape: &CallShape) -> Result<String, GrammarError> {
        let inner = self.shape(shape)?;
        match inner.ends {
            true => Err(self.fault("the answer may end in a part that may be left out")),
            false => Ok(self.named("rule", inner.text)),
        }
    }

    fn sequence(&mut self, shapes: &[CallShape]) -> Result<WrittenShape, GrammarError> {
        let mut texts = Vec::new();
        for (at, shape) in shapes.iter().enumerate() {
            let written = self.shape(shape)?;
            if !written.text.is_empty() {
                texts.push(written.text);
            }
            if written.ends {
                // The token that ends the answer stands for the rest.
                if !shapes[at + 1..].iter().all(may_be_missing) {
                    return Err(
                        self.fault("a token of the model that ends the answer is a part of its calls")
                    );
                }
                return Ok(WrittenShape { text: texts.join(" "), ends: true });
            }
        }
        let text = if texts.is_empty() { "\"\"".to_owned() } else { texts.join(" ") };
        Ok(WrittenShape { text, ends: false })
    }

    fn one_of(&mut self, shapes: &[CallShape]) -> Result<WrittenShape, GrammarError> {
        let written = shapes.iter().map(|shape| self.shape(shape)).collect::<Result<Vec<_>, _>>()?;
        let ends = written.iter().filter(|written| written.ends).count();
        if ends != 0 && ends != written.len() {
            return Err(self.fault("the answer may end in one form of a call and not in another"));
        }
        let names: Vec<String> =
            written.into_iter().map(|written| self.named("rule", written.text)).collect();
        Ok(WrittenShape { text: self.named("rule", names.join(" | ")), ends: ends != 0 })
    }

    fn marker(&mut self, text: &str) -> WrittenShape {
        let mut texts = Vec::new();
        for part in self.controls.parts(text) {
            match part {
                MarkerPart::Text(text) => texts.push(quoted(text)),
                MarkerPart::Token(id) => texts.push(format!("<[{id}]>")),
                MarkerPart::End => return WrittenShape { text: texts.join(" "), ends: true },
            }
        }
        WrittenShape { text: texts.join(" "), ends: false }
    }

    fn json(&self, tool: &str, place: &str, schema: &Value) -> Result<Value, GrammarError> {
        schema::checked(schema).map_err(|error| {
            let error = match error {
                GrammarError::Schema { at, keyword, reason } => {
                    GrammarError::Schema { at: format!("{place}{at}"), keyword, reason }
                }
                other => other,
            };
            GrammarError::Tool { tool: tool.to_owned(), error: Box::new(error) }
        })
    }

    /// Any text up to the first place where the end is.
    fn until(&mut self, until: &UntilText) -> Result<String, GrammarError> {
        let parts = self.controls.parts(&until.end);
        // Text before the first control token of the end.
        let (before, tokens) = match parts.split_first() {
            Some((MarkerPart::Text(text), rest)) => (*text, rest),
            _ => ("", parts.as_slice()),
        };
        let mut after = Vec::new();
        for part in tokens {
            after.push(match part {
                MarkerPart::Text(text) => quoted(text),
                MarkerPart::Token(id) => format!("<[{id}]>"),
                MarkerPart::End => return Err(self.fault("the end of a value ends the answer")),
            });
        }
        let end = escaped(&format!("{}{before}", until.space));
        let any = "(?s:.*)";
        let mut terms = vec![regex(&format!("{any}{end}"))];
        let word = escaped(&until.end);
        // Without control tokens the end is a part of this piece, and otherwise nowhere in it.
        let more = if tokens.is_empty() { "(?s:.+)" } else { any };
        terms.push(format!("~{}", regex(&format!("{any}{word}{more}"))));
        if until.least > 0 || until.most.is_some() {
            let most = until.most.map_or(String::new(), |most| most.to_string());
            terms.push(regex(&format!("(?s:.){{{},{most}}}{end}", until.least)));
        }
        if until.is_no_json {
            terms.push(format!("~{}", regex(&format!(r"[{WHITE}0-9\-\[\{{]{any}"))));
            terms.push(format!("~{}", regex(&format!("(true|false|null)[{WHITE}]*{end}"))));
        }
        let mut text = self.named("TEXT", terms.join(" & "));
        if end.is_empty() && until.least == 0 {
            text.push('?');
        }
        Ok([vec![text], after].concat().join(" "))
    }
}

/// Whether the parser does without a part at the end of an answer.
fn may_be_missing(shape: &CallShape) -> bool {
    match shape {
        CallShape::Marker(_) | CallShape::Space | CallShape::Optional(_) | CallShape::Repeated(_) => true,
        CallShape::Sequence(shapes) | CallShape::OneOf(shapes) => shapes.iter().all(may_be_missing),
        _ => false,
    }
}

/// A text as a string of Lark.
fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { Value::from(text).to_string() }
}

/// A pattern as a regular expression of Lark.
fn regex(pattern: &str) -> String {
    format!("/{pattern}/")
}

/// A text as a pattern that matches only it.
fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for character in text.chars() {
        match character {
            '_' | '-' | ' ' => pattern.push(character),
            _ if character.is_ascii_alphanumeric() => pattern.push(character),
            _ => {
                let _ = write!(pattern, "\\x{{{:X}}}", u32::from(character));
            }
        }
    }
    pattern
}
