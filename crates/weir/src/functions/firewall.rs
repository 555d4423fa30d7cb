//! `firewall`: a stateful firewall, weir's program `firewall`: a connection's state is looked up by
//! its five fields, and follows its packets. Connections are opened before.

use super::{At, Function, Job, Oracle};
use anyhow::Result;
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use weir_dataplane::PortNo;
use weir_dataplane::programs::firewall::{Firewall as Program, FirewallConfig};
use weir_wire::build::Frame;
use weir_wire::tcp::Flags;

/// The firewall.
pub struct Firewall;

const INSIDE: u32 = 1;
const OUTSIDE: u32 = 2;
/// Steps of a handshake.
const STEPS: u32 = 3;

/// A connection's ends: inside, outside.
fn ends(entry: u32) -> (SocketAddrV4, SocketAddrV4) {
    // 32 connections a host.
    let inside = SocketAddrV4::new(
        Ipv4Addr::from_bits(0x0a00_0001 + entry / 32),
        2000 + (entry % 32) as u16,
    );
    (inside, SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 443))
}

fn segment(from: u32, entry: u32, flags: Flags, len: usize) -> At {
    let (inside, outside) = ends(entry);
    let (src, dst) = if from == INSIDE { (inside, outside) } else { (outside, inside) };
    let payload = vec![0; len.saturating_sub(54)];
    let f = Frame::tcp_v4(src, dst, flags, &payload);
    let mut bytes = vec![0; f.len()];
    // As long as it says.
    let _ = f.emit(&mut bytes);
    bytes.resize(len, 0);
    At { port: from, bytes }
}

impl Function for Firewall {
    fn name(&self) -> &'static str {
        "firewall"
    }
    fn about(&self) -> &'static str {
        "stateful firewall: connections by their five fields, followed through their states"
    }
    fn paper_entries(&self) -> u32 {
        1_048_576
    }
    fn most_entries(&self) -> u32 {
        1 << 22
    }
    fn job(&self, entries: u32) -> Result<Job> {
        let mut config = FirewallConfig::between(PortNo(INSIDE), PortNo(OUTSIDE));
        config.max_connections = entries as usize;
        Ok(Job::program(Program::new(&config)?, &[INSIDE, OUTSIDE]))
    }
    /// Handshakes.
    fn warm(&self, entries: u32, i: u32) -> Option<At> {
        let (entry, step) = (i / STEPS, i % STEPS);
        (entry < entries).then(|| match step {
            0 => segment(INSIDE, entry, Flags::SYN, 60),
            1 => segment(OUTSIDE, entry, Flags::SYN | Flags::ACK, 60),
            _ => segment(INSIDE, entry, Flags::ACK, 60),
        })
    }
    fn frame(&self, _: u32, i: u32, entry: u32, len: usize) -> At {
        segment(1 + i % 2, entry, Flags::ACK | Flags::PSH, len)
    }
    /// All frames are of TCP here: what is inside may say SYN; what it said it to may answer, once
    /// it has; all else passes when both have spoken. Nothing ends while this is asked.
    fn oracle(&self, _: u32) -> Oracle {
        let mut said: HashSet<(Vec<u8>, u32, u8)> = HashSet::new();
        Box::new(move |_, input| {
            let b = &input.bytes;
            if b.len() < 54 || b[12..15] != [8, 0, 0x45] || b[23] != 6 {
                return Vec::new();
            }
            let (src, dst) = ([&b[26..30], &b[34..36]].concat(), [&b[30..34], &b[36..38]].concat());
            let inside_first = if input.port == INSIDE { [src, dst] } else { [dst, src] };
            let connection = inside_first.concat();
            let flags = b[47] & 0x12;
            let has =
                |said: &HashSet<_>, port, flags| said.contains(&(connection.clone(), port, flags));
            let passes = match (input.port, flags) {
                (INSIDE, 0x02) => true,
                (OUTSIDE, 0x12) => has(&said, INSIDE, 0x02),
                (INSIDE, 0x10) => has(&said, OUTSIDE, 0x12),
                (OUTSIDE, 0x10) => has(&said, INSIDE, 0x10),
                _ => false,
            };
            if !passes {
                return Vec::new();
            }
            said.insert((connection, input.port, flags));
            vec![At { port: 3 - input.port, ..input.clone() }]
        })
    }
}
