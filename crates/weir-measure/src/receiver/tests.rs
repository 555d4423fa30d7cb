//! When a receiver ends, and which moment it takes for an arrival; by a clock moved by hand.

use super::*;
use crate::clock::Manual;
use crate::probe::{Headers, Run, Stamper, Stream, StreamSent, Window, streams};
use weir_io::memory::{Memory, WireSize};
use weir_packet::{Device, Pool};

const DRAIN: Drain = Drain {
    settle: Duration::from_micros(10),
    quiet: Duration::from_micros(100),
    at_most: Duration::from_micros(1_000),
};

/// A port, and its far end with a pool to send from.
struct Wire {
    near: [Port; 1],
    far: Memory,
    pool: Pool,
    stream: Stream,
}

fn wire() -> Wire {
    let (near, far) = Memory::pair(["near", "far"], WireSize::default());
    let stream = streams(Headers::default(), &[], 1, 64).unwrap()[0];
    let near = [Port::new(Box::new(near), 128).unwrap()];
    Wire { near, far, pool: Pool::new(128, 2048).unwrap(), stream }
}

impl Wire {
    /// Sends the frame of that number, stamped by its maker and by the device.
    fn send(&mut self, number: u64, left: Nanos, arrived: Option<Nanos>) {
        let mut frame = self.pool.alloc().unwrap();
        frame.set_len(60).unwrap();
        let stamper = Stamper::new(&self.stream, Run(0)).unwrap();
        stamper.write(number, left, frame.bytes_mut()).unwrap();
        if let Some(t) = arrived {
            frame.set_stamp(t);
        }
        let mut burst = Burst::new();
        burst.push(frame).unwrap();
        assert_eq!(self.far.tx(&mut self.pool, &mut burst), 1);
    }
    fn receiver(&self, arrived: Arrived, clock: &Manual) -> Receiver {
        let checker = Checker::new(&[self.stream], Run(0), Window(64)).unwrap();
        Receiver::new(&self.near, checker, arrived, DRAIN, clock)
    }
}

/// Goes on until the receiver is done; when that was.
fn until_done(r: &mut Receiver, w: &mut Wire, sent: &AllSent, clock: &Manual) -> Nanos {
    let from = clock.now();
    while !r.is_done(sent, clock) {
        assert!(clock.now().since(from) < Nanos(10_000_000), "it never ends");
        r.step(&mut w.near, clock);
        clock.pause();
    }
    clock.now().since(from)
}

#[test]
fn it_ends_soon_when_all_is_there_and_later_when_not() {
    for (frames, wait) in [(2, DRAIN.settle), (3, DRAIN.quiet)] {
        let (mut w, clock, sent) = (wire(), Manual::new(), AllSent::new());
        let mut r = w.receiver(Arrived::Taken, &clock);
        w.send(0, clock.now(), None);
        w.send(1, clock.now(), None);
        assert_eq!(r.step(&mut w.near, &clock), 2);
        clock.advance(Nanos::from_millis(50));
        assert!(!r.is_done(&sent, &clock), "more may come");
        sent.announce(frames);
        let took = until_done(&mut r, &mut w, &sent, &clock);
        assert_eq!(u128::from(took.0), wait.as_nanos());
        let (checker, received) = r.finish(&w.near);
        assert_eq!((received.frames, received.missed), (2, 0));
        let tally = checker.tally(&[StreamSent { stream: 0, frames }]);
        assert_eq!(tally.total.lost, frames - 2);
    }
}

#[test]
fn a_late_frame_is_waited_for() {
    let (mut w, clock, sent) = (wire(), Manual::new(), AllSent::new());
    let mut r = w.receiver(Arrived::Taken, &clock);
    sent.announce(2);
    w.send(0, clock.now(), None);
    for _ in 0..90 {
        assert!(!r.is_done(&sent, &clock));
        r.step(&mut w.near, &clock);
        clock.pause();
    }
    w.send(1, clock.now(), None);
    until_done(&mut r, &mut w, &sent, &clock);
    assert_eq!(r.finish(&w.near).1.frames, 2);
}

#[test]
fn strangers_without_end_do_not_hold_it() {
    let (mut w, clock, sent) = (wire(), Manual::new(), AllSent::new());
    let mut r = w.receiver(Arrived::Taken, &clock);
    sent.announce(5);
    w.stream.id = 9;
    while !r.is_done(&sent, &clock) {
        w.send(0, clock.now(), None);
        r.step(&mut w.near, &clock);
        clock.pause();
    }
    assert_eq!(u128::from(clock.now().0), DRAIN.at_most.as_nanos());
    let (checker, received) = r.finish(&w.near);
    assert_eq!((checker.tally(&[]).foreign, received.by_port), (1_000, vec![1_000]));
}

#[test]
fn which_moment_is_the_arrival() {
    let delays = |arrived| {
        let (mut w, clock) = (wire(), Manual::new());
        let mut r = w.receiver(arrived, &clock);
        w.send(0, Nanos(100), Some(Nanos(350)));
        w.send(1, Nanos(100), None);
        // A clock that disagrees: it left after it came.
        w.send(2, Nanos(9_000), Some(Nanos(8_000)));
        clock.advance(Nanos(500));
        r.step(&mut w.near, &clock);
        let (_, received) = r.finish(&w.near);
        assert_eq!(w.near[0].pool.available(), 128);
        assert_eq!(received.from_the_future, 1);
        (received.latency.count(), received.latency.quantile(1.0))
    };
    assert_eq!(delays(Arrived::Taken), (2, Some(400)));
    assert_eq!(delays(Arrived::Stamped), (1, Some(250)));
}
