//! The threads of zenoh that read and write a link.
//!
//! The TLS links of zenoh 1.10.2 share one stream between the thread that reads and the one that writes, without a common
//! lock: links that carry much in both directions break. One thread for both avoids it. Zenoh reads this setting from the
//! environment only, once in a process.

use crate::error::ClusterError;

/// The variable of the environment that a process needs before it joins a cluster with certificates, and its value: one thread
/// reads and writes a link.
pub const LINK_THREADS: [&str; 2] = ["ZENOH_RUNTIME", "(rx: (handover: tx))"];

/// Whether `value` of the variable lets one thread read and write.
fn is_shared(value: &str) -> bool {
    let value: String = value.split_whitespace().collect();
    value.contains("rx:(handover:tx)")
}

/// Checks that one thread reads and writes a link.
///
/// # Errors
/// The environment says something else.
pub(crate) fn check() -> Result<(), ClusterError> {
    let [name, expected] = LINK_THREADS;
    let found = std::env::var(name).unwrap_or_default();
    match is_shared(&found) {
        true => Ok(()),
        false => Err(ClusterError::Options(format!(
            "links with certificates need the variable {name}=\"{expected}\", found \"{}\": zenoh 1.10.2 reads and writes a \
             link with TLS on two threads at once, which breaks it. Set the variable before the program starts",
            found.escape_debug()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shared_thread_is_accepted() {
        for shared in [LINK_THREADS[1], "(rx:(handover:tx))", "(tx: (worker_threads: 2), rx: (handover: tx))"]
        {
            assert!(is_shared(shared), "{shared}");
        }
        for other in ["", "()", "(rx: (worker_threads: 2))", "(tx: (handover: rx))"] {
            assert!(!is_shared(other), "{other}");
        }
    }
}
