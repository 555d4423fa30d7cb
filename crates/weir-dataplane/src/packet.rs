//! A frame with what the stages know of it, and the extraction of its flow key.
//!
//! Room: called by the mapping stage once per frame, and by function modules that change a frame's
//! layout. Touches bytes and keys only. Any bytes are allowed: what a header promises and the frame
//! does not hold is treated as absent, as OpenFlow switches do; only a runt is refused.

use crate::userfield::UserFields;
use weir_classify::{FRAG_ANY, FRAG_LATER, FastTable, Field, FlowKey, VLAN_PRESENT};
use weir_packet::{DropReason, Frame, SHORTEST_FRAME};

/// Where a frame's headers begin, as offsets from its first byte. Zero: there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// The byte behind Ethernet and VLAN tags (and MPLS is not skipped).
    pub l3: u16,
    /// First byte of TCP, UDP, SCTP, ICMP, ICMPv6; zero for later fragments.
    pub l4: u16,
    /// VLAN tags in front of `l3`.
    pub vlans: u8,
    /// What lies at `l3`.
    pub net: Net,
    /// The last IP protocol seen.
    pub proto: u8,
}

/// The network header at [`Layers::l3`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Net {
    /// Something else, or cut short.
    #[default]
    Other,
    /// IPv4, header whole.
    Ipv4,
    /// IPv6, header whole.
    Ipv6,
    /// ARP for IPv4 over Ethernet, whole.
    Arp,
    /// At least one whole MPLS label.
    Mpls,
}

/// How much of a frame's key rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    /// The ingress port at most.
    Port,
    /// Ethernet's header and VLAN tags, too: words 0 to 2 of the key, but for IPv6's extension headers.
    Ethernet,
    /// IPv4, ports and MPLS labels, too: [`COMMON`].
    Common,
    /// More.
    Whole,
}

/// The words that most keys have anything in, and [`extract_some`] sets.
const COMMON: u32 = 1 << 14 | 0b11_1111;

impl Depth {
    /// How much the rules in a table look at, or have looked at.
    #[inline]
    pub fn of(rules: &FastTable) -> Self {
        let words = rules.words_union();
        match (words, rules.first_union() & 0xffff_ffff) {
            (0 | 1, 0) => Self::Port,
            // Extension headers are nowhere but in whole keys.
            (_, low) if low & 0xffff != 0 || words & !COMMON != 0 => Self::Whole,
            (w, _) if w >> 3 == 0 => Self::Ethernet,
            _ => Self::Common,
        }
    }
}

/// A frame on its way through the processing stage.
#[derive(Debug)]
pub struct Packet<'a> {
    /// The bytes.
    pub frame: &'a mut Frame,
    /// The key; stale after changes until [`Packet::refresh`].
    pub key: &'a mut FlowKey,
    /// Where the headers are. Kept true by every function module.
    pub layers: Layers,
    /// Whether bytes changed since the key was made.
    pub stale: Stale,
}

/// Whether a key still tells the truth about its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// It does.
    No,
    /// The frame was changed.
    Yes,
}

impl Packet<'_> {
    /// Makes the key anew, keeping what is not on the wire (ports, metadata, tunnel id).
    ///
    /// # Errors
    /// [`DropReason::Runt`] when the frame has become too short.
    pub fn refresh(&mut self) -> Result<(), DropReason> {
        if self.stale == Stale::No {
            return Ok(());
        }
        let kept = [Field::Metadata, Field::TunnelId, Field::InPhyPort].map(|f| self.key.get(f));
        let in_port = self.key.get(Field::InPort) as u32;
        self.layers = extract(self.frame.bytes(), in_port, self.key)?;
        for (f, v) in [Field::Metadata, Field::TunnelId, Field::InPhyPort].into_iter().zip(kept) {
            self.key.set(f, v);
        }
        self.stale = Stale::No;
        Ok(())
    }
    /// [`Packet::refresh`], and a VDP's own fields with it, as later tables ask for them.
    ///
    /// # Errors
    /// [`DropReason::Runt`].
    #[inline]
    pub fn refresh_all(&mut self, own: &UserFields) -> Result<(), DropReason> {
        self.refresh()?;
        own.extract(self.frame.bytes(), &self.layers, self.key);
        Ok(())
    }
    /// To be called after the layout changed: finds the headers again, and the key's wire fields.
    ///
    /// # Errors
    /// [`DropReason::Runt`].
    pub fn relayout(&mut self) -> Result<(), DropReason> {
        self.stale = Stale::Yes;
        self.refresh()
    }
}

