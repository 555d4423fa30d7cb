//! The gateway's way from subscribers to the core. Called by `mod.rs` for frames of access ports.

use super::{
    Bng, CORE, GreSum, IPV4, Port, QINQ, Side, Stop, Subscriber, circuit_of, grains, hop, ipv4,
    replace_front, subscriber_key,
};
use crate::action::PortNo;
use crate::program::Ahead;
use weir_classify::simd::prefetch_read;
use weir_packet::{Frame, Nanos};
use weir_wire::checksum::internet;
use weir_wire::ipv4::header_checksum;
use weir_wire::mpls::ENTRY_LEN as MPLS;

/// TTL of outer header and label: the tunnel is one hop of its own (RFC 2003 §3.1's and RFC 3443's
/// pipes).
const TTL: u8 = 64;
const GRE: u8 = 47;

/// What a frame says of its circuit and station.
pub(super) struct Sender {
    /// 12 bits of each tag.
    circuit: u32,
    pub mac: [u8; 6],
    pub tags: [u8; 6],
}

impl Sender {
    /// Out of Ethernet's header, IEEE 802.1ad: a service tag (or a second customer tag), a customer tag,
    /// IPv4.
    #[inline(always)]
    pub fn parse(bytes: &[u8], port: &Port) -> Result<Self, Stop> {
        let h = bytes.first_chunk::<QINQ>().ok_or(Stop::Runt)?;
        let [d0, d1, d2, d3, d4, d5, mac @ .., _, _, _, _, _, _, _, _, _, _] = h;
        if [*d0, *d1, *d2, *d3, *d4, *d5] != port.mac.octets() || mac[0] & 1 != 0 {
            return Err(Stop::NotOurs);
        }
        let tpids = (u16::from_be_bytes([h[12], h[13]]), [h[16], h[17]], [h[20], h[21]]);
        if !matches!(tpids, (0x88a8 | 0x8100, [0x81, 0x00], [0x08, 0x00])) {
            return Err(Stop::NoSuchHeader);
        }
        let (outer, inner) = ([h[14] & 0xf, h[15]], [h[18] & 0xf, h[19]]);
        let tags = [h[12], h[13], outer[0], outer[1], inner[0], inner[1]];
        Ok(Self { circuit: circuit_of(&tags), mac: *mac, tags })
    }
}

/// Bytes of routes' rests that the nearest cache keeps whatever else is read.
const FEW: usize = 8 << 10;

impl Bng {
    /// Asks for what a subscriber's frame will lead to: its route, and by its circuit the subscriber. Only
    /// glances: what is wrong with the frame is found when its turn comes.
    #[inline]
    pub(super) fn expect_upstream(&self, bytes: &[u8]) {
        let Some(h) = bytes.first_chunk::<{ QINQ + IPV4 }>() else { return };
        let word = |i: usize| u32::from_be_bytes([h[i], h[i + 1], h[i + 2], h[i + 3]]);
        self.routes.expect_v4(word(QINQ + 16));
        let circuit = (word(12) & 0xfff) << 12 | word(16) & 0xfff;
        if let Some(key) = self.keys.get(&circuit) {
            let subscriber = subscriber_key(*key, word(QINQ + 12));
            self.subscribers.prefetch(self.subscribers.hash(&subscriber));
        }
    }

    /// Whether the rest of a route lies in no near cache: subscribers are looked up between one and the next.
    #[inline]
    pub(super) fn ahead_upstream(&self) -> Ahead {
        let rest = self.routes.bytes_behind() + size_of_val(&*self.ways);
        match rest {
            0..=FEW => Ahead::All,
            _ => Ahead::of(rest + self.subscribers.len() * size_of::<(u64, Subscriber)>()),
        }
    }

    /// Asks for the rest of a route, whose first step is near.
    #[inline]
    pub(super) fn expect_way(&self, bytes: &[u8]) {
        let Some(h) = bytes.first_chunk::<{ QINQ + IPV4 }>() else { return };
        let at = QINQ + 16;
        let dst = u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        if let Some(way) = self.routes.lookup_v4(dst).and_then(|w| self.ways.get(w as usize)) {
            prefetch_read(way);
        }
    }

