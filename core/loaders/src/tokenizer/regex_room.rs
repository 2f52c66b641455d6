//! [`RegexRoom`]: a memory limit for the regexes of a tokenizer. A counted repetition of a class (`\w{100}`) takes
//! megabytes after compilation, and a file may contain thousands.

use fancy_regex::{CompileError, Error, Regex, RegexBuilder};
use serde_json::Value;

/// Bytes of the automata of all regexes of a tokenizer together. Published tokenizers use less than a tenth.
const ROOM: usize = 64 << 20;

/// Maximum number of parts of all regexes of a tokenizer; published ones have up to forty. The engine keeps up to a
/// megabyte for each part, whatever its automaton takes.
const MOST_PARTS: usize = 256;

/// Maximum number of backtracking steps of a look-around regex in one search.
const BACKTRACK_LIMIT: usize = 10_000_000;

/// Where the engine splits a regex into separately compiled parts: look-around, and repetitions without backtracking.
const CUTS: [&str; 5] = ["(?", "++", "*+", "?+", "}+"];

/// The number of parts that share the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegexRoom {
    parts: usize,
}

impl RegexRoom {
    /// The room that these regexes share.
    pub(crate) fn of<'r>(regexes: impl Iterator<Item = &'r str>) -> Self {
        let parts = |regex: &str| 1 + CUTS.iter().map(|cut| regex.matches(cut).count()).sum::<usize>();
        Self { parts: regexes.map(parts).sum::<usize>().max(1) }
    }

    /// The room of all regexes in these parts of a `tokenizer.json`.
    pub(crate) fn of_json(parts: &[&Value]) -> Self {
        let mut regexes = Vec::new();
        parts.iter().for_each(|part| gather(part, &mut regexes));
        Self::of(regexes.into_iter())
    }

    /// Compiles a regex.
    ///
    /// # Errors
    /// The error of the regex.
    pub(crate) fn compile(self, source: &str) -> Result<Regex, String> {
        if self.parts > MOST_PARTS {
            return Err(format!(
                "{} parts (regexes, groups, look-around) in all regexes of the tokenizer; at most {MOST_PARTS} are supported",
                self.parts
            ));
        }
        let room = ROOM / self.parts;
        let mut builder = RegexBuilder::new(source);
        builder.backtrack_limit(BACKTRACK_LIMIT).delegate_size_limit(room);
        builder.build().map_err(|error| match error {
            Error::CompileError(inner) => match *inner {
                CompileError::InnerError(problem) if problem.size_limit().is_some() => format!(
                    "more than {room} bytes after compilation, its share of the limit for all regexes, {} MiB",
                    ROOM >> 20
                ),
                other => other.to_string(),
            },
            other => other.to_string(),
        })
    }
}

/// The regexes of every `Regex` in an object; the JSON parser limits nesting to 128.
fn gather<'v>(part: &'v Value, out: &mut Vec<&'v str>) {
    match part {
        Value::Array(items) => items.iter().for_each(|item| gather(item, out)),
        Value::Object(fields) => {
            out.extend(fields.get("Regex").and_then(Value::as_str));
            fields.values().for_each(|field| gather(field, out));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_for_all_regexes_together() {
        let large = r"\w{300}";
        let compiled = |count: usize| RegexRoom::of(std::iter::repeat_n(large, count)).compile(large);
        assert!(compiled(1).is_ok());
        assert!(compiled(200).unwrap_err().contains("its share of the limit for all regexes"));
        assert!(compiled(257).unwrap_err().contains("257 parts"));
        // The parts of one regex share it too.
        let many = r"(?=\w{60})\w".repeat(300);
        assert!(RegexRoom::of([many.as_str()].into_iter()).compile(&many).unwrap_err().contains("301 parts"));
    }
}
