//! [`Patterns`]: the patterns of `rank_pattern` and `alpha_pattern`.

use fancy_regex::{CompileError, Error, Regex, RegexBuilder};

/// Most patterns of a key that are not plain names. Each is compiled, and tried on every module.
const MOST_REGEXES: usize = 64;
/// Constructs that split a pattern into separately compiled parts, and most of them in all patterns together.
const CUTS: [&str; 5] = ["(?", "++", "*+", "?+", "}+"];
const MOST_PARTS: usize = 64;
/// Most bytes of such a pattern, and of each of its parts once it is compiled.
const MOST_BYTES: usize = 1024;
const COMPILED_BYTES: usize = 256 << 10;
/// Most backtracking of a pattern over the name of a module, which has about fifty letters.
const BACKTRACK_LIMIT: usize = 10_000;

/// Values by pattern of the module's name; the first match counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns(Vec<(Pattern, f64)>);

#[derive(Clone, Debug)]
enum Pattern {
    /// Letters, digits, `_`, `-`, and dots, each of which stands for any character.
    Name(String),
    Regex(Box<Regex>),
}

impl Patterns {
    /// Compiles patterns in the way PEFT matches them: a regular expression for the end of the name, after a dot or for
    /// all of it.
    ///
    /// # Errors
    /// A pattern is not a regular expression, or too large; there are too many patterns.
    pub(super) fn new(entries: &[(String, f64)]) -> Result<Self, String> {
        let regexes: Vec<&String> =
            entries.iter().map(|(pattern, _)| pattern).filter(|pattern| !is_name(pattern)).collect();
        if regexes.len() > MOST_REGEXES {
            let count = regexes.len();
            return Err(format!("it has {count} regular expressions; at most {MOST_REGEXES} are supported"));
        }
        let cuts = |pattern: &&String| CUTS.iter().map(|cut| pattern.matches(cut).count()).sum::<usize>();
        let parts = regexes.iter().map(cuts).sum::<usize>();
        if parts > MOST_PARTS {
            return Err(format!(
                "it has {parts} groups and look-arounds; at most {MOST_PARTS} are supported"
            ));
        }
        let compile =
            |(pattern, value): &(String, f64)| Pattern::new(pattern).map(|pattern| (pattern, *value));
        entries.iter().map(compile).collect::<Result<_, _>>().map(Self)
    }

    /// The value for a module.
    ///
    /// # Errors
    /// A pattern reached its limit on the name.
    pub(super) fn get(&self, module: &str) -> Result<Option<f64>, String> {
        for (pattern, value) in &self.0 {
            if pattern.matches(module)? {
                return Ok(Some(*value));
            }
        }
        Ok(None)
    }
}

impl Pattern {
    fn new(pattern: &str) -> Result<Self, String> {
        if is_name(pattern) {
            return Ok(Self::Name(pattern.to_owned()));
        }
        let shown: String = pattern.chars().take(100).collect();
        if pattern.len() > MOST_BYTES {
            return Err(format!(
                "pattern \"{shown}...\" has {} bytes; at most {MOST_BYTES} are supported",
                pattern.len()
            ));
        }
        let mut builder = RegexBuilder::new(&format!(r"^(.*\.)?({pattern})$"));
        builder.backtrack_limit(BACKTRACK_LIMIT).delegate_size_limit(COMPILED_BYTES);
        let built = builder.build();
        built
            .map(|regex| Self::Regex(Box::new(regex)))
            .map_err(|error| match error {
                Error::CompileError(inner) if is_too_large(&inner) => format!(
                    "pattern \"{shown}\" takes more than {COMPILED_BYTES} bytes once it is compiled; use a simpler one"
                ),
                other => format!("pattern \"{shown}\": {other}"),
            })
    }

