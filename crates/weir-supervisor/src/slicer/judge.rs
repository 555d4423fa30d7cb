//! What a slice asks a switch to do with frames, followed action by action and kept within its flow space.
//!
//! Room: pure but for questions to the flow space. Called for each piece of a flow, each bucket of a group and
//! each packet-out. Answers with the actions as the switch shall have them, or with the error that the slice gets.
//!
//! One rule covers all ways out: *what leaves by a port must be the slice's were it to come in there*. Frames are
//! followed as cubes: an action that writes a field makes it known, one that uncovers bytes makes what
//! they hold unknown, and what is unknown must be the slice's whatever it is. Before a later table, a group or
//! a controller sees a rewritten frame, it must be the slice's where it stands, since rules of others match there.

use super::cube;
use super::ids::Ids;
use super::plan::TagsRead;
use super::space::{FlowSpace, Right, SliceId};
use super::tags::{Beneath, Seen};
use std::collections::{BTreeMap, BTreeSet};
use weir_openflow::model::{
    Action, Bucket, ErrorCode, Field, GROUP_ANY, Instruction, Match, Port, VLAN_PRESENT,
};

/// Bytes of a packet that a controller gets at least: enough to tell whose it is.
const SEEN: u16 = 128;

/// A slice's ports that are there, and whether each takes part in its floods.
pub type Ports = BTreeMap<Port, Floods>;

/// Whether a port takes part in floods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floods {
    /// It does.
    Yes,
    /// The slice has said NO_FLOOD (1.0).
    No,
}

/// What is asked of.
pub struct Judge<'a> {
    /// Whose headers are whose.
    pub space: &'a mut FlowSpace,
    /// On whose behalf.
    pub slice: SliceId,
    /// Its ports.
    pub ports: &'a Ports,
    /// Queues that it may use.
    pub queues: &'a BTreeSet<u32>,
    /// Its groups' numbers at the switch.
    pub groups: &'a Ids,
    /// Its meters'.
    pub meters: &'a Ids,
    /// Its tables.
    pub tables: u8,
    /// Cubes that one answer may take.
    pub limit: usize,
    /// What a type says of tags.
    pub tags: TagsRead,
}

/// A frame on its way.
#[derive(Clone)]
struct Frame {
    header: Match,
    /// Its tags beneath the outermost.
    beneath: Beneath,
    /// Whether it may be something else than what came in, which was the slice's.
    suspect: Suspect,
}

impl Frame {
    /// One of a slice's, of which no more is known than its header.
    fn ours(header: Match, tags: TagsRead) -> Self {
        let beneath = Beneath::of_match(&header, tags);
        Self { header, beneath, suspect: Suspect::No }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Suspect {
    No,
    Yes,
}

/// A packet for the tables (OFPP_TABLE) may leave a packet-out only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Flow,
    PacketOut,
}

type Judged<T> = Result<T, ErrorCode>;

impl Judge<'_> {
    /// The instructions of a flow in `table` for frames of `piece`, which is the slice's.
    ///
    /// # Errors
    /// What the slice is told; nothing may be installed then.
    pub fn instructions(
        &mut self,
        piece: &Match,
        table: u8,
        asked: &[Instruction],
    ) -> Judged<Vec<Instruction>> {
        let goes_on = asked.iter().any(|i| matches!(i, Instruction::GotoTable(_)));
        let mut frame = Frame::ours(piece.clone(), self.tags);
        let mut out = Vec::with_capacity(asked.len());
        // As the switch carries them out (1.3 §5.9), whatever their order here.
        let turn = |i: &Instruction| match i {
            Instruction::Meter(_) => 0,
            Instruction::Apply(_) => 1,
            Instruction::Clear => 2,
            Instruction::Write(_) => 3,
            Instruction::WriteMetadata { .. } => 4,
            _ => 5,
        };
        let mut ordered: Vec<&Instruction> = asked.iter().collect();
        ordered.sort_by_key(|i| turn(i));
        for i in ordered {
            out.push(match i {
                Instruction::Meter(id) => {
                    let known = self.meters.physical(*id).ok_or(ErrorCode::MeterUnknownMeter)?;
                    Instruction::Meter(known)
                }
                Instruction::Apply(list) => {
                    Instruction::Apply(self.run(&mut frame, list, Origin::Flow)?)
                }
                // The set of a flow that begins and ends the way is carried out at once.
                Instruction::Write(list) if table == 0 && !goes_on => {
                    Instruction::Write(self.set(frame.clone(), list)?)
                }
                Instruction::Write(list) => Instruction::Write(self.set_anywhere(list)?),
                Instruction::GotoTable(next) => {
                    if *next >= self.tables {
                        return Err(ErrorCode::InstBadTableId);
                    }
                    self.must_be_ours(&frame, ErrorCode::InstEperm)?;
                    self.must_be_seen(&frame, Origin::Flow, ErrorCode::InstEperm)?;
                    i.clone()
                }
                Instruction::WriteMetadata { .. } | Instruction::Clear => i.clone(),
                Instruction::Experimenter { .. } => return Err(ErrorCode::InstBadExperimenter),
                _ => return Err(ErrorCode::InstUnknown),
            });
        }
        Ok(out)
    }

