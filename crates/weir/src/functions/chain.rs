//! Functions one after the other: each in a VDP of its own, joined by wires in memory, and frames that pass
//! all of them.
//!
//! Room: jobs of functions into one data plane. An entry is a connection of a host behind the chain: hosts
//! have 32 each; to every connection belongs a station of the switches. Every function of a chain lets
//! through what comes and changes nothing, so that they may follow each other in any order.
//! Called by the study `nf-chains`.

use super::setup::{Place, function, room};
use super::{At, Function, Job, Way, named};
use anyhow::{Context, Result};
use std::net::{Ipv4Addr, SocketAddrV4};
use weir_classify::{Field, Match};
use weir_dataplane::{DataPlane, PortNo, Vid};
use weir_io::memory::{Memory, WireSize};
use weir_packet::Device;
use weir_wire::MacAddr;
use weir_wire::build::Frame;

/// Functions that can follow each other.
pub const LINKS: [&str; 4] = ["firewall", "policer", "l2-learning", "l2-basic"];
/// Connections of a host.
const PER_HOST: u32 = 32;
/// Frames that a wire between two VDPs has room for: some bursts.
const WIRE: usize = 256;

/// One function of a chain.
pub struct Link {
    /// The function.
    pub function: &'static dyn Function,
    /// Entries of its own.
    pub entries: u32,
}

impl Link {
    /// The function of this name, for a chain of so many connections.
    ///
    /// # Errors
    /// There is none.
    pub fn new(name: &str, connections: u32) -> Result<Self> {
        let function = named(name).with_context(|| format!("{name}: no such function"))?;
        let entries = match name {
            // One is no host's: the policer's last subscriber is held back.
            "policer" => connections.div_ceil(PER_HOST) + 1,
            _ => connections,
        };
        Ok(Self { function, entries })
    }

    /// The entry of its own that a connection asks for.
    pub fn entry(&self, connection: u32) -> u32 {
        match self.function.name() {
            "policer" => connection / PER_HOST,
            _ => connection,
        }
    }

    /// What its VDP's rules ask of the data plane.
    ///
    /// # Errors
    /// It can't be made with so many.
    pub fn way(&self, len: usize) -> Result<Way> {
        Ok(Way::of(&self.function.job(self.entries)?, &[frame(0, len)]))
    }
}

/// The frame of a connection, of `len` bytes without FCS.
pub fn frame(connection: u32, len: usize) -> At {
    let host = Ipv4Addr::from_bits(0x0a00_0001 + connection / PER_HOST);
    let src = SocketAddrV4::new(host, 2000 + (connection % PER_HOST) as u16);
    let dst = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 443);
    let [_, b, c, d] = connection.to_be_bytes();
    let payload = vec![0; len.saturating_sub(42)];
    let macs = (MacAddr([2, 7, 0, b, c, d]), MacAddr([2, 0, 0, b, c, d]));
    let f = Frame::udp_v4(src, dst, &payload).macs(macs.0, macs.1);
    let mut bytes = vec![0; f.len()];
    // As long as it says.
    let _ = f.emit(&mut bytes);
    bytes.resize(len, 0);
    At { port: 1, bytes }
}

/// A data plane with a VDP for each; frames come in by `first` and leave by `last`.
///
/// # Errors
/// A function can't be made.
pub fn chained(links: &[Link], first: Box<dyn Device>, last: Box<dyn Device>) -> Result<DataPlane> {
    let jobs: Vec<Job> = links.iter().map(|l| l.function.job(l.entries)).collect::<Result<_>>()?;
    let mut plane = room(jobs.iter().map(|j| j.rules.len()).sum())?;
    let mut into = plane.add_port("first", first)?;
    let (mut last, mut programs) = (Some(last), 0);
    let n = jobs.len();
    for (i, job) in jobs.into_iter().enumerate() {
        let vid = Vid(i as u16 + 1);
        let (out, next) = match last.take_if(|_| i + 1 == n) {
            Some(device) => (plane.add_port("last", device)?, None),
            None => {
                let size = WireSize { slots: WIRE, ..WireSize::default() };
                let (a, b) = Memory::pair([&format!("out{vid}"), &format!("in{vid}")], size);
                let out = plane.add_port(&format!("out{vid}"), Box::new(a))?;
                (out, Some(plane.add_port(&format!("in{vid}"), Box::new(b))?))
            }
        };
        let matcher = Match::any().with(Field::InPort, into.0.into());
        let ports = vec![(PortNo(1), into), (PortNo(2), out)];
        // A channel each: on a shared one the first would fill it, and wires behind it would wait.
        let channel = job.program.is_some().then_some(programs);
        programs += u8::from(job.program.is_some());
        function(&mut plane, Place { vid, matcher, ports, channel }, job)?;
        into = next.unwrap_or(into);
    }
    Ok(plane)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::arena;
    use weir_io::replay::{Null, Passes, Replay};
    use weir_packet::Nanos;

    /// However much comes, nothing is lost and nothing stands still.
    #[test]
    fn a_chain_keeps_up_with_its_source() {
        let links: Vec<Link> =
            LINKS.iter().map(|n| Link::new(n, 64).expect("a function")).collect();
        let frames = arena((0..64).map(|c| frame(c, 60))).expect("frames");
        let first = Box::new(Replay::new("first", frames, Passes::Forever));
        let mut plane = chained(&links, first, Box::new(Null::new("last"))).expect("a data plane");
        let mut before = 0;
        for round in 1..=20 {
            for i in 0..50 {
                plane.poll(Nanos(round * 1_000_000 + i * 3000));
            }
            let s = plane.snapshot();
            s.check().expect("every frame accounted for");
            assert!(s.vdps.iter().all(|v| v.counters.dropped.total() == 0), "round {round}");
            let sent = s.vdps.last().expect("VDPs").counters.forwarded.frames;
            assert!(sent > before + 1000, "round {round}: {before}, {sent}");
            before = sent;
        }
    }

    #[test]
    fn every_frame_passes_every_chain_as_it_came() {
        for n in 1..=LINKS.len() {
            for turn in 0..LINKS.len() {
                let links: Vec<Link> = (0..n)
                    .map(|i| Link::new(LINKS[(turn + i) % LINKS.len()], 64).expect("a function"))
                    .collect();
                let size = WireSize::default();
                let (first, mut from) = Memory::with_peer("first", size);
                let (last, mut to) = Memory::with_peer("last", size);
                let mut plane =
                    chained(&links, Box::new(first), Box::new(last)).expect("a data plane");
                let (mut clock, mut got) = (0, Vec::new());
                for connection in (0..64).chain((0..64).rev()) {
                    let bytes = frame(connection, 60 + connection as usize).bytes;
                    from.send(&bytes).expect("room");
                    for _ in 0..4 * n {
                        clock += 10_000;
                        plane.poll(Nanos(clock));
                    }
                    let names: Vec<&str> = links.iter().map(|l| l.function.name()).collect();
                    assert!(to.recv(&mut got), "{names:?}: connection {connection} is lost");
                    assert_eq!(got, bytes, "{names:?}");
                    assert!(!to.recv(&mut got), "{names:?}: more than came");
                }
                plane.snapshot().check().expect("every frame accounted for");
            }
        }
    }
}
