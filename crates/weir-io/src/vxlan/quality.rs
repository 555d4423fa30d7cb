//! What probes tell of a way besides that it lives: delay there and back, how delays vary, what is lost.
//!
//! Room: pure; times are arguments. Called by the endpoint for each probe that comes, and by the port for
//! each that goes.
//!
//! A probe says when its sender sent it, and when the last one that the sender has heard had been sent, and
//! for how long it has been there since: so the two ends' clocks need not agree (as in TWAMP, RFC 5357). How
//! delays vary is RFC 3550's jitter (§6.4.1), of the way from the other end to this one. Probes are numbered:
//! one that does not come before a later one is lost until it comes late.

use super::liveness::Probe;
use weir_packet::{Nanos, WayDelay};

/// What is known of a way.
#[derive(Clone, Debug, Default)]
pub(super) struct Quality {
    /// Who sends, and the largest number that came.
    highest: Option<(u64, u64)>,
    /// When the last one had been sent by its sender's clock, and when it came by ours.
    last: Option<(u64, Nanos)>,
    heard: u64,
    lost: u64,
    late: u64,
    delay: Option<WayDelay>,
    /// Nanoseconds.
    jitter: f64,
}

/// What the next probe says of what was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Echo {
    /// When its sender sent the last one that came; nothing came: 0.
    pub sent: u64,
    /// For how long it has been here, in nanoseconds; `u32::MAX`: too long to be told.
    pub held: u32,
}

impl Quality {
    /// A probe came at `at`.
    pub(super) fn heard(&mut self, p: &Probe, at: Nanos) {
        self.heard += 1;
        match &mut self.highest {
            Some((sender, highest)) if *sender == p.sender => {
                if p.number > *highest {
                    self.lost = self.lost.saturating_add(p.number - *highest - 1);
                    *highest = p.number;
                } else {
                    self.late += 1;
                    self.lost = self.lost.saturating_sub(1);
                    return;
                }
                if let Some((sent, came)) = self.last {
                    let took = at.0.abs_diff(came.0) as f64;
                    let apart = p.sent.saturating_sub(sent) as f64;
                    self.jitter += ((took - apart).abs() - self.jitter) / 16.0;
                }
            }
            // The other end was opened anew: it counts from the beginning, by another clock perhaps.
            other => *other = Some((p.sender, p.number)),
        }
        self.last = Some((p.sent, at));
        let Some(ns) = there_and_back(p.echo, at) else { return };
        let Some(d) = &mut self.delay else {
            self.delay = Some(WayDelay { last_ns: ns, least_ns: ns, most_ns: ns, smoothed_ns: ns });
            return;
        };
        (d.last_ns, d.least_ns, d.most_ns) = (ns, d.least_ns.min(ns), d.most_ns.max(ns));
        // As RFC 6298 smooths it.
        d.smoothed_ns = d.smoothed_ns - d.smoothed_ns / 8 + ns / 8;
    }

    /// What a probe that leaves at `now` says.
    pub(super) fn echo(&self, now: Nanos) -> Echo {
        let Some((sent, came)) = self.last else { return Echo::default() };
        Echo { sent, held: u32::try_from(now.since(came).0).unwrap_or(u32::MAX) }
    }

    /// As it is told.
    pub(super) fn told(&self) -> Told {
        Told {
            heard: self.heard,
            lost: self.lost,
            late: self.late,
            delay: self.delay,
            // What is measured is far from 2^64 ns; the cast saturates.
            jitter_ns: self.jitter as u64,
        }
    }
}

/// What is told of a way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub heard: u64,
    pub lost: u64,
    pub late: u64,
    pub delay: Option<WayDelay>,
    pub jitter_ns: u64,
}

/// `None`: nothing was echoed, or what can't be (a clock that was another's).
fn there_and_back(echo: Echo, at: Nanos) -> Option<u64> {
    let of_ours = echo.sent != 0 && echo.held != u32::MAX;
    let away = at.0.checked_sub(echo.sent).filter(|_| of_ours)?;
    away.checked_sub(u64::from(echo.held))
}

#[cfg(test)]
mod tests {
    use super::super::liveness::Said;
    use super::*;
    use proptest::prelude::*;
    use weir_packet::LinkState;

    const US: u64 = 1_000;

    fn probe(number: u64, sent: u64, echo: Echo) -> Probe {
        Probe { sender: 7, says: Said { hears: true, link: LinkState::Up }, number, sent, echo }
    }

    /// Two ends, whose clocks differ, 300 us apart one way and 500 us the other.
    #[test]
    fn delay_there_and_back_needs_no_common_clock() {
        let ahead = 1_000_000_000_000;
        let (mut here, mut there) = (Quality::default(), Quality::default());
        for n in 0..50 {
            let now = 1 + n * 10_000 * US;
            there.heard(&probe(n, now, here.echo(Nanos(now))), Nanos(now + 300 * US + ahead));
            // It answers with its own probe 4 ms later.
            let then = now + 4_300 * US;
            let echo = there.echo(Nanos(then + ahead));
            here.heard(&probe(n, then + ahead, echo), Nanos(then + 500 * US));
        }
        for q in [&here, &there] {
            let d = q.told().delay.unwrap();
            assert_eq!((d.least_ns, d.most_ns, d.last_ns), (800 * US, 800 * US, 800 * US));
            assert!(d.smoothed_ns.abs_diff(800 * US) < 8, "{d:?}");
            assert_eq!((q.told().lost, q.told().late, q.told().jitter_ns), (0, 0, 0));
        }
        assert_eq!(here.told().heard, 50);
    }

    #[test]
    fn what_does_not_come_is_lost_until_it_comes_late() {
        let mut q = Quality::default();
        for n in [5, 6, 9, 8, 10] {
            q.heard(&probe(n, n * US, Echo::default()), Nanos(n * US));
        }
        assert_eq!((q.told().heard, q.told().lost, q.told().late), (5, 1, 1));
        assert_eq!(q.told().delay, None);
        // Another sender counts anew, and what was lost stays lost.
        q.heard(&Probe { sender: 8, ..probe(0, 1, Echo::default()) }, Nanos(20 * US));
        assert_eq!((q.told().heard, q.told().lost), (6, 1));
    }

    #[test]
    fn delays_that_vary_are_told() {
        let mut q = Quality::default();
        for n in 0..400_u64 {
            // Each second one 160 us later: differences of 160 us each time.
            let late = if n % 2 == 0 { 0 } else { 160 * US };
            q.heard(&probe(n, n * 1_000 * US, Echo::default()), Nanos(n * 1_000 * US + late));
        }
        assert!(q.told().jitter_ns.abs_diff(160 * US) < US, "{}", q.told().jitter_ns);
    }

    proptest! {
        /// Whatever comes from whoever knows the key: no panic, and no more lost than numbers tell.
        #[test]
        fn anything_may_come(
            probes in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>(), any::<u64>()), 0..40),
        ) {
            let mut q = Quality::default();
            for (number, sent, echoed, held, at) in &probes {
                q.heard(&probe(*number, *sent, Echo { sent: *echoed, held: *held }), Nanos(*at));
                let d = q.told().delay;
                prop_assert!(d.is_none_or(|d| d.least_ns <= d.last_ns && d.last_ns <= d.most_ns));
                let _ = q.echo(Nanos(*at));
            }
            prop_assert_eq!(q.told().heard, probes.len() as u64);
        }
    }
}
