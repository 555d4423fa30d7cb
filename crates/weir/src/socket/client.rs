//! The other end of the control socket: what the client commands speak through.

use super::lines::{Lines, NoLine};
use super::link::Link;
use super::place::default_path;
use super::protocol::{Done, Fault, Item, MAX_REPLY_BYTES, MAX_REQUEST_BYTES, Reply, Request};
use crate::commands::say::say;
use crate::fault::bad_input;
use crate::openflow::tls::{Identity, io_in_words};
use anyhow::{Error, Result, anyhow, bail};
use clap::Args;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio_rustls::rustls::ClientConnection;

/// Which data plane is meant.
#[derive(Clone, Debug, Args)]
pub struct Where {
    /// Control socket of the running data plane [default: $XDG_RUNTIME_DIR/weir/control.sock, else
    /// /run/weir/control.sock]
    #[arg(long, value_name = "PATH", global = true)]
    pub socket: Option<PathBuf>,
}

/// How long a node may take to be reached.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take: changes wait for VDPs to go and for migrations to arrive.
const ANSWER: Duration = Duration::from_secs(30);

/// Nobody answers: what an error says then, whatever else it says.
#[derive(Debug)]
pub struct NoAnswer(String);

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoAnswer {}

/// Why nobody was reached. Who may not ask does not know whether somebody is there.
fn nobody(e: io::Error, text: String) -> Error {
    match e.kind() {
        ErrorKind::PermissionDenied => Error::new(e).context(text),
        _ => Error::new(e).context(NoAnswer(text)),
    }
}

/// Why a conversation with somebody ended. What TLS refuses he has said; who is late to shake hands, or takes nothing, is late.
fn broken(shown: &str, e: &io::Error) -> Error {
    match e.kind() {
        ErrorKind::InvalidData => Error::msg(format!("{shown}: {}", io_in_words(e))),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => late(shown),
        _ => NoAnswer(format!("{shown}: {}", io_in_words(e))).into(),
    }
}

fn late(shown: &str) -> Error {
    NoAnswer(format!("{shown}: no answer within {} s", ANSWER.as_secs())).into()
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    lines: Lines,
    /// What errors call the other end.
    shown: String,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// A part of the answer.
    Item(Item),
    /// Its end.
    Done(Done),
}

impl Where {
    /// Connects.
    ///
    /// # Errors
    /// Nobody serves there.
    pub fn connect(&self) -> Result<Client> {
        Client::unix(&self.socket.clone().unwrap_or_else(default_path))
    }

    /// Asks for one thing and returns all of the answer.
    ///
    /// # Errors
    /// It was refused, or nobody answers.
    pub fn ask(&self, request: &Request) -> Result<(Vec<Item>, Done)> {
        self.connect()?.ask(request)
    }

    /// Asks for a change and prints what happened.
    ///
    /// # Errors
    /// It was refused, or nobody answers.
    pub fn change(&self, request: &Request) -> Result<()> {
        for note in self.ask(request)?.1.notes {
            say(note)?;
        }
        Ok(())
    }
}

impl Client {
    /// To a control socket.
    ///
    /// # Errors
    /// Nobody serves there.
    pub fn unix(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        let stream = UnixStream::connect(path).map_err(|e| {
            let text = "no data plane answers there; start 'weir run', or name its --socket";
            nobody(e, format!("{shown}: {text}"))
        })?;
        Ok(Self { lines: Lines::new(Link::Unix(stream), MAX_REPLY_BYTES), shown })
    }

