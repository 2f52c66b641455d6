//! [`Server`]: a socket, connections, and their end.

use crate::app::ServerApp;
use crate::error::ServerError;
use crate::http::PeerAddress;
use crate::model::ServedModel;
use crate::options::ServerOptions;
use crate::routes::router;
use crate::worker::{EngineJob, WorkerThread};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

/// The most connections at once.
const CONNECTIONS: usize = 1024;
/// How often the end is looked for.
const POLL: Duration = Duration::from_millis(20);
/// How long clients may take to receive the last bytes, after everything else has ended.
const FAREWELL: Duration = Duration::from_secs(1);

/// A socket that listens. Connections wait until a server takes them.
pub struct ServerSocket {
    listener: TcpListener,
    address: SocketAddr,
}

impl ServerSocket {
    /// Listens on `address` (`HOST:PORT`; port 0 = any).
    ///
    /// # Errors
    /// The address is public and there are no keys, or it cannot be used.
    pub fn bind(address: &str, options: &ServerOptions) -> Result<Self, ServerError> {
        let listen = |source| ServerError::Listen { address: address.to_owned(), source };
        let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(listen)?.collect();
        let is_public = addresses.iter().any(|address| !address.ip().is_loopback());
        if is_public && options.keys.is_empty() && !options.insecure {
            return Err(ServerError::Public { address: address.to_owned() });
        }
        let listener = TcpListener::bind(&addresses[..]).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        Ok(Self { listener, address })
    }
}

/// A server that has its models, but does not answer yet.
pub struct Server {
    socket: ServerSocket,
    app: Arc<ServerApp>,
    threads: Vec<WorkerThread>,
}

impl Server {
    /// Starts the thread of each model.
    ///
    /// # Errors
    /// There is no model, two have the same name, or the state of one cannot be allocated.
    pub fn start(
        socket: ServerSocket,
        models: Vec<ServedModel>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        check_names(&models)?;
        let (mut started, mut threads) = (Vec::new(), Vec::new());
        for model in models {
            let (model, thread) = model.start(options.queue).map_err(ServerError::Model)?;
            started.push(model);
            threads.push(thread);
        }
        Ok(Self { socket, app: Arc::new(ServerApp::new(started, options)), threads })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.socket.address
    }

    /// Answers until `stop` is set. Then new requests are refused, and the running ones have the time of
    /// [`ServerOptions::drain`] to end.
    ///
    /// # Errors
    /// The threads for HTTP cannot be started.
    pub fn run(self, stop: &AtomicBool) -> Result<(), ServerError> {
        let Self { socket, app, threads } = self;
        let workers = app.options.http_threads.max(1);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            // They render templates and read texts.
            .max_blocking_threads(workers.saturating_mul(2))
            .thread_name("menagerie-http")
            .enable_all()
            .build()
            .map_err(ServerError::Runtime)?;
        let result = runtime.block_on(serve(Arc::clone(&app), socket.listener, stop));
        // Clients that are still there have had their time.
        runtime.shutdown_timeout(FAREWELL);
        drop(app);
        // The threads end with the last sender of jobs. One that panicked has reported it.
        threads.into_iter().for_each(|thread| drop(thread.join()));
        result
    }
}

/// Refuses two models with the same name.
fn check_names(models: &[ServedModel]) -> Result<(), ServerError> {
    let mut known = BTreeSet::new();
    for name in models.iter().flat_map(|model| &model.names) {
        if !known.insert(name) {
            return Err(ServerError::SameName { name: name.clone() });
        }
    }
    if models.is_empty() { Err(ServerError::NoModel) } else { Ok(()) }
}

async fn serve(app: Arc<ServerApp>, listener: TcpListener, stop: &AtomicBool) -> Result<(), ServerError> {
    let listener = tokio::net::TcpListener::from_std(listener).map_err(ServerError::Runtime)?;
    let (close, closing) = watch::channel(false);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let accepting = tokio::spawn(accept(listener, Arc::clone(&app), Arc::clone(&places), closing));
    while !stop.load(Ordering::Relaxed) {
        sleep(POLL).await;
    }
    app.is_draining.store(true, Ordering::Relaxed);
    wait(app.options.drain, || app.open.load(Ordering::Relaxed) == 0).await;
    if app.open.load(Ordering::Relaxed) > 0 {
        for model in &app.models {
            // A model whose thread is gone has nothing to cancel.
            let _ = model.worker.send(EngineJob::CancelAll);
        }
        wait(FAREWELL, || app.open.load(Ordering::Relaxed) == 0).await;
    }
    accepting.abort();
    let _ = close.send(true);
    wait(FAREWELL, || places.available_permits() == CONNECTIONS).await;
    Ok(())
}

/// Waits until something is true, at most for this time.
async fn wait(most: Duration, is_true: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_true() && start.elapsed() < most {
        sleep(POLL).await;
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    app: Arc<ServerApp>,
    places: Arc<Semaphore>,
    closing: watch::Receiver<bool>,
) {
    let router = router(&app);
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, peer)) = listener.accept().await else {
            // There are too many open files, or the client is gone already.
            sleep(POLL).await;
            continue;
        };
        let router = router.clone().layer(Extension(PeerAddress(peer)));
        let (closing, read_time) = (closing.clone(), app.options.read_time);
        tokio::spawn(async move {
            connection(stream, router, read_time, closing).await;
            drop(place);
        });
    }
}

/// Answers the requests of a connection. An error of a connection concerns only its client, who sees it.
async fn connection(
    stream: TcpStream,
    router: Router,
    read_time: Duration,
    mut closing: watch::Receiver<bool>,
) {
    // Each event of a stream is sent at once.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(read_time);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = closing.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
