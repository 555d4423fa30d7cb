//! What is said over the control socket: one JSON object a line, both ways.
//!
//! Room: data. A request is one line of at most [`MAX_REQUEST_BYTES`]; the answer is any number of
//! lines `{"item": …}` and then one line `{"ok": …}` or `{"error": …}`. Both the server and the
//! client commands read these types.

use super::items::{FrameItem, PlaneItem, PortItem, RouterItem, RuleItem, VdpItem};
use super::moves::{MovingItem, PlaceItem, Way};
use crate::verify::{LeakItem, VerifiedItem};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The longest request, its newline included.
pub const MAX_REQUEST_BYTES: usize = 4 << 20;
/// The longest line of an answer, its newline included.
pub const MAX_REPLY_BYTES: usize = 4 << 20;

/// What a client asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Ports, VDPs, mapping, TCAM, channels; rules where asked for.
    Show {
        /// Only this VDP, by number or name.
        #[serde(default)]
        vdp: Option<String>,
        /// Whether rules come, too.
        #[serde(default)]
        rules: WithRules,
    },
    /// Counters alone.
    Stats {},
    /// Opens a port.
    PortAdd {
        /// Its name.
        name: String,
        /// What it is made of.
        device: String,
    },
    /// Removes a port.
    PortRemove {
        /// Its name.
        name: String,
    },
    /// Makes a port of this name be of this device and somebody's: opened where there is none, opened
    /// anew where it is made of something else.
    PortPut {
        /// Its name.
        name: String,
        /// What it is made of.
        device: String,
        /// The mark of whoever keeps it.
        label: String,
    },
    /// Removes a port that somebody keeps; one of the configuration file is not removed so.
    PortDelete {
        /// Its name.
        name: String,
    },
    /// Makes a VDP.
    VdpCreate {
        /// A `[[vdp]]` section, as in a configuration.
        toml: String,
        /// The file that it stands in; without, errors name no place.
        #[serde(default)]
        file: Option<String>,
    },
    /// Changes a VDP.
    VdpSet {
        /// Which, by number or name.
        vdp: String,
        /// A `[[vdp]]` section with what shall change; its `vid` is not looked at.
        toml: String,
    },
    /// Makes a VDP exactly what a section says: made where there is none of its number, changed in what
    /// differs where there is.
    VdpPut {
        /// A whole `[[vdp]]` section, as in a configuration.
        toml: String,
    },
    /// Several changes in order, each between two bursts; it ends at the first that is refused, and those
    /// before it stay.
    Batch {
        /// Changes: no batch, migration, capture or question among them.
        of: Vec<Request>,
    },
    /// Deletes a VDP.
    VdpDelete {
        /// Which, by number or name.
        vdp: String,
    },
    /// Moves a VDP to another path, and waits until it has arrived.
    VdpMigrate {
        /// Which, by number or name.
        vdp: String,
        /// "fast" or "slow".
        to: String,
    },
    /// Begins a turn of whoever keeps networks here in a store: answered with its number when what was asked
    /// for in earlier turns is done.
    Turn {
        /// The store's number.
        store: u64,
    },
    /// A request of a turn: refused when a later one of that store has begun. So what somebody has asked
    /// for who was killed since is done before his successor looks, or never.
    InTurn {
        /// The store's number.
        store: u64,
        /// The turn's.
        turn: u64,
        /// Any request but this.
        what: Box<Request>,
    },
    /// Does a step of a VDP's way to another node, or back.
    VdpMove {
        /// Which, by number or name.
        vdp: String,
        /// Which step.
        way: Way,
    },
    /// Adds a rule, or gives the one with the same match and priority other actions.
    RuleAdd {
        /// Whose, by number or name.
        vdp: String,
        /// In the flow syntax.
        flow: String,
        /// "fast", "slow" or "spill".
        #[serde(default)]
        placement: Option<String>,
    },
    /// Removes a rule.
    RuleDel {
        /// Whose, by number or name.
        vdp: String,
        /// Table, priority and match in the flow syntax.
        flow: String,
    },
    /// Adds a mapping rule.
    MappingAdd {
        /// Whose, by number or name.
        vdp: String,
        /// In the flow syntax, with the data plane's ports.
        #[serde(rename = "match")]
        matcher: String,
        /// Larger wins.
        priority: u32,
    },
    /// Removes a mapping rule.
    MappingDel {
        /// Whose, by number or name.
        vdp: String,
        /// As it was added.
        #[serde(rename = "match")]
        matcher: String,
        /// As it was added.
        priority: u32,
    },
    /// Makes a virtual router exactly what is said: made where there is none of its VDP's number, changed in
    /// what differs where there is.
    RouterPut {
        /// Its VDP: a whole `[[vdp]]` section, as in a configuration, without wires.
        toml: String,
        /// The router.
        router: weir_supervisor::model::router::Router,
        /// Where it is made: whose its addresses were.
        #[serde(default, skip_serializing_if = "Addresses::are_new")]
        addresses: Addresses,
    },
    /// Deletes a virtual router with its VDP; answered when nothing of it is left.
    RouterDelete {
        /// Which, by number or name of its VDP.
        router: String,
    },
    /// Virtual routers and how they do.
    RouterShow {},
    /// Proves that no network reaches another.
    Verify {
        /// Networks of several VDPs: a name, and VDPs by number or name. Others are one each.
        #[serde(default)]
        networks: Vec<(String, Vec<String>)>,
        /// Leaks that are told at most.
        leaks: usize,
        /// As if these changes had been made.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        after: Vec<Request>,
    },
    /// Copies frames until the client hangs up, or `count` have been sent.
    Capture {
        /// Only at this port.
        #[serde(default)]
        port: Option<String>,
        /// Only of this VDP.
        #[serde(default)]
        vdp: Option<String>,
        /// Only at the end of this stage.
        #[serde(default)]
        stage: Option<String>,
        /// Only frames that match this, in the flow syntax.
        #[serde(default)]
        filter: Option<String>,
        /// So many.
        #[serde(default)]
        count: Option<u64>,
    },
}

