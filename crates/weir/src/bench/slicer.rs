//! `weir bench slicer`: what the slicer itself takes, from memory: an entry into a large flow space, and a flow_mod
//! and a packet_in through it.
//!
//! Room: `weir_supervisor`'s slicer without sockets. Times are this thread's, one call each.

use crate::commands::say::say;
use crate::environment::Envelope;
use crate::fault::bad_input;
use anyhow::{Result, anyhow};
use serde::Serialize;
use std::time::{Duration, Instant};
use weir_openflow::model::{
    Action, Capabilities, Features, Field, FlowCommand, FlowMod, Instruction, Match, Message, Msg,
    NO_BUFFER, PacketIn, PacketInReason, Part, Port, PortConfig, PortDesc, PortFeatures, PortState,
    StatsReply, StatsRequest, Version,
};
use weir_supervisor::slicer::space::{Entry, FlowSpace, Right, SliceId};
use weir_supervisor::slicer::{ConnId, Limits, Loss, Out, PortRef, SlicePlan, SpaceRule, Switch};

/// Arguments of `weir bench slicer`.
#[derive(Debug, clap::Args)]
#[command(about = "The slicer's core: the flow space's index, flow_mods and packet_ins through it")]
pub struct Args {
    /// Entries of the flow space into which more are inserted
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    entries: u32,
    /// Rules of the flow space through which messages pass
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    rules: u32,
    /// Messages of each kind, and entries that are inserted
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    messages: u32,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Slices that share the flow space.
const SLICES: u16 = 100;

/// Microseconds.
#[derive(Debug, Serialize)]
struct Figures {
    what: &'static str,
    present: u32,
    median_us: f64,
    p99_us: f64,
    longest_us: f64,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    if args.messages == 0 || args.rules < u32::from(SLICES) || args.entries > 1 << 23 {
        let text = "--messages at least 1, --rules at least 100, --entries at most 8388608";
        return Err(bad_input(text));
    }
    let mut figures = vec![insertion(args)?];
    figures.extend(messages(args)?);
    if args.json {
        return say(serde_json::to_string(&Envelope::new("bench-slicer", &figures))?);
    }
    for f in figures {
        say(format_args!(
            "{:<12} {:>9} present   median {:>8.2} us   p99 {:>8.2} us   longest {:>9.2} us",
            f.what, f.present, f.median_us, f.p99_us, f.longest_us
        ))?;
    }
    Ok(())
}

/// Four shapes in turn, so that each entry must be held against the others' kinds.
fn header(i: u32) -> Match {
    let n = u128::from(i);
    let m = Match::default().with(Field::VlanVid, 0x1000 | (n % 4000));
    match i % 4 {
        0 => m.with(Field::EthDst, n),
        1 => m.with(Field::EthSrc, n),
        2 => m.with(Field::EthType, 0x800).with(Field::Ipv4Dst, n),
        _ => m.with(Field::EthType, 0x800).with_masked(Field::Ipv4Src, n << 8, 0xffff_ff00),
    }
}

fn insertion(args: &Args) -> Result<Figures> {
    let mut space = FlowSpace::new();
    let entry = |i: u32| Entry {
        // Those of one shape don't overlap; of several, the priority decides.
        priority: i % 4,
        matcher: header(i),
        grants: vec![(SliceId((i % u32::from(SLICES)) as u16), Right::Write)],
    };
    for i in 0..args.entries {
        space.insert(entry(i))?;
    }
    let more = args.entries..args.entries.saturating_add(args.messages);
    let mut took = Vec::with_capacity(args.messages as usize);
    for new in more.map(entry) {
        let start = Instant::now();
        let done = space.insert(new);
        took.push(start.elapsed());
        done?;
    }
    Ok(summary("insert", args.entries, took))
}

fn messages(args: &Args) -> Result<[Figures; 2]> {
    let mut switch = sliced(args.rules)?;
    let mut out = Out::default();
    for i in 0..SLICES {
        switch.connected(ConnId(u64::from(i) + 1), SliceId(i), &mut out);
    }
    let (mut mods, mut packets) = (Vec::new(), Vec::new());
    for i in 0..args.messages {
        let rule = i % args.rules;
        let slice = rule % u32::from(SLICES);
        let matcher = mac(rule).with(Field::EthSrc, u128::from(i));
        let actions = vec![Action::Output { port: Port(2), max_len: 0 }];
        let m = FlowMod {
            matcher,
            priority: 1,
            instructions: vec![Instruction::Apply(actions)],
            ..FlowMod::new(FlowCommand::Add)
        };
        let msg = Msg { xid: i, body: Message::FlowMod(m) };
        let conn = ConnId(u64::from(slice) + 1);
        let start = Instant::now();
        switch.from_controller(conn, msg, &[0; 64], Duration::ZERO, &mut out);
        mods.push(start.elapsed());
        switch.settle(&mut out);
        settle(&mut switch, &mut out);
        let msg = packet(rule);
        let start = Instant::now();
        switch.from_switch(msg, Duration::ZERO, &mut out);
        packets.push(start.elapsed());
        if out.to_controllers.len() != 1 {
            return Err(anyhow!("a packet_in came to {} controllers", out.to_controllers.len()));
        }
        out.to_controllers.clear();
    }
    let n = args.rules;
    Ok([summary("flow_mod", n, mods), summary("packet_in", n, packets)])
}

fn mac(rule: u32) -> Match {
    Match::default().with(Field::EthDst, 0x0200_0000_0000 | u128::from(rule))
}

fn packet(rule: u32) -> Msg {
    let mut data = vec![0; 64];
    let dst = (0x0200_0000_0000 | u64::from(rule)).to_be_bytes();
    data[..6].copy_from_slice(&dst[2..]);
    data[12..14].copy_from_slice(&[0x88, 0xb5]);
    let body = Message::PacketIn(PacketIn {
        buffer_id: NO_BUFFER,
        total_len: 64,
        reason: PacketInReason::NoMatch,
        table: 0,
        cookie: u64::MAX,
        matcher: Match::default().with(Field::InPort, 1),
        data,
    });
    Msg { xid: 0, body }
}

/// A switch of two ports whose flow space has so many rules, dealt out to the slices in turn.
fn sliced(rules: u32) -> Result<Switch> {
    let limits = Limits { rules: 1 << 24, ..Limits::default() };
    let (queues, loss) = (Default::default(), Loss::Keep);
    let slice = SlicePlan { name: "slice".to_owned(), queues, limits, loss };
    let rule = |i: u32| SpaceRule {
        priority: 1,
        ports: Vec::<PortRef>::new(),
        matchers: vec![mac(i)],
        grants: vec![(SliceId((i % u32::from(SLICES)) as u16), Right::Write)],
        by: None,
        datapath: None,
    };
    let slices = vec![slice; usize::from(SLICES)];
    let mut switch = Switch::new(Version::V13, slices, (0..rules).map(rule).collect());
    let mut out = Out::default();
    switch.begin(&mut out);
    settle(&mut switch, &mut out);
    match switch.is_ready() {
        true => Ok(switch),
        false => Err(anyhow!("the sliced switch has not come up: {:?}", out.told)),
    }
}

/// The switch's part: it says who it is, and that it has done what it was told.
fn settle(switch: &mut Switch, out: &mut Out) {
    for m in std::mem::take(&mut out.to_switch) {
        let body = match m.body {
            Message::BarrierRequest => Message::BarrierReply,
            Message::FeaturesRequest => Message::FeaturesReply(Features {
                datapath_id: 1,
                buffers: 0,
                tables: 254,
                auxiliary_id: 0,
                capabilities: Capabilities::default(),
                actions: 0,
                ports: Vec::new(),
            }),
            Message::StatsRequest { body: StatsRequest::PortDesc, .. } => Message::StatsReply {
                more: Part::Last,
                body: StatsReply::PortDesc((1..=2).map(port).collect()),
            },
            _ => continue,
        };
        switch.from_switch(Msg { xid: m.xid, body }, Duration::ZERO, out);
    }
}

fn port(no: u32) -> PortDesc {
    PortDesc {
        no: Port(no),
        mac: [2, 0, 0, 0, 0, 1],
        name: format!("p{no}"),
        config: PortConfig::default(),
        state: PortState::default(),
        current: PortFeatures::default(),
        advertised: PortFeatures::default(),
        supported: PortFeatures::default(),
        peer: PortFeatures::default(),
        current_kbps: 0,
        max_kbps: 0,
    }
}

fn summary(what: &'static str, present: u32, mut took: Vec<Duration>) -> Figures {
    took.sort_unstable();
    let at = |permille: usize| {
        let last = took.len().saturating_sub(1);
        took.get(last * permille / 1000).map_or(0.0, |d| d.as_secs_f64() * 1e6)
    };
    Figures { what, present, median_us: at(500), p99_us: at(990), longest_us: at(1000) }
}
