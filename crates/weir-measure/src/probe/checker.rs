//! Judges what arrives: whose it is, whether it is whole, and its place in its stream.
//!
//! Touches bytes and counters; its memory is fixed when it is made. Called by the receiver once per
//! frame. Any bytes may come.
//!
//! The first of these that is true of a frame is its [`Outcome`], so that each is counted once:
//! 1. *foreign*: no proof is found where a probe has it, or its stream is none of ours. Damage that
//!    hides the proof (an EtherType, the magic) makes a probe foreign.
//! 2. *other run*: a probe of another trial.
//! 3. *corrupted*: a length, a checksum or a byte of the fill is wrong, the UDP checksum is gone, or
//!    the probe was fragmented. Counted in total only: the stream it names may be the damage.
//! 4. *misdelivered*: whole, and at another port than its stream's exit.
//! 5. *in order*, *reordered*, *duplicated* or *too old*, as defined in `track.rs`.

use super::track::{Place, Track};
use super::{MAGIC, MAX_TAGS, PROOF_BYTES, ProbeError, Run, Stream, delay_ns, fill};
use weir_packet::Nanos;
use weir_wire::checksum::Verdict;
use weir_wire::{EtherType, IpProtocol, Ipv4Packet, PseudoHeader, UdpPacket, udp, vlan};

/// How many numbers of each stream are remembered, to tell late ones from duplicates. Rounded up to
/// a multiple of 64; at most 2^24. Memory: an eighth of a byte each, per stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window(pub u32);

impl Default for Window {
    /// 16,384 numbers: 2 KiB a stream.
    fn default() -> Self {
        Self(16_384)
    }
}

impl Window {
    fn words(self) -> usize {
        self.0.clamp(1, 1 << 24).div_ceil(64) as usize
    }
}

/// What a frame was; see the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// Of its stream's numbers the highest so far.
    InOrder,
    /// Came after a higher number, for the first time.
    Reordered,
    /// Came before.
    Duplicated,
    /// Late beyond the window: reordered or duplicated.
    TooOld,
    /// At another port than its stream's exit.
    Misdelivered,
    /// Damaged on the way.
    Corrupted,
    /// Of another trial.
    OtherRun,
    /// None of ours.
    Foreign,
}

/// One frame, judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// What it was.
    pub outcome: Outcome,
    /// Time since its stamp in nanoseconds, for whole frames that came in order or reordered;
    /// `None` too when the stamp lies in the future.
    pub delay_ns: Option<u64>,
}

/// Frames that a generator handed to its ports, of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamSent {
    /// Which stream.
    pub stream: u16,
    /// How many: numbers 0 up to this were used.
    pub frames: u64,
}

/// What became of the frames of one stream, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames sent.
    pub sent: u64,
    /// Arrived whole, none with a higher number before.
    pub in_order: u64,
    /// Arrived whole, after a higher number.
    pub reordered: u64,
    /// Further copies.
    pub duplicated: u64,
    /// Arrived so late that first copy and further copy can't be told apart.
    pub too_old: u64,
    /// Arrived whole at the wrong port.
    pub misdelivered: u64,
    /// Sent and not received whole at the right port: [`Self::sent`] less [`Self::received`].
    /// Exact while nothing is too old; otherwise at most `too_old` above the truth.
    pub lost: u64,
    /// By how far the highest number seen is beyond those sent: above zero, the sender's count or
    /// the run is wrong, and so is this tally.
    pub never_sent: u64,
    /// How far behind the highest number a reordered frame was at most, in numbers of its stream.
    pub late_by_max: u64,
}

impl Counts {
    /// Frames of which a whole copy arrived at the right port.
    pub const fn received(&self) -> u64 {
        self.in_order + self.reordered
    }

    fn add(&mut self, o: &Self) {
        self.sent += o.sent;
        self.in_order += o.in_order;
        self.reordered += o.reordered;
        self.duplicated += o.duplicated;
        self.too_old += o.too_old;
        self.misdelivered += o.misdelivered;
        self.lost += o.lost;
        self.never_sent += o.never_sent;
        self.late_by_max = self.late_by_max.max(o.late_by_max);
    }

    const fn is_perfect(&self) -> bool {
        self.in_order == self.sent
            && self.reordered == 0
            && self.duplicated == 0
            && self.too_old == 0
            && self.misdelivered == 0
            && self.never_sent == 0
    }
}

/// One stream's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTally {
    /// Which stream.
    pub stream: u16,
    /// What became of its frames.
    pub counts: Counts,
}

/// What became of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Each stream's, in the order in which they were given.
    pub streams: Vec<StreamTally>,
    /// The sum over all streams.
    pub total: Counts,
    /// Probes that arrived damaged; they are among the lost of their streams.
    pub corrupted: u64,
    /// Probes of another trial.
    pub other_runs: u64,
    /// Frames that are no probes, or of no stream of ours.
    pub foreign: u64,
}

impl Tally {
    /// Whether every frame sent arrived whole, once, in order and where it should. Foreign frames
    /// and those of other trials say nothing about this one.
    pub fn is_perfect(&self) -> bool {
        self.corrupted == 0 && self.streams.iter().all(|s| s.counts.is_perfect())
    }
}

