//! [`Server`]: a socket, connections, and their end.

use crate::app::ServerApp;
use crate::batch_runner::run_batches;
use crate::error::ServerError;
use crate::http::PeerAddress;
use crate::library::ModelLibrary;
use crate::log_thread::LogThread;
use crate::options::ServerOptions;
use crate::routes::router;
use crate::served_model::ServedModel;
use crate::slots::SlotKeeper;
use crate::stored::BatchFolder;
use crate::tls::ServerTls;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

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
    keeper: SlotKeeper,
    reload: Arc<AtomicBool>,
    log: LogThread,
}

impl Server {
    /// Starts the thread of each model.
    ///
    /// # Errors
    /// There is no model, two have the same name, they need too much memory, the state of one cannot be allocated, or the
    /// files for TLS or the folder of batches cannot be used.
    pub fn start(
        socket: ServerSocket,
        models: Vec<ServedModel>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        if models.is_empty() {
            return Err(ServerError::NoModel);
        }
        Self::start_with(socket, models, None, options)
    }

    /// Starts the thread of each model, and opens those of a library when requests name them. A given model that is in the
    /// library too may be dropped for others, and is opened again.
    ///
    /// # Errors
    /// As [`Self::start`]; the models of the library cannot be listed.
    pub fn start_with(
        socket: ServerSocket,
        models: Vec<ServedModel>,
        library: Option<Arc<dyn ModelLibrary>>,
        mut options: ServerOptions,
    ) -> Result<Self, ServerError> {
        let log = LogThread::start(&mut options).map_err(ServerError::Runtime)?;
        let tls = options.tls.clone().map(ServerTls::open).transpose()?;
        let folder = options.batch_dir.as_deref().map(BatchFolder::open).transpose();
        let folder = folder.map_err(ServerError::BatchFolder)?;
        let keeper = SlotKeeper::start(models, library, &options)?;
        let (slots, is_local) = (Arc::clone(keeper.slots()), socket.address.ip().is_loopback());
        let app = Arc::new(ServerApp::new(slots, options, (tls, folder), is_local));
        Ok(Self { socket, app, keeper, reload: Arc::default(), log })
    }

    /// Reads the files again whenever this flag is set.
    #[must_use]
    pub fn with_reload(self, reload: Arc<AtomicBool>) -> Self {
        Self { reload, ..self }
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
        let Self { socket, app, keeper, reload, log } = self;
        let workers = app.options.http_threads.max(1);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            // They render templates and read texts.
            .max_blocking_threads(workers.saturating_mul(2))
            .thread_name("menagerie-http")
            .enable_all()
            .build()
            .map_err(ServerError::Runtime)?;
        let result = runtime.block_on(serve(Arc::clone(&app), socket.listener, (stop, &reload)));
        // Clients that are still there have had their time.
        runtime.shutdown_timeout(FAREWELL);
        drop(app);
        keeper.end();
        log.end(FAREWELL);
        result
    }
}

async fn serve(
    app: Arc<ServerApp>,
    listener: TcpListener,
    (stop, reload): (&AtomicBool, &AtomicBool),
) -> Result<(), ServerError> {
    let listener = tokio::net::TcpListener::from_std(listener).map_err(ServerError::Runtime)?;
    let (close, closing) = watch::channel(false);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let batches = tokio::spawn(run_batches(Arc::clone(&app)));
    let accepting = tokio::spawn(accept(listener, Arc::clone(&app), Arc::clone(&places), closing));
    while !stop.load(Ordering::Relaxed) {
        if reload.swap(false, Ordering::Relaxed) {
            tokio::spawn(Arc::clone(&app).reload_and_log());
        }
        sleep(POLL).await;
    }
    app.is_draining.store(true, Ordering::Relaxed);
    wait(app.options.drain, || app.open.load(Ordering::Relaxed) == 0).await;
    app.models.close();
    wait(FAREWELL, || app.open.load(Ordering::Relaxed) == 0).await;
    accepting.abort();
    wait(FAREWELL, || batches.is_finished()).await;
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
        let acceptor = app.tls.as_ref().map(ServerTls::acceptor);
        tokio::spawn(async move {
            // Each event of a stream is sent at once.
            let _ = stream.set_nodelay(true);
            match acceptor {
                None => connection(stream, router, read_time, closing).await,
                // A client that does not speak TLS, or not in time, is gone.
                Some(acceptor) => {
                    if let Ok(Ok(stream)) = timeout(read_time, acceptor.accept(stream)).await {
                        connection(stream, router, read_time, closing).await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// Answers the requests of a connection. An error of a connection concerns only its client, who sees it.
async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    router: Router,
    read_time: Duration,
    mut closing: watch::Receiver<bool>,
) {
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
