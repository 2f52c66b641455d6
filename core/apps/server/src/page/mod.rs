//! The web page: its files, and the routes that only it uses.

mod architectures;
mod html_writer;
mod markdown;
mod model_tensors;
mod page_state;
mod spec_check;

use crate::app::ServerApp;
use crate::page_file;
use axum::Router;
use axum::routing::{MethodRouter, get, post};
use std::sync::Arc;

fn routes() -> [(&'static str, MethodRouter<Arc<ServerApp>>); 8] {
    [
        ("/", get(page_file::file)),
        ("/page/{file}", get(page_file::file)),
        ("/page/state", get(page_state::state)),
        ("/page/markdown", post(markdown::markdown)),
        ("/page/architectures", get(architectures::list)),
        ("/page/architectures/{id}", get(architectures::one)),
        ("/page/differences/{first}/{second}", get(architectures::differences)),
        ("/page/tensors/{*model}", get(model_tensors::tensors)),
    ]
}

/// Adds the routes of the page.
pub(crate) fn add(mut router: Router<Arc<ServerApp>>) -> Router<Arc<ServerApp>> {
    for (path, methods) in routes() {
        router = router.route(path, methods);
    }
    router.route(SPEC_CHECK, post(spec_check::check))
}

const SPEC_CHECK: &str = "/specs/check";

/// The routes that are also for others.
pub(crate) fn paths() -> [String; 1] {
    [SPEC_CHECK.to_owned()]
}
