//! Sleeping until a port has frames: [`weir_packet::Waiter`] by epoll.
//!
//! Room: ports. For a worker that has nothing to do; whoever has something for it rings its bell.

use crate::sys::epoll::{Event, Set};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;
use weir_packet::{Bell, Waiter, Woken};

/// Waits by epoll.
#[derive(Debug)]
pub struct Epoll {
    set: Set,
    event: Arc<Ring>,
}

#[derive(Debug)]
struct Ring(Event);

impl Bell for Ring {
    fn ring(&self) {
        self.0.set();
    }
}

impl Epoll {
    /// Watches nothing but its bell yet.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = Arc::new(Ring(Event::new()?));
        Ok(Self { set: Set::new(&event.0)?, event })
    }
}

impl Waiter for Epoll {
    fn watch(&mut self, of: &mut dyn Iterator<Item = BorrowedFd<'_>>) -> io::Result<()> {
        for fd in of {
            self.set.add(fd)?;
        }
        Ok(())
    }
    fn wait(&mut self, at_most: Duration) -> Woken {
        let ready = self.set.wait(at_most);
        if ready.event {
            self.event.0.clear();
        }
        match (ready.others, ready.event) {
            (true, _) => Woken::Readable,
            (false, true) => Woken::Rung,
            (false, false) => Woken::Late,
        }
    }
    fn bell(&self) -> Arc<dyn Bell> {
        Arc::clone(&self.event) as Arc<dyn Bell>
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_ends_a_sleep() {
        let mut w = Epoll::new().unwrap();
        let (mut a, b) = UnixStream::pair().unwrap();
        w.watch(&mut [b.as_fd()].into_iter()).unwrap();
        // Twice is once.
        w.watch(&mut [b.as_fd(), a.as_fd()].into_iter()).unwrap();
        assert_eq!(w.wait(Duration::ZERO), Woken::Late);
        let bell = w.bell();
        bell.ring();
        bell.ring();
        assert_eq!(w.wait(LONG), Woken::Rung);
        assert_eq!(w.wait(Duration::from_micros(1)), Woken::Late);
        a.write_all(b"x").unwrap();
        assert_eq!(w.wait(LONG), Woken::Readable);
        // It is not read: it is so still.
        bell.ring();
        assert_eq!(w.wait(LONG), Woken::Readable);
        drop(b);
        // The other end now says that it was closed; then nothing is left to say so.
        assert_eq!(w.wait(LONG), Woken::Readable);
        drop(a);
        assert_eq!(w.wait(Duration::ZERO), Woken::Late);
    }

    #[test]
    fn a_ring_from_elsewhere_ends_the_sleep_that_lasts() {
        let mut w = Epoll::new().unwrap();
        let bell = w.bell();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            bell.ring();
        });
        assert_eq!(w.wait(LONG), Woken::Rung);
        other.join().unwrap();
    }
}