    /// Makes a subscriber's frame one for the core; says by which port it leaves.
    #[inline]
    pub(super) fn upstream(
        &mut self,
        frame: &mut Frame,
        port: Port,
        at: u16,
        now: Nanos,
    ) -> Result<PortNo, Stop> {
        debug_assert!(port.side == Side::Access);
        let bytes = frame.bytes();
        let from = Sender::parse(bytes, &port)?;
        let (ip, total) = ipv4(bytes.get(QINQ..).unwrap_or_default())?;
        let (tos, src) = (ip[1], u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]));
        let dst = u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]);
        let key = *self.keys.get(&from.circuit).ok_or(Stop::NoCircuit)?;
        let way = self.routes.lookup_v4(dst).and_then(|w| self.ways.get(w as usize));
        let way = *way.ok_or(Stop::NoRoute)?;
        if ip[8] <= 1 {
            return Err(Stop::TtlExpired);
        }
        if bytes.len() > self.links.room
            && let Some(mtu) = self.links.too_long(way.port, total)
        {
            return Err(Stop::TooLong(mtu));
        }
        let outer = u16::try_from(IPV4 + self.sum.gre_len() + total).map_err(|_| Stop::NoRoom)?;
        self.learn(subscriber_key(key, src), &from, at, now);

        if let Some(ip) = frame.bytes_mut().get_mut(QINQ..).and_then(|b| b.first_chunk_mut()) {
            hop(ip);
        }
        let h = match self.sum {
            GreSum::Absent => {
                let h = replace_front::<{ CORE + 4 }>(frame, QINQ, total)?;
                h[38..].copy_from_slice(&[0x20, 0, 0x08, 0, 0, 0, 0, 0]);
                h[42..].copy_from_slice(&key.to_be_bytes());
                h.first_chunk_mut::<{ CORE - 4 }>()
            }
            GreSum::Present => {
                let h = replace_front::<{ CORE + 8 }>(frame, QINQ, total)?;
                h[38..].copy_from_slice(&[0xa0, 0, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                h[46..].copy_from_slice(&key.to_be_bytes());
                h.first_chunk_mut::<{ CORE - 4 }>()
            }
        };
        let Some(h) = h else { return Err(Stop::NoRoom) };
        h[..6].copy_from_slice(&way.next_hop.octets());
        h[6..12].copy_from_slice(&way.mac.octets());
        h[12..14].copy_from_slice(&[0x88, 0x47]);
        // Bottom of the stack, best effort.
        let label = way.label << 12 | 1 << 8 | u32::from(TTL);
        h[14..14 + MPLS].copy_from_slice(&label.to_be_bytes());
        let [l0, l1] = outer.to_be_bytes();
        // Its ECN field goes out as it is (RFC 6040 §4.1); the far end brings back what is marked.
        // Not to be fragmented, so without an identification (RFC 6864 §4.1).
        let mut ip = [0x45, tos, l0, l1, 0, 0, 0x40, 0, TTL, GRE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        ip[12..16].copy_from_slice(&self.tunnel.octets());
        ip[16..].copy_from_slice(&way.remote.octets());
        [ip[10], ip[11]] = header_checksum(&ip).to_be_bytes();
        h[18..].copy_from_slice(&ip);
        if self.sum == GreSum::Present {
            let sum = internet(frame.bytes().get(CORE - 4..).unwrap_or_default());
            if let Some(field) = frame.bytes_mut().get_mut(CORE..CORE + 2) {
                field.copy_from_slice(&sum.to_be_bytes());
            }
        }
        self.counters.to_core += 1;
        Ok(way.port)
    }

    /// Notes how a subscriber is reached, and when it was heard of.
    #[inline(always)]
    fn learn(&mut self, key: u64, from: &Sender, port: u16, now: Nanos) {
        let s = Subscriber { tags: from.tags, mac: from.mac, port, seen: grains(now) };
        // Most are known, and change in nothing but the time.
        match self.subscribers.get_mut(&key) {
            Some(known) => *known = s,
            None => match self.subscribers.insert(key, s) {
                Ok(_) => self.counters.learned += 1,
                Err(_) => self.counters.no_room += 1,
            },
        }
    }
}
