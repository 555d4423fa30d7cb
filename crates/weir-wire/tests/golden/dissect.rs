//! Takes a whole frame apart with this crate, noting what each field means, and writes it anew
//! from the representations alone. Test support for the golden vectors.

use std::collections::BTreeMap;
use std::fmt::Display;

use weir_wire::checksum::{PseudoHeader, Verdict};
use weir_wire::ipv4_option::Ipv4Option;
use weir_wire::ndisc_option::NdiscOption;
use weir_wire::tcp_option::{TcpOption, sack_blocks};
use weir_wire::*;

pub struct Dissection {
    /// `layer.field` to what it holds; the second occurrence of a layer is `layer#2`.
    pub facts: BTreeMap<String, String>,
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn join<T>(items: impl Iterator<Item = Result<T>>, text: impl Fn(T) -> String) -> Result<String> {
    let items: Result<Vec<String>> = items.map(|item| item.map(&text)).collect();
    Ok(items?.join(" "))
}

/// Returns the meaning and the frame written anew.
pub fn frame(bytes: &[u8]) -> Result<(Dissection, Vec<u8>)> {
    let mut dissection = Dissection { facts: BTreeMap::new() };
    let mut out = vec![0xa5; bytes.len()];
    dissection.ethernet(bytes, &mut out)?;
    Ok((dissection, out))
}

impl Dissection {
    /// Names the next occurrence of a layer.
    fn layer(&mut self, name: &str) -> String {
        let starts = |name: &str| self.facts.keys().any(|key| key.starts_with(&format!("{name}.")));
        let mut layer = name.to_owned();
        let mut number = 1;
        while starts(&layer) {
            number += 1;
            layer = format!("{name}#{number}");
        }
        layer
    }

    fn note(&mut self, layer: &str, field: &str, value: impl Display) {
        self.facts.insert(format!("{layer}.{field}"), value.to_string());
    }

    fn ethernet(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let repr = EthernetRepr::parse(&EthernetFrame::new_checked(bytes)?)?;
        repr.emit(&mut EthernetFrame::new_unchecked(&mut *out))?;
        let stack = vlan::walk(bytes, 4)?;
        let mut at = ethernet::ADDRESSES_LEN;
        for tag in vlan::tags(bytes) {
            let layer = self.layer("vlan");
            self.note(&layer, "tpid", format!("{:?}", tag.tpid));
            self.note(&layer, "pcp", tag.pcp);
            self.note(&layer, "dei", tag.dei);
            self.note(&layer, "vid", tag.vid);
            tag.emit(&mut VlanTag::new_unchecked(&mut out[at..]))?;
            at += tag.buffer_len();
        }
        assert_eq!(at, stack.ether_type_at);
        out[at..at + 2].copy_from_slice(&u16::from(stack.ether_type).to_be_bytes());
        let layer = self.layer("ethernet");
        self.note(&layer, "src", repr.src);
        self.note(&layer, "dst", repr.dst);
        self.note(&layer, "type", format!("{:?}", stack.ether_type));
        let at = stack.payload_at();
        self.typed(stack.ether_type, &bytes[at..], &mut out[at..])
    }

    fn typed(&mut self, ether_type: EtherType, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        match ether_type {
            EtherType::Arp => self.arp(bytes, out),
            EtherType::Ipv4 => self.ipv4(bytes, out),
            EtherType::Ipv6 => self.ipv6(bytes, out),
            EtherType::Mpls => self.mpls(bytes, out),
            EtherType::Lldp => self.lldp(bytes, out),
            EtherType::TransparentEthernet => self.ethernet(bytes, out),
            other => panic!("no dissector for {other:?}"),
        }
    }

    fn arp(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let repr = ArpRepr::parse(&ArpPacket::new_checked(bytes)?)?;
        self.note("arp", "operation", format!("{:?}", repr.operation));
        self.note("arp", "sender_mac", repr.sender_mac);
        self.note("arp", "sender_ip", repr.sender_ip);
        self.note("arp", "target_mac", repr.target_mac);
        self.note("arp", "target_ip", repr.target_ip);
        repr.emit(&mut ArpPacket::new_unchecked(&mut *out))?;
        self.padding(&bytes[repr.buffer_len()..], &mut out[repr.buffer_len()..]);
        Ok(())
    }

