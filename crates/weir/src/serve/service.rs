//! The daemon's thread: a listener, TLS, and the router, each client with limits.
//!
//! Room: sockets and tasks; nothing here blocks. Called by `weir serve`.

use super::guards;
use super::patient::Patient;
use super::plan::Plan;
use super::problem::Problem;
use super::room::{Client, Endless, Holding, Room};
use super::{App, router};
use crate::openflow::log::Lines;
use crate::openflow::tls::io_in_words;
use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
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
    let shown = plan.tls.clone();
    let tls = move || shown.as_ref().map(|s| TlsAcceptor::from(s.now()));
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

/// Serves clients, each with limits and by what `tls` is when it comes, for ever. Where there is no room, one that has
/// asked for nothing goes.
pub async fn accept(listener: TcpListener, tls: impl Fn() -> Option<TlsAcceptor>, router: Router) {
    at_most(MOST, listener, tls, router).await;
}

async fn at_most(
    most: usize,
    listener: TcpListener,
    tls: impl Fn() -> Option<TlsAcceptor>,
    router: Router,
) {
    let room = Arc::new(Room::new(most));
    let lines = Lines::new("api".to_owned());
    let strangers = Arc::new(Mutex::new(Lines::new("api".to_owned())));
    loop {
        let (tcp, from) = match listener.accept().await {
            Ok(a) => a,
            Err(e) => {
                lines.tell(format_args!("can't accept: {e}"));
                sleep(REST).await;
                continue;
            }
        };
        let Some(place) = room.enter() else {
            lines.tell(format_args!("{from} refused: {most} clients have requests at work"));
            refuse(most, tcp, tls().as_ref());
            continue;
        };
        // A socket that refuses has gone already.
        let _ = tcp.set_nodelay(true);
        let (tls, router) = (tls(), router.clone());
        let strangers = Arc::clone(&strangers);
        tokio::spawn(async move {
            let why_not = |e: String| {
                let lines = strangers.lock().unwrap_or_else(PoisonError::into_inner);
                lines.tell(format_args!("{from} refused: {e}"));
            };
            tokio::select! {
                () = serve(tcp, tls, router, Arc::clone(&place.client), why_not) => {}
                () = place.client.goes() => {}
            }
        });
    }
}

/// Says that there is no room, without waiting; to whom TLS would have to be made first, nothing.
fn refuse(most: usize, tcp: TcpStream, tls: Option<&TlsAcceptor>) {
    let Ok(mut tcp) = tcp.into_std() else { return };
    if tls.is_some() {
        return;
    }
    let problem = Problem::busy(format_args!("{most} clients have requests at work: try again"));
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n\
                Retry-After: 1\r\nConnection: close\r\n";
    let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    // What is unread when it is closed would take the answer with it; there is room for as much as this.
    let _ = tcp.read(&mut [0; HEAD_BYTES]);
    let _ = tcp.write_all(answer.as_bytes());
}

/// Serves a client; why TLS could not be made is told to `why_not`.
async fn serve(
    tcp: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    client: Arc<Client>,
    why_not: impl FnOnce(String),
) {
    let Some(acceptor) = tls else { return http(tcp, router, client).await };
    match timeout(HANDSHAKE, acceptor.accept(tcp)).await {
        Ok(Ok(stream)) => http(stream, router, client).await,
        Ok(Err(e)) => why_not(io_in_words(&e)),
        Err(_) => why_not(format!("no TLS within {} s", HANDSHAKE.as_secs())),
    }
}

