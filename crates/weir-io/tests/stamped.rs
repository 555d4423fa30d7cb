//! The kernel's stamps over a veth: every frame is stamped where it leaves and where it comes, in that
//! order. Needs root; skipped, visibly, without.

mod common;

use common::Lab;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_io::stamped::{Capture, Sender};
use weir_packet::{DeviceError, LinkState, Nanos};

fn frame(n: u8) -> Vec<u8> {
    let mut f = vec![0; 96];
    f[..15].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, n]);
    f
}

/// Sends frame 255 until one comes with a stamp, and no more of them come: the kernel begins to stamp a
/// moment after it was asked.
fn until_stamped(sender: &mut Sender, capture: &mut Capture) {
    let begin = Instant::now();
    let mut stamped = false;
    while !stamped {
        assert!(begin.elapsed() < Duration::from_secs(10), "no frame comes with a stamp");
        sender.send(&[frame(255)]).unwrap();
        let mut note = |b: &[u8], at: Option<Nanos>| stamped |= b == frame(255) && at.is_some();
        while capture.receive(Duration::from_millis(20), &mut note).unwrap() > 0 {}
    }
    while sender.stamps(usize::MAX, |_, _| ()).unwrap() > 0 {}
}

#[test]
fn frames_are_stamped_where_they_leave_and_where_they_come() {
    if !common::can_have_namespaces("frames_are_stamped_where_they_leave_and_where_they_come") {
        return;
    }
    let lab = Lab::new(&["h1", "w"]);
    lab.quiet("w");
    lab.quiet("h1");
    lab.veth(1);
    let mut capture = lab.within("h1", || Capture::open("eth0").unwrap()).join().unwrap();
    let mut sender = lab.within("w", || Sender::open("p1").unwrap()).join().unwrap();
    until_stamped(&mut sender, &mut capture);
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let frames: Vec<_> = (0..100).map(frame).collect();
    let mut sent = 0;
    while sent < frames.len() {
        sent += sender.send(&frames[sent..]).unwrap();
    }
    let (mut left, mut came) = (vec![None; 100], vec![None; 100]);
    let begin = Instant::now();
    while came.iter().any(Option::is_none) || left.iter().any(Option::is_none) {
        assert!(begin.elapsed() < Duration::from_secs(10), "{left:?} {came:?}");
        let note = |to: &mut Vec<Option<Nanos>>, b: &[u8], at| {
            if b.get(12..14) == Some(&[0x88, 0xb5]) && b[14] < 100 {
                to[usize::from(b[14])] = at;
            }
        };
        sender.stamps(usize::MAX, |b, at| note(&mut left, b, Some(at))).unwrap();
        capture
            .receive(Duration::from_millis(20), |b, at| {
                assert_eq!(b, frame(b[14]));
                note(&mut came, b, at);
            })
            .unwrap();
    }
    for (left, came) in left.iter().zip(&came) {
        let (left, came) = (left.unwrap(), came.unwrap());
        assert!(left <= came && left.0 >= before, "{left:?} {came:?} {before}");
    }
    assert_eq!(capture.take_drops(), 0);
    // The kernel tells of a carrier up to a second late.
    while capture.link() != LinkState::Up {
        assert!(begin.elapsed() < Duration::from_secs(10), "the link stays {:?}", capture.link());
    }
    let none = lab.within("w", || Sender::open("p9").map(drop)).join().unwrap();
    assert!(matches!(none, Err(DeviceError::NoInterface(_))), "{none:?}");
}
