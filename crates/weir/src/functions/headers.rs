//! Which headers weir extracts keys from in a frame: what extraction costs depends on it.
//!
//! Room: bytes. Called for the estimate of the pass through a VDP.

/// Headers of a frame, as extraction meets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Of the usual kind: TCP or UDP in IPv4 without options behind at most one tag. These are taken at
    /// once; any other frame's headers one after the other.
    pub usual: bool,
    /// Tags.
    pub tags: u32,
    /// A label: what is behind it nobody looks at.
    pub labels: u32,
    /// IPv4's header.
    pub ip4: u32,
    /// IPv6's header.
    pub ip6: u32,
    /// A transport's, with ports or types.
    pub transports: u32,
}

impl Stack {
    /// That of a frame.
    pub fn of(frame: &[u8]) -> Self {
        let byte = |at: usize| frame.get(at).copied().unwrap_or(0);
        let word = |at: usize| u16::from_be_bytes([byte(at), byte(at + 1)]);
        let transport = |protocol: u8| u32::from(matches!(protocol, 1 | 6 | 17 | 58 | 132));
        let (mut at, mut s) = (12, Self::default());
        while matches!(word(at), 0x8100 | 0x88a8) && s.tags < 2 {
            (at, s.tags) = (at + 4, s.tags + 1);
        }
        let l3 = at + 2;
        match word(at) {
            0x8847 | 0x8848 => s.labels = 1,
            0x0800 => {
                (s.ip4, s.transports) = (1, transport(byte(l3 + 9)));
                let ports = matches!(byte(l3 + 9), 6 | 17);
                s.usual = s.tags < 2 && byte(l3) == 0x45 && ports;
            }
            0x86dd => (s.ip6, s.transports) = (1, transport(byte(l3 + 6))),
            _ => {}
        }
        s
    }

    /// The parameters of the models of a pass, and of `vdp_pass`, that say so.
    pub fn parameters(&self) -> [(&'static str, f64); 6] {
        [
            ("usual", f64::from(u8::from(self.usual))),
            ("tags", self.tags.into()),
            ("labels", self.labels.into()),
            ("ip4", self.ip4.into()),
            ("ip6", self.ip6.into()),
            ("transports", self.transports.into()),
        ]
    }
}
