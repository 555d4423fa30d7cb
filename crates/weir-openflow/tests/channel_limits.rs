//! What a channel does to a peer that floods, stalls, reads slowly, sends garbage or says nothing.

use proptest::prelude::*;
use std::time::Duration;
use weir_openflow::channel::{
    Backoff, Channel, CloseReason, Config, EchoBy, Event, KeepAlive, Kind, Limits, Rate, SendError,
    Sent, Side, Versions,
};
use weir_openflow::codec::{decode, encode};
use weir_openflow::model::*;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn bytes(msg: &Msg) -> Vec<u8> {
    let mut out = Vec::new();
    encode(Version::V10, msg, &mut out).unwrap();
    out
}

fn echo(xid: u32, data: Vec<u8>) -> Vec<u8> {
    bytes(&Msg { xid, body: Message::EchoRequest(data) })
}

const HELLO: &[u8] = &[1, 0, 0, 8, 0, 0, 0, 1];
const BARRIER: &[u8] = &[1, 18, 0, 8, 0, 0, 0, 5];

/// A 1.0 channel that is up, its hello written.
fn up(config: Config) -> Channel {
    let mut c = Channel::new(config, Duration::ZERO);
    c.receive(HELLO, Duration::ZERO);
    assert_eq!(c.next_event(Duration::ZERO), Some(Event::Up(Version::V10)));
    c.advance(usize::MAX);
    c
}

fn switch(limits: Limits) -> Channel {
    up(Config { limits, keep_alive: None, ..Config::new(Side::Switch) })
}

/// The messages that wait to be written, and writes them.
fn written(c: &mut Channel) -> Vec<Msg> {
    let mut all = Vec::new();
    let mut rest = c.outgoing();
    while !rest.is_empty() {
        let (one, more) = rest.split_at(usize::from(u16::from_be_bytes([rest[2], rest[3]])));
        all.push(decode(Version::V10, one).unwrap());
        rest = more;
    }
    c.advance(usize::MAX);
    all
}

fn packet_in(n: usize) -> Msg {
    let body = Message::PacketIn(PacketIn {
        buffer_id: NO_BUFFER,
        total_len: 0,
        reason: PacketInReason::NoMatch,
        table: 0,
        cookie: u64::MAX,
        matcher: Match::default().with(Field::InPort, 1),
        data: vec![0; n],
    });
    Msg { xid: 0, body }
}

fn port_status() -> Msg {
    let desc = PortDesc::new(Port(1), [0; 6], "p".into());
    Msg { xid: 0, body: Message::PortStatus(PortStatus { reason: PortReason::Add, desc }) }
}

#[test]
fn asynchronous_messages_are_dropped_and_counted() {
    let mut c = switch(Limits { output: 1000, ..Limits::default() });
    let sent = |c: &mut Channel, msg: &Msg| c.send(msg).unwrap();
    let fits = (0..100).filter(|_| sent(&mut c, &packet_in(82)) == Sent::Queued).count();
    assert_eq!(fits, 5, "packet-ins of 100 bytes take half");
    let fits = (0..100).filter(|_| sent(&mut c, &port_status()) == Sent::Queued).count();
    assert_eq!(fits, 8, "port status of 64 bytes takes the rest");
    assert!(c.next_event(ms(0)).is_none() && c.outgoing().len() < 1000 + 64);
    assert_eq!(c.stats().dropped[Kind::PacketIn as usize], 95);
    assert_eq!(c.stats().dropped[Kind::PortStatus as usize], 92);
    // Answers are taken even so.
    assert_eq!(c.send(&Msg { xid: 1, body: Message::BarrierReply }), Ok(Sent::Queued));
    assert_eq!(written(&mut c).len(), 5 + 8 + 1);
    assert_eq!(sent(&mut c, &packet_in(0)), Sent::Queued);
}

