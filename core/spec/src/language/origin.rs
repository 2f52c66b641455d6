//! [`ValueOrigin`]: where a resolved value came from.

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum ValueOrigin {
    /// The unchanged value of these keys of the file.
    File {
        /// Canonical keys.
        keys: Vec<String>,
    },
    /// Computed from these keys, of which at least one was set by the user.
    Override {
        /// Canonical keys.
        keys: Vec<String>,
    },
    /// A formula of the spec (or the language) over these keys of the file.
    Formula {
        /// Canonical keys.
        keys: Vec<String>,
    },
    /// Determined by the tensors of the file.
    Tensors {
        /// Roles in question.
        roles: Vec<String>,
    },
    /// Written in the spec.
    Spec,
    /// An expression of the spec whose keys are not in the file.
    SpecDefault {
        /// Canonical keys that would override it.
        keys: Vec<String>,
    },
    /// A default of the language: neither spec nor file states it.
    Default,
}

impl ValueOrigin {
    /// Whether the spec or the language influences the value, so that it is not stated by a file.
    pub(crate) fn is_spec(&self) -> bool {
        match self {
            Self::Spec | Self::SpecDefault { .. } | Self::Default | Self::Formula { .. } => true,
            Self::File { .. } | Self::Override { .. } | Self::Tensors { .. } => false,
        }
    }
}

impl std::fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ValueOrigin::File { keys } => write!(f, "from the file ({})", keys.join(", ")),
            ValueOrigin::Formula { keys } => write!(f, "formula of the spec over {}", keys.join(", ")),
            ValueOrigin::Override { keys } => write!(f, "set by the user ({})", keys.join(", ")),
            ValueOrigin::Tensors { roles } => write!(f, "from the tensors ({})", roles.join(", ")),
            ValueOrigin::Spec => f.write_str("spec"),
            ValueOrigin::SpecDefault { keys } => write!(f, "spec; the file has no {}", keys.join(", ")),
            ValueOrigin::Default => f.write_str("default"),
        }
    }
}
