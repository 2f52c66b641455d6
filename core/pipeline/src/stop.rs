//! [`StopMatcher`]: finds stop strings in text that arrives in pieces.

/// Watches text for stop strings; text that may be the beginning of one is held back until that is decided.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopMatcher {
    strings: Vec<String>,
    held: String,
}

/// What a piece of text led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Released {
    /// Text that is certain not to belong to a stop string.
    pub(crate) text: String,
    /// The stop string that was found; nothing after it is released.
    pub(crate) stopped: Option<String>,
}

impl StopMatcher {
    /// A matcher for these strings; empty ones are left out.
    pub(crate) fn new(strings: &[String]) -> Self {
        let strings = strings.iter().filter(|string| !string.is_empty()).cloned().collect();
        Self { strings, held: String::new() }
    }

    /// Adds text. The stop string that begins first wins; the longest of those that begin at the same place.
    pub(crate) fn push(&mut self, text: &str) -> Released {
        self.held.push_str(text);
        let found =
            self.strings.iter().filter_map(|string| self.held.find(string.as_str()).map(|at| (at, string)));
        let first = found.min_by_key(|(at, string)| (*at, std::cmp::Reverse(string.len())));
        if let Some((at, string)) = first {
            let released = Released { text: self.held[..at].to_owned(), stopped: Some(string.clone()) };
            self.held.clear();
            return released;
        }
        let keep = self.strings.iter().map(|string| overlap(&self.held, string)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        Released { text: std::mem::replace(&mut self.held, rest), stopped: None }
    }

    /// The text still held, once no more will come.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Bytes at the end of `text` that are a proper beginning of `string`.
pub(crate) fn overlap(text: &str, string: &str) -> usize {
    let ends = string.char_indices().map(|(index, _)| index).skip(1);
    ends.filter(|&end| text.ends_with(&string[..end])).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(strings: &[&str], pieces: &[&str]) -> (Vec<String>, Option<String>, String) {
        let strings: Vec<String> = strings.iter().map(|s| (*s).to_owned()).collect();
        let mut matcher = StopMatcher::new(&strings);
        let mut texts = Vec::new();
        for piece in pieces {
            let released = matcher.push(piece);
            texts.push(released.text);
            if released.stopped.is_some() {
                return (texts, released.stopped, matcher.finish());
            }
        }
        (texts, None, matcher.finish())
    }

    #[test]
    fn a_stop_string_over_three_pieces_is_found() {
        let (texts, stopped, rest) = run(&["STOP"], &["one S", "T", "OP two"]);
        assert_eq!(texts, ["one ", "", ""]);
        assert_eq!(stopped.as_deref(), Some("STOP"));
        assert_eq!(rest, "");
    }

    #[test]
    fn a_false_beginning_is_released() {
        let (texts, stopped, rest) = run(&["STOP"], &["S", "TO", "AD", " S"]);
        assert_eq!(texts, ["", "", "STOAD", " "]);
        assert_eq!((stopped, rest.as_str()), (None, "S"));
    }

    #[test]
    fn a_beginning_inside_a_false_beginning_is_held() {
        // After "aaaa" the stop string begins at the third letter.
        let (texts, stopped, _) = run(&["aabc"], &["aa", "aabc"]);
        assert_eq!(texts, ["", "aa"]);
        assert_eq!(stopped.as_deref(), Some("aabc"));
    }

    #[test]
    fn the_first_of_several_wins_and_then_the_longest() {
        assert_eq!(run(&["b", "ab"], &["xab"]), (vec!["x".to_owned()], Some("ab".to_owned()), String::new()));
        assert_eq!(run(&["a", "ab"], &["xab"]), (vec!["x".to_owned()], Some("ab".to_owned()), String::new()));
    }

    #[test]
    fn characters_of_several_bytes_are_not_cut() {
        let (texts, _, rest) = run(&["é!"], &["caf", "é", "?"]);
        assert_eq!(texts, ["caf", "", "é?"]);
        assert_eq!(rest, "");
        assert_eq!(run(&["日本"], &["日", "本"]).1.as_deref(), Some("日本"));
    }

    #[test]
    fn without_stop_strings_nothing_is_held() {
        assert_eq!(run(&[""], &["a", "b"]), (vec!["a".to_owned(), "b".to_owned()], None, String::new()));
    }
}
