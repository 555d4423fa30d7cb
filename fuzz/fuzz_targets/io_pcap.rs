//! The pcap reader, on any bytes behind each of its magic numbers.
#![no_main]

use weir_io::capture_file::{MAX_CAPTURED, Reader};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&which, rest)) = data.split_first() else { return };
    let magic: [u8; 4] = [
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
    ][usize::from(which % 4)];
    let file = [&magic, rest].concat();
    let Ok(mut reader) = Reader::new(file.as_slice()) else { return };
    while let Ok(Some(r)) = reader.next_record() {
        assert!(r.bytes.len() <= MAX_CAPTURED as usize);
    }
    assert!(reader.offset() <= file.len() as u64);
});
