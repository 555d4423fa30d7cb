//! One connection's task: bytes in, turns of the switch, bytes out, until it ends.
//!
//! Room: between a stream and its [`Vdp`]. Reads stop when the channel says so (its output is full, a
//! rate limit holds it back), so whoever floods, stalls or reads slowly waits in its own socket.
//! Called by `connect` and `listen`.

use super::clock::{nanos, since_start};
use super::conn::Conn;
use super::stream::Stream;
use super::tls;
use super::vdp::{Turn, Vdp};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use weir_openflow::model::Version;

/// Bytes that are read in one turn.
const READ: usize = 64 * 1024;
/// How long a peer may take to read what it is told at the end.
const LINGER: Duration = Duration::from_secs(2);

/// How a connection ended.
#[derive(Debug)]
pub struct Ended {
    /// Why.
    pub why: String,
    /// Whether a version had been agreed.
    pub was_up: bool,
}

/// Runs a connection to its end. `up` is told when a version is agreed.
pub async fn run(vdp: &Vdp, conn: Rc<Conn>, stream: Stream, up: impl Fn(Version)) -> Ended {
    vdp.enter(Rc::clone(&conn));
    let mut s = Session {
        vdp,
        conn: &conn,
        stream,
        timer: Box::pin(tokio::time::sleep(LINGER)),
        input: Input::Open,
        told: Told::NotYet,
        ending: None,
    };
    let why = poll_fn(|cx| s.poll(cx, &up)).await;
    vdp.leave(&conn);
    Ended { why, was_up: conn.version.get().is_some() }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    /// The peer sends no more.
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    NotYet,
    Up,
}

struct Session<'a> {
    vdp: &'a Vdp,
    conn: &'a Conn,
    stream: Stream,
    timer: Pin<Box<Sleep>>,
    input: Input,
    told: Told,
    /// Why it ends, and until when the peer may still read.
    ending: Option<(String, Instant)>,
}

/// What one step leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Wait until something happens.
    Wait,
    /// Carry on as soon as others had their turn.
    Again,
}

impl Session<'_> {
    fn poll(&mut self, cx: &mut Context<'_>, up: &impl Fn(Version)) -> Poll<String> {
        self.conn.watched_by(cx.waker());
        match self.step(cx, up) {
            Ok(Next::Again) => cx.waker().wake_by_ref(),
            Ok(Next::Wait) => {}
            Err(why) => return Poll::Ready(why),
        }
        Poll::Pending
    }

    /// One turn.
    ///
    /// # Errors
    /// Why the connection is over.
    fn step(&mut self, cx: &mut Context<'_>, up: &impl Fn(Version)) -> Result<Next, String> {
        if let Some(why) = self.conn.stopped() {
            // What it was told last, as that its ports have gone, it hears if it can be sent at once.
            let _ = self.write(cx);
            return Err(why);
        }
        let now = self.vdp.common.clock.now();
        self.conn.channel.borrow_mut().tick(since_start(now));
        let mut next = self.write(cx)?;
        if self.ending.is_none() {
            next = later(next, self.read(cx)?);
            next = later(next, self.take_turn(now)?);
            if let (Told::NotYet, Some(version)) = (self.told, self.conn.version.get()) {
                self.told = Told::Up;
                up(version);
            }
            next = later(next, self.write(cx)?);
        }
        let linger = match &self.ending {
            Some((why, until)) => {
                let left = !self.conn.channel.borrow().outgoing().is_empty();
                if !left || Instant::now() >= *until {
                    // The last bytes of TLS; the peer may be gone.
                    let _ = self.stream.poll_shutdown(cx);
                    return Err(why.clone());
                }
                Some(*until)
            }
            None => None,
        };
        let wake = self.conn.channel.borrow().wake_at().map(nanos);
        let wake = wake.map(|at| self.vdp.common.clock.when(at));
        if let Some(at) = [wake, linger].into_iter().flatten().min() {
            if self.timer.deadline() != at {
                self.timer.as_mut().reset(at);
            }
            if self.timer.as_mut().poll(cx).is_ready() {
                next = Next::Again;
            }
        }
        Ok(next)
    }

    fn take_turn(&mut self, now: weir_packet::Nanos) -> Result<Next, String> {
        let full = self.conn.channel.borrow().input_room() == 0;
        let end = |why: String| Some((why, Instant::now() + LINGER));
        match self.vdp.turn(self.conn, now) {
            Turn::More => return Ok(Next::Again),
            Turn::Gone => return Err("the data plane has ended".to_owned()),
            Turn::Closed(why) => self.ending = end(why.to_string()),
            Turn::Drained => {
                let room = self.conn.channel.borrow().wants_read();
                if room && self.input == Input::Ended {
                    self.ending = end("the peer has closed it".to_owned());
                } else if room && full {
                    return Ok(Next::Again);
                }
            }
        }
        Ok(Next::Wait)
    }

    /// Reads what is there, as far as the channel takes it.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<Next, String> {
        let mut taken = 0;
        while self.input == Input::Open && taken < READ {
            let mut channel = self.conn.channel.borrow_mut();
            let mut buffer = self.vdp.common.buffer.borrow_mut();
            let room = channel.input_room().min(buffer.len());
            let Some(into) = buffer.get_mut(..room).filter(|b| !b.is_empty()) else {
                return Ok(Next::Wait);
            };
            match self.stream.poll_read(cx, into) {
                Poll::Pending => return Ok(Next::Wait),
                Poll::Ready(Ok(0)) => self.input = Input::Ended,
                Poll::Ready(Ok(n)) => {
                    let now = self.vdp.common.clock.now();
                    // All of it: no more was read than there is room for.
                    channel.receive(into.get(..n).unwrap_or_default(), since_start(now));
                    taken += n;
                }
                Poll::Ready(Err(e)) => return Err(lost(&e)),
            }
        }
        Ok(if taken < READ { Next::Wait } else { Next::Again })
    }

    /// Writes what waits, as far as the peer takes it.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<Next, String> {
        let mut channel = self.conn.channel.borrow_mut();
        let held_back = channel.output_room() == 0;
        let mut any = false;
        while !channel.outgoing().is_empty() {
            match self.stream.poll_write(cx, channel.outgoing()) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return Err("nothing can be written any more".to_owned()),
                Poll::Ready(Ok(n)) => {
                    channel.advance(n);
                    any = true;
                }
                Poll::Ready(Err(e)) => return Err(lost(&e)),
            }
        }
        if let Poll::Ready(Err(e)) = self.stream.poll_flush(cx) {
            return Err(lost(&e));
        }
        Ok(if any && held_back { Next::Again } else { Next::Wait })
    }
}

fn later(a: Next, b: Next) -> Next {
    if a == Next::Again { a } else { b }
}

fn lost(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::ConnectionReset => "the peer has reset it".to_owned(),
        io::ErrorKind::BrokenPipe => "the peer has gone".to_owned(),
        io::ErrorKind::UnexpectedEof => "the peer has closed it without a good-bye".to_owned(),
        _ => tls::io_in_words(e),
    }
}
