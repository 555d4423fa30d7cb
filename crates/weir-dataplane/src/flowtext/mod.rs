//! Open vSwitch's flow syntax: read into [`FlowSpec`], and written back.
//!
//! Room: text on one side, `Match` and `Action` on the other; no tables, no sockets, no files.
//! Called by configuration, `weir bench`, `weir show` and `weir trace`.
//!
//! The language is what `ovs-ofctl -O OpenFlow13 add-flows` reads (ovs-fields(7), ovs-actions(7)),
//! with Open vSwitch as the judge in `tests/flowtext_judge.rs`. Where weir differs, it is on
//! purpose:
//! - what Open vSwitch drops with a note in its log, or cuts to a field's width, is an error here:
//!   a field without its prerequisite, a field given twice, a value too large, an octal number;
//! - masks may be put on every field, since weir's tables are ternary in every field;
//! - `pbb_isid`, `ipv6_exthdr`, `inner_vlan_tci`, the VDP's own fields, and the actions `channel`,
//!   `mirror`, `encap_vxlan`, `decap_vxlan`, `encap_gre`, `decap_gre`, `push_pbb`, `pop_pbb`,
//!   `copy_ttl_in` and `copy_ttl_out` are added;
//! - in `write_actions(...)` stands what an action set can hold, with the same prerequisites as
//!   outside; what Open vSwitch leaves out of it (`drop`) or can't send (`enqueue`) is refused;
//! - `resubmit`, `learn`, `ct` and registers are refused with a hint.
//!
//! The added actions' arguments:
//!
//! ```text
//! channel
//! mirror:PORT
//! encap_vxlan(vni=N,src=IP,dst=IP,eth_src=MAC,eth_dst=MAC[,ttl=64][,tos=0][,port=4789])
//! encap_gre(src=IP,dst=IP,eth_src=MAC,eth_dst=MAC[,key=N][,seq=N][,csum=no|yes][,ttl=64][,tos=0])
//! decap_vxlan   decap_gre   push_pbb:0x88e7   pop_pbb   copy_ttl_in   copy_ttl_out
//! ```
//!
//! - `token`: cuts a line into keys and values; `value`: numbers and addresses;
//! - `words`: names of fields and ports; `matches`: the match and the flow's attributes;
//! - `actions`, `written`, `setfield`, `tunnel`: the actions; `shape`: what they may presuppose;
//! - `show`: back to text; `error`: what can be wrong and where.

mod actions;
mod error;
mod matches;
mod setfield;
mod shape;
mod show;
mod token;
mod tunnel;
mod value;
mod words;
mod written;

pub use error::{FlowError, FlowErrorKind};
pub use show::{ActionsText, FlowText, KeyText, MatchText};
pub use words::is_reserved_port;

use crate::action::{Action, PortNo};
use crate::userfield::UserFields;
use error::{Fault, Parse};
use shape::Shape;
use weir_classify::Match;

/// Longest line that is read, in bytes.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// The priority of a flow that names none (as Open vSwitch has it).
pub const DEFAULT_PRIORITY: u16 = 32768;

/// OpenFlow's number of the switch's own stack, `LOCAL` (1.3, §A.2.1).
pub const LOCAL_PORT: PortNo = PortNo(0xffff_fffe);

/// Names that a text may use besides the fixed ones.
pub trait Names {
    /// The port called `name`.
    fn port(&self, name: &str) -> Option<PortNo>;
    /// What a port is called.
    fn port_name(&self, port: PortNo) -> Option<&str>;
    /// The VDP's own fields.
    fn user_fields(&self) -> &UserFields;
}

/// No names: ports are numbers and the VDP has no fields of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {
    fn port(&self, _: &str) -> Option<PortNo> {
        None
    }
    fn port_name(&self, _: PortNo) -> Option<&str> {
        None
    }
    fn user_fields(&self) -> &UserFields {
        UserFields::none()
    }
}

/// A flow's flags, with the bits of OpenFlow 1.3 (§A.3.4.1, `ofp_flow_mod_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowFlags(pub u16);

impl FlowFlags {
    /// Tell the controller when the flow goes.
    pub const SEND_FLOW_REM: FlowFlags = FlowFlags(1);
    /// Refuse the flow when it overlaps one of the same priority.
    pub const CHECK_OVERLAP: FlowFlags = FlowFlags(2);
    /// Start its counters anew.
    pub const RESET_COUNTS: FlowFlags = FlowFlags(4);
    /// Frames need not be counted.
    pub const NO_PACKET_COUNTS: FlowFlags = FlowFlags(8);
    /// Bytes need not be counted.
    pub const NO_BYTE_COUNTS: FlowFlags = FlowFlags(16);

