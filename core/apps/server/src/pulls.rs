//! [`PullTable`]: the downloads that run. Clients that ask for the same model wait for one download.

use crate::fault::ApiFault;
use crate::puller::{ModelPuller, PullEnd, PullMeter, PullState};
use crate::worker::said;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// The most downloads at once.
const MOST: usize = 4;

/// The downloads that run, by the name of the model.
#[derive(Default)]
pub(crate) struct PullTable(Mutex<BTreeMap<String, Weak<watch::Sender<PullState>>>>);

impl PullTable {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Weak<watch::Sender<PullState>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The download of a model, which begins if none runs. It goes on as long as somebody has a receiver of it.
    pub(crate) fn join(
        &self,
        name: &str,
        puller: &Arc<dyn ModelPuller>,
    ) -> Result<watch::Receiver<PullState>, ApiFault> {
        let mut running = self.lock();
        running.retain(|_, state| state.strong_count() > 0);
        if let Some(state) = running.get(name).and_then(Weak::upgrade) {
            let receiver = state.subscribe();
            // One that nobody wanted is about to end.
            if receiver.borrow().end.is_none() {
                return Ok(receiver);
            }
        }
        if running.len() >= MOST && !running.contains_key(name) {
            let reason = format!("{MOST} models are being downloaded; wait until one is there");
            return Err(ApiFault::new(429, reason)
                .with_code("too_many_downloads")
                .with_retry_after(Duration::from_secs(5)));
        }
        let (state, receiver) = watch::channel(PullState::default());
        let state = Arc::new(state);
        running.insert(name.to_owned(), Arc::downgrade(&state));
        let (puller, wanted) = (Arc::clone(puller), name.to_owned());
        let work = move || {
            let meter = PullMeter::new(Arc::clone(&state));
            let pulled = catch_unwind(AssertUnwindSafe(|| puller.pull(&wanted, &meter)));
            let end = match pulled {
                Ok(Ok(())) => PullEnd::Done,
                Ok(Err(_)) if !meter.is_wanted() => PullEnd::Unwanted,
                Ok(Err(reason)) => PullEnd::Failed(reason.to_string()),
                Err(panic) => PullEnd::Failed(format!("the download panicked: {}", said(&*panic))),
            };
            state.send_modify(|state| state.end = Some(end));
        };
        let thread = std::thread::Builder::new().name("menagerie-pull".to_owned()).spawn(work);
        thread.map_err(|error| ApiFault::new(500, format!("cannot start the download: {error}")))?;
        Ok(receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::LibraryError;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    /// Downloads one byte for each number that it receives, until there are no more.
    struct Slow {
        begun: AtomicUsize,
        bytes: Mutex<mpsc::Receiver<u64>>,
    }

    impl ModelPuller for Slow {
        fn pull(&self, name: &str, meter: &PullMeter) -> Result<(), LibraryError> {
            self.begun.fetch_add(1, Ordering::SeqCst);
            if name == "panics" {
                panic!("boom");
            }
            meter.step(name, Some(2), 0);
            while let Ok(bytes) = self.bytes.lock().unwrap().recv() {
                meter.advance(bytes);
                if !meter.is_wanted() {
                    return Err("nobody waits".into());
                }
            }
            Ok(())
        }
    }

    async fn ended(mut receiver: watch::Receiver<PullState>) -> PullEnd {
        receiver.wait_for(|state| state.end.is_some()).await.unwrap().end.clone().unwrap()
    }

    #[tokio::test]
    async fn two_clients_wait_for_one_download_and_nobody_ends_it() {
        let (send, bytes) = mpsc::channel();
        let slow = Arc::new(Slow { begun: AtomicUsize::new(0), bytes: Mutex::new(bytes) });
        let puller: Arc<dyn ModelPuller> = Arc::clone(&slow) as _;
        let table = PullTable::default();
        let first = table.join("m", &puller).unwrap();
        let mut second = table.join("m", &puller).unwrap();
        drop(first);
        send.send(1).unwrap();
        assert_eq!(second.wait_for(|state| state.done == 1).await.unwrap().total, Some(2));
        // Nobody waits any more: it ends at its next byte, and the next client begins another one.
        drop(second);
        send.send(1).unwrap();
        while table.lock().get("m").and_then(Weak::upgrade).is_some() {
            tokio::task::yield_now().await;
        }
        let third = table.join("m", &puller).unwrap();
        drop(send);
        assert_eq!((ended(third).await, slow.begun.load(Ordering::SeqCst)), (PullEnd::Done, 2));
        let reason = ended(table.join("panics", &puller).unwrap()).await;
        assert_eq!(reason, PullEnd::Failed("the download panicked: boom".to_owned()));
    }
}
