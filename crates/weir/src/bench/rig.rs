//! A data plane from memory: a capture, rules, a port that plays, ports that swallow.
//!
//! Called by the benchmarks and studies. The rules may be split over VDPs, so that the price of
//! having many can be measured on the same work.

use crate::config::read::read_file;
use crate::config::rules::flows_from;
use crate::fault::bad_input;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use weir_classify::{Field, Geometry, Match};
use weir_dataplane::flowtext::{FlowSpec, NoNames};
use weir_dataplane::{
    Action, Config, DataPlane, MappingRule, Out, Placement, PortNo, RuleSpec, VdpSpec, Vid,
};
use weir_io::replay::{Arena, Collect, Collected, Null, Passes, Replay};
use weir_packet::{Device, PortId};

/// A data plane ready to be polled.
pub struct Rig {
    /// The data plane.
    pub plane: DataPlane,
    /// What came out, where it is kept.
    pub kept: Vec<(u32, Collected)>,
    /// VDPs made.
    pub vdps: usize,
    /// Rules installed.
    pub rules: usize,
}

/// What becomes of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Freed.
    Swallow,
    /// Kept for a file.
    Keep,
}

/// Reads a capture into memory.
pub fn load_trace(path: &Path) -> Result<Arc<Arena>> {
    let arena = Arena::load(path).map_err(bad_input)?;
    if arena.is_empty() {
        return Err(bad_input(format!(
            "{}: no frame in it: give a capture with frames",
            path.display()
        )));
    }
    Ok(Arc::new(arena))
}

/// Reads rules in Open vSwitch's flow syntax: at least one, and each complete in itself.
pub fn load_rules(path: &Path) -> Result<Vec<FlowSpec>> {
    let text = read_file(path).map_err(bad_input)?;
    let name = path.display().to_string().into();
    let flows = flows_from(&text, &name, &NoNames).map_err(bad_input)?;
    if flows.is_empty() {
        return Err(bad_input(format!("{name}: no rule in it: write one a line")));
    }
    for (f, place) in &flows {
        if let Some(what) = needed(&f.actions) {
            let text = "a file of rules has none: groups and meters need a configuration";
            return Err(bad_input(format!("{place}: {what}: {text}")));
        }
    }
    Ok(flows.into_iter().map(|(f, _)| f).collect())
}

/// The first group or meter that actions presuppose.
fn needed(actions: &[Action]) -> Option<String> {
    actions.iter().find_map(|a| match a {
        Action::Group(id) => Some(format!("group {id}")),
        Action::Meter(id) => Some(format!("meter {id}")),
        Action::WriteActions(inner) => needed(inner),
        _ => None,
    })
}

/// Port numbers that actions send to.
pub fn ports_of(rules: &[FlowSpec]) -> Vec<u32> {
    fn named(actions: &[Action], out: &mut Vec<u32>) {
        for a in actions {
            match a {
                Action::Output(Out::Port(p)) | Action::Mirror(p) => out.push(p.0),
                Action::WriteActions(inner) => named(inner, out),
                _ => {}
            }
        }
    }
    let mut out = Vec::new();
    rules.iter().for_each(|r| named(&r.actions, &mut out));
    out.sort_unstable();
    out.dedup();
    out
}

/// The field by which rules are split over VDPs: one that every rule matches exactly.
fn split_field(rules: &[FlowSpec]) -> Option<Field> {
    [Field::VlanVid, Field::InPort, Field::EthDst, Field::Ipv4Dst, Field::MplsLabel]
        .into_iter()
        .find(|f| rules.iter().all(|r| r.matcher.mask().get(*f) == f.full()))
}

impl Rig {
    /// Puts one together. The capture comes in by port `in_port`; rules go into `vdps` VDPs.
    pub fn new(
        arena: &Arc<Arena>,
        rules: &[FlowSpec],
        in_port: u32,
        vdps: usize,
        passes: Passes,
        output: Output,
    ) -> Result<Self> {
        let source = Box::new(Replay::new("trace", Arc::clone(arena), passes));
        Self::of(source, rules, in_port, vdps, output, 1)
    }