#[inline(always)]
fn be16(b: &[u8], at: usize) -> Option<u64> {
    let s: &[u8; 2] = b.get(at..at + 2)?.try_into().ok()?;
    Some(u64::from(u16::from_be_bytes(*s)))
}
#[inline(always)]
fn be32(b: &[u8], at: usize) -> Option<u64> {
    let s: &[u8; 4] = b.get(at..at + 4)?.try_into().ok()?;
    Some(u64::from(u32::from_be_bytes(*s)))
}
#[inline(always)]
fn be48(b: &[u8], at: usize) -> Option<u64> {
    Some(be32(b, at)? << 16 | be16(b, at + 4)?)
}
#[inline(always)]
fn be64(b: &[u8], at: usize) -> Option<u64> {
    let s: &[u8; 8] = b.get(at..at + 8)?.try_into().ok()?;
    Some(u64::from_be_bytes(*s))
}

const fn is_vlan(ethertype: u64) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100)
}

/// Fills `key` from `b` (a whole Ethernet frame without FCS) and says where the headers are.
/// Everything that is not on the wire, but `in_port`, is set to zero.
///
/// # Errors
/// [`DropReason::Runt`] when there is no whole Ethernet header.
#[inline(always)]
pub fn extract(b: &[u8], in_port: u32, key: &mut FlowKey) -> Result<Layers, DropReason> {
    // No Ethernet frame is shorter, so that one check serves most of them.
    if let Some(h) = b.first_chunk()
        && let Some((l, c)) = extract_common(h)
    {
        *key = FlowKey::default();
        c.put(in_port, key);
        return Ok(l);
    }
    extract_any(b, in_port, key)
}

/// [`extract`] for who looks at no more than [`COMMON`]: other words of the key may be left as they are.
///
/// # Errors
/// [`DropReason::Runt`].
#[inline(always)]
pub(crate) fn extract_some(
    b: &[u8],
    in_port: u32,
    key: &mut FlowKey,
) -> Result<Layers, DropReason> {
    if let Some(h) = b.first_chunk()
        && let Some((l, c)) = extract_common(h)
    {
        c.put(in_port, key);
        return Ok(l);
    }
    extract_any(b, in_port, key)
}

/// Words 1 to 5 of a key, and 14.
struct Words([u64; 6]);

impl Words {
    #[inline(always)]
    fn put(self, in_port: u32, key: &mut FlowKey) {
        let Self([w1, w2, w3, w4, w5, w14]) = self;
        let w = &mut key.0;
        w[0] = u64::from(in_port) << 32;
        [w[1], w[2], w[3], w[4], w[5], w[14]] = [w1, w2, w3, w4, w5, w14];
    }
}

/// [`extract`] for what most frames are: UDP or TCP in an unfragmented IPv4 packet without options,
/// behind at most one VLAN tag, or MPLS labels behind none. Every offset is known, nothing is checked twice. `None`:
/// the frame is something else.
#[inline(always)]
fn extract_common(h: &[u8; SHORTEST_FRAME]) -> Option<(Layers, Words)> {
    let dst_hi = u64::from_be_bytes(*h.first_chunk()?);
    let rest = u64::from_be_bytes(*h[8..].first_chunk()?);
    let ethertype = rest >> 16 & 0xffff;
    let (l, tci, l4) = if ethertype == 0x0800 {
        let l4 = transport::<14>(h)?;
        (Layers { l3: 14, l4: 34, vlans: 0, net: Net::Ipv4, proto: l4.proto }, 0, l4)
    } else if is_vlan(ethertype) && u16::from_be_bytes([h[16], h[17]]) == 0x0800 {
        let l4 = transport::<18>(h)?;
        let tci = rest & 0xffff | u64::from(VLAN_PRESENT);
        (Layers { l3: 18, l4: 38, vlans: 1, net: Net::Ipv4, proto: l4.proto }, tci, l4)
    } else if matches!(ethertype, 0x8847 | 0x8848) {
        let entry = u64::from(u32::from_be_bytes([h[14], h[15], h[16], h[17]]));
        let src = (dst_hi & 0xffff) << 48 | rest >> 32 << 16;
        let l = Layers { l3: 14, net: Net::Mpls, ..Layers::default() };
        return Some((l, Words([dst_hi & !0xffff | ethertype, src, 0, 0, entry << 32, 0])));
    } else {
        return None;
    };
    let src = (dst_hi & 0xffff) << 48 | rest >> 32 << 16 | tci;
    Some((l, Words([dst_hi & !0xffff | 0x0800, src, l4.addresses, l4.word4, 0, l4.tcp_flags])))
}

