//! What each request does.
//!
//! Room: between the socket's threads and [`Live`]. Every answer is checked before anything changes.

use super::capture;
use super::lines::Lines;
use super::live::{Live, NotDone};
use super::moves;
use super::protocol::{Became, Done, Fault, Item, Refusal, Reply, Request};
use super::server::reply;
use super::view;
use crate::config::apply::{self, Model};
use crate::config::diff::{Step, diff_vdp};
use crate::config::error::ConfigError;
use crate::config::plan::{MappingPlan, PlaneNames, PortPlan, RuleKey, VdpPlan};
use crate::config::{read, rules, tunnels};
use crate::router::kinds::counted;
use crate::verify::{self, Ahead, Grouping};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use weir_dataplane::flowtext::{parse_flow, parse_match};
use weir_dataplane::{Path, Phase, Placement, Vid, WorkerGone};
use weir_io::open::PortSpec;
use weir_supervisor::away::BODY;
use weir_supervisor::section::Label;

/// Carries out a request and returns the last line of its answer.
///
/// # Errors
/// The client has gone.
pub fn handle(
    request: Request,
    live: &Live,
    lines: &mut Lines,
    stop: &AtomicBool,
) -> io::Result<Reply> {
    match request {
        Request::Show { vdp, rules } => {
            let asked = live.observe(move |p, m| {
                let only = match vdp {
                    Some(which) => Some(find(m, &which)?.vid),
                    None => None,
                };
                Ok(view::ask(p, m, only, rules))
            });
            match asked {
                Ok(Ok(asked)) => {
                    asked
                        .with_switches(live.switches().status())
                        .with_routers(live.routers().status())
                        .with_moves(&moves::stages(live))
                        .with_own(live.own())
                        .tell(|i| reply(lines, &Reply::Item(i)))?;
                    Ok(Reply::Ok(Done::default()))
                }
                Ok(Err(e)) => Ok(refusal(&e)),
                Err(e) => Ok(refusal(&e.into())),
            }
        }
        Request::Stats {} => match live.observe(|p, m| view::stats(p, m)) {
            Ok(mut items) => {
                view::with_control(
                    &mut items,
                    &live.switches().messages(),
                    &live.routers().status(),
                );
                for i in items {
                    reply(lines, &Reply::Item(i))?;
                }
                Ok(Reply::Ok(Done::default()))
            }
            Err(e) => Ok(refusal(&e.into())),
        },
        Request::RouterPut { toml, router, addresses } => {
            Ok(done(live.routers().put(live, &toml, router, addresses)))
        }
        Request::RouterDelete { router } => Ok(answer(live.routers().delete(live, &router))),
        Request::RouterShow {} => {
            for i in live.routers().status().into_values() {
                reply(lines, &Reply::Item(Item::Router(Box::new(i))))?;
            }
            Ok(Reply::Ok(Done::default()))
        }
        Request::VdpMigrate { vdp, to } => Ok(done(migrated(live, &vdp, &to))),
        Request::Turn { store } => {
            let turn = live.turns().begin(store);
            reply(lines, &Reply::Item(Item::Turn(turn)))?;
            Ok(Reply::Ok(Done::default()))
        }
        Request::InTurn { store, turn, what } => {
            if matches!(*what, Request::InTurn { .. } | Request::Turn { .. }) {
                return Ok(refusal(&bad("a turn within a turn")));
            }
            let whose = live.turns().of(store);
            let Some(_kept) = whose.keep(turn) else {
                let text = "somebody else has begun to change these networks: see 'weir net list'";
                return Ok(refusal(&bad(text)));
            };
            handle(*what, live, lines, stop)
        }
        Request::VdpMove { vdp, way } => moves::handle(&vdp, way, live, lines),
        Request::Capture { port, vdp, stage, filter, count } => {
            let wanted = capture::Wanted { port, vdp, stage, filter, count };
            match capture::start(live, &wanted) {
                Ok(running) => running.run(live, lines, stop),
                Err(e) => Ok(refusal(&e)),
            }
        }
        Request::Batch { of } => Ok(batch(of, live)),
        Request::Verify { networks, leaks, after } => {
            let after = match after.is_empty() {
                true => Ok(None),
                false => live.look(|m| ahead(after, m)).map_err(NotDone::from).and_then(|a| a),
            };
            let groups = live.look(|m| groupings(m, networks));
            let verified = groups
                .map_err(NotDone::from)
                .and_then(|g| g)
                .and_then(|g| verify::verify(live, &g, leaks, after?.as_ref()));
            match verified {
                Ok((leaks, done)) => {
                    let leaks = leaks.into_iter().map(|l| Item::Leak(Box::new(l)));
                    for i in leaks.chain([Item::Verified(Box::new(done))]) {
                        reply(lines, &Reply::Item(i))?;
                    }
                    Ok(Reply::Ok(Done::default()))
                }
                Err(e) => Ok(refusal(&e)),
            }
        }
        Request::VdpPut { toml } => match live.routers().end_as_vdp(live, &toml) {
            Some(all) => Ok(done(all)),
            None => Ok(done(put(live, toml))),
        },
        create @ Request::VdpCreate { .. } => Ok(answer(live.change(move |m| steps(create, m)))),
        other => {
            let done = live.change(move |m| steps(other, m));
            Ok(answer(done.map_err(NotDone::unplaced)))
        }
    }
}

