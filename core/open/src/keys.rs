//! [`KeyOptions`]: options about the metadata keys of a file.

use menagerie_engine::setters;
use menagerie_spec::MetadataValue;
use std::collections::BTreeMap;

/// Options about the metadata keys of a file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KeyOptions {
    /// Keys that the file may have although nothing reads them; every load reports them.
    pub accept_unread: Vec<String>,
    /// Values that replace those of the file, by canonical key; every load reports them.
    pub set: BTreeMap<String, MetadataValue>,
    /// Whether the head for further tokens is loaded, for drafts ([`menagerie_engine::ModelHead`]): the `[nextn]` of the spec.
    /// A spec or a file without one is then an error.
    pub nextn: bool,
}

setters! { KeyOptions:
    with_accept_unread(accept_unread: Vec<String>),
    with_set(set: BTreeMap<String, MetadataValue>),
    with_nextn(nextn: bool),
}
