//! [`Shape`]: the parts of an expression that can be its value, so that the origin of the value is known.

use super::{Expression, NameScope};
use std::sync::Arc;

/// How an expression gets its value.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// An unchanged key or name of `[let]`.
    Name(String),
    /// The function `pattern` of an unchanged key.
    Pattern(String),
    /// The expression before `| default(..)`, or its argument.
    Or(Arc<Expression>, Arc<Expression>),
    /// One of two expressions, selected by a condition.
    Choice { condition: Arc<Expression>, then: Arc<Expression>, otherwise: Option<Arc<Expression>> },
    /// Computed.
    Whole,
}

impl Shape {
    /// The shape of a checked expression over canonical keys.
    pub(super) fn of(text: &str) -> Shape {
        Self::read(text).unwrap_or(Shape::Whole)
    }

    fn read(text: &str) -> Option<Shape> {
        let text = unwrapped(text);
        let part = |text: &str| Expression::parse(text.trim(), NameScope::Keys).ok().map(Arc::new);
        if let Some((then, rest)) = split(text, " if ") {
            let (condition, otherwise) = match split(rest, " else ") {
                Some((condition, otherwise)) => (condition, Some(part(otherwise)?)),
                None => (rest, None),
            };
            return Some(Shape::Choice { condition: part(condition)?, then: part(then)?, otherwise });
        }
        if is_name(text) {
            return Some(Shape::Name(text.to_owned()));
        }
        if let Some((name, default)) = split(text, "|") {
            let inner = default.trim().strip_prefix("default")?.trim();
            let name = name.trim();
            let plain = is_name(name) && is_wrapped(inner);
            return if plain { Some(Shape::Or(part(name)?, part(unwrapped(inner))?)) } else { None };
        }
        let call = text.strip_prefix("pattern").map(str::trim).filter(|call| is_wrapped(call))?;
        let key = call.split(['\'', '"']).nth(1)?;
        Some(Shape::Pattern(key.to_owned()))
    }
}

fn is_name(text: &str) -> bool {
    const WORDS: [&str; 3] = ["true", "false", "layer"];
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts
        && !WORDS.contains(&text)
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

/// Each character outside of strings with its offset and its nesting in brackets.
fn places(text: &str) -> impl Iterator<Item = (usize, char, usize)> {
    let mut depth = 0usize;
    let mut quoted = None;
    text.char_indices().filter_map(move |(at, c)| {
        match (quoted, c) {
            (Some(quote), c) if c == quote => quoted = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quoted = Some(c),
            (None, ')') => {
                depth = depth.saturating_sub(1);
                return Some((at, c, depth));
            }
            (None, '(') => {
                depth += 1;
                return Some((at, c, depth - 1));
            }
            (None, c) => return Some((at, c, depth)),
        }
        None
    })
}

/// The parts before and after the first `mark` outside of brackets and strings.
fn split<'a>(text: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let found = places(text).find(|(at, _, depth)| *depth == 0 && text[*at..].starts_with(mark));
    found.map(|(at, ..)| (&text[..at], &text[at + mark.len()..]))
}

/// Whether one pair of brackets encloses all of it.
fn is_wrapped(text: &str) -> bool {
    let closes = places(text).find(|(_, c, depth)| *c == ')' && *depth == 0);
    text.starts_with('(') && closes.is_some_and(|(at, ..)| at + 1 == text.len())
}

/// The expression without surrounding spaces and brackets.
fn unwrapped(text: &str) -> &str {
    let mut text = text.trim();
    while is_wrapped(text) {
        text = text[1..text.len() - 1].trim();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_outside_of_brackets() {
        for (text, expected) in [
            ("rope.freq_base", "Name(\"rope.freq_base\")"),
            ("(a.b)", "Name(\"a.b\")"),
            ("a | default(0)", "Or(`a`, `0`)"),
            ("10000 if local else b", "Choice { condition: `local`, then: `10000`, otherwise: Some(`b`) }"),
            (
                "a if x == 'if ' else (b if y else c)",
                "Choice { condition: `x == 'if '`, then: `a`, otherwise: Some(`(b if y else c)`) }",
            ),
            ("pattern('a.b', 6)", "Pattern(\"a.b\")"),
            ("pattern('a.b', 6) and c", "Whole"),
            ("a | default(0) > 0", "Whole"),
            ("sqrt(a)", "Whole"),
            ("(a) + (b)", "Whole"),
            ("12", "Whole"),
        ] {
            assert_eq!(format!("{:?}", Shape::of(text)), expected, "{text}");
        }
    }
}
