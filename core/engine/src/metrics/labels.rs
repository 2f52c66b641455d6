//! [`LabelSet`]: labels in the text format that Prometheus reads.

use std::fmt::{self, Display, Formatter, Write};

/// Names that metrics have for labels of their own.
const OWN: [&str; 2] = ["le", "outcome"];

/// The labels of a sample, as written between braces.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelSet(String);

impl LabelSet {
    /// These labels.
    ///
    /// # Errors
    /// A name is not one of Prometheus, occurs twice, or is that of a label that metrics have of their own.
    pub(crate) fn new(labels: &[(&str, &str)]) -> Result<Self, fmt::Error> {
        let mut set = Self::default();
        for (index, (name, value)) in labels.iter().enumerate() {
            let twice = labels[..index].iter().any(|(earlier, _)| earlier == name);
            if twice || OWN.contains(name) || !is_name(name) {
                return Err(fmt::Error);
            }
            set = set.with(name, value);
        }
        Ok(set)
    }

    /// The same with another label. Backslashes, quotes and line feeds of a value are escaped (text format 0.0.4).
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let comma = if self.0.is_empty() { "" } else { "," };
        Self(format!("{}{comma}{name}=\"{value}\"", self.0))
    }
}

/// Whether Prometheus accepts the name of a label; names with two leading underscores are its own.
fn is_name(name: &str) -> bool {
    let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    letters && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty() && !name.starts_with("__")
}

impl Display for LabelSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        f.write_char('{')?;
        f.write_str(&self.0)?;
        f.write_char('}')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prometheus' text format: in the value of a label, backslash, double quote and line feed are escaped as `\\`, `\"`
    /// and `\n`; everything else is written as it is.
    #[test]
    fn values_are_escaped_and_names_are_checked() {
        let labels = LabelSet::new(&[("model", "C:\\DIR\\\"a\"\n\u{e9},}"), ("_t", "")]).unwrap();
        assert_eq!(labels.to_string(), r#"{model="C:\\DIR\\\"a\"\né,}",_t=""}"#);
        assert_eq!(LabelSet::default().to_string(), "");
        for name in ["", "1a", "a-b", "__name__", "le", "outcome", "é", "a b"] {
            assert!(LabelSet::new(&[(name, "x")]).is_err(), "{name:?}");
        }
        assert!(LabelSet::new(&[("a", "1"), ("a", "2")]).is_err());
    }
}