    fn padding(&mut self, bytes: &[u8], out: &mut [u8]) {
        out.copy_from_slice(bytes);
        if !bytes.is_empty() {
            self.facts.insert("padding".into(), bytes.len().to_string());
        }
    }

    fn mpls(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let depth = mpls::depth(bytes, 8)?;
        for (entry, at) in mpls::stack(bytes).zip((0..).step_by(mpls::ENTRY_LEN)) {
            let entry = entry?;
            let layer = self.layer("mpls");
            self.note(&layer, "label", entry.label);
            self.note(&layer, "traffic_class", entry.traffic_class);
            self.note(&layer, "bottom", entry.bottom);
            self.note(&layer, "ttl", entry.ttl);
            entry.emit(&mut MplsEntry::new_unchecked(&mut out[at..]))?;
        }
        let at = depth * mpls::ENTRY_LEN;
        self.ipv4(&bytes[at..], &mut out[at..])
    }

    fn lldp(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let packet = LldpPacket::new_checked(bytes)?;
        let repr = LldpRepr::parse(&packet)?;
        let name = |name: lldp::Name<'_>| format!("{}:{}", name.subtype, hex(name.id));
        self.note("lldp", "chassis", name(repr.chassis));
        self.note("lldp", "port", name(repr.port));
        self.note("lldp", "ttl", repr.ttl_s);
        for tlv in lldp::Tlvs::new(repr.optional) {
            match tlv? {
                lldp::Tlv::SystemName(name) => {
                    self.note("lldp", "name", String::from_utf8_lossy(name));
                }
                lldp::Tlv::Organization(oui, subtype, data) => {
                    let text = format!("{}/{subtype}:{}", hex(&oui), hex(data));
                    self.note("lldp", "organization", text);
                }
                other => panic!("{other:?}"),
            }
        }
        repr.emit(&mut LldpPacket::new_unchecked(&mut *out))?;
        self.padding(&bytes[repr.buffer_len()..], &mut out[repr.buffer_len()..]);
        Ok(())
    }

    fn ipv4(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let packet = Ipv4Packet::new_checked(bytes)?;
        assert!(packet.has_good_checksum(), "ipv4 header checksum");
        let repr = Ipv4Repr::parse(&packet)?;
        let layer = self.layer("ipv4");
        self.note(&layer, "src", repr.src);
        self.note(&layer, "dst", repr.dst);
        self.note(&layer, "protocol", format!("{:?}", repr.protocol));
        self.note(&layer, "ttl", repr.ttl);
        self.note(&layer, "dscp", repr.dscp);
        self.note(&layer, "ecn", repr.ecn);
        self.note(&layer, "ident", repr.ident);
        self.note(&layer, "dont_fragment", repr.dont_fragment);
        self.note(&layer, "more_fragments", repr.more_fragments);
        self.note(&layer, "fragment_offset", repr.fragment_offset);
        self.note(&layer, "payload_len", repr.payload_len);
        let options = join(packet.options(), |option| match option {
            Ipv4Option::RecordRoute(pointer, data) => {
                format!("RecordRoute({pointer},{})", hex(data))
            }
            other => format!("{other:?}"),
        })?;
        self.note(&layer, "options", options);
        repr.emit(&mut Ipv4Packet::new_unchecked(&mut *out))?;
        let at = repr.buffer_len();
        let end = at + repr.payload_len;
        self.padding(&bytes[end..], &mut out[end..]);
        if packet.is_fragment() {
            let which = if repr.fragment_offset == 0 { "first" } else { "later" };
            self.facts.insert("fragment".into(), which.into());
            out[at..end].copy_from_slice(packet.payload());
            return Ok(());
        }
        let pseudo = repr.pseudo_header();
        self.upper(repr.protocol, &pseudo, packet.payload(), &mut out[at..end])
    }

