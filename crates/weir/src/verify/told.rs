//! What verification says, in people's words: names, rules in the flow syntax, a frame.
//!
//! Room: data and text. The shape goes over the control socket.

use super::frame::frame;
use super::gather::{Gathered, Known};
use super::header::{as_match, bits_of};
use crate::config::plan::{PlaneNames, VdpNames};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_classify::{Field, FlowKey, FlowMask};
use weir_dataplane::UserFields;
use weir_dataplane::flowtext::{FlowSpec, FlowText, MatchText};
use weir_packet::PortId;
use weir_supervisor::verify::{By, Leak, Match, Plane, Reaches, Report, Sure};

/// A way from one network to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeakItem {
    /// Whose frames.
    pub from: String,
    /// Whom they reach; nobody's part of a shared port without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// "port", "rules", "claim", "controller" or "group".
    pub kind: String,
    /// What is reached.
    pub reaches: String,
    /// What does it: the VDP.
    pub vdp: String,
    /// And its rule, in the flow syntax, or what else of it.
    pub by: String,
    /// Whether that is a rule of the VDP or its `fail_mode`, in its own words: no part of it is another network's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_rule: bool,
    /// The port by which frames come in.
    pub in_port: String,
    /// Frames as they come in, in the flow syntax.
    pub frames: String,
    /// As they leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<String>,
    /// "frame": each of them shows it; "content": it hangs on bytes behind the header; "may": on
    /// what is not followed, such as a program.
    pub sure: String,
    /// One of them, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
    /// What the running data plane says of that frame: whether it goes that way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<bool>,
    /// Of what would be after changes: whether the same reaches beyond its own there as it is, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub there_before: bool,
}

impl LeakItem {
    /// Whether that is only possible: it hangs on what is not followed.
    pub fn may(&self) -> bool {
        self.sure == "may"
    }
}

/// The answer as a whole.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VerifiedItem {
    /// Whether isolation is proved.
    pub isolated: bool,
    /// Networks.
    pub networks: usize,
    /// VDPs.
    pub vdps: usize,
    /// Rules, mapping rules among them.
    pub rules: usize,
    /// Leaks beyond those that are told.
    pub more: usize,
    /// VDPs that took more work than is allowed.
    pub undecided: Vec<String>,
    /// What of that changes would make, where it is of what would be after some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<Added>,
    /// What should be known of it.
    pub notes: Vec<String>,
    /// How long it took to read the rules, in microseconds.
    pub read_us: u64,
    /// And to decide.
    pub decide_us: u64,
}

/// What changes would make that is not so before them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// Leaks. They are told before others.
    pub leaks: usize,
    /// VDPs that would not be decided: that were, or whose rules are put.
    pub undecided: Vec<String>,
}

impl Added {
    /// Whether it is nothing.
    pub fn is_nothing(&self) -> bool {
        self.leaks == 0 && self.undecided.is_empty()
    }
}

/// What tells a leak from others, whatever else there is: whose frames, what of which VDP does it, and what is reached. Not
/// whose that is: who joins a port gets a part of what already leaks there, and who leaves one leaves it to others.
pub type Mark = [String; 4];

/// A leak with what is needed to look at it again.
#[derive(Debug)]
pub struct Shown {
    /// In words.
    pub item: LeakItem,
    /// One of its frames.
    pub frame: Option<Vec<u8>>,
    /// Where it comes in.
    pub in_port: PortId,
    /// The port that it leaves by, where it is about one.
    pub out: Option<PortId>,
    /// The VDP that gets it.
    pub vid: u16,
}

/// Names for texts.
struct Words<'a> {
    plane: &'a Plane,
    ports: BTreeMap<String, PortId>,
    known: &'a [Known],
}