/// The first three words of what [`extract`] makes, for frames with an EtherType behind at most one VLAN tag.
/// `false`: the frame is something else, and `key` is as it was.
#[inline(always)]
pub(crate) fn extract_ethernet(b: &[u8], in_port: u32, key: &mut FlowKey) -> bool {
    let Some(h) = b.first_chunk::<18>() else { return false };
    let dst_hi = u64::from_be_bytes([h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]]);
    let rest = u64::from_be_bytes([h[8], h[9], h[10], h[11], h[12], h[13], h[14], h[15]]);
    let (mut ethertype, mut tci) = (rest >> 16 & 0xffff, 0);
    if is_vlan(ethertype) {
        tci = rest & 0xffff | u64::from(VLAN_PRESENT);
        ethertype = u64::from(u16::from_be_bytes([h[16], h[17]]));
        if is_vlan(ethertype) {
            return false;
        }
    }
    if ethertype < 0x600 {
        return false;
    }
    let [port, dst, src, ..] = &mut key.0;
    *port = u64::from(in_port) << 32;
    *dst = dst_hi & !0xffff | ethertype;
    *src = (dst_hi & 0xffff) << 48 | rest >> 32 << 16 | tci;
    true
}

/// [`Field::VlanVid`] of what [`extract`] makes.
#[inline(always)]
pub(crate) fn vlan_vid(b: &[u8]) -> u16 {
    let Some(h) = b.first_chunk::<18>() else { return 0 };
    match is_vlan(u16::from_be_bytes([h[12], h[13]]).into()) {
        true => u16::from_be_bytes([h[14], h[15]]) & 0xfff | VLAN_PRESENT,
        false => 0,
    }
}

/// Where the headers are of an untagged IPv4 packet without options: what [`extract`] says of it, but for what lies
/// behind IPv4's header. `None`: it is something else.
#[inline(always)]
pub(crate) fn plain_ipv4(b: &[u8]) -> Option<Layers> {
    let h = b.first_chunk::<34>()?;
    let plain = [h[12], h[13], h[14]] == [8, 0, 0x45] && u16::from_be_bytes([h[16], h[17]]) >= 20;
    plain.then_some(Layers { l3: 14, net: Net::Ipv4, ..Layers::default() })
}

/// What [`transport`] found.
struct Transport {
    proto: u8,
    addresses: u64,
    word4: u64,
    tcp_flags: u64,
}

/// The IPv4 header at `AT` and the ports behind it, where both are as [`extract_common`] wants.
#[inline(always)]
fn transport<const AT: usize>(h: &[u8; SHORTEST_FRAME]) -> Option<Transport> {
    let h: &[u8; 40] = h[AT..].first_chunk()?;
    // Bytes behind the datagram are padding: they must not be taken for ports.
    let need = match h[9] {
        17 => 28,
        6 => 40,
        _ => return None,
    };
    let whole = h[0] == 0x45 && u16::from_be_bytes([h[6], h[7]]) & 0x3fff == 0;
    if !whole || u16::from_be_bytes([h[2], h[3]]) < need {
        return None;
    }
    let ports = u64::from(u32::from_be_bytes([h[20], h[21], h[22], h[23]]));
    Some(Transport {
        proto: h[9],
        addresses: u64::from_be_bytes([h[12], h[13], h[14], h[15], h[16], h[17], h[18], h[19]]),
        word4: ports << 32 | word4(h[9].into(), h[1].into(), h[8].into(), 0),
        tcp_flags: match h[9] {
            6 => u64::from(u16::from_be_bytes([h[32], h[33]]) & 0xfff),
            _ => 0,
        },
    })
}

