//! The checker against a naive account of the same frames, and against damage of every kind.

use super::super::{Headers, Stamper, Vary, streams};
use super::*;
use proptest::prelude::*;
use weir_wire::VlanRepr;

const RUN: Run = Run(7);

fn one(size: usize) -> (Stream, Vec<u8>) {
    let stream = streams(Headers::default(), &[], 1, size).unwrap()[0];
    (stream, frame(&stream, RUN, 0))
}

fn frame(stream: &Stream, run: Run, number: u64) -> Vec<u8> {
    let mut out = vec![0; stream.frame_bytes_in_memory()];
    assert_eq!(
        Stamper::new(stream, run).unwrap().write(number, Nanos(1_000), &mut out),
        Some(out.len())
    );
    out
}

fn checker(s: &[Stream]) -> Checker {
    Checker::new(s, RUN, Window(256)).unwrap()
}

fn judge(stream: Stream, bytes: &[u8]) -> Outcome {
    checker(&[stream]).check(bytes, 0, Nanos(2_000)).outcome
}

/// What happens to one frame on its way.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Lost,
    /// Arrives, and again after so many others.
    Twice(usize),
    /// Arrives after so many others.
    Late(usize),
    /// Arrives with this bit of its UDP payload turned.
    Damaged(usize),
    /// Arrives at another port.
    Elsewhere,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => Just(Fate::Arrives),
        1 => Just(Fate::Lost),
        1 => (0usize..40).prop_map(Fate::Twice),
        1 => (1usize..40).prop_map(Fate::Late),
        // Behind magic, stream and run, which would make it foreign or another's.
        1 => (40usize..18 * 8).prop_map(Fate::Damaged),
        1 => Just(Fate::Elsewhere),
    ]
}

proptest! {
    /// A device that treats each frame as it is told to; the account is kept beside it.
    #[test]
    fn tally_equals_a_naive_account(fates in prop::collection::vec(fate(), 0..200), lanes in 1usize..4) {
        let mut set = streams(Headers::default(), &[Vary::SrcPort], lanes, 64).unwrap();
        for s in &mut set {
            s.exit = Some(1);
        }
        let stampers: Vec<_> = set.iter().map(|s| Stamper::new(s, RUN).unwrap()).collect();
        // Arrivals as (place in time, stream, number, port, bytes).
        let mut wire: Vec<(usize, usize, u64, u16, Vec<u8>)> = Vec::new();
        let mut sent = vec![0u64; lanes];
        let mut damaged = 0;
        for (i, fate) in fates.iter().enumerate() {
            let lane = i % lanes;
            let mut bytes = vec![0; 60];
            stampers[lane].write(sent[lane], Nanos(0), &mut bytes).unwrap();
            let number = sent[lane];
            sent[lane] += 1;
            let mut put = |at, port, bytes: &[u8]| wire.push((at, lane, number, port, bytes.to_vec()));
            match *fate {
                Fate::Lost => {}
                Fate::Arrives => put(i, 1, &bytes),
                Fate::Elsewhere => put(i, 2, &bytes),
                Fate::Late(by) => put(i + by, 1, &bytes),
                Fate::Twice(after) => {
                    put(i, 1, &bytes);
                    put(i + after, 1, &bytes);
                }
                Fate::Damaged(bit) => {
                    damaged += 1;
                    bytes[42 + bit / 8] ^= 1 << (bit % 8);
                    put(i, 1, &bytes);
                }
            }
        }
        wire.sort_by_key(|a| a.0);
        let mut checker = checker(&set);
        let mut naive = vec![Counts::default(); lanes];
        let mut seen: Vec<Vec<u64>> = vec![Vec::new(); lanes];
        for (_, lane, number, port, bytes) in &wire {
            let got = checker.check(bytes, *port, Nanos(0)).outcome;
            let mut intact = vec![0; 60];
            stampers[*lane].write(*number, Nanos(0), &mut intact).unwrap();
            let c = &mut naive[*lane];
            if intact != *bytes {
                prop_assert_eq!(got, Outcome::Corrupted);
                continue;
            }
            let known = &mut seen[*lane];
            let want = if *port == 2 {
                c.misdelivered += 1;
                Outcome::Misdelivered
            } else if known.contains(number) {
                c.duplicated += 1;
                Outcome::Duplicated
            } else if known.iter().any(|n| n > number) {
                c.reordered += 1;
                Outcome::Reordered
            } else {
                c.in_order += 1;
                Outcome::InOrder
            };
            if *port == 1 {
                known.push(*number);
            }
            prop_assert_eq!(got, want);
        }
        let told: Vec<_> = (0..lanes).map(|l| StreamSent { stream: l as u16, frames: sent[l] }).collect();
        let tally = checker.tally(&told);
        prop_assert_eq!((tally.corrupted, tally.other_runs, tally.foreign), (damaged, 0, 0));
        for (l, s) in tally.streams.iter().enumerate() {
            let missing = (0..sent[l]).filter(|n| !seen[l].contains(n)).count() as u64;
            let want = Counts { sent: sent[l], lost: missing, late_by_max: s.counts.late_by_max, ..naive[l] };
            prop_assert_eq!(s.counts, want);
        }
        let perfect = fates.iter().all(|f| matches!(f, Fate::Arrives));
        prop_assert!(!perfect || tally.is_perfect());
        prop_assert_eq!(tally.is_perfect(), tally.total.lost == 0 && tally.total.reordered == 0
            && tally.total.duplicated == 0 && tally.total.misdelivered == 0 && tally.corrupted == 0);
    }

    /// One bit turned anywhere is never taken for a whole frame, unless a device may change it.
    #[test]
    fn no_single_bit_goes_unseen(size in prop::sample::select(vec![64usize, 65, 128, 1518]), at in any::<prop::sample::Index>()) {
        let (stream, mut bytes) = one(size);
        let bit = at.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let outcome = judge(stream, &bytes);
        let whole = outcome == Outcome::InOrder;
        prop_assert_eq!(whole, bit < 12 * 8, "bit {} gives {:?}", bit, outcome);
    }

    #[test]
    fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..200), from in 0usize..80) {
        let (stream, good) = one(128);
        judge(stream, &bytes);
        // And a good beginning.
        bytes.splice(0..0, good[..from].iter().copied());
        judge(stream, &bytes);
    }
}

