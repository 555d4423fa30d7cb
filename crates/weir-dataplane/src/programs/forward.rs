//! `forward`: what comes in by one port leaves by another, always the same. Touches nothing of a
//! frame.
//!
//! Without a map of its own it is paper 004's software path (§5): frames are sent to software and
//! back, and leave by the port adjacent to the one they came in by. Ports 1 and 2 are neighbours,
//! 3 and 4, and so on.

use crate::action::PortNo;
use crate::program::{Program, ProgramCx, SlowFrame};
use thiserror::Error;
use weir_packet::{DropReason, Nanos};

/// A map that says two things at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("frames from port {from} are to leave by port {first} and by port {second}: name one")]
pub struct AmbiguousMap {
    /// The port that is mapped twice.
    pub from: PortNo,
    /// Its first target.
    pub first: PortNo,
    /// Its other target.
    pub second: PortNo,
}

/// Forwards by a fixed map.
#[derive(Debug, Default)]
pub struct Forward {
    /// Sorted by the first port. Empty: neighbours.
    map: Vec<(PortNo, PortNo)>,
    forwarded: u64,
    unmapped: u64,
}

/// The other port of a pair; port 0, which does not exist, has none.
const fn neighbour(PortNo(n): PortNo) -> Option<PortNo> {
    match n {
        0 => None,
        _ if n % 2 == 0 => Some(PortNo(n - 1)),
        _ => match n.checked_add(1) {
            Some(next) => Some(PortNo(next)),
            None => None,
        },
    }
}

impl Forward {
    /// Forwards between neighbours.
    pub fn neighbours() -> Self {
        Self::default()
    }

    /// Forwards by `(from, to)` pairs; frames from other ports are dropped.
    ///
    /// # Errors
    /// [`AmbiguousMap`] when a port is mapped to two.
    pub fn by_map(map: &[(PortNo, PortNo)]) -> Result<Self, AmbiguousMap> {
        let mut map = map.to_vec();
        map.sort_unstable();
        map.dedup();
        for (a, b) in map.iter().zip(map.iter().skip(1)) {
            if a.0 == b.0 {
                return Err(AmbiguousMap { from: a.0, first: a.1, second: b.1 });
            }
        }
        Ok(Self { map, ..Self::default() })
    }

    fn target(&self, from: PortNo) -> Option<PortNo> {
        if self.map.is_empty() {
            return neighbour(from);
        }
        let i = self.map.binary_search_by_key(&from, |m| m.0).ok()?;
        self.map.get(i).map(|m| m.1)
    }
}

impl Program for Forward {
    fn name(&self) -> &'static str {
        "forward"
    }

    fn patience(&self) -> Nanos {
        // It never looks at the time.
        Nanos(u64::MAX)
    }
    #[inline]
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        let to = self.target(rx.in_port);
        match to.filter(|to| cx.ports().iter().any(|p| p.no == *to)) {
            Some(to) => {
                self.forwarded += 1;
                cx.output(rx.frame, to);
            }
            None => {
                self.unmapped += 1;
                cx.drop(rx.frame, DropReason::NoSuchPort);
            }
        }
    }

    fn status(&self) -> Vec<(String, String)> {
        vec![
            ("forwarded".into(), self.forwarded.to_string()),
            ("without a target".into(), self.unmapped.to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_each_others() {
        for n in 1..100 {
            let other = neighbour(PortNo(n)).unwrap();
            assert_eq!(other.0.abs_diff(n), 1);
            assert_eq!(neighbour(other), Some(PortNo(n)));
        }
        assert_eq!((neighbour(PortNo(0)), neighbour(PortNo(u32::MAX))), (None, None));
    }
}
