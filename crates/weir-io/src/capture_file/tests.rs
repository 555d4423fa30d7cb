//! Captures built by hand from the drafts, in both byte orders; files cut at every byte.

use super::*;
use proptest::prelude::*;

/// Writes integers in one byte order.
struct Bytes {
    out: Vec<u8>,
    big: bool,
}

impl Bytes {
    fn new(big: bool) -> Self {
        Self { out: Vec::new(), big }
    }
    fn u16(mut self, v: u16) -> Self {
        self.out.extend(if self.big { v.to_be_bytes() } else { v.to_le_bytes() });
        self
    }
    fn u32(mut self, v: u32) -> Self {
        self.out.extend(if self.big { v.to_be_bytes() } else { v.to_le_bytes() });
        self
    }
    fn u64(mut self, v: u64) -> Self {
        self.out.extend(if self.big { v.to_be_bytes() } else { v.to_le_bytes() });
        self
    }
    fn raw(mut self, b: &[u8]) -> Self {
        self.out.extend(b);
        self
    }
    fn option(self, code: u16, value: &[u8]) -> Self {
        let mut s = self.u16(code).u16(value.len() as u16).raw(value);
        s.out.resize(s.out.len().next_multiple_of(4), 0);
        s
    }
    fn block(self, kind: u32, body: Bytes) -> Self {
        let len = body.out.len() as u32 + 12;
        self.u32(kind).u32(len).raw(&body.out).u32(len)
    }
    fn section(self) -> Self {
        let big = self.big;
        self.block(
            0x0a0d_0d0a,
            Bytes::new(big).u32(0x1a2b_3c4d).u16(1).u16(0).u64(u64::MAX).option(4, b"test!"),
        )
    }
}

fn pcap(big: bool, magic: u32) -> Vec<u8> {
    Bytes::new(big)
        .u32(magic)
        .u16(2)
        .u16(4)
        .u64(0)
        .u32(65_535)
        .u32(1)
        .u32(1_700_000_000)
        .u32(123_456)
        .u32(3)
        .u32(60)
        .raw(b"abc")
        .u32(1_700_000_001)
        .u32(999_999)
        .u32(4)
        .u32(4)
        .raw(b"defg")
        .out
}

type Owned = (Option<u64>, u32, u32, Option<Direction>, Vec<u8>);

fn read_all(file: &[u8]) -> (Vec<Owned>, Option<CaptureError>) {
    let mut out = Vec::new();
    let mut r = match Reader::new(file) {
        Ok(r) => r,
        Err(e) => return (out, Some(e)),
    };
    loop {
        match r.next_record() {
            Ok(Some(r)) => out.push((
                r.stamp.map(|t| t.0),
                r.interface,
                r.original_len,
                r.direction,
                r.bytes.to_vec(),
            )),
            Ok(None) => return (out, None),
            Err(e) => return (out, Some(e)),
        }
    }
}

#[test]
fn pcap_of_both_byte_orders_and_both_resolutions() {
    for big in [false, true] {
        for (magic, tick) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let (got, err) = read_all(&pcap(big, magic));
            assert!(err.is_none(), "{err:?}");
            let at = |s: u64, t: u64| Some(s * 1_000_000_000 + t * tick);
            assert_eq!(
                got,
                [
                    (at(1_700_000_000, 123_456), 0, 60, None, b"abc".to_vec()),
                    (at(1_700_000_001, 999_999), 0, 4, None, b"defg".to_vec()),
                ]
            );
        }
    }
}

fn pcapng(big: bool) -> Vec<u8> {
    let b = || Bytes::new(big);
    let idb = |snap: u32| b().u16(1).u16(0).u32(snap);
    let epb = |iface: u32, t: u64, data: &[u8]| {
        let mut e = b().u32(iface).u32((t >> 32) as u32).u32(t as u32);
        e = e.u32(data.len() as u32).u32(data.len() as u32 + 1).raw(data);
        e.out.resize(e.out.len().next_multiple_of(4), 0);
        e
    };
    b().section()
        // Microseconds by default; a snap length that a simple block needs.
        .block(1, idb(5).option(2, b"eth0"))
        // Nanoseconds, and an offset of ten seconds.
        .block(1, idb(0).option(9, &[9]).option(14, &Bytes::new(big).u64(10).out).u32(0))
        // 2^-10 seconds.
        .block(1, idb(0).option(9, &[0x80 | 10]).option(13, &[4]))
        .block(6, epb(0, 1_000_001, b"one"))
        .block(0xbad, b().raw(&[7; 40]))
        .block(6, epb(1, 5_000_000_007, b"two2").option(2, &Bytes::new(big).u32(2).out).u32(0))
        .block(6, epb(2, 1024 * 3 + 512, b"three-fcs-FCS!"))
        .block(3, b().u32(9).raw(b"fours\0\0\0"))
        .block(2, b().u16(1).u16(77).u32(0).u32(8).u32(2).u32(2).raw(b"55\0\0"))
        // A second section, in the other byte order, with interfaces of its own.
        .raw(
            &Bytes::new(!big)
                .section()
                .block(1, Bytes::new(!big).u16(1).u16(0).u32(0))
                .block(6, Bytes::new(!big).u32(0).u32(0).u32(3).u32(1).u32(1).raw(b"6\0\0\0"))
                .out,
        )
        .out
}

