//! From what a rule asks for to what the processing stage runs: done once, when a rule is
//! installed, never per frame.
//!
//! The common shapes become 004's action result (a bitmap and a few values); everything else gets a
//! program of operations beside it.

pub mod set;
mod ways;

use crate::action::{Action, Out, PortNo};
use crate::matching::MAX_TABLES;
use crate::processing::{ActionError, Change, compile as compile_change};
use thiserror::Error;
use ways::program;
pub(crate) use ways::written;
use weir_classify::Field;
use weir_packet::PortId;

/// 004 §4.2's bitmap.
pub mod bits {
    /// The port field is valid.
    pub const PORT_VALID: u8 = 1;
    /// Replace both MAC addresses.
    pub const CHANGE_MAC: u8 = 2;
    /// Decrement the TTL.
    pub const TTL: u8 = 4;
    /// Forward directly; otherwise the frame goes to the software stage.
    pub const FORWARD: u8 = 8;
    /// Drop.
    pub const DROP: u8 = 16;
    /// Beyond the paper: run the program.
    pub const PROGRAM: u8 = 32;
    /// Change the source MAC only (with [`CHANGE_MAC`]: both).
    pub const SRC_ONLY: u8 = 64;
    /// Change the destination MAC only.
    pub const DST_ONLY: u8 = 128;
    /// With [`PROGRAM`]: it changes the frame, which then leaves by the port field's port.
    pub const STRAIGHT: u8 = PORT_VALID;
    /// With [`STRAIGHT`], or [`METERED`] without [`ONWARD`]: its changes look at the frame and where its headers are, and at nothing else.
    pub const BY_HEADERS: u8 = TTL;
    /// With this program a frame goes on to a later table, and nothing else becomes of it than that it is changed.
    pub const ONWARD: u8 = PROGRAM | FORWARD;
    /// With [`ONWARD`]: it is not even changed, but for its action set.
    pub const UNCHANGED: u8 = TTL;
    /// With [`PROGRAM`], where addresses are the program's affair: it begins with one meter. Whom that lets pass goes on
    /// ([`ONWARD`]) or else leaves by the port field's port, and no more becomes of it than that it is changed.
    pub const METERED: u8 = CHANGE_MAC;
    /// With [`ONWARD`]: before all else it changes the frame's action set.
    pub const WRITES: u8 = DST_ONLY;
    /// With [`PROGRAM`], without [`FORWARD`], [`DROP`] and [`STRAIGHT`]: the action set comes next, if the frame has one, and before that it is
    /// changed at most; with [`UNCHANGED`] only its metadata is, which nobody sees any more.
    pub const ENDS: u8 = DST_ONLY;
    /// With [`PROGRAM`], without those, too: nothing becomes of frames but that they come to a group. Both bits together: it is neither
    /// [`ENDS`] nor [`METERED`].
    pub const GROUPED: u8 = ENDS | METERED;
    /// With [`PROGRAM`], where addresses are the program's affair: the rule is a table-miss entry
    /// (OpenFlow 1.3, §5.4).
    pub const TABLE_MISS: u8 = SRC_ONLY;
}

/// What a rule's match gives: how the frame will be processed (004 §4.2).
#[derive(Clone, Debug)]
pub struct ActionResult {
    /// [`bits`].
    pub bits: u8,
    /// Relative cost of processing one frame; a plain forward is 1.
    pub cost: u8,
    /// Output port; with [`bits::ONWARD`] the number of the table.
    pub port: PortId,
    /// New destination and source MAC, in wire order; with [`bits::PROGRAM`] what [`ActionResult::meter`], [`ActionResult::group`] and
    /// [`ActionResult::writes`] say.
    pub macs: [u8; 12],
    /// Operations for what the bitmap can't say.
    pub program: Option<Box<[Op]>>,
}

/// One operation of a program.
#[derive(Clone, Debug)]
pub enum Op {
    /// Change the frame.
    Change(Change),
    /// Output; the frame itself leaves with the last operation that takes it, copies before.
    Output(Target),
    /// Queue for the outputs that follow.
    SetQueue(u32),
    /// To the software stage.
    Channel(ChannelWhy),
    /// Meter.
    Meter(u32),
    /// Group.
    Group(u32),
    /// Copy to a port.
    Mirror(PortId),
    /// Metadata for the next table.
    Metadata(u64, u64),
    /// Next table.
    Goto(u8),
    /// Empty the action set. Stands in front of all others.
    Clear,
    /// Merge these into the action set. Stands in front of all others but [`Op::Clear`].
    Write(Box<[SetOp]>),
    /// Nothing: what stands in an action set for a change of no bits.
    Nothing,
}

/// An operation of an action set.
#[derive(Clone, Debug)]
pub struct SetOp {
    /// Its place; see [`set`].
    pub kind: u8,
    /// What it does.
    pub op: Op,
}

