//! [`ConfigFile`]: defaults of options from `menagerie/config.toml` in the user's configuration folder.

use crate::failure::Failure;
use crate::prompt;
use std::path::{Path, PathBuf};
use toml_span::value::ValueInner;

/// Environment variable that names another file; if it is empty, no file is read.
pub(crate) const VARIABLE: &str = "MENAGERIE_CONFIG";

/// The value of an option, for one command or for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigSetting {
    /// The command whose table it is in; `None` at the top level.
    pub(crate) command: Option<String>,
    /// The option as on the command line, without its dashes.
    pub(crate) option: String,
    /// Its value, or its values if the option can be repeated.
    pub(crate) values: Vec<String>,
    /// Line and column in the file, from 1.
    pub(crate) place: (usize, usize),
}

/// The settings of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigFile {
    /// The file.
    pub(crate) path: PathBuf,
    /// In the order of the file.
    pub(crate) settings: Vec<ConfigSetting>,
}

impl ConfigFile {
    /// The file of this process's user: `$MENAGERIE_CONFIG`, or `menagerie/config.toml` in `$XDG_CONFIG_HOME` or
    /// `~/.config`. A missing file counts as empty, unless the variable names it.
    pub(crate) fn of_process() -> Result<Self, Failure> {
        let Some((path, named)) = path(|name| std::env::var_os(name).map(PathBuf::from)) else {
            return Ok(Self::default());
        };
        match std::fs::read(&path) {
            Ok(bytes) => Self::parse(&path, &prompt::utf8(bytes, &path.display().to_string())?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => {
                Ok(Self { path, settings: Vec::new() })
            }
            Err(error) => Err(Failure::about(path.display(), error)),
        }
    }

    /// The path of the file of this process's user, which need not exist.
    pub(crate) fn location() -> Option<PathBuf> {
        path(|name| std::env::var_os(name).map(PathBuf::from)).map(|(path, _)| path)
    }

    /// Reads the settings of a text.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let mut file = Self { path: path.to_owned(), settings: Vec::new() };
        let mut root = toml_span::parse(text)
            .map_err(|error| file.fault(position(text, error.span.start), "", &error.to_string()))?;
        let ValueInner::Table(table) = root.take() else { return Ok(file) };
        for (key, mut value) in table {
            let place = position(text, key.span.start);
            match value.take() {
                ValueInner::Table(options) => {
                    for (option, mut value) in options {
                        let place = position(text, option.span.start);
                        let command = Some(key.name.to_string());
                        file.add(command, option.name.to_string(), value.take(), place)?;
                    }
                }
                value => file.add(None, key.name.to_string(), value, place)?,
            }
        }
        file.settings.sort_by_key(|setting| setting.place);
        Ok(file)
    }

    fn add(
        &mut self,
        command: Option<String>,
        option: String,
        value: ValueInner<'_>,
        place: (usize, usize),
    ) -> Result<(), Failure> {
        let values = match value {
            ValueInner::Array(items) => items.into_iter().map(|mut item| scalar(item.take())).collect(),
            value => scalar(value).map(|value| vec![value]),
        };
        let Some(values) = values else {
            return Err(self.fault(
                place,
                &option,
                "expected a string, a number, true, false or a list of these",
            ));
        };
        self.settings.push(ConfigSetting { command, option, values, place });
        Ok(())
    }

    /// An error at a place in the file.
    pub(crate) fn fault(&self, (line, column): (usize, usize), subject: &str, reason: &str) -> Failure {
        Failure::Failed(format!("error: {}:{line}:{column}: {subject}\n  {reason}", self.path.display()))
    }
}

/// The file, and whether the variable names it.
fn path(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<(PathBuf, bool)> {
    if let Some(named) = variable(VARIABLE) {
        return Some((named, true)).filter(|(path, _)| !path.as_os_str().is_empty());
    }
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some((folder.join("menagerie").join("config.toml"), false))
}

/// A value as text, as on the command line.
fn scalar(value: ValueInner<'_>) -> Option<String> {
    match value {
        ValueInner::String(text) => Some(text.into_owned()),
        ValueInner::Integer(number) => Some(number.to_string()),
        ValueInner::Float(number) => Some(number.to_string()),
        ValueInner::Boolean(flag) => Some(flag.to_string()),
        ValueInner::Array(_) | ValueInner::Table(_) => None,
    }
}

/// Line and column of a byte, from 1.
fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    (line, before.rsplit('\n').next().unwrap_or_default().chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_with_their_places() {
        let text = "threads = 4\ntemp = 0.5\n\n[chat]\nsystem = \"Be brief.\"\nstop = [\"a\", \"b\"]\n";
        let file = ConfigFile::parse(Path::new("c.toml"), text).unwrap();
        let setting = |command: Option<&str>, option: &str, values: &[&str], place| ConfigSetting {
            command: command.map(str::to_owned),
            option: option.to_owned(),
            values: values.iter().map(ToString::to_string).collect(),
            place,
        };
        let expected = [
            setting(None, "threads", &["4"], (1, 1)),
            setting(None, "temp", &["0.5"], (2, 1)),
            setting(Some("chat"), "system", &["Be brief."], (5, 1)),
            setting(Some("chat"), "stop", &["a", "b"], (6, 1)),
        ];
        assert_eq!(file.settings, expected);
    }

    #[test]
    fn the_folder_follows_xdg_and_the_variable() {
        let find = |pairs: &[(&str, &str)]| {
            path(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value)))
        };
        let home = ("HOME", "/h");
        assert_eq!(find(&[home]), Some((PathBuf::from("/h/.config/menagerie/config.toml"), false)));
        let xdg = ("XDG_CONFIG_HOME", "/x");
        assert_eq!(find(&[home, xdg]), Some((PathBuf::from("/x/menagerie/config.toml"), false)));
        assert_eq!(find(&[home, (VARIABLE, "c.toml")]), Some((PathBuf::from("c.toml"), true)));
        assert_eq!(find(&[home, (VARIABLE, "")]), None);
        assert_eq!(find(&[]), None);
    }
}
