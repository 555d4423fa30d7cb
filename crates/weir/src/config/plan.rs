//! A data plane as it shall be: what a configuration means, checked as far as text alone allows.
//!
//! Room: plain data. Made by `read.rs`, compared by `diff.rs`, carried out by `apply.rs`, shown by
//! the control socket.

use super::error::Place;
use super::openflow::{OpenflowPlan, QueuePlan};
use super::program::ProgramPlan;
use crate::openflow::tls::Identity;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use weir_classify::Match;
use weir_dataplane::flowtext::{FlowError, Names, parse_match};
use weir_dataplane::{
    Action, Band, Bucket, Config, Group, GroupError, GroupKind, Isolation, Meter, MeterError, Path,
    Placement, PortNo, PortShare, RuleSpec, Serving, Unit, UserFields, Vid, WhenIdle,
};
use weir_io::open::{Kind, PortSpec};
use weir_packet::PortId;

/// What is fixed while a data plane runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Sizes.
    pub config: Config,
    /// Entries of the rings of each AF_XDP port.
    pub rings: u32,
    /// Who serves the channels.
    pub serving: Serving,
    /// What idle threads do.
    pub idle: WhenIdle,
    /// The processor that the worker has to itself, as the kernel numbers them; of several workers the first, and each
    /// of the others the next.
    pub cpu: Option<usize>,
    /// Where the control socket is, if the file says so.
    pub socket: Option<PathBuf>,
    /// The node API, if there is one.
    pub api: Option<ApiPlan>,
}

/// The node API: the control socket's requests, by TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiPlan {
    /// Where it listens; port 0: any that is free.
    pub listen: SocketAddr,
    /// What it shows, and whom it lets in.
    pub tls: Identity,
}

/// Where a file says what is fixed.
#[derive(Clone, Debug, Default)]
pub struct FixedPlaces {
    /// Its section.
    pub section: Option<Place>,
    /// Its keys, as far as their values can be wrong.
    pub keys: BTreeMap<&'static str, Place>,
}

impl FixedPlaces {
    /// Where `key` stands; where its section begins, if that leaves it out.
    pub fn of(&self, key: &str) -> Option<Place> {
        self.keys.get(key).or(self.section.as_ref()).cloned()
    }
}

/// Everything a configuration says.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is fixed.
    pub fixed: Fixed,
    /// Where the file says that.
    pub places: FixedPlaces,
    /// Ports by name, in the file's order.
    pub ports: Vec<PortPlan>,
    /// VDPs by VID. The default VDP is always there.
    pub vdps: BTreeMap<u16, VdpPlan>,
}

/// A port.
#[derive(Clone, Debug)]
pub struct PortPlan {
    /// Its name.
    pub name: String,
    /// What it is made of.
    pub spec: PortSpec,
    /// A mark of whoever keeps it; what a file names has none.
    pub label: Option<String>,
    /// Where the file says so.
    pub place: Option<Place>,
}

impl Plan {
    /// What forwards for a VDP, if something does.
    pub fn part(&self, of: Vid) -> Option<&VdpPlan> {
        self.vdps.values().find(|v| v.part_of == Some(of))
    }
}

impl PortPlan {
    /// The mark of a port that leads to a virtual router and goes with it. Nobody else can give it: marks
    /// from outside have no blanks.
    pub fn routers_label(router: &str) -> String {
        format!("router {router}")
    }

    /// The virtual router that it leads to.
    pub fn router(&self) -> Option<&str> {
        self.label.as_ref()?.strip_prefix("router ")
    }
}

/// A VDP.
#[derive(Clone, Debug)]
pub struct VdpPlan {
    /// Its id.
    pub vid: Vid,
    /// Its name.
    pub name: String,
    /// A mark of whoever keeps it; a change by anybody else takes it away.
    pub label: Option<String>,
    /// The VDP that it forwards for, as a part of it, if it does.
    pub part_of: Option<Vid>,
    /// Its ports: name, its number for it. A port that is not there at the moment is kept.
    pub ports: Vec<(String, PortNo)>,
    /// Which frames are its own.
    pub mapping: Vec<MappingPlan>,
    /// What a frame without a rule gets.
    pub default: Vec<Action>,
    /// Its slow-path program.
    pub program: Option<ProgramPlan>,
    /// A channel of its own.
    pub channel: Option<u8>,
    /// Of several workers the one that does it.
    pub worker: Option<usize>,
    /// Where it lives.
    pub path: Path,
    /// Fields of its own.
    pub fields: UserFields,
    /// TCAM entries reserved for action rules.
    pub tcam_entries: usize,
    /// TCAM entries that action rules may not exceed.
    pub tcam_limit: Option<u32>,
    /// Its guaranteed part of the worker's cycles.
    pub cpu_permille: u16,
    /// Whether it is cut off from its ports.
    pub isolation: Isolation,
    /// Its shares, by port name.
    pub shares: BTreeMap<String, PortShare>,
    /// Meters by number.
    pub meters: BTreeMap<u32, MeterPlan>,
    /// Groups by number.
    pub groups: BTreeMap<u32, GroupPlan>,
    /// Rules.
    pub rules: HashMap<RuleKey, RulePlan>,
    /// Its ports' queues beside the default ones, by port name and number.
    pub queues: BTreeMap<(String, u32), QueuePlan>,
    /// As an OpenFlow switch, if it is one.
    pub openflow: Option<OpenflowPlan>,
    /// Where the file says so.
    pub place: Option<Place>,
}