/// Whose a new router's IPv6 addresses were. Nobody is asked whether those that its node had are another's (RFC 4862 §5.4): for
/// as long as that takes, two seconds, it could use none of them, and where its node was before, that would answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Addresses {
    /// Nobody's: the kernel asks.
    #[default]
    New,
    /// Its node's, which was a VDP, or elsewhere, or was taken away to be made anew.
    Kept,
}

impl Addresses {
    fn are_new(&self) -> bool {
        *self == Self::New
    }
}

/// Whether rules come with what is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WithRules {
    /// They do.
    Yes,
    /// They do not.
    #[default]
    No,
}

/// One line of an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// A part of the answer.
    Item(Item),
    /// The end: it was done.
    Ok(Done),
    /// The end: it was not, and nothing has changed.
    Error(Refusal),
}

/// Why something was not done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// Who is at fault.
    pub fault: Fault,
    /// What, where, and how to mend it, in one line.
    pub text: String,
}

/// Who is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// What was asked.
    Input,
    /// The machine, or the moment.
    Work,
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// What happened, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Frames that a capture has sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured: Option<u64>,
    /// Frames that did not fit a capture's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
    /// How a node became one of the other kind, or took the other path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub became: Option<Box<Became>>,
}

/// How a node became one of the other kind, or took the other path: the proof that nothing was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Became {
    /// What its VDP is called.
    pub name: String,
    /// What it is now: "router" or "vdp"; or the path that it takes now: "fast" or "slow".
    pub kind: String,
    /// From the first step to the last.
    pub took_ns: u64,
    /// The longest that a frame waited for the path before it to be empty; for another kind, the longest time
    /// for which the data plane took no frames for it, while frames changed over.
    pub longest_pause_ns: u64,
    /// Frames that waited so.
    #[serde(default)]
    pub buffered: u64,
    /// What it had counted when it began.
    pub before: Counted,
    /// What it has counted, as both.
    pub after: Counted,
    /// Frames of it that were dropped meanwhile and that no rule, meter, program or setting says to drop.
    pub lost: u64,
    /// Whether all that came has gone, or is inside: received + generated + cloned = forwarded + consumed +
    /// dropped + held.
    pub conserved: bool,
}

/// A node's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counted {
    /// Mapped to it.
    pub received: u64,
    /// Left by a port.
    pub forwarded: u64,
    /// Made by its program.
    pub generated: u64,
    /// Copies.
    pub cloned: u64,
    /// Ended at its program.
    pub consumed: u64,
    /// Dropped.
    pub dropped: u64,
    /// Of those, frames that were to be dropped: by a rule or the lack of one, a meter, a program, TTL or a
    /// setting.
    #[serde(default)]
    pub meant: u64,
    /// Inside.
    pub held: u64,
}

impl Became {
    /// With what follows from both counts.
    pub fn weighed(self) -> Self {
        let a = self.after;
        let came = a.received + a.generated + a.cloned;
        Self {
            lost: (a.dropped - a.meant.min(a.dropped))
                .saturating_sub(self.before.dropped.saturating_sub(self.before.meant)),
            conserved: came == a.forwarded + a.consumed + a.dropped + a.held,
            ..self
        }
    }
}

/// A part of an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Item {
    /// The data plane as a whole.
    Plane(PlaneItem),
    /// A port.
    Port(Box<PortItem>),
    /// A VDP.
    Vdp(Box<VdpItem>),
    /// A rule.
    Rule(RuleItem),
    /// A virtual router.
    Router(Box<RouterItem>),
    /// A way from one network to another.
    Leak(Box<LeakItem>),
    /// What was verified, and how it ended.
    Verified(Box<VerifiedItem>),
    /// The number of a turn that has begun.
    Turn(u64),
    /// How far a VDP's way to another node came.
    Moving(MovingItem),
    /// A part of a VDP that moves, in hexadecimal digits.
    Piece(String),
    /// Where connections of a VDP that comes can come.
    Place(PlaceItem),
    /// A captured frame.
    Frame(FrameItem),
    /// Nothing; a capture that still waits says so now and then.
    Waiting,
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS.get(usize::from(n & 15)).copied().unwrap_or(b'0'));
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(*b)]).collect()
}

/// The bytes behind hexadecimal digits; `None` when they are not that.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let value = |c: &u8| char::from(*c).to_digit(16).map(|d| d as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|p| match p {
            [a, b] => Some(value(a)? << 4 | value(b)?),
            _ => None,
        })
        .collect()
}