/// Says that something is waited for.
pub fn waiting(lines: &mut Lines) -> io::Result<()> {
    reply(lines, &Reply::Item(Item::Waiting))
}

fn answer(r: Result<Vec<String>, NotDone>) -> Reply {
    done(r.map(|notes| Done { notes, ..Done::default() }))
}

fn done(r: Result<Done, NotDone>) -> Reply {
    match r {
        Ok(d) => Reply::Ok(d),
        Err(e) => refusal(&e),
    }
}

/// What would be planned after changes of VDPs.
fn ahead(of: Vec<Request>, m: &Model) -> Result<Option<Ahead>, NotDone> {
    let (before, mut plan, mut anew) = (m.plan.clone(), m.plan.clone(), BTreeSet::new());
    let (mut routers, mut put) = (BTreeSet::new(), BTreeSet::new());
    for r in of {
        let ports: Vec<String> = plan.ports.iter().map(|p| p.name.clone()).collect();
        let router = matches!(r, Request::RouterPut { .. });
        match r {
            // What forwards for a router is its kernel's, and the rules of its routes: all that is known of it
            // ahead is where it may send.
            Request::RouterPut { toml, .. } | Request::VdpPut { toml } => {
                let v = VdpPlan { place: None, ..read::vdp_from(&toml, None, &ports, None)? };
                // A router that becomes a VDP forwards no more.
                let parts: Vec<Vid> =
                    plan.part(v.vid).map(|p| p.vid).into_iter().chain([v.vid]).collect();
                plan.vdps.retain(|_, o| o.part_of.is_none_or(|of| !parts.contains(&of)));
                match router {
                    true => routers.insert(v.vid.0),
                    false => routers.remove(&v.vid.0),
                };
                put.insert(v.vid.0);
                plan.vdps.insert(v.vid.0, v);
            }
            Request::VdpDelete { vdp } | Request::RouterDelete { router: vdp } => {
                let vid = find(m, &vdp)?.vid;
                plan.vdps.remove(&vid.0);
                plan.vdps.retain(|_, o| o.part_of != Some(vid));
                routers.remove(&vid.0);
                anew.insert(vid.0);
            }
            Request::PortPut { name, device, label } => {
                read::check_port_name(&name).map_err(bad)?;
                let spec: PortSpec = device.parse().map_err(bad)?;
                plan.ports.retain(|p| p.name != name);
                plan.ports.push(PortPlan { name, spec, label: Some(label), place: None });
            }
            Request::PortDelete { name } => plan.ports.retain(|p| p.name != name),
            // Who may reach whom does not hang on the path.
            Request::VdpMigrate { .. } => {}
            _ => {
                return Err(bad(
                    "after: only vdp-put, vdp-delete, vdp-migrate, router-put, router-delete, port-put and \
                     port-delete are looked at ahead",
                ));
            }
        }
    }
    Ok(Some(Ahead { before, plan, anew, put, routers }))
}

