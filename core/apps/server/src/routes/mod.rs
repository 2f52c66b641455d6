//! The routes of the server.

mod admin;
mod answers;
mod asked_model;
mod batches;
mod fields;
mod file_content;
mod files;
mod lens;
mod line;
mod list_page;
mod llama;
mod messages;
mod models;
mod ollama;
mod owned_records;
mod requester;
mod rerank;
mod responses;
mod state;
mod text;
mod vectors;

pub(crate) use line::{BatchEndpoint, line_answer};
pub(crate) use requester::Requester;

use crate::app::ServerApp;
use crate::fault::ApiFault;
use crate::http::gate;
use crate::page;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use std::sync::Arc;

/// Routes below `/v1`, which also exist without it.
fn versioned() -> [(&'static str, MethodRouter<Arc<ServerApp>>); 17] {
    [
        ("/chat/completions", post(answers::chat)),
        ("/completions", post(answers::completion)),
        ("/responses", post(responses::create)),
        ("/messages", post(messages::create)),
        ("/messages/count_tokens", post(messages::count_tokens)),
        ("/embeddings", post(vectors::embeddings)),
        ("/rerank", post(rerank::rerank)),
        // A file is bounded while it is written.
        ("/files", get(files::list).post(files::create).layer(DefaultBodyLimit::disable())),
        ("/files/{id}", get(files::one).delete(files::delete)),
        ("/files/{id}/content", get(files::content)),
        ("/batches", get(batches::list).post(batches::create)),
        ("/batches/{id}", get(batches::one)),
        ("/batches/{id}/cancel", post(batches::cancel)),
        ("/models", get(models::list)),
        ("/models/{*name}", get(models::one)),
        ("/chat/completions/input_tokens", post(answers::chat_tokens)),
        ("/responses/input_tokens", post(responses::input_tokens)),
    ]
}

/// Routes without a version.
fn plain() -> [(&'static str, MethodRouter<Arc<ServerApp>>); 21] {
    [
        ("/admin/reload", post(admin::reload)),
        ("/tokenize", post(text::tokenize)),
        ("/detokenize", post(text::detokenize)),
        ("/apply-template", post(text::apply_template)),
        ("/infill", post(llama::infill)),
        ("/lens", post(lens::lens)),
        ("/props", get(llama::props)),
        ("/slots", get(llama::slots)),
        ("/lora-adapters", get(llama::lora_adapters).post(llama::set_lora_adapters)),
        ("/api/version", get(ollama::version)),
        ("/api/tags", get(ollama::tags)),
        ("/api/ps", get(ollama::ps)),
        ("/api/show", post(ollama::show)),
        ("/api/chat", post(ollama::chat)),
        ("/api/generate", post(ollama::generate)),
        ("/api/embed", post(ollama::embed)),
        ("/api/pull", post(ollama::pull)),
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
    page::add(router)
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(from_fn_with_state(Arc::clone(app), gate))
        .with_state(Arc::clone(app))
}

async fn unknown(request: axum::extract::Request) -> Response {
    let versioned = versioned().map(|(path, _)| format!("/v1{path}"));
    let plain = plain().map(|(path, _)| path.to_owned());
    let routes: Vec<String> = versioned.into_iter().chain(plain).chain(page::paths()).collect();
    let path = request.uri().path();
    let reason = format!("there is no route {path}; there are: {}", routes.join(", "));
    ApiFault::new(404, reason).with_code("unknown_route").into_response()
}

async fn other_method(request: axum::extract::Request) -> Response {
    let reason = format!("{} does not answer {}", request.uri().path(), request.method());
    ApiFault::new(405, reason).with_code("method_not_allowed").into_response()
}
