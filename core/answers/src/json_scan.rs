//! [`JsonScanner`]: finds the end of a JSON value that arrives in pieces, and checks it (RFC 8259).

/// The most nested objects and lists.
const MOST_DEPTH: usize = 100;

/// The state of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// The whole text belongs to the value, and more follows.
    More,
    /// The value ends after this many bytes of the text.
    Done(usize),
    /// The text is not JSON from this byte on.
    Invalid(usize),
}

/// What may follow between the parts of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
}

/// A part that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonToken {
    None,
    /// A string; `key`: of an object's key.
    Text {
        key: bool,
    },
    /// After a backslash.
    Escape {
        key: bool,
    },
    /// After `\u`: digits so far and their value.
    Unicode {
        key: bool,
        digits: u8,
        value: u16,
    },
    /// `true`, `false` or `null`, and how many bytes are read.
    Word(&'static str, usize),
    Number(NumberPart),
}

/// The part of a number whose character was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberPart {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigit,
}

impl NumberPart {
    /// The part after one more byte; `None` if the byte does not continue the number.
    fn next(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Minus, b'0') => Self::Zero,
            (Self::Minus, b'1'..=b'9') | (Self::Integer, b'0'..=b'9') => Self::Integer,
            (Self::Zero | Self::Integer, b'.') => Self::Point,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Zero | Self::Integer | Self::Fraction, b'e' | b'E') => Self::Exponent,
            (Self::Exponent, b'+' | b'-') => Self::ExponentSign,
            (Self::Exponent | Self::ExponentSign | Self::ExponentDigit, b'0'..=b'9') => Self::ExponentDigit,
            _ => return None,
        })
    }

    fn is_complete(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::ExponentDigit)
    }
}

/// A scan of one value.
#[derive(Clone, Debug)]
pub(crate) struct JsonScanner {
    /// Whether each open bracket is an object's.
    open: Vec<bool>,
    expect: Expect,
    token: JsonToken,
    /// The first half of a pair of escaped surrogates was read.
    high_surrogate: bool,
    begun: bool,
}

/// What one byte does.
enum ByteStep {
    Taken,
    /// The byte is the last one of the value.
    Last,
    /// The value ended before the byte.
    Before,
    Wrong,
}

impl JsonScanner {
    /// A scan of any value; white space before it belongs to it.
    pub(crate) fn new() -> Self {
        Self {
            open: Vec::new(),
            expect: Expect::Value,
            token: JsonToken::None,
            high_surrogate: false,
            begun: false,
        }
    }

    /// Whether the value has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether the text so far ends in a string of an object or a list.
    pub(crate) fn is_in_nested_string(&self) -> bool {
        let is_text = matches!(
            self.token,
            JsonToken::Text { .. } | JsonToken::Escape { .. } | JsonToken::Unicode { .. }
        );
        is_text && !self.open.is_empty()
    }

    /// Scans more text.
    pub(crate) fn feed(&mut self, text: &str) -> Scan {
        for (at, byte) in text.bytes().enumerate() {
            match self.byte(byte) {
                ByteStep::Taken => {}
                ByteStep::Last => return Scan::Done(at + 1),
                ByteStep::Before => return Scan::Done(at),
                ByteStep::Wrong => return Scan::Invalid(at),
            }
        }
        Scan::More
    }

    fn byte(&mut self, byte: u8) -> ByteStep {
        match self.token {
            JsonToken::None => self.between(byte),
            JsonToken::Text { key } => self.in_text(byte, key),
            JsonToken::Escape { key } => self.escaped(byte, key),
            JsonToken::Unicode { key, digits, value } => self.unicode(byte, key, digits, value),
            JsonToken::Word(word, at) => {
                if word.as_bytes().get(at) != Some(&byte) {
                    return ByteStep::Wrong;
                }
                if at + 1 < word.len() {
                    self.token = JsonToken::Word(word, at + 1);
                    return ByteStep::Taken;
                }
                self.end_value()
            }
            JsonToken::Number(part) => match part.next(byte) {
                Some(next) => {
                    self.token = JsonToken::Number(next);
                    ByteStep::Taken
                }
                None if !part.is_complete() => ByteStep::Wrong,
                None if self.open.is_empty() => ByteStep::Before,
                None => {
                    (self.token, self.expect) = (JsonToken::None, Expect::CommaOrEnd);
                    self.between(byte)
                }
            },
        }
    }

    fn in_text(&mut self, byte: u8, key: bool) -> ByteStep {
        if self.high_surrogate && byte != b'\\' {
            return ByteStep::Wrong;
        }
        match byte {
            b'\\' => self.token = JsonToken::Escape { key },
            b'"' if key => (self.token, self.expect) = (JsonToken::None, Expect::Colon),
            b'"' => return self.end_value(),
            0..0x20 => return ByteStep::Wrong,
            _ => {}
        }
        ByteStep::Taken
    }

    fn escaped(&mut self, byte: u8, key: bool) -> ByteStep {
        self.token = match byte {
            b'u' => JsonToken::Unicode { key, digits: 0, value: 0 },
            _ if self.high_surrogate => return ByteStep::Wrong,
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => JsonToken::Text { key },
            _ => return ByteStep::Wrong,
        };
        ByteStep::Taken
    }

