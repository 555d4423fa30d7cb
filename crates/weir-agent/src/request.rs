//! A request with its sender, and how it ends: done, refused with an error, or the data plane gone.

use crate::outbox::{ConnId, Outbox};
use crate::plane::PlaneGone;
use weir_openflow::model::{ErrorCode, ErrorMsg, Message, Version};
use weir_packet::Nanos;

/// Bytes of an offending message that an error carries (1.3 §7.4.4: at least 64).
pub(crate) const ERROR_BYTES: usize = 64;

/// Who asks, and where the answer and an error go. Owned, because a gathered change is refused
/// later than it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub conn: ConnId,
    pub version: Version,
    pub xid: u32,
    raw: [u8; ERROR_BYTES],
    len: u8,
}

impl Asker {
    /// The sender of the message that `raw` begins.
    pub fn new(conn: ConnId, version: Version, xid: u32, raw: &[u8]) -> Self {
        let len = raw.len().min(ERROR_BYTES);
        let mut kept = [0; ERROR_BYTES];
        kept[..len].copy_from_slice(&raw[..len]);
        Self { conn, version, xid, raw: kept, len: len as u8 }
    }
    /// Refuses what was asked.
    pub fn refuse(&self, code: ErrorCode, out: &mut Outbox) {
        let data = self.raw[..usize::from(self.len)].to_vec();
        out.reply(self.conn, self.xid, Message::Error(ErrorMsg { code, data }));
    }
    /// Answers.
    pub fn reply(&self, body: Message, out: &mut Outbox) {
        out.reply(self.conn, self.xid, body);
    }
}

/// Why a request ends before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Refused.
    Refused(ErrorCode),
    /// Nothing can be asked any more.
    Gone,
}

impl From<ErrorCode> for Stop {
    fn from(c: ErrorCode) -> Self {
        Stop::Refused(c)
    }
}

impl From<PlaneGone> for Stop {
    fn from(_: PlaneGone) -> Self {
        Stop::Gone
    }
}

/// What a request has around it.
pub(crate) struct Cx<'a, P> {
    pub now: Nanos,
    pub plane: &'a mut P,
    pub out: &'a mut Outbox,
}