#[inline(never)]
fn extract_any(b: &[u8], in_port: u32, key: &mut FlowKey) -> Result<Layers, DropReason> {
    let Some(mac) = b.first_chunk::<16>() else {
        return extract_short(b, in_port, key);
    };
    *key = FlowKey::default();
    let w = &mut key.0;
    let dst_hi =
        u64::from_be_bytes([mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], mac[6], mac[7]]);
    let rest =
        u64::from_be_bytes([mac[8], mac[9], mac[10], mac[11], mac[12], mac[13], mac[14], mac[15]]);
    w[0] = u64::from(in_port) << 32;
    let src = (dst_hi & 0xffff) << 32 | rest >> 32;
    let mut at = 14;
    let mut ethertype = rest >> 16 & 0xffff;
    let mut vlans = 0u8;
    let mut tci = 0u64;
    if is_vlan(ethertype)
        && let (Some(t), Some(next)) = (be16(b, 14), be16(b, 16))
    {
        tci = t | u64::from(VLAN_PRESENT);
        ethertype = next;
        at = 18;
        vlans = 1;
        if is_vlan(ethertype)
            && let (Some(t), Some(next)) = (be16(b, 18), be16(b, 20))
        {
            w[0] |= (t | u64::from(VLAN_PRESENT)) << 16;
            ethertype = next;
            at = 22;
            vlans = 2;
        }
    }
    if ethertype < 0x600 {
        ethertype = llc_type(b, at, &mut at);
    }
    w[1] = dst_hi & !0xffff | ethertype;
    w[2] = src << 16 | tci;
    let mut l = Layers { l3: at as u16, l4: 0, vlans, net: Net::Other, proto: 0 };
    match ethertype {
        0x0800 => ipv4(b, at, w, &mut l),
        0x86dd => {
            ipv6(b, at, w, &mut l);
        }
        0x0806 | 0x8035 => {
            arp(b, at, w, &mut l);
        }
        0x8847 | 0x8848 => {
            if let Some(lse) = be32(b, at) {
                w[5] = lse << 32;
                l.net = Net::Mpls;
            }
        }
        0x88e7 => {
            if let Some(tag) = be32(b, at) {
                w[16] = (tag & 0xff_ffff) << 40;
            }
        }
        _ => {}
    }
    Ok(l)
}

/// A frame of 14 or 15 bytes: addresses and type are all there is.
#[cold]
fn extract_short(b: &[u8], in_port: u32, key: &mut FlowKey) -> Result<Layers, DropReason> {
    *key = FlowKey::default();
    let (Some(dst), Some(src), Some(t)) = (be48(b, 0), be48(b, 6), be16(b, 12)) else {
        return Err(DropReason::Runt);
    };
    key.0[0] = u64::from(in_port) << 32;
    key.0[1] = dst << 16 | if t < 0x600 { 0x05ff } else { t };
    key.0[2] = src << 16;
    Ok(Layers { l3: 14, ..Layers::default() })
}

/// The type of an 802.3 frame: SNAP's where the OUI is zero, else OpenFlow's 0x05ff.
#[cold]
fn llc_type(b: &[u8], at: usize, l3: &mut usize) -> u64 {
    let snap = be32(b, at) == Some(0xaaaa_0300) && be16(b, at + 4) == Some(0);
    if let (true, Some(t)) = (snap, be16(b, at + 6))
        && t >= 0x600
    {
        *l3 = at + 8;
        return t;
    }
    0x05ff
}

/// Bits of word 4.
const fn word4(proto: u64, tos: u64, ttl: u64, frag: u64) -> u64 {
    proto << 24 | tos << 16 | ttl << 8 | frag
}

#[inline(always)]
fn ipv4(b: &[u8], at: usize, w: &mut [u64; weir_classify::WORDS], l: &mut Layers) {
    let Some(h) = b.get(at..).and_then(|rest| rest.first_chunk::<20>()) else { return };
    let ihl = usize::from(h[0] & 15) * 4;
    if h[0] >> 4 != 4 || ihl < 20 {
        return;
    }
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    // Bytes behind the datagram are padding: they must not be taken for ports.
    let end = (at + total).min(b.len());
    if total < ihl || at + ihl > b.len() {
        return;
    }
    let fo = u16::from_be_bytes([h[6], h[7]]);
    let mut frag = 0;
    if fo & 0x3fff != 0 {
        frag = u64::from(FRAG_ANY);
        if fo & 0x1fff != 0 {
            frag |= u64::from(FRAG_LATER);
        }
    }
    l.net = Net::Ipv4;
    l.proto = h[9];
    w[3] = u64::from_be_bytes([h[12], h[13], h[14], h[15], h[16], h[17], h[18], h[19]]);
    w[4] = word4(h[9].into(), h[1].into(), h[8].into(), frag);
    if frag & u64::from(FRAG_LATER) == 0 {
        l4(b, at + ihl, end, h[9], w, l);
    }
}

