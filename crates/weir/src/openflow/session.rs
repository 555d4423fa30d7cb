//! One connection's task: bytes in, turns of the switch, bytes out, until it ends.
//!
//! Room: between a stream and its [`Vdp`]. Reads stop when the channel says so (its output is full, a
//! rate limit holds it back), so whoever floods, stalls or reads slowly waits in its own socket.
//! Called by `connect` and `listen`.

use super::clock::{nanos, since_start};
use super::conn::Conn;
use super::relay::home::{self, Over};
use super::relay::{Hello, PeerRef, State};
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
/// How long a node that did not take a connection up is let alone.
const RETRY: Duration = Duration::from_millis(200);
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

/// Runs a connection to its end, from a state or from its beginning. `up` is told when a version is
/// agreed.
pub async fn run(
    vdp: &Vdp,
    mut conn: Rc<Conn>,
    mut stream: Stream,
    mut state: Option<State>,
    up: impl Fn(Version),
) -> Ended {
    let mut was_up = state.is_some();
    loop {
        if let (Some(peer), None) = (vdp.goes_to(), &state) {
            match relayed(vdp, &conn, &mut stream, &peer, &up).await {
                Ok(s) => state = s,
                Err(why) => return Ended { why, was_up: true },
            }
            was_up |= conn.version.get().is_some();
        }
        if let Some(s) = &state {
            let (endpoint, peer, now) = (conn.endpoint, conn.peer.clone(), vdp.common.clock.now());
            let resumed = Conn::resumed(conn.id, endpoint, peer, s, &vdp.how.get(), now);
            conn = Rc::new(resumed.after(&conn));
        }
        vdp.enter(Rc::clone(&conn), state.take().as_ref());
        let mut s = Session {
            vdp,
            conn: &conn,
            stream,
            timer: Box::pin(tokio::time::sleep(LINGER)),
            input: Input::Open,
            told: if was_up { Told::Up } else { Told::NotYet },
            ending: None,
            leaving: Leaving::No,
        };
        let over = poll_fn(|cx| s.poll(cx, &up)).await;
        stream = s.stream;
        was_up |= conn.version.get().is_some();
        match over {
            Stop::Over(why) => {
                vdp.leave(&conn);
                if let Stream::Relayed(s) = &mut stream {
                    s.end(&why);
                    // As much of it as is taken: the other end may be gone.
                    let _ = tokio::time::timeout(LINGER, poll_fn(|cx| s.poll_flush(cx))).await;
                }
                return Ended { why, was_up };
            }
            Stop::Returned => {
                return Ended { why: "the switch has gone to another node".to_owned(), was_up };
            }
            // Round again: by the other node.
            Stop::Moved => {}
        }
    }
}

/// Carries a connection's bytes to the node where its switch is. One that was here until now goes there
/// when that node has taken it up, and stays here until then. Done when the connection is here: as it was
/// left, or as one that begins.
///
/// # Errors
/// Why it has ended.
async fn relayed(
    vdp: &Vdp,
    conn: &Rc<Conn>,
    stream: &mut Stream,
    peer: &PeerRef,
    told: &impl Fn(Version),
) -> Result<Option<State>, String> {
    // From here on whoever has connections come home waits for this one.
    vdp.departs(conn);
    let connected = home::connect(peer).await;
    let state = vdp.release(conn);
    // The switch may be about to be here again: what goes there now would find none.
    if !vdp.goes_to().is_some_and(|to| Rc::ptr_eq(&to, peer)) {
        return stays(vdp, conn, state);
    }
    if let Err(e) = &connected {
        vdp.not_reached(e);
    }
    let hello = Hello { token: peer.token, purpose: conn.purpose, peer: conn.peer.clone(), state };
    let greeted = match connected {
        Ok(mut up) => up.greet(&hello).await.map(|()| up),
        Err(e) => Err(e.why().to_owned()),
    };
    let (up, input) = match (greeted, hello.state) {
        (Ok(up), s) => (up, s.map(|s| s.input).unwrap_or_default()),
        (Err(why), None) => {
            vdp.came_back(conn);
            return Err(format!("{}: {why}", peer.at));
        }
        // It stays here, where the switch rests, until the next attempt, or until that is awake again.
        (Err(_), Some(s)) => {
            tokio::time::sleep(RETRY).await;
            return stays(vdp, conn, Some(s));
        }
    };
    vdp.relays(conn, peer);
    let over = up.run(conn, stream, &input, told).await;
    vdp.relays_no_more(conn);
    match over {
        Over::Ended(why) => Err(why),
        Over::Home(s) => {
            vdp.sent_back(peer);
            Ok(Some(s))
        }
    }
}

