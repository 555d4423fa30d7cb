//! The end at which the controller is: its bytes, in frames to the node where the switch is, and back.
//!
//! Room: one task for each connection of a VDP that is away, which is the one that the connection had
//! before. Called by `session`.

use super::super::conn::Conn;
use super::super::session::lost;
use super::super::stream::Stream;
use super::super::tls;
use super::passing::Passing;
use super::wire::{Kind, put, take};
use super::{Hello, Peer, State};
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use weir_openflow::model::Version;

/// How long the other node may take to be reached, and to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that may wait on their way up or down before more are read.
const WAITING: usize = 256 * 1024;
const READ: usize = 64 * 1024;

/// How it ended.
#[derive(Debug)]
pub enum Over {
    /// One of both ends has ended it.
    Ended(String),
    /// The switch is here again, and the connection with it.
    Home(State),
}

/// Why the node where the switch is was not reached.
#[derive(Debug)]
pub enum NotReached {
    /// Nobody listens at that address, as far as this process sees: it will be so at the next attempt, too.
    Nobody(String),
    /// It may be otherwise soon.
    Now(String),
}

impl NotReached {
    fn of(e: &io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::ConnectionRefused => Self::Nobody("connection refused".to_owned()),
            io::ErrorKind::NetworkUnreachable => Self::Nobody("network unreachable".to_owned()),
            _ => Self::Now(format!("can't connect: {e}")),
        }
    }
    /// In words.
    pub fn why(&self) -> &str {
        let (Self::Nobody(why) | Self::Now(why)) = self;
        why
    }
}

/// A connection to the node where the switch is.
#[derive(Debug)]
pub struct Upward {
    to: Stream,
    came: Vec<u8>,
}