impl ActionResult {
    /// All meters that frames come to.
    pub fn meters(&self) -> impl Iterator<Item = u32> {
        self.program.iter().flatten().filter_map(|op| match op {
            Op::Meter(id) => Some(*id),
            _ => None,
        })
    }
    /// All its operations, those for the action set included.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        fn inner(op: &Op) -> &[SetOp] {
            match op {
                Op::Write(w) => w,
                _ => &[],
            }
        }
        let ops = self.program.iter().flatten();
        ops.flat_map(|op| std::iter::once(op).chain(inner(op).iter().map(|s| &s.op)))
    }
    /// What the same actions came down to before: tunnels go on with the sequences that they have there, since a
    /// receiver drops numbers that it has seen (RFC 2890 §2.2).
    pub fn count_on(&mut self, before: &Self) {
        let changes = |op: &Op| match op {
            Op::Change(c) => c.sequence().cloned(),
            _ => None,
        };
        let mut had = before.ops().filter_map(changes);
        let mut go_on = |op: &mut Op| {
            if let Op::Change(c) = op
                && let Some(new) = c.sequence_mut()
                && let Some(old) = had.next()
            {
                *new = old;
            }
        };
        for op in self.program.iter_mut().flatten() {
            go_on(op);
            if let Op::Write(set) = op {
                set.iter_mut().for_each(|s| go_on(&mut s.op));
            }
        }
    }
}

/// Why an action sends to the software stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelWhy {
    /// An explicit action.
    Action,
    /// NORMAL.
    Normal,
    /// The VDP's controllers; at most so many bytes.
    Controller(u16),
    /// The VDP's own stack.
    Local,
}

/// Why a frame goes to the controllers (OpenFlow 1.3, §A.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PuntReason {
    /// No rule took it, or a table-miss entry did.
    NoMatch,
    /// An action says so.
    Action,
    /// Its TTL can't be decremented.
    InvalidTtl,
}

/// What a controller is told of a frame beside its bytes and its ingress port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PuntMeta {
    /// Why it comes.
    pub reason: PuntReason,
    /// The table of the rule that sent it.
    pub table: u8,
    /// That rule's mark; all ones for the VDP's default.
    pub cookie: u64,
    /// Bytes of it that are wanted.
    pub max_len: u16,
    /// Its metadata then.
    pub metadata: u64,
    /// Its tunnel id then.
    pub tunnel_id: u64,
}

/// A resolved output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A port.
    Port(PortId),
    /// The ingress port.
    InPort,
    /// All, but the ingress port.
    All,
    /// All that take part in flooding, but the ingress port.
    Flood,
    /// The tables, from the first; in packet-outs.
    Table,
}

/// A list of actions that can't be installed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The VDP has no such port.
    #[error("VDP has no port {0}: add it to the VDP's ports first")]
    NoSuchPort(PortNo),
    /// A change that can't be.
    #[error(transparent)]
    Change(#[from] ActionError),
    /// `goto` to the same or an earlier table, or past the last.
    #[error("goto table {to} from table {from}: only a later table, up to 254")]
    Goto {
        /// From.
        from: u8,
        /// To.
        to: u8,
    },
    /// Actions after a goto would never run.
    #[error("goto must be the last action")]
    AfterGoto,
    /// `Out::Table` in a rule.
    #[error("output to TABLE is for packet-outs only: use goto")]
    OutTable,
    /// An action that has no place in an action set.
    #[error("meter, metadata, goto, drop and other action sets have no place in an action set")]
    NotInSet,
    /// An instruction in a packet-out.
    #[error("goto, metadata and action sets are for rules, not for packet-outs")]
    Instruction,
    /// A default rule that goes on with a table: a miss there would come back to it.
    #[error("goto is for rules, not for the default: add a rule of lowest priority to the table")]
    DefaultGoto,
    /// Too many.
    #[error("{0} actions: at most {max} are allowed", max = MAX_ACTIONS)]
    TooMany(usize),
    /// A group or meter that is not there.
    #[error("VDP has no {what} {id}: create it before the rule that uses it")]
    Missing {
        /// "group" or "meter".
        what: &'static str,
        /// Its number.
        id: u32,
    },
}

/// The longest list of actions that is accepted.
pub const MAX_ACTIONS: usize = 256;

/// Finds the data plane's port behind a VDP's port number.
pub trait ResolvePort {
    /// `None` when the VDP has no such port.
    fn port(&self, no: PortNo) -> Option<PortId>;
}