/// Ports, ICMP type and code, TCP flags; `end` is where the IP datagram ends.
#[inline(always)]
fn l4(
    b: &[u8],
    at: usize,
    end: usize,
    proto: u8,
    w: &mut [u64; weir_classify::WORDS],
    l: &mut Layers,
) {
    let need = match proto {
        6 => 20,
        17 => 8,
        132 => 12,
        1 => 8,
        58 => 4,
        _ => return,
    };
    if at + need > end {
        return;
    }
    let Some(ports) = be32(b, at) else { return };
    l.l4 = at as u16;
    match proto {
        1 | 58 => {
            w[4] |= (ports >> 24) << 48 | (ports >> 16 & 0xff) << 32;
            if proto == 58 {
                neighbour(b, at, end, w);
            }
        }
        _ => {
            w[4] |= ports << 32;
            if proto == 6
                && let Some(f) = be16(b, at + 12)
            {
                w[14] |= f & 0xfff;
            }
        }
    }
}

/// Target and link-layer address of neighbour discovery (RFC 4861, §4.3 and §4.4).
#[cold]
fn neighbour(b: &[u8], at: usize, end: usize, w: &mut [u64; weir_classify::WORDS]) {
    let Some(&kind) = b.get(at) else { return };
    if !matches!(kind, 135 | 136) || at + 24 > end {
        return;
    }
    let (Some(hi), Some(lo)) = (be64(b, at + 8), be64(b, at + 16)) else { return };
    (w[12], w[13]) = (hi, lo);
    let mut o = at + 24;
    while o + 8 <= end {
        let (Some(&t), Some(&n)) = (b.get(o), b.get(o + 1)) else { return };
        if n == 0 {
            return;
        }
        // Of several the first counts.
        match (kind, t, n, be48(b, o + 2)) {
            (135, 1, 1, Some(mac)) => return w[14] |= mac << 16,
            (136, 2, 1, Some(mac)) => return w[15] |= mac << 16,
            _ => {}
        }
        o += usize::from(n) * 8;
    }
}

fn arp(b: &[u8], at: usize, w: &mut [u64; weir_classify::WORDS], l: &mut Layers) -> Option<()> {
    // Ethernet and IPv4 only, as OpenFlow's fields presuppose.
    if be32(b, at)? != 0x0001_0800 || be16(b, at + 4)? != 0x0604 {
        return None;
    }
    let (op, sha, spa) = (be16(b, at + 6)?, be48(b, at + 8)?, be32(b, at + 14)?);
    let (tha, tpa) = (be48(b, at + 18)?, be32(b, at + 24)?);
    w[3] = spa << 32 | tpa;
    w[14] = sha << 16;
    w[15] = tha << 16 | op;
    l.net = Net::Arp;
    Some(())
}

/// OXM_OF_IPV6_EXTHDR bits (OpenFlow 1.3, §7.2.3.7).
mod exthdr {
    pub const NO_NEXT: u64 = 1 << 0;
    pub const ESP: u64 = 1 << 1;
    pub const AUTH: u64 = 1 << 2;
    pub const DEST: u64 = 1 << 3;
    pub const FRAG: u64 = 1 << 4;
    pub const ROUTER: u64 = 1 << 5;
    pub const HOP: u64 = 1 << 6;
    pub const UNREP: u64 = 1 << 7;
    pub const UNSEQ: u64 = 1 << 8;
}

/// Which extension headers there were, and whether in RFC 8200's order (§4.1): hop-by-hop,
/// destination, routing, fragment, authentication, ESP, destination again.
#[derive(Default)]
struct Chain {
    bits: u64,
    /// A bit for each place that was taken.
    taken: u8,
    /// The first place that the next header may take.
    free: u8,
}

impl Chain {
    fn meet(&mut self, header: u8) {
        const DEST: u8 = 1;
        const LAST_DEST: u8 = 6;
        let (bit, place) = match header {
            // The bit is for the first header only; elsewhere it is out of order.
            0 if self.taken == 0 => (exthdr::HOP, 0),
            0 => (0, 0),
            60 => (exthdr::DEST, DEST),
            43 => (exthdr::ROUTER, 2),
            44 => (exthdr::FRAG, 3),
            51 => (exthdr::AUTH, 4),
            50 => (exthdr::ESP, 5),
            _ => return self.bits |= exthdr::NO_NEXT,
        };
        self.bits |= bit;
        let has = |place: u8| self.taken >> place & 1 == 1;
        let place = if place == DEST && has(DEST) { LAST_DEST } else { place };
        if has(place) {
            self.bits |= exthdr::UNREP;
            return;
        }
        self.taken |= 1 << place;
        let place = if place == DEST && self.free > DEST { LAST_DEST } else { place };
        if place < self.free {
            self.bits |= exthdr::UNSEQ;
        }
        self.free = self.free.max(place + 1);
    }
}

