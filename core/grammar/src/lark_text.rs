//! [`CheckedLark`]: a Lark grammar whose schemas are checked and whose unsupported constructs are refused by name.

use crate::error::GrammarError;
use crate::schema;
use serde_json::Value;

/// The text of a grammar, with its schemas as llguidance gets them.
pub(crate) struct CheckedLark {
    pub(crate) text: String,
    /// Whether it names tokens of a model, and can be compiled only with one.
    pub(crate) names_tokens: bool,
}

/// A keyword of the language that must not be missed.
const SCHEMA: &str = "%json";

impl CheckedLark {
    /// Checks a text.
    ///
    /// # Errors
    /// A schema is refused, or a construct is not supported.
    pub(crate) fn new(text: &str) -> Result<Self, GrammarError> {
        let mut reader = LarkReader { rest: text, line: 1, written: String::new(), names_tokens: false };
        while !reader.rest.is_empty() {
            reader.part()?;
        }
        Ok(Self { text: reader.written, names_tokens: reader.names_tokens })
    }
}

/// Goes through a text part by part.
struct LarkReader<'t> {
    rest: &'t str,
    /// The line of the rest, from 1.
    line: usize,
    written: String,
    names_tokens: bool,
}

impl LarkReader<'_> {
    fn fault(&self, reason: impl Into<String>) -> GrammarError {
        GrammarError::Lark { line: self.line, reason: reason.into() }
    }

    /// Reads one part: a comment, a string, a regular expression, a token, a keyword, a word or a character.
    fn part(&mut self) -> Result<(), GrammarError> {
        let rest = self.rest;
        let mut characters = rest.chars();
        let Some(first) = characters.next() else { return Ok(()) };
        match first {
            '#' => self.skip(line_end(rest)),
            '/' if rest.starts_with("//") => self.skip(line_end(rest)),
            '"' | '/' => {
                let end = closing(rest, first)
                    .ok_or_else(|| self.fault(format!("the closing {first} is missing")))?;
                self.skip(end)
            }
            '<' => match token_end(rest) {
                Some(end) => {
                    self.names_tokens = true;
                    self.skip(end)
                }
                None => self.skip(1),
            },
            '%' => self.keyword(),
            first if first.is_ascii_alphabetic() || first == '_' => self.word(),
            first => self.skip(first.len_utf8()),
        }
    }

    /// Copies a part that is no keyword.
    fn skip(&mut self, length: usize) -> Result<(), GrammarError> {
        let (part, rest) = self.rest.split_at(length);
        if part.contains(SCHEMA) {
            return Err(self.fault("`%json` in a string, comment or regular expression is not supported"));
        }
        self.written.push_str(part);
        self.line += part.matches('\n').count();
        self.rest = rest;
        Ok(())
    }

    /// A word: the name of a rule or terminal, or an attribute of a rule.
    fn word(&mut self) -> Result<(), GrammarError> {
        let is_word = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
        let length = self.rest.find(|character| !is_word(character)).unwrap_or(self.rest.len());
        let (word, after) = self.rest.split_at(length);
        let is_attribute = after.trim_start().starts_with('=');
        if is_attribute && ["temperature", "stop", "stop_capture"].contains(&word) {
            let advice = if word == "temperature" {
                "set the temperature of the request"
            } else {
                "use suffix or lazy"
            };
            return Err(self.fault(format!("the attribute `{word}` is not supported: {advice}")));
        }
        self.skip(length)
    }

    fn keyword(&mut self) -> Result<(), GrammarError> {
        let length = self.rest[1..].find(|character: char| !character.is_ascii_alphabetic());
        let (name, after) = self.rest.split_at(length.map_or(self.rest.len(), |length| length + 1));
        match name {
            "%json" => {
                let (schema, length) = self.value(name, after)?;
                let schema = schema::checked(&schema)?;
                self.written.push_str(SCHEMA);
                self.written.push(' ');
                self.written.push_str(&schema.to_string());
                self.pass(name.len() + length);
                Ok(())
            }
            "%regex" => {
                let (_, length) = self.value(name, after)?;
                self.skip(name.len() + length)
            }
            "%llguidance" => Err(self.fault("`%llguidance` is not supported: remove it")),
            _ => self.skip(name.len()),
        }
    }

    /// Passes a part that was written in another form.
    fn pass(&mut self, length: usize) {
        let (part, rest) = self.rest.split_at(length);
        self.line += part.matches('\n').count();
        self.rest = rest;
    }

    /// The JSON after a keyword, and the bytes up to its end.
    fn value(&self, name: &str, after: &str) -> Result<(Value, usize), GrammarError> {
        let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => Ok((value, values.byte_offset())),
            Some(Err(error)) => Err(self.fault(format!("no JSON after `{name}`: {error}"))),
            None => Err(self.fault(format!("no JSON after `{name}`"))),
        }
    }
}

fn line_end(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

/// The end of a string or regular expression that begins the text.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\n' if quote == '"' => return None,
            _ if character == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The end of the name of a token, `<name>`, that begins the text.
fn token_end(text: &str) -> Option<usize> {
    let end = text.find('>')?;
    let name = &text[1..end];
    let is_name =
        !name.is_empty() && !name.contains(|character: char| character == '<' || character.is_whitespace());
    is_name.then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        CheckedLark::new(text).map(|checked| checked.text).unwrap_err().to_string()
    }

    #[test]
    fn schemas_in_a_grammar_are_checked_and_get_the_same_options() {
        let text = "start: \"a/b\" x // not /a regex\nx: %json { \"type\": \"object\", \"title\": \"}\" } /\\/[\\/\"]+/\n";
        let checked = CheckedLark::new(text).unwrap();
        assert!(!checked.names_tokens);
        assert!(checked.text.starts_with("start: \"a/b\" x // not /a regex\nx: %json {\"type\":\"object\","));
        assert!(checked.text.contains("\"whitespace_flexible\":false") && !checked.text.contains("title"));
        assert!(checked.text.ends_with("} /\\/[\\/\"]+/\n"), "{}", checked.text);
        let nested = told("start: x\nx: %json { \"type\": \"array\",\n \"uniqueItems\": true }");
        assert!(nested.contains("`uniqueItems`"), "{nested}");
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name_and_line() {
        for (text, words) in [
            ("start: x\nx[temperature=0.5]: /a/", "line 2: the attribute `temperature`"),
            ("start: x\nx[stop = \"a\"]: /a/", "the attribute `stop`"),
            ("%llguidance { \"allow_invalid_utf8\": true }\nstart: /a/", "`%llguidance`"),
            ("start: \"%json {}\"", "`%json` in a string"),
            ("start: /a/ # %json {}", "`%json` in a string, comment"),
            ("start: %json oops", "no JSON after `%json`"),
            ("start: \"a", "line 1: the closing \" is missing"),
            ("start: /a", "the closing / is missing"),
        ] {
            assert!(told(text).contains(words), "{text}: {}", told(text));
        }
        // Rules may have such names.
        assert!(CheckedLark::new("start: temperature\ntemperature: /[0-9]+/").is_ok());
        assert!(CheckedLark::new("start: <|call|> /a/ <[17]>").unwrap().names_tokens);
    }
}
