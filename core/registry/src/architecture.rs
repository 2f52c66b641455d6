//! [`GGUFArchitecture`]: the name of an architecture in files; [`Architecture`]: an architecture as a crate registers it.

use crate::error::RegistryError;
use menagerie_entries::Entry;
use std::borrow::Cow;
use std::fmt;

/// The value of `general.architecture`. The set of names is open; architectures are looked up by name.
///
/// The crate of each built-in architecture has a constant of this type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GGUFArchitecture(Cow<'static, str>);

impl GGUFArchitecture {
    /// A name that is known to be valid, for constants.
    pub const fn from_static(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// Validates a name from a file: 1 to 64 characters of `a-z`, `A-Z`, `0-9`, `-`, `_` and `.`.
    ///
    /// # Errors
    /// [`RegistryError::InvalidName`].
    pub fn new(name: &str) -> Result<Self, RegistryError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            let shown: String = name.chars().take(64).collect();
            return Err(RegistryError::InvalidName(shown.escape_debug().to_string()));
        }
        Ok(Self(Cow::Owned(name.to_owned())))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GGUFArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A built-in architecture, as its crate registers it.
#[derive(Clone, Debug)]
pub struct Architecture {
    /// Its name in files.
    pub name: GGUFArchitecture,
    /// Its spec, TOML.
    pub spec: &'static str,
    /// The crate or plugin that registers it, for listings.
    pub registered_by: &'static str,
}

impl Entry for Architecture {
    const FAMILY: &'static str = "architecture";

    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn registered_by(&self) -> &str {
        self.registered_by
    }
}
