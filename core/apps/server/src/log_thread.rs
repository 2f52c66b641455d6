//! [`LogThread`]: the thread that writes the log. A log that is not read fast enough loses lines, and delays no request.

use crate::event_log::EventLog;
use crate::options::ServerOptions;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

/// The most lines that wait to be written.
const LINES: usize = 4096;
/// How often a full queue is tried again at the end.
const POLL: Duration = Duration::from_millis(10);

/// What the thread receives.
enum LogMessage {
    Line(String),
    End,
}

/// The thread that writes the log of a server.
pub(crate) struct LogThread {
    sender: SyncSender<LogMessage>,
    /// It ends with the thread.
    running: Receiver<()>,
}

impl LogThread {
    /// Starts the thread, and sends the log of these options through it. Where lines are lost, the log says how many
    /// (`lost_lines`).
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(options: &mut ServerOptions) -> io::Result<Self> {
        let (sender, messages) = sync_channel(LINES);
        let (alive, running) = channel::<()>();
        let (log, sink) = (EventLog::of(options), Arc::clone(&options.sink));
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        Builder::new().name("menagerie-log".to_owned()).spawn(move || {
            let _alive = alive;
            for message in messages {
                let lost = counted.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    log.event("lost_lines", &lost.into());
                }
                match message {
                    LogMessage::Line(line) => sink(&line),
                    LogMessage::End => break,
                }
            }
        })?;
        let queue = sender.clone();
        options.sink = Arc::new(move |line| {
            if queue.try_send(LogMessage::Line(line.to_owned())).is_err() {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Self { sender, running })
    }

    /// Ends the thread after the lines so far, and waits for it, but not longer than this.
    pub(crate) fn end(self, time: Duration) {
        let end = Instant::now() + time;
        while let Err(TrySendError::Full(_)) = self.sender.try_send(LogMessage::End) {
            if Instant::now() >= end {
                return;
            }
            sleep(POLL);
        }
        // An error says that the thread has ended, or that the time is over.
        let _ = self.running.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LogFormat;
    use std::sync::Mutex;

    /// If the log is not read, lines are lost and no request is delayed; the next line says how many were lost.
    #[test]
    fn a_log_that_is_not_read_delays_no_request() {
        let (written, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(())));
        let (lines, waiting) = (Arc::clone(&written), Arc::clone(&gate));
        let sink = move |line: &str| {
            let _open = waiting.lock().unwrap();
            lines.lock().unwrap().push(line.to_owned());
        };
        let mut options =
            ServerOptions { log: LogFormat::Text, sink: Arc::new(sink), ..ServerOptions::default() };
        let writer = LogThread::start(&mut options).unwrap();
        let closed = gate.lock().unwrap();
        (0..2 * LINES).for_each(|number| (options.sink)(&number.to_string()));
        drop(closed);
        writer.end(Duration::from_secs(60));
        let written = written.lock().unwrap();
        assert!(written.iter().any(|line| line.starts_with("lost_lines: ")), "{:?}", written.last());
        assert!((LINES..2 * LINES).contains(&written.len()), "{}", written.len());
        assert!(written.contains(&"0".to_owned()), "{:?}", written.first());
    }
}
