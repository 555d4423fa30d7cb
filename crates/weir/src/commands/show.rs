//! `weir show`: what runs: ports, VDPs, mapping, rules, TCAM, channels, programs.
//!
//! Room: the client's side of the control socket.

use super::columns::Columns;
use super::say::{put, say};
use super::stats::{Stats, reasons, state};
use crate::environment::Envelope;
use crate::openflow::status::{ConnectionItem, SwitchItem};
use crate::socket::client::Where;
use crate::socket::items::{PlaneItem, PortItem, RuleItem, VdpDetail, VdpItem};
use crate::socket::protocol::{Item, Request, WithRules};
use anyhow::Result;
use serde::Serialize;
use weir_supervisor::plan::shown;

/// Arguments of `weir show`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Show what a running data plane consists of",
    long_about = "Shows what a running data plane consists of: its ports; its VDPs with their \
                  mapping rules, ports and shares, channel, slow-path program and its state; the \
                  TCAM's budget, with each VDP's slices and the blocks that one of its frames \
                  wakes. With --rules, every rule with its counters, in Open vSwitch's flow \
                  syntax.",
    after_long_help = "Examples:\n  \
                       weir show\n  \
                       weir show --vdp red --rules\n  \
                       weir show --json | jq '.result.vdps[].detail.tcam'"
)]
pub struct Args {
    #[command(flatten)]
    to: Where,
    /// Only this VDP, by number or name
    #[arg(long, value_name = "VDP")]
    vdp: Option<String>,
    /// Rules, too, with their counters
    #[arg(long)]
    rules: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What was asked for; the rest is left out.
#[derive(Debug, Serialize)]
struct Shown<'s> {
    #[serde(flatten)]
    whole: Option<Whole<'s>>,
    vdps: &'s [VdpItem],
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<&'s [RuleItem]>,
}

/// What is no VDP's.
#[derive(Debug, Serialize)]
struct Whole<'s> {
    plane: &'s PlaneItem,
    ports: &'s [PortItem],
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    let rules = if args.rules { WithRules::Yes } else { WithRules::No };
    let (items, _) = args.to.ask(&Request::Show { vdp: args.vdp.clone(), rules })?;
    let mut kept = Vec::new();
    let rest = items.into_iter().filter_map(|i| match i {
        Item::Rule(r) => {
            kept.push(r);
            None
        }
        other => Some(other),
    });
    let stats = Stats::of(rest.collect());
    if args.json {
        let whole =
            args.vdp.is_none().then_some(Whole { plane: &stats.plane, ports: &stats.ports });
        let rules = args.rules.then_some(&kept[..]);
        let shown = Shown { whole, vdps: &stats.vdps, rules };
        return say(serde_json::to_string_pretty(&Envelope::new("show", shown))?);
    }
    if args.vdp.is_none() {
        put(overview(&stats))?;
    }
    for v in &stats.vdps {
        let rules: Vec<&RuleItem> = kept.iter().filter(|r| r.vid == v.vid).collect();
        put(format_args!("\n{}", vdp(v, &rules)))?;
    }
    Ok(())
}

