//! Any bytes as messages of both versions, frames and time, for a switch on a small data plane. What
//! must hold: nothing panics, every answer can be written in its receiver's version, frames add up,
//! and the switch and its data plane have the same number of flows.

use weir_agent::{
    Arrived, Config, ConnId, Outbox, Packing, PortUpdate, Purpose, Session, Switch, Tallying,
    Unpacking,
};
use weir_classify::Match as Keys;
use weir_dataplane::{Config as Sizes, DataPlane, MappingRule, PortNo, VdpSpec, Vid};
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_openflow::codec::{decode, encode};
use weir_openflow::framing::Framer;
use weir_openflow::model::*;
use weir_packet::Nanos;

const VID: Vid = Vid(1);
/// A script is cut after so many bytes, so that one run stays short.
const LONGEST: usize = 16384;

struct Bench {
    plane: DataPlane,
    switch: Switch,
    out: Outbox,
    now: Nanos,
    peers: Vec<MemoryPeer>,
}

fn desc(no: u32) -> PortDesc {
    PortDesc::new(Port(no), [2, 0, 0, 0, 0, no as u8], format!("p{no}"))
}

impl Bench {
    fn new() -> Self {
        let sizes = Sizes { frames: 2048, channels: 1, channel_frames: 64, ..Sizes::default() };
        let mut plane = DataPlane::new(sizes).expect("sizes that can be");
        let mut spec = VdpSpec::new(VID, "vdp");
        let mut peers = Vec::new();
        for no in 1..=3 {
            let size = WireSize { slots: 16, max_frame_bytes: 1518 };
            let (port, peer) = Memory::with_peer(&format!("p{no}"), size);
            let id = plane.add_port(&format!("p{no}"), Box::new(port)).expect("a port");
            spec.ports.push((PortNo(no), id));
            peers.push(peer);
        }
        spec.mapping = vec![MappingRule { matcher: Keys::any(), priority: 1 }];
        plane.create_vdp(spec).expect("a VDP");
        let mut config = Config::new(VID, 1);
        (config.tables, config.buffers) = (3, 4);
        config.ports = (1..=3).map(desc).collect();
        config.queues = vec![QueueDesc { id: 1, port: Port(1), properties: vec![] }];
        (config.limits.flows, config.limits.groups, config.limits.meters) = (32, 8, 8);
        let now = Nanos::from_secs(1);
        let switch = Switch::new(config, now);
        let mut b = Self { plane, switch, out: Outbox::default(), now, peers };
        for (id, version) in [(0, Version::V10), (1, Version::V13), (2, Version::V13)] {
            let (plane, out) = (&mut b.plane, &mut b.out);
            b.switch
                .connected(ConnId(id), version, Purpose::Controller, now, plane, out)
                .expect("the plane is there");
        }
        b
    }
    fn message(&mut self, conn: u64, raw: &[u8]) {
        let version = if conn == 0 { Version::V10 } else { Version::V13 };
        let Ok(msg) = decode(version, raw) else { return };
        let (plane, out) = (&mut self.plane, &mut self.out);
        self.switch.handle(ConnId(conn), msg, raw, self.now, plane, out).expect("it is there");
    }
    fn settle(&mut self) {
        self.plane.poll(self.now);
        let (plane, out) = (&mut self.plane, &mut self.out);
        self.switch.tick(self.now, plane, out).expect("it is there");
        let mut bytes = Vec::new();
        for p in &mut self.peers {
            while p.recv(&mut bytes) {}
        }
        for s in self.out.take() {
            let version = if s.to.0 == 0 { Version::V10 } else { Version::V13 };
            let mut bytes = Vec::new();
            if let Err(e) = encode(version, &s.msg, &mut bytes) {
                panic!("{e}: {:?}", s.msg);
            }
        }
        self.plane.snapshot().check().expect("frames add up");
        let rules: u64 =
            self.plane.table_counters(VID).expect("the VDP").iter().map(|t| t.active).sum();
        assert_eq!(rules, self.switch.flow_count() as u64);
    }
}

