//! Limits of the size and the nesting of a source, and the nesting of brackets in a text.

/// The most bytes of a schema, a regular expression or a grammar.
pub(crate) const MOST_BYTES: usize = 64 * 1024;
/// The deepest nesting of a schema, a regular expression or a grammar.
pub(crate) const MOST_LEVELS: usize = 64;

/// The deepest nesting of brackets in a regular expression or grammar. Escaped brackets do not count; those in strings
/// and classes of characters count, so the depth may be overestimated, and never underestimated.
pub(crate) fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut is_escaped) = (0usize, 0, false);
    for character in text.chars() {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match character {
            '\\' => is_escaped = true,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_counted_unless_escaped() {
        let cases = [("", 0), ("a(b)c", 1), ("((a)|[b{2}])", 3), (r"\(\[(a)", 1), (r"\\((", 2), (")))(", 1)];
        for (text, expected) in cases {
            assert_eq!(depth(text), expected, "{text}");
        }
    }
}