fn ipv6(b: &[u8], at: usize, w: &mut [u64; weir_classify::WORDS], l: &mut Layers) -> Option<()> {
    let h = b.get(at..)?.first_chunk::<40>()?;
    if h[0] >> 4 != 6 {
        return None;
    }
    let first = be32(h, 0)?;
    let end = (at + 40 + be16(h, 4)? as usize).min(b.len());
    l.net = Net::Ipv6;
    w[5] |= first & 0xf_ffff;
    (w[8], w[9]) = (be64(h, 8)?, be64(h, 16)?);
    (w[10], w[11]) = (be64(h, 24)?, be64(h, 32)?);
    let (tos, ttl) = (first >> 20 & 0xff, u64::from(h[7]));
    let (mut next, mut o) = (h[6], at + 40);
    let (mut chain, mut frag) = (Chain::default(), 0u64);
    // Each turn moves on by at least 8 bytes, so the walk is bounded by the frame.
    while matches!(next, 0 | 43 | 44 | 50 | 51 | 59 | 60) {
        chain.meet(next);
        if matches!(next, 50 | 59) {
            break;
        }
        let (Some(&n), Some(&len)) = (b.get(o), b.get(o + 1)) else { break };
        if o + 8 > end {
            break;
        }
        let size = match next {
            44 => {
                // RFC 6946: one without offset that is the last is the whole, no fragment.
                match be16(b, o + 2).unwrap_or(0) {
                    f if f & 0xfff8 != 0 => frag = u64::from(FRAG_ANY | FRAG_LATER),
                    f if f & 1 != 0 => frag |= u64::from(FRAG_ANY),
                    _ => {}
                }
                8
            }
            51 => (usize::from(len) + 2) * 4,
            _ => (usize::from(len) + 1) * 8,
        };
        if o + size > end {
            break;
        }
        next = n;
        o += size;
        if frag & u64::from(FRAG_LATER) != 0 {
            break;
        }
    }
    w[0] |= chain.bits;
    l.proto = next;
    w[4] = word4(next.into(), tos, ttl, frag);
    if frag & u64::from(FRAG_LATER) == 0 {
        l4(b, o, end, next, w, l);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is read of a frame in short is what is read of it whole.
        #[test]
        fn less_of_a_key_is_part_of_the_whole(
            mut b in prop::collection::vec(0u8..4, 14..70),
            types in prop::collection::vec(
                prop::sample::select(vec![0x8100u16, 0x88a8, 0x0800, 0x86dd, 0x8847, 0x05dc]), 3),
            fourth in prop::sample::select(vec![0x45u8, 0x46, 0x60]),
        ) {
            for (at, t) in [12, 16, 20].into_iter().zip(types) {
                if let Some(field) = b.get_mut(at..at + 2) {
                    field.copy_from_slice(&t.to_be_bytes());
                }
            }
            [14, 18, 22].into_iter().for_each(|at| b.get_mut(at).into_iter().for_each(|x| *x = fourth));
            let (mut whole, mut part) = (FlowKey::default(), FlowKey([7; weir_classify::WORDS]));
            let layers = extract(&b, 5, &mut whole).unwrap();
            if extract_ethernet(&b, 5, &mut part) {
                // But for IPv6's extension headers.
                whole.0[0] &= !0xffff;
                prop_assert_eq!(&part.0[..3], &whole.0[..3]);
            } else {
                prop_assert_eq!(part, FlowKey([7; weir_classify::WORDS]));
            }
            prop_assert_eq!(u128::from(vlan_vid(&b)), whole.get(Field::VlanVid));
            let mut some = FlowKey([7; weir_classify::WORDS]);
            let mut all = FlowKey::default();
            prop_assert_eq!(extract_some(&b, 5, &mut some), extract(&b, 5, &mut all));
            for word in (0..weir_classify::WORDS).filter(|w| COMMON >> w & 1 == 1) {
                prop_assert_eq!(some.0[word], all.0[word]);
            }
            if let Some(l) = plain_ipv4(&b) {
                prop_assert_eq!((l.l3, l.net, l.vlans), (layers.l3, layers.net, layers.vlans));
            }
        }
    }
}
