//! What one network does to the others: each attack's frames and its controllers' deeds.
//!
//! Room: plain data and messages. Frames are made by [`super::wire`], deeds are done by
//! [`super::world`].

use super::control;
use super::frames::{self, Pattern, SMALL};
use super::wire::Source;
use weir_classify::{FastTable, Match as Keys, RuleId};
use weir_openflow::model::{
    Band, BandKind, Bucket, Field, FlowFilter, GROUP_ANY, GroupCommand, GroupKind, GroupMod, Match,
    Message, MeterCommand, MeterFlags, MeterMod, NO_BUFFER, NO_MAX_LEN, PacketOut, Part, Port,
    StatsRequest,
};

/// Rules with masks of their own that the attacker installs.
pub const MASKS: u16 = 512;

/// An attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Full-size frames beyond what the uplink takes.
    Bandwidth,
    /// The smallest frames beyond what the worker takes.
    SmallFrames,
    /// Every frame a flow of its own.
    NewFlows,
    /// The same, through rules that all have masks of their own.
    Masks,
    /// The smallest frames on the slow path, whose channel is shared.
    SlowPath,
    /// Frames that no rule takes, all for the controller.
    PacketIns,
    /// The same, and nothing of the buffers is ever released.
    Buffers,
    /// Packet-outs.
    PacketOuts,
    /// Flow modifications.
    FlowMods,
    /// Requests for all flows.
    Statistics,
    /// Barriers.
    Barriers,
    /// Echo requests.
    Echoes,
    /// More flows than there is room for.
    Tables,
    /// Groups without end.
    Groups,
    /// Meters without end.
    Meters,
    /// Requests under the transaction ids that others use.
    Xids,
    /// A controller that sends what is no message, again and again.
    Malformed,
    /// A controller that asks much and reads nothing.
    SlowReader,
    /// A controller that connects, changes flows and vanishes, again and again.
    CrashLoop,
    /// Connections that never greet.
    HalfOpen,
    /// Its VDP reshaped and moved, and another beside it deleted and made again.
    Reconfigure,
}

/// A share of an attack that is one of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flood {
    bytes: usize,
    per_second: u64,
    pattern: Pattern,
}

