//! The pcapng reader, on any bytes behind the type of a section header.
#![no_main]

use weir_io::capture_file::{MAX_CAPTURED, Reader};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let file = [&[0x0a, 0x0d, 0x0d, 0x0a], data].concat();
    let Ok(mut reader) = Reader::new(file.as_slice()) else { return };
    while let Ok(Some(r)) = reader.next_record() {
        assert!(r.bytes.len() <= MAX_CAPTURED as usize);
        let interface = r.interface;
        let _ = reader.interface_name(interface);
    }
    assert!(reader.offset() <= file.len() as u64);
});