/// Carries out changes one after the other.
fn batch(of: Vec<Request>, live: &Live) -> Reply {
    let all = of.len();
    match live.change_each(of.into_iter().map(|r| move |m: &Model| steps(r, m))) {
        Ok(notes) => answer(Ok(notes)),
        Err((done, e)) => match refusal(&e.unplaced()) {
            Reply::Error(r) if all > 1 => {
                let text = format!("change {} of {all}: {}", done + 1, r.text);
                Reply::Error(Refusal { text, ..r })
            }
            other => other,
        },
    }
}

/// A refusal's line.
pub fn refusal(e: &NotDone) -> Reply {
    let fault = match e {
        NotDone::Gone(_) | NotDone::System(_) => Fault::Work,
        NotDone::Step(f) if f.is_environment() => Fault::Work,
        NotDone::Step(_) | NotDone::Config(_) => Fault::Input,
    };
    Reply::Error(Refusal { fault, text: e.to_string() })
}

/// An error in what was asked.
pub fn bad(text: impl std::fmt::Display) -> NotDone {
    NotDone::Config(ConfigError { place: None, text: text.to_string() })
}

/// The VDP of this number or name.
pub fn find<'m>(m: &'m Model, which: &str) -> Result<&'m VdpPlan, NotDone> {
    m.plan.find(which).ok_or_else(|| {
        let which: String = which.chars().take(64).collect();
        bad(format!("there is no VDP '{which}': 'weir show' lists those there are"))
    })
}

/// The same, where it is processed here: another node's can't be changed here alone.
pub fn here<'m>(m: &'m Model, which: &str) -> Result<&'m VdpPlan, NotDone> {
    let v = find(m, which)?;
    if m.away.contains_key(&v.vid.0) {
        let text = "is processed by another node: bring it back first ('weir net migrate … --to' its host)";
        return Err(bad(format!("{} {text}", v.called())));
    }
    Ok(v)
}

/// Networks of several VDPs. A VDP is in one.
fn groupings(m: &Model, networks: Vec<(String, Vec<String>)>) -> Result<Vec<Grouping>, NotDone> {
    let mut out: Vec<Grouping> = Vec::new();
    for (name, vdps) in networks {
        let mut g = Grouping { name, vdps: Vec::new() };
        for which in vdps {
            let v = find(m, &which)?;
            if let Some(other) = out.iter().chain([&g]).find(|o| o.vdps.contains(&v.vid.0)) {
                let (called, in_one) = (v.called(), &other.name);
                return Err(bad(format!(
                    "{called} is in network '{in_one}' already: name it once"
                )));
            }
            g.vdps.push(v.vid.0);
        }
        out.push(g);
    }
    Ok(out)
}

fn placement(word: Option<&str>) -> Result<Placement, NotDone> {
    match word {
        None | Some("fast") => Ok(Placement::Fast),
        Some("slow") => Ok(Placement::Slow),
        Some("spill") => Ok(Placement::Spill),
        Some(w) => Err(bad(format!("placement '{w}': fast, slow or spill"))),
    }
}

/// A path by its word.
pub fn path(word: &str) -> Result<Path, NotDone> {
    match word {
        "fast" => Ok(Path::Fast),
        "slow" => Ok(Path::Slow),
        w => Err(bad(format!("path '{w}': fast or slow"))),
    }
}

/// What one supervisor keeps another does not put in place of: both have seen that this number was free, and one came first.
fn same_keeper(old: &VdpPlan, new: &VdpPlan) -> Result<(), NotDone> {
    let keeper = |v: &VdpPlan| v.label.as_deref().and_then(Label::parse);
    let (Some(a), Some(b)) = (keeper(old), keeper(new)) else { return Ok(()) };
    let node = |l: &Label| l.node.trim_end_matches(BODY).to_owned();
    match (a.store, &a.network, node(&a)) == (b.store, &b.network, node(&b)) {
        true => Ok(()),
        false => Err(bad(format!(
            "VDP {} is '{}' now, which another keeps: make the change again, with what is free now",
            old.vid, old.name
        ))),
    }
}

