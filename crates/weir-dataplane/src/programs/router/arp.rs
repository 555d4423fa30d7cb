//! The router's ARP (RFC 826): answers for its own addresses, asks for others'. Touches ARP frames
//! and the neighbour cache.
//!
//! It answers only for addresses of the interface that was asked, and believes only senders in one
//! of that interface's networks, or that a route says are there and it has asked for. A request to it notes its sender; anything else only changes what
//! is known already, so that nobody can fill the cache by talking.

use super::neighbour::{Ask, Heard, Key, Unknown};
use super::{Arrival, ETH, IfaceId, LinkDst, Router, packet, packet_mut};
use crate::program::{Origin, ProgramCx};
use std::net::Ipv4Addr;
use weir_packet::{DropReason, Frame};
use weir_wire::arp::{Operation, PACKET_LEN};
use weir_wire::ethernet::MIN_FRAME_LEN;
use weir_wire::{ArpPacket, ArpRepr, EtherType, MacAddr};

impl Router {
    pub(super) fn arp(&mut self, frame: Frame, from: Arrival, cx: &mut ProgramCx<'_>) {
        let Ok(arp) = ArpPacket::new_checked(packet(&frame)).and_then(|p| ArpRepr::parse(&p))
        else {
            self.counters.malformed += 1;
            return cx.drop(frame, DropReason::Malformed);
        };
        self.hear_arp(arp, from, cx);
        cx.consume(frame);
    }

    fn hear_arp(&mut self, arp: ArpRepr, from: Arrival, cx: &mut ProgramCx<'_>) {
        let Some(iface) = self.iface(from.iface) else { return };
        let own = |a: Ipv4Addr| iface.v4.iter().any(|x| x.0 == a);
        let on_link = iface.v4.iter().any(|x| x.1.contains(arp.sender_ip.into()));
        let (for_us, from_us, our_mac) = (own(arp.target_ip), own(arp.sender_ip), iface.mac);
        if from_us && arp.sender_mac != our_mac {
            self.counters.conflicts += 1;
        }
        let key = Key { iface: from.iface, addr: arp.sender_ip.into() };
        let believed = (on_link || self.neighbours.knows(key))
            && !from_us
            && arp.sender_mac.is_unicast()
            && arp.sender_mac != our_mac;
        if believed {
            let request = for_us && on_link && arp.operation == Operation::Request;
            let answer = for_us && arp.operation == Operation::Reply && from.link == LinkDst::Us;
            let what = if answer { Heard::Answer } else { Heard::Unasked };
            let unknown = if request { Unknown::Add } else { Unknown::Ignore };
            let mac = arp.sender_mac;
            let waiting = self.neighbours.heard(key, mac, what, unknown, cx.now());
            self.flush(from.iface, mac, waiting, cx);
        }
        // A probe (RFC 5227) comes from 0.0.0.0 and is answered too.
        let probe = arp.sender_ip.is_unspecified();
        if for_us
            && arp.operation == Operation::Request
            && arp.sender_mac.is_unicast()
            && (believed || probe)
            && self.send_arp(from.iface, arp.sender_mac, arp.reply(our_mac), cx)
        {
            self.counters.answered += 1;
        }
    }

    pub(super) fn ask_v4(
        &mut self,
        iface: IfaceId,
        target: Ipv4Addr,
        ask: Ask,
        cx: &mut ProgramCx<'_>,
    ) {
        let Some(i) = self.iface(iface) else { return };
        // The address in the target's network, for hosts that answer only their own.
        let near = i.v4.iter().find(|a| a.1.contains(target.into()));
        let Some((src, _)) = near.or(i.v4.first()) else { return };
        let request = ArpRepr::request(i.mac, *src, target);
        let dst = match ask {
            Ask::Everybody => MacAddr::BROADCAST,
            Ask::Station(mac) => mac,
        };
        self.counters.asked += u64::from(self.send_arp(iface, dst, request, cx));
    }

    /// Sends an ARP packet, padded to Ethernet's least length; `false` without a spare frame.
    fn send_arp(
        &mut self,
        iface: IfaceId,
        dst: MacAddr,
        arp: ArpRepr,
        cx: &mut ProgramCx<'_>,
    ) -> bool {
        let Some(mut frame) = self.fresh(EtherType::Arp, MIN_FRAME_LEN - ETH, cx) else {
            return false;
        };
        let out = packet_mut(&mut frame);
        out.iter_mut().skip(PACKET_LEN).for_each(|b| *b = 0);
        let written = arp.emit(&mut ArpPacket::new_unchecked(out));
        debug_assert!(written.is_ok(), "{written:?}");
        self.send(frame, Origin::Generated, iface, dst, cx);
        true
    }
}
