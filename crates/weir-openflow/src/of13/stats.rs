//! Multipart requests and replies (1.3 §7.3.5).
//!
//! Room: the 1.3 encoding. Requests of several messages are joined by
//! [`multipart`](crate::multipart); replies are cut here, where an item would not fit.

use super::oxm::Unknown;
use super::port::{Desc as PortLayout, Port32};
use super::{flow, group, meter, oxm, table_features};
use crate::codec::EncodeError;
use crate::model::{
    Aggregate, ErrorCode, FlowFilter, GroupFeatures, GroupStats, Message, MeterFeatures,
    MeterStats, Part, PortStats, QueueStats, StatsReply, StatsRequest, SwitchDesc, TableStats,
    Version,
};
use crate::wire::{self, Kind, Pair, Parts, Reader, Row, Text, Writer, layout};

/// OFPMP numbers.
mod kind {
    pub(super) const DESC: u16 = 0;
    pub(super) const FLOW: u16 = 1;
    pub(super) const AGGREGATE: u16 = 2;
    pub(super) const TABLE: u16 = 3;
    pub(super) const PORT: u16 = 4;
    pub(super) const QUEUE: u16 = 5;
    pub(super) const GROUP: u16 = 6;
    pub(super) const GROUP_DESC: u16 = 7;
    pub(super) const GROUP_FEATURES: u16 = 8;
    pub(super) const METER: u16 = 9;
    pub(super) const METER_CONFIG: u16 = 10;
    pub(super) const METER_FEATURES: u16 = 11;
    pub(super) const TABLE_FEATURES: u16 = 12;
    pub(super) const PORT_DESC: u16 = 13;
    pub(super) const EXPERIMENTER: u16 = 0xffff;
}

layout! {
    /// ofp_desc.
    Desc: SwitchDesc {
        manufacturer: Text<256>;
        hardware: Text<256>;
        software: Text<256>;
        serial: Text<32>;
        datapath: Text<256>;
    }
    /// ofp_aggregate_stats_reply.
    Sum: Aggregate {
        packets: u64;
        bytes: u64;
        flows: u32, pad 4;
    }
    /// ofp_table_stats.
    Table: TableStats {
        table: u8, pad 3;
        active: u32;
        lookups: u64;
        matched: u64;
        + name = String::new();
        + max_entries = 0;
    }
    /// ofp_port_stats.
    Port: PortStats {
        port: Port32, pad 4;
        rx_packets: u64;
        tx_packets: u64;
        rx_bytes: u64;
        tx_bytes: u64;
        rx_dropped: u64;
        tx_dropped: u64;
        rx_errors: u64;
        tx_errors: u64;
        rx_frame_err: u64;
        rx_over_err: u64;
        rx_crc_err: u64;
        collisions: u64;
        duration_sec: u32;
        duration_nsec: u32;
    }
    /// ofp_queue_stats.
    Queue: QueueStats {
        port: Port32;
        queue: u32;
        tx_bytes: u64;
        tx_packets: u64;
        tx_errors: u64;
        duration_sec: u32;
        duration_nsec: u32;
    }
    /// ofp_group_stats between its length and its buckets' counters.
    GroupFixed: GroupStats {
        group: u32;
        references: u32, pad 4;
        packets: u64;
        bytes: u64;
        duration_sec: u32;
        duration_nsec: u32;
        + buckets = Vec::new();
    }
    /// ofp_group_features.
    GroupAbilities: GroupFeatures {
        kinds: u32;
        capabilities: u32;
        max: Row<u32, 4>;
        actions: Row<u32, 4>;
    }
    /// ofp_meter_features.
    MeterAbilities: MeterFeatures {
        max_meters: u32;
        band_types: u32;
        capabilities: u32;
        max_bands: u8;
        max_color: u8, pad 2;
    }
}

/// Reads flags and padding behind the type: whether more follows.
fn read_head(r: &mut Reader<'_>) -> Result<(u16, Part), ErrorCode> {
    let kind = r.u16()?;
    let more = if r.u16()? & 1 == 0 { Part::Last } else { Part::More };
    r.skip(4)?;
    Ok((kind, more))
}