    /// A packet-out's actions for a frame with this header and, beneath its outermost, these tags.
    ///
    /// # Errors
    /// What the slice is told.
    pub fn packet_out(
        &mut self,
        header: &Match,
        beneath: Beneath,
        actions: &[Action],
    ) -> Judged<Vec<Action>> {
        let mut frame = Frame { header: header.clone(), beneath, suspect: Suspect::Yes };
        self.run(&mut frame, actions, Origin::PacketOut)
    }

    /// A group's buckets, for whatever frame of the slice's comes to it.
    ///
    /// # Errors
    /// What the slice is told.
    pub fn buckets(&mut self, asked: &[Bucket]) -> Judged<Vec<Bucket>> {
        // Without buckets there is nothing else to refuse.
        if !self.space.writes(self.slice) {
            return Err(ErrorCode::GroupEperm);
        }
        let bucket = |b: &Bucket| {
            let watched = b.watch_port == Port::ANY || self.ports.contains_key(&b.watch_port);
            let group = match b.watch_group {
                GROUP_ANY => Some(GROUP_ANY),
                id => self.groups.physical(id),
            };
            let (true, Some(watch_group)) = (watched, group) else {
                return Err(ErrorCode::GroupBadWatch);
            };
            Ok(Bucket { watch_group, actions: self.set_for_all(&b.actions)?, ..b.clone() })
        };
        asked.iter().map(bucket).collect()
    }

    /// An action set at the end of a way whose beginning is not known: it may send what came, not change it.
    fn set_anywhere(&mut self, list: &[Action]) -> Judged<Vec<Action>> {
        let harmless = |a: &Action| {
            matches!(
                a,
                Action::Output { .. }
                    | Action::SetQueue(_)
                    | Action::Group(_)
                    | Action::SetNwTtl(_)
                    | Action::DecNwTtl
                    | Action::SetMplsTtl(_)
                    | Action::DecMplsTtl
                    | Action::CopyTtlIn
                    | Action::CopyTtlOut
            )
        };
        if list.iter().all(harmless) { self.set_for_all(list) } else { Err(ErrorCode::ActionEperm) }
    }

    /// An action set for every frame that is the slice's.
    fn set_for_all(&mut self, list: &[Action]) -> Judged<Vec<Action>> {
        let all = self.space.pieces(self.slice, Right::Write, &Match::default(), self.limit);
        let all = all.map_err(|_| ErrorCode::ActionEperm)?;
        let mut judged: Option<Vec<Action>> = None;
        for header in all {
            let new = self.set(Frame::ours(header, self.tags), list)?;
            match &judged {
                // A flood that is another for each part of the slice has no one form.
                Some(old) if *old != new => return Err(ErrorCode::ActionEperm),
                Some(_) => {}
                None => judged = Some(new),
            }
        }
        judged.ok_or(ErrorCode::ActionEperm)
    }

