//! What is verified: a shared data plane in words that know no switch: ports, mapping rules,
//! virtual data planes with their tables, and which network each belongs to.
//!
//! Room: plain data, made by whoever knows the switch. Headers are [`WORDS`] words whose fields the
//! verifier does not know, but for the ingress port.

use super::cube::Cube;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Words of a header.
pub const WORDS: usize = 19;
/// A header.
pub type Bits = [u64; WORDS];
/// A set of headers.
pub type Match = Cube<WORDS>;

/// A run of bits within a word of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldAt {
    /// Which word.
    pub word: usize,
    /// Bits below it.
    pub shift: u32,
    /// Its bits, at most 64.
    pub width: u32,
}

impl FieldAt {
    /// Its bits as a mask of the word.
    pub const fn mask(self) -> u64 {
        (if self.width >= 64 { u64::MAX } else { (1 << self.width) - 1 }) << self.shift
    }
    /// The headers in which it is `value`.
    pub fn is(self, value: u64) -> Match {
        let (mut mask, mut bits) = ([0; WORDS], [0; WORDS]);
        if let (Some(m), Some(b)) = (mask.get_mut(self.word), bits.get_mut(self.word)) {
            (*m, *b) = (self.mask(), value << self.shift);
        }
        Match::new(mask, bits)
    }
    /// Its bits as a mask of the header.
    pub fn bits(self) -> Bits {
        self.is(0).mask
    }
}

/// What the verifier must know of headers.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The ingress port: in mapping rules and shares the plane's number, in tables the VDP's.
    pub in_port: FieldAt,
    /// What holds of every frame that comes in, such as no metadata.
    pub start: Match,
    /// Sets of headers in one of which every frame is; none: any header is a frame's.
    pub shapes: Vec<Match>,
}

/// A port of the plane.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its number in [`Layout::in_port`].
    pub number: u32,
}

/// Who frames may be sent to.
#[derive(Clone, Debug)]
pub struct Controller {
    /// Its name or address.
    pub name: String,
    /// The networks that it controls.
    pub networks: Vec<usize>,
}

/// A rule of the mapping stage.
#[derive(Clone, Debug)]
pub struct MapRule {
    /// Whose frames these are, by place in [`Plane::vdps`].
    pub vdp: usize,
    /// Which frames.
    pub matcher: Match,
    /// Larger wins; among equals either may.
    pub priority: i64,
    /// Whether the rule takes all of `matcher`.
    pub takes: Takes,
}

/// How much of a cube a rule takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// All.
    All,
    /// Some, by bytes that are no part of the header.
    Some,
}

/// A network's part of ports' frames.
#[derive(Clone, Debug)]
pub struct Share {
    /// Whose.
    pub network: usize,
    /// Which frames, at which ports.
    pub matcher: Match,
    /// Larger wins.
    pub priority: i64,
}

/// A virtual data plane.
#[derive(Clone, Debug)]
pub struct Vdp {
    /// Its name.
    pub name: String,
    /// Its network, by place in [`Plane::networks`].
    pub network: usize,
    /// Its ports: its number for each, and the place in [`Plane::ports`].
    pub ports: Vec<(u32, usize)>,
    /// Its tables.
    pub tables: Vec<Table>,
    /// What a frame without a rule gets.
    pub default: Vec<Act>,
    /// What every frame may get instead of all that, at times: while controllers are away.
    pub alone: Vec<Act>,
    /// What its slow path does.
    pub program: Program,
    /// Its controllers, by place in [`Plane::controllers`].
    pub controllers: Vec<usize>,
    /// Its groups.
    pub groups: BTreeMap<u32, Group>,
}

impl Vdp {
    /// Whether its frames end there with nobody the wiser: it has nothing that could act on them.
    pub fn is_sink(&self) -> bool {
        self.default.is_empty()
            && self.alone.is_empty()
            && self.program == Program::Nothing
            && self.tables.iter().all(|t| t.rules().is_empty())
    }
}

/// A table; rules by falling priority.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rules: Vec<Rule>,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Which frames.
    pub matcher: Match,
    /// Larger wins; among equals either may.
    pub priority: u32,
    /// What to do.
    pub acts: Arc<[Act]>,
}

