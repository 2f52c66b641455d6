//! [`KeyOptions`]: options about the keys of a file.

use menagerie_engine::setters;
use menagerie_spec::MetadataValue;
use std::collections::BTreeMap;

/// What a user says about the keys of a file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KeyOptions {
    /// Keys accepted although nothing understands them.
    pub accept_unread: Vec<String>,
    /// Canonical keys laid over the file's.
    pub set: BTreeMap<String, MetadataValue>,
}

setters! { KeyOptions:
    with_accept_unread(accept_unread: Vec<String>),
    with_set(set: BTreeMap<String, MetadataValue>),
}