/// The steps that a request for a change comes down to.
fn steps(request: Request, m: &Model) -> Result<Vec<Step>, NotDone> {
    let ports: Vec<String> = m.plan.ports.iter().map(|p| p.name.clone()).collect();
    Ok(match request {
        Request::PortAdd { name, device } => {
            read::check_port_name(&name).map_err(bad)?;
            if ports.contains(&name) {
                return Err(bad(format!("port '{name}' is there already: choose another name")));
            }
            let spec: PortSpec = device.parse().map_err(bad)?;
            m.plan.check_device(&spec).map_err(bad)?;
            vec![Step::AddPort(PortPlan { name, spec, label: None, place: None })]
        }
        Request::PortRemove { name } => {
            not_routers(m, &name)?;
            vec![Step::RemovePort(name)]
        }
        Request::PortPut { name, device, label } => port_put(m, name, &device, label)?,
        Request::PortDelete { name } => {
            not_routers(m, &name)?;
            if m.plan.ports.iter().any(|p| p.name == name && p.label.is_none()) {
                let text = format!("port '{name}' is nobody's: 'weir port remove' takes it away");
                return Err(bad(text));
            }
            vec![Step::RemovePort(name)]
        }
        Request::VdpCreate { toml, file } => {
            let v = read::vdp_from(&toml, file.as_deref(), &ports, None)?;
            m.plan.check_vdp_name(&v).map_err(bad)?;
            tunnels::check(&m.plan, &v)?;
            vec![Step::CreateVdp(Box::new(VdpPlan { place: None, ..v }))]
        }
        Request::VdpSet { vdp, toml } => {
            let old = here(m, &vdp)?;
            let toml = format!("[[vdp]]\nvid = {}\n{toml}", old.vid);
            let new = read::vdp_from(&toml, None, &ports, Some(old))?;
            let new = VdpPlan { place: None, ..new };
            m.plan.check_vdp_name(&new).map_err(bad)?;
            tunnels::check(&m.plan, &new)?;
            rehearsed(m, diff_vdp(old, &new)?, new)?
        }
        Request::VdpPut { toml } => {
            let v = VdpPlan { place: None, ..read::vdp_from(&toml, None, &ports, None)? };
            m.plan.check_vdp_name(&v).map_err(bad)?;
            tunnels::check(&m.plan, &v)?;
            if m.part(v.vid).is_some() {
                let text = "it is a virtual router: it becomes a VDP by a request of its own";
                return Err(bad(format!("{}: {text}", v.called())));
            }
            match m.plan.vdps.get(&v.vid.0) {
                None => vec![Step::CreateVdp(Box::new(v))],
                Some(old) => {
                    same_keeper(old, &v)?;
                    let steps = diff_vdp(old, &v)?;
                    if !steps.is_empty() {
                        here(m, &v.vid.0.to_string())?;
                    }
                    rehearsed(m, steps, v)?
                }
            }
        }
        Request::VdpDelete { vdp } => {
            let v = find(m, &vdp)?;
            if m.is_routers(v) {
                let text =
                    "it is a virtual router's and goes with it: 'router-delete', or its network";
                return Err(bad(format!("{}: {text}", v.called())));
            }
            vec![Step::DeleteVdp(v.vid)]
        }
        Request::RuleAdd { vdp, flow, placement: p } => {
            let v = here(m, &vdp)?;
            let mut rules = rules::rules_from(&flow, &"rule".into(), placement(p.as_deref())?, v)?;
            for r in &mut rules {
                r.place = None;
            }
            if rules.is_empty() {
                return Err(bad("no rule in it: write one in the flow syntax"));
            }
            let mut new = v.clone();
            for r in &rules {
                new.rules.insert(r.key(), r.clone());
            }
            let put = |r| Step::PutRule(v.vid, Box::new(r));
            let steps = rules.into_iter().map(put).collect();
            unlabelled(v, rehearsed(m, steps, new)?)
        }
        Request::RuleDel { vdp, flow } => {
            let v = here(m, &vdp)?;
            let text =
                if flow.contains("actions=") { flow } else { format!("{flow},actions=drop") };
            let text = text.trim_start_matches(',');
            let f = parse_flow(text, &v.names()).map_err(bad)?;
            let key = RuleKey { table: f.table, priority: f.priority.into(), matcher: f.matcher };
            if !v.rules.contains_key(&key) {
                let text = format!("{} has no rule with this match and priority", v.called());
                return Err(bad(format!("{text}: 'weir show --rules' lists those it has")));
            }
            unlabelled(v, vec![Step::RemoveRule(v.vid, Box::new(key))])
        }
        Request::MappingAdd { vdp, matcher, priority } => {
            let v = here(m, &vdp)?;
            parse_match(&matcher, &PlaneNames(&m.ids, &v.fields)).map_err(bad)?;
            let rule = MappingPlan { text: matcher, priority };
            unlabelled(v, vec![Step::AddMapping(v.vid, rule)])
        }
        Request::MappingDel { vdp, matcher, priority } => {
            let v = here(m, &vdp)?;
            let names = PlaneNames(&m.ids, &v.fields);
            let wanted = parse_match(&matcher, &names).map_err(bad)?;
            // The same rule may have been written in another way.
            let same = |r: &&MappingPlan| {
                r.priority == priority && r.resolve(&m.ids, &v.fields).is_ok_and(|x| x == wanted)
            };
            let found = v.mapping.iter().find(same).ok_or_else(|| {
                let text = format!("{} has no mapping rule '{matcher}'", v.called());
                bad(format!("{text} of priority {priority}: 'weir show' lists those it has"))
            })?;
            unlabelled(v, vec![Step::RemoveMapping(v.vid, found.clone())])
        }
        Request::Show { .. }
        | Request::Stats {}
        | Request::VdpMigrate { .. }
        | Request::RouterPut { .. }
        | Request::RouterDelete { .. }
        | Request::RouterShow {}
        | Request::VdpMove { .. }
        | Request::Turn { .. }
        | Request::InTurn { .. }
        | Request::Batch { .. }
        | Request::Verify { .. }
        | Request::Capture { .. } => {
            return Err(bad("a batch has changes in it: ask for anything else by itself"));
        }
    })
}

