//! Errors in Anthropic's format.

use crate::fault::ApiFault;
use serde_json::{Value, json};

/// The status of a full queue, which is not in HTTP's list.
const OVERLOADED: u16 = 529;

/// The status of an error: a full queue has one of its own.
pub(crate) fn anthropic_status(fault: &ApiFault) -> u16 {
    if fault.status == 429 { OVERLOADED } else { fault.status }
}

/// The body of an error.
pub(crate) fn anthropic_error(fault: &ApiFault, request_id: &str) -> Value {
    let kind = match anthropic_status(fault) {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        OVERLOADED => "overloaded_error",
        ..500 => "invalid_request_error",
        _ => "api_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": fault.message }, "request_id": request_id })
}
