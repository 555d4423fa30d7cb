//! The capture wrapper writes what passes, once, with its direction, also when a device takes only
//! a part of what it is offered.

use weir_io::capture_file::{Direction, Reader};
use weir_io::memory::{Memory, WireSize};
use weir_io::wrapper::PcapTap;
use weir_packet::{Burst, Device, Nanos, Pool};

#[test]
fn what_passes_is_captured_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tap.pcapng");
    let mut pool = Pool::new(64, 2048).unwrap();
    let (inner, mut peer) = Memory::with_peer("m0", WireSize { slots: 4, max_frame_bytes: 1518 });
    let mut port = PcapTap::create(Box::new(inner), &path).unwrap();
    let mut burst = Burst::new();
    for n in 0..10u8 {
        let mut f = pool.alloc().unwrap();
        f.copy_from(&[n; 61]).unwrap();
        f.set_stamp(Nanos(1000 + u64::from(n)));
        burst.push(f).unwrap();
    }
    let mut got = Vec::new();
    let mut out = Vec::new();
    while !burst.is_empty() {
        // Four slots: the same frames are offered again and again.
        port.tx(&mut pool, &mut burst);
        port.tx(&mut pool, &mut burst);
        while peer.recv(&mut got) {
            out.push(got[0]);
        }
    }
    peer.send(&[99; 70]).unwrap();
    assert_eq!(port.rx(&mut pool, &mut burst), 1);
    for f in burst.drain() {
        pool.free(f);
    }
    port.close(&mut pool);
    assert_eq!(port.fault(), None);
    assert_eq!(pool.available(), 64);

    let mut reader = Reader::open(&path).unwrap();
    for n in out {
        let r = reader.next_record().unwrap().unwrap();
        assert_eq!((r.bytes, r.direction), (&[n; 61][..], Some(Direction::Out)));
        assert_eq!(r.stamp, Some(Nanos(1000 + u64::from(n))));
    }
    let r = reader.next_record().unwrap().unwrap();
    assert_eq!((r.bytes, r.direction), (&[99; 70][..], Some(Direction::In)));
    assert!(
        r.stamp.unwrap() > Nanos::from_secs(1_600_000_000),
        "the clock, where there is no stamp"
    );
    assert!(reader.next_record().unwrap().is_none());
    assert_eq!(reader.interface_name(0), Some("m0"));
}

#[test]
fn a_full_disk_ends_the_capture_and_not_the_port() {
    let full = std::path::Path::new("/dev/full");
    if !full.exists() {
        eprintln!("SKIPPED: a_full_disk_ends_the_capture_and_not_the_port needs /dev/full");
        return;
    }
    let mut pool = Pool::new(64, 2048).unwrap();
    let (inner, mut peer) = Memory::with_peer("m0", WireSize { slots: 64, max_frame_bytes: 1518 });
    let mut port = PcapTap::create(Box::new(inner), full).unwrap();
    let (mut burst, mut got, mut passed) = (Burst::new(), Vec::new(), 0);
    for _ in 0..1000 {
        let mut f = pool.alloc().unwrap();
        f.copy_from(&[7; 1500]).unwrap();
        burst.push(f).unwrap();
        assert_eq!(port.tx(&mut pool, &mut burst), 1);
        passed += usize::from(peer.recv(&mut got));
    }
    assert_eq!(passed, 1000);
    assert!(port.fault().unwrap().contains("/dev/full: the capture ended"));
    port.close(&mut pool);
    assert_eq!(pool.available(), 64);
}
