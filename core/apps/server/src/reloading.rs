//! The server reads its files again: on SIGHUP and on `POST /admin/reload`.

use crate::api_keys::ApiKeys;
use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::event_log::EventLog;
use crate::fault::ApiFault;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

impl ServerApp {
    /// Reads keys, certificates, specs, plugins and the list of models again. If one of them has a fault, nothing changes,
    /// except that the models may have been read already. Returns what changed.
    pub(crate) async fn reload(self: &Arc<Self>) -> Result<Value, ApiFault> {
        let _only_one = self.reloading.lock().await;
        let app = Arc::clone(self);
        let (keys, tls) = blocking(move || app.read_files()).await??;
        let models = self.models.reload().await?;
        let keys = keys.map(|keys| {
            let (added, removed) = self.options.keys.replace(&keys);
            json!({ "added": added, "removed": removed })
        });
        let has_tls = tls.is_some();
        if let (Some(server), Some(acceptor)) = (&self.tls, tls) {
            server.replace(acceptor);
        }
        Ok(json!({
            "models": { "added": models.added, "removed": models.removed, "changed": models.changed },
            "specs": models.specs, "plugins": models.plugins, "keys": keys, "tls": has_tls,
        }))
    }

    /// The keys and the certificates in the files.
    fn read_files(&self) -> Result<(Option<ApiKeys>, Option<TlsAcceptor>), ApiFault> {
        let failed = |reason: String| {
            ApiFault::new(500, format!("nothing was reloaded: {reason}")).with_code("reload_failed")
        };
        let read = |path: &std::path::PathBuf| {
            let text = std::fs::read_to_string(path)
                .map_err(|error| failed(format!("{}: {error}", path.display())))?;
            let keys = ApiKeys::parse(&text);
            match keys.is_empty() {
                true => Err(failed(format!("{}: the file has no API keys", path.display()))),
                false => Ok(keys),
            }
        };
        let keys = self.options.key_file.as_ref().map(read).transpose()?;
        let tls = self.tls.as_ref().map(|tls| tls.read().map_err(|error| failed(error.to_string())));
        Ok((keys, tls.transpose()?))
    }

    /// Reloads, and logs what changed. An error is logged in any case.
    pub(crate) async fn reload_and_log(self: Arc<Self>) {
        let log = EventLog::of(&self.options);
        match self.reload().await {
            Ok(change) => log.event("reloaded", &change),
            Err(fault) => log.error("reload_failed", &fault.message),
        }
    }
}
