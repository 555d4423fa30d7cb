//! What travels with a frame and is not on the wire: metadata and tunnel id. Touches the key only,
//! which keeps them when it is made anew.

use super::bytes::merge;
use crate::packet::Packet;
use weir_classify::{Field, FlowKey};

/// Writes metadata.
#[inline]
pub(crate) fn write(value: u64, mask: u64, key: &mut FlowKey) {
    let new = merge(key.get(Field::Metadata) as u64, value, mask);
    key.set(Field::Metadata, new.into());
}

/// Bits for metadata or tunnel id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetMeta {
    /// Which of them.
    pub which: Which,
    /// Value.
    pub value: u64,
    /// Which bits of it count.
    pub mask: u64,
}

/// What is kept beside a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// [`Field::Metadata`].
    Metadata,
    /// [`Field::TunnelId`].
    TunnelId,
}

impl SetMeta {
    /// Writes them.
    #[inline]
    pub fn apply(&self, p: &mut Packet<'_>) {
        let f = match self.which {
            Which::Metadata => Field::Metadata,
            Which::TunnelId => Field::TunnelId,
        };
        let new = merge(p.key.get(f) as u64, self.value, self.mask);
        p.key.set(f, new.into());
    }
}
