//! Statistics, asked and answered (1.0.1 §5.3.5).
//!
//! Room: two messages of `mod`; their entries are declared in `layouts`.

use super::lacks;
use super::layouts::*;
use super::numbers::{Port16, QueuePort};
use crate::codec::EncodeError;
use crate::model::{ErrorCode, FlowStats, Message, Part, StatsReply, StatsRequest, Version};
use crate::wire::{Kind, Parts, Reader, Writer, start};

/// OFPST_*.
mod of {
    pub(super) const DESC: u16 = 0;
    pub(super) const FLOW: u16 = 1;
    pub(super) const AGGREGATE: u16 = 2;
    pub(super) const TABLE: u16 = 3;
    pub(super) const PORT: u16 = 4;
    pub(super) const QUEUE: u16 = 5;
    pub(super) const VENDOR: u16 = 0xffff;
}

/// OFPSF_REPLY_MORE.
const MORE: u16 = 1;

pub(super) fn read_request(r: &mut Reader<'_>) -> Result<Message, ErrorCode> {
    let kind = r.u16()?;
    // No flag has a meaning in a request.
    r.skip(2)?;
    let body = match kind {
        of::DESC => StatsRequest::Desc,
        of::FLOW => StatsRequest::Flow(Filter::read(r)?),
        of::AGGREGATE => StatsRequest::Aggregate(Filter::read(r)?),
        of::TABLE => StatsRequest::Table,
        of::PORT => {
            let port = Port16::read(r)?;
            r.skip(6)?;
            StatsRequest::Port(port)
        }
        of::QUEUE => {
            let port = QueuePort::read(r)?;
            r.skip(2)?;
            StatsRequest::Queue { port, queue: r.u32()? }
        }
        of::VENDOR => return Err(ErrorCode::BadExperimenter),
        _ => return Err(ErrorCode::BadMultipart),
    };
    Ok(Message::StatsRequest { more: Part::Last, body })
}

pub(super) fn write_request(more: Part, body: &StatsRequest, w: &mut Writer<'_>) {
    if more == Part::More {
        w.fail(lacks("requests in parts"));
    }
    let mut head = |kind: u16| {
        w.u16(kind);
        w.u16(0);
    };
    match body {
        StatsRequest::Desc => head(of::DESC),
        StatsRequest::Table => head(of::TABLE),
        StatsRequest::Flow(filter) => {
            head(of::FLOW);
            Filter::write(filter, w);
        }
        StatsRequest::Aggregate(filter) => {
            head(of::AGGREGATE);
            Filter::write(filter, w);
        }
        StatsRequest::Port(port) => {
            head(of::PORT);
            Port16::write(port, w);
            w.zeros(6);
        }
        StatsRequest::Queue { port, queue } => {
            head(of::QUEUE);
            QueuePort::write(port, w);
            w.zeros(2);
            w.u32(*queue);
        }
        StatsRequest::Experimenter { experimenter, kind: 0, data } => {
            head(of::VENDOR);
            w.u32(*experimenter);
            w.bytes(data);
        }
        _ => w.fail(lacks("such statistics")),
    }
}

pub(super) fn read_reply(r: &mut Reader<'_>) -> Result<Message, ErrorCode> {
    let (kind, flags) = (r.u16()?, r.u16()?);
    let body = match kind {
        of::DESC => StatsReply::Desc(Description::read(r)?),
        of::FLOW => StatsReply::Flow(SizedFlow::read_all(r)?),
        of::AGGREGATE => StatsReply::Aggregate(Sum::read(r)?),
        of::TABLE => StatsReply::Table(TableEntry::read_all(r)?),
        of::PORT => StatsReply::Port(PortEntry::read_all(r)?),
        of::QUEUE => StatsReply::Queue(QueueEntry::read_all(r)?),
        of::VENDOR => return Err(ErrorCode::BadExperimenter),
        _ => return Err(ErrorCode::BadMultipart),
    };
    let more = if flags & MORE == 0 { Part::Last } else { Part::More };
    Ok(Message::StatsReply { more, body })
}

pub(super) fn write_reply(
    xid: u32,
    more: Part,
    body: &StatsReply,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    match body {
        StatsReply::Desc(v) => {
            list::<Description>(begin(out, xid, of::DESC), more, std::slice::from_ref(v))
        }
        StatsReply::Flow(v) => list::<SizedFlow>(begin(out, xid, of::FLOW), more, v),
        StatsReply::Aggregate(v) => {
            list::<Sum>(begin(out, xid, of::AGGREGATE), more, std::slice::from_ref(v))
        }
        StatsReply::Table(v) => list::<TableEntry>(begin(out, xid, of::TABLE), more, v),
        StatsReply::Port(v) => list::<PortEntry>(begin(out, xid, of::PORT), more, v),
        StatsReply::Queue(v) => list::<QueueEntry>(begin(out, xid, of::QUEUE), more, v),
        StatsReply::Experimenter { experimenter, kind: 0, data } => {
            let mut parts = begin(out, xid, of::VENDOR);
            parts.item(|w| {
                w.u32(*experimenter);
                w.bytes(data);
                Ok(())
            })?;
            parts.finish(more)
        }
        _ => Err(lacks("such statistics")),
    }
}

/// Begins a reply.
fn begin(out: &mut Vec<u8>, xid: u32, kind: u16) -> Parts<'_> {
    Parts::new(out, |out| {
        start(out, Version::V10 as u8, super::kind::STATS_REPLY, xid);
        let mut w = Writer::new(out);
        w.u16(kind);
        w.u16(0);
    })
}

/// Writes entries as one message or several.
fn list<K: Kind>(
    mut parts: Parts<'_>,
    more: Part,
    entries: &[K::Value],
) -> Result<(), EncodeError> {
    for entry in entries {
        parts.item(|w| {
            K::write(entry, w);
            w.check()
        })?;
    }
    parts.finish(more)
}

/// struct ofp_flow_stats: its length before it.
struct SizedFlow;

impl Kind for SizedFlow {
    type Value = FlowStats;
    fn read(r: &mut Reader<'_>) -> Result<FlowStats, ErrorCode> {
        let length = usize::from(r.u16()?).checked_sub(2).ok_or(ErrorCode::BadLen)?;
        FlowEntry::read(&mut r.within(length, ErrorCode::BadLen)?)
    }
    fn write(flow: &FlowStats, w: &mut Writer<'_>) {
        let start = w.at();
        w.u16(0);
        FlowEntry::write(flow, w);
        if let Err(len) = w.patch_len(start, start) {
            w.fail(EncodeError::TooLong { len });
        }
    }
}
