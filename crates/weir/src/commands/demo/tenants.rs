//! The capture's hosts and the four VDPs that carry their traffic.
//!
//! Who talks in the capture stands in `testdata/README.md`. Each host has a port of its own, found
//! by its source MAC; each tenant has a VDP, each found in another way.

use super::report::CaptureFacts;
use anyhow::{Context, Result};
use weir_dataplane::flowtext::{NoNames, parse_flow, parse_match};
use weir_dataplane::programs::by_name;
use weir_dataplane::{
    Action, Config, DataPlane, MappingRule, Path, Placement, PortNo, RuleSpec, VdpSpec, Vid,
};
use weir_io::capture_file::Reader;
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_io::replay::Arena;
use weir_packet::{Nanos, PortId};

/// Real programs talking, recorded by `testdata/record.sh`.
const CAPTURE: &[u8] = include_bytes!("../../../../../testdata/real.pcap");

/// A host: its name and its MAC's last two bytes; the first four are 02:00:00:00.
struct Host {
    name: &'static str,
    mac: [u8; 2],
}

const fn host(name: &'static str, mac: [u8; 2]) -> Host {
    Host { name, mac }
}

/// The hosts, in the order of their ports: port 1 is a1's.
const HOSTS: [Host; 11] = [
    host("a1", [1, 1]),
    host("a2", [1, 2]),
    host("b1", [2, 1]),
    host("b2", [2, 2]),
    host("b3", [2, 3]),
    host("b4", [2, 4]),
    host("c1", [3, 1]),
    host("c2", [3, 2]),
    host("d1", [4, 1]),
    host("d2", [4, 2]),
    host("dr", [4, 0xfe]),
];

/// The port of the host that stands for the kernel's router.
pub const ROUTER: PortId = PortId(11);
/// The VDP that routes in its place.
pub const ROUTING: Vid = Vid(4);

/// One of the four VDPs.
pub struct Tenant {
    /// Its id.
    pub vid: Vid,
    /// Its name.
    pub name: &'static str,
    /// How its frames are told from others'.
    pub mapped_by: &'static str,
    /// Its mapping rules, in the data plane's port numbers.
    pub mapping: &'static [&'static str],
    /// Its ports, as the data plane numbers them; its own numbers are 1, 2, 3, …
    pub ports: &'static [u16],
    /// Its rules, in its own port numbers.
    pub rules: &'static [&'static str],
    /// Its slow-path program; what no rule takes goes there, or is dropped where there is none.
    pub program: Option<&'static str>,
}

/// The tenants.
pub const TENANTS: [Tenant; 4] = [
    Tenant {
        vid: Vid(1),
        name: "web",
        mapped_by: "port",
        mapping: &["in_port=1", "in_port=2"],
        ports: &[1, 2],
        rules: &[
            // A wire between two hosts, less the reports that nobody listens to.
            "priority=200,icmp6,icmp_type=143,actions=drop",
            "priority=100,in_port=1,actions=output:2",
            "priority=100,in_port=2,actions=output:1",
        ],
        program: None,
    },
    Tenant {
        vid: Vid(2),
        name: "office",
        mapped_by: "VLAN",
        mapping: &["dl_vlan=20", "dl_vlan=200"],
        ports: &[3, 4, 5, 6],
        rules: &[
            // Two known stations by rule; the rest, QinQ too, by the learning switch.
            "dl_vlan=20,dl_dst=02:00:00:00:02:01,actions=output:1",
            "dl_vlan=20,dl_dst=02:00:00:00:02:02,actions=output:2",
        ],
        program: Some("learning"),
    },
    Tenant {
        vid: Vid(3),
        name: "lab",
        mapped_by: "MAC",
        mapping: &["dl_src=02:00:00:00:03:01", "dl_src=02:00:00:00:03:02"],
        ports: &[7, 8],
        rules: &[
            // UDP is marked (DSCP EF), TCP and the rest pass, groups go to all.
            "priority=200,udp,dl_dst=02:00:00:00:03:02,actions=mod_nw_tos:184,output:2",
            "priority=200,udp,dl_dst=02:00:00:00:03:01,actions=mod_nw_tos:184,output:1",
            "priority=100,dl_dst=02:00:00:00:03:02,actions=output:2",
            "priority=100,dl_dst=02:00:00:00:03:01,actions=output:1",
            "priority=50,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=flood",
        ],
        program: None,
    },
    Tenant {
        vid: ROUTING,
        name: "branches",
        mapped_by: "IP prefix",
        mapping: &[
            "ip,nw_src=10.4.0.0/16",
            "ip,nw_dst=10.4.0.0/16",
            "ipv6,ipv6_src=fd00:4::/32",
            "ipv6,ipv6_dst=fd00:4::/32",
        ],
        ports: &[9, 10, 11],
        rules: &[
            // A router in the place of the kernel's, whose own frames are left out and compared.
            "priority=400,in_port=3,actions=drop",
            "priority=300,ip,nw_dst=10.4.0.1,actions=output:3",
            "priority=300,ip,nw_dst=10.4.1.1,actions=output:3",
            "priority=300,ipv6,ipv6_dst=fd00:4::1,actions=output:3",
            "priority=300,ipv6,ipv6_dst=fd00:4:1::1,actions=output:3",
            "priority=200,ip,nw_dst=10.4.0.0/24,actions=dec_ttl,\
             mod_dl_src:02:00:00:00:04:fe,mod_dl_dst:02:00:00:00:04:01,output:1",
            "priority=200,ip,nw_dst=10.4.1.0/24,actions=dec_ttl,\
             mod_dl_src:02:00:00:00:04:fe,mod_dl_dst:02:00:00:00:04:02,output:2",
            "priority=200,ipv6,ipv6_dst=fd00:4:0::/64,actions=dec_ttl,\
             mod_dl_src:02:00:00:00:04:fe,mod_dl_dst:02:00:00:00:04:01,output:1",
            "priority=200,ipv6,ipv6_dst=fd00:4:1::/64,actions=dec_ttl,\
             mod_dl_src:02:00:00:00:04:fe,mod_dl_dst:02:00:00:00:04:02,output:2",
        ],
        program: None,
    },
];

