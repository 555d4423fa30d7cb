//! The VXLAN header (RFC 7348 section 5) in front of a frame: read strictly, written plainly.
//!
//! Room: bytes. Called by the tunnel's endpoint for every datagram; a fuzz target holds it against
//! `weir-wire`'s reader, which this crate may not depend on.

/// Bytes of the header.
pub const HEADER_BYTES: usize = 8;
/// The largest network identifier.
pub const MAX_VNI: u32 = 0xff_ffff;
/// The flag that says that the identifier is valid.
const VALID: u8 = 0x08;
/// An Ethernet header: the least that follows.
const ETHERNET: usize = 14;

/// Why a datagram is not one of VXLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// Shorter than the header and an Ethernet header.
    Short,
    /// Its identifier is not said to be valid.
    NotValid,
}

/// The network identifier of a datagram; the frame begins behind [`HEADER_BYTES`]. Other flags and
/// reserved bits are ignored, as the RFC asks.
///
/// # Errors
/// [`Malformed`].
#[inline]
pub fn identifier(datagram: &[u8]) -> Result<u32, Malformed> {
    let Some((head, frame)) = datagram.split_first_chunk::<HEADER_BYTES>() else {
        return Err(Malformed::Short);
    };
    if frame.len() < ETHERNET {
        return Err(Malformed::Short);
    }
    if head[0] & VALID == 0 {
        return Err(Malformed::NotValid);
    }
    Ok(u32::from_be_bytes([0, head[4], head[5], head[6]]))
}

/// The header of a network; bits above the 24th are lost.
pub fn header(vni: u32) -> [u8; HEADER_BYTES] {
    let [_, a, b, c] = vni.to_be_bytes();
    [VALID, 0, 0, 0, a, b, c, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for vni in [0, 1, 0x12_3456, MAX_VNI] {
            let mut d = header(vni).to_vec();
            assert_eq!(identifier(&d), Err(Malformed::Short));
            d.extend([0; 13]);
            assert_eq!(identifier(&d), Err(Malformed::Short));
            d.push(0);
            assert_eq!(identifier(&d), Ok(vni));
            // Reserved bits say nothing.
            (d[0], d[1], d[7]) = (0xff, 0xff, 0xff);
            assert_eq!(identifier(&d), Ok(vni));
            d[0] = !VALID;
            assert_eq!(identifier(&d), Err(Malformed::NotValid));
        }
        assert_eq!(identifier(&[]), Err(Malformed::Short));
    }
}
