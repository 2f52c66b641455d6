//! Escapes text from files and models: characters that control a terminal are not printed.
//!
//! An untrusted file can contain sequences that set a terminal's title, clear its screen, write its clipboard or reverse
//! the order of letters. All output of the program goes through these functions once, where it is written.

use std::borrow::Cow;

/// Whether a character controls a terminal or changes the direction of text. Line feeds and tabs are allowed.
fn is_active(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => c.is_control(),
    }
}

/// Replaces control characters by their escapes, such as `\u{1b}`; a carriage return before a line feed stays.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => shown.push(c),
            _ => push(&mut shown, c),
        }
    }
    Cow::Owned(shown)
}

/// The text as one line: line feeds, carriage returns and tabs are escaped too.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| is_active(c) || matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => shown.extend(c.escape_default()),
            _ => push(&mut shown, c),
        }
    }
    Cow::Owned(shown)
}

/// A JSON text with the same meaning, in which control characters that JSON does not escape are escaped as `\u009b`.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    // Outside of strings, JSON has no control characters except line feeds, tabs and carriage returns.
    let is_active = |c: char| is_active(c) && c != '\r';
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_active(c) {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Appends a character, or its escape.
pub(crate) fn push(shown: &mut String, c: char) {
    match is_active(c) {
        true => shown.extend(c.escape_unicode()),
        false => shown.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that Unicode calls a control character (Cc) or a directional formatting character (UAX #9, table 4).
    #[test]
    fn what_acts_on_a_terminal_is_escaped() {
        assert_eq!(text("a\x1b]0;x\x07b"), "a\\u{1b}]0;x\\u{7}b");
        assert_eq!(text("one\r\ntwo\tthree\rfour\n"), "one\r\ntwo\tthree\\u{d}four\n");
        assert_eq!(text("\u{9b}31m\u{7f}"), "\\u{9b}31m\\u{7f}");
        for c in ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}').filter(|c| !matches!(c, '\n' | '\t')) {
            assert_eq!(text(&c.to_string()), format!("\\u{{{:x}}}", u32::from(c)));
        }
        let directional =
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";
        for c in directional.chars() {
            assert_eq!(line(&c.to_string()), format!("\\u{{{:x}}}", u32::from(c)));
        }
        let harmless = "na\u{ef}ve \u{5d0}\u{5d1} \u{4f60} \u{1f600} \\u{1b}";
        assert_eq!(
            (text(harmless), line(harmless), json(harmless)),
            (harmless.into(), harmless.into(), harmless.into())
        );
    }

    #[test]
    fn a_cell_is_one_line() {
        assert_eq!(line("a\nerror: b\tc\r\x1b"), "a\\nerror: b\\tc\\r\\u{1b}");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({ "name": "x\u{1b}\u{9b}\u{202e}\u{7f}y", "list": [1, 2] });
        let shown = json(&serde_json::to_string_pretty(&value).unwrap()).into_owned();
        assert!(shown.chars().all(|c| !is_active(c)), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
