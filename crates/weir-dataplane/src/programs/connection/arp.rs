//! Answers to ARP requests (RFC 826) for addresses that a program stands for. Touches ARP frames.
//! Called by programs with addresses of their own; who asks is not remembered.

use super::tuple::{packet, packet_mut};
use crate::action::PortNo;
use crate::program::{ProgramCx, SlowFrame};
use std::net::Ipv4Addr;
use weir_packet::DropReason;
use weir_wire::arp::{Operation, PACKET_LEN};
use weir_wire::ethernet::{HEADER_LEN as ETH, MIN_FRAME_LEN};
use weir_wire::{ArpPacket, ArpRepr, EtherType, EthernetFrame, EthernetRepr, MacAddr};

/// Ends an ARP frame, and answers it when it asks for an address that `owns` says is ours.
/// `false` when there was nothing to answer, or no spare frame to answer with.
pub(in crate::programs) fn answer(
    rx: SlowFrame,
    mac: MacAddr,
    owns: impl Fn(Ipv4Addr) -> bool,
    cx: &mut ProgramCx<'_>,
) -> bool {
    let SlowFrame { frame, in_port, .. } = rx;
    let Ok(arp) = ArpPacket::new_checked(packet(frame.bytes())).and_then(|p| ArpRepr::parse(&p))
    else {
        cx.drop(frame, DropReason::Malformed);
        return false;
    };
    cx.consume(frame);
    let asked = arp.operation == Operation::Request && arp.sender_mac.is_unicast();
    asked && owns(arp.target_ip) && send(arp.reply(mac), in_port, cx)
}

fn send(arp: ArpRepr, port: PortNo, cx: &mut ProgramCx<'_>) -> bool {
    let Some(mut frame) = cx.alloc() else { return false };
    if frame.set_len(MIN_FRAME_LEN).is_err() {
        cx.unused(frame);
        return false;
    }
    let header =
        EthernetRepr { src: arp.sender_mac, dst: arp.target_mac, ether_type: EtherType::Arp };
    let written = header.emit(&mut EthernetFrame::new_unchecked(frame.bytes_mut()));
    debug_assert!(written.is_ok(), "{written:?}");
    let out = packet_mut(frame.bytes_mut());
    out.iter_mut().skip(PACKET_LEN).for_each(|b| *b = 0);
    let written = arp.emit(&mut ArpPacket::new_unchecked(out));
    debug_assert!(written.is_ok() && MIN_FRAME_LEN >= ETH + PACKET_LEN, "{written:?}");
    cx.emit(frame, port);
    true
}