    /// An action set is carried out in an order of its own (1.3 §5.10).
    fn set(&mut self, mut frame: Frame, list: &[Action]) -> Judged<Vec<Action>> {
        let turn = |a: &Action| match a {
            Action::CopyTtlIn => 0,
            Action::PopVlan | Action::PopMpls(_) | Action::PopPbb => 1,
            Action::PushMpls(_) => 2,
            Action::PushPbb(_) => 3,
            Action::PushVlan(_) => 4,
            Action::CopyTtlOut => 5,
            Action::DecNwTtl | Action::DecMplsTtl => 6,
            Action::SetField(..) | Action::SetNwTtl(_) | Action::SetMplsTtl(_) => 7,
            Action::SetQueue(_) => 8,
            Action::Group(_) => 9,
            _ => 10,
        };
        let mut ordered = list.to_vec();
        ordered.sort_by_key(turn);
        let outputs = |a: &&Action| matches!(a, Action::Output { .. });
        let judged = self.run(&mut frame, &ordered, Origin::Flow)?;
        // A set has one output, and so has no room for a flood that was expanded to many.
        if judged.iter().filter(outputs).count() > 1 {
            return Err(ErrorCode::ActionUnsupportedOrder);
        }
        Ok(judged)
    }

    fn must_be_ours(&mut self, frame: &Frame, otherwise: ErrorCode) -> Judged<()> {
        let ours = frame.suspect == Suspect::No || self.owns(&frame.header);
        if ours { Ok(()) } else { Err(otherwise) }
    }

    /// Tables and groups go by what the switch sees. Of a packet-out's frame it has seen nothing yet; and where a type is to
    /// say that there is no further tag, none may be added that it does not see.
    fn must_be_seen(&self, frame: &Frame, origin: Origin, otherwise: ErrorCode) -> Judged<()> {
        let matters = origin == Origin::PacketOut || self.tags == TagsRead::One;
        let unseen = matters && frame.beneath.seen() == Seen::Perhaps;
        if unseen { Err(otherwise) } else { Ok(()) }
    }

    /// What can't be told is not granted.
    fn owns(&mut self, header: &Match) -> bool {
        self.space.covers(self.slice, Right::Write, header, self.limit).unwrap_or(false)
    }

    fn may_leave(&mut self, frame: &Frame, by: Port) -> bool {
        let there = cube::without(frame.header.clone(), Field::InPort);
        // Metadata and the like end with the switch.
        let there = cube::without(there, Field::Metadata);
        self.owns(&there.with(Field::InPort, u128::from(by.0)))
    }

    /// Carries out actions one after the other.
    fn run(&mut self, frame: &mut Frame, list: &[Action], origin: Origin) -> Judged<Vec<Action>> {
        let mut out = Vec::with_capacity(list.len());
        for a in list {
            match a {
                Action::Output { port, max_len } => {
                    self.output(frame, *port, *max_len, origin, &mut out)?;
                }
                Action::Enqueue { port, queue } => {
                    if !self.queues.contains(queue) {
                        return Err(ErrorCode::ActionBadQueue);
                    }
                    self.send(frame, *port)?;
                    out.push(a.clone());
                }
                Action::SetQueue(q) => {
                    if !self.queues.contains(q) {
                        return Err(ErrorCode::ActionBadQueue);
                    }
                    out.push(a.clone());
                }
                Action::Group(id) => {
                    let known = self.groups.physical(*id).ok_or(ErrorCode::ActionBadOutGroup)?;
                    self.must_be_ours(frame, ErrorCode::ActionEperm)?;
                    self.must_be_seen(frame, origin, ErrorCode::ActionEperm)?;
                    out.push(Action::Group(known));
                }
                Action::Experimenter { .. } => return Err(ErrorCode::ActionBadExperimenter),
                _ => {
                    rewrite(&mut frame.header, &mut frame.beneath, a)?;
                    if !keeps_headers(a) {
                        frame.suspect = Suspect::Yes;
                    }
                    out.push(a.clone());
                }
            }
        }
        Ok(out)
    }