impl<'a> Words<'a> {
    fn of(g: &'a Gathered, plane: &'a Plane) -> Self {
        let port = |p: &weir_supervisor::verify::Port| (p.name.clone(), PortId(p.number as u16));
        Self { plane, ports: plane.ports.iter().map(port).collect(), known: &g.vdps }
    }
    fn vdp(&self, at: usize) -> String {
        let vid = self.known.get(at).map_or(0, |k| k.vid.0);
        format!("VDP {vid} ({})", self.plane.vdps.get(at).map_or("", |v| v.name.as_str()))
    }
    /// What is reached: the kind, and which.
    fn reached(&self, l: &Leak) -> (&'static str, String) {
        match l.reaches {
            Reaches::Port(p) => ("port", format!("port {}", self.port(p))),
            Reaches::Rules => ("rules", "rules and counters".to_owned()),
            Reaches::Claimed => ("claim", "frames claimed with equal priority".to_owned()),
            Reaches::Controller(c) => {
                let name = self.plane.controllers.get(c).map_or("?", |c| &c.name);
                ("controller", format!("controller {name}"))
            }
            Reaches::Group(g) => ("group", format!("group {g}")),
        }
    }
    /// What does it.
    fn by(&self, l: &Leak) -> String {
        match l.by {
            By::Mapping(at) => self.mapping(at),
            By::Share(at) => format!("share {at}"),
            By::Rule(table, at) => self.rule(l.vdp, table, at),
            By::Default => "default rule".to_owned(),
            By::Alone => "fail_mode = \"standalone\", while its controllers are away".to_owned(),
            By::Program => "slow-path program".to_owned(),
        }
    }
    fn port(&self, at: usize) -> String {
        self.plane.ports.get(at).map_or_else(|| "?".to_owned(), |p| p.name.clone())
    }
    fn network(&self, at: usize) -> String {
        self.plane.networks.get(at).cloned().unwrap_or_default()
    }
    fn matched(&self, m: &Match) -> String {
        let text =
            MatchText(&as_match(m), &PlaneNames(&self.ports, UserFields::none())).to_string();
        if text.is_empty() { "every frame".to_owned() } else { text }
    }
    /// Headers inside a VDP, or as they leave: the port is told apart.
    fn anywhere(&self, m: &Match) -> String {
        self.matched(&tidy(&m.freed(&self.plane.layout.in_port.bits())))
    }
    fn rule(&self, vdp: usize, table: u8, at: usize) -> String {
        let Some(k) = self.known.get(vdp) else { return String::new() };
        let rule = k.rules.get(usize::from(table)).and_then(|t| t.get(at));
        let Some(r) = rule else { return format!("table={table}, rule {at}") };
        let spec = FlowSpec {
            table,
            priority: u16::try_from(r.priority).unwrap_or(u16::MAX),
            cookie: r.cookie,
            matcher: r.matcher,
            actions: r.actions.to_vec(),
            ..FlowSpec::default()
        };
        FlowText(&spec, &VdpNames(&k.ports, &k.fields)).to_string()
    }
    fn mapping(&self, at: usize) -> String {
        match self.plane.mapping.get(at) {
            Some(r) if r.priority < 0 => "what no mapping rule takes".to_owned(),
            Some(r) => format!("mapping rule priority={} {}", r.priority, self.matched(&r.matcher)),
            None => "mapping rule".to_owned(),
        }
    }
}

/// The same without zeros that go without saying: of fields that such frames have not.
fn tidy(m: &Match) -> Match {
    const UNSAID: [Field; 5] =
        [Field::Metadata, Field::TunnelId, Field::InPhyPort, Field::InnerTci, Field::Ipv6Exthdr];
    let said = |f: &&Field| {
        let (value, mask) = (FlowKey(m.value), FlowMask(m.mask));
        let there = f.info().prereq.holds(&value, &mask);
        there && (value.get(**f) != 0 || !UNSAID.contains(f))
    };
    let said: Vec<Field> = Field::ALL.iter().filter(said).copied().collect();
    let mut unsaid = bits_of(&said);
    let words = unsaid.iter_mut().zip(m.value);
    // Ones are said whatever they belong to.
    words.for_each(|(bits, ones)| *bits = !(*bits | ones));
    m.freed(&unsaid)
}

/// Leaks in words.
pub fn leaks(g: &Gathered, plane: &Plane, report: &Report) -> Vec<Shown> {
    let words = Words::of(g, plane);
    report.leaks.iter().map(|l| leak(l, &words)).collect()
}

/// What tells leaks from others, in their order.
pub fn marks(g: &Gathered, plane: &Plane, report: &Report) -> Vec<Mark> {
    let words = Words::of(g, plane);
    let mark = |l: &Leak| {
        // A rule says in its text what it does.
        let does = match (l.by, plane.vdps.get(l.vdp)) {
            (By::Default, Some(v)) => format!("{:?}", v.default),
            _ => String::new(),
        };
        let by = format!("{}{does}", words.by(l));
        [words.network(l.from), words.vdp(l.vdp), by, words.reached(l).1]
    };
    report.leaks.iter().map(mark).collect()
}

fn leak(l: &Leak, w: &Words<'_>) -> Shown {
    let known = w.known.get(l.vdp);
    let number = |at: usize| w.plane.ports.get(at).map_or(0, |p| p.number);
    let (kind, reaches) = w.reached(l);
    let frame = match l.sure {
        Sure::Frame | Sure::May => frame(&l.frames, number(l.in_port)),
        Sure::Content => None,
    };
    let sure = match l.sure {
        Sure::Frame => "frame",
        Sure::Content => "content",
        Sure::May => "may",
    };
    let out = match l.reaches {
        Reaches::Port(p) => Some(PortId(number(p) as u16)),
        _ => None,
    };
    let item = LeakItem {
        from: w.network(l.from),
        to: l.to.map(|n| w.network(n)),
        kind: kind.to_owned(),
        reaches,
        vdp: w.vdp(l.vdp),
        by: w.by(l),
        by_rule: matches!(l.by, By::Rule(..) | By::Alone),
        in_port: w.port(l.in_port),
        frames: w.anywhere(&l.frames),
        leaves: l.leaves.map(|m| w.anywhere(&m)),
        sure: sure.to_owned(),
        frame: frame.as_deref().map(crate::socket::protocol::to_hex),
        traced: None,
        there_before: false,
    };
    let (in_port, vid) = (PortId(number(l.in_port) as u16), known.map_or(0, |k| k.vid.0));
    Shown { item, frame, in_port, out, vid }
}