/// Refuses what would take a port from the virtual router that it leads to.
fn not_routers(m: &Model, name: &str) -> Result<(), NotDone> {
    let router = m.plan.ports.iter().find(|p| p.name == name).and_then(PortPlan::router);
    router.map_or(Ok(()), |r| {
        Err(bad(format!("port '{name}' leads to virtual router '{r}' and goes with it")))
    })
}

/// The steps that make a port be of this device, and whose.
fn port_put(m: &Model, name: String, device: &str, label: String) -> Result<Vec<Step>, NotDone> {
    read::check_port_name(&name).map_err(bad)?;
    read::check_label(&label).map_err(bad)?;
    not_routers(m, &name)?;
    let spec: PortSpec = device.parse().map_err(bad)?;
    let old = m.plan.ports.iter().find(|p| p.name == name);
    let mut steps = Vec::new();
    match old {
        Some(p) if p.label.is_none() => {
            let text = format!("port '{name}' is there already and nobody's: choose another name");
            return Err(bad(text));
        }
        Some(p) if p.spec == spec && p.label.as_ref() == Some(&label) => return Ok(steps),
        Some(p) if p.spec == spec => return Ok(vec![Step::SetPortLabel(name, Some(label))]),
        Some(_) => steps.push(Step::RemovePort(name.clone())),
        None => m.plan.check_device(&spec).map_err(bad)?,
    }
    steps.push(Step::AddPort(PortPlan { name, spec, label: Some(label), place: None }));
    Ok(steps)
}

/// Steps that leave a VDP to be something else than whoever keeps it has made it.
fn unlabelled(v: &VdpPlan, mut steps: Vec<Step>) -> Vec<Step> {
    if v.label.is_some() {
        steps.push(Step::SetLabel(v.vid, None));
    }
    steps
}

/// The steps, if they are one (which is done or not done), or were tried with everything else.
fn rehearsed(m: &Model, steps: Vec<Step>, new: VdpPlan) -> Result<Vec<Step>, NotDone> {
    if steps.len() > 1 {
        let mut plan = m.plan.clone();
        plan.vdps.insert(new.vid.0, new);
        apply::rehearse(&plan)?;
    }
    Ok(steps)
}

