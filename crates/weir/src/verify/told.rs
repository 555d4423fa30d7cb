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
    /// And its rule, in the flow syntax.
    pub by: String,
    /// Whether that is a rule of the VDP, in its own words: no part of it is another network's.
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
    /// What should be known of it.
    pub notes: Vec<String>,
    /// How long it took to read the rules, in microseconds.
    pub read_us: u64,
    /// And to decide.
    pub decide_us: u64,
}

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

impl Words<'_> {
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
    let port = |p: &weir_supervisor::verify::Port| (p.name.clone(), PortId(p.number as u16));
    let words = Words { plane, ports: plane.ports.iter().map(port).collect(), known: &g.vdps };
    report.leaks.iter().map(|l| leak(l, &words)).collect()
}

fn leak(l: &Leak, w: &Words<'_>) -> Shown {
    let vdp = w.plane.vdps.get(l.vdp);
    let known = w.known.get(l.vdp);
    let number = |at: usize| w.plane.ports.get(at).map_or(0, |p| p.number);
    let (kind, reaches) = match l.reaches {
        Reaches::Port(p) => ("port", format!("port {}", w.port(p))),
        Reaches::Rules => ("rules", "rules and counters".to_owned()),
        Reaches::Claimed => ("claim", "frames claimed with equal priority".to_owned()),
        Reaches::Controller(c) => {
            let name = w.plane.controllers.get(c).map_or("?", |c| &c.name);
            ("controller", format!("controller {name}"))
        }
        Reaches::Group(g) => ("group", format!("group {g}")),
    };
    let by = match l.by {
        By::Mapping(at) => w.mapping(at),
        By::Share(at) => format!("share {at}"),
        By::Rule(table, at) => w.rule(l.vdp, table, at),
        By::Default => "default rule".to_owned(),
        By::Program => "slow-path program".to_owned(),
    };
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
        vdp: format!(
            "VDP {} ({})",
            known.map_or(0, |k| k.vid.0),
            vdp.map_or("", |v| v.name.as_str())
        ),
        by,
        by_rule: matches!(l.by, By::Rule(..)),
        in_port: w.port(l.in_port),
        frames: w.anywhere(&l.frames),
        leaves: l.leaves.map(|m| w.anywhere(&m)),
        sure: sure.to_owned(),
        frame: frame.as_deref().map(crate::socket::protocol::to_hex),
        traced: None,
    };
    let (in_port, vid) = (PortId(number(l.in_port) as u16), known.map_or(0, |k| k.vid.0));
    Shown { item, frame, in_port, out, vid }
}
