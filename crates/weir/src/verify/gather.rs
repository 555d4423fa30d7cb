//! From a running data plane to what is verified: each VDP as it is installed, in words that know no
//! switch.
//!
//! Room: reads by [`Live`], a few VDPs at a time, so that no burst waits for long; changes nothing.
//! Rules of a VDP are from one moment; ports and mapping rules are from one moment for all, or it is
//! begun again. What was read is kept by `keep`, which asks for what has changed since.

use super::acts::{Meaning, OwnFields, acts};
use super::header;
use super::notes::{Names, notes};
use super::planned::{Alone, Does, Planned, planned};
use crate::config::apply::scratch;
use crate::config::plan::{Plan, RuleKey};
use crate::socket::live::{Live, NotDone};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use weir_classify::Field;
use weir_dataplane::{
    DataPlane, Installed, Isolation, LastChanges, MappingRule, PortNo, RuleView, UserFields, Vid,
};
use weir_packet::{Nanos, PortId};
use weir_supervisor::party::Party;
use weir_supervisor::verify::{
    Act, Controller, Group, MapRule, Plane, Port, Program, Rule, Table, Takes, Vdp,
};

/// How long the slow path is waited for.
const SLOW_PATH: Duration = Duration::from_secs(1);
/// VDPs that are read between two bursts.
const AT_ONCE: usize = 8;
/// How often it is begun again when ports or mapping rules change meanwhile.
const TRIES: usize = 5;
/// Rounds in which a data plane of our own answers for its slow path.
const ROUNDS: u64 = 8;

/// A network that has several VDPs, by number or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// Its name.
    pub name: String,
    /// Its VDPs.
    pub vdps: Vec<u16>,
}

/// What is verified, with what its parts are called by people.
#[derive(Debug)]
pub struct Gathered {
    /// By VDP: its number, and the names that its rules are told with.
    pub vdps: Vec<Known>,
    /// What should be known of the answer.
    pub notes: Vec<String>,
}

/// What is known of a VDP beside what is verified.
#[derive(Debug)]
pub struct Known {
    /// Its number.
    pub vid: Vid,
    /// Its name.
    pub name: String,
    /// Its ports' names by its own numbers.
    pub ports: Vec<(String, PortNo)>,
    /// Fields of its own.
    pub fields: UserFields,
    /// Its rules as they were written, by table, in the order of the verifier's.
    pub rules: Vec<Vec<weir_dataplane::RuleSpec>>,
}

/// Changes that are looked at before they are made.
#[derive(Debug)]
pub struct Ahead {
    /// What is planned now.
    pub before: Plan,
    /// What would be.
    pub plan: Plan,
    /// VDPs that would be made anew: what controllers have put there goes.
    pub anew: BTreeSet<u16>,
    /// VDPs that are put, whether or not anything differs.
    pub put: BTreeSet<u16>,
    /// VDPs that would be virtual routers: their kernels may send anything by any of their ports.
    pub routers: BTreeSet<u16>,
}

/// Where frames come and whose they are, at one moment.
struct Ground {
    changes: LastChanges,
    ports: Vec<(u16, String)>,
    mapping: BTreeMap<Vid, Vec<MappingRule>>,
}

fn ground(p: &DataPlane) -> Ground {
    let views = p.port_views();
    let ports = views.iter().filter(|p| p.id.0 != 0);
    let mut mapping: BTreeMap<Vid, Vec<MappingRule>> = BTreeMap::new();
    for (vid, r) in p.mapping_rules() {
        mapping.entry(vid).or_default().push(r);
    }
    let ports = ports.map(|p| (p.id.0, p.name.clone())).collect();
    Ground { changes: p.last_changes(), ports, mapping }
}

/// What tells whether all is as it was: the last changes, and what matters of each VDP's plan.
#[derive(Debug, PartialEq, Eq)]
pub struct Sight {
    /// The last changes.
    pub changes: LastChanges,
    planned: Vec<Planned>,
}

impl Sight {
    /// Of a running data plane.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn of(live: &Live) -> Result<Self, NotDone> {
        let changes = live.with(|p, _| p.last_changes())?;
        let planned = live.look(|m| {
            let of = |(vid, _): &(Vid, u64)| planned(m.plan.vdps.get(&vid.0));
            changes.vdps.iter().map(of).collect()
        })?;
        Ok(Self { changes, planned })
    }
    /// Whether nothing but rules, groups and the like of VDPs differs.
    pub fn is_like(&self, o: &Self) -> bool {
        self.changes.layout == o.changes.layout && self.planned == o.planned
    }
}