/// Makes a VDP what a section says; with the proof that nothing was lost, where it takes the other path then.
fn put(live: &Live, toml: String) -> Result<Done, NotDone> {
    let read = |m: &Model| {
        let ports: Vec<String> = m.plan.ports.iter().map(|p| p.name.clone()).collect();
        read::vdp_from(&toml, None, &ports, None).ok()
    };
    let wanted = live.look(read)?.map(|v| (v.vid, v.name, v.path));
    let reroutes = match wanted {
        Some((vid, name, to)) => {
            let phase = live.handle().call(move |p| p.phase(vid))?;
            let other = matches!(phase, Ok(Phase::On(now)) if now != to);
            other.then_some((vid, name, to))
        }
        None => None,
    };
    let change = move |m: &Model| steps(Request::VdpPut { toml }, m);
    match reroutes {
        Some((vid, name, to)) => {
            rerouted(live, vid, name, to, |live| taken(live, vid, to, || live.change(change)))
        }
        None => live.change(change).map(|notes| Done { notes, ..Done::default() }),
    }
}

/// Has a VDP take a path, with the proof that nothing was lost.
fn migrated(live: &Live, which: &str, to: &str) -> Result<Done, NotDone> {
    let to = path(to)?;
    let (vid, name) = live.look(|m| find(m, which).map(|v| (v.vid, v.name.clone())))??;
    let phase = live.arrived(vid)?.map(|v| v.phase);
    let mut done = rerouted(live, vid, name, to, |live| migrate(live, vid, to))?;
    if phase == Some(Phase::On(to)) {
        done.notes.push("it was there already".to_owned());
    }
    Ok(done)
}

/// What `take` does, which has a VDP take a path, with what was counted before and after.
fn rerouted(
    live: &Live,
    vid: Vid,
    name: String,
    to: Path,
    take: impl FnOnce(&Live) -> Result<(Vec<String>, Waited), NotDone>,
) -> Result<Done, NotDone> {
    let (began, before) = (Instant::now(), counted(live, vid)?);
    let (notes, w) = take(live)?;
    let became = Became {
        name,
        kind: view::phase_name(Phase::On(to)).to_owned(),
        took_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
        longest_pause_ns: w.longest_pause_ns,
        buffered: w.buffered,
        before,
        after: counted(live, vid)?,
        ..Became::default()
    };
    Ok(Done { notes, became: Some(Box::new(became.weighed())), ..Done::default() })
}

/// Frames that waited while a VDP changed its path.
#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    buffered: u64,
    longest_pause_ns: u64,
}

fn migrate(live: &Live, vid: Vid, to: Path) -> Result<(Vec<String>, Waited), NotDone> {
    // What forwards for it goes first.
    let part = match live.look(|m| m.part(vid).map(|p| p.vid))? {
        Some(part) => migrate(live, part, to)?.1,
        None => Waited::default(),
    };
    let change = || live.change(move |_| Ok(vec![Step::Migrate(vid, to)]));
    let (notes, own) = taken(live, vid, to, change)?;
    let waited = Waited {
        buffered: part.buffered + own.buffered,
        longest_pause_ns: part.longest_pause_ns.max(own.longest_pause_ns),
    };
    Ok((notes, waited))
}

/// Waits until a change has had a VDP take a path.
fn taken(
    live: &Live,
    vid: Vid,
    to: Path,
    change: impl FnOnce() -> Result<Vec<String>, NotDone>,
) -> Result<(Vec<String>, Waited), NotDone> {
    let before = live.arrived(vid)?.map(|v| v.migration).unwrap_or_default();
    let mut told = change()?;
    let m = live.arrived(vid)?.ok_or(WorkerGone)?.migration;
    if m.given_up > before.given_up {
        let text = "its channel did not become empty in time, so it stays on the slow path, with \
                    nothing lost: try again, or raise drain_limit_ms";
        return Err(bad(format!("VDP {vid}: {text}")));
    }
    let mut waited = Waited::default();
    if to == Path::Fast && m.completed > before.completed {
        told.push(format!("held {} frames while draining for {} us", m.held, m.drain_ns / 1000));
        waited = Waited { buffered: m.held, longest_pause_ns: m.drain_ns };
    }
    Ok((told, waited))
}
