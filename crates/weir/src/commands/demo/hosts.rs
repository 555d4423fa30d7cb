//! Hosts for the demo: an Ethernet station with one IPv4 address behind a memory port, which asks
//! by ARP, answers ARP, pings and answers pings. No root, no kernel.

use anyhow::Result;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use weir_io::memory::MemoryPeer;
use weir_wire::arp::Operation as ArpOperation;
use weir_wire::build::Frame;
use weir_wire::{
    ArpPacket, ArpRepr, EtherType, EthernetFrame, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet,
    MacAddr,
};

/// One host.
#[derive(Debug)]
pub struct Host {
    /// Its MAC address.
    pub mac: MacAddr,
    /// Its IPv4 address.
    pub ip: Ipv4Addr,
    wire: MemoryPeer,
    known: HashMap<Ipv4Addr, MacAddr>,
    /// Echo replies that came: from whom, with which number.
    replies: Vec<(Ipv4Addr, u16)>,
    /// ARP's questions that came to its port, by the address that they ask for.
    pub questions: HashMap<Ipv4Addr, u64>,
    seq: u16,
}

impl Host {
    /// A host at the far end of a memory port.
    pub fn new(mac: MacAddr, ip: Ipv4Addr, wire: MemoryPeer) -> Self {
        let (known, questions, replies) = (HashMap::new(), HashMap::new(), Vec::new());
        Self { mac, ip, wire, known, replies, questions, seq: 0 }
    }

    fn send(&mut self, frame: Frame<'_>) -> Result<()> {
        let mut bytes = [0; 256];
        let len = frame.emit(&mut bytes)?.max(60);
        // A full ring loses the frame, as a wire would; who asked asks again.
        let _ = self.wire.send(&bytes[..len]);
        Ok(())
    }

    fn arp(&mut self, dst: MacAddr, arp: &ArpRepr) -> Result<()> {
        let mut body = [0; 28];
        arp.emit(&mut ArpPacket::new_unchecked(&mut body))?;
        self.send(Frame { src: self.mac, dst, ..Frame::ethernet(EtherType::Arp, &body) })
    }

    fn icmp(&mut self, to: (MacAddr, Ipv4Addr), message: &Icmpv4Repr<'_>) -> Result<()> {
        let mut body = [0; 128];
        let len = message.buffer_len();
        let mut packet = Icmpv4Packet::new_unchecked(&mut body[..len]);
        message.emit(&mut packet)?;
        packet.fill_checksum();
        let frame = Frame::ipv4(self.ip, to.1, IpProtocol::Icmp, &body[..len]).ttl(64);
        self.send(Frame { src: self.mac, dst: to.0, ..frame })
    }

    /// Takes all that has come.
    ///
    /// # Errors
    /// A frame of its own making that can't be written.
    pub fn attend(&mut self) -> Result<()> {
        let mut bytes = Vec::new();
        while self.wire.recv(&mut bytes) {
            let Ok(eth) = EthernetFrame::new_checked(&bytes[..]) else { continue };
            if eth.dst() != self.mac && eth.dst() != MacAddr::BROADCAST {
                // A switch that has not learnt yet floods; a host looks away.
                continue;
            }
            match eth.ether_type() {
                EtherType::Arp => self.take_arp(eth.payload())?,
                EtherType::Ipv4 => self.take_ip(eth.src(), eth.payload())?,
                _ => {}
            }
        }
        Ok(())
    }

    fn take_arp(&mut self, bytes: &[u8]) -> Result<()> {
        let Ok(arp) = ArpPacket::new_checked(bytes).and_then(|p| ArpRepr::parse(&p)) else {
            return Ok(());
        };
        self.known.insert(arp.sender_ip, arp.sender_mac);
        if arp.operation == ArpOperation::Request {
            *self.questions.entry(arp.target_ip).or_default() += 1;
            if arp.target_ip == self.ip {
                self.arp(arp.sender_mac, &arp.reply(self.mac))?;
            }
        }
        Ok(())
    }

    fn take_ip(&mut self, from: MacAddr, bytes: &[u8]) -> Result<()> {
        let Ok(ip) = Ipv4Packet::new_checked(bytes) else { return Ok(()) };
        if ip.dst() != self.ip {
            return Ok(());
        }
        let src = ip.src();
        let Ok(icmp) = Icmpv4Packet::new_checked(ip.payload()) else { return Ok(()) };
        if !icmp.has_good_checksum() {
            return Ok(());
        }
        match Icmpv4Repr::parse(&icmp) {
            Ok(Icmpv4Repr::EchoRequest { ident, seq, data }) => {
                let data = data.to_vec();
                self.icmp((from, src), &Icmpv4Repr::EchoReply { ident, seq, data: &data })
            }
            Ok(Icmpv4Repr::EchoReply { seq, .. }) => {
                self.replies.push((src, seq));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Pings host `to` from host `from` while all of `hosts` live on; says how long the first reply
/// took, ARP included, or `None` when none came in time.
///
/// # Errors
/// A host that can't write its frame.
pub fn ping(
    hosts: &mut [Host],
    from: usize,
    to: Ipv4Addr,
    patience: Duration,
) -> Result<Option<Duration>> {
    let start = Instant::now();
    let mut asked: Option<Instant> = None;
    hosts[from].seq += 1;
    let seq = hosts[from].seq;
    while start.elapsed() < patience {
        let due = asked.is_none_or(|a| a.elapsed() > Duration::from_millis(250));
        if due {
            let h = &mut hosts[from];
            match h.known.get(&to).copied() {
                Some(mac) => {
                    h.icmp((mac, to), &Icmpv4Repr::EchoRequest { ident: 1, seq, data: b"weir" })?;
                }
                None => h.arp(MacAddr::BROADCAST, &ArpRepr::request(h.mac, h.ip, to))?,
            }
            asked = Some(Instant::now());
        }
        let knew = hosts[from].known.contains_key(&to);
        for h in hosts.iter_mut() {
            h.attend()?;
        }
        if hosts[from].replies.contains(&(to, seq)) {
            hosts[from].replies.clear();
            return Ok(Some(start.elapsed()));
        }
        if !knew && hosts[from].known.contains_key(&to) {
            asked = None;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(None)
}