/// A mapping rule. It is kept as text, since the numbers of ports that come back change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingPlan {
    /// The match, with the data plane's ports by name.
    pub text: String,
    /// Larger wins.
    pub priority: u32,
}

/// A meter: its unit and bands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterPlan {
    /// What rates and bursts count.
    pub unit: Unit,
    /// Its bands.
    pub bands: Vec<Band>,
}

impl MeterPlan {
    /// The meter itself.
    ///
    /// # Errors
    /// A band that can't be.
    pub fn build(&self) -> Result<Meter, MeterError> {
        Meter::new(self.unit, &self.bands)
    }
}

/// A group: its kind and buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    /// How it uses them.
    pub kind: GroupKind,
    /// Its buckets.
    pub buckets: Vec<BucketPlan>,
}

/// A bucket of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlan {
    /// Its part relative to the others.
    pub weight: u16,
    /// The port, by name, without which it is not used.
    pub watch_port: Option<String>,
    /// What it does.
    pub actions: Vec<Action>,
}

impl GroupPlan {
    /// The group itself, for ports with these numbers. A watched port that is away is down.
    ///
    /// # Errors
    /// A group that can't be.
    pub fn build(&self, ids: &BTreeMap<String, PortId>) -> Result<Group<Vec<Action>>, GroupError> {
        let bucket = |b: &BucketPlan| {
            let mut out = Bucket::new(b.actions.clone());
            out.weight = b.weight;
            let id = |name: &String| ids.get(name).map_or(u32::MAX, |id| id.0.into());
            out.watch_port = b.watch_port.as_ref().map(id);
            out
        };
        Group::new(self.kind, self.buckets.iter().map(bucket).collect())
    }
}

/// What tells a rule from another of its VDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleKey {
    /// Its table.
    pub table: u8,
    /// Its priority.
    pub priority: u32,
    /// Its match.
    pub matcher: Match,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct RulePlan {
    /// Its table.
    pub table: u8,
    /// The rule.
    pub spec: RuleSpec,
    /// Where it shall live.
    pub placement: Placement,
    /// Among rules of equal priority the lower one was there first.
    pub order: usize,
    /// Where the file says so.
    pub place: Option<Place>,
}

impl RulePlan {
    /// What tells it from others.
    pub fn key(&self) -> RuleKey {
        RuleKey { table: self.table, priority: self.spec.priority, matcher: self.spec.matcher }
    }
    /// Whether nothing has to be done to turn one into the other.
    pub fn same(&self, other: &RulePlan) -> bool {
        self.table == other.table && self.spec == other.spec && self.placement == other.placement
    }
}

impl VdpPlan {
    /// A VDP on the fast path that drops what it has no rule for.
    pub fn new(vid: Vid, name: &str) -> Self {
        Self {
            vid,
            name: name.to_owned(),
            label: None,
            part_of: None,
            ports: Vec::new(),
            mapping: Vec::new(),
            default: vec![Action::Drop],
            program: None,
            channel: None,
            worker: None,
            path: Path::Fast,
            fields: UserFields::default(),
            tcam_entries: 0,
            tcam_limit: None,
            cpu_permille: 0,
            isolation: Isolation::Joined,
            shares: BTreeMap::new(),
            meters: BTreeMap::new(),
            groups: BTreeMap::new(),
            rules: HashMap::new(),
            queues: BTreeMap::new(),
            openflow: None,
            place: None,
        }
    }
    /// The default VDP as a data plane makes it.
    pub fn default_vdp() -> Self {
        let path = Path::Slow;
        Self { default: vec![Action::ToChannel], path, ..Self::new(Vid(0), "default") }
    }
    /// Its rules in the order in which they shall be put in.
    pub fn rules_in_order(&self) -> Vec<&RulePlan> {
        let mut all: Vec<&RulePlan> = self.rules.values().collect();
        all.sort_by_key(|r| r.order);
        all
    }
    /// How errors and reports call it.
    pub fn called(&self) -> String {
        format!("VDP {} ({})", self.vid, self.name)
    }
    /// Its own number for a port, by name.
    pub fn number_of(&self, port: &str) -> Option<PortNo> {
        self.ports.iter().find(|(n, _)| n == port).map(|(_, no)| *no)
    }
}

