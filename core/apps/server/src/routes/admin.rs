//! `/admin/reload`: reads keys, certificates, specs, plugins and the list of models again.

use crate::app::ServerApp;
use crate::fault::ApiFault;
use crate::http::{PeerAddress, json_answer};
use axum::extract::{Request, State};
use axum::response::Response;
use std::sync::Arc;

pub(super) async fn reload(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    // With keys, the gate has asked for one.
    let peer = request.extensions().get::<PeerAddress>();
    let is_near = peer.is_some_and(|peer| peer.0.ip().to_canonical().is_loopback());
    if app.options.keys.is_empty() && !is_near {
        let reason = "the server has no API keys, so only this machine may reload it; send SIGHUP, or use --api-key-file";
        return Err(ApiFault::new(403, reason).with_code("not_allowed"));
    }
    Ok(json_answer(&app.reload().await?))
}
