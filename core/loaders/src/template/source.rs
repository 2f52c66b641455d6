//! Changes to a template's source where minijinja does something else than Jinja2; line numbers stay.
//!
//! - `{% generation %}` (transformers' mark for training) becomes a block that is always rendered.
//! - `{% for x in y %}` becomes `for x in (y)|iterated`: Jinja2 raises for none, minijinja loops over nothing.
//! - `a|safe + b` becomes `a|safe_added + b`: Jinja2 escapes `b` for HTML there, which is refused.

/// The filter that `for` loops go through.
pub(super) const ITERATED: &str = "iterated";
/// The filter that `safe` becomes before `+`.
pub(super) const SAFE_ADDED: &str = "safe_added";

/// The source with the changes above made in its tags; comments, raw blocks and texts are left alone.
pub(super) fn rewrite(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + source.len() / 16);
    let mut rest = source;
    while let Some((start, close)) = next_tag(rest) {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        let comment = close == "#}";
        let end = if comment { tag.find(close).map(|end| end + 2) } else { tag_end(tag, close) };
        let (tag, after) = tag.split_at(end.unwrap_or(tag.len()));
        rest = after;
        if comment {
            out.push_str(tag);
        } else if close == "}}" {
            out.push_str(&mark_safe_sums(tag));
        } else if word(tag).0 == "raw" {
            out.push_str(tag);
            let end = raw_end(rest);
            out.push_str(rest.get(..end).unwrap_or_default());
            rest = rest.get(end..).unwrap_or_default();
        } else {
            out.push_str(&block(&mark_safe_sums(tag)));
        }
    }
    out.push_str(rest);
    out
}

/// Where the next tag begins and what closes it.
fn next_tag(source: &str) -> Option<(usize, &'static str)> {
    let closes = [("{%", "%}"), ("{{", "}}"), ("{#", "#}")];
    let found = closes.iter().filter_map(|(open, close)| Some((source.find(open)?, *close)));
    found.min_by_key(|(at, _)| *at)
}

/// Where a tag ends, its delimiter included; not inside a text.
fn tag_end(tag: &str, close: &str) -> Option<usize> {
    code_places(tag)
        .find(|at| tag.get(*at..).is_some_and(|rest| rest.starts_with(close)))
        .map(|at| at + close.len())
}

/// The byte offsets of the characters that are not inside a text.
fn code_places(tag: &str) -> impl Iterator<Item = usize> {
    let mut quote = None;
    let mut escaped = false;
    tag.char_indices().filter_map(move |(at, character)| match quote {
        None => {
            if matches!(character, '"' | '\'') {
                quote = Some(character);
                return None;
            }
            Some(at)
        }
        Some(open) => {
            if !escaped && character == open {
                quote = None;
            }
            escaped = !escaped && character == '\\';
            None
        }
    })
}

/// The first word of a block tag and where it begins.
fn word(tag: &str) -> (&str, usize) {
    let body = tag.strip_prefix("{%").unwrap_or(tag);
    let body = body.strip_prefix(['-', '+']).unwrap_or(body).trim_start();
    let start = tag.len() - body.len();
    let end = body.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(body.len());
    (body.get(..end).unwrap_or_default(), start)
}

/// Where the block that ends a raw block begins.
fn raw_end(source: &str) -> usize {
    let mut from = 0;
    while let Some(at) = source.get(from..).and_then(|rest| rest.find("{%")).map(|at| at + from) {
        if source.get(at..).is_some_and(|tag| word(tag).0 == "endraw") {
            return at;
        }
        from = at + 2;
    }
    source.len()
}

fn block(tag: &str) -> String {
    let (name, start) = word(tag);
    match name {
        "generation" => tag.replacen("generation", "if true", 1),
        "endgeneration" => tag.replacen("endgeneration", "endif", 1),
        "for" => for_block(tag, start + name.len()).unwrap_or_else(|| tag.to_owned()),
        _ => tag.to_owned(),
    }
}