    fn ipv6(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let packet = Ipv6Packet::new_checked(bytes)?;
        let repr = Ipv6Repr::parse(&packet)?;
        let walk = ipv6_ext::walk(repr.next_header, packet.payload())?;
        let layer = self.layer("ipv6");
        self.note(&layer, "src", repr.src);
        self.note(&layer, "dst", repr.dst);
        self.note(&layer, "traffic_class", repr.traffic_class);
        self.note(&layer, "flow_label", repr.flow_label);
        self.note(&layer, "hop_limit", repr.hop_limit);
        self.note(&layer, "next_header", format!("{:?}", repr.next_header));
        self.note(&layer, "payload_len", repr.payload_len);
        self.note(&layer, "upper", format!("{:?}", walk.protocol));
        self.note(&layer, "flags", format!("{:#05x}", walk.flags.0));
        if let Some(fragment) = walk.fragment {
            let text = format!("{}/{}/{}", fragment.offset, fragment.more, fragment.ident);
            self.note(&layer, "fragment", text);
        }
        if let Some(destination) = walk.final_destination {
            self.note(&layer, "final_destination", destination);
        }
        repr.emit(&mut Ipv6Packet::new_unchecked(&mut *out))?;
        let mut at = repr.buffer_len();
        for header in ipv6_ext::Headers::new(repr.next_header, packet.payload()) {
            let header = header?;
            let out = &mut out[at..at + header.bytes.len()];
            at += header.bytes.len();
            match header.kind {
                IpProtocol::Fragment => {
                    let view = ipv6_ext::Fragment::new_checked(header.bytes)?;
                    let mut out = ipv6_ext::Fragment::new_unchecked(out);
                    ipv6_ext::FragmentRepr::parse(&view)?.emit(&mut out)?;
                }
                IpProtocol::Ah => out.copy_from_slice(header.bytes),
                _ => ipv6_ext::GenericRepr::parse(header.bytes)?.emit(out)?,
            }
        }
        assert_eq!(at, repr.buffer_len() + walk.at);
        let (bytes, out) = (&packet.payload()[walk.at..], &mut out[at..]);
        match walk.fragment {
            Some(fragment) if fragment.more || fragment.offset > 0 => {
                let which = if walk.is_later_fragment() { "later" } else { "first" };
                self.facts.insert("fragment".into(), which.into());
                out.copy_from_slice(bytes);
                Ok(())
            }
            _ => {
                let destination = walk.final_destination.unwrap_or(repr.dst);
                let pseudo = PseudoHeader::V6(repr.src, destination);
                self.upper(walk.protocol, &pseudo, bytes, out)
            }
        }
    }

    fn upper(
        &mut self,
        protocol: IpProtocol,
        pseudo: &PseudoHeader,
        bytes: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        match protocol {
            IpProtocol::Udp => self.udp(pseudo, bytes, out),
            IpProtocol::Tcp => self.tcp(pseudo, bytes, out),
            IpProtocol::Icmp => self.icmpv4(bytes, out),
            IpProtocol::Icmpv6 => self.icmpv6(pseudo, bytes, out),
            IpProtocol::Sctp => self.sctp(bytes, out),
            IpProtocol::Gre => self.gre(bytes, out),
            IpProtocol::Esp | IpProtocol::NoNext => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            other => panic!("no dissector for {other:?}"),
        }
    }

