//! [`StreamFaults`]: errors of a stream that has no answer yet.

use super::gate::HttpRequestId;
use crate::fault::ApiFault;
use crate::fault_format::FaultFormat;
use axum::extract::Request;

/// How the errors of a stream are written that has no answer yet.
pub(crate) struct StreamFaults {
    format: FaultFormat,
    request_id: String,
}

impl StreamFaults {
    /// Those of a request.
    pub(crate) fn of(request: &Request) -> Self {
        let request_id =
            request.extensions().get::<HttpRequestId>().map(|id| id.0.clone()).unwrap_or_default();
        Self { format: FaultFormat::of(request.uri().path(), request.headers()), request_id }
    }

    /// The id of the request.
    pub(crate) fn request_id(&self) -> &str {
        &self.request_id
    }

    /// An error as the end of the stream.
    pub(crate) fn event(&self, fault: &ApiFault) -> String {
        self.format.event(fault, &self.request_id)
    }
}