impl ActionResult {
    /// Drops.
    pub fn drop() -> Self {
        Self { bits: bits::DROP, cost: 1, port: PortId(0), macs: [0; 12], program: None }
    }
    /// 004's host forwarding: forward bit clear, by the VDP's channel.
    pub fn to_channel() -> Self {
        Self { bits: 0, cost: 2, port: PortId(0), macs: [0; 12], program: None }
    }
    /// Whether it is nothing but that.
    #[inline]
    pub fn is_to_channel(&self) -> bool {
        self.bits == 0
    }
}

fn mac(value: u128) -> [u8; 6] {
    let b = value.to_be_bytes();
    [b[10], b[11], b[12], b[13], b[14], b[15]]
}

/// 004's bitmap, where it can say the whole list: MAC changes and TTL in any order, then one
/// output.
fn paper_shape(actions: &[Action], table: &dyn ResolvePort) -> Option<ActionResult> {
    let mut r = ActionResult { bits: 0, cost: 1, port: PortId(0), macs: [0; 12], program: None };
    let (last, changes) = actions.split_last()?;
    let Action::Output(Out::Port(no)) = last else { return None };
    r.port = table.port(*no)?;
    let full = Field::EthDst.full();
    let (mut dst, mut src) = (false, false);
    for a in changes {
        match a {
            Action::SetField { field: Field::EthDst, value, mask } if *mask == full => {
                r.macs[..6].copy_from_slice(&mac(*value));
                dst = true;
            }
            Action::SetField { field: Field::EthSrc, value, mask } if *mask == full => {
                r.macs[6..].copy_from_slice(&mac(*value));
                src = true;
            }
            Action::DecTtl if r.bits & bits::TTL == 0 => r.bits |= bits::TTL,
            _ => return None,
        }
    }
    r.bits |= bits::PORT_VALID | bits::FORWARD;
    r.bits |= match (dst, src) {
        (true, true) => bits::CHANGE_MAC,
        (true, false) => bits::DST_ONLY,
        (false, true) => bits::SRC_ONLY,
        (false, false) => 0,
    };
    Some(r)
}

/// Compiles the actions of a rule in table `table`.
///
/// # Errors
/// [`CompileError`]; nothing has happened then.
pub fn compile(
    actions: &[Action],
    table: u8,
    ports: &dyn ResolvePort,
) -> Result<ActionResult, CompileError> {
    check_len(actions)?;
    if actions.contains(&Action::Drop) {
        // Nothing is done, which leaves what tables before have written: it is carried out where no table follows (1.3.5 §5.10).
        return Ok(if table == 0 { ActionResult::drop() } else { program(Vec::new()) });
    }
    let (list, written) = divide(actions)?;
    // In table 0 the set is empty before; where no table follows it is carried out at once. Not where it tells a controller, who
    // hears the cookie of what is applied alone (1.3.5 §7.4.1).
    if table == 0 && !matches!(list.last(), Some(Action::Goto(_))) {
        let set = set::as_list(&written.actions)?;
        let tells = |a: &Action| matches!(a, Action::Output(Out::Controller(_)));
        if !set.iter().any(tells) {
            let flat: Vec<Action> = list.into_iter().cloned().chain(set).collect();
            return compile_list(&flat, |a| op(a, table, ports), ports);
        }
    }
    if !written.is_nothing() || list.is_empty() {
        let mut ops = written.ops(table, ports)?;
        for (i, a) in list.iter().enumerate() {
            if matches!(a, Action::Goto(_)) && i + 1 != list.len() {
                return Err(CompileError::AfterGoto);
            }
            ops.extend(op(a, table, ports)?);
        }
        return Ok(program(ops));
    }
    let list: Vec<Action> = list.into_iter().cloned().collect();
    compile_list(&list, |a| op(a, table, ports), ports)
}

/// Compiles a VDP's default rule, which stands behind every table and so goes on with none.
///
/// # Errors
/// [`CompileError`]; nothing has happened then.
pub fn compile_default(
    actions: &[Action],
    ports: &dyn ResolvePort,
) -> Result<ActionResult, CompileError> {
    if actions.iter().any(|a| matches!(a, Action::Goto(_))) {
        return Err(CompileError::DefaultGoto);
    }
    compile(actions, 0, ports)
}

/// Compiles a bucket's actions, which are an action set (OpenFlow 1.3, §5.6).
///
/// # Errors
/// [`CompileError`]; nothing has happened then.
pub fn compile_bucket(
    actions: &[Action],
    ports: &dyn ResolvePort,
) -> Result<ActionResult, CompileError> {
    check_len(actions)?;
    if actions.contains(&Action::Drop) {
        return Ok(ActionResult::drop());
    }
    compile_list(&set::as_list(actions)?, |a| op(a, 0, ports), ports)
}