#[derive(Debug)]
struct Lane {
    stream: u16,
    payload_len: usize,
    exit: Option<u16>,
    misdelivered: u64,
    track: Track,
}

/// Counts what arrives of a set of streams in one trial.
#[derive(Debug)]
pub struct Checker {
    run: Run,
    /// Place in `lanes` by stream id.
    places: Vec<Option<u16>>,
    lanes: Vec<Lane>,
    corrupted: u64,
    other_runs: u64,
    foreign: u64,
}

impl Checker {
    /// For these streams, in this trial.
    ///
    /// # Errors
    /// [`ProbeError::Twice`], [`ProbeError::Size`].
    pub fn new(streams: &[Stream], run: Run, window: Window) -> Result<Self, ProbeError> {
        let ids = streams.iter().map(|s| usize::from(s.id) + 1).max().unwrap_or(0);
        let mut places = vec![None; ids];
        let mut lanes = Vec::with_capacity(streams.len().min(ids));
        for s in streams {
            let place =
                u16::try_from(lanes.len()).map_err(|_| ProbeError::TooMany(streams.len()))?;
            match places.get_mut(usize::from(s.id)) {
                Some(free @ None) => *free = Some(place),
                _ => return Err(ProbeError::Twice(s.id)),
            }
            lanes.push(Lane {
                stream: s.id,
                payload_len: s.payload_len()?,
                exit: s.exit,
                misdelivered: 0,
                track: Track::new(window.words()),
            });
        }
        Ok(Self { run, places, lanes, corrupted: 0, other_runs: 0, foreign: 0 })
    }

    /// Judges and counts a frame (Ethernet header first, no FCS) that arrived at `port` at `now`,
    /// by the clock of the stamps.
    pub fn check(&mut self, frame: &[u8], port: u16, now: Nanos) -> Arrival {
        let outcome = match self.find(frame) {
            Found::Foreign => {
                self.foreign += 1;
                Outcome::Foreign
            }
            Found::OtherRun => {
                self.other_runs += 1;
                Outcome::OtherRun
            }
            Found::Corrupted => {
                self.corrupted += 1;
                Outcome::Corrupted
            }
            Found::Whole { lane, number, stamp } => return lane.arrive(number, stamp, port, now),
        };
        Arrival { outcome, delay_ns: None }
    }

    /// Finds the proof, then whether everything around it is right.
    fn find(&mut self, frame: &[u8]) -> Found<'_> {
        let Some(found) = Proof::find(frame) else { return Found::Foreign };
        let place = self.places.get(usize::from(found.stream)).copied().flatten();
        let Some(lane) = place.and_then(|p| self.lanes.get_mut(usize::from(p))) else {
            return Found::Foreign;
        };
        if found.run != self.run {
            return Found::OtherRun;
        }
        if !is_whole(&found.ip, found.stream, lane.payload_len) {
            return Found::Corrupted;
        }
        Found::Whole { lane, number: found.number, stamp: found.stamp }
    }

    /// What became of the frames that were sent; of a stream that is not in `sent`, none were.
    pub fn tally(&self, sent: &[StreamSent]) -> Tally {
        let mut frames_of = vec![0u64; self.places.len()];
        for s in sent {
            if let Some(n) = frames_of.get_mut(usize::from(s.stream)) {
                *n += s.frames;
            }
        }
        let mut tally = Tally {
            corrupted: self.corrupted,
            other_runs: self.other_runs,
            foreign: self.foreign,
            ..Tally::default()
        };
        for lane in &self.lanes {
            let t = &lane.track;
            let sent = frames_of.get(usize::from(lane.stream)).copied().unwrap_or(0);
            let counts = Counts {
                sent,
                in_order: t.in_order,
                reordered: t.reordered,
                duplicated: t.duplicated,
                too_old: t.too_old,
                misdelivered: lane.misdelivered,
                lost: sent.saturating_sub(t.in_order + t.reordered),
                never_sent: t.next().saturating_sub(sent),
                late_by_max: t.late_by_max,
            };
            tally.total.add(&counts);
            tally.streams.push(StreamTally { stream: lane.stream, counts });
        }
        tally
    }
}

impl Lane {
    fn arrive(&mut self, number: u32, stamp: u64, port: u16, now: Nanos) -> Arrival {
        if self.exit.is_some_and(|exit| exit != port) {
            self.misdelivered += 1;
            return Arrival { outcome: Outcome::Misdelivered, delay_ns: None };
        }
        let place = self.track.arrive(number);
        let first = matches!(place, Place::InOrder | Place::Reordered);
        let outcome = match place {
            Place::InOrder => Outcome::InOrder,
            Place::Reordered => Outcome::Reordered,
            Place::Duplicated => Outcome::Duplicated,
            Place::TooOld => Outcome::TooOld,
        };
        Arrival { outcome, delay_ns: if first { delay_ns(now.0, stamp) } else { None } }
    }
}

enum Found<'a> {
    Foreign,
    OtherRun,
    Corrupted,
    Whole { lane: &'a mut Lane, number: u32, stamp: u64 },
}