impl Table {
    /// A table of these rules.
    pub fn new(mut rules: Vec<Rule>) -> Self {
        rules.sort_by_key(|r| std::cmp::Reverse(r.priority));
        Self { rules }
    }
    /// Its rules, by falling priority.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
    /// Those above a priority.
    pub fn above(&self, priority: u32) -> &[Rule] {
        let end = self.rules.partition_point(|r| r.priority > priority);
        self.rules.get(..end).unwrap_or_default()
    }
    /// Adds a rule, in the place of the one with its match and priority if there is one.
    pub fn put(&mut self, rule: Rule) {
        self.remove(&rule.matcher, rule.priority);
        let at = self.rules.partition_point(|r| r.priority >= rule.priority);
        self.rules.insert(at, rule);
    }
    /// Takes a rule away; says whether it was there.
    pub fn remove(&mut self, matcher: &Match, priority: u32) -> bool {
        let same = |r: &Rule| r.priority == priority && r.matcher == *matcher;
        let at = self.rules.iter().position(same);
        at.map(|at| self.rules.remove(at)).is_some()
    }
}

/// A group: every bucket that may be taken.
#[derive(Clone, Debug)]
pub struct Group {
    /// Whose it is, with its counters.
    pub network: usize,
    /// What each bucket does.
    pub buckets: Vec<Arc<[Act]>>,
}

/// What a slow-path program does with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// There is none, or it sends nothing.
    Nothing,
    /// It sends what it gets, as it was, by any of the VDP's ports.
    Passes,
    /// It may send any frame by any of the VDP's ports.
    Anything,
}

/// One action.
#[derive(Clone, Debug)]
pub enum Act {
    /// Change the header.
    Edit(Edit),
    /// One of these that the frame is fit for; a frame that is fit for none ends.
    Cases(Vec<Case>),
    /// Send a copy.
    Output(To),
    /// A copy to a group.
    Group(u32),
    /// A copy to the controllers.
    Controller,
    /// To the slow path's program.
    Program,
    /// Go on with a later table.
    Goto(u8),
    /// Merge into the action set, each list under a kind; sets are carried out by rising kind, and
    /// of [`GROUP_KIND`] and [`OUTPUT_KIND`] the group.
    Write(Vec<(u8, Vec<Act>)>),
    /// Empty the action set.
    Clear,
}

/// The kind of groups in action sets.
pub const GROUP_KIND: u8 = 126;
/// The kind of outputs in action sets.
pub const OUTPUT_KIND: u8 = 127;

/// What is done to frames of one sort.
#[derive(Clone, Debug)]
pub struct Case {
    /// The frames.
    pub when: Box<Match>,
    /// But not these.
    pub unless: Vec<Match>,
    /// What is done.
    pub edits: Vec<Edit>,
}

/// A change of the header.
#[derive(Clone, Debug)]
pub enum Edit {
    /// These bits become this.
    Set(Box<Match>),
    /// A field becomes what another is, of the same width.
    Copy(FieldAt, FieldAt),
    /// These bits become what the frame's sender put into it further behind.
    Reveal(Box<Bits>),
    /// These bits become something that is not followed.
    Unknown(Box<Bits>),
}

/// Where an output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// A port, by place in [`Plane::ports`]; never the one the frame came by.
    Port(usize),
    /// The port that the frame came by.
    InPort,
    /// All ports of the VDP but that.
    All,
}

/// A shared data plane as it is set up.
#[derive(Clone, Debug)]
pub struct Plane {
    /// Its headers.
    pub layout: Layout,
    /// Networks' names.
    pub networks: Vec<String>,
    /// Ports.
    pub ports: Vec<Port>,
    /// Controllers.
    pub controllers: Vec<Controller>,
    /// Virtual data planes.
    pub vdps: Vec<Vdp>,
    /// Which frame is whose.
    pub mapping: Vec<MapRule>,
    /// The VDP that takes what no mapping rule takes.
    pub rest: Option<usize>,
    /// The parts of ports that networks have where several share one; `None`: what the mapping
    /// rules say.
    pub shares: Option<Vec<Share>>,
}
