//! A protocol stack of one's own, in both kinds of virtual node (003 §2.1, §4.1): `protocol` is what a hop
//! does; here it is a VDP's slow-path program, since a flow table can't verify a signature, and a program in
//! a virtual router's namespace.
//!
//! ```text
//! signed_hop plane                                two VDPs in one data plane, honest and forged frames
//! signed_hop hop ME IF=SECRET:NODE[,NODE…] …      a hop between these interfaces, for `run` of a router
//! signed_hop send IF=SECRET ME TO TEXT            one message, every tenth of a second until killed
//! signed_hop receive IF=SECRET ME                 prints the first message that comes, and ends
//! ```

mod protocol;

use anyhow::{Context, Result, anyhow, bail};
use protocol::{Hop, Link, Verdict, message};
use std::io::Write;
use std::time::Duration;
use weir_dataplane::flowtext::{NoNames, parse_match};
use weir_dataplane::{
    Config, DataPlane, MappingRule, PortNo, Program, ProgramCx, SlowFrame, VdpSpec, Vid,
};
use weir_io::af_packet::AfPacket;
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_packet::{Burst, Device, DropReason, Nanos, Pool};

/// A hop as a VDP's slow-path program.
struct Signed {
    hop: Hop,
    passed: u64,
    refused: u64,
}

impl Program for Signed {
    fn name(&self) -> &'static str {
        "signed"
    }
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        let mut frame = rx.frame;
        match self.hop.pass(rx.in_port.0, frame.bytes_mut()) {
            Verdict::Out(port) => {
                self.passed += 1;
                cx.output(frame, PortNo(port));
            }
            Verdict::Mine => cx.consume(frame),
            Verdict::No(_) => {
                self.refused += 1;
                cx.drop(frame, DropReason::Program);
            }
        }
    }
    fn status(&self) -> Vec<(String, String)> {
        vec![
            ("passed".into(), self.passed.to_string()),
            ("refused".into(), self.refused.to_string()),
        ]
    }
}

/// A node with links `(port, secret, nodes there)`.
fn node(me: u16, links: &[(u32, &str, &[u16])]) -> Hop {
    let mut hop = Hop { me, ..Hop::default() };
    for (port, secret, nodes) in links {
        hop.links.insert(*port, Link::new(secret.as_bytes()));
        hop.ways.extend(nodes.iter().map(|n| (*n, *port)));
    }
    hop
}

/// Node 1 — VDP 2 — VDP 3 — node 4, the VDPs on one data plane with a wire between them.
fn plane() -> Result<()> {
    let mut p = DataPlane::new(Config { frames: 512, ..Config::default() })?;
    let size = WireSize { max_frame_bytes: 1514, ..WireSize::default() };
    let (a, mut one) = Memory::with_peer("a", size);
    let (b, c) = Memory::pair(["b", "c"], size);
    let (d, mut four) = Memory::with_peer("d", size);
    let mut ids = Vec::new();
    for (name, device) in [("a", a), ("b", b), ("c", c), ("d", d)] {
        ids.push(p.add_port(name, Box::new(device))?);
    }
    let vdps = [
        (Vid(2), node(2, &[(1, "a-b", &[1]), (2, "b-c", &[3, 4])])),
        (Vid(3), node(3, &[(1, "b-c", &[1, 2]), (2, "c-d", &[4])])),
    ];
    for ((vid, hop), ports) in vdps.into_iter().zip(ids.chunks(2)) {
        let mut spec = VdpSpec::new(vid, "signed");
        spec.program = Some(Box::new(Signed { hop, passed: 0, refused: 0 }));
        for (no, id) in (1..).zip(ports) {
            spec.ports.push((PortNo(no), *id));
            let matcher = parse_match(&format!("in_port={}", id.0), &NoNames)?;
            spec.mapping.push(MappingRule { matcher, priority: 1 });
        }
        p.create_vdp(spec)?;
    }
    let mut sender = node(1, &[(1, "a-b", &[4])]);
    let mut receiver = node(4, &[(1, "c-d", &[1])]);
    let (_, honest) = sender.send(4, b"signed at every hop").context("no way")?;
    let mut forged = honest.clone();
    if let Some(b) = forged.get_mut(30) {
        *b ^= 1;
    }
    for f in [&forged, &honest, &honest] {
        one.send(f).map_err(|e| anyhow!("{e:?}"))?;
    }
    let got = drain(&mut p, &mut four);
    let [frame] = &got[..] else { bail!("{} frames came, of one honest", got.len()) };
    let mut frame = frame.clone();
    if frame == honest {
        bail!("it was not signed anew");
    }
    if receiver.pass(1, &mut frame) != Verdict::Mine {
        bail!("the last hop's signature is not right");
    }
    p.snapshot().check().map_err(|e| anyhow!("{e}"))?;
    let text = message(&frame).map(String::from_utf8_lossy).unwrap_or_default();
    say(&format!("plane: '{text}' came; one forged and one sent again did not"))
}