#[test]
fn pcapng_blocks_options_and_sections() {
    for big in [false, true] {
        let (got, err) = read_all(&pcapng(big));
        assert!(err.is_none(), "{err:?}");
        let out = Some(Direction::Out);
        assert_eq!(
            got,
            [
                (Some(1_000_001_000), 0, 4, None, b"one".to_vec()),
                (Some(15_000_000_007), 1, 5, out, b"two2".to_vec()),
                (Some(3_500_000_000), 2, 11, None, b"three-fcs-F".to_vec()),
                (None, 0, 9, None, b"fours".to_vec()),
                (Some(10_000_000_008), 1, 2, None, b"55".to_vec()),
                (Some(3000), 0, 1, None, b"6".to_vec()),
            ]
        );
    }
}

#[test]
fn a_capture_cut_anywhere_yields_its_whole_frames_and_says_where() {
    for whole in [pcap(false, 0xa1b2_c3d4), pcapng(true)] {
        let (all, _) = read_all(&whole);
        let mut clean = 0;
        for cut in 0..whole.len() {
            let (got, err) = read_all(&whole[..cut]);
            assert_eq!(got, all[..got.len()]);
            match err {
                None => clean += 1,
                Some(CaptureError::CutShort { at, end, frames, .. }) => {
                    assert_eq!((end, frames), (cut as u64, got.len() as u64));
                    assert!(at < end);
                }
                Some(CaptureError::NotACapture { begins }) => {
                    assert!(cut < 4);
                    assert_eq!(begins, whole[..cut]);
                }
                Some(e) => panic!("cut at {cut}: {e}"),
            }
        }
        // Ends that are ends: behind each header, record or block.
        assert!((2..16).contains(&clean), "{clean}");
    }
}

#[test]
fn what_is_no_capture_is_named() {
    let says = |file: &[u8]| read_all(file).1.map(|e| e.to_string()).unwrap_or_default();
    assert!(says(b"").contains("it is empty"));
    assert!(
        says(b"[package]\nname").contains("begins with \"[package\""),
        "{}",
        says(b"[package]")
    );
    assert!(says(&[0x1f, 0x8b, 8, 0, 0]).contains("gzip"));
    assert!(says(&[0, 1, 2, 3, 4]).contains("00 01 02 03 04"));
    let mut long = pcap(false, 0xa1b2_c3d4);
    long[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(says(&long).contains("at byte 32"), "{}", says(&long));
    let mut old = pcap(true, 0xa1b2_c3d4);
    old[7] = 3;
    assert!(says(&old).contains("2.4"));
}

#[test]
fn a_lying_length_does_not_take_memory() {
    // A block of 4 GiB that is not there, and one of an unknown kind.
    for kind in [6u32, 0xbad] {
        let file = Bytes::new(false).section().u32(kind).u32(0xffff_fffc).raw(&[0; 64]).out;
        let (_, err) = read_all(&file);
        assert!(err.is_some());
    }
}

#[test]
fn resolutions_at_their_ends() {
    let ns = |resol: u8, ticks: u64| {
        let b = || Bytes::new(false);
        let file = b()
            .section()
            .block(1, b().u16(1).u16(0).u32(0).option(9, &[resol]))
            .block(6, b().u32(0).u32((ticks >> 32) as u32).u32(ticks as u32).u32(0).u32(0))
            .out;
        read_all(&file).0[0].0.unwrap()
    };
    assert_eq!(ns(0, 7), 7_000_000_000);
    assert_eq!(ns(12, 7999), 7);
    assert_eq!(ns(28, u64::MAX), 1);
    assert_eq!(ns(127, u64::MAX), 0);
    assert_eq!(ns(0, u64::MAX), u64::MAX);
    assert_eq!(ns(0x80, 3), 3_000_000_000);
    assert_eq!(ns(0x80 | 127, u64::MAX), 0);
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        frames in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..300), 0u64..4_000_000_000_000_000_000, 0u32..3),
            0..20,
        ),
        snaplen in prop_oneof![Just(0u32), 1u32..400],
    ) {
        for format in [Format::Pcap, Format::Pcapng] {
            let mut w = Writer::new(Vec::new(), format, snaplen).unwrap();
            for name in ["a", "b7", "c-77"] {
                w.add_interface(name).unwrap();
            }
            for (bytes, t, i) in &frames {
                let direction = [None, Some(Direction::In), Some(Direction::Out)][*i as usize];
                w.write(*i, Nanos(*t), direction, bytes).unwrap();
            }
            let file = w.into_inner();
            let (got, err) = read_all(&file);
            prop_assert!(err.is_none(), "{:?}", err);
            prop_assert_eq!(got.len(), frames.len());
            for (g, (bytes, t, i)) in got.iter().zip(&frames) {
                let keep = if snaplen == 0 { bytes.len() } else { bytes.len().min(snaplen as usize) };
                prop_assert_eq!(&g.4, &bytes[..keep]);
                prop_assert_eq!(g.2 as usize, bytes.len());
                prop_assert_eq!(g.0, Some(*t));
                if format == Format::Pcapng {
                    prop_assert_eq!(g.1, *i);
                    let d = [None, Some(Direction::In), Some(Direction::Out)][*i as usize];
                    prop_assert_eq!(g.3, d);
                }
            }
        }
    }

    #[test]
    fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400), which in 0..4usize) {
        let magic: [&[u8]; 4] = [
            &[], &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0], &[0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4],
            &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0],
        ];
        bytes.splice(0..0, magic[which].iter().copied());
        read_all(&bytes);
    }

    #[test]
    fn a_damaged_capture_does_not_panic(
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        big in any::<bool>(),
    ) {
        let mut file = pcapng(big);
        for (at, v) in hits {
            let at = at.index(file.len());
            file[at] = v;
        }
        read_all(&file);
    }
}