    /// The same with another source: one of so many workers.
    pub fn of(
        source: Box<dyn Device>,
        rules: &[FlowSpec],
        in_port: u32,
        vdps: usize,
        output: Output,
        workers: usize,
    ) -> Result<Self> {
        let config = Config {
            tcam: Geometry {
                mapping_entries: 1 << 20,
                action_entries: u32::try_from(2 * rules.len() + (1 << 20))?.next_power_of_two(),
                ..Config::default().tcam
            },
            workers,
            ..Config::default()
        };
        let mut plane = DataPlane::new(config)?;
        let source = plane.add_port("trace", source)?;
        let mut ports = vec![(PortNo(in_port), source)];
        let mut kept = Vec::new();
        for no in ports_of(rules) {
            if no == in_port {
                continue;
            }
            let name = format!("out{no}");
            let device: Box<dyn Device> = match output {
                Output::Swallow => Box::new(Null::new(&name)),
                Output::Keep => {
                    let (d, c) = Collect::new(&name, usize::MAX);
                    kept.push((no, c));
                    Box::new(d)
                }
            };
            let id = plane.add_port(&name, device)?;
            ports.push((PortNo(no), id));
        }
        let mut rig = Self { plane, kept, vdps, rules: rules.len() };
        if vdps <= 1 {
            let all = rules.iter().collect::<Vec<_>>();
            let matcher = Match::any();
            rig.vdp(Vid(1), &ports, vec![MappingRule { matcher, priority: 0 }], &all)?;
            return Ok(rig);
        }
        let field = split_field(rules).ok_or_else(|| {
            bad_input(
                "--vdps: the rules have no field that each matches exactly (VLAN id, in_port, \
                 destination MAC, IPv4 destination, MPLS label), so they can't be split",
            )
        })?;
        rig.split(field, &ports, rules)?;
        Ok(rig)
    }

    fn split(
        &mut self,
        field: Field,
        ports: &[(PortNo, PortId)],
        rules: &[FlowSpec],
    ) -> Result<()> {
        let mut by_value: BTreeMap<u128, Vec<&FlowSpec>> = BTreeMap::new();
        for r in rules {
            by_value.entry(r.matcher.value().get(field)).or_default().push(r);
        }
        let n = self.vdps.min(by_value.len());
        self.vdps = n;
        let mut groups: Vec<(Vec<MappingRule>, Vec<&FlowSpec>)> = vec![Default::default(); n];
        for (i, (value, of)) in by_value.into_iter().enumerate() {
            let mut matcher = Match::any().with(field, value);
            // What the field needs comes from its first rule.
            if let (Some(first), true) = (of.first(), matcher.check_prereqs().is_err()) {
                let kind = first.matcher.value().get(Field::EthType);
                matcher = matcher.with(Field::EthType, kind);
            }
            let g = &mut groups[i % n];
            g.0.push(MappingRule { matcher, priority: 1 });
            g.1.extend(of);
        }
        for (i, (mapping, of)) in groups.into_iter().enumerate() {
            let vid = u16::try_from(i + 1).map_err(|_| bad_input("--vdps: at most 65534"))?;
            self.vdp(Vid(vid), ports, mapping, &of)?;
        }
        Ok(())
    }

    fn vdp(
        &mut self,
        vid: Vid,
        ports: &[(PortNo, PortId)],
        mapping: Vec<MappingRule>,
        rules: &[&FlowSpec],
    ) -> Result<()> {
        let mut spec = VdpSpec::new(vid, &format!("vdp{vid}"));
        spec.ports = ports.to_vec();
        spec.mapping = mapping;
        spec.default = vec![Action::Drop];
        self.plane.create_vdp(spec)?;
        for r in rules {
            let rule = RuleSpec {
                matcher: r.matcher,
                priority: r.priority.into(),
                cookie: r.cookie,
                actions: r.actions.clone().into(),
            };
            self.plane
                .add_rule(vid, r.table, &rule, Placement::Fast)
                .map_err(|e| bad_input(format!("rule '{r}': {e}")))?;
        }
        Ok(())
    }
}