impl Attack {
    /// All.
    pub const ALL: [Attack; 21] = [
        Attack::Bandwidth,
        Attack::SmallFrames,
        Attack::NewFlows,
        Attack::Masks,
        Attack::SlowPath,
        Attack::PacketIns,
        Attack::Buffers,
        Attack::PacketOuts,
        Attack::FlowMods,
        Attack::Statistics,
        Attack::Barriers,
        Attack::Echoes,
        Attack::Tables,
        Attack::Groups,
        Attack::Meters,
        Attack::Xids,
        Attack::Malformed,
        Attack::SlowReader,
        Attack::CrashLoop,
        Attack::HalfOpen,
        Attack::Reconfigure,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Attack::Bandwidth => "bandwidth flood",
            Attack::SmallFrames => "small frames",
            Attack::NewFlows => "new flows",
            Attack::Masks => "many masks",
            Attack::SlowPath => "slow path flood",
            Attack::PacketIns => "packet-in flood",
            Attack::Buffers => "buffers kept",
            Attack::PacketOuts => "packet-out flood",
            Attack::FlowMods => "flow-mod flood",
            Attack::Statistics => "statistics flood",
            Attack::Barriers => "barrier flood",
            Attack::Echoes => "echo flood",
            Attack::Tables => "tables filled",
            Attack::Groups => "groups filled",
            Attack::Meters => "meters filled",
            Attack::Xids => "others' xids",
            Attack::Malformed => "malformed messages",
            Attack::SlowReader => "controller that reads nothing",
            Attack::CrashLoop => "controller that crashes",
            Attack::HalfOpen => "half-open connections",
            Attack::Reconfigure => "reconfiguration",
        }
    }

    const fn flood(self) -> Option<Flood> {
        let (bytes, per_second, pattern) = match self {
            Attack::Bandwidth => (1518, 1_600_000, Pattern::Hosts),
            Attack::SmallFrames | Attack::SlowPath => (SMALL, 3_000_000, Pattern::Hosts),
            Attack::NewFlows | Attack::Masks => (SMALL, 1_500_000, Pattern::Flows),
            Attack::PacketIns | Attack::Buffers => (SMALL, 1_500_000, Pattern::Nobody),
            _ => return None,
        };
        Some(Flood { bytes, per_second, pattern })
    }

    /// The frames of the attacking network beyond what it is due.
    pub fn source(self, network: u16) -> Option<Source> {
        let Flood { bytes, per_second, pattern } = self.flood()?;
        Some(Source { network, bytes, per_second, pattern })
    }

    /// The `nth` message that its controller sends as fast as it is let; `None`: none.
    pub fn message(self, network: u16, nth: u64) -> Option<Message> {
        let n = nth as u32;
        Some(match self {
            Attack::FlowMods => control::to_host(network, (nth % u64::from(frames::HOSTS)) as u16),
            Attack::Statistics | Attack::SlowReader => Message::StatsRequest {
                more: Part::Last,
                body: StatsRequest::Flow(FlowFilter::every_flow()),
            },
            Attack::Barriers | Attack::Xids => Message::BarrierRequest,
            Attack::Echoes => Message::EchoRequest(vec![0xee; 1024]),
            Attack::Tables => {
                let matcher =
                    Match::default().with(Field::EthDst, 0x0600_0000_0000 + u128::from(nth));
                control::add(network, 20, matcher, control::onward(network))
            }
            Attack::Groups => Message::GroupMod(GroupMod {
                command: GroupCommand::Add,
                kind: GroupKind::All,
                id: n,
                buckets: vec![Bucket {
                    weight: 0,
                    watch_port: Port::ANY,
                    watch_group: GROUP_ANY,
                    actions: vec![output(2)],
                }],
            }),
            Attack::Meters => Message::MeterMod(MeterMod {
                command: MeterCommand::Add,
                flags: MeterFlags::KBPS,
                id: n + 1,
                bands: vec![Band { rate: 1000, burst: 0, kind: BandKind::Drop }],
            }),
            Attack::PacketOuts => {
                let mut data = Vec::new();
                frames::write(&mut data, network, Pattern::Hosts, nth, 1518, 0);
                // It passes for the attacker's own, as its rules would have marked it.
                data[6..12].copy_from_slice(&frames::mark(network));
                Message::PacketOut(PacketOut {
                    buffer_id: NO_BUFFER,
                    in_port: Port::CONTROLLER,
                    actions: vec![output(2)],
                    data,
                })
            }
            _ => return None,
        })
    }

    /// What is installed before it begins.
    pub fn prepared(self, network: u16) -> Vec<Message> {
        match self {
            Attack::Masks => (0..MASKS).map(|n| masked(network, n)).collect(),
            // To the controller with an end of 128 bytes, so that the rest is buffered.
            Attack::Buffers => {
                let to =
                    weir_openflow::model::Action::Output { port: Port::CONTROLLER, max_len: 128 };
                let to = vec![weir_openflow::model::Instruction::Apply(vec![to])];
                vec![control::add(network, 0, Match::default(), to)]
            }
            _ => Vec::new(),
        }
    }

    /// Hash tables, and rules beside them, that a lookup of the attacker's frames may meet.
    pub fn lookup(self) -> (usize, usize) {
        let mut table = FastTable::new();
        if self == Attack::Masks {
            for n in 0..MASKS {
                let [src, dst] = masks(n);
                let keys = Keys::any()
                    .with(weir_classify::Field::EthType, 0x0800)
                    .with_masked(
                        weir_classify::Field::Ipv4Src,
                        u128::from(src.0),
                        u128::from(src.1),
                    )
                    .with_masked(
                        weir_classify::Field::Ipv4Dst,
                        u128::from(dst.0),
                        u128::from(dst.1),
                    );
                table.insert_new(&keys, 20, RuleId(n.into()));
            }
        }
        (table.tuples(), table.scanned())
    }
}

fn output(port: u32) -> weir_openflow::model::Action {
    weir_openflow::model::Action::Output { port: Port(port), max_len: NO_MAX_LEN }
}

/// Value and mask of both IPv4 addresses, no two alike.
const fn masks(n: u16) -> [(u32, u32); 2] {
    let r = frames::random(n as u64 + 1);
    // The lowest bits of both say which it is, so that none stands for another.
    let src = (r as u32 | 0xff00_0000) & !0x1ff | n as u32;
    let dst = (r >> 32) as u32 | 0xff00_0000;
    [(0x0a00_0000 | (r >> 8) as u32 & 0xffff, src), (0x0a00_0000 | (r >> 24) as u32 & 0xffff, dst)]
}

fn masked(network: u16, n: u16) -> Message {
    let [src, dst] = masks(n);
    let matcher = Match::default()
        .with(Field::EthType, 0x0800)
        .with_masked(Field::Ipv4Src, src.0.into(), src.1.into())
        .with_masked(Field::Ipv4Dst, dst.0.into(), dst.1.into());
    control::add(network, 20, matcher, control::onward(network))
}