    fn udp(&mut self, pseudo: &PseudoHeader, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let packet = UdpPacket::new_checked(bytes)?;
        let repr = UdpRepr::parse(&packet)?;
        let verdict = packet.verify_checksum(pseudo);
        let layer = self.layer("udp");
        self.note(&layer, "src_port", repr.src_port);
        self.note(&layer, "dst_port", repr.dst_port);
        self.note(&layer, "payload_len", repr.payload_len);
        self.note(&layer, "checksum", format!("{verdict:?}"));
        self.note(&layer, "checksum_field", packet.checksum());
        repr.emit(&mut UdpPacket::new_unchecked(&mut *out))?;
        let (inside, inside_out) = (packet.payload(), &mut out[repr.buffer_len()..]);
        if repr.dst_port == udp::VXLAN_PORT {
            let vxlan = VxlanRepr::parse(&VxlanPacket::new_checked(inside)?)?;
            self.note("vxlan", "vni", vxlan.vni);
            vxlan.emit(&mut VxlanPacket::new_unchecked(&mut *inside_out))?;
            let at = vxlan.buffer_len();
            self.ethernet(&inside[at..], &mut inside_out[at..])?;
        } else {
            inside_out.copy_from_slice(inside);
        }
        if verdict != Verdict::Absent {
            UdpPacket::new_unchecked(out).fill_checksum(pseudo);
        }
        Ok(())
    }

    fn tcp(&mut self, pseudo: &PseudoHeader, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let packet = TcpPacket::new_checked(bytes)?;
        let repr = TcpRepr::parse(&packet)?;
        let good = if packet.has_good_checksum(pseudo) { "Good" } else { "Bad" };
        let options = join(packet.options(), |option| match option {
            TcpOption::Timestamps(value, echo) => format!("Timestamps({value},{echo})"),
            TcpOption::Sack(data) => {
                let blocks: Vec<String> =
                    sack_blocks(data).map(|(left, right)| format!("{left}-{right}")).collect();
                format!("Sack({})", blocks.join(","))
            }
            other => format!("{other:?}"),
        })?;
        self.note("tcp", "src_port", repr.src_port);
        self.note("tcp", "dst_port", repr.dst_port);
        self.note("tcp", "seq", repr.seq);
        self.note("tcp", "ack", repr.ack);
        self.note("tcp", "flags", format!("{:#05x}", repr.flags.0));
        self.note("tcp", "window", repr.window);
        self.note("tcp", "urgent", repr.urgent);
        self.note("tcp", "options", options);
        self.note("tcp", "checksum", good);
        let mut out = TcpPacket::new_unchecked(out);
        repr.emit(&mut out)?;
        out.payload_mut().copy_from_slice(packet.payload());
        out.fill_checksum(pseudo);
        Ok(())
    }

    fn sctp(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let packet = SctpPacket::new_checked(bytes)?;
        let repr = SctpRepr::parse(&packet)?;
        self.note("sctp", "src_port", repr.src_port);
        self.note("sctp", "dst_port", repr.dst_port);
        self.note("sctp", "tag", repr.tag);
        let good = if packet.has_good_checksum() { "Good" } else { "Bad" };
        self.note("sctp", "checksum", good);
        let mut out = SctpPacket::new_unchecked(out);
        repr.emit(&mut out)?;
        out.payload_mut().copy_from_slice(packet.payload());
        out.fill_checksum();
        Ok(())
    }

    fn gre(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let packet = GrePacket::new_checked(bytes)?;
        let repr = GreRepr::parse(&packet)?;
        self.note("gre", "protocol", format!("{:?}", repr.protocol));
        self.note("gre", "checksum", format!("{:?}", packet.verify_checksum()));
        self.note("gre", "key", format!("{:?}", repr.key));
        self.note("gre", "sequence", format!("{:?}", repr.sequence));
        let mut out = GrePacket::new_unchecked(out);
        repr.emit(&mut out)?;
        self.typed(repr.protocol, packet.payload(), out.payload_mut())?;
        out.fill_checksum();
        Ok(())
    }

