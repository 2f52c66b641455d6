//! The routes of the server.

mod answers;
mod fields;
mod models;
mod rerank;
mod state;
mod text;
mod vectors;

use crate::app::ServerApp;
use crate::fault::ApiFault;
use crate::http::gate;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use std::sync::Arc;

/// Routes below `/v1`, which also exist without it.
fn versioned() -> [(&'static str, MethodRouter<Arc<ServerApp>>); 6] {
    [
        ("/chat/completions", post(answers::chat)),
        ("/completions", post(answers::completion)),
        ("/embeddings", post(vectors::embeddings)),
        ("/rerank", post(rerank::rerank)),
        ("/models", get(models::list)),
        ("/models/{*name}", get(models::one)),
    ]
}

/// Routes without a version.
fn plain() -> [(&'static str, MethodRouter<Arc<ServerApp>>); 7] {
    [
        ("/tokenize", post(text::tokenize)),
        ("/detokenize", post(text::detokenize)),
        ("/apply-template", post(text::apply_template)),
        ("/health", get(state::health)),
        ("/livez", get(state::livez)),
        ("/readyz", get(state::health)),
        ("/metrics", get(state::metrics)),
    ]
}

/// All routes.
pub(crate) fn router(app: &Arc<ServerApp>) -> Router {
    let mut router = Router::new();
    for (path, methods) in versioned() {
        router = router.route(path, methods.clone()).route(&format!("/v1{path}"), methods);
    }
    for (path, methods) in plain() {
        router = router.route(path, methods);
    }
    router
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(from_fn_with_state(Arc::clone(app), gate))
        .with_state(Arc::clone(app))
}

async fn unknown(request: axum::extract::Request) -> Response {
    let versioned = versioned().map(|(path, _)| format!("/v1{path}"));
    let plain = plain().map(|(path, _)| path.to_owned());
    let routes: Vec<String> = versioned.into_iter().chain(plain).collect();
    let path = request.uri().path();
    let reason = format!("there is no route {path}; there are: {}", routes.join(", "));
    ApiFault::new(404, reason).with_code("unknown_route").into_response()
}

async fn other_method(request: axum::extract::Request) -> Response {
    let reason = format!("{} does not answer {}", request.uri().path(), request.method());
    ApiFault::new(405, reason).with_code("method_not_allowed").into_response()
}
