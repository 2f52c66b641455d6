//! [`HttpCounters`]: answers by route and status.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// Counts of answers.
#[derive(Debug, Default)]
pub(crate) struct HttpCounters(Mutex<BTreeMap<(String, u16), u64>>);

impl HttpCounters {
    /// Counts an answer. `route` is one of the routes that there are, and never a path that a client made up.
    pub(crate) fn count(&self, route: &str, status: u16) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((route.to_owned(), status)).or_default() += 1;
    }

    /// Adds them to a text for Prometheus.
    pub(crate) fn write(&self, out: &mut String) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.push_str("# HELP menagerie_http_requests_total answers over HTTP; status 499: the client left before the end\n");
        out.push_str("# TYPE menagerie_http_requests_total counter\n");
        for ((route, status), count) in counts.iter() {
            // Writing to a string cannot fail. Routes have no characters that need an escape.
            let _ = writeln!(
                out,
                "menagerie_http_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}"
            );
        }
    }
}
