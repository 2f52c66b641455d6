//! Globs over key and tensor names: `*` matches any text, dots included.

/// Whether the whole of `text` matches `glob`, in which `*` matches any text, dots included.
pub fn matches(glob: &str, text: &str) -> bool {
    let mut parts = glob.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// As [`matches`], where `{tail}` in the glob matches a layer index of at least `layers`.
pub(crate) fn matches_tail(glob: &str, text: &str, layers: usize) -> bool {
    let Some((before, after)) = glob.split_once("{tail}") else { return matches(glob, text) };
    text.match_indices(|c: char| c.is_ascii_digit()).any(|(start, _)| {
        let digits = text[start..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |end| start + end);
        let whole = start == 0 || !text.as_bytes()[start - 1].is_ascii_digit();
        whole
            && text[start..digits].parse::<usize>().is_ok_and(|index| index >= layers)
            && matches(before, &text[..start])
            && matches(after, &text[digits..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (glob, text, expected) in [
            ("general.*", "general.name", true),
            ("general.*", "tokenizer.general.x", false),
            ("*.rotary_emb.inv_freq", "model.layers.0.rotary_emb.inv_freq", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "aXcYb", false),
            ("exact", "exact", true),
            ("exact", "exactly", false),
            ("a*a", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(glob, text), expected, "{glob} {text}");
        }
    }

    #[test]
    fn tail_is_a_layer_at_or_past_the_count() {
        assert!(matches_tail("blk.{tail}.*", "blk.12.attn_q.weight", 12));
        assert!(matches_tail("blk.{tail}.*", "blk.103.attn_q.weight", 12));
        assert!(!matches_tail("blk.{tail}.*", "blk.11.attn_q.weight", 12));
        assert!(!matches_tail("blk.{tail}.*", "blk.x.attn_q.weight", 12));
        assert!(matches_tail("output.*", "output.bias", 12));
    }
}
