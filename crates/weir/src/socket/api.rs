//! The node API: what the control socket answers, by TLS, for whoever keeps networks on this node.
//!
//! Room: threads and sockets; [`super::server`] answers, [`super::handler`] knows what requests mean.
//! Both ends show a certificate that the other's authorities have signed: whoever has one may do all, and
//! whoever has not shown one yet ([`super::pending`]) keeps nobody out.
//! Called by `weir run` where its file has `[api]`.

use super::link::Link;
use super::live::Live;
use super::pending::{Pending, Place};
use super::server::{refuse, serve};
use crate::config::plan::ApiPlan;
use crate::openflow::log::Lines;
use crate::openflow::tls::{Current, Identity, in_words, io_in_words};
use anyhow::{Context, Result};
use std::fmt::Display;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio_rustls::rustls::ServerConnection;

/// Clients at once: those who have shown a certificate.
const MAX_CLIENTS: usize = 64;
/// Connections at once that have shown none yet.
const PENDING: usize = 64;
/// How long showing one may take.
const HANDSHAKE: Duration = Duration::from_secs(60);
/// How long accepting rests when the system has nothing left for another.
const REST: Duration = Duration::from_millis(50);

/// A served node API.
#[derive(Debug)]
pub struct Api {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

/// Takes the API's place, before anything else is begun.
///
/// # Errors
/// Somebody else listens there, or the system refuses.
pub fn bind(plan: &ApiPlan) -> Result<TcpListener> {
    let at = plan.listen;
    TcpListener::bind(at).with_context(|| format!("node API at {at}: choose another 'listen'"))
}

impl Api {
    /// Begins to serve, with what `tls` is whenever somebody comes.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(listener: TcpListener, tls: Current, live: Arc<Live>) -> Result<Self> {
        let at = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let door = Arc::new(Door {
            live,
            stop: Arc::clone(&stop),
            pending: Arc::new(Pending::new(PENDING)),
            clients: AtomicUsize::new(0),
            lines: Mutex::new(Lines::new("node API".to_owned())),
        });
        let accepting = std::thread::Builder::new()
            .name("weir-api".to_owned())
            .spawn(move || accept(&listener, &tls, &door))?;
        Ok(Self { at, stop, accepting: Some(accepting) })
    }

    /// Where it listens in truth.
    pub fn at(&self) -> SocketAddr {
        self.at
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread that waits for a client; an address for all is reached by the loopback.
        let mut at = self.at;
        if at.ip().is_unspecified() {
            at.set_ip(match at {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let woken = TcpStream::connect_timeout(&at, Duration::from_secs(1)).is_ok();
        if let Some(t) = self.accepting.take().filter(|_| woken) {
            let _ = t.join();
        }
    }
}

/// What all its threads share.
#[derive(Debug)]
struct Door {
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    pending: Arc<Pending>,
    clients: AtomicUsize,
    lines: Mutex<Lines>,
}

/// One of the clients that there may be.
struct Client<'a>(&'a AtomicUsize);

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn accept(listener: &TcpListener, tls: &Current, door: &Arc<Door>) {
    loop {
        let accepted = listener.accept();
        if door.stop.load(Ordering::Acquire) {
            return;
        }
        let entered = accepted.and_then(|(tcp, from)| {
            let place = door.pending.enter(from.ip(), &tcp)?;
            let (door, tls) = (Arc::clone(door), tls.now());
            let client = std::thread::Builder::new().name("weir-client".to_owned());
            client.spawn(move || door.receive(&tls, tcp, from, place)).map(drop)
        });
        if let Err(e) = entered {
            door.tell(format_args!("can't accept: {e}"));
            // Out of descriptors, most likely: give others time to end.
            std::thread::sleep(REST);
        }
    }
}

impl Door {
    fn tell(&self, what: impl Display) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).tell(what);
    }

    /// Finds out who has come, and answers until he ends.
    fn receive(&self, tls: &Identity, tcp: TcpStream, from: SocketAddr, place: Place) {
        let conn = match ServerConnection::new(tls.server.clone()) {
            Ok(conn) => conn,
            Err(e) => return self.tell(format_args!("{from} refused: {}", in_words(&e))),
        };
        let mut link = Link::tls(conn, tcp);
        if let Err(e) = link.shake_hands(Instant::now() + HANDSHAKE) {
            let why = if place.is_lost() {
                format!("{PENDING} others had shown no certificate either")
            } else {
                why(&e)
            };
            return self.tell(format_args!("{from} refused: {why}"));
        }
        drop(place);
        let before = self.clients.fetch_add(1, Ordering::AcqRel);
        let _client = Client(&self.clients);
        if before >= MAX_CLIENTS {
            self.tell(format_args!("{from} refused: {MAX_CLIENTS} clients are there"));
            return refuse(link, "too many clients: close one of them");
        }
        serve(link, &self.live, &self.stop);
    }
}

/// Why somebody has shown no certificate that is one here.
fn why(e: &std::io::Error) -> String {
    match e.kind() {
        ErrorKind::UnexpectedEof => "it went before it had shown a certificate".to_owned(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("no certificate within {} s", HANDSHAKE.as_secs())
        }
        _ => io_in_words(e),
    }
}
