//! What a kernel leaves undone because it takes the next hop for hardware: partial checksums,
//! super-frames, VLAN tags beside the frame. Done here, so that only whole frames enter the data
//! plane.
//!
//! Room: ports. Touches bytes of frames; no system call, no allocation. Called by `af_packet` and
//! `af_xdp`.

pub mod checksum;
pub mod layout;
pub mod segment;

use weir_packet::{Frame, NoRoom};

/// Puts a tag in front of the frame's EtherType: `tpid` and `tci` in host order.
///
/// # Errors
/// [`NoRoom`] when four bytes of headroom are missing; the frame is unchanged then.
pub fn restore_vlan(frame: &mut Frame, tpid: u16, tci: u16) -> Result<(), NoRoom> {
    if frame.len() < 12 {
        return Err(NoRoom { need: 12, have: frame.len() });
    }
    frame.push_front(4)?;
    let b = frame.bytes_mut();
    b.copy_within(4..16, 0);
    if let Some(tag) = b.get_mut(12..16) {
        let [a, b] = tpid.to_be_bytes();
        let [c, d] = tci.to_be_bytes();
        tag.copy_from_slice(&[a, b, c, d]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::Pool;

    #[test]
    fn a_restored_tag_stands_in_front_of_the_ether_type() {
        let mut pool = Pool::new(1, 2048).unwrap();
        let mut f = pool.alloc().unwrap();
        f.copy_from(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 8, 0, 0x45]).unwrap();
        restore_vlan(&mut f, 0x88a8, 0x6007).unwrap();
        let want = [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x88, 0xa8, 0x60, 7, 8, 0, 0x45];
        assert_eq!(f.bytes(), want);
        f.set_len(11).unwrap();
        assert!(restore_vlan(&mut f, 0x8100, 1).is_err());
        pool.free(f);
    }
}
