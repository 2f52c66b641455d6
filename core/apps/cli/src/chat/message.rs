//! Messages of several lines: between `"""`, or with a `\` at the end of a line.

/// The delimiter of a message of several lines.
const QUOTES: &str = "\"\"\"";

/// Whether the message continues on the next line.
pub(crate) fn is_unfinished(text: &str) -> bool {
    match text.trim_start().strip_prefix(QUOTES) {
        Some(rest) => !rest.trim_end().ends_with(QUOTES),
        None => ends_with_mark(text),
    }
}

/// The message of a complete text, without its delimiters and line continuation marks.
pub(crate) fn message(text: &str) -> String {
    if let Some(rest) = text.trim_start().strip_prefix(QUOTES) {
        let inside = rest.trim_end().strip_suffix(QUOTES).unwrap_or(rest);
        let inside = inside.strip_prefix('\n').unwrap_or(inside);
        return inside.strip_suffix('\n').unwrap_or(inside).to_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    // Only a message typed line by line has continuation marks; a pasted script keeps its backslashes.
    let typed = lines.iter().rev().skip(1).all(|line| ends_with_mark(line));
    let line = |line: &&str| {
        if typed && ends_with_mark(line) { line[..line.len() - 1].to_owned() } else { (*line).to_owned() }
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// An odd number of backslashes at the end: `\\` is a backslash.
fn ends_with_mark(line: &str) -> bool {
    line.chars().rev().take_while(|&c| c == '\\').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_where_quotes_close_or_no_mark_is() {
        for (text, unfinished) in [
            ("hello", false),
            ("hello \\", true),
            ("a path C:\\\\", false),
            ("\"\"\"", true),
            ("\"\"\"one", true),
            ("\"\"\"one\ntwo\"\"\"", false),
            ("\"\"\"one\"\"\"", false),
        ] {
            assert_eq!(is_unfinished(text), unfinished, "{text:?}");
        }
    }

    #[test]
    fn quotes_and_marks_are_not_part_of_the_message() {
        assert_eq!(message("\"\"\"\none\n\n two\n\"\"\""), "one\n\n two");
        assert_eq!(message("\"\"\"one\"\"\""), "one");
        assert_eq!(message("one \\\ntwo"), "one \ntwo");
        assert_eq!(message("plain"), "plain");
        let script = "run it:\ndocker run \\\n  image";
        assert_eq!(message(script), script);
    }
}
