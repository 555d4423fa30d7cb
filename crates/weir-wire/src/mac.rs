//! The 48-bit hardware address (IEEE 802-2014 §8). Touches nothing.

use core::fmt;
use core::str::FromStr;

use crate::view::{Value, store};

/// A MAC address, in the order its bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// `00:00:00:00:00:00`.
    pub const ZERO: MacAddr = MacAddr([0; 6]);
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// Where LLDP is sent: the nearest bridge (IEEE 802.1AB-2016 table 7-1).
    pub const LLDP: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]);

    /// The bytes.
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// All ones.
    pub fn is_broadcast(self) -> bool {
        self == MacAddr::BROADCAST
    }

    /// The group bit is set; true of broadcast too.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Neither a group nor all zeros: an address a station may have.
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != MacAddr::ZERO
    }

    /// The bit that says nobody bought this address.
    pub const fn is_local(self) -> bool {
        self.0[0] & 2 != 0
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(octets: [u8; 6]) -> MacAddr {
        MacAddr(octets)
    }
}

impl Value for MacAddr {
    const ZERO: MacAddr = MacAddr::ZERO;
    #[inline]
    fn read(bytes: &[u8]) -> Option<MacAddr> {
        Some(MacAddr(bytes.try_into().ok()?))
    }
    #[inline]
    fn write(self, out: &mut [u8]) {
        store(out, &self.0);
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The text is not six hexadecimal bytes with `:` or `-` between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseMacError;

impl fmt::Display for ParseMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a MAC address is six hexadecimal bytes, as in 02:00:00:00:00:01")
    }
}

impl core::error::Error for ParseMacError {}

impl FromStr for MacAddr {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<MacAddr, ParseMacError> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut parts = text.split(separator);
        let mut octets = [0u8; 6];
        for octet in &mut octets {
            let part = parts.next().ok_or(ParseMacError)?;
            // from_str_radix takes a sign, and an address has none.
            let hex = part.bytes().all(|b| b.is_ascii_hexdigit());
            if !hex || part.is_empty() || part.len() > 2 {
                return Err(ParseMacError);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| ParseMacError)?;
        }
        if parts.next().is_some() { Err(ParseMacError) } else { Ok(MacAddr(octets)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn text_round_trip() {
        let mac: MacAddr = "02:0a:Ff:00:1:9".parse().unwrap();
        assert_eq!(mac, MacAddr([2, 0x0a, 0xff, 0, 1, 9]));
        assert_eq!(mac.to_string(), "02:0a:ff:00:01:09");
        assert_eq!("02-0a-ff-00-01-09".parse(), Ok(mac));
    }

    #[test]
    fn not_addresses() {
        for text in [
            "",
            "1:2:3:4:5",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:g",
            "+1:2:3:4:5:6",
            "001:2:3:4:5:6",
            "1::3:4:5:6",
            "1-2:3:4:5:6",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(ParseMacError), "{text}");
        }
    }

    #[test]
    fn kinds() {
        assert!(MacAddr::BROADCAST.is_multicast() && MacAddr::BROADCAST.is_broadcast());
        assert!(MacAddr::LLDP.is_multicast() && !MacAddr::LLDP.is_broadcast());
        assert!(!MacAddr::ZERO.is_unicast());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_local());
    }
}