/// A `for` tag with its iterable wrapped; `None` where it is not understood (minijinja will say why).
fn for_block(tag: &str, from: usize) -> Option<String> {
    let words = top_level_words(tag, from);
    let (_, start) =
        words.iter().find(|(name, _)| *name == "in").map(|(name, at)| (name, at + name.len()))?;
    let close = tag.strip_suffix("%}")?.len();
    let close = if tag.get(..close)?.ends_with(['-', '+']) { close - 1 } else { close };
    let condition = words.iter().find(|(name, at)| *at > start && matches!(*name, "if" | "recursive"));
    let end = condition.map_or(close, |(_, at)| *at);
    let iterable = tag.get(start..end)?.trim();
    Some(format!("{} ({iterable})|{ITERATED} {}", tag.get(..start)?, tag.get(end..)?))
}

/// The words of a tag outside texts and brackets, with their places.
fn top_level_words(tag: &str, from: usize) -> Vec<(&str, usize)> {
    let mut words = Vec::new();
    let mut depth = 0usize;
    let mut last = None;
    let mut start = 0;
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    for at in code_places(tag).filter(|at| *at >= from) {
        let character = tag.get(at..).and_then(|rest| rest.chars().next()).unwrap_or(' ');
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            c if in_word(c) && depth == 0 => {
                if last != Some(at) {
                    start = at;
                }
                let end = at + c.len_utf8();
                last = Some(end);
                if !tag.get(end..).and_then(|rest| rest.chars().next()).is_some_and(in_word) {
                    words.extend(tag.get(start..end).map(|word| (word, start)));
                }
            }
            _ => {}
        }
    }
    words
}

/// `|safe +` as `|safe_added +`.
fn mark_safe_sums(tag: &str) -> String {
    let mut out = String::with_capacity(tag.len());
    let mut done = 0;
    for at in code_places(tag) {
        let before = tag.get(..at).unwrap_or_default().trim_end();
        let rest = tag.get(at..).unwrap_or_default();
        if !before.ends_with('|') || !rest.starts_with("safe") {
            continue;
        }
        let end = at + "safe".len();
        if tag.get(end..).is_some_and(|rest| rest.trim_start().starts_with('+')) {
            out.push_str(tag.get(done..at).unwrap_or_default());
            out.push_str(SAFE_ADDED);
            done = end;
        }
    }
    out.push_str(tag.get(done..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::rewrite;

    #[test]
    fn tags_are_rewritten() {
        let cases = [
            ("a {%- generation -%} b {% endgeneration %}", "a {%- if true -%} b {% endif %}"),
            ("{% for x in xs %}", "{% for x in (xs)|iterated %}"),
            (
                "{%- for k, v in a.b('if %}') | items if k not in c -%}",
                "{%- for k, v in (a.b('if %}') | items)|iterated if k not in c -%}",
            ),
            (
                "{% for x in [1 if y else 2] recursive %}",
                "{% for x in ([1 if y else 2])|iterated recursive %}",
            ),
            ("{% for index in inside -%}", "{% for index in (inside)|iterated -%}"),
            ("{{ 'a'|safe + b|safe }}", "{{ 'a'|safe_added + b|safe }}"),
        ];
        for (source, expected) in cases {
            assert_eq!(rewrite(source), expected);
        }
    }

    #[test]
    fn texts_comments_and_raw_blocks_are_left_alone() {
        let sources = [
            "{# {% for x in y %} #} for x in y |safe + {{ \"|safe +\" }}",
            "{% raw %}{% for x in y %}{{ a|safe + b }}{% endraw %}",
            "{{ '{% for x in y %}' }}{% set a = '\\'{% for x in y %}' %}",
            "unclosed {% for x in y",
        ];
        for source in sources {
            assert_eq!(rewrite(source), source);
        }
    }
}
