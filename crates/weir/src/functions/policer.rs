//! `policer`: a token bucket for each subscriber (RFC 2697's idea, with one rate): a rule for each
//! source address, with a meter that drops what is above its rate.
//!
//! The last subscriber may send a frame a millisecond, all others more than can be sent, so that
//! what is measured is the buckets' cost and not what dropping saves.

use super::{At, Function, Job, Oracle};
use anyhow::Result;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use weir_dataplane::{Band, BandKind, Meter, Unit};
use weir_packet::Nanos;
use weir_wire::build::Frame;

/// The policer.
pub struct Policer;

/// Nanoseconds between two frames of the last subscriber.
const MILLISECOND: u64 = 1_000_000;

fn address(entry: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0001 + entry)
}

impl Function for Policer {
    fn name(&self) -> &'static str {
        "policer"
    }
    fn about(&self) -> &'static str {
        "policer: a token bucket for each subscriber"
    }
    fn paper_entries(&self) -> u32 {
        65_536
    }
    fn most_entries(&self) -> u32 {
        1 << 20
    }
    fn measured_entries(&self) -> &'static [u32] {
        &[1024, 8192, 65_536]
    }
    fn job(&self, entries: u32) -> Result<Job> {
        let mut text = String::new();
        let mut meters = Vec::new();
        for e in 0..entries {
            let id = e + 1;
            let _ = writeln!(text, "ip,nw_src={},actions=meter:{id},output:2", address(e));
            let (unit, rate, burst) = match id == entries {
                true => (Unit::Packets, 1000, 1),
                false => (Unit::Kilobits, u32::MAX, u32::MAX),
            };
            meters.push((id, Meter::new(unit, &[Band { kind: BandKind::Drop, rate, burst }])?));
        }
        Ok(Job { meters, ..Job::rules(&text, &[1, 2])? })
    }
    fn frame(&self, _: u32, _: u32, entry: u32, len: usize) -> At {
        let payload = vec![0; len.saturating_sub(42)];
        let server = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 53);
        let f = Frame::udp_v4(SocketAddrV4::new(address(entry), 1024), server, &payload);
        let mut bytes = vec![0; f.len()];
        // As long as it says.
        let _ = f.emit(&mut bytes);
        bytes.resize(len, 0);
        At { port: 1, bytes }
    }
    /// The last subscriber's frame passes when a millisecond is over since the last that did.
    fn oracle(&self, entries: u32) -> Oracle {
        let mut passed: Option<Nanos> = None;
        Box::new(move |now, input| {
            let Some(source) = input.bytes.get(26..30) else { return Vec::new() };
            let is = |e: u32| source == address(e).octets();
            if !(0..entries).any(is) {
                return Vec::new();
            }
            if is(entries - 1) {
                if passed.is_some_and(|p| now.0 - p.0 < MILLISECOND) {
                    return Vec::new();
                }
                passed = Some(now);
            }
            vec![At { port: 2, ..input.clone() }]
        })
    }
}
