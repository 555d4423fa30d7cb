//! What is written to an interface's file for a load. Pure.

use super::frame::PORT;
use crate::module::{Load, LoadId, Shape};
use crate::probe::FCS_BYTES;
use std::net::Ipv4Addr;

/// A command for the interface's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Without the end of its line.
    pub line: String,
}

/// The longest delay between frames that a command can say: ten digits.
const LONGEST_NS: f64 = 9_999_999_999.0;
/// By which pktgen means that nothing is sent at all.
const NEVER_NS: u64 = 0x7fff_ffff;
/// Frames that are meant to leave together within so many seconds leave evenly instead.
const TOGETHER_S: f64 = 50e-6;
/// A tag and pktgen's own header need more than the smallest frame has.
const LEAST_TAGGED: usize = 66;

/// The commands for a load, in their order.
///
/// # Errors
/// Pktgen can't send such a load: in one line, what, and what to do.
pub fn for_load(id: LoadId, load: &Load) -> Result<Vec<Write>, String> {
    let no = |what: &str| {
        Err(format!("pktgen sends {what}: give the interface without 'pktgen:' for this load"))
    };
    if load.one_in <= 1 {
        return no("frames that can be counted only, not told one by one");
    }
    if load.shape != Shape::Even {
        return no("at an even rate only");
    }
    if load.burst > 1 && load.burst as f64 / load.fps > TOGETHER_S {
        return no("no bursts");
    }
    let size = match load.sizes.as_slice() {
        [] => load.frame_bytes_on_wire,
        [first, rest @ ..] if rest.iter().all(|s| s == first) => *first,
        _ => return no("frames of one size"),
    };
    let (Some(flow), Some(last)) = (load.flows.first(), load.flows.last()) else {
        return no("at least one flow");
    };
    if size < LEAST_TAGGED && flow.vlan.is_some() {
        return no("no tagged frames of less than 66 bytes");
    }
    let from = u32::from(*flow.dst.ip());
    let in_turn = load.flows.iter().enumerate().all(|(n, f)| {
        let mut want = *flow;
        // At most 65536 flows.
        want.dst.set_ip(Ipv4Addr::from_bits(from.wrapping_add(n as u32)));
        *f == want
    });
    if !in_turn || u32::from(*last.dst.ip()) < from {
        return no("one flow, or flows of successive destination addresses");
    }
    let delay = 1e9 / load.fps;
    if !delay.is_finite() || delay > LONGEST_NS {
        return no("at least one frame in ten seconds");
    }
    // The cast is within its range.
    let delay = match delay.round() as u64 {
        NEVER_NS => NEVER_NS + 1,
        ns => ns,
    };
    let port = PORT + u16::from(id.0);
    let (src, dst) = (flow.src.ip(), flow.dst.port());
    let mut lines = vec![
        // As it was before the last load: its counters, and where its addresses stand.
        "clear_counters".to_owned(),
        format!("count {}", load.frames.unwrap_or(0)),
        // Each frame is made anew, so that each has its number.
        "clone_skb 0".to_owned(),
        format!("pkt_size {}", size.saturating_sub(FCS_BYTES)),
        format!("delay {delay}"),
        format!("src_mac {}", flow.src_mac),
        format!("dst_mac {}", flow.dst_mac),
        format!("src_min {src}"),
        format!("src_max {src}"),
        format!("dst_min {}", flow.dst.ip()),
        format!("dst_max {}", last.dst.ip()),
        format!("udp_src_min {port}"),
        format!("udp_src_max {port}"),
        format!("udp_dst_min {dst}"),
        format!("udp_dst_max {dst}"),
    ];
    match flow.vlan {
        // No VLAN has this number: the tag is off.
        None => lines.push("vlan_id 9999".to_owned()),
        Some(tag) => {
            lines.push(format!("vlan_id {}", tag.vid));
            lines.push(format!("vlan_p {}", tag.pcp));
        }
    }
    Ok(lines.into_iter().map(|line| Write { line }).collect())
}