#[test]
fn a_peer_that_does_not_read_is_not_read() {
    let mut c = switch(Limits { output: 10_000, ..Limits::default() });
    let flood = echo(1, vec![7; 900]).repeat(2000);
    let mut given = 0;
    for _ in 0..5000 {
        given += c.receive(&flood[given..], ms(0));
        assert_eq!(c.next_event(ms(0)), None);
    }
    assert!(c.outgoing().len() < 10_000 + 908, "{}", c.outgoing().len());
    assert!(given < 12_000 + Limits::INPUT && !c.wants_read());
    assert_eq!(c.stats().pushed_back, 1);
    // It reads a little, and is read a little.
    c.advance(5000);
    assert_eq!(c.next_event(ms(0)), None);
    assert!(c.outgoing().len() >= 10_000);
    // It reads all, and all is answered.
    while given < flood.len() || !c.outgoing().is_empty() {
        c.advance(usize::MAX);
        given += c.receive(&flood[given..], ms(0));
        assert_eq!(c.next_event(ms(0)), None);
    }
    assert_eq!(c.stats().sent[Kind::EchoReply as usize], 2000);
}

#[test]
fn a_controller_that_is_not_read_keeps_reading() {
    let limits = Limits { output: 100, ..Limits::default() };
    let mut c = up(Config { limits, keep_alive: None, ..Config::new(Side::Controller) });
    let request = Msg { xid: 1, body: Message::BarrierRequest };
    let sent = (0..100).filter(|_| c.send(&request) == Ok(Sent::Queued)).count();
    assert_eq!(sent, 13);
    assert_eq!(c.send(&request), Err(SendError::Full));
    c.receive(&bytes(&packet_in(3)), ms(0));
    assert!(matches!(c.next_event(ms(0)), Some(Event::Message(_))));
    // Echo requests are answered up to a bound.
    let echoes = echo(1, vec![0; 992]).repeat(200);
    c.receive(&echoes, ms(0));
    assert_eq!(c.next_event(ms(0)), None);
    assert!((60_000..70_000).contains(&c.outgoing().len()), "{}", c.outgoing().len());
}

#[test]
fn rates_are_kept_to_the_message() {
    let rate = |per_second, burst| Some(Rate { per_second, burst });
    let limits = Limits { messages: rate(100, 10), flow_mods: rate(10, 2), ..Limits::default() };
    let flow_mod = {
        let mut body = vec![0; 64];
        body[..4].copy_from_slice(&u32::MAX.to_be_bytes());
        [&[1, 14, 0, 72, 0, 0, 0, 1][..], &body].concat()
    };
    for (message, burst, per_second) in [(BARRIER, 10, 100), (&flow_mod[..], 2, 10)] {
        let mut c = switch(limits);
        let flood = message.repeat(2000);
        let mut given = 0;
        let mut now = ms(0);
        let mut seen = 0;
        while now <= ms(5000) {
            given += c.receive(&flood[given..], now);
            while c.next_event(now).is_some() {
                seen += 1;
            }
            let passed = now.as_millis() as usize;
            assert_eq!(seen, burst + passed * per_second / 1000, "after {passed} ms");
            assert!(given <= 200_000, "the rest is not read");
            // The next is due exactly when it says.
            let due = c.wake_at().unwrap();
            assert!(due > now && due <= now + Duration::from_secs(1) / per_second as u32);
            now = due;
        }
        assert!(c.stats().throttled > 0 && c.stats().received[Kind::FlowMod as usize] <= 52);
    }
}

#[test]
fn a_rate_of_nothing_lets_nothing_through() {
    let limits = Limits { messages: Some(Rate { per_second: 0, burst: 9 }), ..Limits::default() };
    let mut c = switch(limits);
    c.receive(BARRIER, ms(0));
    assert_eq!(c.next_event(Duration::MAX), None);
    assert_eq!(c.wake_at(), Some(Duration::MAX));
}

