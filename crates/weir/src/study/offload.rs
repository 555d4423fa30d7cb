//! `vdp-offload`: the rate against the share of a VDP's rules that are on the fast path, from
//! memory and over veth.
//!
//! Rules that do not fit the TCAM live on the slow path (004 §4.2). Frames are spread evenly over
//! all rules, so the share of rules is the share of frames.

use super::dut::Weir;
use super::lab::{Kind, Lab};
use super::load::{PORTS, adjacent};
use super::memory::{Bench, shuffle};
use super::report::{Accounts, Axis, Extent, Figure, NOT_STATED, Point, Published, Report, Series};
use super::veth_forward::{METHOD, RATE as WHOLE};
use super::whole_path::{self, WholePath};
use super::{Id, Plan, Watch};
use anyhow::Result;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use weir_classify::{Field, Match};
use weir_dataplane::{
    Action, Config, DataPlane, MappingRule, Out, Placement, PortNo, RuleSpec, VdpSpec, Vid,
};
use weir_io::replay::{Arena, Passes, Replay};
use weir_measure::probe::{Headers, Run, Stamper, Stream};
use weir_packet::{Nanos, PortId};
use weir_wire::ethernet::EtherType;

const SHARES: [usize; 7] = [0, 10, 25, 50, 75, 90, 100];
/// Rules of each VDP: so many that each share is a whole number of them.
const RULES: usize = 20;
const FRAME_BYTES: usize = 64;
/// How often each rule's frame stands in the load.
const COPIES: usize = 32;
const X: Axis = Axis { name: "rules on the fast path", unit: "%" };
const RATE: Axis = Axis { name: "rate", unit: "million frames per CPU-second" };
const SLOW: Axis = Axis { name: "frames through the software stage", unit: "%" };

/// Runs it.
pub fn run(plan: &Plan, watch: &mut Watch<'_>) -> Result<Report> {
    let mut report = Report::new(Id::VdpOffload, plan.depth.of(Extent::Quick, Extent::Full));
    report.condition(
        "frames",
        format!(
            "{FRAME_BYTES} bytes (FCS included), IPv4 and UDP, evenly over all rules, without order"
        ),
    );
    report.condition("VDPs", format!("{PORTS} by port, {RULES} rules each on the IPv4 destination; no priorities, so any of them may be on either path"));
    report.condition(
        "software stage",
        "on the same core, a channel for each of three VDPs, the shared one for the fourth",
    );
    if plan.memory() {
        from_memory(plan, watch, &mut report)?;
    }
    if plan.veth() {
        over_veth(plan, watch, &mut report)?;
    }
    report.published.push(Published {
        what: "rate at each share",
        value: NOT_STATED,
        source: "004 §4.2",
        ours: "the tables above".to_owned(),
    });
    Ok(report)
}