    fn unicode(&mut self, byte: u8, key: bool, digits: u8, value: u16) -> ByteStep {
        let Some(digit) = char::from(byte).to_digit(16) else { return ByteStep::Wrong };
        let value = (value << 4) | digit as u16;
        if digits < 3 {
            self.token = JsonToken::Unicode { key, digits: digits + 1, value };
            return ByteStep::Taken;
        }
        match (value, self.high_surrogate) {
            (0xDC00..=0xDFFF, true) => self.high_surrogate = false,
            (0xD800..=0xDBFF, false) => self.high_surrogate = true,
            (0xDC00..=0xDFFF, false) | (_, true) => return ByteStep::Wrong,
            _ => {}
        }
        self.token = JsonToken::Text { key };
        ByteStep::Taken
    }

    /// A byte outside of strings, words and numbers.
    fn between(&mut self, byte: u8) -> ByteStep {
        if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
            return ByteStep::Taken;
        }
        let in_object = self.open.last().copied();
        match (self.expect, byte) {
            (Expect::Key | Expect::KeyOrEnd, b'"') => self.token = JsonToken::Text { key: true },
            (Expect::Colon, b':') => self.expect = Expect::Value,
            (Expect::CommaOrEnd, b',') => {
                self.expect = if in_object == Some(true) { Expect::Key } else { Expect::Value };
            }
            (Expect::KeyOrEnd, b'}') | (Expect::ValueOrEnd, b']') => return self.close(),
            (Expect::CommaOrEnd, b'}') if in_object == Some(true) => return self.close(),
            (Expect::CommaOrEnd, b']') if in_object == Some(false) => return self.close(),
            (Expect::Value | Expect::ValueOrEnd, byte) => return self.begin_value(byte),
            _ => return ByteStep::Wrong,
        }
        ByteStep::Taken
    }

    fn begin_value(&mut self, byte: u8) -> ByteStep {
        self.begun = true;
        match byte {
            b'{' | b'[' if self.open.len() == MOST_DEPTH => return ByteStep::Wrong,
            b'{' => {
                self.open.push(true);
                self.expect = Expect::KeyOrEnd;
            }
            b'[' => {
                self.open.push(false);
                self.expect = Expect::ValueOrEnd;
            }
            b'"' => self.token = JsonToken::Text { key: false },
            b't' => self.token = JsonToken::Word("true", 1),
            b'f' => self.token = JsonToken::Word("false", 1),
            b'n' => self.token = JsonToken::Word("null", 1),
            b'-' => self.token = JsonToken::Number(NumberPart::Minus),
            b'0' => self.token = JsonToken::Number(NumberPart::Zero),
            b'1'..=b'9' => self.token = JsonToken::Number(NumberPart::Integer),
            _ => return ByteStep::Wrong,
        }
        ByteStep::Taken
    }

    fn close(&mut self) -> ByteStep {
        self.open.pop();
        self.end_value()
    }

    fn end_value(&mut self) -> ByteStep {
        (self.token, self.expect) = (JsonToken::None, Expect::CommaOrEnd);
        if self.open.is_empty() { ByteStep::Last } else { ByteStep::Taken }
    }
}

/// Appends a text to JSON as the inside of a string.
pub(crate) fn escape_into(out: &mut String, text: &str) {
    let quoted = serde_json::Value::from(text).to_string();
    out.push_str(&quoted[1..quoted.len() - 1]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The scan of a text that arrives one character at a time.
    fn scan(text: &str) -> Scan {
        let mut scanner = JsonScanner::new();
        for (at, character) in text.char_indices() {
            match scanner.feed(character.encode_utf8(&mut [0; 4])) {
                Scan::More => {}
                Scan::Done(n) => return Scan::Done(at + n),
                Scan::Invalid(n) => return Scan::Invalid(at + n),
            }
        }
        Scan::More
    }

    #[test]
    fn values_end_where_they_end() {
        for (text, expected) in [
            (r#"{"a": [1, -2.5e+3, true, null], "b": {}} tail"#, Scan::Done(40)),
            (r#" "x\"y\\" z"#, Scan::Done(9)),
            ("12,", Scan::Done(2)),
            ("[]", Scan::Done(2)),
            ("{\"a\": \"\\ud83d\\ude00\"}", Scan::Done(21)),
            ("{\"a\"", Scan::More),
            ("12", Scan::More),
            ("{,}", Scan::Invalid(1)),
            ("[1,]", Scan::Invalid(3)),
            ("{\"a\": 01}", Scan::Invalid(7)),
            ("\"\n\"", Scan::Invalid(1)),
            ("\"\\ud800x\"", Scan::Invalid(7)),
            ("\"\\udc00\"", Scan::Invalid(6)),
            ("{'a': 1}", Scan::Invalid(1)),
            ("[}", Scan::Invalid(1)),
        ] {
            assert_eq!(scan(text), expected, "{text}");
        }
        assert_eq!(scan(&"[".repeat(MOST_DEPTH + 1)), Scan::Invalid(MOST_DEPTH));
    }

    proptest! {
        /// serde_json accepts exactly the texts that the scanner accepts.
        #[test]
        fn agrees_with_serde_json(text in r#"[\[\]{}",:0-9a\\u.eE+\- tn]{0,12}"#) {
            let whole = format!("[{text}]");
            let read = serde_json::from_str::<serde_json::Value>(&whole);
            // Its range of numbers is not a part of the syntax.
            prop_assume!(!read.as_ref().is_err_and(|error| error.to_string().contains("out of range")));
            prop_assert_eq!(scan(&whole) == Scan::Done(whole.len()), read.is_ok(), "{}", whole);
        }
    }
}