/// A script: pieces of a length, a kind and so many bytes.
pub fn script(bytes: &[u8]) {
    play(bytes);
}

/// A switch after a script, packed, some bytes changed, and unpacked: a number of changes, for each a
/// piece, a place (two bytes) and a value, then the script. Unchanged, it comes out whole.
pub fn carried(bytes: &[u8]) {
    // A connection is carried by itself.
    if let Some(Ok(s)) = bytes.get(..Session::BYTES).map(Session::from_bytes) {
        assert_eq!(Session::from_bytes(s.as_bytes()).as_ref(), Ok(&s));
    }
    let Some((&count, rest)) = bytes.split_first() else { return };
    let (edits, rest) = rest.split_at((usize::from(count % 8) * 4).min(rest.len()));
    let mut old = play(rest);
    let (mut pieces, mut packing) = (Vec::new(), Packing::new(old.now));
    while let Some(p) = old.switch.pack(&mut packing) {
        pieces.push(p);
    }
    let (first, mut tallying) = (pieces.len(), Tallying::default());
    while let Ok(Some(p)) = old.switch.pack_tallies(&mut tallying, old.now, &mut old.plane) {
        pieces.push(p);
    }
    let mut spoilt = false;
    for e in edits.chunks_exact(4) {
        let at = usize::from(e[0]) % pieces.len();
        let n = pieces[at].len();
        let byte = &mut pieces[at][usize::from(u16::from_be_bytes([e[1], e[2]])) % n];
        spoilt |= *byte != e[3];
        *byte = e[3];
    }
    let mut new = Bench::new();
    let mut u = Unpacking::default();
    for (i, p) in pieces.iter().enumerate() {
        let done = match i < first {
            true => new.switch.unpack(&mut u, p, new.now, &mut new.plane),
            false => new.switch.unpack_tallies(&mut u, p, new.now, &mut new.plane),
        };
        match done {
            Ok(()) => {}
            Err(e) if spoilt => {
                let _ = e.to_string();
                break;
            }
            Err(e) => panic!("{e}"),
        }
    }
    if !spoilt {
        assert!(u.is_tallied());
        assert_eq!(new.switch.flow_count(), old.switch.flow_count());
    }
    new.settle();
}

fn play(bytes: &[u8]) -> Bench {
    let mut b = Bench::new();
    let mut rest = &bytes[..bytes.len().min(LONGEST)];
    while let [kind, len, tail @ ..] = rest {
        // A message says itself how long it is.
        let mut framer = Framer::new();
        let mut input = tail;
        match kind % 8 {
            k @ 0..=4 => match framer.next(&mut input) {
                Ok(Some(frame)) => b.message(u64::from(k.saturating_sub(2)), frame),
                _ => input = &tail[usize::from(*len).min(tail.len())..],
            },
            k => {
                let (piece, after) = tail.split_at(usize::from(*len).min(tail.len()));
                input = after;
                match k {
                    5 => {
                        // A frame that does not fit is lost as on any wire.
                        let _ = b.peers[usize::from(*len) % 3].send(piece);
                    }
                    6 => b.now = b.now + Nanos::from_millis(u64::from(*len) * 16),
                    _ => {
                        let a = Arrived {
                            in_port: Port(u32::from(*len) % 4),
                            reason: PacketInReason::NoMatch,
                            table: 0,
                            cookie: u64::from(*len) << 57,
                            max_len: u16::from(*len) * 257,
                            metadata: 0,
                            tunnel_id: 0,
                            frame: piece.to_vec(),
                        };
                        b.switch.punted(a, b.now, &mut b.out);
                        let update = PortUpdate::Is(desc(u32::from(*len) % 5 + 1));
                        b.switch.port_changed(update, b.now, &mut b.out);
                    }
                }
                b.settle();
            }
        }
        rest = input;
    }
    b.settle();
    b
}
