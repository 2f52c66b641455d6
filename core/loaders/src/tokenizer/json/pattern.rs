//! Translates the regexes of a `tokenizer.json`, which use Oniguruma's syntax (Ruby), for the regex engine used here.

/// The same regex for `fancy-regex`: `^` and `$` match at line borders in Ruby.
///
/// # Errors
/// The error names a construct with different meanings in both that is not translated.
pub(super) fn translated(source: &str) -> Result<String, String> {
    let mut out = String::with_capacity(source.len() + 8);
    let mut class = 0usize;
    let mut at = 0;
    while let Some(character) = source.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = source.get(at..).unwrap_or_default();
        let mut length = character.len_utf8();
        match character {
            '\\' => {
                length = escape(rest)?;
                out.push_str(rest.get(..length).unwrap_or_default());
            }
            '[' => {
                if rest.starts_with("[:") && class > 0 {
                    return Err("a POSIX class in brackets".to_owned());
                }
                class += 1;
                out.push(character);
            }
            ']' if class > 0 => {
                class -= 1;
                out.push(character);
            }
            _ if class > 0 => {
                if rest.starts_with("--") || rest.starts_with("~~") {
                    return Err("`--` or `~~` in a class".to_owned());
                }
                out.push(character);
            }
            '^' => out.push_str("(?m:^)"),
            '$' => out.push_str("(?m:$)"),
            '(' if rest.starts_with("(?") => {
                group(rest)?;
                out.push(character);
            }
            '{' if interval(rest)
                .is_some_and(|end| rest.get(end..).is_some_and(|it| it.starts_with('+'))) =>
            {
                return Err("a `+` after an interval".to_owned());
            }
            _ => out.push(character),
        }
        at += length;
    }
    Ok(out)
}

/// The length of the escape at the start of a text.
fn escape(rest: &str) -> Result<usize, String> {
    let Some(character) = rest.chars().nth(1) else {
        return Err("it ends in a backslash".to_owned());
    };
    match character {
        'p' | 'P' => match rest.find('}') {
            Some(end) if rest.get(2..).is_some_and(|name| name.starts_with('{')) => Ok(end + 1),
            _ => Err(format!("`\\{character}` without `{{name}}`")),
        },
        's' | 'S' | 'd' | 'D' | 'w' | 'W' | 'r' | 'n' | 't' | 'f' | 'v' | 'b' | 'B' | 'x' | 'u' | 'z'
        | 'A' => Ok(2),
        other if other.is_ascii_alphanumeric() => Err(format!("the escape `\\{other}`")),
        other => Ok(1 + other.len_utf8()),
    }
}

/// Whether the group at the start of a text has the same meaning in both.
fn group(rest: &str) -> Result<(), String> {
    const SAME: [&str; 7] = ["(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"];
    match SAME.iter().any(|start| rest.starts_with(start)) {
        true => Ok(()),
        false => Err(format!("the group `{}`", rest.chars().take(5).collect::<String>())),
    }
}

/// The end of the interval (`{2}`, `{1,3}`) at the start of a text.
fn interval(rest: &str) -> Option<usize> {
    let end = rest.find('}')?;
    let inside = rest.get(1..end)?;
    let counts = !inside.is_empty() && inside.chars().all(|it| it.is_ascii_digit() || it == ',');
    counts.then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::translated;

    #[test]
    fn lines_have_borders_and_the_rest_stays() {
        for (source, expected) in [
            (r"\s+$", r"\s+(?m:$)"),
            (r"^[^$^]\$", r"(?m:^)[^$^]\$"),
            (r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}", r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}"),
            (r"(?i:'s|'t)|\s+(?!\S)", r"(?i:'s|'t)|\s+(?!\S)"),
        ] {
            assert_eq!(translated(source).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_differs_is_refused() {
        for (source, what) in [
            (r"\p{N}{1,3}+", "interval"),
            ("[[:punct:]]", "POSIX"),
            (r"a\h", r"`\h`"),
            ("(?m:a.b)", "(?m:a"),
            ("(?x)", "(?x)"),
            ("[+--]", "`--`"),
            ("a\\", "backslash"),
            (r"\pL", r"`\p`"),
        ] {
            assert!(translated(source).unwrap_err().contains(what), "{source}");
        }
    }
}
