//! Completing checksums and cutting super-frames, on any bytes that a kernel may hand over.
#![no_main]

use weir_io::offload::checksum::{complete_at, complete_if_partial};
use weir_io::offload::layout::{TCP, UDP};
use weir_io::offload::restore_vlan;
use weir_io::offload::segment::{Cut, Told};
use weir_packet::Pool;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(([a, b, c, d], bytes)) = data.split_first_chunk() else { return };
    let (start, offset) = (usize::from(*a), usize::from(*b));
    let size = usize::from(u16::from_be_bytes([*c, *d]));
    let mut frame = bytes.to_vec();
    complete_at(&mut frame, start, offset);
    let once = complete_if_partial(&mut frame);
    let after = frame.clone();
    // A complete checksum is left as it is.
    if once {
        complete_if_partial(&mut frame);
        assert_eq!(frame, after);
    }
    let Ok(mut pool) = Pool::new(1, 4096) else { return };
    let told = |protocol| Cut::told(bytes, size, Told::of(protocol));
    for cut in [told(TCP), told(UDP), Cut::to_mtu(bytes, size)] {
        let Some(mut cut) = cut else { continue };
        let mut payload = 0;
        while let Some(mut out) = pool.alloc() {
            let more = cut.next_frame(bytes, &mut out);
            payload += out.len();
            let _ = restore_vlan(&mut out, 0x8100, 7);
            pool.free(out);
            if !more {
                break;
            }
        }
        assert!(!cut.is_done() || payload > 0);
    }
});
