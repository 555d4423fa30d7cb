//! What a message leads to once a version is agreed: an event, an answer of the channel's own, or nothing.
//!
//! Room: a part of `machine`. Echo requests are answered (unless the owner does so), late hellos passed over (1.3.5 §6.3.1 has
//! one each way), what can't be understood is refused by a switch, told of to a controller, and the connection
//! kept; errors never lead to errors.

use super::greeting::{is_hello_failed, refusal};
use super::machine::{Core, PROBE};
use super::{EchoBy, Event, Head, Kind, Received, Side, hello};
use crate::codec;
use crate::model::{ErrorCode, Message, Msg, Part, Version};
use core::time::Duration;

impl Core {
    /// Judges a whole message under the version agreed.
    pub(super) fn understand(
        &mut self,
        version: Version,
        frame: &[u8],
        now: Duration,
    ) -> Option<Event> {
        if is_hello_failed(frame) {
            // The peer could not take our hello, whatever we thought of its.
            self.close(refusal(frame));
            return None;
        }
        if frame.get(1) == Some(&hello::TYPE) {
            self.stats.ignored += 1;
            return None;
        }
        // Before it is read: what a switch alone may say is none the better for being said wrongly.
        if self.config.side == Side::Switch && codec::is_for_controllers(version, frame) {
            self.refuse(version, frame, ErrorCode::BadType);
            return None;
        }
        let msg = match codec::decode(version, frame) {
            Ok(msg) => msg,
            Err(e) if self.config.side == Side::Controller => {
                self.stats.ignored += 1;
                return Some(Event::Misread(e));
            }
            Err(e) => {
                self.refuse(version, frame, e.code);
                return None;
            }
        };
        let kind = Kind::of(&msg.body);
        if !kind.may_reach(self.config.side) {
            self.refuse(version, frame, ErrorCode::BadType);
            return None;
        }
        self.stats.received[kind as usize] += 1;
        let Msg { xid, body } = msg;
        let body = match body {
            Message::StatsRequest { more, body } => {
                match self.joiner.join(xid, more, body, frame.len(), now) {
                    Ok(whole) => Message::StatsRequest { more: Part::Last, body: whole? },
                    Err(code) => {
                        self.refuse(version, frame, code);
                        return None;
                    }
                }
            }
            other => other,
        };
        match body {
            Message::EchoRequest(data) if self.config.echo == EchoBy::Channel => {
                // What was read as an echo request can be written as its reply.
                let _ = self.send(version, &Msg { xid, body: Message::EchoReply(data) });
                None
            }
            // It has done its work by being heard.
            Message::EchoReply(ref data) if data == PROBE => None,
            body => {
                let msg = Msg { xid, body };
                Some(Event::Message(Received { msg, head: Head::of(frame) }))
            }
        }
    }
}
