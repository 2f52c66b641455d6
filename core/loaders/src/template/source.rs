//! Changes to a template's source before it is compiled; line numbers stay the same.
//!
//! - `{% generation %}` (transformers' mark for training) becomes a block that is always rendered.
//! - `a * b` becomes `a|unfolded * b`: minijinja computes products of constants when it compiles, before anything is
//!   bounded.

/// The filter that prevents constant folding of a product.
pub(super) const UNFOLDED: &str = "unfolded";

/// The source after these changes inside its tags; comments, raw blocks and text are unchanged.
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
            out.push_str(&closed(tag, end, unfold));
        } else if word(tag) == "raw" {
            out.push_str(tag);
            let end = raw_end(rest);
            out.push_str(rest.get(..end).unwrap_or_default());
            rest = rest.get(end..).unwrap_or_default();
        } else {
            out.push_str(&closed(tag, end, |tag| unfold(&block(tag))));
        }
    }
    out.push_str(rest);
    out
}

/// The start of the next tag and its closing delimiter.
fn next_tag(source: &str) -> Option<(usize, &'static str)> {
    source.match_indices('{').find_map(|(at, _)| match source.as_bytes().get(at + 1) {
        Some(b'%') => Some((at, "%}")),
        Some(b'{') => Some((at, "}}")),
        Some(b'#') => Some((at, "#}")),
        _ => None,
    })
}

/// The end of a tag with its delimiter; delimiters inside a string are skipped.
fn tag_end(tag: &str, close: &str) -> Option<usize> {
    code_places(tag)
        .find(|at| tag.get(*at..).is_some_and(|rest| rest.starts_with(close)))
        .map(|at| at + close.len())
}

/// The byte offsets of the characters outside of strings.
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

/// The first word of a block tag.
fn word(tag: &str) -> &str {
    let body = tag.strip_prefix("{%").unwrap_or(tag);
    let body = body.strip_prefix(['-', '+']).unwrap_or(body).trim_start();
    let end = body.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(body.len());
    body.get(..end).unwrap_or_default()
}

/// The start of the block that ends a raw block.
fn raw_end(source: &str) -> usize {
    let mut from = 0;
    while let Some(at) = source.get(from..).and_then(|rest| rest.find("{%")).map(|at| at + from) {
        if source.get(at..).is_some_and(|tag| word(tag) == "endraw") {
            return at;
        }
        from = at + 2;
    }
    source.len()
}

/// A closed tag after `change`; an unclosed one as it is, for minijinja to report.
fn closed(tag: &str, end: Option<usize>, change: impl Fn(&str) -> String) -> String {
    if end.is_some() { change(tag) } else { tag.to_owned() }
}

fn block(tag: &str) -> String {
    match word(tag) {
        "generation" => tag.replacen("generation", "if true", 1),
        "endgeneration" => tag.replacen("endgeneration", "endif", 1),
        _ => tag.to_owned(),
    }
}

/// `*` between two values as `|unfolded *`; `**`, and `*` before the arguments of a call, are left alone.
fn unfold(tag: &str) -> String {
    let mut out = String::with_capacity(tag.len());
    let mut done = 0;
    for at in code_places(tag) {
        let before = tag.get(..at).unwrap_or_default();
        let rest = tag.get(at..).unwrap_or_default();
        let product = rest.starts_with('*') && !rest.starts_with("**") && !before.ends_with('*');
        if product && !before.trim_end().ends_with(['(', ',', '[']) {
            out.push_str(tag.get(done..at).unwrap_or_default());
            out.push_str("|unfolded ");
            done = at;
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
            ("{{ 'a' * 3 }}{% set b = c*2 %}", "{{ 'a' |unfolded * 3 }}{% set b = c|unfolded *2 %}"),
            ("{{ f(*a, **b) ~ 2 ** 3 }}", "{{ f(*a, **b) ~ 2 ** 3 }}"),
        ];
        for (source, expected) in cases {
            assert_eq!(rewrite(source), expected);
        }
    }

    #[test]
    fn texts_comments_and_raw_blocks_are_left_alone() {
        let sources = [
            "{# {% generation %} #} generation x * y {{ \"a * b\" }}",
            "{% raw %}{% generation %}{{ a * b }}{% endraw %}",
            "{{ '{% generation %}' }}{% set a = '\\'{% generation * %}' %}",
            "unclosed {% generation * 2",
        ];
        for source in sources {
            assert_eq!(rewrite(source), source);
        }
    }
}
