//! `vxlan-encap`, `vxlan-decap`, `vxlan-gateway`: stations in VLANs on one side, VXLAN (RFC 7348) on the
//! other; each direction and both. Rules: a station's VLAN and MAC address say where its tunnel
//! ends, network identifier and inner MAC address say whose a frame is. An entry is a station on
//! either side.

use super::plain::ipv4;
use super::{At, Function, Job, Oracle};
use anyhow::Result;
use std::fmt::Write;
use weir_classify::FlowKey;
use weir_dataplane::extract;
use weir_dataplane::processing::flow_hash;

/// The gateway, as it is loaded.
pub enum Vxlan {
    /// From VLANs to tunnels.
    Encap,
    /// From tunnels to VLANs.
    Decap,
    /// Both, in turns.
    Gateway,
}

const VLANS: u32 = 1;
const UNDERLAY: u32 = 2;
const US: [u8; 6] = [2, 0, 0, 0, 0, 2];
const LOCAL: u32 = 0xc000_0201;
/// VLANs, each a network of its own.
const SEGMENTS: u32 = 64;
/// Tunnels.
const REMOTES: u32 = 250;

fn vlan(e: u32) -> u16 {
    (100 + e % SEGMENTS) as u16
}
fn vni(e: u32) -> u32 {
    0x5_0000 + e % SEGMENTS
}
/// A station behind a tunnel, and one in a VLAN.
fn far(e: u32) -> [u8; 6] {
    let [_, b, c, d] = e.to_be_bytes();
    [2, 3, 0, b, c, d]
}
fn near(e: u32) -> [u8; 6] {
    let [_, b, c, d] = e.to_be_bytes();
    [2, 4, 0, b, c, d]
}
fn remote(e: u32) -> u32 {
    0xc633_6401 + e / 7 % REMOTES
}
fn next_hop(e: u32) -> [u8; 6] {
    [2, 5, 0, 0, 0, (e / 7 % REMOTES) as u8]
}
fn text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

/// What a station sends: an IPv4 packet, its tag aside.
fn inner(dst: [u8; 6], src: [u8; 6], i: u32, len: usize) -> Vec<u8> {
    let mut bytes = [dst, src].concat();
    bytes.extend([8, 0]);
    let ports = [(1000 + i % 50_000) as u16, 80];
    let mut tcp: Vec<u8> = ports.iter().flat_map(|p| p.to_be_bytes()).collect();
    tcp.extend([0; 8]);
    tcp.extend([0x50, 0x10]);
    tcp.resize(len - 34, 0);
    bytes.extend(ipv4(0x0a00_0001 + i % 4096, 0x0a01_0001, 64, 6, &tcp));
    bytes
}

/// The frame in its tunnel, in outer headers of this TTL.
fn wrapped(macs: [[u8; 6]; 2], ips: [u32; 2], source: u16, vni: u32, frame: &[u8]) -> Vec<u8> {
    let mut udp = Vec::new();
    for word in [source, 4789, (frame.len() + 16) as u16, 0, 0x0800, 0] {
        udp.extend(word.to_be_bytes());
    }
    udp.extend((vni << 8).to_be_bytes());
    udp.extend(frame);
    let mut ip = ipv4(ips[0], ips[1], 64, 17, &udp);
    // Not to be fragmented; the checksum changes by as much.
    ip[6] = 0x40;
    ip[10..12].fill(0);
    let sum = super::plain::checksum(&ip[..20]);
    ip[10..12].copy_from_slice(&sum);
    [&macs.concat()[..], &[8, 0], &ip].concat()
}

impl Vxlan {
    fn is_encap(&self, i: u32) -> bool {
        match self {
            Vxlan::Encap => true,
            Vxlan::Decap => false,
            Vxlan::Gateway => i.is_multiple_of(2),
        }
    }
}

