//! Network functions of the data plane: what each is set up by, which frames it gets, and what must
//! become of them.
//!
//! Room: one file a function, one line of [`ALL`] each. A function's file knows its rules (or its slow-path
//! program, which lives in `weir-dataplane`), its frames and its oracle; nothing of benches, profiles
//! or estimates. Called by `weir bench functions`, by the studies `nf-…` and by the demo.
//!
//! A new function is a file here that implements [`Function`], a line in [`ALL`], and a model of its
//! name in `models/`. `tests` below puts each function's frames through a data plane one by one and
//! holds what leaves against its oracle, byte for byte; `weir bench functions` then measures it.
//!
//! - Entries are numbered from 0; `frame` makes the frame that belongs to one. What an entry is, is the
//!   function's matter: a MAC address, a label, a subscriber, a session.
//! - Frames are Ethernet frames without their FCS: a frame of 64 bytes on the wire has 60 here.
//! - What the pass through weir's VDP adds to a function follows from its [`Job`] alone (rules or a
//!   program, how many tables): a function says nothing of it, and its model in `models/` holds what the
//!   function does, not what weir does around it.
//! - The oracle says, slowly and plainly, by itself: it must share no code with what it judges but
//!   header formats. It sees frames in the order in which they come, [`Function::warm`]'s first.

mod acl;
mod bng;
pub mod chain;
mod firewall;
mod l2_basic;
mod l2_learning;
mod load_balancer;
mod mpls_switch;
mod nat44;
mod plain;
mod played;
mod policer;
mod router;
mod setup;
mod vxlan;
mod way;

mod headers;
pub use headers::Stack;
pub use played::{Frames, arena, playing};
pub use setup::{Place, function, plane, room};
pub use way::Way;

use anyhow::Result;
use weir_dataplane::flowtext::{FlowSpec, NoNames, parse_flows};
use weir_dataplane::{Action, Meter, Program};
use weir_packet::Nanos;

/// Every function, in the order in which they are told of.
pub const ALL: &[&dyn Function] = &[
    &l2_basic::L2Basic,
    &l2_learning::L2Learning,
    &mpls_switch::MplsSwitch,
    &acl::Acl,
    &policer::Policer,
    &nat44::Nat44,
    &firewall::Firewall,
    &load_balancer::LoadBalancer,
    &bng::Bng::Access,
    &bng::Bng::AccessPlain,
    &bng::Bng::Core,
    &bng::Bng::Plain,
    &router::Router::V4,
    &router::Router::V6,
    &vxlan::Vxlan::Encap,
    &vxlan::Vxlan::Decap,
    &vxlan::Vxlan::Gateway,
];

/// A frame at a port: one that comes in by it, or one that leaves by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// The VDP's number of the port.
    pub port: u32,
    /// The frame, Ethernet's header first, no FCS.
    pub bytes: Vec<u8>,
}

/// What must leave when this frame comes at this time; nothing for one that is dropped.
pub type Oracle = Box<dyn FnMut(Nanos, &At) -> Vec<At>>;

/// How a VDP is made the function.
pub struct Job {
    /// Its rules.
    pub rules: Vec<FlowSpec>,
    /// Its meters.
    pub meters: Vec<(u32, Meter)>,
    /// What a frame gets that no rule takes, where there is no program.
    pub default: Vec<Action>,
    /// Its slow-path program, tables filled; frames that no rule takes go there.
    pub program: Option<Box<dyn Program>>,
    /// Its ports.
    pub ports: Vec<u32>,
}

impl Job {
    /// Nothing but ports: every frame is dropped.
    pub fn empty(ports: &[u32]) -> Self {
        let default = vec![Action::Drop];
        let ports = ports.to_vec();
        Self { rules: Vec::new(), meters: Vec::new(), default, program: None, ports }
    }
    /// Rules in Open vSwitch's flow syntax, a line each; what no rule takes is dropped.
    ///
    /// # Errors
    /// A line that is no flow.
    pub fn rules(text: &str, ports: &[u32]) -> Result<Self> {
        Ok(Self { rules: parse_flows(text, &NoNames)?, ..Self::empty(ports) })
    }
    /// A slow-path program that gets every frame.
    pub fn program(program: impl Program + 'static, ports: &[u32]) -> Self {
        Self { program: Some(Box::new(program)), ..Self::empty(ports) }
    }
}

