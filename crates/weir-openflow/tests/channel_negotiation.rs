//! Which version a channel agrees on, judged by the rule of 1.3.5 §6.3.1 written down a second time,
//! for every set that can be offered; and what becomes of those that agree on none.

use std::time::Duration;
use weir_openflow::channel::{Channel, CloseReason, Config, Event, Limits, Side, Versions};
use weir_openflow::codec::{decode, encode};
use weir_openflow::model::*;

const NOW: Duration = Duration::ZERO;
const SETS: [Versions; 3] =
    [Versions::only(Version::V10), Versions::only(Version::V13), Versions::ALL];

fn channel(side: Side, versions: Versions) -> Channel {
    Channel::new(Config { versions, ..Config::new(side) }, NOW)
}

/// Moves all that waits, both ways, until nothing does.
fn settle(a: &mut Channel, b: &mut Channel) -> [Vec<Event>; 2] {
    let mut events = [Vec::new(), Vec::new()];
    loop {
        let mut moved = 0;
        for (i, (from, to)) in [(0, 1), (1, 0)].into_iter().enumerate() {
            let (from, to) = if from < to { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
            let n = to.receive(from.outgoing(), NOW);
            from.advance(n);
            moved += n;
            while let Some(event) = to.next_event(NOW) {
                events[1 - i].push(event);
            }
        }
        if moved == 0 {
            return events;
        }
    }
}

#[test]
fn every_pair_of_channels_agrees_on_the_same() {
    for ours in SETS {
        for theirs in SETS {
            let (mut a, mut b) = (channel(Side::Switch, ours), channel(Side::Controller, theirs));
            let events = settle(&mut a, &mut b);
            let common =
                [Version::V13, Version::V10].into_iter().find(|v| ours.has(*v) && theirs.has(*v));
            assert_eq!((a.version(), b.version()), (common, common), "{ours:?} {theirs:?}");
            if let Some(v) = common {
                assert_eq!(events, [vec![Event::Up(v)], vec![Event::Up(v)]]);
            } else {
                assert!(a.is_closed() && b.is_closed(), "{ours:?} {theirs:?}");
                for side in events {
                    assert!(matches!(side[..], [Event::Closed(_)]), "{side:?}");
                }
            }
        }
    }
}

/// The rule, slowly.
fn rule(ours: Versions, version: u8, bitmap: Option<u32>) -> Option<u8> {
    let speaks = |v: u8| (v == 1 && ours.has(Version::V10)) || (v == 4 && ours.has(Version::V13));
    let we_send_a_bitmap = speaks(4);
    match bitmap {
        Some(bits) if we_send_a_bitmap => {
            (0..32).rev().find(|v| speaks(*v) && bits & (1 << v) != 0)
        }
        _ => {
            let lower = version.min(if speaks(4) { 4 } else { 1 });
            let they_take_it = bitmap.is_none_or(|bits| bits & (1 << lower) != 0);
            (speaks(lower) && they_take_it).then_some(lower)
        }
    }
}

#[test]
fn every_offer_of_a_stranger() {
    for ours in SETS {
        for version in 0..=8_u8 {
            let bitmaps = (0..128).map(Some).chain([None, Some(u32::MAX), Some(1 << 31)]);
            for bitmap in bitmaps {
                // Elements came with 1.3.1: before, what follows the header says nothing.
                let heard = bitmap.filter(|_| version >= 4);
                let mut c = channel(Side::Switch, ours);
                let words = bitmap.into_iter().collect();
                let body = Message::Hello { version, bitmap: words };
                let mut hello = Vec::new();
                encode(Version::V13, &Msg { xid: 7, body }, &mut hello).unwrap();
                let our_hello = c.outgoing().len();
                c.advance(our_hello);
                assert_eq!(c.receive(&hello, NOW), hello.len());
                let event = c.next_event(NOW);
                let agreed = rule(ours, version, heard);
                assert_eq!(c.version().map(|v| v as u8), agreed, "{ours:?} {version} {bitmap:?}");
                if agreed.is_none() {
                    assert!(matches!(
                        event,
                        Some(Event::Closed(CloseReason::NoCommonVersion { .. }))
                    ));
                    let told_as = if c.outgoing()[0] == 4 { Version::V13 } else { Version::V10 };
                    assert!(ours.has(told_as));
                    let told = decode(told_as, c.outgoing()).unwrap();
                    let Message::Error(e) = told.body else { panic!("{told:?}") };
                    assert_eq!((told.xid, e.code), (7, ErrorCode::HelloIncompatible));
                    assert!(
                        std::str::from_utf8(&e.data).is_ok_and(|text| text.contains("we speak"))
                    );
                    assert!(!c.wants_read() && c.next_event(NOW).is_none());
                }
            }
        }
    }
}

#[test]
fn what_we_offer() {
    let hello = |versions| channel(Side::Switch, versions).outgoing().to_vec();
    assert_eq!(hello(Versions::only(Version::V10)), [1, 0, 0, 8, 0, 0, 0, 1]);
    assert_eq!(
        hello(Versions::ALL),
        [4, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x12],
        "the bitmap names 1.0 and 1.3"
    );
}

#[test]
fn elements_that_lie_count_as_none() {
    for element in [&[0, 1, 0, 3][..], &[0, 1, 0, 200, 0, 0, 0, 2], &[0, 1, 0, 7, 0, 0, 0, 0]] {
        let mut c = channel(Side::Switch, Versions::ALL);
        let length = 8 + element.len() as u8;
        c.receive(&[&[4, 0, 0, length, 0, 0, 0, 1][..], element].concat(), NOW);
        assert_eq!(c.next_event(NOW), Some(Event::Up(Version::V13)), "{element:?}");
    }
}

#[test]
fn who_does_not_say_hello_is_told_and_left() {
    for (first, closes) in [
        (&[1, 5, 0, 8, 0, 0, 0, 3][..], CloseReason::NoHello { kind: 5 }),
        (b"GET / HTTP/1.1\r\n\r\n", CloseReason::NoHello { kind: b'E' }),
        (&[1, 0, 0, 7, 0, 0, 0, 3], CloseReason::BrokenFraming),
        (
            &[4, 1, 0, 14, 0, 0, 0, 3, 0, 0, 0, 0, b'n', b'o'],
            CloseReason::Refused { kind: 0, code: 0, text: "no".into() },
        ),
    ] {
        let mut c = channel(Side::Controller, Versions::ALL);
        c.advance(usize::MAX);
        c.receive(first, NOW);
        assert_eq!(c.next_event(NOW), Some(Event::Closed(closes.clone())));
        let told = !c.outgoing().is_empty();
        assert_eq!(told, matches!(closes, CloseReason::NoHello { .. }), "{closes}");
    }
}

#[test]
fn silence_ends_the_handshake() {
    let limits = Limits { handshake: Duration::from_secs(3), ..Limits::default() };
    let mut c = Channel::new(Config { limits, ..Config::new(Side::Switch) }, NOW);
    // A beginning of a hello is not one.
    c.receive(&[4, 0, 0, 16, 0], NOW);
    let end = c.wake_at().unwrap();
    assert_eq!(end, Duration::from_secs(3));
    c.tick(end - Duration::from_nanos(1));
    assert_eq!(c.next_event(end), None);
    c.tick(end);
    assert_eq!(c.next_event(end), Some(Event::Closed(CloseReason::HandshakeTimeout)));
}

#[test]
fn a_hello_refused_late_ends_the_connection() {
    let mut c = channel(Side::Switch, Versions::ALL);
    c.receive(&[1, 0, 0, 8, 0, 0, 0, 1, 1, 1, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0], NOW);
    assert_eq!(c.next_event(NOW), Some(Event::Up(Version::V10)));
    let refused = CloseReason::Refused { kind: 0, code: 0, text: String::new() };
    assert_eq!(c.next_event(NOW), Some(Event::Closed(refused)));
}