impl Plan {
    /// Nothing but the default VDP.
    pub fn empty(fixed: Fixed) -> Self {
        let vdps = BTreeMap::from([(0, VdpPlan::default_vdp())]);
        Self { fixed, places: FixedPlaces::default(), ports: Vec::new(), vdps }
    }
    /// Refuses a device that another port has: an interface makes one port, and so does a file that is
    /// written, by whatever name; a wire in memory has two ends.
    ///
    /// # Errors
    /// Whose it is.
    pub fn check_device(&self, spec: &PortSpec) -> Result<(), String> {
        let taken = |p: &&PortPlan| match spec.kind {
            Kind::Vxlan => p.spec.kind == Kind::Vxlan && p.spec.meets(spec),
            _ => p.spec.owns().is_some() && p.spec.owns() == spec.owns() || p.spec.spoils(spec),
        };
        if spec.kind == Kind::Memory && !spec.target.is_empty() {
            let ends = self.ports.iter().filter(|p| p.spec == *spec).map(|p| p.name.as_str());
            if let [a, b, ..] = *ends.collect::<Vec<_>>() {
                let text = "are its two ends already: name another wire";
                return Err(format!("'{spec}': ports '{a}' and '{b}' {text}"));
            }
        }
        let Some(p) = self.ports.iter().find(taken) else { return Ok(()) };
        let at = p.place.as_ref().map(|p| format!(" in line {}", p.line)).unwrap_or_default();
        let (what, name) = (&spec.target, &p.name);
        Err(format!(
            "'{what}' is port '{name}'{at} already: take another, or one of the ports away"
        ))
    }
    /// Refuses a VDP's name that another has: who names a VDP means one.
    ///
    /// # Errors
    /// Whose it is.
    pub fn check_vdp_name(&self, v: &VdpPlan) -> Result<(), String> {
        let taken = |o: &&VdpPlan| o.name == v.name && o.vid != v.vid;
        let Some(o) = self.vdps.values().find(taken) else { return Ok(()) };
        Err(format!("VDP {} is called '{}' already: give another name", o.vid, o.name))
    }
    /// The VDP with this number or name.
    pub fn find(&self, which: &str) -> Option<&VdpPlan> {
        match which.parse::<u16>() {
            Ok(vid) => self.vdps.get(&vid),
            Err(_) => self.vdps.values().find(|v| v.name == which),
        }
    }
}

/// A VDP's names, for texts about its rules: its ports and its own fields.
#[derive(Clone, Copy, Debug)]
pub struct VdpNames<'a>(pub &'a [(String, PortNo)], pub &'a UserFields);

impl VdpPlan {
    /// How many of so many workers do it.
    pub fn workers(&self, workers: usize) -> usize {
        if self.worker.is_some() { 1 } else { workers }
    }
    /// Whether this program of its is run. What would do NORMAL for a switch's controllers is left out where several
    /// workers do it, which refuse NORMAL.
    pub fn has_program(&self, program: &ProgramPlan, workers: usize) -> bool {
        self.workers(workers) == 1 || self.openflow.is_none() || *program != ProgramPlan::learning()
    }
    /// Its names.
    pub fn names(&self) -> VdpNames<'_> {
        VdpNames(&self.ports, &self.fields)
    }
}

impl Names for VdpNames<'_> {
    fn port(&self, name: &str) -> Option<PortNo> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, no)| *no)
    }
    fn port_name(&self, port: PortNo) -> Option<&str> {
        self.0.iter().find(|(_, no)| *no == port).map(|(n, _)| n.as_str())
    }
    fn user_fields(&self) -> &UserFields {
        self.1
    }
}

/// The data plane's names, for mapping rules and filters: its ports by their numbers, and a VDP's
/// own fields.
#[derive(Clone, Copy, Debug)]
pub struct PlaneNames<'a>(pub &'a BTreeMap<String, PortId>, pub &'a UserFields);

impl Names for PlaneNames<'_> {
    fn port(&self, name: &str) -> Option<PortNo> {
        self.0.get(name).map(|id| PortNo(id.0.into()))
    }
    fn port_name(&self, port: PortNo) -> Option<&str> {
        self.0.iter().find(|(_, id)| u32::from(id.0) == port.0).map(|(n, _)| n.as_str())
    }
    fn user_fields(&self) -> &UserFields {
        self.1
    }
}

impl MappingPlan {
    /// The match in the data plane's port numbers.
    ///
    /// # Errors
    /// What the flow syntax says; a port that is not there is one of them.
    pub fn resolve(
        &self,
        ids: &BTreeMap<String, PortId>,
        fields: &UserFields,
    ) -> Result<Match, FlowError> {
        parse_match(&self.text, &PlaneNames(ids, fields))
    }
}
