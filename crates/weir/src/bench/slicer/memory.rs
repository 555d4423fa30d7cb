//! The slicer's core from memory: an entry into a large flow space, a flow_mod and a packet_in through it, and
//! what the flow space takes.
//!
//! Room: `weir_supervisor`'s slicer without sockets. Times are this thread's, one call each.

use super::{Args, Figures, Memory, SLICES, answer, flow_mod, mac, packet, summary};
use anyhow::{Result, anyhow};
use std::time::{Duration, Instant};
use weir_openflow::model::{Field, Match, Msg, Version};
use weir_supervisor::slicer::space::{Entry, FlowSpace, Right, SliceId};
use weir_supervisor::slicer::{ConnId, Limits, Loss, Out, PortRef, SlicePlan, SpaceRule, Switch};

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

/// Entries into a flow space that has many, and the memory of those.
pub fn insertion(args: &Args) -> Result<(Figures, Memory)> {
    let before = resident();
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
    let bytes = resident().saturating_sub(before);
    let memory = Memory { entries: args.entries, bytes };
    let more = args.entries..args.entries.saturating_add(args.messages);
    let mut took = Vec::with_capacity(args.messages as usize);
    for new in more.map(entry) {
        let start = Instant::now();
        let done = space.insert(new);
        took.push(start.elapsed());
        done?;
    }
    Ok((summary("insert", args.entries, took), memory))
}

/// Bytes of this process that are in memory (proc(5), VmRSS); where that is not told, 0.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rss = status.lines().find_map(|l| l.strip_prefix("VmRSS:")?.strip_suffix("kB"));
    rss.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// flow_mods and packet_ins through it.
pub fn messages(args: &Args) -> Result<[Figures; 2]> {
    let mut switch = sliced(args.rules)?;
    let mut out = Out::default();
    for i in 0..SLICES {
        switch.connected(ConnId(u64::from(i) + 1), SliceId(i), &mut out);
    }
    let (mut mods, mut packets) = (Vec::new(), Vec::new());
    for i in 0..args.messages {
        let rule = i % args.rules;
        let slice = rule % u32::from(SLICES);
        let msg = Msg { xid: i, body: flow_mod(rule, i) };
        let conn = ConnId(u64::from(slice) + 1);
        let start = Instant::now();
        switch.from_controller(conn, msg, &[0; 64], Duration::ZERO, &mut out);
        mods.push(start.elapsed());
        switch.settle(Duration::ZERO, &mut out);
        settle(&mut switch, &mut out);
        let msg = packet(rule, i);
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

/// A switch of two ports whose flow space has so many rules, dealt out to the slices in turn.
fn sliced(rules: u32) -> Result<Switch> {
    let limits = Limits { rules: 1 << 24, ..Limits::default() };
    let (queues, loss) = (Default::default(), Loss::Keep);
    let slice =
        SlicePlan { name: "slice".to_owned(), queues, limits, loss, ..SlicePlan::default() };
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

/// The switch answers.
fn settle(switch: &mut Switch, out: &mut Out) {
    for m in std::mem::take(&mut out.to_switch) {
        if let Some(body) = answer(&m.body) {
            switch.from_switch(Msg { xid: m.xid, body }, Duration::ZERO, out);
        }
    }
}
