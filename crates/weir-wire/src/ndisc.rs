//! Neighbour discovery messages (RFC 4861 §4), the part of ICMPv6 that stands for ARP. Touches
//! bytes. Called by [`crate::icmpv6`]. Options are in [`crate::ndisc_option`].

use core::net::Ipv6Addr;
use core::ops::BitOr;

use crate::error::{Result, holds, room};
use crate::icmpv6::Message;
use crate::ndisc_option::Options;
use crate::view::{get, part_mut, put, rest, store};

const LAYER: &str = "ndisc";

/// Positions in what follows the ICMPv6 checksum.
mod field {
    use crate::view::Field;
    pub const RESERVED: Field = 0..4;
    pub const HOP_LIMIT: Field = 0..1;
    pub const ROUTER_FLAGS: Field = 1..2;
    pub const LIFETIME: Field = 2..4;
    pub const REACHABLE: Field = 4..8;
    pub const RETRANSMIT: Field = 8..12;
    pub const NEIGHBOR_FLAGS: Field = 0..1;
    pub const TARGET: Field = 4..20;
    pub const DESTINATION: Field = 20..36;
}

/// Flags of a router advertisement (RFC 4861 §4.2, RFC 4191 for the preference), as they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RouterFlags(pub u8);

impl RouterFlags {
    /// Addresses are to be had by DHCPv6.
    pub const MANAGED: RouterFlags = RouterFlags(0x80);
    /// Other settings are to be had by DHCPv6.
    pub const OTHER: RouterFlags = RouterFlags(0x40);