pub(super) fn read_request(r: &mut Reader<'_>) -> Result<Message, ErrorCode> {
    let (kind, more) = read_head(r)?;
    let body = match kind {
        kind::DESC => StatsRequest::Desc,
        kind::FLOW => StatsRequest::Flow(read_filter(r)?),
        kind::AGGREGATE => StatsRequest::Aggregate(read_filter(r)?),
        kind::TABLE => StatsRequest::Table,
        kind::PORT => {
            let port = Port32::read(r)?;
            r.skip(4)?;
            StatsRequest::Port(port)
        }
        kind::QUEUE => StatsRequest::Queue { port: Port32::read(r)?, queue: r.u32()? },
        kind::GROUP => StatsRequest::Group(read_id(r)?),
        kind::GROUP_DESC => StatsRequest::GroupDesc,
        kind::GROUP_FEATURES => StatsRequest::GroupFeatures,
        kind::METER => StatsRequest::Meter(read_id(r)?),
        kind::METER_CONFIG => StatsRequest::MeterConfig(read_id(r)?),
        kind::METER_FEATURES => StatsRequest::MeterFeatures,
        kind::TABLE_FEATURES => {
            let mut tables = Vec::new();
            while !r.is_empty() {
                tables.push(table_features::read(r, Unknown::Refused)?);
            }
            StatsRequest::TableFeatures(tables)
        }
        kind::PORT_DESC => StatsRequest::PortDesc,
        kind::EXPERIMENTER => StatsRequest::Experimenter {
            experimenter: r.u32()?,
            kind: r.u32()?,
            data: r.take_rest().to_vec(),
        },
        _ => return Err(ErrorCode::BadMultipart),
    };
    Ok(Message::StatsRequest { more, body })
}

fn read_id(r: &mut Reader<'_>) -> Result<u32, ErrorCode> {
    let id = r.u32()?;
    r.skip(4)?;
    Ok(id)
}

fn read_filter(r: &mut Reader<'_>) -> Result<FlowFilter, ErrorCode> {
    let table = r.u8()?;
    r.skip(3)?;
    let (out_port, out_group) = (Port32::read(r)?, r.u32()?);
    r.skip(4)?;
    let (cookie, cookie_mask) = (r.u64()?, r.u64()?);
    let matcher = oxm::read_match(r)?;
    Ok(FlowFilter { table, out_port, out_group, cookie, cookie_mask, matcher })
}

fn write_filter(f: &FlowFilter, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    w.u8(f.table);
    w.zeros(3);
    w.u32(f.out_port.0);
    w.u32(f.out_group);
    w.zeros(4);
    w.u64(f.cookie);
    w.u64(f.cookie_mask);
    oxm::write_match(&f.matcher, w)
}

const fn request_kind(request: &StatsRequest) -> u16 {
    match request {
        StatsRequest::Desc => kind::DESC,
        StatsRequest::Flow(_) => kind::FLOW,
        StatsRequest::Aggregate(_) => kind::AGGREGATE,
        StatsRequest::Table => kind::TABLE,
        StatsRequest::Port(_) => kind::PORT,
        StatsRequest::Queue { .. } => kind::QUEUE,
        StatsRequest::Group(_) => kind::GROUP,
        StatsRequest::GroupDesc => kind::GROUP_DESC,
        StatsRequest::GroupFeatures => kind::GROUP_FEATURES,
        StatsRequest::Meter(_) => kind::METER,
        StatsRequest::MeterConfig(_) => kind::METER_CONFIG,
        StatsRequest::MeterFeatures => kind::METER_FEATURES,
        StatsRequest::TableFeatures(_) => kind::TABLE_FEATURES,
        StatsRequest::PortDesc => kind::PORT_DESC,
        StatsRequest::Experimenter { .. } => kind::EXPERIMENTER,
    }
}

pub(super) fn write_request(
    xid: u32,
    request: &StatsRequest,
    more: Part,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut parts = parts(out, super::kind::MULTIPART_REQUEST, request_kind(request), xid);
    match request {
        StatsRequest::TableFeatures(tables) => {
            for table in tables {
                parts.item(|w| table_features::write(table, w))?;
            }
        }
        other => parts.item(|w| write_request_body(other, w))?,
    }
    parts.finish(more)
}

