//! `acl`: a stateless access list (RFC 3511 §5's stateless rules): lines of addresses, protocol and
//! ports, of which the first that matches permits or denies; what none matches is denied.
//!
//! Lines have one of four shapes by turns, none of which says all that another says, so the
//! classifier has as many tuples; all four reach from the first lines to the last, so nothing but
//! the four of them together finds the first line that matches.

use super::{At, Function, Job, Oracle};
use anyhow::Result;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use weir_packet::Nanos;
use weir_wire::build::Frame;
use weir_wire::tcp::Flags;

/// The access list.
pub struct Acl;

/// Shapes of lines.
const SHAPES: u32 = 4;

/// A line: the first `bits` of both addresses, and ports where it names them.
struct Line {
    src: (u32, u8),
    dst: (u32, u8),
    sport: Option<u16>,
    dport: Option<u16>,
    permits: bool,
}

/// What one's frame has: addresses and ports of which no other line is told.
fn flow(entry: u32) -> (u32, u32, u16, u16) {
    let n = entry / SHAPES;
    let (client, server) = (0x0a00_0000 + 256 * entry + 7, 0xc612_0000 + 256 * (n % 200) + n / 200);
    (client, server, 1024 + (n % 50_000) as u16, 1 + (n % 1000) as u16)
}

fn line(entry: u32) -> Line {
    let (client, server, sport, dport) = flow(entry);
    let (src, dst, sport, dport) = match entry % SHAPES {
        // A host to a network.
        0 => ((client, 32), (server, 24), None, None),
        // A network to a service.
        1 => ((client, 24), (server, 32), None, Some(dport)),
        // Networks, between two ports.
        2 => ((client, 16), (server, 16), Some(sport), Some(dport)),
        // A host to a service, wherever.
        _ => ((client, 32), (0, 0), None, Some(dport)),
    };
    Line { src, dst, sport, dport, permits: entry % 32 != 31 }
}

fn rules(entries: u32) -> String {
    let mut text = String::new();
    let net = |(addr, bits): (u32, u8)| format!("{}/{bits}", Ipv4Addr::from_bits(addr));
    // Lines of a shape together: their order in the table is their priority's affair.
    for shape in 0..SHAPES {
        for e in (shape..entries).step_by(SHAPES as usize) {
            let l = line(e);
            let _ = write!(text, "priority={},tcp,nw_src={}", 65_000 - e, net(l.src));
            if l.dst.1 > 0 {
                let _ = write!(text, ",nw_dst={}", net(l.dst));
            }
            for (name, port) in [("tp_src", l.sport), ("tp_dst", l.dport)] {
                if let Some(p) = port {
                    let _ = write!(text, ",{name}={p}");
                }
            }
            let action = if l.permits { "output:2" } else { "drop" };
            let _ = writeln!(text, ",actions={action}");
        }
    }
    text
}

impl Function for Acl {
    fn name(&self) -> &'static str {
        "acl"
    }
    fn about(&self) -> &'static str {
        "stateless access list: the first of many lines that matches addresses, protocol and ports"
    }
    fn paper_entries(&self) -> u32 {
        10_000
    }
    fn most_entries(&self) -> u32 {
        60_000
    }
    fn measured_entries(&self) -> &'static [u32] {
        &[100, 1000, 10_000]
    }
    fn job(&self, entries: u32) -> Result<Job> {
        Job::rules(&rules(entries), &[1, 2])
    }
    fn frame(&self, _: u32, _: u32, entry: u32, len: usize) -> At {
        let (src, dst, sport, dport) = flow(entry);
        let at = |addr, port| SocketAddrV4::new(Ipv4Addr::from_bits(addr), port);
        let payload = vec![0; len.saturating_sub(54)];
        let f = Frame::tcp_v4(at(src, sport), at(dst, dport), Flags::ACK, &payload);
        let mut bytes = vec![0; f.len()];
        // As long as it says.
        let _ = f.emit(&mut bytes);
        bytes.resize(len, 0);
        At { port: 1, bytes }
    }
    /// Line by line.
    fn oracle(&self, entries: u32) -> Oracle {
        Box::new(move |_: Nanos, input| {
            let b = &input.bytes;
            let (word, port) = (
                |at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]),
                |at: usize| u16::from_be_bytes([b[at], b[at + 1]]),
            );
            if input.port != 1 || b.len() < 54 || port(12) != 0x0800 || b[14] != 0x45 || b[23] != 6
            {
                return Vec::new();
            }
            let within = |addr: u32, (net, bits): (u32, u8)| {
                bits == 0 || (addr ^ net) >> (32 - u32::from(bits)) == 0
            };
            let matches = |l: &Line| {
                within(word(26), l.src)
                    && within(word(30), l.dst)
                    && l.sport.is_none_or(|p| p == port(34))
                    && l.dport.is_none_or(|p| p == port(36))
            };
            match (0..entries).map(line).find(matches) {
                Some(l) if l.permits => vec![At { port: 2, ..input.clone() }],
                _ => Vec::new(),
            }
        })
    }
    fn settings(&self, entries: u32) -> Vec<(String, f64)> {
        let masks = f64::from(SHAPES.min(entries));
        vec![("entries".into(), f64::from(entries)), ("masks".into(), masks)]
    }
    fn ovs(&self, entries: u32) -> Option<String> {
        Some(rules(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_classify::{FastTable, RuleId};
    use weir_dataplane::flowtext::{NoNames, parse_flows};

    /// What the model's `masks` says: a tuple for each shape, nothing besides.
    #[test]
    fn the_classifier_has_a_tuple_for_each_shape() {
        for n in [100, 1000] {
            let mut table = FastTable::new();
            for (i, r) in parse_flows(&rules(n), &NoNames).unwrap().iter().enumerate() {
                table.try_insert(&r.matcher, r.priority.into(), RuleId(i as u32)).unwrap();
            }
            assert_eq!((table.tuples(), table.scanned()), (SHAPES as usize, 0), "{n} lines");
        }
    }
}
