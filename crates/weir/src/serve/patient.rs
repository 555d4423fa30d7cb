//! A connection on which nobody is waited for longer than said.
//!
//! Room: bytes. A client that does not read what it asked for is let go; how long a request's head and
//! body may take is the server's and [`super::take`]'s to say. One that says no more after its request
//! has not gone: its answer is still read.

use super::room::{Client, Owed};
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a client may take none of what is sent.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a request that has come whole may take to be read, once its client says no more.
const WHOLE: Duration = Duration::from_secs(2);

/// A stream with a deadline on writing.
#[derive(Debug)]
pub struct Patient<S> {
    stream: S,
    client: Arc<Client>,
    /// Runs while the stream takes nothing.
    late: Pin<Box<Sleep>>,
    patience: Duration,
    waits: Waits,
    /// Runs once the client says no more, while its request is read.
    end: Option<Pin<Box<Sleep>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Yes,
    No,
}

impl<S> Patient<S> {
    /// Around a stream of this client's.
    pub fn new(stream: S, client: Arc<Client>) -> Self {
        Self::lasting(stream, client, PATIENCE)
    }

    fn lasting(stream: S, client: Arc<Client>, patience: Duration) -> Self {
        Self {
            stream,
            client,
            late: Box::pin(sleep(patience)),
            patience,
            waits: Waits::No,
            end: None,
        }
    }

    fn patient<T>(&mut self, cx: &mut Context<'_>, poll: Poll<Result<T>>) -> Poll<Result<T>> {
        if poll.is_ready() {
            self.waits = Waits::No;
            return poll;
        }
        if self.waits == Waits::No {
            self.waits = Waits::Yes;
            let end = Instant::now() + self.patience;
            self.late.as_mut().reset(end);
        }
        ready!(self.late.as_mut().poll(cx));
        Poll::Ready(Err(Error::from(ErrorKind::TimedOut)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if buf.filled().len() > before || buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        // Whoever is told of the end gives up what is at work.
        match self.client.owed(cx) {
            Owed::No => Poll::Ready(Ok(())),
            Owed::Yes => {
                // The next request has its own time.
                self.end = None;
                Poll::Pending
            }
            Owed::IfWhole => {
                let end = self.end.get_or_insert_with(|| Box::pin(sleep(WHOLE)));
                end.as_mut().poll(cx).map(Ok)
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.patient(cx, poll)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        self.patient(cx, poll)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.patient(cx, poll)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[test]
    fn who_takes_nothing_is_let_go() {
        let mut b = tokio::runtime::Builder::new_current_thread();
        let runtime = b.enable_time().build().unwrap();
        runtime.block_on(async {
            let (near, _far) = tokio::io::duplex(4);
            let mut near =
                Patient::lasting(near, Arc::new(Client::new()), Duration::from_millis(5));
            let e = near.write_all(b"longer than four").await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::TimedOut);
        });
    }
}
