//! The certificates of a cluster: one authority in a folder, and a folder with certificate and key for each node.
//!
//! ```text
//! DIR/ca.crt  DIR/ca.key                      the authority; its key stays on the machine of the operator
//! DIR/stage-1/{ca.crt,tls.crt,tls.key}        what the machine of stage-1 gets, named as in a Kubernetes secret
//! ```
//!
//! The common name of a certificate is that of its role ([`NodeRole::common_name`]); the rules of access name it. The name
//! of the node is its organizational unit. All certificates of an authority belong to one cluster.

mod authority;
mod certificate;
mod day;
mod error;
mod key_folder;
mod names;
mod role;

pub use certificate::Certificate;
pub use day::Day;
pub use error::CertificateError;
pub use key_folder::{CertificateState, Issue, KeyFolder, KeyRequest, ListedCertificate};
pub use role::NodeRole;

pub(crate) use names::check_host;

/// File names in the folder of a node; those of a Kubernetes secret with a certificate.
pub(crate) const AUTHORITY_FILE: &str = "ca.crt";
pub(crate) const CERTIFICATE_FILE: &str = "tls.crt";
pub(crate) const KEY_FILE: &str = "tls.key";
