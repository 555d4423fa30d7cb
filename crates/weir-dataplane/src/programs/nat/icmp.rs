//! ICMP errors through the NAT: the quoted packet is translated back to what its sender sent, or
//! on to what its receiver sees, and the error's own address with it (RFC 5508 §4). Touches the
//! frame's bytes. Called by `mod.rs` for errors alone.
//!
//! An error whose checksum is wrong, or whose quoted header's is, is dropped (REQ-3). None makes
//! or renews a mapping.

use super::Nat;
use crate::programs::connection::Endpoint;
use crate::programs::connection::age::Stamp;
use crate::programs::connection::tuple::{Side, Tuple, packet, packet_mut, quoted, rewrite};
use weir_packet::DropReason;
use weir_wire::icmpv4::HEADER_LEN as ICMP;
use weir_wire::{Icmpv4Packet, MacAddr};

/// The quoted packet of an error that is whole.
fn about(bytes: &[u8], t: &Tuple) -> Option<Tuple> {
    let message = packet(bytes).get(t.l4..t.end)?;
    let whole = Icmpv4Packet::new_checked(message).ok().filter(|m| m.has_good_checksum());
    whole.and_then(|_| quoted(message.get(ICMP..)?))
}

/// Writes one end of the quoted packet and one of the error's own addresses.
fn translate(
    bytes: &mut [u8],
    t: &Tuple,
    q: &Tuple,
    ends: (Side, Endpoint),
    own: (Side, Endpoint),
) {
    let p = packet_mut(bytes);
    let quote = p.get_mut(t.l4 + ICMP..t.end).unwrap_or(&mut []);
    let change = rewrite(quote, q, ends.0, ends.1);
    let mut m = Icmpv4Packet::new_unchecked(p.get_mut(t.l4..t.end).unwrap_or(&mut []));
    let mended = change.apply(m.checksum());
    m.set_checksum(mended);
    rewrite(p, t, own.0, Endpoint::new(own.1.addr, 0));
}

impl Nat {
    /// A host inside says what became of a packet that it, or one behind it, was sent: REQ-5.
    pub(super) fn error_outward(
        &mut self,
        bytes: &mut [u8],
        t: &Tuple,
        now: Stamp,
    ) -> Result<(), DropReason> {
        let Some(q) = about(bytes, t).filter(|q| q.src.addr == t.dst.addr) else {
            return self.refuse(|c| &mut c.unmapped);
        };
        let external = q.what.kind().and_then(|k| self.mappings.external_of(q.dst, k, now));
        let Some(external) = external else { return self.refuse(|c| &mut c.unmapped) };
        translate(bytes, t, &q, (Side::Destination, external), (Side::Source, external));
        self.counters.errors += 1;
        Ok(())
    }

    /// Somebody says what became of a packet from a mapping: REQ-4.
    pub(super) fn error_inward(
        &mut self,
        bytes: &mut [u8],
        t: &Tuple,
        now: Stamp,
    ) -> Result<MacAddr, DropReason> {
        let Some(q) = about(bytes, t).filter(|q| q.src.addr == t.dst.addr) else {
            return self.refuse(|c| &mut c.unmapped);
        };
        let found = q.what.kind().and_then(|k| self.mappings.inward(q.src, k, now));
        let Some((_, inside, mac)) = found else { return self.refuse(|c| &mut c.unmapped) };
        translate(bytes, t, &q, (Side::Source, inside), (Side::Destination, inside));
        self.counters.errors += 1;
        Ok(mac)
    }
}