/// Connects to the node where the switch is.
///
/// # Errors
/// It can't be reached.
pub async fn connect(peer: &Peer) -> Result<Upward, NotReached> {
    let attempt = async {
        let tcp = TcpStream::connect(&peer.at).await.map_err(|e| NotReached::of(&e))?;
        greetable(peer, tcp).await.map_err(NotReached::Now)
    };
    match timeout(PATIENCE, attempt).await {
        Ok(to) => to.map(|to| Upward { to, came: Vec::new() }),
        Err(_) => Err(NotReached::Now(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

/// What that node can be greeted by.
async fn greetable(peer: &Peer, tcp: TcpStream) -> Result<Stream, String> {
    // What is said is small and waited for.
    tcp.set_nodelay(true).map_err(|e| e.to_string())?;
    let Some(identity) = &peer.identity else { return Ok(Stream::Plain(tcp)) };
    let host = peer.at.rsplit_once(':').map_or(peer.at.as_str(), |(h, _)| h);
    let name = identity.expected(host.trim_start_matches('[').trim_end_matches(']'))?;
    let tls = TlsConnector::from(identity.client.clone()).connect(name, tcp).await;
    let tls = tls.map_err(|e| format!("TLS failed: {}", tls::io_in_words(&e)))?;
    Ok(Stream::Tls(Box::new(tls.into())))
}

impl Upward {
    /// Says which connection this is; done when it was taken up.
    ///
    /// # Errors
    /// It was not.
    pub async fn greet(&mut self, hello: &Hello) -> Result<(), String> {
        let mut out = Vec::new();
        put(Kind::Hello, &hello.to_bytes(), &mut out);
        let attempt = poll_fn(|cx| {
            let done = write(&mut self.to, &mut out, cx).map_err(|e| tls::io_in_words(&e))?;
            if done == Moved::Nothing && !out.is_empty() {
                return Poll::Pending;
            }
            loop {
                match take(&mut self.came) {
                    Ok(Some((Kind::Taken, _))) => return Poll::Ready(Ok(())),
                    Ok(Some(_)) => {
                        return Poll::Ready(Err("it speaks another language".to_owned()));
                    }
                    Ok(None) => {}
                    Err(e) => return Poll::Ready(Err(e.to_owned())),
                }
                let mut buffer = [0; 4096];
                match self.to.poll_read(cx, &mut buffer) {
                    Poll::Pending if out.is_empty() => return Poll::Pending,
                    Poll::Pending => {
                        let done = write(&mut self.to, &mut out, cx);
                        if done.map_err(|e| tls::io_in_words(&e))? == Moved::Nothing {
                            return Poll::Pending;
                        }
                    }
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err("it was refused".to_owned())),
                    Poll::Ready(Ok(n)) => {
                        self.came.extend_from_slice(buffer.get(..n).unwrap_or_default());
                    }
                    Poll::Ready(Err(e)) => return Poll::Ready(Err(tls::io_in_words(&e))),
                }
            }
        });
        match timeout(PATIENCE, attempt).await {
            Ok(done) => done,
            Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        }
    }

    /// Carries bytes both ways until one end ends it, or the switch comes back. `input` has gone there already. `told` is told the
    /// version that they agree on, where that is not known yet.
    pub async fn run(
        self,
        conn: &Conn,
        controller: &mut Stream,
        input: &[u8],
        told: &impl Fn(Version),
    ) -> Over {
        let mut r = Relay {
            up: self,
            controller,
            out: Vec::new(),
            back: Vec::new(),
            reads: Reads::Yes,
            ends: None,
            buffer: vec![0; READ].into(),
            passed: (Passing::of(input), Passing::default()),
            unheeded: 0,
        };
        poll_fn(|cx| {
            let over = r.poll(conn, cx);
            r.tell(conn, told);
            over
        })
        .await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    Something,
    Nothing,
}

struct Relay<'a> {
    up: Upward,
    controller: &'a mut Stream,
    /// For the switch.
    out: Vec<u8>,
    /// For the controller.
    back: Vec<u8>,
    reads: Reads,
    ends: Option<Over>,
    buffer: Box<[u8]>,
    /// To the switch, and to the controller.
    passed: (Passing, Passing),
    /// Messages that have come home unheeded: they are counted when they are heeded.
    unheeded: u64,
}

impl Relay<'_> {
    /// Notes what has gone by.
    fn tell(&self, conn: &Conn, told: &impl Fn(Version)) {
        let (out, back) = (&self.passed.0, &self.passed.1);
        conn.elsewhere.set((out.messages().saturating_sub(self.unheeded), back.messages()));
        if let (None, Some(version)) = (conn.version.get(), back.version()) {
            conn.version.set(Some(version));
            told(version);
        }
    }
    fn poll(&mut self, conn: &Conn, cx: &mut Context<'_>) -> Poll<Over> {
        conn.watched_by(cx.waker());
        if let Some(why) = conn.stopped() {
            return Poll::Ready(Over::Ended(why));
        }
        loop {
            let moved = match self.turn(cx) {
                Ok(m) => m,
                Err(e) => return Poll::Ready(Over::Ended(lost(&e))),
            };
            if self.back.is_empty()
                && let Some(over) = self.ends.take()
            {
                return Poll::Ready(over);
            }
            if moved == Moved::Nothing {
                return Poll::Pending;
            }
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> io::Result<Moved> {
        let mut moved = Moved::Nothing;
        if self.reads == Reads::Yes && self.out.len() < WAITING {
            match self.controller.poll_read(cx, &mut self.buffer) {
                Poll::Pending => {}
                Poll::Ready(Ok(0)) => {
                    put(Kind::End, &[], &mut self.out);
                    (self.reads, moved) = (Reads::No, Moved::Something);
                }
                Poll::Ready(Ok(n)) => {
                    let bytes = self.buffer.get(..n).unwrap_or_default();
                    self.passed.0.pass(bytes);
                    put(Kind::Data, bytes, &mut self.out);
                    moved = Moved::Something;
                }
                Poll::Ready(Err(e)) => return Err(e),
            }
        }
        moved = moved.or(write(&mut self.up.to, &mut self.out, cx)?);
        if self.back.len() < WAITING && self.ends.is_none() {
            match self.up.to.poll_read(cx, &mut self.buffer) {
                Poll::Pending => {}
                Poll::Ready(Ok(0)) => {
                    self.ends = Some(Over::Ended("the node that it was at has gone".to_owned()));
                }
                Poll::Ready(Ok(n)) => {
                    self.up.came.extend_from_slice(self.buffer.get(..n).unwrap_or_default());
                    moved = Moved::Something;
                }
                Poll::Ready(Err(e)) => return Err(e),
            }
        }
        while let Some((kind, bytes)) = take(&mut self.up.came).map_err(io::Error::other)? {
            moved = Moved::Something;
            match kind {
                Kind::Data => {
                    self.passed.1.pass(&bytes);
                    self.back.extend(bytes);
                }
                Kind::Return => {
                    self.reads = Reads::No;
                    put(Kind::Stopped, &[], &mut self.out);
                }
                Kind::End => {
                    let why = String::from_utf8_lossy(&bytes).into_owned();
                    self.ends = Some(Over::Ended(why));
                }
                Kind::State => {
                    let state = State::from_bytes(&bytes);
                    let state = state.ok_or_else(|| io::Error::other("a state that is none"))?;
                    self.unheeded = Passing::of(&state.input).messages();
                    self.ends = Some(Over::Home(state));
                }
                _ => return Err(io::Error::other("a frame that has no place here")),
            }
        }
        Ok(moved.or(write(self.controller, &mut self.back, cx)?))
    }
}

impl Moved {
    fn or(self, other: Self) -> Self {
        if self == Self::Something { self } else { other }
    }
}

/// Writes as much as is taken.
fn write(to: &mut Stream, out: &mut Vec<u8>, cx: &mut Context<'_>) -> io::Result<Moved> {
    let mut moved = Moved::Nothing;
    while !out.is_empty() {
        match to.poll_write(cx, out) {
            Poll::Pending => break,
            Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(Ok(n)) => {
                out.drain(..n);
                moved = Moved::Something;
            }
            Poll::Ready(Err(e)) => return Err(e),
        }
    }
    match to.poll_flush(cx) {
        Poll::Ready(Err(e)) => Err(e),
        _ => Ok(moved),
    }
}