/// Compiles the actions of a packet-out, which may go to the tables.
///
/// # Errors
/// [`CompileError`]; nothing has happened then.
pub fn compile_packet_out(
    actions: &[Action],
    ports: &dyn ResolvePort,
) -> Result<ActionResult, CompileError> {
    check_len(actions)?;
    if actions.contains(&Action::Drop) {
        return Ok(ActionResult::drop());
    }
    let one = |a: &Action| match a {
        Action::Output(Out::Table) => Ok(Some(Op::Output(Target::Table))),
        Action::Goto(_)
        | Action::WriteActions(_)
        | Action::ClearActions
        | Action::WriteMetadata { .. } => Err(CompileError::Instruction),
        a => op(a, 0, ports),
    };
    compile_list(actions, one, ports)
}

fn check_len(actions: &[Action]) -> Result<(), CompileError> {
    let in_set = |a: &Action| if let Action::WriteActions(w) = a { w.len() } else { 0 };
    let n = actions.len() + actions.iter().map(in_set).sum::<usize>();
    if n > MAX_ACTIONS { Err(CompileError::TooMany(n)) } else { Ok(()) }
}

/// What a list does to the action set.
#[derive(Default)]
struct Written {
    clears: bool,
    actions: Vec<Action>,
}

impl Written {
    fn is_nothing(&self) -> bool {
        !self.clears && self.actions.is_empty()
    }
    fn ops(&self, table: u8, ports: &dyn ResolvePort) -> Result<Vec<Op>, CompileError> {
        let mut ops = Vec::new();
        if self.clears {
            ops.push(Op::Clear);
        }
        let mut written = Vec::new();
        for (kind, a) in set::ordered(&self.actions)? {
            // What changes nothing takes the place of what was there all the same.
            let op = op(a, table, ports)?.unwrap_or(Op::Nothing);
            written.push(SetOp { kind, op });
        }
        if !written.is_empty() {
            ops.push(Op::Write(written.into()));
        }
        Ok(ops)
    }
}

/// A list without what it does to the action set, and that.
fn divide(actions: &[Action]) -> Result<(Vec<&Action>, Written), CompileError> {
    let (mut list, mut w) = (Vec::with_capacity(actions.len()), Written::default());
    for a in actions {
        match a {
            Action::ClearActions => w = Written { clears: true, actions: Vec::new() },
            Action::WriteActions(more) => w.actions.extend_from_slice(more),
            other => list.push(other),
        }
    }
    set::ordered(&w.actions)?;
    Ok((list, w))
}

fn compile_list(
    actions: &[Action],
    one: impl Fn(&Action) -> Result<Option<Op>, CompileError>,
    ports: &dyn ResolvePort,
) -> Result<ActionResult, CompileError> {
    if actions.is_empty() {
        return Ok(ActionResult::drop());
    }
    if actions == [Action::ToChannel] {
        return Ok(ActionResult::to_channel());
    }
    if let Some(r) = paper_shape(actions, ports) {
        return Ok(r);
    }
    let mut ops = Vec::with_capacity(actions.len());
    for (i, a) in actions.iter().enumerate() {
        if matches!(a, Action::Goto(_)) && i + 1 != actions.len() {
            return Err(CompileError::AfterGoto);
        }
        ops.extend(one(a)?);
    }
    Ok(program(ops))
}

/// One action of a rule in table `table`. `None`: it does nothing.
fn op(a: &Action, table: u8, ports: &dyn ResolvePort) -> Result<Option<Op>, CompileError> {
    let resolve = |no: PortNo| ports.port(no).ok_or(CompileError::NoSuchPort(no));
    Ok(Some(match a {
        Action::Output(Out::Port(no)) => Op::Output(Target::Port(resolve(*no)?)),
        Action::Output(Out::InPort) => Op::Output(Target::InPort),
        Action::Output(Out::All) => Op::Output(Target::All),
        Action::Output(Out::Flood) => Op::Output(Target::Flood),
        Action::Output(Out::Normal) => Op::Channel(ChannelWhy::Normal),
        Action::Output(Out::Controller(n)) => Op::Channel(ChannelWhy::Controller(*n)),
        Action::Output(Out::Local) => Op::Channel(ChannelWhy::Local),
        Action::Output(Out::Table) => return Err(CompileError::OutTable),
        Action::SetQueue(q) => Op::SetQueue(*q),
        Action::ToChannel => Op::Channel(ChannelWhy::Action),
        Action::Group(g) => Op::Group(*g),
        Action::Meter(m) => Op::Meter(*m),
        Action::Mirror(no) => Op::Mirror(resolve(*no)?),
        Action::WriteMetadata { value, mask } => Op::Metadata(*value, *mask),
        Action::Goto(t) if *t <= table || usize::from(*t) >= MAX_TABLES => {
            return Err(CompileError::Goto { from: table, to: *t });
        }
        Action::Goto(t) => Op::Goto(*t),
        other => return Ok(compile_change(other)?.map(Op::Change)),
    }))
}
