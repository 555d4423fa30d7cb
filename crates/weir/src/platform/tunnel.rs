//! What a tunnel's headers in front of a frame add to a rule's actions: they stand apart from the rule's list,
//! where nobody has asked ahead for them.
//!
//! Room: `platform`'s. GRE, in which no function of `functions/` puts a frame by a rule; what a tunnel's own header
//! says beyond that is the function's.

use super::rules::rules;
use super::{Fed, Kind, actions, empty, lasting, point, shape, strewn};
use crate::functions::Job;
use std::net::Ipv4Addr;
use weir_calibrate::shape::{Home, Maker, Shape};
use weir_dataplane::{Action, Outer};

pub(super) fn shapes() -> Vec<Shape> {
    vec![rule_wrap(), rule_unwrap()]
}

/// Bytes of the headers.
const BYTES: f64 = 14.0 + 20.0 + 4.0;
/// What every list begins with, so that there is one without a tunnel.
const BEFORE: &str = "set_field:5->ip_dscp";
/// Lines of an entry when far away: the rule's two, its list's two, the headers', which begin anywhere.
const LINES: f64 = 6.0;

/// What a list has to do with a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tunnel {
    None,
    /// Its headers are put in front.
    On,
    /// And taken off again.
    OnAndOff,
}

/// The list with a tunnel in it, or without.
fn listed(entry: u64, tunnel: Tunnel) -> Vec<Action> {
    let [.., b, c, d] = entry.to_be_bytes();
    let to = Ipv4Addr::new(11, b, c, d);
    let macs = "eth_src=02:00:00:00:00:02,eth_dst=02:00:00:00:00:03";
    let on = format!("encap_gre(src=192.0.2.1,dst={to},{macs}),");
    let (on, off) = match tunnel {
        Tunnel::None => ("", ""),
        Tunnel::On => (on.as_str(), ""),
        Tunnel::OnAndOff => (on.as_str(), "decap_gre,"),
    };
    actions(&format!("{BEFORE},{on}{off}output:2"), "udp,")
}

/// A rule for each entry.
fn ruled(tunnel: Tunnel) -> Maker {
    lasting(move |tables| {
        let rules = rules(1, 1, tables, &|entry| listed(entry, tunnel));
        Fed::new(Kind::Udp, 60, tables, Job { rules, ..empty("drop") })
    })
}

fn rule_wrap() -> Shape {
    let given = [("b", BYTES), ("HE", size_of::<Outer>() as f64), ("max", 64.0)];
    Shape {
        eo: "rule_wrap",
        terms: &[("base", "1")],
        factor: None,
        more: None,
        accesses: Some("cold * ceil(HE / line)"),
        home: Home::Table,
        about: "a VDP whose rules put frames into a GRE tunnel each, less one whose rules write a field; far away with \
                a tunnel for each of 32 Ki rules, and of 256 Ki",
        points: vec![strewn(
            LINES,
            60,
            point(&given, ruled(Tunnel::On), Some(ruled(Tunnel::None))),
        )],
    }
}

/// What a tunnel's headers cost that are taken off, where they have just been put on: found and checked, the frame behind
/// them looked at.
fn rule_unwrap() -> Shape {
    Shape {
        points: vec![point(&[("b", BYTES)], ruled(Tunnel::OnAndOff), Some(ruled(Tunnel::On)))],
        ..shape(
            "rule_unwrap",
            &[("base", "1")],
            "a VDP whose rules put frames into a GRE tunnel each and take them out again, less one whose rules leave \
             them there",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tables;
    use super::*;

    #[test]
    fn a_tunnel_is_one_action_more() {
        let wraps =
            |of: &[Action]| of.iter().filter(|a| matches!(a, Action::EncapGre { .. })).count();
        let (with, without) = (listed(7, Tunnel::On), listed(7, Tunnel::None));
        assert_eq!((wraps(&with), wraps(&without)), (1, 0));
        assert_eq!(with.len(), without.len() + 1);
        assert_ne!(listed(8, Tunnel::On), with);
        assert_eq!(listed(7, Tunnel::OnAndOff).len(), with.len() + 1);
        let (frames, bytes) = sent(Tunnel::On);
        assert_eq!(bytes, frames * (60 + BYTES as u64), "{frames} frames");
        let (frames, bytes) = sent(Tunnel::OnAndOff);
        assert_eq!(bytes, frames * 60, "{frames} frames");
    }

    /// Frames and bytes that left.
    fn sent(tunnel: Tunnel) -> (u64, u64) {
        let rules = rules(1, 1, Tables::Near, &|entry| listed(entry, tunnel));
        let job = Job { rules, ..empty("drop") };
        let mut f = Fed::new(Kind::Udp, 60, Tables::Near, job).expect("a data plane");
        f.run(128);
        let s = f.plane.snapshot();
        s.check().expect("balanced");
        let (mut frames, mut bytes) = (0, 0);
        for p in &s.ports {
            frames += p.counters.tx.frames;
            bytes += p.counters.tx.bytes;
        }
        assert!(frames > 0);
        (frames, bytes)
    }
}
