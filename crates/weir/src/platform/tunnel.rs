//! What a tunnel's headers in front of a frame add to a rule's actions: they stand apart from the rule's list,
//! where nobody has asked ahead for them.
//!
//! Room: `platform`'s. GRE, in which no function of `functions/` puts a frame by a rule; what a tunnel's own header
//! says beyond that is the function's.

use super::rules::rules;
use super::{Fed, Kind, actions, empty, lasting, point, strewn};
use crate::functions::Job;
use std::net::Ipv4Addr;
use weir_calibrate::shape::{Home, Maker, Shape};
use weir_dataplane::{Action, Outer};

pub(super) fn shapes() -> Vec<Shape> {
    vec![rule_wrap()]
}

/// Bytes of the headers.
const BYTES: f64 = 14.0 + 20.0 + 4.0;
/// What every list begins with, so that there is one without a tunnel.
const BEFORE: &str = "set_field:5->ip_dscp";
/// Lines of an entry when far away: the rule's two, its list's two, the headers', which begin anywhere.
const LINES: f64 = 6.0;

/// The list with a tunnel in it, or without.
fn listed(entry: u64, wrapped: bool) -> Vec<Action> {
    let [.., b, c, d] = entry.to_be_bytes();
    let to = Ipv4Addr::new(11, b, c, d);
    let macs = "eth_src=02:00:00:00:00:02,eth_dst=02:00:00:00:00:03";
    let tunnel = format!("encap_gre(src=192.0.2.1,dst={to},{macs}),");
    let tunnel = if wrapped { tunnel.as_str() } else { "" };
    actions(&format!("{BEFORE},{tunnel}output:2"), "udp,")
}

/// A rule for each entry.
fn ruled(wrapped: bool) -> Maker {
    lasting(move |tables| {
        let rules = rules(1, 1, tables, &|entry| listed(entry, wrapped));
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
                a tunnel for each of 32 Ki rules",
        points: vec![strewn(LINES, 60, point(&given, ruled(true), Some(ruled(false))))],
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
        let (with, without) = (listed(7, true), listed(7, false));
        assert_eq!((wraps(&with), wraps(&without)), (1, 0));
        assert_eq!(with.len(), without.len() + 1);
        assert_ne!(listed(8, true), with);
        let rules = rules(1, 1, Tables::Near, &|entry| listed(entry, true));
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
        assert_eq!(bytes, frames * (60 + BYTES as u64), "{frames} frames");
    }
}