    fn output(
        &mut self,
        frame: &Frame,
        port: Port,
        max_len: u16,
        origin: Origin,
        out: &mut Vec<Action>,
    ) -> Judged<()> {
        match port {
            Port::FLOOD | Port::ALL => {
                // Where the frame came in, the switch itself leaves it out.
                let ports: Vec<Port> = self
                    .ports
                    .iter()
                    .filter(|(_, f)| port == Port::ALL || **f == Floods::Yes)
                    .map(|(p, _)| *p)
                    .filter(|p| *p != Port::LOCAL)
                    .collect();
                for p in ports {
                    if self.may_leave(frame, p) {
                        out.push(Action::Output { port: p, max_len: 0 });
                    }
                }
            }
            Port::CONTROLLER => {
                self.must_be_ours(frame, ErrorCode::ActionEperm)?;
                out.push(Action::Output { port, max_len: max_len.max(SEEN) });
            }
            Port::IN_PORT => {
                self.must_be_ours(frame, ErrorCode::ActionEperm)?;
                out.push(Action::Output { port, max_len });
            }
            Port::TABLE if origin == Origin::PacketOut => {
                self.must_be_ours(frame, ErrorCode::ActionEperm)?;
                self.must_be_seen(frame, origin, ErrorCode::ActionEperm)?;
                out.push(Action::Output { port, max_len });
            }
            _ => {
                self.send(frame, port)?;
                out.push(Action::Output { port, max_len });
            }
        }
        Ok(())
    }

    fn send(&mut self, frame: &Frame, port: Port) -> Judged<()> {
        if !self.ports.contains_key(&port) {
            return Err(ErrorCode::ActionBadOutPort);
        }
        if self.may_leave(frame, port) { Ok(()) } else { Err(ErrorCode::ActionEperm) }
    }
}

/// Whether no field that can be matched is another afterwards.
fn keeps_headers(a: &Action) -> bool {
    matches!(
        a,
        Action::SetNwTtl(_)
            | Action::DecNwTtl
            | Action::SetMplsTtl(_)
            | Action::DecMplsTtl
            | Action::CopyTtlIn
            | Action::CopyTtlOut
    )
}

/// What is known of a header once an action has written to it.
fn rewrite(h: &mut Match, beneath: &mut Beneath, a: &Action) -> Judged<()> {
    let set = |h: &mut Match, f: Field, v: u128| {
        // What leans on what was there is not known any more.
        *h = cube::without(std::mem::take(h), f).with(f, v & f.full());
    };
    match a {
        Action::SetField(f, v) => match f {
            // Addresses and the like have nothing that leans on them.
            Field::IpProto | Field::Icmpv6Type => set(h, *f, *v),
            Field::EthType => beneath.set_type(h, *v),
            Field::VlanVid => beneath.set_field(h, *v),
            _ => know(h, *f, *v),
        },
        Action::SetVlanVid(v) => beneath.set_vid(h, u128::from(*v & 0xfff | VLAN_PRESENT)),
        Action::SetVlanPcp(p) => beneath.set_pcp(h, *p),
        Action::SetNwTos(tos) => {
            know(h, Field::IpDscp, u128::from(tos >> 2));
        }
        Action::SetTpSrc(p) => transport(h, *p, [Field::TcpSrc, Field::UdpSrc, Field::SctpSrc]),
        Action::SetTpDst(p) => transport(h, *p, [Field::TcpDst, Field::UdpDst, Field::SctpDst]),
        Action::PushVlan(_) => beneath.push(h),
        Action::PopVlan => beneath.pop(h),
        Action::PushMpls(t) | Action::PopMpls(t) => beneath.set_type(h, u128::from(*t)),
        Action::PushPbb(t) => {
            // It carries a whole frame: its addresses, and whether it has a tag, are not those from before.
            beneath.set_type(h, u128::from(*t));
            beneath.forget();
            *h = cube::without(std::mem::take(h), Field::VlanVid);
        }
        Action::PopPbb => {
            beneath.forget();
            for f in [Field::EthType, Field::EthDst, Field::EthSrc, Field::VlanVid] {
                *h = cube::without(std::mem::take(h), f);
            }
        }
        _ if keeps_headers(a) => {}
        _ => return Err(ErrorCode::ActionBadType),
    }
    Ok(())
}

fn transport(h: &mut Match, port: u16, of: [Field; 3]) {
    of.into_iter().for_each(|f| know(h, f, port.into()));
}

/// With a field known, where it is known that there is such a field; else it may be anything.
fn know(h: &mut Match, f: Field, v: u128) {
    if f.prerequisite().met_by(h) {
        *h = std::mem::take(h).with(f, v & f.full());
    } else {
        h.0.retain(|m| m.field != f);
    }
}
