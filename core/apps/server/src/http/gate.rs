//! The gate that every request passes.

use super::access::{AccessRecord, PeerAddress};
use super::{host, origin};
use crate::app::ServerApp;
use crate::deadline::RequestDeadline;
use crate::fault::ApiFault;
use crate::fault_format::FaultFormat;
use crate::observer::RequestAnswers;
use crate::page_file;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The number of the key of a client, from 1; 0 if the server has no keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientKey(pub(crate) u64);

/// The id of a request.
#[derive(Clone, Debug)]
pub(crate) struct HttpRequestId(pub(crate) String);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Routes that need no key: health checks have none.
const OPEN: [&str; 3] = ["/health", "/livez", "/readyz"];

/// Checks a request, passes it on, and records its answer.
pub(crate) async fn gate(State(app): State<Arc<ServerApp>>, mut request: Request, next: Next) -> Response {
    let id = given_id(request.headers()).unwrap_or_else(|| app.id("req_"));
    let mut record = AccessRecord::new(&app, id.clone(), request.headers());
    record.method = request.method().to_string();
    record.path = request.uri().path().to_owned();
    let format = FaultFormat::of(request.uri().path(), request.headers());
    request.extensions_mut().insert(HttpRequestId(id.clone()));
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    record.route = route.unwrap_or_else(|| "other".to_owned());
    record.peer = request.extensions().get::<PeerAddress>().map(|peer| peer.0);
    let named = host::check(request.headers(), &app.options.hosts);
    let has_own_name = named.is_ok() || !app.options.keys.is_empty();
    // Where other machines reach the server, it has names that it does not know.
    let named = named.or_else(|fault| if app.is_local { Err(fault) } else { Ok(()) });
    let allowed = named.and_then(|()| origin::allowed(request.headers(), &app.options.origins, has_own_name));
    let (origin, answer) = match allowed {
        Err(fault) => (None, Err(fault)),
        Ok(Some(origin)) if is_preflight(&request) => {
            (Some(origin), Ok(origin::preflight(request.headers())))
        }
        Ok(origin) => (origin, admit(&app, request, next, &mut record).await),
    };
    let mut response = answer.unwrap_or_else(IntoResponse::into_response);
    format.write(&mut response, &id);
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    if let Some(parent) = record.trace_parent() {
        response.headers_mut().insert(TRACE_PARENT, parent);
    }
    if let Some(origin) = origin {
        origin::mark(&mut response, origin);
    }
    record.follow(response)
}

async fn admit(
    app: &Arc<ServerApp>,
    mut request: Request,
    next: Next,
    record: &mut AccessRecord,
) -> Result<Response, ApiFault> {
    let deadline = RequestDeadline::of(request.headers(), app.options.request_time)?;
    let path = request.uri().path();
    let is_open = OPEN.contains(&path) || page_file::is_file(path);
    if !app.options.keys.is_empty() && !is_open {
        let number = given_key(request.headers()).and_then(|key| app.options.keys.number(key));
        let Some(number) = number else {
            let reason =
                "the API key is missing or wrong; send it as Authorization: Bearer KEY, or as x-api-key";
            return Err(ApiFault::new(401, reason).with_code("invalid_api_key"));
        };
        record.key = Some(number);
        request.extensions_mut().insert(ClientKey(number));
    }
    if app.is_draining.load(Ordering::Relaxed) && request.method() == Method::POST {
        return Err(ApiFault::shutting_down());
    }
    RequestDeadline::bound(deadline, RequestAnswers::scope(record.answers(), next.run(request))).await
}

/// The id that a client gave its request.
fn given_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(&REQUEST_ID)?.to_str().ok()?;
    let fits = (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| id.to_owned())
}

/// The key of a client.
fn given_key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    bearer.or_else(|| headers.get("x-api-key")?.to_str().ok().map(str::trim))
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}