#[test]
fn what_devices_may_change_is_no_damage() {
    let (stream, bytes) = one(128);
    let with =
        |headers: Headers| frame(&Stream { headers, frame_bytes_on_wire: 128, ..stream }, RUN, 0);
    // As if forwarded by a router with NAT; lengths are the same.
    let routed = with(Headers {
        src_mac: weir_wire::MacAddr([2; 6]),
        src: "10.1.1.1:4000".parse().unwrap(),
        ttl: 63,
        ..stream.headers
    });
    assert_eq!(judge(stream, &routed), Outcome::InOrder);
    // Tags pushed: up to four.
    let tag = [0x81, 0x00, 0x00, 0x05];
    let mut tagged = bytes.clone();
    for _ in 0..MAX_TAGS {
        tagged.splice(12..12, tag);
    }
    assert_eq!(judge(stream, &tagged), Outcome::InOrder);
    tagged.splice(12..12, tag);
    assert_eq!(judge(stream, &tagged), Outcome::Foreign);
    // A tag popped from the smallest frame, which Ethernet then pads.
    let small = Stream {
        headers: Headers { vlan: Some(VlanRepr::dot1q(9)), ..stream.headers },
        frame_bytes_on_wire: 64,
        ..stream
    };
    let mut popped = frame(&small, RUN, 0);
    popped.drain(12..16);
    popped.resize(60, 0);
    assert_eq!(judge(small, &popped), Outcome::InOrder);
}