fn watched(interval: u64, probes: u32, limits: Limits) -> Channel {
    let keep_alive = Some(KeepAlive { interval: ms(interval), probes });
    up(Config { keep_alive, limits, ..Config::new(Side::Switch) })
}

#[test]
fn silence_is_asked_and_then_given_up() {
    let mut c = watched(1000, 3, Limits::default());
    for n in 1..=3 {
        assert_eq!(c.wake_at(), Some(ms(n * 1000)));
        c.tick(ms(n * 1000 - 1));
        assert!(c.outgoing().is_empty());
        c.tick(ms(n * 1000));
        let asked = written(&mut c);
        assert!(matches!(&asked[..], [Msg { body: Message::EchoRequest(_), .. }]), "{asked:?}");
    }
    c.tick(ms(3999));
    assert_eq!(c.next_event(ms(3999)), None);
    c.tick(ms(4000));
    assert_eq!(c.next_event(ms(4000)), Some(Event::Closed(CloseReason::Dead)));
    assert_eq!((c.stats().probes, c.wake_at()), (3, None));
}

#[test]
fn an_answer_is_a_sign_of_life_and_nobody_elses_business() {
    let mut c = watched(1000, 1, Limits::default());
    for n in 1..50 {
        c.tick(ms(n * 1000));
        let asked = written(&mut c);
        let [Msg { xid, body: Message::EchoRequest(data) }] = &asked[..] else {
            panic!("{asked:?}")
        };
        c.receive(&bytes(&Msg { xid: *xid, body: Message::EchoReply(data.clone()) }), ms(n * 1000));
        assert_eq!(c.next_event(ms(n * 1000)), None);
    }
    // An answer to somebody else's question is passed up.
    let other = Msg { xid: 3, body: Message::EchoReply(b"mine".to_vec()) };
    c.receive(&bytes(&other), ms(50_000));
    assert!(matches!(c.next_event(ms(50_000)), Some(Event::Message(r)) if r.msg == other));
}

#[test]
fn an_owner_may_answer_echo_requests_itself() {
    let mut c = up(Config { echo: EchoBy::Owner, keep_alive: None, ..Config::new(Side::Switch) });
    written(&mut c);
    c.receive(&echo(7, b"x".to_vec()), ms(0));
    let Some(Event::Message(m)) = c.next_event(ms(0)) else { panic!("no message") };
    assert_eq!(m.msg, Msg { xid: 7, body: Message::EchoRequest(b"x".to_vec()) });
    assert_eq!(written(&mut c), []);
}

#[test]
fn who_ticks_late_still_gives_time_to_answer() {
    let mut c = watched(1000, 2, Limits::default());
    for _ in 0..10 {
        c.tick(ms(60_000));
    }
    assert_eq!(c.next_event(ms(60_000)), None, "one question, an interval to answer it");
    assert_eq!(c.stats().probes, 1);
}

#[test]
fn a_slow_reader_lives_and_a_stalled_one_dies() {
    let limits = Limits { output: 10_000, ..Limits::default() };
    for reads in [0, 1] {
        let mut c = watched(1000, 2, limits);
        c.receive(&echo(1, vec![0; 900]).repeat(20), ms(0));
        assert_eq!(c.next_event(ms(0)), None);
        for n in 1..100 {
            c.advance(reads);
            c.tick(ms(n * 1000));
            let _ = c.next_event(ms(n * 1000));
        }
        assert_eq!(c.is_closed(), reads == 0);
    }
}

#[test]
fn whom_we_hold_back_does_not_die_of_it() {
    let limits = Limits { messages: Some(Rate { per_second: 1, burst: 1 }), ..Limits::default() };
    let mut c = watched(100, 1, limits);
    c.receive(&BARRIER.repeat(20), ms(0));
    let mut seen = 0;
    for n in 1..=20_000 {
        c.tick(ms(n));
        seen += usize::from(matches!(c.next_event(ms(n)), Some(Event::Message(_))));
        if seen == 20 {
            return;
        }
    }
    panic!("{seen} messages, then {:?}", c.next_event(ms(20_000)));
}

