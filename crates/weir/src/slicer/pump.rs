//! One connection's task: bytes in, turns at the desk, bytes out, until it ends.
//!
//! Room: between a stream and its [`Desk`]. What a peer sends waits in its own socket while its channel or the
//! desk does not take it.

use super::desk::{Desk, Turn};
use super::peer::{Peer, Who};
use crate::openflow::session::lost;
use crate::openflow::stream::Stream;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Bytes that are read in one turn.
const READ: usize = 64 * 1024;
/// How long a peer may take to read what it is told at the end.
const LINGER: Duration = Duration::from_secs(1);

/// Runs a connection to its end; says why it ended.
pub async fn run(desk: &Rc<Desk>, peer: Rc<Peer>, stream: Stream) -> String {
    desk.enter(Rc::clone(&peer));
    let timer = Box::pin(tokio::time::sleep(LINGER));
    let mut p = Pump { desk, peer: &peer, stream, timer, ended: None, buffer: vec![0; 16 * 1024] };
    let why = poll_fn(|cx| p.poll(cx)).await;
    desk.leave(&peer);
    why
}

struct Pump<'a> {
    desk: &'a Rc<Desk>,
    peer: &'a Peer,
    stream: Stream,
    timer: Pin<Box<Sleep>>,
    /// Why it ends, and until when the peer may still read.
    ended: Option<(String, Instant)>,
    buffer: Vec<u8>,
}

impl Pump<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        self.peer.watched_by(cx.waker());
        if let Some(why) = self.peer.stopped() {
            return Poll::Ready(why);
        }
        match self.step(cx) {
            Ok(again) => {
                if again == Again::Soon {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
            Err(why) => Poll::Ready(why),
        }
    }

    fn step(&mut self, cx: &mut Context<'_>) -> Result<Again, String> {
        let now = self.desk.now();
        self.peer.channel.borrow_mut().tick(now);
        let mut again = Again::Later;
        let mut wake = None;
        self.write(cx)?;
        if self.ended.is_none() {
            let open = self.read(cx)?;
            match self.desk.turn(self.peer) {
                Turn::More => again = Again::Soon,
                Turn::Until(at) => wake = Some(at),
                Turn::Closed(why) => self.ended = Some((why, Instant::now() + LINGER)),
                Turn::Drained => match open {
                    Open::More => again = Again::Soon,
                    // There is room now, and the stream was not asked: nothing else would wake this.
                    Open::Full if self.takes_input() => again = Again::Soon,
                    // What is held back is heard first, down to what the channel keeps meanwhile.
                    Open::No if self.takes_input() => {
                        let why = "the peer has closed it".to_owned();
                        self.ended = Some((why, Instant::now() + LINGER));
                    }
                    Open::Full | Open::No | Open::Yes => {}
                },
                Turn::Waits => {}
            }
            self.write(cx)?;
        }
        let linger = match &self.ended {
            Some((why, until)) => {
                let left = !self.peer.channel.borrow().outgoing().is_empty();
                if !left || Instant::now() >= *until {
                    // The last bytes of TLS; the peer may be gone.
                    let _ = self.stream.poll_shutdown(cx);
                    return Err(why.clone());
                }
                Some(*until)
            }
            None => None,
        };
        let at = self.peer.channel.borrow().wake_at();
        let of_all = self.desk.wake_at().filter(|_| self.peer.who == Who::Switch);
        let at = [at, wake, of_all].into_iter().flatten().min().map(|at| self.desk.when(at));
        if let Some(at) = [at, linger].into_iter().flatten().min() {
            self.timer.as_mut().reset(at);
            if self.timer.as_mut().poll(cx).is_ready() {
                again = Again::Soon;
            }
        }
        Ok(again)
    }

    /// Whether the channel has room for what comes.
    fn takes_input(&self) -> bool {
        self.peer.channel.borrow().wants_read()
    }

    /// Reads what is there, as far as the channel takes it.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<Open, String> {
        let mut taken = 0;
        while taken < READ {
            let mut channel = self.peer.channel.borrow_mut();
            let room = channel.input_room().min(self.buffer.len());
            let Some(into) = self.buffer.get_mut(..room).filter(|b| !b.is_empty()) else {
                return Ok(Open::Full);
            };
            match self.stream.poll_read(cx, into) {
                Poll::Pending => return Ok(Open::Yes),
                Poll::Ready(Ok(0)) => return Ok(Open::No),
                Poll::Ready(Ok(n)) => {
                    channel.receive(into.get(..n).unwrap_or_default(), self.desk.now());
                    taken += n;
                }
                Poll::Ready(Err(e)) => return Err(lost(&e)),
            }
        }
        Ok(Open::More)
    }

    /// Writes what waits, as far as the peer takes it.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        loop {
            let mut channel = self.peer.channel.borrow_mut();
            if channel.outgoing().is_empty() {
                drop(channel);
                if !self.desk.refill(self.peer) {
                    break;
                }
                continue;
            }
            match self.stream.poll_write(cx, channel.outgoing()) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return Err("nothing can be written any more".to_owned()),
                Poll::Ready(Ok(n)) => channel.advance(n),
                Poll::Ready(Err(e)) => return Err(lost(&e)),
            }
        }
        match self.stream.poll_flush(cx) {
            Poll::Ready(Err(e)) => Err(lost(&e)),
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    Soon,
    Later,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Yes,
    /// The channel takes no more for now.
    Full,
    /// There is more to read.
    More,
    /// The peer sends no more.
    No,
}