/// All that is kept of a plane to read what has changed.
#[derive(Debug)]
pub struct Whole {
    /// The plane.
    pub plane: Plane,
    /// What its parts are called.
    pub gathered: Gathered,
    /// The last change of each VDP that it has in it.
    pub touched: Vec<u64>,
    /// Places of ports by their numbers.
    place: HashMap<u16, usize>,
}

/// Reads a running data plane.
///
/// # Errors
/// The worker has ended; ports or mapping rules do not come to rest.
pub fn gather(live: &Live, groups: &[Grouping]) -> Result<Whole, NotDone> {
    let (ground, read) = read(live)?;
    Ok(put_together(&ground, read, groups))
}

/// One VDP as it is now.
#[derive(Debug)]
pub struct Again {
    /// What is verified.
    pub vdp: Vdp,
    /// What it is called.
    pub known: Known,
    /// The last change in it.
    pub touched: u64,
}

/// Reads VDPs again, by place; `None` where one is gone, or is no longer what it was but for its rules.
///
/// # Errors
/// The worker has ended.
pub fn again(
    live: &Live,
    w: &Whole,
    plane: &Plane,
    at: &[usize],
) -> Result<Option<Vec<Again>>, NotDone> {
    let vids: Vec<Vid> = at.iter().filter_map(|i| w.gathered.vdps.get(*i)).map(|k| k.vid).collect();
    let read = some(live, &vids)?;
    let mut all = Vec::new();
    for (i, (installed, planned)) in at.iter().zip(&read) {
        let (Some(known), Some(old)) = (w.gathered.vdps.get(*i), plane.vdps.get(*i)) else {
            return Ok(None);
        };
        if installed.vid != known.vid || installed.name != known.name {
            return Ok(None);
        }
        let (mut vdp, rules) = vdp(installed, planned, old.network, &w.place);
        vdp.controllers.clone_from(&old.controllers);
        let known = known_of(installed, planned, rules);
        all.push(Again { vdp, known, touched: installed.touched });
    }
    Ok((read.len() == at.len()).then_some(all))
}

/// VDPs as they are installed, with what matters of their plans.
type Read = Vec<(Installed, Planned)>;

/// Those of these that there are.
fn some(live: &Live, vids: &[Vid]) -> Result<Read, NotDone> {
    let mut read = Vec::new();
    for some in vids.chunks(AT_ONCE) {
        let some = some.to_vec();
        let more = live.with(move |p, m| {
            let one = |vid: Vid| {
                let installed = p.installed(vid).ok()?;
                Some((installed, planned(m.plan.vdps.get(&vid.0))))
            };
            some.into_iter().filter_map(one).collect::<Vec<_>>()
        })?;
        for (mut installed, planned) in more {
            let slow = installed.slow.recv_timeout(SLOW_PATH).unwrap_or_default();
            both_paths(&mut installed.rules, slow);
            read.push((installed, planned));
        }
    }
    Ok(read)
}

fn read(live: &Live) -> Result<(Ground, Read), NotDone> {
    for _ in 0..TRIES {
        let ground = live.with(|p, _| ground(p))?;
        let vids: Vec<Vid> = ground.changes.vdps.iter().map(|(vid, _)| *vid).collect();
        let read = some(live, &vids)?;
        let layout = live.with(|p, _| p.last_changes())?.layout;
        if layout == ground.changes.layout && read.len() == vids.len() {
            return Ok((ground, read));
        }
    }
    Err(restless())
}

/// Nothing can be said while this goes on.
pub fn restless() -> NotDone {
    crate::socket::handler::bad(
        "ports or mapping rules change faster than they can be read: try again",
    )
}

