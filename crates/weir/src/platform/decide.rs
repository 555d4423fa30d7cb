//! What a program's decisions add: a field held against what is configured or remembered, and a way that is not
//! taken, where something else would be counted.
//!
//! Room: `platform`'s. Decisions here are nobody's: bytes of a header that no frame has.

use super::probe::{idle, probing};
use super::{Tables, point, shape};
use weir_calibrate::shape::{Maker, Shape};
use weir_packet::Frame;

pub(super) fn shapes() -> Vec<Shape> {
    vec![program_decide()]
}

/// Bytes that no frame of a benchmark has at these places, and how often one had.
struct Never {
    bytes: [u8; MOST],
    had: [u64; MOST],
}

/// Most decisions of a frame.
const MOST: usize = 48;
/// Where the bytes begin that are looked at: behind the headers, where frames are zero.
const FROM: usize = 44;

impl Never {
    fn new(_: Tables) -> Self {
        // Nobody knows what is configured.
        Self { bytes: std::hint::black_box([0xa5; MOST]), had: [0; MOST] }
    }

    fn decide<const N: usize>(&mut self, frame: &mut Frame) -> Option<u64> {
        let all = frame.bytes().get(FROM..)?.first_chunk::<N>()?;
        for (i, byte) in all.iter().enumerate() {
            if *byte == self.bytes[i] {
                self.had[i] += 1;
                return None;
            }
        }
        Some(1)
    }
}

fn decided<const N: usize>() -> Maker {
    probing(|tables| {
        let mut never = Never::new(tables);
        move |f: &mut Frame| never.decide::<N>(f)
    })
}

fn program_decide() -> Shape {
    let at = |n: f64, make| point(&[("n", n)], make, Some(idle()));
    Shape {
        points: vec![
            at(16.0, decided::<16>()),
            at(32.0, decided::<32>()),
            at(48.0, decided::<MOST>()),
        ],
        ..shape(
            "program_decide",
            &[("each", "n")],
            "bytes of a frame held against what is configured, each with a way of its own that is not taken",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_way_is_taken() {
        let mut pool = weir_packet::Pool::new(4, 2048).expect("a pool");
        let mut frame = pool.alloc().expect("a frame");
        frame.copy_from(&super::super::frame(super::super::Kind::Udp, 3, 124)).expect("room");
        let mut never = Never::new(Tables::Near);
        assert_eq!(never.decide::<MOST>(&mut frame), Some(1));
        never.bytes[7] = 0;
        assert_eq!(never.decide::<MOST>(&mut frame), None);
        assert_eq!(never.had[7], 1);
        pool.free(frame);
    }
}
