//! [`ValueScanner`]: values that a model writes as Python literals, or as Gemma's pairs with their own quotation mark;
//! where they end, and the same value as JSON.

use crate::json_scan::escape_into;

/// The most nested lists and mappings.
const MOST_DEPTH: usize = 100;

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueForm<'f> {
    /// Python literals.
    Python,
    /// Bare keys, and strings between this mark.
    Pairs(&'f str),
}

impl<'f> ValueForm<'f> {
    /// The quotation mark with which a text begins.
    fn quote(self, text: &str) -> Option<&'f str> {
        let own = match self {
            Self::Python => "'",
            Self::Pairs(mark) => mark,
        };
        [own, "\""].into_iter().find(|mark| text.starts_with(*mark))
    }

    /// Whether strings in this mark have escapes.
    fn escapes(self, mark: &str) -> bool {
        self == Self::Python || mark == "\""
    }
}

/// Finds the end of a value: the first `,` or closing bracket outside of strings and brackets.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueScanner {
    /// The mark of the string that is open.
    quote: Option<String>,
    escaped: bool,
    depth: usize,
}

impl ValueScanner {
    /// Scans text. Returns the bytes that belong to the value, and whether it ends after them.
    pub(crate) fn feed(&mut self, text: &str, form: ValueForm<'_>) -> (usize, bool) {
        let mut at = 0;
        while let Some(character) = text[at..].chars().next() {
            let rest = &text[at..];
            if let Some(quote) = self.quote.clone() {
                if self.escaped {
                    self.escaped = false;
                } else if form.escapes(&quote) && character == '\\' {
                    self.escaped = true;
                } else if rest.starts_with(&quote) {
                    self.quote = None;
                    at += quote.len();
                    continue;
                } else if quote.starts_with(rest) {
                    return (at, false);
                }
                at += character.len_utf8();
                continue;
            }
            if let Some(quote) = form.quote(rest) {
                at += quote.len();
                self.quote = Some(quote.to_owned());
                continue;
            }
            match (form, character) {
                (ValueForm::Pairs(mark), _) if mark.starts_with(rest) => return (at, false),
                (_, '(' | '[' | '{') => self.depth += 1,
                (_, ')' | ']' | '}' | ',') if self.depth == 0 => return (at, true),
                (_, ')' | ']' | '}') => self.depth -= 1,
                _ => {}
            }
            at += character.len_utf8();
        }
        (at, false)
    }
}

/// A whole value as JSON; `None` if it is none.
pub(crate) fn to_json(text: &str, form: ValueForm<'_>) -> Option<String> {
    let mut reader = ValueReader { rest: text.trim(), form, out: String::new() };
    reader.value(0)?;
    reader.rest.trim().is_empty().then_some(reader.out)
}

/// Reads a value and writes it as JSON.
struct ValueReader<'t, 'f> {
    rest: &'t str,
    form: ValueForm<'f>,
    out: String,
}

