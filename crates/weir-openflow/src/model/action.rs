//! Actions and instructions (1.0 §5.2.4; 1.3 §5.9 to §5.12).

use super::{Field, Port};

/// One action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Send by a port; `max_len` bytes of it where that is the controller.
    Output {
        /// Where.
        port: Port,
        /// Bytes for the controller; [`NO_MAX_LEN`](super::NO_MAX_LEN): all, unbuffered.
        max_len: u16,
    },
    /// Put into this queue of the port it goes to.
    SetQueue(u32),
    /// 1.0 only: output to a port's queue, in one (OFPAT_ENQUEUE).
    Enqueue {
        /// Where.
        port: Port,
        /// Its queue.
        queue: u32,
    },
    /// Carry on with a group.
    Group(u32),
    /// Write a field. In 1.0: MAC and IPv4 addresses.
    SetField(Field, u128),
    /// 1.0 only: write the VLAN id, adding a tag where there is none.
    SetVlanVid(u16),
    /// 1.0 only: write the VLAN priority, adding a tag where there is none.
    SetVlanPcp(u8),
    /// 1.0 only: write the DSCP, given as a whole ToS byte.
    SetNwTos(u8),
    /// 1.0 only: write the source port of TCP or UDP.
    SetTpSrc(u16),
    /// 1.0 only: write the destination port of TCP or UDP.
    SetTpDst(u16),
    /// Push a VLAN tag with this EtherType.
    PushVlan(u16),
    /// Pop the outer VLAN tag (1.0: strip).
    PopVlan,
    /// Push an MPLS label with this EtherType.
    PushMpls(u16),
    /// Pop the outer MPLS label; this EtherType follows.
    PopMpls(u16),
    /// Push a PBB tag with this EtherType.
    PushPbb(u16),
    /// Pop the PBB tag.
    PopPbb,
    /// Write the TTL of IPv4 or IPv6.
    SetNwTtl(u8),
    /// Decrement the TTL of IPv4 or IPv6.
    DecNwTtl,
    /// Write the TTL of the outer MPLS label.
    SetMplsTtl(u8),
    /// Decrement the TTL of the outer MPLS label.
    DecMplsTtl,
    /// Copy the TTL outwards.
    CopyTtlOut,
    /// Copy the TTL inwards.
    CopyTtlIn,
    /// Somebody's own (1.0: vendor), behind the experimenter id.
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// What follows, padding included.
        data: Vec<u8>,
    },
}

/// One instruction of a flow. A 1.0 flow is `[Apply(actions)]`, or nothing where it has no action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Instruction {
    /// Go on with a later table.
    GotoTable(u8),
    /// Write metadata under a mask.
    WriteMetadata {
        /// The value.
        value: u64,
        /// Which bits count.
        mask: u64,
    },
    /// Merge into the action set.
    Write(Vec<Action>),
    /// Carry out at once, in this order.
    Apply(Vec<Action>),
    /// Empty the action set.
    Clear,
    /// Pass a meter first.
    Meter(u32),
    /// Somebody's own.
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// What follows.
        data: Vec<u8>,
    },
}