#[test]
fn what_is_not_understood_is_refused_and_the_connection_kept() {
    let mut c = switch(Limits::default());
    for (frame, code) in [
        (&[4, 18, 0, 8, 0, 0, 0, 9][..], ErrorCode::BadVersion),
        (&[4, 2, 0, 8, 0, 0, 0, 9], ErrorCode::BadVersion),
        (&[1, 99, 0, 8, 0, 0, 0, 9], ErrorCode::BadType),
        (&[1, 18, 0, 9, 0, 0, 0, 9, 0], ErrorCode::BadLen),
        (&[1, 16, 0, 12, 0, 0, 0, 9, 0, 9, 0, 0], ErrorCode::BadMultipart),
        // Messages that only a switch sends.
        (&[1, 19, 0, 8, 0, 0, 0, 9], ErrorCode::BadType),
        (&[1, 10, 0, 18, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], ErrorCode::BadType),
        // Whatever their body.
        (&[1, 10, 0, 9, 0, 0, 0, 9, 0], ErrorCode::BadType),
        (&[1, 17, 0, 12, 0, 0, 0, 9, 0, 9, 0, 0], ErrorCode::BadType),
    ] {
        c.receive(frame, ms(0));
        assert_eq!(c.next_event(ms(0)), None, "{frame:?}");
        let body = Message::Error(ErrorMsg { code, data: frame.to_vec() });
        assert_eq!(written(&mut c), [Msg { xid: 9, body }]);
    }
    // Hellos that come late, and errors of any kind, are never answered.
    let ignored =
        [&[4, 0, 0, 8, 0, 0, 0, 9][..], &[1, 1, 0, 9, 0, 0, 0, 9, 0], &[1, 1, 0, 8, 0, 0, 0, 9]];
    for frame in ignored {
        c.receive(frame, ms(0));
        assert_eq!((c.next_event(ms(0)), c.outgoing()), (None, &[][..]), "{frame:?}");
    }
    assert_eq!((c.stats().refused, c.stats().ignored), (9, 3));
    c.receive(BARRIER, ms(0));
    assert!(matches!(c.next_event(ms(0)), Some(Event::Message(_))));
}

/// Errors answer requests: whatever a switch says wrongly, its controller does not answer.
#[test]
fn a_controller_is_told_of_what_it_can_not_read_and_the_switch_is_not() {
    let config = Config { versions: Versions::only(Version::V10), ..Config::new(Side::Controller) };
    let mut c = Channel::new(config, ms(0));
    c.receive(&[1, 0, 0, 8, 0, 0, 0, 1], ms(0));
    assert_eq!(c.next_event(ms(0)), Some(Event::Up(Version::V10)));
    c.advance(c.outgoing().len());
    for (frame, code) in [
        // A type that there is not, replies that are cut short or of no kind, another version, an error without
        // a code.
        (&[1, 99, 0, 8, 0, 0, 0, 9][..], ErrorCode::BadType),
        (&[1, 19, 0, 9, 0, 0, 0, 9, 0], ErrorCode::BadLen),
        (&[1, 6, 0, 12, 0, 0, 0, 9, 0, 0, 0, 0], ErrorCode::BadLen),
        (&[1, 17, 0, 12, 0, 0, 0, 9, 0, 99, 0, 0], ErrorCode::BadMultipart),
        (&[4, 19, 0, 8, 0, 0, 0, 9], ErrorCode::BadVersion),
        (&[1, 1, 0, 9, 0, 0, 0, 9, 0], ErrorCode::BadLen),
    ] {
        c.receive(frame, ms(0));
        let Some(Event::Misread(e)) = c.next_event(ms(0)) else { panic!("{frame:?}") };
        assert_eq!((e.xid, e.kind, e.code), (9, frame[1], code), "{frame:?}");
        assert_eq!(c.outgoing(), [], "{frame:?}");
    }
    assert_eq!((c.stats().refused, c.stats().ignored), (0, 6));
    // The connection is as it was.
    c.receive(&[1, 19, 0, 8, 0, 0, 0, 10], ms(0));
    let Some(Event::Message(r)) = c.next_event(ms(0)) else { panic!() };
    assert_eq!(r.msg, Msg { xid: 10, body: Message::BarrierReply });
    // What only controllers say is a request, and has its error.
    c.receive(&[1, 18, 0, 8, 0, 0, 0, 11], ms(0));
    assert_eq!(c.next_event(ms(0)), None);
    let data = vec![1, 18, 0, 8, 0, 0, 0, 11];
    let body = Message::Error(ErrorMsg { code: ErrorCode::BadType, data });
    assert_eq!(written(&mut c), [Msg { xid: 11, body }]);
    // Where the next message begins is lost: over, without a word.
    c.receive(&[1, 19, 0, 7, 0, 0, 0, 9], ms(0));
    assert_eq!(c.next_event(ms(0)), Some(Event::Closed(CloseReason::BrokenFraming)));
    assert_eq!(c.outgoing(), []);
}