fn write_request_body(request: &StatsRequest, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    match request {
        StatsRequest::Flow(filter) | StatsRequest::Aggregate(filter) => write_filter(filter, w)?,
        StatsRequest::Port(port) => {
            w.u32(port.0);
            w.zeros(4);
        }
        StatsRequest::Queue { port, queue } => {
            w.u32(port.0);
            w.u32(*queue);
        }
        StatsRequest::Group(id) | StatsRequest::Meter(id) | StatsRequest::MeterConfig(id) => {
            w.u32(*id);
            w.zeros(4);
        }
        StatsRequest::Experimenter { experimenter, kind, data } => {
            w.u32(*experimenter);
            w.u32(*kind);
            w.bytes(data);
        }
        StatsRequest::Desc
        | StatsRequest::Table
        | StatsRequest::GroupDesc
        | StatsRequest::GroupFeatures
        | StatsRequest::MeterFeatures
        | StatsRequest::TableFeatures(_)
        | StatsRequest::PortDesc => {}
    }
    Ok(())
}

/// The first field in the flows of a reply's body that is none of OpenFlow's: class and number.
pub(super) fn unknown_field(body: &[u8]) -> Option<(u16, u8)> {
    let mut r = Reader::new(body, ErrorCode::BadLen);
    if read_head(&mut r).ok()?.0 != kind::FLOW {
        return None;
    }
    while let Ok(length) = Reader::new(r.rest(), ErrorCode::BadLen).u16() {
        let flow = r.take(length.into()).ok()?;
        if let Some(found) = oxm::unknown_field(flow.get(flow::STATS_HEAD..)?) {
            return Some(found);
        }
    }
    None
}

pub(super) fn read_reply(r: &mut Reader<'_>) -> Result<Message, ErrorCode> {
    let (kind, more) = read_head(r)?;
    let body = match kind {
        kind::DESC => StatsReply::Desc(Desc::read(r)?),
        kind::FLOW => StatsReply::Flow(all(r, flow::read_stats)?),
        kind::AGGREGATE => StatsReply::Aggregate(Sum::read(r)?),
        kind::TABLE => StatsReply::Table(Table::read_all(r)?),
        kind::PORT => StatsReply::Port(Port::read_all(r)?),
        kind::QUEUE => StatsReply::Queue(Queue::read_all(r)?),
        kind::GROUP => StatsReply::Group(all(r, read_group)?),
        kind::GROUP_DESC => StatsReply::GroupDesc(all(r, group::read_desc)?),
        kind::GROUP_FEATURES => StatsReply::GroupFeatures(GroupAbilities::read(r)?),
        kind::METER => StatsReply::Meter(all(r, read_meter)?),
        kind::METER_CONFIG => StatsReply::MeterConfig(all(r, meter::read_config)?),
        kind::METER_FEATURES => StatsReply::MeterFeatures(MeterAbilities::read(r)?),
        kind::TABLE_FEATURES => {
            StatsReply::TableFeatures(all(r, |r| table_features::read(r, Unknown::PassedOver))?)
        }
        kind::PORT_DESC => StatsReply::PortDesc(PortLayout::read_all(r)?),
        kind::EXPERIMENTER => StatsReply::Experimenter {
            experimenter: r.u32()?,
            kind: r.u32()?,
            data: r.take_rest().to_vec(),
        },
        _ => return Err(ErrorCode::BadMultipart),
    };
    Ok(Message::StatsReply { more, body })
}