/// A network function.
#[allow(dead_code, reason = "tests and studies ask for more than the benchmark does")]
pub trait Function: Sync {
    /// Its name, which is its model's.
    fn name(&self) -> &'static str;
    /// What it does, in a line.
    fn about(&self) -> &'static str;
    /// Entries that the paper names, or that are usual.
    fn paper_entries(&self) -> u32;
    /// Most entries that its frames can name.
    fn most_entries(&self) -> u32;
    /// Entries to measure with, smallest first.
    fn measured_entries(&self) -> &'static [u32] {
        &[1024, 16_384, 131_072]
    }
    /// The shortest frame that it can be asked about, in bytes without FCS.
    fn least_frame(&self) -> usize {
        60
    }
    /// How a VDP is made it, with so many entries.
    ///
    /// # Errors
    /// It can't be, with so many.
    fn job(&self, entries: u32) -> Result<Job>;
    /// A frame that must come first, so that tables are as they are in use: number `i`, until there
    /// is none.
    fn warm(&self, _entries: u32, _i: u32) -> Option<At> {
        None
    }
    /// The `i`th frame that is played, for entry `entry`, of `len` bytes. It may depend on `i` (a
    /// direction, a session's port), but what it costs should not, on average.
    fn frame(&self, entries: u32, i: u32, entry: u32, len: usize) -> At;
    /// What must become of frames.
    fn oracle(&self, entries: u32) -> Oracle;
    /// The model's parameters that say the same to the estimator.
    fn settings(&self, entries: u32) -> Vec<(String, f64)> {
        vec![("entries".into(), f64::from(entries))]
    }
    /// The same job for Open vSwitch, in its flow syntax, where it can do it.
    fn ovs(&self, _entries: u32) -> Option<String> {
        None
    }
}

