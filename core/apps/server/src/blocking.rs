//! Long computations, on threads apart from those that serve connections.

use crate::fault::ApiFault;

/// Runs work on a thread for long work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiFault> {
    tokio::task::spawn_blocking(work).await.map_err(|error| match error.is_panic() {
        true => ApiFault::of_panic("a thread that read the request panicked"),
        false => ApiFault::shutting_down(),
    })
}
