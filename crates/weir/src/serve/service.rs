//! The daemon's thread: a listener, TLS, and the router, each client with limits.
//!
//! Room: sockets and tasks; nothing here blocks. Called by `weir serve`.

use super::guards;
use super::patient::Patient;
use super::plan::Plan;
use super::{App, router};
use crate::openflow::log::Lines;
use anyhow::{Context, Result};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Clients at once, those that have not said anything yet among them.
const MOST: usize = 256;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a request's head may take, and how long a client may keep a connection without asking.
const HEAD: Duration = Duration::from_secs(20);
/// The largest head.
const HEAD_BYTES: usize = 64 << 10;
/// How long accepting rests when the system has no descriptor left.
const REST: Duration = Duration::from_millis(100);
/// How often changes that are made another way are looked for.
const LOOK: Duration = Duration::from_millis(500);
/// How long what is under way may go on once it is to end.
const END: Duration = Duration::from_secs(30);

/// Serves until `stop` is done. `told` hears where it listens in truth.
///
/// # Errors
/// The address can't be listened at; the store can't be opened.
pub fn run(
    plan: Plan,
    told: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let bound = std::net::TcpListener::bind(plan.listen)
        .with_context(|| format!("{}: choose another --listen", plan.listen))?;
    bound.set_nonblocking(true)?;
    let tls = plan.tls.clone().map(TlsAcceptor::from);
    let what = plan.guards;
    let app = Arc::new(App::new(plan)?);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async move {
        let listener = TcpListener::from_std(bound)?;
        told(listener.local_addr()?);
        let watching = tokio::spawn(watch(Arc::clone(&app)));
        let guarding = tokio::spawn(guards::watch(Arc::clone(&app), what));
        tokio::select! {
            () = accept(listener, tls, router(Arc::clone(&app))) => {}
            () = stop => {}
        }
        watching.abort();
        guarding.abort();
        // A change that is under way is led to its end.
        let _ = timeout(END, app.idle()).await;
        Ok(())
    })
}

/// While somebody listens, changes that are made another way are looked for.
async fn watch(app: Arc<App>) {
    loop {
        sleep(LOOK).await;
        if app.events.listeners() > 0 {
            // Who asks next is told what is wrong.
            let _ = app.desk(|d| d.look().map(|_| ()).map_err(Into::into)).await;
        }
    }
}

/// Serves clients, each with limits, for ever.
pub async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, router: Router) {
    let room = Arc::new(Semaphore::new(MOST));
    let lines = Lines::new("api".to_owned());
    loop {
        let (tcp, from) = match listener.accept().await {
            Ok(a) => a,
            Err(e) => {
                lines.tell(format_args!("can't accept: {e}"));
                sleep(REST).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            lines.tell(format_args!("{from} refused: {MOST} clients are there"));
            continue;
        };
        // A socket that refuses has gone already.
        let _ = tcp.set_nodelay(true);
        let (tls, router) = (tls.clone(), router.clone());
        tokio::spawn(async move {
            client(tcp, tls, router).await;
            drop(place);
        });
    }
}

async fn client(tcp: TcpStream, tls: Option<TlsAcceptor>, router: Router) {
    match tls {
        None => http(tcp, router).await,
        Some(acceptor) => {
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(tcp)).await {
                http(stream, router).await;
            }
        }
    }
}

async fn http<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, router: Router) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(Patient::new(stream)), TowerToHyperService::new(router));
    // Whoever hangs up in the midst of it has had enough.
    let _ = served.await;
}