    /// To a node API, by TLS; `host:port`, with an IPv6 address in brackets.
    ///
    /// # Errors
    /// Nobody serves there. Who it is, is seen by the first request.
    pub fn tls(address: &str, identity: &Identity) -> Result<Self> {
        let (host, _) = address
            .rsplit_once(':')
            .ok_or_else(|| bad_input(format!("{address}: HOST:PORT, as in 127.0.0.1:6680")))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = identity.expected(host).map_err(|e| bad_input(format!("{address}: {e}")))?;
        let text = || format!("{address}: no node API answers there; see [api] of 'weir run'");
        let until = Instant::now() + CONNECT;
        let mut last = None;
        for at in address.to_socket_addrs().map_err(|e| nobody(e, text()))? {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(&at, left) {
                Ok(tcp) => {
                    let conn = ClientConnection::new(identity.client.clone(), name)?;
                    let lines = Lines::new(Link::tls(conn, tcp), MAX_REPLY_BYTES);
                    return Ok(Self { lines, shown: address.to_owned() });
                }
                Err(e) => last = Some(e),
            }
        }
        match last {
            Some(e) => Err(nobody(e, text())),
            None => Err(NoAnswer(text()).into()),
        }
    }

    /// The host of the other end, for one that is reached by an address.
    pub fn host(&self) -> Option<&str> {
        let host = self.shown.rsplit_once(':')?.0;
        Some(host.trim_start_matches('[').trim_end_matches(']'))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// It is too long, or nobody listens.
    pub fn send(&mut self, request: &Request) -> Result<()> {
        let mut bytes = serde_json::to_vec(request)?;
        bytes.push(b'\n');
        if bytes.len() > MAX_REQUEST_BYTES {
            let text = format!("a request of {} bytes; at most {MAX_REQUEST_BYTES}", bytes.len());
            return Err(bad_input(text));
        }
        match self.lines.send(&bytes, ANSWER) {
            // Whoever hung up without listening has said why.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|e| broken(&self.shown, &e)),
        }
    }

    /// The next part of the answer.
    ///
    /// # Errors
    /// The request was refused, or nobody answers any more.
    pub fn next(&mut self) -> Result<Next> {
        let shown = &self.shown;
        let line = self.lines.next(ANSWER).map_err(|e| match e {
            NoLine::End => NoAnswer(format!("{shown}: the data plane has ended")).into(),
            NoLine::Late => late(shown),
            NoLine::TooLong => anyhow!("{shown}: not weir's: a line without an end"),
            NoLine::System(e) => broken(shown, &e),
        })?;
        let reply = serde_json::from_slice(&line)
            .map_err(|e| anyhow!("{shown}: not weir's answer: {e}"))?;
        match reply {
            Reply::Item(i) => Ok(Next::Item(i)),
            Reply::Ok(d) => Ok(Next::Done(d)),
            Reply::Error(r) if r.fault == Fault::Input => Err(bad_input(r.text)),
            Reply::Error(r) => bail!("{}", r.text),
        }
    }

    /// Asks for one thing and returns all of the answer.
    ///
    /// # Errors
    /// It was refused, or nobody answers.
    pub fn ask(&mut self, request: &Request) -> Result<(Vec<Item>, Done)> {
        self.send(request)?;
        let mut items = Vec::new();
        loop {
            match self.next()? {
                Next::Item(i) => items.push(i),
                Next::Done(d) => return Ok((items, d)),
            }
        }
    }

    /// Something that ends the conversation from another thread: the rest of the answer still
    /// comes.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn hang_up(&self) -> io::Result<impl Fn() + Send + 'static> {
        self.lines.link().hang_up()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that hangs takes no bytes, or does not shake hands: both are no answer, and none of the system's words.
    #[test]
    fn who_is_late_is_told_as_late_whatever_was_waited_for() {
        for kind in [ErrorKind::WouldBlock, ErrorKind::TimedOut] {
            let e = broken("h:6680", &io::Error::from(kind));
            assert_eq!(e.to_string(), "h:6680: no answer within 30 s");
            assert!(e.is::<NoAnswer>());
        }
        let e = broken("h", &io::Error::from_raw_os_error(11));
        assert_eq!(e.to_string(), "h: no answer within 30 s");
    }
}
