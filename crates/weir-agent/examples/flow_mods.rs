//! What a flow_mod costs from its bytes to the rule, without sockets: a connection's channel, the
//! switch and its data plane on one thread.
//!
//! `flow_mods RULES [REPEATS] [keep]`: inserts so many exact rules on destination MACs, encoded
//! before, up to the barrier's reply, then deletes all by one flow_mod, unless they are to be kept.
//! Prints nanoseconds a flow_mod, and bytes a rule by which resident memory grew at its highest.
//! Under `valgrind --tool=callgrind` with two counts of rules the difference is what a rule costs.

use std::time::{Duration, Instant};
use weir_agent::{Config, ConnId, Outbox, Purpose, Switch};
use weir_classify::Match as Keys;
use weir_dataplane::{Config as Sizes, DataPlane, MappingRule, PortNo, VdpSpec, Vid};
use weir_io::memory::{Memory, WireSize};
use weir_openflow::channel::{self, Channel, Event, Side};
use weir_openflow::codec;
use weir_openflow::model::{
    Action, Field, FlowCommand, FlowFlags, FlowMod, GROUP_ANY, Instruction, Match, Message, Msg,
    NO_BUFFER, Port, PortConfig, PortDesc, PortFeatures, PortState, TABLE_ALL, Version,
};
use weir_packet::Nanos;

const VID: Vid = Vid(1);
const CONN: ConnId = ConnId(1);
/// Bytes that are received at once.
const READ: usize = 64 * 1024;

fn port() -> PortDesc {
    PortDesc {
        no: Port(1),
        mac: [2, 0, 0, 0, 1, 1],
        name: "p1".to_owned(),
        config: PortConfig::default(),
        state: PortState::LIVE,
        current: PortFeatures::default(),
        advertised: PortFeatures::default(),
        supported: PortFeatures::default(),
        peer: PortFeatures::default(),
        current_kbps: 0,
        max_kbps: 0,
    }
}

fn blank(table: u8, command: FlowCommand) -> FlowMod {
    FlowMod {
        cookie: 0,
        cookie_mask: 0,
        table,
        command,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 1000,
        buffer_id: NO_BUFFER,
        out_port: Port::ANY,
        out_group: GROUP_ANY,
        flags: FlowFlags::default(),
        matcher: Match::default(),
        instructions: Vec::new(),
    }
}

/// The same as `weir bench openflow` sends.
fn exact(n: u32) -> Message {
    let to = Action::Output { port: Port(1), max_len: 0 };
    Message::FlowMod(FlowMod {
        cookie: n.into(),
        matcher: Match::default().with(Field::EthDst, 0x0200_0000_0000 | u128::from(n)),
        instructions: vec![Instruction::Apply(vec![to])],
        ..blank(0, FlowCommand::Add)
    })
}

struct Rig {
    plane: DataPlane,
    switch: Switch,
    channel: Channel,
    out: Outbox,
}

impl Rig {
    fn new(rules: u32) -> Self {
        // Entries in whole slices, with some to spare.
        let entries = (rules + 1024).next_power_of_two().max(4096);
        let mut sizes = Sizes::default();
        sizes.tcam.action_entries = entries;
        let mut plane = DataPlane::new(sizes).expect("sizes");
        let (memory, _peer) = Memory::with_peer("p1", WireSize::default());
        let id = plane.add_port("p1", Box::new(memory)).expect("a port");
        let mut spec = VdpSpec::new(VID, "vdp");
        spec.ports.push((PortNo(1), id));
        spec.action_entries = entries as usize;
        spec.mapping = vec![MappingRule { matcher: Keys::any(), priority: 1 }];
        plane.create_vdp(spec).expect("a VDP");
        let mut config = Config::new(VID, 1);
        config.ports = vec![port()];
        config.limits.flows = u32::MAX;
        let mut out = Outbox::default();
        let mut switch = Switch::new(config, Nanos(0));
        switch.tick(Nanos(0), &mut plane, &mut out).expect("the plane");
        let channel = Channel::new(channel::Config::new(Side::Switch), Duration::ZERO);
        Self { plane, switch, channel, out }
    }

    /// Takes bytes as a connection's task does; errors that it answered.
    fn take(&mut self, mut bytes: &[u8]) -> usize {
        let (now, mut errors) = (Nanos(1), 0);
        while !bytes.is_empty() {
            let chunk = &bytes[..bytes.len().min(READ)];
            let n = self.channel.receive(chunk, Duration::ZERO);
            bytes = &bytes[n..];
            while let Some(e) = self.channel.next_event(Duration::ZERO) {
                let Self { plane, switch, out, .. } = self;
                match e {
                    Event::Up(v) => switch.connected(CONN, v, Purpose::Controller, now, plane, out),
                    Event::Message(r) => {
                        switch.handle(CONN, r.msg, r.head.as_bytes(), now, plane, out)
                    }
                    Event::Closed(why) => panic!("{why}"),
                    Event::Misread(e) => panic!("{e}"),
                }
                .expect("the plane");
            }
            self.switch.settle(now, &mut self.plane, &mut self.out).expect("the plane");
            let of = |m: &Message| usize::from(matches!(m, Message::Error(_)));
            errors += self.out.take().iter().map(|s| of(&s.msg.body)).sum::<usize>();
            self.channel.advance(self.channel.outgoing().len());
        }
        errors
    }
}

fn encode(body: Message, out: &mut Vec<u8>) {
    codec::encode(Version::V13, &Msg { xid: 1, body }, out).expect("it has a form");
}

/// The most memory that was resident, in bytes.
fn highest() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or(0) * 1024
}

fn main() {
    weir_io::give_large_blocks_back();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, d: u32| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(d);
    let (rules, repeats) = (number(0, 100_000), number(1, 1));
    let keep = args.iter().any(|a| a == "keep");
    let mut adds = Vec::new();
    encode(Message::Hello { version: Version::V13 as u8, bitmap: vec![1 << 4] }, &mut adds);
    let hello = adds.len();
    (0..rules).for_each(|n| encode(exact(n), &mut adds));
    encode(Message::BarrierRequest, &mut adds);
    let mut delete = Vec::new();
    encode(Message::FlowMod(blank(TABLE_ALL, FlowCommand::Delete)), &mut delete);
    encode(Message::BarrierRequest, &mut delete);
    let mut rig = Rig::new(rules);
    rig.take(&adds[..hello]);
    let before = highest();
    for _ in 0..repeats {
        let start = Instant::now();
        let errors = rig.take(&adds[hello..]);
        let took = start.elapsed();
        println!(
            "{rules} rules: {:.0} ns a flow_mod, {} flows, {errors} errors",
            took.as_nanos() as f64 / f64::from(rules),
            rig.switch.flow_count()
        );
        if !keep {
            let start = Instant::now();
            rig.take(&delete);
            let left = rig.switch.flow_count();
            println!("deleted in {:.1} ms, {left} left", start.elapsed().as_secs_f64() * 1e3);
        }
    }
    println!("{} bytes a rule", (highest() - before) / rules.max(1) as usize);
}