fn overview(s: &Stats) -> String {
    let (p, f) = (&s.plane, &s.plane.frames);
    let mut out = format!(
        "data plane: process {}, running for {} s, {}{} channels\n\
         frames: {} in all, {} free, {} lent to devices, {} held for VDPs, {} spares\n",
        p.pid,
        p.at_ns / 1_000_000_000,
        if p.workers > 1 { format!("{} workers, ", p.workers) } else { String::new() },
        p.channels,
        f.count,
        f.free,
        f.lent,
        f.held,
        f.spares
    );
    for t in &p.tcam {
        out.push_str(&format!(
            "TCAM, {} part: {} entries, {} free; {} of {} blocks in use\n",
            t.part, t.entries, t.free_entries, t.blocks_in_use, t.blocks
        ));
    }
    if !p.unmapped_dropped.is_empty() {
        out.push_str(&format!("without a VDP: {}\n", reasons(&p.unmapped_dropped)));
    }
    if p.log_left_out > 0 {
        let n = p.log_left_out;
        out.push_str(&format!("log: {n} lines were left out: nobody read them\n"));
    }
    if let Some(e) = &p.imbalance {
        out.push_str(&format!("frames do not add up, which is a defect of weir: {e}\n"));
    }
    out.push('\n');
    let heads = ["port", "number", "device", "state", "rx frames", "tx frames", "note"];
    let mut c = Columns::new(&heads);
    for p in &s.ports {
        let note = match (&p.fault, p.exhausted) {
            (Some(fault), _) => fault.clone(),
            (None, true) if p.number != 0 => "receives nothing more".to_owned(),
            (None, _) => String::new(),
        };
        let shortcut = p.shortcut.as_ref().map(|s| format!("shortcut: {s}"));
        let all = [(!note.is_empty()).then_some(note), p.caveat.clone(), shortcut];
        let note = all.into_iter().flatten().collect::<Vec<_>>().join("; ");
        c.row(vec![
            p.name.clone(),
            if p.number == 0 { "-".to_owned() } else { p.number.to_string() },
            shown(&p.device).to_owned(),
            state(p).to_owned(),
            p.rx.frames.to_string(),
            p.tx.frames.to_string(),
            note,
        ]);
    }
    out.push_str(&c.text());
    out
}

fn vdp(v: &VdpItem, rules: &[&RuleItem]) -> String {
    let mut out = format!(
        "VDP {} ({}), {}: {} received, {} forwarded, {} dropped, {} held\n",
        v.vid,
        v.name,
        v.phase,
        v.received.frames,
        v.forwarded.frames,
        v.dropped.values().sum::<u64>(),
        v.held
    );
    if let Some(of) = v.part_of {
        out.push_str(&format!("  part of    VDP {of}, for which it forwards\n"));
    }
    if !v.dropped.is_empty() {
        out.push_str(&format!("  dropped    {}\n", reasons(&v.dropped)));
    }
    if let Some(d) = &v.detail {
        detail(d, &mut out);
    }
    for r in rules {
        out.push_str(&format!(
            "  rule       {} ({}, {} frames, {} bytes)\n",
            r.flow, r.placed, r.hits.frames, r.hits.bytes
        ));
    }
    out
}

