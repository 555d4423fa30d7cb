//! The way through a VDP that has no rule, and through the software stage to a program that only looks at
//! what a frame carries.
//!
//! Room: `platform`'s.

use super::{Fed, Kind, empty, frame, lasting, point, probe, served};
use crate::functions::{Job, Stack};
use weir_calibrate::bench::GONE;
use weir_calibrate::shape::{Home, Maker, Point, Shape};

pub(super) fn shapes() -> Vec<Shape> {
    vec![vdp_pass(), channel_pass()]
}

/// Frames of a kind through an empty VDP.
pub(super) fn fed(kind: Kind, len: usize, actions: &'static str) -> Maker {
    lasting(move |tables| Fed::new(kind, len, tables, empty(actions)))
}

/// The same, half of the frames by another port.
fn two(len: usize) -> Maker {
    lasting(move |tables| {
        let job = Job { ports: vec![1, 2, 3], ..empty("output:2") };
        Fed::new(Kind::Udp, len, tables, job)
    })
}

fn vdp_pass() -> Shape {
    let given = |kind: Kind, len: usize, sources: f64| {
        let mut given = vec![("b", len as f64), ("sources", sources)];
        given.extend(Stack::of(&frame(kind, 0, len)).parameters());
        given
    };
    let at = |kind: Kind, len: usize| -> Point {
        point(&given(kind, len, 1.0), fed(kind, len, "output:2"), None)
    };
    let by_two = |len: usize| point(&given(Kind::Udp, len, 2.0), two(len), None);
    Shape {
        eo: "vdp_pass",
        // What is usual is taken at once, all else a header after the other.
        terms: &[
            ("common", "usual"),
            ("ethernet", "1 - usual"),
            ("tag", "(1 - usual) * tags"),
            ("label", "(1 - usual) * labels"),
            ("v4", "(1 - usual) * ip4"),
            ("v6", "(1 - usual) * ip6"),
            ("transport", "(1 - usual) * transports"),
            ("tagged", "usual * tags"),
            ("source", "sources - 1"),
            ("line_copy", "ceil(b / line) - 1"),
            ("line_source", "(sources - 1) * (ceil(b / line) - 1)"),
            ("far_line", "max(ceil(b / line) - 8, 0)"),
        ],
        factor: None,
        // Frames lie in memory, and others take some of them from the last cache before they are played again.
        more: Some(GONE),
        accesses: None,
        home: Home::Near,
        about: "weir's data plane in bursts of 64 with one VDP, no rule, 32 Ki frames in memory as its source",
        points: vec![
            at(Kind::Ethernet, 60),
            at(Kind::Mpls, 60),
            at(Kind::Ipv4, 60),
            at(Kind::Udp, 60),
            at(Kind::TaggedUdp, 60),
            at(Kind::QinqUdp, 60),
            at(Kind::Ipv6Udp, 62),
            at(Kind::Udp, 124),
            at(Kind::Udp, 252),
            at(Kind::Udp, 508),
            at(Kind::Udp, 1514),
            by_two(60),
            by_two(508),
            by_two(1514),
        ],
    }
}

fn channel_pass() -> Shape {
    let given = |len: usize, sources: f64| [("b", len as f64), ("sources", sources)];
    let glancing = || probe::Probe::of(probe::Glance);
    let at = |len: usize| {
        let program = lasting(move |tables| Fed::new(Kind::Udp, len, tables, served(glancing())));
        point(&given(len, 1.0), program, Some(fed(Kind::Udp, len, "output:2")))
    };
    // Two sources bring more in a round than the software stage takes: what waits there has left the nearest
    // caches when its turn comes.
    let by_two = |len: usize| {
        let program = lasting(move |tables| {
            let job = Job { ports: vec![1, 2, 3], ..served(glancing()) };
            Fed::new(Kind::Udp, len, tables, job)
        });
        point(&given(len, 2.0), program, Some(two(len)))
    };
    Shape {
        eo: "channel_pass",
        // Of longer frames less is still near when their turn comes.
        terms: &[
            ("base", "1"),
            ("source", "min(sources - 1, 1)"),
            ("line_away", "ceil(b / line) - 1"),
            ("line_source", "min(sources - 1, 1) * (ceil(b / line) - 1)"),
            ("far_line", "max(ceil(b / line) - 8, 0)"),
            // What two sources bring of long frames has left a core's own caches, too.
            ("far_source", "min(sources - 1, 1) * max(ceil(b / line) - 8, 0)"),
        ],
        factor: None,
        more: None,
        accesses: None,
        home: Home::Near,
        about: "frames to a program that looks at their types and sends them by the other port, less a VDP without \
                rules on the fast path",
        points: vec![
            at(60),
            at(124),
            at(252),
            at(508),
            at(1514),
            by_two(60),
            by_two(508),
            by_two(1514),
        ],
    }
}
