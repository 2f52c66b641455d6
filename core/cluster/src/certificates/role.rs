//! [`NodeRole`]: what a node of a cluster does, which determines what it may do.

use std::fmt;
use std::str::FromStr;

/// What a node of a cluster does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NodeRole {
    /// Computes some layers of a model.
    Stage,
    /// Has the tokenizer and the sampler, and sends requests through the stages.
    Head,
    /// Looks at the cluster and drains replicas; sees no data of requests.
    Operator,
}

impl NodeRole {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Stage, Self::Head, Self::Operator];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stage => "stage",
            Self::Head => "head",
            Self::Operator => "operator",
        }
    }

    /// The common name of its certificates. It has no dot, so no public authority may issue a certificate with it; this
    /// matters because zenoh also accepts the certificates of public authorities when it connects.
    pub fn common_name(self) -> &'static str {
        match self {
            Self::Stage => "menagerie-stage",
            Self::Head => "menagerie-head",
            Self::Operator => "menagerie-operator",
        }
    }

    /// The role with this common name.
    pub fn from_common_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.common_name() == name)
    }
}

impl fmt::Display for NodeRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for NodeRole {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or_else(|| format!("unknown role `{text}`: expected stage, head or operator"))
    }
}
