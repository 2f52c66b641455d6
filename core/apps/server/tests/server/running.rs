//! A server that runs in this process.

use crate::shelf::Shelf;
use menagerie_server::{LogFormat, ModelLibrary, ServedModel, Server, ServerOptions, ServerSocket};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A server. It ends when this is dropped.
pub struct Running {
    pub address: SocketAddr,
    pub log: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn new(models: Vec<ServedModel>) -> Self {
        Self::with(models, |_| {})
    }

    pub fn with(models: Vec<ServedModel>, set: impl FnOnce(&mut ServerOptions)) -> Self {
        Self::start(models, None, set)
    }

    pub fn with_library(shelf: &Arc<Shelf>, set: impl FnOnce(&mut ServerOptions)) -> Self {
        Self::start(Vec::new(), Some(Arc::clone(shelf) as _), set)
    }

    fn start(
        models: Vec<ServedModel>,
        library: Option<Arc<dyn ModelLibrary>>,
        set: impl FnOnce(&mut ServerOptions),
    ) -> Self {
        let mut options = ServerOptions::default();
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&log);
        options.log = LogFormat::Json;
        options.sink = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
        options.drain = Duration::from_secs(10);
        set(&mut options);
        let socket = ServerSocket::bind("127.0.0.1:0", &options).unwrap();
        let server = match library {
            Some(library) => Server::start_with(socket, models, Some(library), options),
            None => Server::start(socket, models, options),
        };
        let reload = Arc::default();
        let server = server.unwrap().with_reload(Arc::clone(&reload));
        let (address, stop) = (server.address(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || server.run(&flag).unwrap()));
        Self { address, log, stop, reload, thread }
    }

    /// Begins the end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Lets it read its files again.
    pub fn reload(&self) {
        self.reload.store(true, Ordering::Relaxed);
    }

    /// Waits for the end.
    pub fn join(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// A number of `/metrics`.
    pub fn metric(&self, name: &str) -> u64 {
        let text = super::client::get(self.address, "/metrics").body;
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Waits until a number of `/metrics` has a value; returns the time.
    pub fn wait_for(&self, name: &str, value: u64) -> Duration {
        let start = Instant::now();
        while self.metric(name) != value {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{name} is {}, not {value}",
                self.metric(name)
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        start.elapsed()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