fn all<T>(
    r: &mut Reader<'_>,
    read: impl Fn(&mut Reader<'_>) -> Result<T, ErrorCode>,
) -> Result<Vec<T>, ErrorCode> {
    let mut all = Vec::new();
    while !r.is_empty() {
        all.push(read(r)?);
    }
    Ok(all)
}

fn read_group(r: &mut Reader<'_>) -> Result<GroupStats, ErrorCode> {
    let length = usize::from(r.u16()?);
    let mut r = r.within(length.checked_sub(2).ok_or(ErrorCode::BadLen)?, ErrorCode::BadLen)?;
    r.skip(2)?;
    let fixed = GroupFixed::read(&mut r)?;
    Ok(GroupStats { buckets: Pair::<u64>::read_all(&mut r)?, ..fixed })
}

fn write_group(group: &GroupStats, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let start = w.at();
    w.u16(0);
    w.zeros(2);
    GroupFixed::write(group, w);
    group.buckets.iter().for_each(|bucket| Pair::<u64>::write(bucket, w));
    w.patch_len(start, start).map_err(super::too_long)
}

/// The length of ofp_meter_stats stands behind the meter's number.
fn read_meter(r: &mut Reader<'_>) -> Result<MeterStats, ErrorCode> {
    let meter = r.u32()?;
    let length = usize::from(r.u16()?);
    let mut r = r.within(length.checked_sub(6).ok_or(ErrorCode::BadLen)?, ErrorCode::BadLen)?;
    r.skip(6)?;
    Ok(MeterStats {
        meter,
        flows: r.u32()?,
        packets: r.u64()?,
        bytes: r.u64()?,
        duration_sec: r.u32()?,
        duration_nsec: r.u32()?,
        bands: Pair::<u64>::read_all(&mut r)?,
    })
}

fn write_meter(m: &MeterStats, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let start = w.at();
    w.u32(m.meter);
    w.u16(0);
    w.zeros(6);
    w.u32(m.flows);
    w.u64(m.packets);
    w.u64(m.bytes);
    w.u32(m.duration_sec);
    w.u32(m.duration_nsec);
    m.bands.iter().for_each(|band| Pair::<u64>::write(band, w));
    w.patch_len(start + 4, start).map_err(super::too_long)
}

const fn reply_kind(reply: &StatsReply) -> u16 {
    match reply {
        StatsReply::Desc(_) => kind::DESC,
        StatsReply::Flow(_) => kind::FLOW,
        StatsReply::Aggregate(_) => kind::AGGREGATE,
        StatsReply::Table(_) => kind::TABLE,
        StatsReply::Port(_) => kind::PORT,
        StatsReply::Queue(_) => kind::QUEUE,
        StatsReply::Group(_) => kind::GROUP,
        StatsReply::GroupDesc(_) => kind::GROUP_DESC,
        StatsReply::GroupFeatures(_) => kind::GROUP_FEATURES,
        StatsReply::Meter(_) => kind::METER,
        StatsReply::MeterConfig(_) => kind::METER_CONFIG,
        StatsReply::MeterFeatures(_) => kind::METER_FEATURES,
        StatsReply::TableFeatures(_) => kind::TABLE_FEATURES,
        StatsReply::PortDesc(_) => kind::PORT_DESC,
        StatsReply::Experimenter { .. } => kind::EXPERIMENTER,
    }
}

pub(super) fn write_reply(
    xid: u32,
    reply: &StatsReply,
    more: Part,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut message = parts(out, super::kind::MULTIPART_REPLY, reply_kind(reply), xid);
    let p = &mut message;
    match reply {
        StatsReply::Desc(desc) => one::<Desc>(p, desc)?,
        StatsReply::Flow(flows) => each(p, flows, flow::write_stats)?,
        StatsReply::Aggregate(sum) => one::<Sum>(p, sum)?,
        StatsReply::Table(tables) => each(p, tables, fixed::<Table>)?,
        StatsReply::Port(ports) => each(p, ports, fixed::<Port>)?,
        StatsReply::Queue(queues) => each(p, queues, fixed::<Queue>)?,
        StatsReply::Group(groups) => each(p, groups, write_group)?,
        StatsReply::GroupDesc(groups) => each(p, groups, group::write_desc)?,
        StatsReply::GroupFeatures(features) => one::<GroupAbilities>(p, features)?,
        StatsReply::Meter(meters) => each(p, meters, write_meter)?,
        StatsReply::MeterConfig(meters) => each(p, meters, meter::write_config)?,
        StatsReply::MeterFeatures(features) => one::<MeterAbilities>(p, features)?,
        StatsReply::TableFeatures(tables) => each(p, tables, table_features::write)?,
        StatsReply::PortDesc(ports) => each(p, ports, fixed::<PortLayout>)?,
        StatsReply::Experimenter { experimenter, kind, data } => p.item(|w| {
            w.u32(*experimenter);
            w.u32(*kind);
            w.bytes(data);
            Ok(())
        })?,
    }
    message.finish(more)
}

fn one<K: Kind>(parts: &mut Parts<'_>, value: &K::Value) -> Result<(), EncodeError> {
    parts.item(|w| fixed::<K>(value, w))
}

fn fixed<K: Kind>(value: &K::Value, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    K::write(value, w);
    Ok(())
}

fn each<T>(
    parts: &mut Parts<'_>,
    items: &[T],
    write: impl Fn(&T, &mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    items.iter().try_for_each(|item| parts.item(|w| write(item, w)))
}

/// Begins a multipart message: header, type, no flags, padding.
fn parts(out: &mut Vec<u8>, message: u8, kind: u16, xid: u32) -> Parts<'_> {
    Parts::new(out, |out| {
        wire::start(out, Version::V13 as u8, message, xid);
        let mut w = Writer::new(out);
        w.u16(kind);
        w.zeros(6);
    })
}