    /// Whether all bits of `other` are set here.
    pub const fn contains(self, other: RouterFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Flags of a neighbour advertisement (RFC 4861 §4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NeighborFlags(pub u8);

impl NeighborFlags {
    /// The sender is a router.
    pub const ROUTER: NeighborFlags = NeighborFlags(0x80);
    /// Answers a solicitation.
    pub const SOLICITED: NeighborFlags = NeighborFlags(0x40);
    /// Replace what is cached.
    pub const OVERRIDE: NeighborFlags = NeighborFlags(0x20);

    /// Whether all bits of `other` are set here.
    pub const fn contains(self, other: NeighborFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for NeighborFlags {
    type Output = NeighborFlags;
    fn bitor(self, other: NeighborFlags) -> NeighborFlags {
        NeighborFlags(self.0 | other.0)
    }
}

/// A message. `options` are the bytes that [`crate::ndisc_option::emit_all`] writes and
/// [`Repr::options`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repr<'a> {
    /// Is there a router?
    RouterSolicit {
        /// Option bytes.
        options: &'a [u8],
    },
    /// There is a router.
    RouterAdvert {
        /// Hop limit to use; 0 if unsaid.
        hop_limit: u8,
        /// Flags.
        flags: RouterFlags,
        /// Seconds for which the sender is a default router.
        lifetime_s: u16,
        /// Milliseconds for which a neighbour counts as reachable; 0 if unsaid.
        reachable_ms: u32,
        /// Milliseconds between solicitations; 0 if unsaid.
        retransmit_ms: u32,
        /// Option bytes.
        options: &'a [u8],
    },
    /// Who has this address?
    NeighborSolicit {
        /// The address.
        target: Ipv6Addr,
        /// Option bytes.
        options: &'a [u8],
    },
    /// This station has.
    NeighborAdvert {
        /// Flags.
        flags: NeighborFlags,
        /// The address.
        target: Ipv6Addr,
        /// Option bytes.
        options: &'a [u8],
    },
    /// There is a better first hop.
    Redirect {
        /// The better hop.
        target: Ipv6Addr,
        /// For this destination.
        destination: Ipv6Addr,
        /// Option bytes.
        options: &'a [u8],
    },
}

impl<'a> Repr<'a> {
    /// Takes a message out of what follows the ICMPv6 checksum; `None` if it is not one of
    /// neighbour discovery with code 0.
    ///
    /// # Errors
    /// `Truncated` if the fixed part is not all there.
    pub fn parse(message: Message, code: u8, body: &'a [u8]) -> Result<Option<Repr<'a>>> {
        let fixed = match message {
            _ if code != 0 => return Ok(None),
            Message::RouterSolicit => field::RESERVED.end,
            Message::RouterAdvert => field::RETRANSMIT.end,
            Message::NeighborSolicit | Message::NeighborAdvert => field::TARGET.end,
            Message::Redirect => field::DESTINATION.end,
            _ => return Ok(None),
        };
        holds(LAYER, "message", fixed, body.len())?;
        let options = rest(body, fixed);
        let target = get(body, field::TARGET);
        Ok(Some(match message {
            Message::RouterSolicit => Repr::RouterSolicit { options },
            Message::RouterAdvert => Repr::RouterAdvert {
                hop_limit: get(body, field::HOP_LIMIT),
                flags: RouterFlags(get(body, field::ROUTER_FLAGS)),
                lifetime_s: get(body, field::LIFETIME),
                reachable_ms: get(body, field::REACHABLE),
                retransmit_ms: get(body, field::RETRANSMIT),
                options,
            },
            Message::NeighborSolicit => Repr::NeighborSolicit { target, options },
            Message::NeighborAdvert => {
                let flags = NeighborFlags(get(body, field::NEIGHBOR_FLAGS));
                Repr::NeighborAdvert { flags, target, options }
            }
            _ => Repr::Redirect { target, destination: get(body, field::DESTINATION), options },
        }))
    }

    /// The ICMPv6 type of this message.
    pub const fn message(&self) -> Message {
        match self {
            Repr::RouterSolicit { .. } => Message::RouterSolicit,
            Repr::RouterAdvert { .. } => Message::RouterAdvert,
            Repr::NeighborSolicit { .. } => Message::NeighborSolicit,
            Repr::NeighborAdvert { .. } => Message::NeighborAdvert,
            Repr::Redirect { .. } => Message::Redirect,
        }
    }

    const fn option_bytes(&self) -> &'a [u8] {
        match *self {
            Repr::RouterSolicit { options }
            | Repr::RouterAdvert { options, .. }
            | Repr::NeighborSolicit { options, .. }
            | Repr::NeighborAdvert { options, .. }
            | Repr::Redirect { options, .. } => options,
        }
    }

    /// The options.
    pub const fn options(&self) -> Options<'a> {
        Options::new(self.option_bytes())
    }

    const fn fixed_len(&self) -> usize {
        match self {
            Repr::RouterSolicit { .. } => field::RESERVED.end,
            Repr::RouterAdvert { .. } => field::RETRANSMIT.end,
            Repr::NeighborSolicit { .. } | Repr::NeighborAdvert { .. } => field::TARGET.end,
            Repr::Redirect { .. } => field::DESTINATION.end,
        }
    }

    /// Bytes after the ICMPv6 checksum.
    pub const fn buffer_len(&self) -> usize {
        self.fixed_len() + self.option_bytes().len()
    }

    /// Writes what follows the ICMPv6 checksum.
    ///
    /// # Errors
    /// `NoRoom` if the buffer is shorter than [`Self::buffer_len`].
    pub fn emit(&self, out: &mut [u8]) -> Result<()> {
        room(LAYER, "message", self.buffer_len(), out.len())?;
        put(out, field::RESERVED, 0u32);
        match *self {
            Repr::RouterSolicit { .. } => {}
            Repr::RouterAdvert {
                hop_limit,
                flags,
                lifetime_s,
                reachable_ms,
                retransmit_ms,
                ..
            } => {
                put(out, field::HOP_LIMIT, hop_limit);
                put(out, field::ROUTER_FLAGS, flags.0);
                put(out, field::LIFETIME, lifetime_s);
                put(out, field::REACHABLE, reachable_ms);
                put(out, field::RETRANSMIT, retransmit_ms);
            }
            Repr::NeighborSolicit { target, .. } => put(out, field::TARGET, target),
            Repr::NeighborAdvert { flags, target, .. } => {
                put(out, field::NEIGHBOR_FLAGS, flags.0);
                put(out, field::TARGET, target);
            }
            Repr::Redirect { target, destination, .. } => {
                put(out, field::TARGET, target);
                put(out, field::DESTINATION, destination);
            }
        }
        store(part_mut(out, self.fixed_len()..self.buffer_len()), self.option_bytes());
        Ok(())
    }
}
