//! Which of a tunnel's ways are alive, and which is taken: probes both ways, in band.
//!
//! Room: pure; time and what was heard are arguments. Called by the port once a round.
//!
//! As in BFD (RFC 5880) each end sends at an interval and says whether it hears the other: a way is up
//! when its probes arrive and theirs say that ours do. Three intervals of silence are its end. The
//! first way that is up is taken; a better one is gone back to when it has been up for ten intervals,
//! so that one that comes and goes is not followed. Probes are frames of the network itself, so whatever
//! relays carry frames carries them; a key that only the two ends know tells them from what a tenant makes
//! up. Where there is a key nothing of their look is handed to a tenant, whatever key that has: the two ends are told theirs one
//! after the other. An end without one passes them: it may be a relay's.

use super::quality::Echo;
use std::time::Duration;
use weir_packet::{LinkState, Nanos};

/// Intervals without a probe that end a way.
const SILENT: u64 = 3;
/// Intervals that a better way must be up before it is taken again.
const STEADY: u64 = 10;
/// Bytes of a probe: an Ethernet frame of the least length.
pub(super) const PROBE_BYTES: usize = 60;
/// A group address of local administration, which no adapter and no tenant has.
const TO: [u8; 6] = [0x03, 0x57, 0x45, 0x49, 0x52, 0x01];
const FROM: [u8; 6] = [0x02, 0x57, 0x45, 0x49, 0x52, 0x01];
/// IEEE 802's type for local experiments.
const TYPE: [u8; 2] = [0x88, 0xb5];
const VERSION: u8 = 2;

/// A probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// Drawn by the sender when it was opened: its own come back are not another's.
    pub sender: u64,
    /// What the sender says.
    pub says: Said,
    /// Its place among the sender's on this way.
    pub number: u64,
    /// When it was sent, in nanoseconds of the sender's clock.
    pub sent: u64,
    /// Of the last one that the sender has heard.
    pub echo: Echo,
}

/// What an end says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// Whether it hears us on this way.
    pub hears: bool,
    /// The link of the port that it stands for.
    pub link: LinkState,
}

/// What is said, a bit each. Who knows a bit not says and takes it for none: the link is up.
const HEARS: u8 = 1;
const DOWN: u8 = 2;

impl Said {
    fn flags(self) -> u8 {
        let bit = |of: bool, bit: u8| if of { bit } else { 0 };
        bit(self.hears, HEARS) | bit(self.link == LinkState::Down, DOWN)
    }
    fn read(flags: u8) -> Self {
        Self { hears: flags & HEARS != 0, link: (flags & DOWN == 0).into() }
    }
}

/// Where things stand in a probe.
const KEY: std::ops::Range<usize> = 14..22;
const SENDER: std::ops::Range<usize> = 22..30;
const NUMBER: std::ops::Range<usize> = 32..40;
const SENT: std::ops::Range<usize> = 40..48;
const ECHO: std::ops::Range<usize> = 48..56;
const HELD: std::ops::Range<usize> = 56..60;

impl Probe {
    /// The frame.
    pub(super) fn frame(&self, key: u64) -> [u8; PROBE_BYTES] {
        let mut b = [0; PROBE_BYTES];
        b[..6].copy_from_slice(&TO);
        b[6..12].copy_from_slice(&FROM);
        b[12..14].copy_from_slice(&TYPE);
        b[KEY].copy_from_slice(&key.to_be_bytes());
        b[SENDER].copy_from_slice(&self.sender.to_be_bytes());
        b[30..32].copy_from_slice(&[VERSION, self.says.flags()]);
        b[NUMBER].copy_from_slice(&self.number.to_be_bytes());
        b[SENT].copy_from_slice(&self.sent.to_be_bytes());
        b[ECHO].copy_from_slice(&self.echo.sent.to_be_bytes());
        b[HELD].copy_from_slice(&self.echo.held.to_be_bytes());
        b
    }

    /// Whether a frame is of probes' look: somebody's, with whatever key and of whatever version.
    pub(super) fn looks(frame: &[u8]) -> bool {
        let head = frame.get(..14).filter(|_| frame.len() == PROBE_BYTES);
        head.is_some_and(|h| h[..6] == TO && h[6..12] == FROM && h[12..] == TYPE)
    }

