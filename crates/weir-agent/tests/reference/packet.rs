//! Frames as the reference sees them: a few headers as plain numbers, with their bytes.

use weir_openflow::model::Field;

/// A frame of Ethernet, perhaps VLAN tags, perhaps IPv4 and UDP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet {
    pub dst: u64,
    pub src: u64,
    /// Outer first: priority and id.
    pub tags: Vec<(u8, u16)>,
    pub udp: Option<Udp>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Udp {
    pub dscp: u8,
    pub src: u32,
    pub dst: u32,
    pub from: u16,
    pub to: u16,
}

/// EtherType of frames without IPv4.
pub const PLAIN: u16 = 0x88b5;
/// EtherType of every tag.
const TPID: u16 = 0x8100;
/// No frame is shorter.
pub const LEN: usize = 80;

impl Packet {
    pub fn bytes(&self) -> Vec<u8> {
        let mut f = self.dst.to_be_bytes()[2..].to_vec();
        f.extend(&self.src.to_be_bytes()[2..]);
        for (pcp, vid) in &self.tags {
            f.extend(TPID.to_be_bytes());
            f.extend((u16::from(*pcp) << 13 | vid).to_be_bytes());
        }
        let Some(u) = &self.udp else {
            f.extend(PLAIN.to_be_bytes());
            f.resize(LEN + 4 * self.tags.len(), 0);
            return f;
        };
        f.extend([8, 0]);
        let at = f.len();
        f.extend([0x45, u.dscp << 2, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0]);
        f.extend(u.src.to_be_bytes());
        f.extend(u.dst.to_be_bytes());
        let words = f[at..at + 20].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1]));
        let sum = words.sum::<u32>();
        let sum = (sum & 0xffff) + (sum >> 16);
        f[at + 10..at + 12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        f.extend(u.from.to_be_bytes());
        f.extend(u.to.to_be_bytes());
        // No UDP checksum.
        f.extend([0, 20, 0, 0]);
        f.resize(LEN + 4 * self.tags.len(), 0);
        f
    }
    pub fn read(f: &[u8]) -> Packet {
        let word = |at: usize| u16::from_be_bytes([f[at], f[at + 1]]);
        let mac = |at: usize| f[at..at + 6].iter().fold(0, |n, b| n << 8 | u64::from(*b));
        let ip = |at: usize| u32::from_be_bytes(f[at..at + 4].try_into().unwrap());
        let mut p = Packet { dst: mac(0), src: mac(6), tags: vec![], udp: None };
        let mut at = 12;
        while word(at) == TPID {
            let tci = word(at + 2);
            p.tags.push(((tci >> 13) as u8, tci & 0xfff));
            at += 4;
        }
        if word(at) == 0x0800 {
            p.udp = Some(Udp {
                dscp: f[at + 3] >> 2,
                src: ip(at + 14),
                dst: ip(at + 18),
                from: word(at + 22),
                to: word(at + 24),
            });
        }
        p
    }
    /// Whether there is a third tag: keys end at it, and its TPID is the EtherType.
    fn is_hidden(&self) -> bool {
        self.tags.len() > 2
    }
    /// What a match sees; `None` where the frame has no such field.
    pub fn field(&self, f: Field, in_port: u32, metadata: u64) -> Option<u128> {
        let u = self.udp.as_ref().filter(|_| !self.is_hidden());
        Some(match f {
            Field::InPort => in_port.into(),
            Field::Metadata => metadata.into(),
            Field::EthDst => self.dst.into(),
            Field::EthSrc => self.src.into(),
            Field::EthType if self.is_hidden() => TPID.into(),
            Field::EthType if u.is_some() => 0x0800,
            Field::EthType => PLAIN.into(),
            Field::VlanVid => self.tags.first().map_or(0, |t| 0x1000 | u128::from(t.1)),
            Field::VlanPcp => self.tags.first()?.0.into(),
            Field::IpProto => u.map(|_| 17)?,
            Field::IpDscp => u?.dscp.into(),
            Field::Ipv4Src => u?.src.into(),
            Field::Ipv4Dst => u?.dst.into(),
            Field::UdpSrc => u?.from.into(),
            Field::UdpDst => u?.to.into(),
            _ => return None,
        })
    }
    /// Writes a field, where the frame has it.
    pub fn set(&mut self, f: Field, v: u128) {
        let hidden = self.is_hidden();
        match (f, self.tags.first_mut(), self.udp.as_mut().filter(|_| !hidden)) {
            (Field::EthDst, ..) => self.dst = v as u64,
            (Field::EthSrc, ..) => self.src = v as u64,
            (Field::VlanVid, Some(t), _) => t.1 = v as u16 & 0xfff,
            (Field::VlanPcp, Some(t), _) => t.0 = v as u8,
            (Field::IpDscp, _, Some(u)) => u.dscp = v as u8,
            (Field::Ipv4Src, _, Some(u)) => u.src = v as u32,
            (Field::Ipv4Dst, _, Some(u)) => u.dst = v as u32,
            (Field::UdpSrc, _, Some(u)) => u.from = v as u16,
            (Field::UdpDst, _, Some(u)) => u.to = v as u16,
            _ => {}
        }
    }
}