fn from_memory(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    let rounds = plan.depth.of(3, 9);
    let time = plan.depth.of(Duration::from_millis(20), Duration::from_millis(250));
    let arena = arena()?;
    let mut benches = SHARES.iter().map(|s| bench(&arena, *s)).collect::<Result<Vec<_>>>()?;
    let mut rates = vec![Vec::new(); SHARES.len()];
    for round in 0..=rounds {
        watch.next(&format!("round {round} of {rounds}"))?;
        for (bench, rates) in benches.iter_mut().zip(&mut rates) {
            let rate = bench.mfps_per_cpu_s(time)?;
            // The first round fills caches and finds pages.
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    let slow = benches.iter().map(|b| {
        let s = b.plane.snapshot();
        let sum = |f: fn(&weir_dataplane::VdpCounters) -> u64| -> u64 {
            s.vdps.iter().map(|v| f(&v.counters)).sum()
        };
        vec![100.0 * sum(|c| c.slow) as f64 / sum(|c| c.received.frames) as f64]
    });
    let series = |y, samples: Vec<Vec<f64>>| Series {
        name: "from memory".to_owned(),
        x: X,
        y,
        points: SHARES.iter().zip(samples).map(|(n, s)| Point::of(*n as f64, s)).collect(),
    };
    let slow = series(SLOW, slow.collect());
    let rates = series(RATE, rates);
    report.figures.extend(gain("from memory", &rates));
    report.series.extend([rates, slow]);
    let mut accounts = Accounts::default();
    benches.iter().for_each(|b| b.account(&mut accounts));
    report.accounts = Some(accounts);
    report.condition(
        "from memory",
        format!("{rounds} rounds, each of {} ms for each share", time.as_millis()),
    );
    report.remark(
        "From memory the source waits, so nothing is lost; a rate counts the CPU time of the one \
         thread that does everything, both paths and the copy of each frame out of the source \
         included.",
    );
    Ok(())
}

/// The whole path over veth, one port sending.
fn over_veth(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    let rounds = plan.depth.of(1, 7);
    let time = plan.depth.of(Duration::from_millis(20), Duration::from_millis(200));
    watch.next("making namespaces")?;
    let mut paths = vec![WholePath::new(Lab::new(Kind::Wire)?)?];
    for share in SHARES {
        let lab = Lab::new(Kind::Fast)?;
        let weir = Weir::with(&lab, |plane, ports| {
            let ports: Vec<_> = (1..).map(PortNo).zip(ports.iter().copied()).collect();
            (0..PORTS).try_for_each(|port| vdp(plane, port, &ports, share))
        })?;
        let load = |bytes| (0..RULES as u16).map(|n| stream(n, 0, usize::from(n), bytes)).collect();
        paths.push(WholePath::with(lab, Some(weir), Box::new(load))?);
    }
    watch.next(&format!("{rounds} rounds over veth"))?;
    let all = whole_path::rounds(&mut paths, FRAME_BYTES, rounds, time)?;
    let points = SHARES.iter().zip(all).map(|(n, p)| Point { x: *n as f64, ..p }).collect();
    let rates = Series { name: "over veth".to_owned(), x: X, y: WHOLE, points };
    report.figures.extend(gain("over veth", &rates));
    report.series.push(rates);
    report.condition(
        "over veth",
        format!("one port sending, {rounds} rounds of {} ms for each share", time.as_millis()),
    );
    report.remark(METHOD);
    Ok(())
}

/// What the fast path is worth.
fn gain(place: &str, rates: &Series) -> Option<Figure> {
    let what = format!("{place}: rate with all rules on the fast path, over that with none");
    Some(Figure::of(what, rates.at(100.0)? / rates.at(0.0)?, "", None))
}

/// Frames for a rule of the VDP of a port.
fn stream(id: u16, port: u16, rule: usize, frame_bytes_on_wire: usize) -> Stream {
    let headers =
        Headers { dst: SocketAddrV4::new(destination(port, rule), 7), ..Headers::default() };
    Stream { id, headers, frame_bytes_on_wire, entry: port, exit: None }
}

fn destination(port: u16, rule: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 19, port as u8, rule as u8 + 1)
}

fn arena() -> Result<Arc<Arena>> {
    let mut order: Vec<(u16, usize)> =
        (0..PORTS).flat_map(|p| (0..RULES * COPIES).map(move |r| (p, r % RULES))).collect();
    shuffle(&mut order);
    let mut arena = Arena::new();
    let mut bytes = vec![0; FRAME_BYTES];
    for (port, rule) in order {
        let len = Stamper::new(&stream(0, port, rule, FRAME_BYTES), Run(0))?
            .write(0, Nanos(0), &mut bytes)
            .unwrap_or(0);
        arena.push(bytes.get(..len).unwrap_or_default(), None, port);
    }
    Ok(Arc::new(arena))
}

fn bench(arena: &Arc<Arena>, share: usize) -> Result<Bench> {
    let mut plane = DataPlane::new(Config::default())?;
    let mut ports = Vec::new();
    for p in 0..PORTS {
        let name = format!("p{}", p + 1);
        let player = Replay::of_port(&name, Arc::clone(arena), Passes::Forever, p);
        ports.push((PortNo(u32::from(p) + 1), plane.add_port(&name, Box::new(player))?));
    }
    for port in 0..PORTS {
        vdp(&mut plane, port, &ports, share)?;
    }
    Ok(Bench::new(plane))
}

fn vdp(plane: &mut DataPlane, port: u16, ports: &[(PortNo, PortId)], share: usize) -> Result<()> {
    let vid = Vid(port + 1);
    let mut spec = VdpSpec::new(vid, &format!("vdp{vid}"));
    let of_port = ports.get(usize::from(port)).map_or(0, |(_, id)| id.0);
    let matcher = Match::any().with(Field::InPort, of_port.into());
    spec.mapping = vec![MappingRule { matcher, priority: 1 }];
    spec.ports = ports.to_vec();
    spec.channel = u8::try_from(port).ok().filter(|_| port + 1 < PORTS);
    plane.create_vdp(spec)?;
    for n in 0..RULES {
        let matcher = Match::any()
            .with(Field::EthType, u16::from(EtherType::Ipv4).into())
            .with(Field::Ipv4Dst, destination(port, n).to_bits().into());
        let actions = [Action::Output(Out::Port(PortNo(u32::from(adjacent(port)) + 1)))].into();
        let rule = RuleSpec { matcher, priority: 1, cookie: 0, actions };
        let fast = n * 100 < share * RULES;
        let placement = if fast { Placement::Fast } else { Placement::Slow };
        plane.add_rule(vid, 0, &rule, placement)?;
    }
    Ok(())
}
