//! Whom a thread goes before: for moments in which it must not wait for a core.
//!
//! Room: the calling thread's scheduling. Whoever takes precedence gives it back within milliseconds: meanwhile no
//! usual thread runs on that core.

use crate::sys::sched;
use std::io;

/// Whom a thread goes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// Nobody: it has its share (SCHED_OTHER).
    Usual,
    /// All that are usual (SCHED_FIFO, at its lowest priority).
    First,
}

/// Gives the calling thread this precedence.
///
/// # Errors
/// No right to it (CAP_SYS_NICE), or its group has no real time.
pub fn take(precedence: Precedence) -> io::Result<()> {
    sched::set(precedence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_given_back() {
        let policy = || {
            let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let after_name = text.rsplit_once(')').unwrap().1.to_owned();
            // Field 41 of proc(5), of which two stand before.
            after_name.split_whitespace().nth(38).unwrap().to_owned()
        };
        take(Precedence::Usual).unwrap();
        assert_eq!(policy(), "0");
        if let Err(e) = take(Precedence::First) {
            return println!("SKIPPED: what_was_taken_is_given_back: {e}");
        }
        assert_eq!(policy(), "1");
        // What is started from it has its share.
        assert_eq!(std::thread::spawn(policy).join().unwrap(), "0");
        take(Precedence::Usual).unwrap();
        assert_eq!(policy(), "0");
    }
}
