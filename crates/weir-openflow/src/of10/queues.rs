//! How a port's queues are set (1.0.1 §5.2.2, §5.3.4).
//!
//! Room: two messages of `mod`.

use super::numbers::Port16;
use crate::codec::EncodeError;
use crate::model::{ErrorCode, Message, Port, QueueDesc, QueueProperty};
use crate::wire::{Kind, Reader, Writer};

/// OFPQT_NONE.
const NONE: u16 = 0;
/// OFPQT_MIN_RATE.
const MIN_RATE: u16 = 1;
/// Of a queue: id, length, padding.
const QUEUE_HEADER: usize = 8;
/// Of a property: type, length, padding.
const PROPERTY_HEADER: usize = 8;

pub(super) fn read_request(r: &mut Reader<'_>) -> Result<Message, ErrorCode> {
    let port = Port16::read(r)?;
    r.skip(2)?;
    // §5.3.4: a real port (below OFPP_MAX); ALL and NONE mean nothing, though 1.3's ANY does.
    match port.is_physical() {
        true => Ok(Message::QueueConfigRequest(port)),
        false => Err(ErrorCode::QueueBadPort),
    }
}

pub(super) fn write_request(port: &Port, w: &mut Writer<'_>) {
    Port16::write(port, w);
    w.zeros(2);
}

pub(super) fn read_reply(r: &mut Reader<'_>) -> Result<Message, ErrorCode> {
    let port = Port16::read(r)?;
    r.skip(6)?;
    let mut queues = Vec::new();
    while !r.is_empty() {
        let id = r.u32()?;
        let mut properties = behind_header(r, QUEUE_HEADER, 4)?;
        let mut known = Vec::new();
        while !properties.is_empty() {
            known.extend(read_property(&mut properties)?);
        }
        queues.push(QueueDesc { id, port, properties: known });
    }
    Ok(Message::QueueConfigReply { port, queues })
}

fn read_property(r: &mut Reader<'_>) -> Result<Option<QueueProperty>, ErrorCode> {
    let kind = r.u16()?;
    let mut body = behind_header(r, PROPERTY_HEADER, 2)?;
    match kind {
        NONE => Ok(None),
        MIN_RATE => body.u16().map(|rate| Some(QueueProperty::MinRate(rate))),
        _ => Err(ErrorCode::BadType),
    }
}

/// Reads the length of a structure of which `before` bytes are read, passes over the rest of its
/// header, and gives what the length says is behind.
fn behind_header<'a>(
    r: &mut Reader<'a>,
    header: usize,
    before: usize,
) -> Result<Reader<'a>, ErrorCode> {
    let length = usize::from(r.u16()?).checked_sub(header).ok_or(ErrorCode::BadLen)?;
    r.skip(header - before - 2)?;
    r.within(length, ErrorCode::BadLen)
}

pub(super) fn write_reply(port: &Port, queues: &[QueueDesc], w: &mut Writer<'_>) {
    Port16::write(port, w);
    w.zeros(6);
    for queue in queues {
        let start = w.at();
        w.u32(queue.id);
        w.zeros(4);
        for property in &queue.properties {
            // A highest rate is news that 1.0 has no word for.
            if let QueueProperty::MinRate(rate) = property {
                w.u16(MIN_RATE);
                w.u16(16);
                w.zeros(4);
                w.u16(*rate);
                w.zeros(6);
            }
        }
        if let Err(len) = w.patch_len(start + 4, start) {
            w.fail(EncodeError::TooLong { len });
        }
    }
}