/// The function of that name.
pub fn named(name: &str) -> Option<&'static dyn Function> {
    ALL.iter().copied().find(|f| f.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_io::memory::{Memory, MemoryPeer, WireSize};
    use weir_packet::Device;

    /// Entries in tests: few, since rules are added by unoptimised code.
    const ENTRIES: u32 = 48;
    /// Time between two frames, in nanoseconds.
    const GAP: u64 = 10_000;

    struct Bench {
        plane: weir_dataplane::DataPlane,
        peers: Vec<(u32, MemoryPeer)>,
        now: u64,
    }

    impl Bench {
        fn new(f: &dyn Function) -> Self {
            Self::of(f.job(ENTRIES).expect("a job"))
        }
        fn of(job: Job) -> Self {
            let mut peers = Vec::new();
            let plane = plane(job, |no| {
                let size = WireSize { slots: 8, max_frame_bytes: 4096 };
                let (port, peer) = Memory::with_peer(&format!("p{no}"), size);
                peers.push((no, peer));
                Box::new(port) as Box<dyn Device>
            })
            .expect("a data plane");
            Self { plane, peers, now: 0 }
        }
        fn out(&mut self, input: &At) -> Vec<At> {
            let (_, peer) =
                self.peers.iter_mut().find(|p| p.0 == input.port).expect("a port that is there");
            peer.send(&input.bytes).expect("room");
            // There, to the slow path, back.
            for _ in 0..4 {
                self.plane.poll(Nanos(self.now));
            }
            let (mut out, mut bytes) = (Vec::new(), Vec::new());
            for (port, peer) in &mut self.peers {
                while peer.recv(&mut bytes) {
                    // What the router says by itself of its groups (RFC 3810) answers no frame.
                    if !bytes.starts_with(&[0x33, 0x33, 0, 0, 0, 0x16]) {
                        out.push(At { port: *port, bytes: bytes.clone() });
                    }
                }
            }
            out
        }
    }

    /// The first difference, in words.
    fn different(got: &[At], want: &[At]) -> Option<String> {
        if got.len() != want.len() {
            return Some(format!("{} frames left, expected {}", got.len(), want.len()));
        }
        got.iter().zip(want).find_map(|(g, w)| {
            if g.port != w.port {
                return Some(format!("left by port {}, expected {}", g.port, w.port));
            }
            let at = g.bytes.iter().zip(&w.bytes).position(|(a, b)| a != b);
            let at = at.or_else(|| (g.bytes.len() != w.bytes.len()).then_some(usize::MAX))?;
            Some(format!("at byte {at}:\n got {:02x?}\nwant {:02x?}", g.bytes, w.bytes))
        })
    }

    #[test]
    fn every_frame_leaves_as_its_oracle_says() {
        for f in ALL {
            let mut bench = Bench::new(*f);
            let mut oracle = f.oracle(ENTRIES);
            let mut check = |what: String, input: &At| -> usize {
                bench.now += GAP;
                let want = oracle(Nanos(bench.now), input);
                let got = bench.out(input);
                if let Some(why) = different(&got, &want) {
                    panic!("{} {what}: {why}\n  in {:02x?}", f.name(), input.bytes);
                }
                got.len()
            };
            let warm = (0..).map_while(|i| f.warm(ENTRIES, i));
            for (i, input) in warm.enumerate() {
                check(format!("warm frame {i}"), &input);
            }
            let mut left = 0;
            // What gets a gateway's 36 bytes instead of two tags leaves with 1514.
            for (round, len) in [f.least_frame(), 508, 1486].into_iter().enumerate() {
                for k in 0..ENTRIES {
                    let (i, e) = (round as u32 * ENTRIES + k, k * 7 % ENTRIES);
                    let input = f.frame(ENTRIES, i, e, len);
                    assert_eq!(input.bytes.len(), len, "{}: frame's length", f.name());
                    left += check(format!("frame {i}, entry {e}"), &input);
                }
            }
            assert!(left > 0, "{}: nothing ever left", f.name());
            bench.plane.snapshot().check().expect("every frame accounted for");
        }
    }

    /// Open vSwitch's rules are in weir's syntax too, so that the oracle can judge them here.
    #[test]
    fn what_open_vswitch_is_given_does_the_same() {
        let mut judged = Vec::new();
        for f in ALL {
            let Some(text) = f.ovs(ENTRIES).filter(|t| !t.contains("NORMAL")) else { continue };
            let job = Job::rules(&text, &[1, 2]).expect("rules");
            let mut bench = Bench::of(job);
            let mut oracle = f.oracle(ENTRIES);
            for k in 0..ENTRIES {
                let input = f.frame(ENTRIES, k, k * 7 % ENTRIES, f.least_frame() + 40);
                bench.now += GAP;
                let want = oracle(Nanos(bench.now), &input);
                if let Some(why) = different(&bench.out(&input), &want) {
                    panic!("{} frame {k}: {why}", f.name());
                }
            }
            judged.push(f.name());
        }
        assert!(judged.contains(&"ipv6-router") && judged.len() >= 5, "{judged:?}");
    }

    #[test]
    fn each_has_a_model_of_its_name() {
        for f in ALL {
            let path = format!("{}/../../models/{}.toml", env!("CARGO_MANIFEST_DIR"), f.name());
            assert!(std::path::Path::new(&path).exists(), "{path}");
            assert_eq!(ALL.iter().filter(|g| g.name() == f.name()).count(), 1);
            assert!(f.measured_entries().is_sorted());
            assert!(f.measured_entries().iter().all(|n| *n <= f.most_entries()));
            assert!(f.paper_entries() <= f.most_entries(), "{}", f.name());
        }
    }
}
