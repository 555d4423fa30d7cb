//! How long an interface is waited for that another has, or is only just giving back: a queue that was in use is given back
//! late, by a busy machine more than half a second later.
//!
//! Used by `open` and `af_xdp`, and by who opens ports of a data plane that must not stand still meanwhile.

use std::time::{Duration, Instant};

/// How long in all.
const LONGEST: Duration = Duration::from_secs(2);
/// Between two attempts at first, and at most.
const FIRST: Duration = Duration::from_millis(10);
const MOST: Duration = Duration::from_millis(100);

/// Whether a port is opened once more where another has its interface ([`weir_packet::DeviceError::Busy`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// So that nothing else is done about it.
    Later,
    /// This is the last time: what else the interface can be opened by is tried.
    Never,
}

/// See the head of this file. For who can't wait in one place: see [`patiently`] else.
#[derive(Debug, Default)]
pub struct Patience {
    /// None before it was tried.
    until: Option<Instant>,
    pause: Duration,
}

impl Patience {
    /// Nothing was tried yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Waits before an attempt, not before the first.
    pub fn wait(&self) {
        std::thread::sleep(self.pause);
    }
    /// Begins an attempt. Says whether there is another after it.
    pub fn begin(&mut self) -> Again {
        let now = Instant::now();
        let until = *self.until.get_or_insert(now + LONGEST);
        self.pause = (2 * self.pause).clamp(FIRST, MOST);
        if now < until { Again::Later } else { Again::Never }
    }
}

/// Tries until it is done, or fails otherwise than that an interface is busy, which `is_busy` says.
///
/// # Errors
/// As the last attempt.
pub fn patiently<T, E>(
    is_busy: impl Fn(&E) -> bool,
    mut attempt: impl FnMut(Again) -> Result<T, E>,
) -> Result<T, E> {
    let mut patience = Patience::new();
    loop {
        patience.wait();
        let again = patience.begin();
        match attempt(again) {
            Err(e) if again == Again::Later && is_busy(&e) => {}
            done => return done,
        }
    }
}
