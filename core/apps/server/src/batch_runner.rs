//! [`run_batches`]: answers the lines of batches.

use crate::app::ServerApp;
use crate::batch_run::BatchRun;
use crate::stored::BatchFolder;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The most batches at once; others wait for them.
const MOST: usize = 4;
/// How often it is checked whether the server ends.
const POLL: Duration = Duration::from_millis(200);

/// Answers batches until the server ends. What is not answered then is answered by the next server with the same folder.
pub(crate) async fn run_batches(app: Arc<ServerApp>) {
    let Ok(folder) = app.batch_folder().map(Arc::clone) else { return };
    let (mut runs, mut running) = (JoinSet::new(), BTreeSet::new());
    while !app.is_draining.load(Ordering::Relaxed) {
        for (id, owner) in open_batches(&folder) {
            // The results of a removed key could not be read.
            if running.len() < MOST
                && !running.contains(&id)
                && let Some(client) = app.client(&owner)
            {
                running.insert(id.clone());
                let run = BatchRun::new(Arc::clone(&app), Arc::clone(&folder), id.clone(), (owner, client));
                runs.spawn(async move {
                    run.run().await;
                    id
                });
            }
        }
        tokio::select! {
            Some(ended) = runs.join_next() => {
                // A run that panicked begins again with the next server.
                if let Ok(id) = ended {
                    running.remove(&id);
                }
            }
            () = folder.changed.notified() => {}
            () = sleep(POLL) => {}
        }
    }
    // The requests of their lines are cancelled with them.
    runs.shutdown().await;
}

/// The batches that have not ended, the oldest first, with their owners.
fn open_batches(folder: &BatchFolder) -> Vec<(String, String)> {
    let is_open = |batch: &Value| {
        matches!(batch["status"].as_str(), Some("validating" | "in_progress" | "finalizing" | "cancelling"))
    };
    let open = folder.batches.those(is_open).into_iter();
    open.map(|batch| (batch.id().to_owned(), batch.owner)).collect()
}