/// What a running data plane would be read as after changes: what is planned, as a data plane of its own
/// makes it, and the rules and groups that controllers have put where their VDP stays.
///
/// # Errors
/// As [`gather`]; the changes can't be.
pub fn ahead(live: &Live, groups: &[Grouping], after: &Ahead) -> Result<Whole, NotDone> {
    let (_, running) = read(live)?;
    let (mut plane, model) = scratch(&after.plan)?;
    let ground = ground(&plane);
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for (vid, _) in &ground.changes.vdps {
        let Ok(mut installed) = plane.installed(*vid) else { continue };
        // Nobody but us serves its channels.
        let slow = (1..=ROUNDS).find_map(|round| {
            plane.poll(Nanos::from_millis(round));
            installed.slow.try_recv().ok()
        });
        both_paths(&mut installed.rules, slow.unwrap_or_default());
        let stays = |r: &&(Installed, Planned)| r.0.vid == *vid && r.0.name == installed.name;
        let stays = running.iter().find(stays).filter(|_| !after.anew.contains(&vid.0));
        if let Some((now, _)) = stays {
            let old = after.before.vdps.get(&vid.0);
            let asked = |r: &&RuleView| {
                let (table, priority) = (r.table, r.spec.priority);
                let key = RuleKey { table, priority, matcher: r.spec.matcher };
                old.is_some_and(|o| o.rules.contains_key(&key))
            };
            let kept = now.rules.iter().filter(|r| !asked(r)).cloned().collect();
            both_paths(&mut installed.rules, kept);
            let planned = |id: u32| old.is_some_and(|o| o.groups.contains_key(&id));
            let there: Vec<u32> = installed.groups.iter().map(|(id, _)| *id).collect();
            let kept = now.groups.iter().filter(|(id, _)| !there.contains(id) && !planned(*id));
            installed.groups.extend(kept.cloned());
            installed.remarking.extend(now.remarking.iter().copied());
            // Of a switch that is what it has come to with its controllers.
            if model.plan.vdps.get(&vid.0).is_some_and(|v| v.openflow.is_some()) {
                installed.default.clone_from(&now.default);
            }
        }
        let mut planned = planned(model.plan.vdps.get(&vid.0));
        if after.routers.contains(&vid.0) {
            planned.does = Does::Anything;
            notes.push(format!(
                "router {}: what its kernel will send is not known ahead: anything, by any of its ports",
                installed.name
            ));
        }
        all.push((installed, planned));
    }
    let mut whole = put_together(&ground, all, groups);
    whole.gathered.notes.extend(notes);
    Ok(whole)
}

/// Adds the rules that are on the slow path only.
fn both_paths(fast: &mut Vec<RuleView>, slow: Vec<RuleView>) {
    let key = |r: &RuleView| (r.table, r.spec.priority, r.spec.matcher);
    let known: std::collections::HashSet<_> = fast.iter().map(key).collect();
    fast.extend(slow.into_iter().filter(|r| !known.contains(&key(r))));
}

fn put_together(ground: &Ground, read: Read, groups: &[Grouping]) -> Whole {
    let mut networks: Vec<String> = groups.iter().map(|g| g.name.clone()).collect();
    let place: HashMap<u16, usize> =
        ground.ports.iter().enumerate().map(|(i, (id, _))| (*id, i)).collect();
    let mut controllers: BTreeMap<Party, Controller> = BTreeMap::new();
    let (mut vdps, mut known, mut mapping) = (Vec::new(), Vec::new(), Vec::new());
    // Networks of supervisors, and their places once they have one.
    let mut kept: BTreeMap<(u64, String), Option<usize>> =
        read.iter().filter_map(|(_, p)| Some((p.kept.clone()?, None))).collect();
    let (mut of_vdp, mut names) = (Vec::new(), Names::default());
    let mut rest = None;
    for (i, planned) in &read {
        // One that was changed by hand has lost its label, and is known by its name.
        let prefix = i.name.split_once('.').map(|(network, _)| network);
        let by_name = || kept.keys().find(|(_, n)| Some(n.as_str()) == prefix).cloned();
        let grouped = groups.iter().position(|g| g.vdps.contains(&i.vid.0));
        let mut new = |name: &str| {
            networks.push(name.to_owned());
            networks.len() - 1
        };
        let network = match (grouped, planned.kept.clone().or_else(by_name)) {
            (Some(g), _) => g,
            (None, None) => new(&i.name),
            (None, Some(of)) => match kept.get(&of).copied().flatten() {
                Some(n) => n,
                None => {
                    let n = new(&of.1);
                    kept.insert(of, Some(n));
                    n
                }
            },
        };
        if i.vid.0 == 0 {
            rest = Some(vdps.len());
        }
        let mut own = Vec::new();
        for text in &planned.controllers {
            let party = Party::of(text);
            let new = || Controller { name: text.clone(), networks: Vec::new() };
            let c = controllers.entry(party.clone()).or_insert_with(new);
            if !c.networks.contains(&network) {
                c.networks.push(network);
            }
            names.written(&party, text);
            own.push(party);
        }
        // Who is cut off sends nothing, to controllers neither; others' may send to his.
        of_vdp.push(if planned.isolation == Isolation::CutOff { Vec::new() } else { own });
        for r in ground.mapping.get(&i.vid).into_iter().flatten() {
            mapping.push(map_rule(vdps.len(), r));
        }
        let (vdp, rules) = vdp(i, planned, network, &place);
        known.push(known_of(i, planned, rules));
        vdps.push(vdp);
    }
    let parties: Vec<&Party> = controllers.keys().collect();
    for (v, own) in vdps.iter_mut().zip(&of_vdp) {
        let at = |c: &Party| parties.binary_search(&c).ok();
        v.controllers = own.iter().filter_map(at).collect();
    }
    let unknown = names.not_looked_up(&controllers);
    for (party, c) in &mut controllers {
        c.name = names.of(party);
    }
    let port = |(id, name): &(u16, String)| Port { name: name.clone(), number: (*id).into() };
    let plane = Plane {
        layout: header::layout(),
        networks,
        ports: ground.ports.iter().map(port).collect(),
        controllers: controllers.into_values().collect(),
        vdps,
        mapping,
        rest,
        shares: None,
    };
    let notes = notes(&plane).into_iter().chain(unknown).collect();
    let touched = read.iter().map(|(i, _)| i.touched).collect();
    Whole { plane, gathered: Gathered { vdps: known, notes }, touched, place }
}

