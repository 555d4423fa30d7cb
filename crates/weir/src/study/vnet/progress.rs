//! How far a study is, for whoever waits: which part, of how many, and about how long the rest takes.
//!
//! Room: words for a [`Watch`]. Called by studies whose parts take about as long as each other.

use crate::study::Watch;
use anyhow::Result;
use std::time::{Duration, Instant};

/// Parts of a study.
#[derive(Debug)]
pub struct Progress {
    parts: usize,
    done: usize,
    begun: Instant,
}

impl Progress {
    /// So many parts, none of them done.
    pub fn over(parts: usize) -> Self {
        Self { parts, done: 0, begun: Instant::now() }
    }

    /// Says which part begins.
    ///
    /// # Errors
    /// It was asked to stop.
    pub fn next(&mut self, watch: &mut Watch<'_>, what: &str) -> Result<()> {
        watch.next(&format!("{what} ({})", self.told(self.begun.elapsed())))?;
        self.done += 1;
        Ok(())
    }

    fn told(&self, elapsed: Duration) -> String {
        let (part, parts) = (self.done + 1, self.parts.max(self.done + 1));
        let each = u32::try_from(self.done).ok().and_then(|n| elapsed.checked_div(n));
        let left = each.map(|e| e.as_secs_f64() * (parts - self.done) as f64);
        let left = left.map(|s| format!(", about {s:.0} s left")).unwrap_or_default();
        format!("{part} of {parts}{left}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_once_something_is_done() {
        let mut p = Progress::over(4);
        assert_eq!(p.told(Duration::ZERO), "1 of 4");
        p.done = 1;
        assert_eq!(p.told(Duration::from_secs(5)), "2 of 4, about 15 s left");
        // Parts that nobody had counted.
        p.done = 6;
        assert_eq!(p.told(Duration::from_secs(6)), "7 of 7, about 1 s left");
    }
}
