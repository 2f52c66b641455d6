//! [`ValueOrigin`]: where a resolved value came from.

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum ValueOrigin {
    /// The value of these keys, which the file has, as it stands there.
    File {
        /// Canonical keys.
        keys: Vec<String>,
    },
    /// Computed from these keys, of which at least one was set by hand.
    Override {
        /// Canonical keys.
        keys: Vec<String>,
    },
    /// The spec's formula (or the language's) over these keys, which the file has.
    Formula {
        /// Canonical keys.
        keys: Vec<String>,
    },
    /// Decided by which tensors the file has.
    Tensors {
        /// Roles asked for.
        roles: Vec<String>,
    },
    /// Written in the spec.
    Spec,
    /// An expression of the spec whose keys the file does not have.
    SpecDefault {
        /// Canonical keys that could have said otherwise.
        keys: Vec<String>,
    },
    /// Default of the language: neither spec nor file says it.
    Default,
}

impl ValueOrigin {
    /// Whether the spec or the language has a say in the value: no file says it as it is.
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