fn detail(d: &VdpDetail, out: &mut String) {
    let mut line = |name: &str, text: String| out.push_str(&format!("  {name:<10} {text}\n"));
    if let Some(l) = &d.label {
        line("kept as", l.clone());
    }
    if let Some(r) = &d.router {
        let processes = format!("{} processes in namespace {}", r.processes, r.namespace);
        let plane = format!("data plane {} by VDP {}", r.data_plane, r.forwards);
        line("router", format!("{plane}, {processes}"));
        for p in &r.programs {
            let pid =
                p.pid.map_or("waits to be started again".to_owned(), |n| format!("process {n}"));
            line("program", format!("{}: {pid}, has ended by itself {} times", p.name, p.ended));
        }
        let unknown = || "unknown".to_owned();
        let cpu = r.cpu_us.map_or_else(unknown, |n| format!("{} ms", n / 1000));
        let memory = r.memory_bytes.map_or_else(unknown, |n| format!("{n} bytes"));
        line("used", format!("processor time {cpu}, memory {memory}; files in {}", r.folder));
        if let (Some(routes), Some(rules)) = (r.routes, r.route_rules) {
            let slow = r.route_rules_slow.unwrap_or(0);
            line("routes", format!("{routes}, as {rules} rules, {slow} of them on the slow path"));
        }
        if let Some(fault) = &r.fault {
            line("fault", fault.clone());
        }
    }
    for p in &d.ports {
        let away = if p.present { "" } else { ", away" };
        let ceiling =
            p.ceiling_bps.map_or("no ceiling".to_owned(), |c| format!("at most {c} bit/s"));
        line(
            "port",
            format!(
                "{} = {}{away}: {} bit/s guaranteed, {ceiling}, weight {}, queue of {}",
                p.number, p.name, p.guarantee_bps, p.weight, p.queue_frames
            ),
        );
    }
    for m in &d.mapping {
        let what = if m.matcher.is_empty() { "everything" } else { &m.matcher };
        line("mapping", format!("{what} (priority {})", m.priority));
    }
    line(
        "rules",
        format!(
            "{} in the TCAM, {} on the slow path only; default: {}",
            d.fast_rules, d.slow_rules, d.default
        ),
    );
    if d.spilled_whole || d.spills > 0 {
        let now = match d.spilled_whole {
            true => "all of it is on the slow path, since some rules are and it has several tables",
            false => "all its rules are reached on its path",
        };
        line("spilled", format!("{now}; {} times so far", d.spills));
    }
    if d.groups + d.meters > 0 {
        line("also", format!("{} groups, {} meters", d.groups, d.meters));
    }
    for t in &d.tcam {
        line(
            "TCAM",
            format!("{}: {} of {} entries, {} slices", t.part, t.used, t.allowed, t.slices),
        );
    }
    line("", format!("a frame wakes {} of {} blocks", d.blocks_woken.0, d.blocks_woken.1));
    let own = if d.channel_dedicated { "its own" } else { "shared" };
    line("channel", format!("{} ({own})", d.channel));
    line("cpu", format!("{} permille guaranteed", d.cpu_permille));
    if let Some(w) = d.worker {
        line("worker", format!("{w}, alone"));
    }
    if d.migrations + d.migrations_given_up > 0 {
        line(
            "migration",
            format!(
                "{} done, {} given up; the last held {} frames and drained for {} us",
                d.migrations,
                d.migrations_given_up,
                d.migration_held,
                d.migration_drain_ns / 1000
            ),
        );
    }
    if let Some(program) = &d.program {
        line("program", program.clone());
        for (name, value) in &d.program_status {
            line("", format!("{name}: {value}"));
        }
    }
    if let Some(o) = &d.openflow {
        openflow(o, &mut line);
    }
}

fn openflow(o: &SwitchItem, line: &mut impl FnMut(&str, String)) {
    line(
        "openflow",
        format!(
            "datapath {}, fail-{}: {} flows; packet-ins: {} dropped, {} over the limit; \
             packet-outs: {} lost",
            o.datapath_id,
            o.fail_mode,
            o.flows,
            o.packet_ins_dropped,
            o.packet_ins_limited,
            o.packet_outs_lost
        ),
    );
    for c in &o.controllers {
        let mut text = match (c.connections.first(), c.retry_in_ms) {
            (Some(_), _) => c.address.clone(),
            (None, Some(ms)) => {
                format!("{}: attempt {} in {} ms", c.address, c.attempts + 1, ms)
            }
            (None, None) => format!("{}: connecting", c.address),
        };
        if let Some(e) = &c.last_error {
            text.push_str(&format!("; last error: {e}"));
        }
        line("controller", text);
        c.connections.iter().for_each(|c| line("", connection(c)));
    }
    for l in &o.listeners {
        let mut text = match &l.bound {
            Some(at) => format!("{} at {at}", l.address),
            None => format!("{}: not listening", l.address),
        };
        text.push_str(&format!(": {} came, {} refused", l.connected, l.refused));
        if let Some(e) = &l.last_error {
            text.push_str(&format!("; last error: {e}"));
        }
        line("listener", text);
        l.connections.iter().for_each(|c| line("", connection(c)));
    }
}

fn connection(c: &ConnectionItem) -> String {
    let version = match (&c.version, &c.by) {
        (Some(v), Some(by)) => format!("OpenFlow {v}, by way of {by}"),
        (None, Some(by)) => format!("by way of {by}"),
        (Some(v), None) => format!("OpenFlow {v}, {}", c.role),
        (None, None) => "no version yet".to_owned(),
    };
    format!(
        "{} for {} s: {version}; messages {} in, {} out; errors {} in, {} out; {} dropped",
        c.peer,
        c.for_ms / 1000,
        c.messages_in,
        c.messages_out,
        c.errors_in,
        c.errors_out,
        c.dropped
    )
}