/// Whose a probe is, as it says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its stream.
    pub stream: u16,
    /// Its number in the stream, or over all streams where the sender counts so; modulo 2^32.
    pub number: u32,
    /// The sender's clock, its low 40 bits.
    pub stamp: Nanos,
}

/// The probe of trial `run` in a frame (Ethernet header first), whatever headers stand before it: those
/// of a probe as it was sent, or others that a device has put or changed. Nothing is verified but the
/// proof's mark and its run, so that frames which were changed wrongly are recognised too.
pub fn identify(frame: &[u8], run: Run) -> Option<Identity> {
    proofs(frame).find(|(r, _)| *r == run).map(|(_, i)| i)
}

/// Whether a probe came as it was sent, headers excepted that a device may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Contents {
    /// Every byte that was made for it is there, as the checksums and the fill prove.
    #[default]
    AsSent,
    /// Some are others, or missing: what it says of itself may be the damage.
    Changed,
}

/// The run and the identity of the probe in a frame, and whether all of it is as it was sent. Cost: one comparison and
/// one checksum of the frame.
pub fn examine(frame: &[u8]) -> Option<(Run, Identity, Contents)> {
    let Some(p) = Proof::find(frame) else {
        // Where no probe has its proof: headers are damaged, or others were put before it.
        return identify_any(frame).map(|(run, id)| (run, id, Contents::Changed));
    };
    let whole = UdpPacket::new_checked(p.ip.payload())
        .ok()
        .and_then(|udp| udp.payload().len().checked_sub(PROOF_BYTES))
        .is_some_and(|fill| is_whole(&p.ip, p.stream, PROOF_BYTES + fill));
    let contents = if whole { Contents::AsSent } else { Contents::Changed };
    Some((p.run, p.identity(), contents))
}

/// The run and the identity of the probe in a frame; see [`identify`].
pub fn identify_any(frame: &[u8]) -> Option<(Run, Identity)> {
    proofs(frame).next()
}

/// Everything that looks like a proof: first where a probe has it, then anywhere in the first 128 bytes.
fn proofs(frame: &[u8]) -> impl Iterator<Item = (Run, Identity)> {
    let usual = Proof::find(frame).map(|p| (p.run, p.identity()));
    let anywhere = frame
        .get(14..)
        .unwrap_or_default()
        .windows(PROOF_BYTES)
        .take(114)
        .filter(|w| w.starts_with(&MAGIC.to_be_bytes()))
        .filter_map(|w| {
            let [_, _, s, t, run, a, b, c, d, e, f, g, h, i] = *w.first_chunk::<PROOF_BYTES>()?;
            let identity = Identity {
                stream: u16::from_be_bytes([s, t]),
                number: u32::from_be_bytes([f, g, h, i]),
                stamp: Nanos(u64::from_be_bytes([0, 0, 0, a, b, c, d, e])),
            };
            Some((Run(run), identity))
        });
    usual.into_iter().chain(anywhere)
}

/// A proof where a probe has it; nothing else has been looked at.
struct Proof<'a> {
    ip: Ipv4Packet<&'a [u8]>,
    stream: u16,
    run: Run,
    stamp: u64,
    number: u32,
}

impl<'a> Proof<'a> {
    fn identity(&self) -> Identity {
        Identity { stream: self.stream, number: self.number, stamp: Nanos(self.stamp) }
    }

    fn find(frame: &'a [u8]) -> Option<Self> {
        let stack = vlan::walk(frame, MAX_TAGS).ok()?;
        if stack.ether_type != EtherType::Ipv4 {
            return None;
        }
        let packet = frame.get(stack.payload_at()..)?;
        let ip = Ipv4Packet::new_unchecked(packet);
        ip.check_header().ok()?;
        if ip.protocol() != IpProtocol::Udp || ip.fragment_offset() != 0 {
            return None;
        }
        let proof = packet.get(ip.header_len() + udp::HEADER_LEN..)?;
        let [m, n, s, t, run, a, b, c, d, e, f, g, h, i] = *proof.first_chunk::<PROOF_BYTES>()?;
        (u16::from_be_bytes([m, n]) == MAGIC).then_some(Self {
            ip,
            stream: u16::from_be_bytes([s, t]),
            run: Run(run),
            stamp: u64::from_be_bytes([0, 0, 0, a, b, c, d, e]),
            number: u32::from_be_bytes([f, g, h, i]),
        })
    }
}

/// Whether a probe's packet is as it was sent, headers that a device may change excepted.
fn is_whole(ip: &Ipv4Packet<&[u8]>, stream: u16, payload_len: usize) -> bool {
    if ip.check().is_err() || ip.is_fragment() || !ip.has_good_checksum() {
        return false;
    }
    let Ok(udp) = UdpPacket::new_checked(ip.payload()) else { return false };
    let pseudo = PseudoHeader::V4(ip.src(), ip.dst());
    udp.payload().len() == payload_len
        && udp.verify_checksum(&pseudo) == Verdict::Good
        && udp.payload().get(PROOF_BYTES..) == fill::of(stream, payload_len - PROOF_BYTES)
}

#[cfg(test)]
mod tests;