#[test]
fn damage_that_was_sealed_again_is_seen() {
    let (stream, bytes) = one(128);
    // Cut by ten bytes, with every length and checksum made right again.
    let cut = frame(&Stream { frame_bytes_on_wire: 118, ..stream }, RUN, 0);
    assert_eq!(judge(stream, &cut), Outcome::Corrupted);
    // Two words of the fill exchanged: the checksum is still right.
    let mut mixed = bytes.clone();
    for i in 0..2 {
        mixed.swap(60 + i, 70 + i);
    }
    assert_ne!(mixed, bytes);
    assert_eq!(judge(stream, &mixed), Outcome::Corrupted);
    // The UDP checksum taken away.
    let mut bare = bytes.clone();
    bare[40..42].fill(0);
    assert_eq!(judge(stream, &bare), Outcome::Corrupted);
    // The first fragment of two, by its header.
    let mut part = bytes.clone();
    let mut ip = Ipv4Packet::new_checked(&mut part[14..]).unwrap();
    ip.set_flags_offset(0x2000);
    ip.fill_checksum();
    assert_eq!(judge(stream, &part), Outcome::Corrupted);
    // Cut on the way, lengths left as they were.
    assert_eq!(judge(stream, &bytes[..100]), Outcome::Corrupted);
    assert_eq!(judge(stream, &bytes[..50]), Outcome::Foreign, "no proof left");
}

#[test]
fn runs_and_strangers() {
    let set = streams(Headers::default(), &[], 3, 64).unwrap();
    let mut c = checker(&set[..2]);
    assert_eq!(c.check(&frame(&set[0], RUN.next(), 0), 0, Nanos(0)).outcome, Outcome::OtherRun);
    assert_eq!(c.check(&frame(&set[2], RUN, 0), 0, Nanos(0)).outcome, Outcome::Foreign);
    assert_eq!(c.check(&[], 0, Nanos(0)).outcome, Outcome::Foreign);
    let tally = c.tally(&[]);
    assert_eq!((tally.foreign, tally.other_runs, tally.total), (2, 1, Counts::default()));
    assert!(tally.is_perfect());
    let twice = Checker::new(&[set[0], set[0]], RUN, Window::default());
    assert_eq!(twice.map(|_| ()), Err(ProbeError::Twice(0)));
}

#[test]
fn numbers_never_sent_spoil_the_tally() {
    let (stream, bytes) = one(64);
    let mut c = checker(&[stream]);
    c.check(&bytes, 0, Nanos(0));
    let tally = c.tally(&[]);
    assert_eq!((tally.total.never_sent, tally.is_perfect()), (1, false));
    assert!(c.tally(&[StreamSent { stream: 0, frames: 1 }]).is_perfect());
}

#[test]
fn delays_are_of_first_copies() {
    let (stream, bytes) = one(64);
    let mut c = checker(&[stream]);
    assert_eq!(c.check(&bytes, 0, Nanos(1_750)).delay_ns, Some(750));
    assert_eq!(c.check(&bytes, 0, Nanos(1_900)).delay_ns, None);
    let mut c = checker(&[stream]);
    let early = c.check(&bytes, 0, Nanos(900));
    assert_eq!((early.outcome, early.delay_ns), (Outcome::InOrder, None));
}

/// Any bit behind the headers; and what is in front of the proof, where the checksums are of it.
#[test]
fn whatever_is_turned_behind_the_headers_is_seen() {
    for size in [64, 65, 1518] {
        let (_, whole) = one(size);
        let (run, id, contents) = examine(&whole).unwrap();
        assert_eq!((run, id.number, contents), (RUN, 0, Contents::AsSent));
        // Padding that a device adds is none of it.
        let padded = [&whole[..], &[9; 6]].concat();
        assert_eq!(examine(&padded).map(|f| f.2), Some(Contents::AsSent));
        for bit in 44 * 8..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(examine(&damaged).map(|f| f.2), Some(Contents::Changed), "bit {bit}");
        }
        // Cut, or with other headers before it.
        assert_eq!(examine(&whole[..whole.len() - 1]).map(|f| f.2), Some(Contents::Changed));
        let (macs, rest) = whole.split_at(12);
        let label = [macs, &[0x88, 0x47, 0, 0, 0x11, 64], &rest[2..]].concat();
        assert_eq!(examine(&label).map(|f| f.2), Some(Contents::Changed));
    }
}
