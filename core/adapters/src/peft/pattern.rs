//! Patterns of `rank_pattern` and `alpha_pattern`.

use fancy_regex::Regex;

/// Values by pattern of the module's name, first match wins.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns(Vec<(Regex, f64)>);

impl Patterns {
    /// Compiles patterns as PEFT matches them: a regular expression for the end of the name, after a dot or all of it.
    ///
    /// # Errors
    /// The pattern that is no regular expression.
    pub(super) fn new(entries: &[(String, f64)]) -> Result<Self, String> {
        let compile = |(pattern, value): &(String, f64)| {
            let whole = Regex::new(&format!(r"^(.*\.)?({pattern})$"));
            whole.map(|regex| (regex, *value)).map_err(|error| format!("pattern \"{pattern}\": {error}"))
        };
        entries.iter().map(compile).collect::<Result<_, _>>().map(Self)
    }

    /// The value for a module.
    pub(super) fn get(&self, module: &str) -> Option<f64> {
        let matches = |regex: &Regex| regex.is_match(module).unwrap_or(false);
        self.0.iter().find(|(regex, _)| matches(regex)).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_matches_and_the_first_pattern_wins() {
        let entries = [
            ("down_proj".to_owned(), 3.0),
            (r"layers\.\d+\.self_attn\.q_proj".to_owned(), 5.0),
            ("proj".to_owned(), 7.0),
            ("^model.layers.1.mlp.up_proj".to_owned(), 9.0),
        ];
        let patterns = Patterns::new(&entries).unwrap();
        assert_eq!(patterns.get("model.layers.0.mlp.down_proj"), Some(3.0));
        assert_eq!(patterns.get("down_proj"), Some(3.0));
        assert_eq!(patterns.get("model.layers.10.self_attn.q_proj"), Some(5.0));
        // Not after a dot.
        assert_eq!(patterns.get("model.layers.0.self_attn.k_proj"), None);
        // The anchor stands inside the group, where it can only match at the beginning of the name.
        assert_eq!(patterns.get("model.layers.1.mlp.up_proj"), Some(9.0));
        assert_eq!(patterns.get("other.model.layers.1.mlp.up_proj"), None);
        assert!(Patterns::new(&[("(".to_owned(), 1.0)]).unwrap_err().contains("pattern \"(\""));
    }
}
