//! Frames and pools: what a handle may do, and that no chunk is ever in two places.

use proptest::prelude::*;
use std::collections::HashSet;
use weir_packet::{BURST, Burst, Frame, Lent, Nanos, Pool, PoolError};

#[test]
fn a_handle_is_small() {
    assert_eq!(size_of::<Frame>(), 16);
}

#[test]
fn push_and_pull_keep_the_data() {
    let mut p = Pool::new(4, 2048).unwrap();
    let mut f = p.alloc().unwrap();
    f.copy_from(&[7; 60]).unwrap();
    assert_eq!(f.headroom(), 256);
    f.push_front(4).unwrap();
    f.bytes_mut()[..4].copy_from_slice(&[1, 2, 3, 4]);
    assert_eq!(f.bytes()[3..6], [4, 7, 7]);
    f.pull_front(4).unwrap();
    assert_eq!(f.bytes(), [7; 60]);
    assert!(f.push_front(257).is_err());
    assert!(f.pull_front(61).is_err());
    assert!(f.set_len(5000).is_err());
    assert!(f.copy_from(&[0; 2048]).is_err());
    assert_eq!(f.bytes(), [7; 60]);
    p.free(f);
    assert_eq!((p.available(), p.outstanding()), (4, 0));
}

#[test]
fn the_stamp_travels_with_a_copy() {
    let mut p = Pool::new(4, 2048).unwrap();
    let (mut a, mut b) = (p.alloc().unwrap(), p.alloc().unwrap());
    a.copy_from(b"hello").unwrap();
    assert_eq!(a.stamp(), None);
    a.set_stamp(Nanos(12345));
    b.clone_from_frame(&a).unwrap();
    assert_eq!((b.bytes(), b.stamp()), (&b"hello"[..], Some(Nanos(12345))));
    p.free(a);
    p.free(b);
    // A chunk that comes back carries no old stamp.
    assert_eq!(p.alloc().map(|f| f.stamp()), Some(None));
}

#[test]
fn impossible_pools_are_refused() {
    assert_eq!(Pool::new(4, 1000).err(), Some(PoolError::ChunkSize(1000)));
    assert_eq!(Pool::new(0, 2048).err(), Some(PoolError::Count(0)));
    assert!(Pool::new(usize::MAX, 2048).is_err());
}

#[test]
fn a_foreign_frame_is_not_taken() {
    let (mut p, mut q) = (Pool::new(1, 2048).unwrap(), Pool::new(1, 2048).unwrap());
    let f = p.alloc().unwrap();
    assert!(!q.owns(&f));
    let f = q.lend(f).unwrap_err();
    q.free(f);
    assert_eq!((q.foreign(), q.available(), p.outstanding()), (1, 1, 1));
}

#[test]
fn the_kernel_gets_only_what_was_lent() {
    let mut p = Pool::new(2, 2048).unwrap();
    let mut f = p.alloc().unwrap();
    f.copy_from(&[9; 100]).unwrap();
    let lent = p.lend(f).unwrap();
    assert_eq!((lent.len, p.lent()), (100, 1));
    // Not lent, outside the region, or reaching past the chunk: refused.
    assert!(p.reclaim(Lent { offset: 2048 + 300, len: 60 }).is_none());
    assert!(p.reclaim(Lent { offset: 1 << 40, len: 60 }).is_none());
    assert!(p.reclaim(Lent { offset: lent.offset, len: 4000 }).is_none());
    assert!(p.reclaim(Lent { offset: lent.offset, len: 1 << 20 }).is_none());
    let f = p.reclaim(lent).unwrap();
    assert_eq!(f.bytes(), [9; 100]);
    assert!(p.reclaim(lent).is_none());
    p.free(f);
    assert_eq!((p.available(), p.lent()), (2, 0));
}

#[test]
fn a_burst_is_bounded_and_ordered() {
    let mut p = Pool::new(BURST + 1, 2048).unwrap();
    let mut b = Burst::new();
    for i in 0..BURST {
        let mut f = p.alloc().unwrap();
        f.copy_from(&[i as u8; 60]).unwrap();
        b.push(f).unwrap();
    }
    let extra = p.alloc().unwrap();
    let extra = b.push(extra).unwrap_err();
    p.free(extra);
    let first: Vec<_> = b.drain_front(3).collect();
    assert_eq!(first.iter().map(|f| f.bytes()[0]).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!((b.len(), b.as_slice()[0].bytes()[0]), (BURST - 3, 3));
    for f in first.into_iter().chain(b.drain()) {
        p.free(f);
    }
    assert_eq!(p.outstanding(), 0);
}

proptest! {
    /// Any sequence of alloc, free, lend and reclaim: no chunk in two places, none lost.
    #[test]
    fn chunks_are_conserved(ops in prop::collection::vec((0u8..4, 0usize..8), 0..200)) {
        let mut p = Pool::new(8, 2048).unwrap();
        let (mut have, mut lent): (Vec<Frame>, Vec<Lent>) = (Vec::new(), Vec::new());
        for (op, i) in ops {
            match op {
                0 => have.extend(p.alloc()),
                1 if !have.is_empty() => { let f = have.swap_remove(i % have.len()); p.free(f) }
                2 if !have.is_empty() => {
                    let f = have.swap_remove(i % have.len());
                    lent.push(p.lend(f).unwrap());
                }
                3 if !lent.is_empty() => {
                    let l = lent.swap_remove(i % lent.len());
                    have.push(p.reclaim(l).unwrap());
                }
                _ => {}
            }
            prop_assert_eq!(p.available() + have.len() + lent.len(), 8);
            prop_assert_eq!((p.outstanding(), p.lent()), (have.len(), lent.len()));
            let places: HashSet<_> = have.iter().map(|f| p.offset_of(f)).collect();
            prop_assert_eq!(places.len(), have.len());
        }
        for l in lent { have.extend(p.reclaim(l)); }
        for f in have { p.free(f); }
        prop_assert_eq!(p.available(), 8);
    }
}
