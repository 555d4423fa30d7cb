//! What a rule asks for, in the field's words: the logical form that tenants, files and OpenFlow
//! speak. `compile.rs` turns it into what the processing stage runs.

use std::net::{Ipv4Addr, Ipv6Addr};
use weir_classify::Field;

/// A virtual data plane's id (004's VID). 0 is the default VDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vid(pub u16);

impl std::fmt::Display for Vid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A port number as a VDP sees it: its own numbering, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortNo(pub u32);

impl std::fmt::Display for PortNo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Where an output action sends (OpenFlow 1.3, §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Out {
    /// One of the VDP's ports. Never the ingress port (OpenFlow asks for `InPort` there).
    Port(PortNo),
    /// Back where it came from.
    InPort,
    /// All ports of the VDP but the ingress port.
    All,
    /// All ports that take part in flooding, but the ingress port.
    Flood,
    /// The VDP's slow-path program, as if it were a switch without OpenFlow.
    Normal,
    /// The VDP's controllers; at most this many bytes of the frame.
    Controller(u16),
    /// The VDP's own stack.
    Local,
    /// Through the VDP's tables, from the first. In the action list of a packet-out only
    /// (OpenFlow 1.3, §A.3.7; 1.0, §5.3.6).
    Table,
}

/// Outer addresses of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TunnelAddrs {
    /// Over IPv4: source, destination.
    V4(Ipv4Addr, Ipv4Addr),
    /// Over IPv6: source, destination.
    V6(Ipv6Addr, Ipv6Addr),
}

/// The outer headers that an encapsulation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outer {
    /// Outer source MAC.
    pub eth_src: [u8; 6],
    /// Outer destination MAC.
    pub eth_dst: [u8; 6],
    /// Outer IP addresses.
    pub ip: TunnelAddrs,
    /// Outer TTL or hop limit.
    pub ttl: u8,
    /// Outer ToS or traffic class.
    pub tos: u8,
}

/// One action. A list of them is carried out in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Send a copy as the frame is now.
    Output(Out),
    /// Put frames from here on into this queue of the output port.
    SetQueue(u32),
    /// Send to the software stage by the VDP's channel (004: forward bit clear).
    ToChannel,
    /// Do nothing, whatever follows. The action set stays, as by a list without actions: only [`Action::ClearActions`] empties it.
    Drop,
    /// Write `value` under `mask` into a field that can be written. Checksums follow.
    SetField {
        /// Which field.
        field: Field,
        /// The value, right-aligned.
        value: u128,
        /// Which bits of it count.
        mask: u128,
    },
    /// Decrement TTL or hop limit; a frame whose TTL would reach zero is dropped.
    DecTtl,
    /// Copy TTL from the next-to-outermost to the outermost header.
    CopyTtlOut,
    /// Copy TTL from the outermost to the next header.
    CopyTtlIn,
    /// Push a VLAN tag with this TPID (0x8100 or 0x88a8), fields copied from the outer tag.
    PushVlan(u16),
    /// Pop the outer VLAN tag.
    PopVlan,
    /// Push an MPLS label with this EtherType (0x8847 or 0x8848), fields copied.
    PushMpls(u16),
    /// Pop the top MPLS label; the EtherType becomes this.
    PopMpls(u16),
    /// Decrement the top label's TTL; a frame whose TTL would reach zero is dropped.
    DecMplsTtl,
    /// Push a PBB service tag (802.1ah) with this EtherType (0x88e7).
    PushPbb(u16),
    /// Pop the PBB service tag.
    PopPbb,
    /// Wrap the frame in VXLAN (RFC 7348).
    EncapVxlan {
        /// Outer headers.
        outer: Outer,
        /// VXLAN network identifier, 24 bits.
        vni: u32,
        /// UDP destination port (4789).
        port: u16,
    },
    /// Unwrap VXLAN; the VNI becomes the frame's tunnel id.
    DecapVxlan,
    /// Wrap the frame in GRE (RFC 2784, 2890) as transparent Ethernet bridging (0x6558).
    EncapGre {
        /// Outer headers.
        outer: Outer,
        /// Key, if any.
        key: Option<u32>,
        /// Sequence numbers, counted from this, if any.
        sequence: Option<u32>,
        /// Whether a checksum is written.
        checksum: GreChecksum,
    },
    /// Unwrap GRE; the key becomes the frame's tunnel id.
    DecapGre,
    /// Carry on with a group.
    Group(u32),
    /// Pass a meter first: it may drop or remark.
    Meter(u32),
    /// Send a copy, as the frame is now, to a port of the VDP, and go on.
    Mirror(PortNo),
    /// Write metadata under a mask, for the next table.
    WriteMetadata {
        /// The value.
        value: u64,
        /// Which bits count.
        mask: u64,
    },
    /// Merge these into the frame's action set, which is carried out where no table follows
    /// (OpenFlow 1.3, §5.10). Outputs, groups, queues and changes of frames only.
    WriteActions(Vec<Action>),
    /// Empty the frame's action set.
    ClearActions,
    /// OpenFlow 1.0's SET_VLAN_VID: sets the outer tag's VLAN id; a frame without a tag gets one.
    ModVlanVid(u16),
    /// OpenFlow 1.0's SET_VLAN_PCP: sets the outer tag's priority; a frame without a tag gets one.
    ModVlanPcp(u8),
    /// Go on with a later table.
    Goto(u8),
}

/// Whether a GRE header carries a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GreChecksum {
    /// Without (C bit clear).
    Absent,
    /// With (C bit set).
    Present,
}