impl ValueReader<'_, '_> {
    fn value(&mut self, depth: usize) -> Option<()> {
        self.space();
        if depth > MOST_DEPTH {
            return None;
        }
        if let Some(quote) = self.form.quote(self.rest) {
            return self.text(quote);
        }
        match self.rest.chars().next()? {
            '[' => self.list(']', depth),
            '(' if self.form == ValueForm::Python => self.list(')', depth),
            '{' => self.mapping(depth),
            _ => self.word(),
        }
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Removes a text; `None` if something else follows.
    fn take(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn list(&mut self, end: char, depth: usize) -> Option<()> {
        let mut bytes = [0; 4];
        let end: &str = end.encode_utf8(&mut bytes);
        self.rest = &self.rest[1..];
        self.out.push('[');
        let mut first = true;
        loop {
            self.space();
            if self.take(end).is_some() {
                self.out.push(']');
                return Some(());
            }
            if !std::mem::take(&mut first) {
                self.take(",")?;
                self.space();
                if self.rest.starts_with(end) {
                    continue;
                }
                self.out.push(',');
            }
            self.value(depth + 1)?;
        }
    }

    fn mapping(&mut self, depth: usize) -> Option<()> {
        self.rest = &self.rest[1..];
        self.out.push('{');
        let mut first = true;
        loop {
            self.space();
            if self.take("}").is_some() {
                self.out.push('}');
                return Some(());
            }
            if !std::mem::take(&mut first) {
                self.take(",")?;
                self.space();
                if self.rest.starts_with('}') {
                    continue;
                }
                self.out.push(',');
            }
            self.key()?;
            self.space();
            self.take(":")?;
            self.out.push(':');
            self.value(depth + 1)?;
        }
    }

    fn key(&mut self) -> Option<()> {
        if let Some(quote) = self.form.quote(self.rest) {
            return self.text(quote);
        }
        if self.form == ValueForm::Python {
            return None;
        }
        let end = self.rest.find(':')?;
        let (key, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.quoted(key.trim());
        Some(())
    }

    fn quoted(&mut self, text: &str) {
        self.out.push('"');
        escape_into(&mut self.out, text);
        self.out.push('"');
    }

    fn text(&mut self, quote: &str) -> Option<()> {
        self.take(quote)?;
        let mut text = String::new();
        loop {
            if self.take(quote).is_some() {
                self.quoted(&text);
                return Some(());
            }
            let character = self.rest.chars().next()?;
            self.rest = &self.rest[character.len_utf8()..];
            if character == '\\' && self.form.escapes(quote) {
                self.escape(&mut text)?;
            } else {
                text.push(character);
            }
        }
    }

    /// An escape of Python's strings (Python's language reference, 2.4.1.1), which has those of JSON.
    fn escape(&mut self, text: &mut String) -> Option<()> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        match character {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            '0' => text.push('\0'),
            '\\' | '\'' | '"' | '/' => text.push(character),
            'x' => text.push(char::from_u32(self.digits(2)?)?),
            'U' => text.push(char::from_u32(self.digits(8)?)?),
            'u' => {
                let high = self.digits(4)?;
                if !(0xD800..0xDC00).contains(&high) {
                    text.push(char::from_u32(high)?);
                    return Some(());
                }
                self.take("\\u")?;
                let low = self.digits(4)?.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
                text.push(char::from_u32(0x10000 + ((high - 0xD800) << 10) + low)?);
            }
            // As in Python, an unknown escape stays as it is.
            other => text.extend(['\\', other]),
        }
        Some(())
    }

    fn digits(&mut self, count: usize) -> Option<u32> {
        let digits = self.rest.get(..count)?;
        let value = u32::from_str_radix(digits, 16).ok()?;
        self.rest = &self.rest[count..];
        Some(value)
    }

    /// A number or a constant.
    fn word(&mut self) -> Option<()> {
        let end = self.rest.find([',', ']', '}', ')', ' ', '\n']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "True" | "true" => self.out.push_str("true"),
            "False" | "false" => self.out.push_str("false"),
            "None" | "null" => self.out.push_str("null"),
            number => {
                serde_json::from_str::<serde_json::Number>(number).ok()?;
                self.out.push_str(number);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value at the beginning of a text that arrives one character at a time, as JSON.
    fn value(text: &str, form: ValueForm<'_>) -> Option<String> {
        let (mut scanner, mut held, mut value) = (ValueScanner::default(), String::new(), String::new());
        for character in text.chars() {
            held.push(character);
            let (length, ended) = scanner.feed(&held, form);
            value.extend(held.drain(..length));
            if ended {
                return to_json(&value, form);
            }
        }
        None
    }

    /// Expected values: Python's `ast.literal_eval`, as JSON.
    #[test]
    fn python_literals_become_json() {
        for (text, expected) in [
            ("'a \"b\" (c, d)', x", Some(r#""a \"b\" (c, d)""#)),
            (r"'it\'s \n \x41 \u00e9', x", Some("\"it's \\n A é\"")),
            ("\"it's\")", Some("\"it's\"")),
            ("3)", Some("3")),
            ("-2.5, x", Some("-2.5")),
            ("[1, 'a', [True, None]], x", Some("[1,\"a\",[true,null]]")),
            ("{'x': {'y': (1, 2,)}})", Some("{\"x\":{\"y\":[1,2]}}")),
            ("'raw\nline')", Some("\"raw\\nline\"")),
            ("os.system('x'))", None),
            ("{x: 1})", None),
            ("'open", None),
        ] {
            assert_eq!(value(text, ValueForm::Python).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn pairs_become_json() {
        let form = ValueForm::Pairs("<|\"|>");
        for (text, expected) in [
            ("<|\"|>a \"b\" {c}, \\n<|\"|>}", Some(r#""a \"b\" {c}, \\n""#)),
            ("3,", Some("3")),
            ("{x:true,y:[<|\"|>a<|\"|>,1]}}", Some("{\"x\":true,\"y\":[\"a\",1]}")),
            ("{<|\"|>x y<|\"|>:null}}", Some("{\"x y\":null}")),
            ("abc}", None),
        ] {
            assert_eq!(value(text, form).as_deref(), expected, "{text}");
        }
    }
}