/// A connection that did not go.
fn stays(vdp: &Vdp, conn: &Conn, state: Option<State>) -> Result<Option<State>, String> {
    vdp.came_back(conn);
    conn.stopped().map_or(Ok(state), Err)
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
    leaving: Leaving,
}

/// Whether it goes back to the node that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// That node was asked to read no more of the controller.
    Asked,
    /// All that there is to say was said.
    Said,
}

/// How a connection's stay here ended.
#[derive(Debug)]
enum Stop {
    /// With it.
    Over(String),
    /// Its switch is at another node.
    Moved,
    /// It went back to the node that it came from.
    Returned,
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
    fn poll(&mut self, cx: &mut Context<'_>, up: &impl Fn(Version)) -> Poll<Stop> {
        self.conn.watched_by(cx.waker());
        match self.go_elsewhere(cx) {
            Ok(None) => {}
            Ok(Some(over)) => return over,
            Err(why) => return Poll::Ready(Stop::Over(why)),
        }
        match self.step(cx, up) {
            Ok(Next::Again) => cx.waker().wake_by_ref(),
            Ok(Next::Wait) => {}
            Err(why) => return Poll::Ready(Stop::Over(why)),
        }
        Poll::Pending
    }

    /// Where the switch has gone or is about to go, the connection follows: all that was answered is
    /// written first, and nothing more is heeded here.
    ///
    /// # Errors
    /// Why the connection is over.
    fn go_elsewhere(&mut self, cx: &mut Context<'_>) -> Result<Option<Poll<Stop>>, String> {
        let returns = matches!(self.stream, Stream::Relayed(_)) && self.vdp.returns();
        if !returns && self.vdp.goes_to().is_none() {
            return Ok(None);
        }
        if let Some(why) = self.conn.stopped() {
            return Err(why);
        }
        if self.conn.version.get().is_none() {
            return Err("its switch is moving to another node: connect again".to_owned());
        }
        self.vdp.tell_all(self.conn);
        self.write(cx)?;
        if !self.conn.channel.borrow().outgoing().is_empty() {
            return Ok(Some(Poll::Pending));
        }
        let Stream::Relayed(s) = &mut self.stream else {
            return Ok(Some(Poll::Ready(Stop::Moved)));
        };
        if self.leaving == Leaving::No {
            s.ask_to_return();
            self.leaving = Leaving::Asked;
        }
        if let Poll::Ready(Err(e)) = s.poll_flush(cx) {
            return Err(lost(&e));
        }
        if self.leaving == Leaving::Said {
            return match s.poll_shutdown(cx) {
                Poll::Ready(Err(e)) => Err(lost(&e)),
                Poll::Ready(Ok(())) => Ok(Some(Poll::Ready(Stop::Returned))),
                Poll::Pending => Ok(Some(Poll::Pending)),
            };
        }
        let rest = match s.poll_rest(cx) {
            Poll::Pending => return Ok(Some(Poll::Pending)),
            Poll::Ready(rest) => rest.map_err(|e| lost(&e))?,
        };
        let Some(mut state) = self.vdp.release(self.conn) else {
            return Err("it has ended".to_owned());
        };
        state.input.extend(rest);
        s.send_home(&state);
        self.leaving = Leaving::Said;
        cx.waker().wake_by_ref();
        Ok(Some(Poll::Pending))
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

/// Why a connection is no more, in words.
pub fn lost(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::ConnectionReset => "the peer has reset it".to_owned(),
        io::ErrorKind::BrokenPipe => "the peer has gone".to_owned(),
        _ => tls::io_in_words(e),
    }
}