/// The capture, and which port each frame comes in by.
pub struct Capture {
    frames: Arena,
}

/// A frame of the capture.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// When it was seen.
    pub at: Nanos,
    /// The port of the host that sent it.
    pub port: PortId,
}

impl Capture {
    /// Reads what is built in.
    pub fn load() -> Result<Self> {
        let mut raw = Arena::new();
        raw.read(&mut Reader::new(CAPTURE)?)?;
        let mut frames = Arena::new();
        for f in raw.iter() {
            let mac = f.bytes.get(6..12).unwrap_or_default();
            let at = HOSTS.iter().position(|h| mac == [2, 0, 0, 0, h.mac[0], h.mac[1]]);
            let port = at.with_context(|| format!("frame {}: no host has its MAC", f.index + 1))?;
            frames.push(f.bytes, f.stamp, u16::try_from(port + 1)?);
        }
        Ok(Self { frames })
    }
    /// Its frames, in order.
    pub fn iter(&self) -> impl Iterator<Item = Input<'_>> {
        self.frames.iter().map(|f| Input {
            bytes: f.bytes,
            at: f.stamp.unwrap_or_default(),
            port: PortId(f.port),
        })
    }
    /// What it is.
    pub fn facts(&self) -> CaptureFacts {
        CaptureFacts {
            frames: self.frames.len(),
            bytes: self.frames.iter().map(|f| f.bytes.len()).sum(),
            ports: HOSTS.len(),
            seconds: self
                .iter()
                .last()
                .zip(self.iter().next())
                .map_or(0.0, |(last, first)| last.at.since(first.at).0 as f64 / 1e9),
        }
    }
}

/// The name of a port.
pub fn port_name(port: PortId) -> &'static str {
    let i = usize::from(port.0).wrapping_sub(1);
    HOSTS.get(i).map_or("?", |h| h.name)
}

/// A data plane with the four VDPs on `path`, and the far ends of its ports, a1's first.
pub fn data_plane(path: Path) -> Result<(DataPlane, Vec<MemoryPeer>)> {
    let mut plane = DataPlane::new(Config::default())?;
    let mut peers = Vec::with_capacity(HOSTS.len());
    for h in &HOSTS {
        let (port, peer) = Memory::with_peer(h.name, WireSize { slots: 64, max_frame_bytes: 1600 });
        plane.add_port(h.name, Box::new(port))?;
        peers.push(peer);
    }
    for t in &TENANTS {
        create(&mut plane, t, path).with_context(|| format!("VDP {} ({})", t.vid, t.name))?;
    }
    Ok((plane, peers))
}

fn create(plane: &mut DataPlane, t: &Tenant, path: Path) -> Result<()> {
    let mut spec = VdpSpec::new(t.vid, t.name);
    spec.path = path;
    spec.ports = t.ports.iter().zip(1..).map(|(id, no)| (PortNo(no), PortId(*id))).collect();
    for m in t.mapping {
        spec.mapping.push(MappingRule { matcher: parse_match(m, &NoNames)?, priority: 100 });
    }
    match t.program {
        Some(name) => spec.program = Some(by_name(name)?),
        None => spec.default = vec![Action::Drop],
    }
    plane.create_vdp(spec)?;
    for line in t.rules {
        let r = parse_flow(line, &NoNames)?;
        let rule = RuleSpec {
            matcher: r.matcher,
            priority: r.priority.into(),
            cookie: r.cookie,
            actions: r.actions.into(),
        };
        plane.add_rule(t.vid, r.table, &rule, Placement::Fast)?;
    }
    Ok(())
}
