//! Priority tags: 802.1Q tags with VLAN id 0, which say a priority and no VLAN (IEEE 802.1Q-2018 §6.9.1, §9.6). Touches
//! the frame given. Called by programs that serve untagged frames, of which these are some.

use weir_packet::Frame;
use weir_wire::vlan::TAG_LEN;
use weir_wire::{EtherType, VlanTag};

/// Bytes of both Ethernet addresses, in front of a tag.
const ADDRESSES: usize = 12;

/// Takes out a frame's outermost tag if it is a priority tag; `None`, and the frame as it was, if it is none or
/// no EtherType follows it.
#[inline(never)]
pub(super) fn take_out(frame: &mut Frame) -> Option<()> {
    let bytes = frame.bytes_mut();
    let tag = VlanTag::new_checked(bytes.get(ADDRESSES..)?).ok()?;
    if tag.tpid() != EtherType::Vlan || tag.vid() != 0 || bytes.len() < ADDRESSES + TAG_LEN + 2 {
        return None;
    }
    bytes.copy_within(..ADDRESSES, TAG_LEN);
    frame.pull_front(TAG_LEN).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::Pool;

    #[test]
    fn only_priority_tags_go() {
        let mut pool = Pool::new(1, 2048).unwrap();
        let mut frame = pool.alloc().unwrap();
        let mut without = |tag: &[u8]| {
            let bytes = [&b"dstdstsrcsrc"[..], tag].concat();
            frame.copy_from(&bytes).unwrap();
            match take_out(&mut frame) {
                Some(()) => Some(frame.bytes().to_vec()),
                None => {
                    assert_eq!(frame.bytes(), bytes);
                    None
                }
            }
        };
        for tci in [[0, 0], [0xe0, 0], [0x10, 0]] {
            let tag = [0x81, 0, tci[0], tci[1], 8, 0, 0x45];
            assert_eq!(without(&tag).unwrap(), b"dstdstsrcsrc\x08\x00\x45");
        }
        assert_eq!(without(&[0x81, 0, 0, 1, 8, 0, 0x45]), None);
        assert_eq!(without(&[0x88, 0xa8, 0, 0, 8, 0, 0x45]), None);
        assert_eq!(without(&[8, 0, 0, 0, 8, 0, 0x45]), None);
        // Cut short.
        for len in 0..6 {
            assert_eq!(without(&[0x81, 0, 0, 0, 8, 0][..len]), None, "{len}");
        }
        pool.free(frame);
    }
}
