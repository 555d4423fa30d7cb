//! A frame's way as data: what `--json` prints, and what `words` tells.

use super::change::{ByteChange, FieldChange, hex, of_bytes, of_fields};
use super::setup::{Setup, TracePort};
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use weir_classify::{Field, FlowKey};
use weir_dataplane::flowtext::{ActionsText, KeyText, MatchText, Names, NoNames};
use weir_dataplane::trace::{Fallback, Step};
use weir_dataplane::{Chosen, Path, Phase, PortNo, Punt, RuleSpec, UserFields, VdpView, Verdict};
use weir_packet::{DropReason, PortId};

/// All of it.
#[derive(Debug, Serialize)]
pub struct Told {
    /// The port by which the frame came in.
    pub in_port: String,
    /// The frame, in hex.
    pub frame: String,
    /// Its length in bytes, without FCS.
    pub bytes: usize,
    /// Its way.
    pub steps: Vec<TellStep>,
    /// Where the port has a shortcut: whether the kernel forwards the frame by itself, or why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortcut: Option<String>,
    /// What the program did, where the way ended at one.
    pub program: Option<Program>,
}

/// A rule.
#[derive(Debug, Serialize)]
pub struct Rule {
    /// Larger wins.
    pub priority: u32,
    /// What it matches, in the flow syntax; empty: everything.
    #[serde(rename = "match")]
    pub matcher: String,
    /// What it does; mapping rules do nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actions: Option<String>,
}