    fn matches(&self, module: &str) -> Result<bool, String> {
        match self {
            Self::Regex(regex) => {
                regex.is_match(module).map_err(|error| format!("pattern \"{}\": {error}", regex.as_str()))
            }
            Self::Name(name) => {
                let mut rest = module.chars().rev();
                let own = name.chars().rev();
                let alike = |(own, other): (char, Option<char>)| match other {
                    Some(other) => own == other || (own == '.' && other != '\n'),
                    None => false,
                };
                let fits = own.map(|own| (own, rest.next())).all(alike);
                Ok(fits && rest.next().is_none_or(|before| before == '.') && !rest.any(|it| it == '\n'))
            }
        }
    }
}

fn is_too_large(error: &CompileError) -> bool {
    matches!(error, CompileError::InnerError(problem) if problem.size_limit().is_some())
}

/// Whether a pattern needs no regular expression.
fn is_name(pattern: &str) -> bool {
    !pattern.is_empty()
        && pattern.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
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
        let get = |module: &str| patterns.get(module).unwrap();
        assert_eq!(get("model.layers.0.mlp.down_proj"), Some(3.0));
        assert_eq!(get("down_proj"), Some(3.0));
        assert_eq!(get("model.layers.10.self_attn.q_proj"), Some(5.0));
        // Not after a dot.
        assert_eq!(get("model.layers.0.self_attn.k_proj"), None);
        // The anchor stands inside the group, where it can only match at the beginning of the name.
        assert_eq!(get("model.layers.1.mlp.up_proj"), Some(9.0));
        assert_eq!(get("other.model.layers.1.mlp.up_proj"), None);
        assert!(Patterns::new(&[("(".to_owned(), 1.0)]).unwrap_err().contains("pattern \"(\""));
    }

    #[test]
    fn memory_and_time_of_patterns_are_bounded() {
        let refused = |patterns: Vec<String>| {
            Patterns::new(&patterns.into_iter().map(|it| (it, 1.0)).collect::<Vec<_>>()).unwrap_err()
        };
        assert!(refused(vec![r"\w{200}".to_owned()]).contains("once it is compiled"));
        assert!(refused(vec!["(a)".repeat(500)]).contains("1500 bytes; at most 1024"));
        assert!(refused(vec![r"(?=a)".repeat(65)]).contains("65 groups"));
        let many = refused((0..65).map(|at| format!("a{at}+")).collect());
        assert!(many.contains("65 regular expressions; at most 64"), "{many}");
        // Names, of which an adapter has as many as the model has modules, cost nothing.
        let names: Vec<(String, f64)> = (0..50_000).map(|at| (format!("layers.{at}.q_proj"), 1.0)).collect();
        assert_eq!(Patterns::new(&names).unwrap().get("model.layers.49999.q_proj"), Ok(Some(1.0)));
        // One that gives up is an error, not one that does not match.
        let slow = Patterns::new(&[(r"(?:(?:a|.)*)*(?=b)c".to_owned(), 1.0)]).unwrap();
        assert!(slow.get("model.layers.0.self_attn.q_proj").unwrap_err().contains("(?=b)c"));
    }

    /// A name matches what the regular expression of it matches.
    #[test]
    fn names_match_as_regular_expressions() {
        let texts = |longest: usize| {
            let mut all = vec![String::new()];
            for length in 0..longest {
                let last: Vec<String> = all.iter().filter(|text| text.len() == length).cloned().collect();
                all.extend(last.iter().flat_map(|text| ["a", "b", "."].map(|one| format!("{text}{one}"))));
            }
            all
        };
        let modules = texts(5);
        for pattern in texts(3).into_iter().skip(1) {
            let regex = Regex::new(&format!(r"^(.*\.)?({pattern})$")).unwrap();
            let own = Pattern::new(&pattern).unwrap();
            assert!(matches!(own, Pattern::Name(_)));
            for module in &modules {
                let expected = regex.is_match(module).unwrap();
                assert_eq!(own.matches(module), Ok(expected), "{pattern} of {module}");
            }
        }
    }
}
