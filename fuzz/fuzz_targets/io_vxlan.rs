//! The reader of VXLAN datagrams, on any bytes, against weir-wire's; and what a tunnel is told, any text.
#![no_main]

use weir_io::vxlan::Settings;
use weir_io::vxlan::header::{HEADER_BYTES, header, identifier};
use weir_wire::vxlan::Packet;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let theirs = Packet::new_unchecked(data);
    let whole = theirs.check().is_ok() && theirs.payload().len() >= 14;
    match identifier(data) {
        Ok(vni) => {
            assert!(whole);
            assert_eq!(vni, theirs.vni());
            let again = [&header(vni), &data[HEADER_BYTES..]].concat();
            assert_eq!(identifier(&again), Ok(vni));
        }
        Err(_) => assert!(!whole),
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Err(e) = text.parse::<Settings>()
    {
        assert!(!e.is_empty());
    }
});
