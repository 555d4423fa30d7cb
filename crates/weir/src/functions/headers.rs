//! How many headers weir extracts keys from in a frame: what extraction costs depends on it.
//!
//! Room: bytes. Called for the estimate of the pass through a VDP.

/// Ethernet, each tag, a label, ARP, IP (each extension header), a transport that has ports or types.
pub fn headers(frame: &[u8]) -> u32 {
    let word = |at: usize| -> u16 {
        let b = |i: usize| u16::from(frame.get(i).copied().unwrap_or(0));
        b(at) << 8 | b(at + 1)
    };
    let byte = |at: usize| frame.get(at).copied().unwrap_or(0);
    let transport = |protocol: u8| u32::from(matches!(protocol, 1 | 6 | 17 | 58 | 132));
    let (mut at, mut n) = (12, 1);
    while matches!(word(at), 0x8100 | 0x88a8) && n < 4 {
        (at, n) = (at + 4, n + 1);
    }
    let l3 = at + 2;
    match word(at) {
        0x8847 | 0x8848 | 0x0806 => n + 1,
        0x0800 => n + 1 + transport(byte(l3 + 9)),
        0x86dd => n + 1 + transport(byte(l3 + 6)),
        _ => n,
    }
}
