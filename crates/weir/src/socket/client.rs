//! The other end of the control socket: what the client commands speak through.

use super::lines::{Lines, NoLine};
use super::place::default_path;
use super::protocol::{Done, Fault, Item, MAX_REPLY_BYTES, MAX_REQUEST_BYTES, Reply, Request};
use crate::commands::say::say;
use crate::fault::bad_input;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Which data plane is meant.
#[derive(Clone, Debug, Args)]
pub struct Where {
    /// Control socket of the running data plane [default: $XDG_RUNTIME_DIR/weir/control.sock, else
    /// /run/weir/control.sock]
    #[arg(long, value_name = "PATH", global = true)]
    pub socket: Option<PathBuf>,
}

/// How long an answer may take: changes wait for VDPs to go and for migrations to arrive.
const ANSWER: Duration = Duration::from_secs(30);

/// A connection.
#[derive(Debug)]
pub struct Client {
    lines: Lines,
    path: PathBuf,
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
        let path = self.socket.clone().unwrap_or_else(default_path);
        let stream = UnixStream::connect(&path).with_context(|| {
            format!(
                "{}: no data plane answers there; start 'weir run', or name its --socket",
                path.display()
            )
        })?;
        Ok(Client { lines: Lines::new(stream, MAX_REPLY_BYTES), path })
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
            other => other.with_context(|| format!("{}: control socket", self.path.display())),
        }
    }

    /// The next part of the answer.
    ///
    /// # Errors
    /// The request was refused, or nobody answers any more.
    pub fn next(&mut self) -> Result<Next> {
        let shown = self.path.display();
        let line = self.lines.next(ANSWER).map_err(|e| match e {
            NoLine::End => anyhow!("{shown}: the data plane has ended"),
            NoLine::Late => anyhow!("{shown}: no answer within {} s", ANSWER.as_secs()),
            NoLine::TooLong => anyhow!("{shown}: not weir's: a line without an end"),
            NoLine::System(e) => anyhow!("{shown}: control socket: {e}"),
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
    pub fn hang_up(&self) -> std::io::Result<impl Fn() + Send + 'static> {
        let stream = self.lines.stream().try_clone()?;
        Ok(move || {
            // A connection that is closed already needs no end.
            let _ = stream.shutdown(Shutdown::Write);
        })
    }
}
