//! What `weir run` says of connections: a line each, a few a minute for each controller and listener.
//!
//! Room: prints. Whoever comes and goes without end is told of now and then, with how often it was
//! left out; `weir show` knows the rest.

use crate::commands::say::tell;
use std::cell::RefCell;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whether the process keeps its peace: a daemon speaks, a demo shows something else.
static HUSHED: AtomicBool = AtomicBool::new(false);

/// No more lines, for the rest of the process.
pub fn hush() {
    HUSHED.store(true, Ordering::Relaxed);
}

/// Lines at once, after a pause.
const BURST: u32 = 8;
/// One more after this long.
const EVERY: Duration = Duration::from_secs(10);

/// The lines about one thing.
#[derive(Debug)]
pub struct Lines {
    about: String,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    tokens: u32,
    last: Instant,
    left_out: u64,
    /// When something was last said rarely.
    rare: Option<Instant>,
}

impl Lines {
    /// About this.
    pub fn new(about: String) -> Self {
        let state = State { tokens: BURST, last: Instant::now(), left_out: 0, rare: None };
        Self { about, state: RefCell::new(state) }
    }
    /// Says a line that counts for itself, if the last one was long enough ago; whether it was.
    pub fn tell_rarely<T: Display>(&self, what: impl FnOnce() -> T) -> bool {
        let mut s = self.state.borrow_mut();
        if s.rare.is_some_and(|t| t.elapsed() < EVERY) {
            return false;
        }
        s.rare = Some(Instant::now());
        drop(s);
        if !HUSHED.load(Ordering::Relaxed) {
            tell(format_args!("{}: {}", self.about, what()));
        }
        true
    }
    /// Says a line, unless there were many.
    pub fn tell(&self, what: impl Display) {
        if HUSHED.load(Ordering::Relaxed) {
            return;
        }
        let mut s = self.state.borrow_mut();
        let passed = s.last.elapsed().as_nanos() / EVERY.as_nanos();
        if passed > 0 {
            s.tokens = s.tokens.saturating_add(u32::try_from(passed).unwrap_or(BURST)).min(BURST);
            s.last = Instant::now();
        }
        if s.tokens == 0 {
            s.left_out += 1;
            return;
        }
        s.tokens -= 1;
        let about = &self.about;
        match std::mem::take(&mut s.left_out) {
            0 => tell(format_args!("{about}: {what}")),
            n => tell(format_args!("{about}: {what} ({n} lines about it were left out)")),
        }
    }
}