    fn icmpv4(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let packet = Icmpv4Packet::new_checked(bytes)?;
        let repr = Icmpv4Repr::parse(&packet)?;
        self.note("icmp", "type", format!("{:?}", packet.message()));
        self.note("icmp", "code", packet.code());
        let good = if packet.has_good_checksum() { "Good" } else { "Bad" };
        self.note("icmp", "checksum", good);
        match repr {
            Icmpv4Repr::EchoRequest { ident, seq, data }
            | Icmpv4Repr::EchoReply { ident, seq, data } => {
                self.note("icmp", "ident", ident);
                self.note("icmp", "seq", seq);
                self.note("icmp", "data", hex(data));
            }
            Icmpv4Repr::DestinationUnreachable { next_hop_mtu, .. } => {
                self.note("icmp", "mtu", next_hop_mtu);
            }
            Icmpv4Repr::Redirect { gateway, .. } => self.note("icmp", "gateway", gateway),
            Icmpv4Repr::ParameterProblem { pointer, .. } => self.note("icmp", "pointer", pointer),
            Icmpv4Repr::TimeExceeded { .. } | Icmpv4Repr::Other { .. } => {}
        }
        assert_eq!(repr.buffer_len(), bytes.len());
        let mut out = Icmpv4Packet::new_unchecked(out);
        repr.emit(&mut out)?;
        out.fill_checksum();
        Ok(())
    }

    fn icmpv6(&mut self, pseudo: &PseudoHeader, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let packet = Icmpv6Packet::new_checked(bytes)?;
        let repr = Icmpv6Repr::parse(&packet)?;
        self.note("icmpv6", "type", format!("{:?}", packet.message()));
        self.note("icmpv6", "code", packet.code());
        let good = if packet.has_good_checksum(pseudo) { "Good" } else { "Bad" };
        self.note("icmpv6", "checksum", good);
        match repr {
            Icmpv6Repr::EchoRequest { ident, seq, .. }
            | Icmpv6Repr::EchoReply { ident, seq, .. } => {
                self.note("icmpv6", "ident", ident);
                self.note("icmpv6", "seq", seq);
            }
            Icmpv6Repr::PacketTooBig { mtu, .. } => self.note("icmpv6", "mtu", mtu),
            Icmpv6Repr::ParameterProblem { pointer, .. } => {
                self.note("icmpv6", "pointer", pointer);
            }
            Icmpv6Repr::Ndisc(ndisc) => self.ndisc(ndisc)?,
            _ => {}
        }
        assert_eq!(repr.buffer_len(), bytes.len());
        let mut out = Icmpv6Packet::new_unchecked(out);
        repr.emit(&mut out)?;
        out.fill_checksum(pseudo);
        Ok(())
    }

    fn ndisc(&mut self, repr: NdiscRepr<'_>) -> Result<()> {
        let options = join(repr.options(), |option| match option {
            NdiscOption::SourceLinkAddr(mac) => format!("SourceLinkAddr({mac})"),
            NdiscOption::TargetLinkAddr(mac) => format!("TargetLinkAddr({mac})"),
            NdiscOption::Redirected(packet) => format!("Redirected({})", packet.len()),
            NdiscOption::Prefix(p) => format!(
                "Prefix({}/{},{:#x},{},{})",
                p.prefix, p.prefix_len, p.flags, p.valid_s, p.preferred_s
            ),
            other => format!("{other:?}"),
        })?;
        self.note("ndisc", "options", options);
        match repr {
            NdiscRepr::RouterSolicit { .. } => {}
            NdiscRepr::RouterAdvert {
                hop_limit,
                flags,
                lifetime_s,
                reachable_ms,
                retransmit_ms,
                ..
            } => {
                self.note("ndisc", "hop_limit", hop_limit);
                self.note("ndisc", "flags", format!("{:#x}", flags.0));
                self.note("ndisc", "lifetime_s", lifetime_s);
                self.note("ndisc", "reachable_ms", reachable_ms);
                self.note("ndisc", "retransmit_ms", retransmit_ms);
            }
            NdiscRepr::NeighborSolicit { target, .. } => self.note("ndisc", "target", target),
            NdiscRepr::NeighborAdvert { flags, target, .. } => {
                self.note("ndisc", "flags", format!("{:#x}", flags.0));
                self.note("ndisc", "target", target);
            }
            NdiscRepr::Redirect { target, destination, .. } => {
                self.note("ndisc", "target", target);
                self.note("ndisc", "destination", destination);
            }
        }
        Ok(())
    }
}