#[test]
fn a_length_below_a_header_ends_it() {
    let mut c = switch(Limits::default());
    c.receive(&[BARRIER, &[1, 18, 0, 7, 0, 0, 0, 9], BARRIER].concat(), ms(0));
    assert!(matches!(c.next_event(ms(0)), Some(Event::Message(_))));
    assert_eq!(c.next_event(ms(0)), Some(Event::Closed(CloseReason::BrokenFraming)));
    let data = vec![1, 18, 0, 7, 0, 0, 0, 9];
    let body = Message::Error(ErrorMsg { code: ErrorCode::BadLen, data });
    assert_eq!(written(&mut c), [Msg { xid: 9, body }]);
    assert_eq!((c.next_event(ms(0)), c.wants_read(), c.is_closed()), (None, false, true));
    assert_eq!(c.send(&Msg { xid: 1, body: Message::BarrierReply }), Err(SendError::NotUp));
}

#[test]
fn an_agents_error_repeats_the_request() {
    let mut c = switch(Limits::default());
    let long = [&[1, 13, 0, 216, 0, 0, 0, 77, 0, 0, 0, 1, 0, 1, 0, 0][..], &[9; 200]].concat();
    c.receive(&long, ms(0));
    let Some(Event::Message(request)) = c.next_event(ms(0)) else { panic!() };
    c.refuse(&request.head, ErrorCode::BufferUnknown).unwrap();
    let body =
        Message::Error(ErrorMsg { code: ErrorCode::BufferUnknown, data: long[..64].to_vec() });
    assert_eq!(written(&mut c), [Msg { xid: 77, body }]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn delays_double_and_scatter(seed: u64, attempt in 0..100_u32, first in 1..5000_u64, times in 1..64_u64) {
        let backoff = Backoff { first: ms(first), ceiling: ms(first * times) };
        let delay = backoff.delay(seed, attempt);
        let whole = u64::from(attempt.min(20)).try_into().map_or(u64::MAX, |a: u32| first << a).min(first * times);
        prop_assert!(delay >= ms(whole) / 2 && delay <= ms(whole), "{delay:?} of {whole} ms");
        prop_assert_eq!(delay, backoff.delay(seed, attempt));
    }
}

#[test]
fn delays_use_all_of_their_room() {
    let delays: Vec<_> = (0..1000).map(|seed| Backoff::default().delay(seed, 9)).collect();
    let below = |limit| delays.iter().filter(|d| **d < ms(limit)).count();
    assert!((200..300).contains(&below(5000)) && (700..800).contains(&below(7000)));
    assert!(Backoff::default().delay(3, u32::MAX) <= Backoff::default().ceiling);
}