async fn http<S>(stream: S, router: Router, client: Arc<Client>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Patient::new(stream, Arc::clone(&client));
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request: Request<Incoming>| {
        let (read, answered) = client.asks();
        let answer = router.call(request.map(|b| Body::new(Holding::new(b, read))));
        let client = Arc::clone(&client);
        async move {
            let response = answer.await?;
            if response.extensions().get::<Endless>().is_some() {
                client.listens();
            }
            Ok::<_, Infallible>(response.map(|b| Holding::new(b, answered)))
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    // Whoever hangs up in the midst of it has had enough.
    let _ = served.await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Extension;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::{Notify, mpsc};

    const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    /// What a router answers to those who come, two at most.
    fn served<F: Future<Output = ()>>(router: Router, ask: impl FnOnce(SocketAddr) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            tokio::spawn(at_most(2, listener, || None, router));
            timeout(END, ask(at)).await.unwrap();
        });
    }

    /// One that answers when it is let, having said that it was asked.
    fn gate() -> (Router, Arc<Notify>, Arc<Notify>) {
        let (asked, let_go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (a, l) = (Arc::clone(&asked), Arc::clone(&let_go));
        let answer = async move || {
            a.notify_one();
            l.notified().await;
            "done"
        };
        (Router::new().route("/", get(answer)), asked, let_go)
    }

    async fn all(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[test]
    fn who_says_no_more_is_answered() {
        let (router, asked, let_go) = gate();
        served(router, |at| async move {
            let mut c = TcpStream::connect(at).await.unwrap();
            c.write_all(ASK).await.unwrap();
            c.shutdown().await.unwrap();
            asked.notified().await;
            // The end is there to be read by now.
            sleep(Duration::from_millis(20)).await;
            let_go.notify_one();
            let text = all(c).await;
            assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("done"), "{text}");
        });
    }

    #[test]
    fn a_request_that_comes_with_its_end_is_answered_and_a_part_of_one_is_let_go() {
        let echo = async |said: String| said;
        served(Router::new().route("/", axum::routing::post(echo)), |at| async move {
            for (length, whole) in [(4, true), (5, false)] {
                let mut c = TcpStream::connect(at).await.unwrap();
                let ask =
                    format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\nsaid");
                c.write_all(ask.as_bytes()).await.unwrap();
                c.shutdown().await.unwrap();
                let text = all(c).await;
                let answered = text.starts_with("HTTP/1.1 200") && text.ends_with("said");
                assert_eq!(answered, whole, "{text}");
            }
        });
    }

    #[test]
    fn connections_that_ask_nothing_keep_nobody_out() {
        let (router, asked, let_go) = gate();
        served(router, |at| async move {
            let mut idle = Vec::new();
            for _ in 0..4 {
                let mut c = TcpStream::connect(at).await.unwrap();
                c.write_all(b"GET / HT").await.unwrap();
                idle.push(c);
            }
            let mut one = TcpStream::connect(at).await.unwrap();
            one.write_all(ASK).await.unwrap();
            asked.notified().await;
            let mut two = TcpStream::connect(at).await.unwrap();
            two.write_all(ASK).await.unwrap();
            asked.notified().await;
            // Who is at work is not let go: whoever comes then is told.
            let mut three = TcpStream::connect(at).await.unwrap();
            three.write_all(ASK).await.unwrap();
            let text = all(three).await;
            assert!(text.starts_with("HTTP/1.1 503") && text.ends_with('}'), "{text}");
            for mut c in [one, two] {
                let_go.notify_one();
                let mut head = [0; 12];
                c.read_exact(&mut head).await.unwrap();
                assert_eq!(&head, b"HTTP/1.1 200");
            }
        });
    }

    #[test]
    fn a_listener_who_hangs_up_is_gone_at_once() {
        let (to, mut streams) = mpsc::channel(1);
        let answer = async move || {
            let (feed, from) = mpsc::channel(1);
            feed.send("x".to_owned()).await.unwrap();
            to.send(feed).await.unwrap();
            (Extension(Endless), Body::from_stream(crate::serve::events::Fed::new(from)))
        };
        served(Router::new().route("/", get(answer)), |at| async move {
            let mut c = TcpStream::connect(at).await.unwrap();
            c.write_all(ASK).await.unwrap();
            let feed = streams.recv().await.unwrap();
            drop(c);
            feed.closed().await;
        });
    }
}