/// A step.
#[derive(Debug, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum TellStep {
    /// The key and the VDP.
    Mapping { key: String, vid: u16, vdp: String, rule: Option<Rule> },
    /// Where the VDP is.
    Path { path: &'static str },
    /// A table.
    Table { table: u8, rule: Option<Rule> },
    /// The default rule.
    Default { does: String },
    /// A change.
    Change { actions: String, fields: Vec<FieldChange>, bytes: Vec<ByteChange> },
    /// A meter.
    Meter { id: u32, verdict: String },
    /// A group.
    Group { id: u32, buckets: String },
    /// The software stage.
    Software { why: &'static str },
    /// A program.
    Program { name: &'static str, frame: String },
    /// Controllers or own stack.
    Consumed { frame: String },
    /// A port.
    Output { port: String, frame: String, bytes: usize, queue: u32, refused: Option<&'static str> },
    /// Held.
    Held,
    /// Dropped.
    Dropped { reason: &'static str },
}

/// What a program did with the frame.
#[derive(Debug, Default, Serialize)]
pub struct Program {
    /// Frames that left: port, bytes in hex, and whether the program made them or changed them.
    pub sent: Vec<Sent>,
    /// Frames that ended there.
    pub consumed: u64,
    /// Frames that it keeps.
    pub held: u64,
    /// Dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
}

/// A frame that a program let out.
#[derive(Debug, Serialize)]
pub struct Sent {
    /// The port.
    pub port: String,
    /// The frame, in hex.
    pub frame: String,
    /// Its length in bytes.
    pub bytes: usize,
    /// How it differs from what the program got.
    pub fields: Vec<FieldChange>,
}

/// The data plane's ports by the names that people use.
struct PortNames<'a>(&'a [TracePort]);

impl Names for PortNames<'_> {
    fn port(&self, _: &str) -> Option<PortNo> {
        None
    }
    fn port_name(&self, port: PortNo) -> Option<&str> {
        self.0.iter().find(|p| u32::from(p.id.0) == port.0).map(|p| p.name.as_str())
    }
    fn user_fields(&self) -> &UserFields {
        UserFields::none()
    }
}

/// Follows the frame.
pub fn tell(setup: &mut Setup, frame: &[u8]) -> Result<Told> {
    let traced = setup.plane.trace(setup.in_port, frame).map_err(crate::fault::bad_input)?;
    let shortcut = shortcut(setup, frame);
    setup.run();
    let mut steps = traced.steps;
    for rest in traced.software {
        // The server has had its turn; one that is gone says nothing.
        steps.extend(rest.try_iter().flatten());
    }
    let program = steps.iter().any(|s| matches!(s, Step::Program { .. }));
    let program = program.then(|| passed(setup, frame, &steps)).transpose()?;
    let mut teller = Teller { setup, vdps: setup.plane.snapshot().vdps, vid: 0 };
    Ok(Told {
        in_port: setup.name_of(setup.in_port),
        frame: hex(frame),
        bytes: frame.len(),
        steps: steps.into_iter().map(|s| teller.step(s)).collect(),
        shortcut,
        program,
    })
}

/// What the port's shortcut does with the frame.
fn shortcut(setup: &Setup, frame: &[u8]) -> Option<String> {
    if !setup.shortcuts.contains(&setup.in_port) {
        return None;
    }
    Some(match setup.plane.shortcut_of(setup.in_port, frame, &setup.shortcuts) {
        Ok(Some(out)) => format!("the kernel forwards it by port {}", setup.name_of(out)),
        Ok(None) => "not of this frame: weir has it".to_owned(),
        Err(why) => format!("weir has it: {why}"),
    })
}

/// Lets the frame through, and takes from what came of it what the trace knew already.
fn passed(setup: &mut Setup, frame: &[u8], steps: &[Step]) -> Result<Program> {
    let sums = |setup: &Setup| {
        let mut all = weir_dataplane::VdpCounters::default();
        setup.plane.snapshot().vdps.iter().for_each(|v| all.merge(&v.counters));
        all
    };
    let mut known: Vec<(PortId, &[u8])> = Vec::new();
    let mut got = frame;
    let (mut consumed, mut dropped) = (0, Vec::new());
    for s in steps {
        match s {
            Step::Output { port, frame, refused: None, .. } => known.push((*port, frame)),
            Step::Output { refused: Some(why), .. } | Step::Dropped(why) => dropped.push(*why),
            Step::Consumed(_) => consumed += 1,
            Step::Program { frame, .. } => got = frame,
            _ => {}
        }
    }
    setup.settle();
    let before = sums(setup);
    let left = setup.pass(frame)?;
    let after = sums(setup);
    let consumed = after.consumed.saturating_sub(before.consumed + consumed);
    let mut p = Program { consumed, ..Program::default() };
    for (port, bytes) in left {
        if let Some(i) = known.iter().position(|(q, b)| *q == port && *b == bytes) {
            known.swap_remove(i);
            continue;
        }
        p.sent.push(Sent {
            port: setup.name_of(port),
            frame: hex(&bytes),
            bytes: bytes.len(),
            fields: of_fields(got, &bytes),
        });
    }
    for (why, n) in after.dropped.iter() {
        let told = dropped.iter().filter(|d| **d == why).count() as u64;
        if n > told {
            p.dropped.insert(why.label(), n - told);
        }
    }
    p.held = setup.plane.snapshot().vdps.iter().map(|v| v.held as u64).sum();
    Ok(p)
}

/// Puts steps into text.
struct Teller<'a> {
    setup: &'a Setup,
    vdps: Vec<VdpView>,
    /// The VDP that the frame belongs to.
    vid: u16,
}

impl Teller<'_> {
    /// The names that the VDP's rules are written with.
    fn own(&self) -> &dyn Names {
        self.setup.own_names.get(&self.vid).map_or(&NoNames as &dyn Names, |n| n)
    }
    /// A key in the data plane's port numbers, with the names or numbers that people use.
    fn key(&self, key: &FlowKey) -> String {
        let id = PortId(key.get(Field::InPort) as u16);
        match self.setup.name_of(id).parse::<u32>() {
            // Ports that are called by numbers are shown as numbers.
            Ok(no) => {
                let mut key = *key;
                key.set(Field::InPort, no.into());
                KeyText(&key, &NoNames).to_string()
            }
            Err(_) => KeyText(key, &PortNames(&self.setup.ports)).to_string(),
        }
    }
    fn rule(&self, r: &RuleSpec) -> Rule {
        Rule {
            priority: r.priority,
            matcher: MatchText(&r.matcher, self.own()).to_string(),
            actions: Some(ActionsText(&r.actions, self.own()).to_string()),
        }
    }
    fn step(&mut self, s: Step) -> TellStep {
        match s {
            Step::Mapped { key, vid, rule } => {
                self.vid = vid.0;
                let v = self.vdps.iter().find(|v| v.vid == vid);
                TellStep::Mapping {
                    key: self.key(&key),
                    vid: vid.0,
                    vdp: v.map_or_else(String::new, |v| v.name.clone()),
                    rule: rule.map(|r| Rule {
                        priority: r.priority,
                        matcher: MatchText(&r.matcher, &PortNames(&self.setup.ports)).to_string(),
                        actions: None,
                    }),
                }
            }
            Step::Phase(p) => TellStep::Path {
                path: match p {
                    Phase::On(Path::Fast) => "fast",
                    Phase::On(Path::Slow) => "slow",
                    Phase::Draining { .. } | Phase::Drained { .. } => "to the fast path",
                    Phase::Returning => "back to the slow path",
                    Phase::Leaving { .. } => "to another data plane",
                    Phase::Away => "at another data plane",
                    Phase::Coming { .. } => "back from another data plane",
                    Phase::Deleting { .. } => "deleted",
                },
            },
            Step::Table { table, rule } => {
                TellStep::Table { table, rule: rule.as_ref().map(|r| self.rule(r)) }
            }
            Step::Default(f) => TellStep::Default {
                does: match f {
                    Fallback::Drop => "drop".to_owned(),
                    Fallback::Software => "channel".to_owned(),
                    Fallback::Port(p) => format!("output by port {}", self.setup.name_of(p)),
                    Fallback::Program => "several actions".to_owned(),
                },
            },
            Step::Changed { by, before, after } => TellStep::Change {
                actions: if by.is_empty() {
                    String::new()
                } else {
                    ActionsText(&by, self.own()).to_string()
                },
                fields: of_fields(&before, &after),
                bytes: of_bytes(&before, &after),
            },
            Step::Metered(id, v) => TellStep::Meter {
                id,
                verdict: match v {
                    Verdict::Pass => "pass".to_owned(),
                    Verdict::Drop => "drop".to_owned(),
                    Verdict::Remark(n) => format!("drop precedence +{n}"),
                },
            },
            Step::Group(id, c) => TellStep::Group {
                id,
                buckets: match c {
                    Chosen::None => "none".to_owned(),
                    Chosen::One(i) => format!("bucket {i}"),
                    Chosen::All => "all".to_owned(),
                },
            },
            Step::Software(why) => TellStep::Software {
                why: match why {
                    Punt::Default => "default",
                    Punt::Action => "action",
                    Punt::Normal => "normal",
                    Punt::Local => "local",
                },
            },
            Step::Program { name, frame } => TellStep::Program { name, frame: hex(&frame) },
            Step::Consumed(frame) => TellStep::Consumed { frame: hex(&frame) },
            Step::Output { port, frame, queue, refused } => TellStep::Output {
                port: self.setup.name_of(port),
                frame: hex(&frame),
                bytes: frame.len(),
                queue,
                refused: refused.map(DropReason::label),
            },
            Step::Held => TellStep::Held,
            Step::Dropped(why) => TellStep::Dropped { reason: why.label() },
        }
    }
}