    /// Reads a frame; `None` for everything that is no probe with this key.
    pub(super) fn read(frame: &[u8], key: u64) -> Option<Self> {
        if !Self::looks(frame) {
            return None;
        }
        let word = |at: std::ops::Range<usize>| {
            frame.get(at).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes)
        };
        let [version, flags] = frame.get(30..32)?.try_into().ok()?;
        let ours = version == VERSION && word(KEY)? == key;
        let held = u32::from_be_bytes(frame.get(HELD)?.try_into().ok()?);
        let echo = Echo { sent: word(ECHO)?, held };
        let (sender, says) = (word(SENDER)?, Said::read(flags));
        let probe = Self { sender, says, number: word(NUMBER)?, sent: word(SENT)?, echo };
        ours.then_some(probe)
    }
}

/// The link of what the other end stands for: the newest word of it, whichever way that came and whatever came later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theirs {
    link: LinkState,
    /// Who said so, and the number of that probe: the same on all ways.
    by: Option<(u64, u64)>,
}

impl Theirs {
    /// Nothing was said yet.
    pub(super) fn unsaid() -> Self {
        Self { link: LinkState::Up, by: None }
    }

    /// A probe came. One that was overtaken, by its own way or another, says what was.
    pub(super) fn heard(&mut self, p: &Probe) {
        let overtaken = |(sender, number)| sender == p.sender && p.number <= number;
        if !self.by.is_some_and(overtaken) {
            (self.link, self.by) = (p.says.link, Some((p.sender, p.number)));
        }
    }

