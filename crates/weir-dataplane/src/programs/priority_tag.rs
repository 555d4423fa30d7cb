//! Priority tags: 802.1Q with VLAN 0, which is none, so that such a frame is as one without a tag (IEEE 802.1Q §6.9, §9.6). Touches a
//! frame's first bytes. Called by programs that look behind Ethernet, for frames that are not usual.

use weir_packet::Frame;
use weir_wire::ethernet::{ADDRESSES_LEN as ADDRESSES, HEADER_LEN as ETH};
use weir_wire::vlan::TAG_LEN;

/// Takes the priority tag out of a frame that has one.
pub(super) fn take_out(frame: &mut Frame) {
    let Some(head) = frame.bytes_mut().first_chunk_mut::<{ ETH + TAG_LEN }>() else { return };
    if head[ADDRESSES..ETH] != [0x81, 0x00] || head[ETH] & 0x0f != 0 || head[ETH + 1] != 0 {
        return;
    }
    head.copy_within(..ADDRESSES, TAG_LEN);
    let taken = frame.pull_front(TAG_LEN);
    debug_assert!(taken.is_ok(), "{taken:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::Pool;

    #[test]
    fn a_tag_without_a_vlan_is_taken_out() {
        let mut pool = Pool::new(1, 2048).unwrap();
        let mut f = pool.alloc().unwrap();
        let addresses = *b"destinsource";
        let mut after = |tag: &[u8], rest: &[u8]| {
            f.copy_from(&[&addresses[..], tag, rest].concat()).unwrap();
            take_out(&mut f);
            f.bytes()[12..].to_vec()
        };
        assert_eq!(after(&[0x81, 0, 0, 0], b"\x08\0abc"), b"\x08\0abc");
        assert_eq!(after(&[0x81, 0, 0xf0, 0], b"\x08\0"), b"\x08\0");
        // One alone; none of a VLAN, of another type, or cut off.
        assert_eq!(after(&[0x81, 0, 0, 0, 0x81, 0, 0, 0], b"\x08\0"), b"\x81\0\0\0\x08\0");
        for kept in [
            &[0x81, 0, 0, 1, 8, 0][..],
            &[0x81, 0, 1, 0, 8, 0],
            &[0x88, 0xa8, 0, 0, 8, 0],
            &[0x81, 0, 0, 0, 8],
        ] {
            assert_eq!(after(kept, b""), kept);
        }
        take_out(&mut f);
        assert_eq!(f.bytes()[..12], addresses);
        pool.free(f);
    }
}