fn known_of(i: &Installed, planned: &Planned, rules: Written) -> Known {
    let (ports, fields) = (planned.ports.clone(), i.fields.clone());
    Known { vid: i.vid, name: i.name.clone(), ports, fields, rules }
}

fn map_rule(vdp: usize, r: &MappingRule) -> MapRule {
    let own = [Field::User0, Field::User1, Field::User2, Field::User3, Field::UserPresent];
    let bits = header::bits_of(&own);
    let m = header::of(&r.matcher);
    let matcher = m.freed(&bits);
    // A VDP's own fields are bytes of the frame that other VDPs' keys do not have.
    let takes = if matcher == m { Takes::All } else { Takes::Some };
    MapRule { vdp, matcher, priority: r.priority.into(), takes }
}

type Written = Vec<Vec<weir_dataplane::RuleSpec>>;

/// Whether a rule is the one that has all frames treated as by a switch without OpenFlow: flows have priorities of 16 bits.
fn is_alone(r: &RuleView) -> bool {
    r.table == 0 && r.spec.priority > u16::MAX.into()
}

fn vdp(
    i: &Installed,
    planned: &Planned,
    network: usize,
    place: &HashMap<u16, usize>,
) -> (Vdp, Written) {
    let there = |id: &PortId| place.get(&id.0).copied();
    let ports: Vec<(u32, usize)> =
        i.ports.iter().filter_map(|(no, id)| Some((no.0, there(id)?))).collect();
    let find = |no: PortNo| ports.iter().find(|(n, _)| *n == no.0).map(|(_, p)| *p);
    let own_fields = if i.fields.is_empty() { OwnFields::None } else { OwnFields::Some };
    let program = planned.does.acts();
    let meaning = Meaning {
        port: &find,
        program: &program,
        remarking: &i.remarking,
        invalid_ttl: i.invalid_ttl,
        own_fields,
    };
    let mut same: HashMap<*const weir_dataplane::Action, Arc<[Act]>> = HashMap::new();
    let mut by_table: Vec<Vec<&RuleView>> = Vec::new();
    let joined = planned.isolation == Isolation::Joined;
    // What stands above all flows while controllers are away is reckoned with at all times.
    let counts = |r: &&RuleView| joined && !(planned.alone == Alone::Frames && is_alone(r));
    for r in i.rules.iter().filter(counts) {
        let t = usize::from(r.table);
        if by_table.len() <= t {
            by_table.resize_with(t + 1, Vec::new);
        }
        by_table.iter_mut().skip(t).take(1).for_each(|table| table.push(r));
    }
    let (mut tables, mut written) = (Vec::new(), Vec::new());
    for mut rules in by_table {
        rules.sort_by_key(|r| std::cmp::Reverse(r.spec.priority));
        let of = |r: &&RuleView| Rule {
            matcher: header::of(&r.spec.matcher),
            priority: r.spec.priority,
            acts: same
                .entry(r.spec.actions.as_ptr())
                .or_insert_with(|| acts(&r.spec.actions, &meaning).into())
                .clone(),
        };
        tables.push(Table::new(rules.iter().map(of).collect()));
        written.push(rules.into_iter().map(|r| r.spec.clone()).collect());
    }
    let bucket = |b: &Vec<weir_dataplane::Action>| acts(b, &meaning).into();
    let group = |(id, buckets): &(u32, Vec<Vec<weir_dataplane::Action>>)| {
        (*id, Group { network, buckets: buckets.iter().map(bucket).collect() })
    };
    let mut default = acts(&i.default, &meaning);
    let mut alone = Vec::new();
    match planned.alone {
        Alone::Nothing => {}
        Alone::Misses => default.extend_from_slice(&program),
        Alone::Frames => alone.extend_from_slice(&program),
    }
    let mut does = planned.does.program();
    if !joined {
        (default, alone, does) = (Vec::new(), Vec::new(), Program::Nothing);
    }
    let vdp = Vdp {
        name: i.name.clone(),
        network,
        tables,
        default,
        alone,
        program: does,
        controllers: Vec::new(),
        groups: i.groups.iter().map(group).collect(),
        ports,
    };
    (vdp, written)
}