impl Function for Vxlan {
    fn name(&self) -> &'static str {
        match self {
            Vxlan::Encap => "vxlan-encap",
            Vxlan::Decap => "vxlan-decap",
            Vxlan::Gateway => "vxlan-gateway",
        }
    }
    fn about(&self) -> &'static str {
        match self {
            Vxlan::Encap => "VXLAN gateway, VLANs to tunnels",
            Vxlan::Decap => "VXLAN gateway, tunnels to VLANs",
            Vxlan::Gateway => "VXLAN gateway, both directions loaded alike",
        }
    }
    fn paper_entries(&self) -> u32 {
        16_384
    }
    fn most_entries(&self) -> u32 {
        1 << 20
    }
    fn least_frame(&self) -> usize {
        match self {
            Vxlan::Encap => 60,
            // A least frame in its tunnel.
            Vxlan::Decap | Vxlan::Gateway => 50 + 60,
        }
    }
    fn job(&self, entries: u32) -> Result<Job> {
        let mut rules = String::new();
        if self.is_encap(0) {
            for e in 0..entries {
                let (src, dst) = (LOCAL.to_be_bytes(), remote(e).to_be_bytes());
                let ip = |b: [u8; 4]| b.map(|b| b.to_string()).join(".");
                writeln!(
                    rules,
                    "in_port={VLANS},dl_vlan={},dl_dst={},actions=pop_vlan,encap_vxlan(vni={},src={},\
                     dst={},eth_src={},eth_dst={}),output:{UNDERLAY}",
                    vlan(e),
                    text(far(e)),
                    vni(e),
                    ip(src),
                    ip(dst),
                    text(US),
                    text(next_hop(e)),
                )?;
            }
        }
        if !self.is_encap(1) {
            writeln!(
                rules,
                "in_port={UNDERLAY},dl_dst={},udp,nw_dst={},tp_dst=4789,actions=decap_vxlan,goto_table:1",
                text(US),
                std::net::Ipv4Addr::from_bits(LOCAL),
            )?;
            for e in 0..entries {
                writeln!(
                    rules,
                    "table=1,tun_id={},dl_dst={},actions=push_vlan:0x8100,set_field:{}->vlan_vid,\
                     output:{VLANS}",
                    vni(e),
                    text(near(e)),
                    0x1000 | vlan(e),
                )?;
            }
        }
        Job::rules(&rules, &[VLANS, UNDERLAY])
    }
    fn frame(&self, _: u32, i: u32, entry: u32, len: usize) -> At {
        let e = entry;
        if self.is_encap(i) {
            let mut bytes = inner(far(e), near(e), i, len - 4);
            let [hi, lo] = vlan(e).to_be_bytes();
            bytes.splice(12..12, [0x81, 0, hi, lo]);
            return At { port: VLANS, bytes };
        }
        let frame = inner(near(e), far(e), i, len - 50);
        let (macs, ips) = ([US, next_hop(e)], [remote(e), LOCAL]);
        At { port: UNDERLAY, bytes: wrapped(macs, ips, 0xc123, vni(e), &frame) }
    }
    fn oracle(&self, entries: u32) -> Oracle {
        Box::new(move |_, input| {
            let b = &input.bytes;
            if input.port == UNDERLAY {
                let (id, frame) = (&b[46..49], &b[50..]);
                let of =
                    |e: &u32| vni(*e).to_be_bytes()[1..] == *id && frame.starts_with(&near(*e));
                let Some(e) = (0..entries).find(of) else { return Vec::new() };
                let [hi, lo] = vlan(e).to_be_bytes();
                let mut bytes = frame.to_vec();
                bytes.splice(12..12, [0x81, 0, hi, lo]);
                return vec![At { port: VLANS, bytes }];
            }
            let of = |e: &u32| vlan(*e).to_be_bytes() == b[14..16] && b.starts_with(&far(*e));
            let Some(e) = (0..entries).find(of) else { return Vec::new() };
            let frame = [&b[..12], &b[16..]].concat();
            // Which number tells a flow, RFC 7348 §5 leaves open; the data plane's own is asked for.
            let mut key = FlowKey::default();
            if extract(&frame, VLANS, &mut key).is_err() {
                return Vec::new();
            }
            let source = 0xc000 | flow_hash(&key) as u16;
            let (macs, ips) = ([next_hop(e), US], [LOCAL, remote(e)]);
            vec![At { port: UNDERLAY, bytes: wrapped(macs, ips, source, vni(e), &frame) }]
        })
    }
}