fn drain(p: &mut DataPlane, peer: &mut MemoryPeer) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    for ms in 1..50 {
        p.poll(Nanos::from_millis(ms));
        let mut frame = Vec::new();
        while peer.recv(&mut frame) {
            got.push(frame.clone());
        }
    }
    got
}

fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// An interface, its secret, and the nodes behind it: `IF=SECRET[:NODE,NODE…]`.
fn link(text: &str) -> Result<(&str, &str, Vec<u16>)> {
    let (name, rest) = text.split_once('=').context("IF=SECRET[:NODE,NODE…]")?;
    let (secret, nodes) = rest.split_once(':').unwrap_or((rest, ""));
    let nodes = nodes.split(',').filter(|n| !n.is_empty());
    Ok((name, secret, nodes.map(str::parse).collect::<Result<_, _>>()?))
}

/// Interfaces with the hop between them.
struct Wires {
    pool: Pool,
    ports: Vec<AfPacket>,
    hop: Hop,
}

impl Wires {
    fn open(me: u16, links: &[(&str, &str, Vec<u16>)]) -> Result<Self> {
        let pool = Pool::new(1024, 2048)?;
        let (mut ports, mut hop) = (Vec::new(), Hop { me, ..Hop::default() });
        for ((name, secret, nodes), no) in links.iter().zip(0..) {
            ports.push(AfPacket::open(name, &pool)?);
            hop.links.insert(no, Link::new(secret.as_bytes()));
            hop.ways.extend(nodes.iter().map(|n| (*n, no)));
        }
        Ok(Self { pool, ports, hop })
    }

    fn send(&mut self, by: u32, bytes: &[u8]) {
        let Some(port) = self.ports.get_mut(by as usize) else { return };
        let Some(mut frame) = self.pool.alloc() else { return };
        let mut burst = Burst::new();
        if frame.copy_from(bytes).is_ok()
            && let Err(frame) = burst.push(frame)
        {
            self.pool.free(frame);
        }
        port.tx(&mut self.pool, &mut burst);
        port.flush(&mut self.pool);
        for frame in burst.drain() {
            self.pool.free(frame);
        }
    }

    /// Passes on what has come; the messages for this node.
    fn round(&mut self) -> Vec<Vec<u8>> {
        let mut mine = Vec::new();
        for i in 0..self.ports.len() {
            let mut burst = Burst::new();
            if let Some(p) = self.ports.get_mut(i) {
                p.rx(&mut self.pool, &mut burst);
            }
            let frames: Vec<_> = burst.drain().collect();
            for frame in frames {
                let mut bytes = frame.bytes().to_vec();
                self.pool.free(frame);
                match self.hop.pass(i as u32, &mut bytes) {
                    Verdict::Out(by) => self.send(by, &bytes),
                    Verdict::Mine => mine.extend(message(&bytes).map(<[u8]>::to_vec)),
                    Verdict::No(_) => {}
                }
            }
        }
        mine
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["plane"] => plane(),
        ["hop", me, ref links @ ..] => {
            let links = links.iter().map(|l| link(l)).collect::<Result<Vec<_>>>()?;
            let mut w = Wires::open(me.parse()?, &links)?;
            loop {
                w.round();
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        ["send", by, me, to, text] => {
            let (name, secret, _) = link(by)?;
            let to = to.parse()?;
            let mut w = Wires::open(me.parse()?, &[(name, secret, vec![to])])?;
            loop {
                if let Some((by, frame)) = w.hop.send(to, text.as_bytes()) {
                    w.send(by, &frame);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        ["receive", by, me] => {
            let (name, secret, nodes) = link(by)?;
            let mut w = Wires::open(me.parse()?, &[(name, secret, nodes)])?;
            loop {
                if let Some(m) = w.round().first() {
                    return say(&format!("received '{}'", String::from_utf8_lossy(m)));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        _ => bail!(
            "signed_hop plane | hop ME IF=SECRET:NODES… | send IF=SECRET ME TO TEXT | receive IF=SECRET ME"
        ),
    }
}