    const NAMES: [(FlowFlags, &'static str); 5] = [
        (Self::SEND_FLOW_REM, "send_flow_rem"),
        (Self::CHECK_OVERLAP, "check_overlap"),
        (Self::RESET_COUNTS, "reset_counts"),
        (Self::NO_PACKET_COUNTS, "no_packet_counts"),
        (Self::NO_BYTE_COUNTS, "no_byte_counts"),
    ];

    /// Whether all of `other` are set.
    pub const fn contains(self, other: FlowFlags) -> bool {
        self.0 & other.0 == other.0
    }
    /// These and `other`.
    #[must_use]
    pub const fn with(self, other: FlowFlags) -> FlowFlags {
        FlowFlags(self.0 | other.0)
    }
}

/// One flow as its text says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Its table, 0 to 254.
    pub table: u8,
    /// Larger wins.
    pub priority: u16,
    /// The controller's own mark.
    pub cookie: u64,
    /// Goes after this many seconds without a frame; 0: never.
    pub idle_timeout: u16,
    /// Goes after this many seconds; 0: never.
    pub hard_timeout: u16,
    /// Its flags.
    pub flags: FlowFlags,
    /// Which frames.
    pub matcher: Match,
    /// What happens to them, in order. Never empty when read from text: to drop is an action.
    pub actions: Vec<Action>,
}

impl Default for FlowSpec {
    fn default() -> Self {
        Self {
            table: 0,
            priority: DEFAULT_PRIORITY,
            cookie: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            flags: FlowFlags::default(),
            matcher: Match::any(),
            actions: Vec::new(),
        }
    }
}

/// Reads one flow.
///
/// # Errors
/// [`FlowError`] on line 1 with column, word, what is wrong and how to mend it.
pub fn parse_flow(line: &str, names: &dyn Names) -> Result<FlowSpec, FlowError> {
    parse_line(line, names, &mut Vec::new()).map_err(|f| f.locate(line, 1))
}

/// Reads a match alone, as in `ip,nw_dst=10.0.0.0/8`: a mapping rule, a filter. Empty: everything.
///
/// # Errors
/// [`FlowError`], as [`parse_flow`].
pub fn parse_match(text: &str, names: &dyn Names) -> Result<Match, FlowError> {
    too_long(text).and_then(|()| matches::parse_match(text, names)).map_err(|f| f.locate(text, 1))
}

/// Reads actions alone, as in `dec_ttl,output:2`, for frames that fit `matcher`, in table `table`.
///
/// # Errors
/// [`FlowError`], as [`parse_flow`].
pub fn parse_actions(
    text: &str,
    names: &dyn Names,
    table: u8,
    matcher: &Match,
) -> Result<Vec<Action>, FlowError> {
    actions_of(text, names, table, Shape::of(matcher))
}

/// Reads the actions of a group's bucket. A bucket has no match, so that nothing is asked of frames (as OpenFlow and
/// Open vSwitch have it): one that has not what an action changes goes on unchanged.
///
/// # Errors
/// [`FlowError`], as [`parse_flow`].
pub fn parse_bucket(text: &str, names: &dyn Names) -> Result<Vec<Action>, FlowError> {
    actions_of(text, names, 0, Shape::of_bucket())
}

fn actions_of(
    text: &str,
    names: &dyn Names,
    table: u8,
    shape: Shape,
) -> Result<Vec<Action>, FlowError> {
    let mut out = Vec::new();
    too_long(text)
        .and_then(|()| actions::parse(text, names, table, shape, &mut out))
        .map_err(|f| f.locate(text, 1))?;
    Ok(out)
}

/// Reads a file of flows: one a line, `#` begins a comment, blank lines are skipped.
///
/// # Errors
/// The first [`FlowError`], with its line.
pub fn parse_flows(text: &str, names: &dyn Names) -> Result<Vec<FlowSpec>, FlowError> {
    let mut flows = Vec::new();
    let mut scratch = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if is_blank(line) {
            continue;
        }
        flows.push(parse_line(line, names, &mut scratch).map_err(|f| f.locate(line, i + 1))?);
    }
    Ok(flows)
}

fn is_blank(line: &str) -> bool {
    let begin = line.bytes().find(|b| !b.is_ascii_whitespace());
    matches!(begin, None | Some(b'#'))
}

fn too_long(line: &str) -> Parse<'_, ()> {
    if line.len() > MAX_LINE_BYTES {
        let kind = FlowErrorKind::LineTooLong { bytes: line.len(), max: MAX_LINE_BYTES };
        return Err(Fault::new(line, kind));
    }
    Ok(())
}

fn parse_line<'a>(
    line: &'a str,
    names: &dyn Names,
    scratch: &mut Vec<Action>,
) -> Parse<'a, FlowSpec> {
    too_long(line)?;
    let text = line.split('#').next().unwrap_or_default();
    let (mut spec, rest) = matches::parse_head(text, names)?;
    let Some(rest) = rest else {
        return Err(Fault::new(text.trim(), FlowErrorKind::NoActions));
    };
    scratch.clear();
    actions::parse(rest, names, spec.table, Shape::of(&spec.matcher), scratch)?;
    // One allocation of the right size, however the list grew.
    spec.actions.reserve_exact(scratch.len());
    spec.actions.append(scratch);
    Ok(spec)
}

/// Whether the flow syntax has this word already: a field, a keyword, an attribute.
pub(crate) fn is_reserved(name: &str) -> bool {
    words::term(name, &NoNames).is_some()
}
