//! What a switch wants sent: messages for connections, in order. The caller writes them and bounds
//! what waits; an asynchronous message may be dropped by it when a connection reads slowly, a reply
//! may not.

use weir_openflow::model::{Message, Msg};

/// A connection, by a number that its owner chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// Why a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody asked.
    Reply,
    /// Something happened.
    Async,
}

/// A message with its receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// For whom.
    pub to: ConnId,
    /// Why.
    pub kind: Kind,
    /// What.
    pub msg: Msg,
}

/// Messages to be sent, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    /// Those that wait.
    pub sent: Vec<Sent>,
}

impl Outbox {
    pub(crate) fn reply(&mut self, to: ConnId, xid: u32, body: Message) {
        self.sent.push(Sent { to, kind: Kind::Reply, msg: Msg { xid, body } });
    }
    pub(crate) fn tell(&mut self, to: ConnId, body: Message) {
        self.sent.push(Sent { to, kind: Kind::Async, msg: Msg { xid: 0, body } });
    }
    /// Takes all that wait.
    pub fn take(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.sent)
    }
}
