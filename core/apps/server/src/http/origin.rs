//! Web pages of other servers: refused, unless they are allowed (`--cors`).

use crate::fault::ApiFault;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;

/// Headers that scripts of other pages may read.
const EXPOSED: &str =
    "x-request-id, request-id, x-menagerie-ignored, x-should-retry, retry-after, retry-after-ms";

/// The origin of the page that sends a request, if it is allowed; `None` for other clients.
///
/// A browser sends requests of any page to any server, and only hides the answers. So requests of pages that are not
/// allowed are refused before they cost anything.
///
/// The server's own page needs no permission. Whether a page is its own is known only if `has_own_name`: the name in the
/// request is one of this server, and not one that was rebound to it.
pub(super) fn allowed(
    headers: &HeaderMap,
    origins: &[String],
    has_own_name: bool,
) -> Result<Option<HeaderValue>, ApiFault> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(None) };
    if origins.iter().any(|known| known == "*" || known.as_bytes() == origin.as_bytes()) {
        return Ok(Some(origin.clone()));
    }
    if has_own_name && is_own(headers, origin) {
        return Ok(None);
    }
    let shown = String::from_utf8_lossy(origin.as_bytes());
    let reason =
        format!("web pages of {shown} may not use this server; start it with --cors {shown} to allow it");
    Err(ApiFault::new(403, reason).with_code("origin_not_allowed"))
}

/// Whether an origin is that of the server itself: a scheme and the name that the request was sent to.
fn is_own(headers: &HeaderMap, origin: &HeaderValue) -> bool {
    let (Some(host), Ok(origin)) = (headers.get(header::HOST), origin.to_str()) else { return false };
    let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    name.is_some_and(|name| host.as_bytes().eq_ignore_ascii_case(name.as_bytes()))
}

/// The answer to the question whether a page may send a request.
pub(super) fn preflight(asked: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if let Some(wanted) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    response
}

/// Lets the page of an allowed origin read an answer.
pub(super) fn mark(response: &mut Response, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}
