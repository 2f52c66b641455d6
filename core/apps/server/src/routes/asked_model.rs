//! [`AskedModel`]: the model that a request names, and an answer that begins when it is in memory.

use super::fields::list_ignored;
use crate::app::ServerApp;
use crate::fault::ApiFault;
use crate::http::{StreamFaults, stream_after_load};
use crate::model::EngineModel;
use crate::slots::SlotAnswer;
use axum::response::Response;
use std::sync::Arc;

/// The model that a request names.
pub(super) struct AskedModel {
    name: String,
    /// Of a stream of events: how its errors are written.
    stream: Option<StreamFaults>,
    /// Fields without effect that are known before the model is.
    ignored: Vec<String>,
}

impl AskedModel {
    /// The model of this name, for an answer that is a stream of events if there is a way to write its errors.
    pub(super) fn new(name: String, stream: Option<StreamFaults>, ignored: &[String]) -> Self {
        Self { name, stream, ignored: ignored.to_vec() }
    }

    /// The answer that `begin` makes with the model. A stream of events begins at once, also while the model is opened.
    pub(super) async fn answer<F, R>(self, app: &Arc<ServerApp>, begin: F) -> Result<Response, ApiFault>
    where
        F: FnOnce(Arc<ServerApp>, Arc<EngineModel>) -> R + Send + 'static,
        R: Future<Output = Result<Response, ApiFault>> + Send + 'static,
    {
        let Self { name, stream, ignored } = self;
        let app = Arc::clone(app);
        match (app.models.get(&name)?, stream) {
            (SlotAnswer::Ready(model), _) => begin(app, model).await,
            (SlotAnswer::Loading(loading), Some(faults)) => {
                let answer = async move {
                    let model = app.models.ready(&name).await?;
                    begin(app, model).await
                };
                let mut response = stream_after_load(loading, faults, answer);
                list_ignored(&mut response, &ignored);
                Ok(response)
            }
            (SlotAnswer::Loading(_), None) => {
                let model = app.models.ready(&name).await?;
                begin(app, model).await
            }
        }
    }
}