    pub(super) fn link(&self) -> LinkState {
        self.link
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Way {
    heard: Option<Nanos>,
    hears_us: bool,
    up_since: Option<Nanos>,
}

/// The ways of one end.
#[derive(Debug)]
pub(super) struct Liveness {
    interval: Nanos,
    ways: Vec<Way>,
    taken: usize,
    next: Nanos,
    /// Times that another way was taken.
    changes: u64,
}

impl Liveness {
    pub(super) fn new(ways: usize, interval: Duration) -> Self {
        let interval = Nanos(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1));
        let ways = vec![Way::default(); ways.max(1)];
        Self { interval, ways, taken: 0, next: Nanos(0), changes: 0 }
    }

    /// A probe came by way `i`. What it changes is told to the other end at once, so that a way is up as soon as a frame has gone there
    /// and back after its second end was made, not two intervals later.
    pub(super) fn heard(&mut self, i: usize, hears_us: bool, now: Nanos) {
        let heard = self.hears(i, now);
        if let Some(w) = self.ways.get_mut(i) {
            if !heard || w.hears_us != hears_us {
                self.next = now;
            }
            (w.heard, w.hears_us) = (Some(now), hears_us);
        }
    }

    /// Something is to be said at once.
    pub(super) fn hurry(&mut self) {
        self.next = Nanos(0);
    }

    /// Whether way `i` is heard.
    pub(super) fn hears(&self, i: usize, now: Nanos) -> bool {
        let limit = self.interval.0.saturating_mul(SILENT);
        let w = self.ways.get(i);
        w.and_then(|w| w.heard).is_some_and(|at| now.since(at).0 <= limit)
    }

    /// Whether way `i` is up, as of the last [`Self::tick`].
    pub(super) fn is_up(&self, i: usize) -> bool {
        self.ways.get(i).is_some_and(|w| w.up_since.is_some())
    }

    /// Whether any is.
    pub(super) fn any_up(&self) -> bool {
        self.ways.iter().any(|w| w.up_since.is_some())
    }

    /// The way that frames take.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Times that another way was taken.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// How late a round may be.
    pub(super) fn patience(&self) -> Nanos {
        Nanos(self.interval.0 / 4)
    }

    /// Looks at the ways anew. Says whether probes are to be sent now.
    pub(super) fn tick(&mut self, now: Nanos) -> bool {
        for i in 0..self.ways.len() {
            let hears = self.hears(i, now);
            let Some(w) = self.ways.get_mut(i) else { break };
            w.up_since = (hears && w.hears_us).then(|| w.up_since.unwrap_or(now));
        }
        let steady = self.interval.0.saturating_mul(STEADY);
        let held = self.is_up(self.taken);
        let better = |(i, w): (usize, &Way)| {
            let since = w.up_since?;
            let take = !held || i < self.taken && now.since(since).0 >= steady;
            (take && i != self.taken).then_some(i)
        };
        if let Some(i) = self.ways.iter().enumerate().find_map(better) {
            self.taken = i;
            self.changes += 1;
        }
        let due = now >= self.next;
        if due {
            self.next = Nanos(now.0.saturating_add(self.interval.0));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Nanos {
        Nanos(ms * MS)
    }

    #[test]
    fn a_way_that_falls_silent_is_left_and_gone_back_to_when_it_is_steady() {
        let mut l = Liveness::new(2, Duration::from_millis(10));
        assert!(l.tick(at(0)) && !l.tick(at(9)) && l.tick(at(10)));
        assert!(!l.any_up());
        let mut taken = Vec::new();
        // The first is heard until 100, and from 300 on; the second always.
        for ms in (20..600).step_by(5) {
            if !(100..300).contains(&ms) {
                l.heard(0, true, at(ms));
            }
            l.heard(1, true, at(ms));
            l.tick(at(ms));
            if taken.last().is_none_or(|(_, t)| *t != l.taken()) {
                taken.push((ms, l.taken()));
            }
        }
        // 95 + 3 intervals of silence; 300 + 10 of steadiness.
        assert_eq!(taken, [(20, 0), (130, 1), (400, 0)]);
        assert_eq!(l.changes(), 2);
    }

    /// Two ends whose frames take no time, an hour's interval: the second is made when the first has long sent its probe.
    #[test]
    fn a_way_is_up_when_a_frame_has_gone_there_and_back() {
        let hour = Duration::from_secs(3600);
        let (mut a, mut b) = (Liveness::new(1, hour), Liveness::new(1, hour));
        assert!(a.tick(at(0)) && !a.tick(at(5)));
        let mut probes = 0;
        for ms in 10..20 {
            for turn in 0..2 {
                let (from, to) = if turn == 0 { (&mut b, &mut a) } else { (&mut a, &mut b) };
                if from.tick(at(ms)) {
                    to.heard(0, from.hears(0, at(ms)), at(ms));
                    probes += 1;
                }
            }
        }
        assert!(a.any_up() && b.any_up());
        assert!((3..=5).contains(&probes), "no more than it takes: {probes}");
    }

    #[test]
    fn a_way_that_goes_one_way_only_is_down() {
        let mut l = Liveness::new(2, Duration::from_millis(10));
        l.heard(0, false, at(1));
        l.heard(1, true, at(1));
        l.tick(at(1));
        assert!(l.hears(0, at(1)) && !l.is_up(0) && l.is_up(1));
        assert_eq!(l.taken(), 1);
        // All silent: the last stays taken, and none is up.
        l.tick(at(100));
        assert!(!l.any_up());
        assert_eq!(l.taken(), 1);
    }

    #[test]
    fn an_overtaken_probe_says_nothing_of_the_other_ends_link() {
        let mut theirs = Theirs::unsaid();
        let mut say = |sender, number, link| {
            let says = Said { hears: true, link };
            theirs.heard(&Probe { sender, says, number, sent: 1, echo: Echo::default() });
            theirs.link()
        };
        let (up, down) = (LinkState::Up, LinkState::Down);
        assert_eq!(say(1, 5, down), down);
        assert_eq!([say(1, 4, up), say(1, 5, up)], [down, down]);
        assert_eq!(say(1, 6, up), up);
        // Opened anew it counts from the beginning.
        assert_eq!(say(2, 0, down), down);
        assert_eq!([say(2, 0, up), say(2, 1, up)], [down, up]);
    }

    proptest! {
        #[test]
        fn probes_are_read_as_written_with_the_key_alone(
            (sender, key, other) in any::<(u64, u64, u64)>(), (hears, up) in any::<(bool, bool)>(),
            (number, sent) in any::<(u64, u64)>(), (echoed, held) in any::<(u64, u32)>(),
            cut in 0..PROBE_BYTES,
        ) {
            let says = Said { hears, link: up.into() };
            let p = Probe { sender, says, number, sent, echo: Echo { sent: echoed, held } };
            let f = p.frame(key);
            prop_assert_eq!(Probe::read(&f, key), Some(p));
            prop_assert_eq!(Probe::read(&f[..cut], key), None);
            if other != key {
                prop_assert_eq!(Probe::read(&f, other), None);
            }
            prop_assert!(Probe::looks(&f) && !Probe::looks(&f[..cut]));
            // A bit of the addresses or the type makes it anybody's.
            let mut like = f;
            like[cut % 14] ^= 1 << (cut % 8);
            prop_assert!(!Probe::looks(&like) && Probe::read(&like, key).is_none());
        }

        /// Whatever is heard, a way that is up is taken while there is one.
        #[test]
        fn what_is_taken_is_up(heard in prop::collection::vec((0..3usize, any::<bool>(), 0..40u64), 1..100)) {
            let mut l = Liveness::new(3, Duration::from_millis(10));
            let mut now = 0;
            for (i, hears, wait) in heard {
                now += wait;
                l.heard(i, hears, at(now));
                l.tick(at(now));
                prop_assert!(!l.any_up() || l.is_up(l.taken()));
            }
        }
    }
}
