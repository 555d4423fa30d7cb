//! Tunnels' ends by VXLAN: between each other without any right; with the kernel's own device and under
//! tshark's eyes as root. Skipped, visibly, where that is not there.

mod common;

use common::Lab;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use weir_io::af_packet::AfPacket;
use weir_io::capture_file::PcapOut;
use weir_io::vxlan::Vxlan;
use weir_packet::{Arrival, BURST, Burst, Device, DeviceError, LinkState, Pool};

/// How long anything is waited for.
const LIMIT: Duration = Duration::from_secs(30);

/// Two addresses of this machine that no other test uses.
fn two() -> [Ipv4Addr; 2] {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let pid = std::process::id();
    [1, 2].map(|last| {
        Ipv4Addr::new(127, 10 + n, (pid % 250) as u8, (pid / 250 % 125) as u8 * 2 + last)
    })
}

fn open(text: &str, pool: &Pool) -> Result<Vxlan, DeviceError> {
    Vxlan::open(text, text.parse().unwrap(), pool)
}

fn end(vni: u32, [local, remote]: [Ipv4Addr; 2], rest: &str, pool: &Pool) -> Vxlan {
    open(&format!("{vni},remote={remote},local={local}{rest}"), pool).unwrap()
}

fn frame(n: u32, len: usize) -> Vec<u8> {
    let mut f = vec![0; len.max(18)];
    f[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb6]);
    f[14..18].copy_from_slice(&n.to_be_bytes());
    f
}

/// Sends all of them; the port takes them sooner or later.
fn send(port: &mut dyn Device, pool: &mut Pool, frames: &[Vec<u8>]) {
    let mut burst = Burst::new();
    for f in frames {
        let mut own = pool.alloc().unwrap();
        own.copy_from(f).unwrap();
        burst.push(own).unwrap();
        while burst.room() == 0 {
            port.tx(pool, &mut burst);
        }
    }
    while !burst.is_empty() {
        port.tx(pool, &mut burst);
    }
    port.flush(pool);
}

/// Waits until the ports have received so many frames, and gives them by port. `reader` reads for all.
fn receive(ports: &mut [&mut Vxlan], pool: &mut Pool, n: usize) -> Vec<Vec<Vec<u8>>> {
    let mut got = vec![Vec::new(); ports.len()];
    let mut burst = Burst::new();
    let begun = Instant::now();
    while got.iter().map(Vec::len).sum::<usize>() < n {
        assert!(begun.elapsed() < LIMIT, "{got:?} of {n}");
        for (port, got) in ports.iter_mut().zip(&mut got) {
            port.rx(pool, &mut burst);
            for f in burst.drain() {
                got.push(f.bytes().to_vec());
                pool.free(f);
            }
        }
        let held: usize = ports.iter().map(|p| p.held()).sum();
        assert_eq!(pool.available() + held, pool.count(), "a chunk is lost");
    }
    got
}

#[test]
fn tenants_with_the_same_addresses_share_a_socket_and_nothing_else() {
    let [a, b] = two();
    let mut near = Pool::new(1024, 2048).unwrap();
    let mut far = Pool::new(1024, 2048).unwrap();
    let mut near_ends = [1, 2, 0xff_ffff].map(|vni| end(vni, [a, b], "", &near));
    let mut far_ends = [1, 2, 0xff_ffff].map(|vni| end(vni, [b, a], "", &far));
    // The same frames in each network, more than a batch.
    let sent: Vec<Vec<u8>> = (0..100).map(|n| frame(n, 60 + n as usize)).collect();
    for (i, port) in near_ends.iter_mut().enumerate() {
        send(port, &mut near, &sent[i..]);
    }
    let [x, y, z] = &mut far_ends;
    let got = receive(&mut [x, y, z], &mut far, 100 + 99 + 98);
    for (i, got) in got.iter().enumerate() {
        assert!(got == &sent[i..], "network {i}: {} frames", got.len());
    }
    // And back.
    send(&mut far_ends[2], &mut far, &sent[..3]);
    let [x, y, z] = &mut near_ends;
    assert_eq!(receive(&mut [x, y, z], &mut near, 3), [vec![], vec![], sent[..3].to_vec()]);
    // The one that reads the socket goes, others read on.
    near_ends[0].close(&mut near);
    send(&mut far_ends[2], &mut far, &sent[..1]);
    // What comes for it is of no network now.
    send(&mut far_ends[0], &mut far, &sent[..1]);
    send(&mut far_ends[2], &mut far, &sent[..1]);
    let [_, y, z] = &mut near_ends;
    assert_eq!(receive(&mut [y, z], &mut near, 2)[1].len(), 2);
    assert_eq!(near_ends[1].counters().rx_unknown, 1);
    for (ports, pool) in [(&mut near_ends, &mut near), (&mut far_ends, &mut far)] {
        ports.iter_mut().for_each(|p| p.close(pool));
        assert_eq!(pool.available(), pool.count());
    }
}

/// Waits until the second end has a link, while the first stands for a port with such a one.
fn stands(ends: &mut [Vxlan; 2], pools: &mut [Pool; 2], link: LinkState) {
    let (begun, mut burst) = (Instant::now(), Burst::new());
    while ends[1].link(&mut pools[1]) != link {
        assert!(begun.elapsed() < LIMIT, "never {link:?}: {:?}", ends[1].fault());
        ends[0].stand_for(link);
        for (end, pool) in ends.iter_mut().zip(pools.iter_mut()) {
            end.rx(pool, &mut burst);
            assert!(burst.is_empty(), "what is said of links is no frame of a tenant's");
            end.flush(pool);
        }
    }
}

/// An end is down while the port is that the other one stands for, whether ways are probed or not.
#[test]
fn an_end_has_the_link_that_the_other_stands_for() {
    let [a, b] = two();
    let mut pools = [(); 2].map(|()| Pool::new(256, 2048).unwrap());
    for more in [",key=7", ",key=7,probe_ms=10", ",link=e1,key=7"] {
        let mut ends = [end(5, [a, b], more, &pools[0]), end(5, [b, a], more, &pools[1])];
        stands(&mut ends, &mut pools, LinkState::Up);
        stands(&mut ends, &mut pools, LinkState::Down);
        assert_eq!(ends[1].fault().as_deref(), Some("the port at its other end is down"));
        // The first one is up, and frames come all the same.
        assert_eq!(ends[0].link(&mut pools[0]), LinkState::Up);
        send(&mut ends[0], &mut pools[0], &[frame(1, 60)]);
        assert_eq!(receive(&mut [&mut ends[1]], &mut pools[1], 1)[0].len(), 1);
        stands(&mut ends, &mut pools, LinkState::Up);
        ends.iter_mut().zip(&mut pools).for_each(|(end, pool)| end.close(pool));
    }
}

/// An end that is to tell of a port says that this is down until it is told of it.
#[test]
fn a_port_that_nobody_has_told_of_is_down() {
    let [a, b] = two();
    let mut pools = [(); 2].map(|()| Pool::new(256, 2048).unwrap());
    let mut ends = [
        end(5, [a, b], ",key=7,probe_ms=10,link=e1", &pools[0]),
        end(5, [b, a], ",key=7,probe_ms=10", &pools[1]),
    ];
    let (begun, mut burst) = (Instant::now(), Burst::new());
    while ends[1].fault().as_deref() != Some("the port at its other end is down") {
        assert!(begun.elapsed() < LIMIT, "{:?}", ends[1].fault());
        for (end, pool) in ends.iter_mut().zip(&mut pools) {
            end.rx(pool, &mut burst);
            end.flush(pool);
        }
        assert_eq!(ends[1].link(&mut pools[1]), LinkState::Down);
    }
    stands(&mut ends, &mut pools, LinkState::Up);
    ends.iter_mut().zip(&mut pools).for_each(|(end, pool)| end.close(pool));
}

/// A datagram with a probe, written by hand.
fn probe(vni: u8, key: u64, (sender, number): (u64, u64), version: u8, up: bool) -> Vec<u8> {
    let mut d = vec![8, 0, 0, 0, 0, 0, vni, 0];
    d.extend([3, 0x57, 0x45, 0x49, 0x52, 1, 2, 0x57, 0x45, 0x49, 0x52, 1, 0x88, 0xb5]);
    d.extend(key.to_be_bytes());
    d.extend(sender.to_be_bytes());
    // It hears us.
    d.extend([version, if up { 1 } else { 3 }]);
    d.extend(number.to_be_bytes());
    d.resize(8 + 60, 0);
    d
}

/// Where an end has a key nothing of probes' look reaches a tenant, whatever key the other end has. One without passes all: relays have none.
#[test]
fn a_probe_of_another_key_is_counted_and_no_frame() {
    let [a, b] = two();
    let mut pool = Pool::new(256, 2048).unwrap();
    let mut ports = [(0, ""), (1, ",key=7"), (2, ",key=7,probe_ms=10000")]
        .map(|(vni, rest)| end(vni, [a, b], rest, &pool));
    let peer = UdpSocket::bind((b, 0)).unwrap();
    // What differs in anything that the look is made of is a tenant's: addresses, type, length.
    let changes: [fn(&mut Vec<u8>); 4] =
        [|d| d[8] ^= 4, |d| d[19] ^= 1, |d| d[21] ^= 1, |d| d.push(0)];
    let like = |vni: u8| {
        let of = |version| probe(vni, 9, (1, 0), version, false);
        let mut all = vec![of(2), of(1)];
        all.extend(changes.iter().map(|change| {
            let mut d = of(2);
            change(&mut d);
            d
        }));
        all
    };
    for d in (0..3).flat_map(like) {
        peer.send_to(&d, (a, 4789)).unwrap();
    }
    let [x, y, z] = &mut ports;
    let got = receive(&mut [x, y, z], &mut pool, 6 + 4 + 4);
    for (i, port) in ports.iter_mut().enumerate() {
        let dropped = if i == 0 { 0 } else { 2 };
        let sent = like(i as u8);
        let frames: Vec<_> = sent[dropped..].iter().map(|d| d[8..].to_vec()).collect();
        assert_eq!(got[i], frames);
        let c = port.counters();
        assert_eq!((c.rx_unknown, c.rx_errors), (dropped as u64, 0));
        port.close(&mut pool);
    }
    assert_eq!(pool.available(), pool.count());
}

/// Of two ways one may be slower: what comes by it is older than what was heard.
#[test]
fn an_older_probe_says_nothing_of_the_link() {
    let [a, b] = two();
    let mut pool = Pool::new(256, 2048).unwrap();
    let peer = UdpSocket::bind((b, 0)).unwrap();
    let both = format!(",key=7,backup=2@{b},probe_ms=10000");
    for (rest, other) in [(",key=7", 1), (&both, 2)] {
        let mut port = end(1, [a, b], rest, &pool);
        // What is heard in one burst, and the link that the other end has told by it.
        let mut tell = |said: &[(u8, (u64, u64), bool)]| {
            for (vni, by, up) in said {
                peer.send_to(&probe(*vni, 7, *by, 2, *up), (a, 4789)).unwrap();
            }
            peer.send_to(&[&[8, 0, 0, 0, 0, 0, 1, 0], &frame(1, 60)[..]].concat(), (a, 4789))
                .unwrap();
            receive(&mut [&mut port], &mut pool, 1);
            port.flush(&mut pool);
            port.link(&mut pool) == LinkState::Up
        };
        let (up, down) = (true, false);
        assert!(!tell(&[(1, (1, 5), down)]));
        assert!(!tell(&[(other, (1, 4), up)]), "an older one");
        assert!(!tell(&[(1, (1, 7), down), (1, (1, 6), up), (other, (1, 6), up)]), "of one burst");
        assert!(tell(&[(other, (1, 8), up)]), "a newer one");
        assert!(tell(&[(1, (1, 7), down)]), "an older one");
        assert!(!tell(&[(1, (2, 0), down)]), "another sender's");
        port.close(&mut pool);
    }
    assert_eq!(pool.available(), pool.count());
}

#[test]
fn what_is_nobodys_is_counted_and_nothing_else_happens() {
    let [a, b] = two();
    let mut pool = Pool::new(256, 2048).unwrap();
    let mut port = end(7, [a, b], "", &pool);
    let to = SocketAddr::new(IpAddr::V4(a), 4789);
    let from_peer = UdpSocket::bind((b, 0)).unwrap();
    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let datagram = |vni: u8, flags: u8, len: usize| {
        let mut d = vec![flags, 0, 0, 0, 0, 0, vni, 0];
        d.extend(frame(1, 2048));
        d.truncate(8 + len);
        d
    };
    from_peer.send_to(&datagram(9, 8, 60), to).unwrap(); // unknown
    stranger.send_to(&datagram(7, 8, 60), to).unwrap(); // known, of somebody else
    from_peer.send_to(&datagram(7, 0, 60), to).unwrap(); // not valid
    from_peer.send_to(&datagram(7, 8, 13), to).unwrap(); // no Ethernet header
    from_peer.send_to(&[], to).unwrap();
    from_peer.send_to(&datagram(7, 8, 2000), to).unwrap(); // longer than a chunk takes
    from_peer.send_to(&datagram(7, 8, 60), to).unwrap();
    let got = receive(&mut [&mut port], &mut pool, 1);
    assert_eq!(got[0], [frame(1, 60)]);
    let c = port.counters();
    assert_eq!((c.rx_unknown, c.rx_malformed, c.rx_errors, c.rx_missed), (2, 3, 1, 0));
    // It fills its own box and no more; the rest is its loss, counted.
    assert_eq!(pool.available() + port.held(), pool.count());
    let mut other = end(8, [a, b], "", &pool);
    for _ in 0..200 {
        from_peer.send_to(&datagram(8, 8, 60), to).unwrap();
    }
    from_peer.send_to(&datagram(7, 8, 61), to).unwrap();
    assert_eq!(receive_any(&mut port, &mut pool, 1)[0].len(), 61);
    assert!(matches!(other.arrival(), Arrival::Polled), "frames wait for it");
    assert_eq!(receive_any(&mut other, &mut pool, 128).len(), 128);
    assert!(matches!(other.arrival(), Arrival::Told(_)));
    assert_eq!(other.counters().rx_missed, 72);
    other.close(&mut pool);
    port.close(&mut pool);
    assert_eq!((port.counters(), other.counters().rx_missed), (c, 72), "closed, it tells the same");
    assert_eq!(pool.available(), pool.count());
}

#[test]
fn what_can_not_be_is_told_and_how_to_mend_it() {
    let [a, b] = two();
    let pool = Pool::new(8, 4096).unwrap();
    let at = |text: &str| open(text, &pool).map(|p| p.caps().max_frame_bytes);
    let told = |text: &str| at(text).unwrap_err().to_string();
    let first = end(5, [a, b], "", &pool);
    assert!(told(&format!("5,remote={b},local={a}")).contains("network identifier 5 is another"));
    assert!(told(&format!("6,remote={b},local=192.0.2.77")).contains("no address of this machine"));
    let elsewhere = Pool::new(8, 4096).unwrap();
    let again = open(&format!("6,remote={b},local={a}"), &elsewhere).unwrap_err().to_string();
    assert!(again.contains("is in use"), "{again}");
    drop(first);
    // 20 of IPv4 (or 40), 8 of UDP, 8 of VXLAN go off the network's MTU: 50 with the inner header.
    assert_eq!(at(&format!("6,remote={b},local={a},mtu=1500")).unwrap(), 1500 - 50 + 14);
    assert_eq!(at(&format!("6,remote={b},local={a}")).unwrap(), pool.max_frame_bytes());
    if UdpSocket::bind("[::1]:0").is_ok() {
        let text = "6,remote=[::1]:4788,local=[::1]:4786,mtu=1500";
        assert_eq!(at(text).unwrap(), 1500 - 70 + 14);
    }
}

/// Lets both ends look after their ways until `done`.
fn look_after(
    ends: &mut [(&mut Vxlan, &mut Pool)],
    mut done: impl FnMut(&[(&mut Vxlan, &mut Pool)]) -> bool,
) {
    let begun = Instant::now();
    let mut burst = Burst::new();
    while !done(ends) {
        assert!(begun.elapsed() < LIMIT, "the ways did not change");
        for (port, pool) in ends.iter_mut() {
            port.rx(pool, &mut burst);
            assert!(burst.is_empty(), "a probe is no frame");
            port.flush(pool);
            port.link(pool);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A relay of datagrams: a way that can be cut.
struct Cut(UdpSocket, [SocketAddr; 2]);

impl Cut {
    fn pass(&self) {
        let mut b = [0; 2048];
        while let Ok((n, from)) = self.0.recv_from(&mut b) {
            let [x, y] = self.1;
            self.0.send_to(&b[..n], if from == x { y } else { x }).unwrap();
        }
    }
}

#[test]
fn a_way_that_dies_is_left_for_the_next_and_taken_again_when_it_is_back() {
    let ([a, b], [m, _]) = (two(), two());
    let (mut near, mut far) = (Pool::new(256, 2048).unwrap(), Pool::new(256, 2048).unwrap());
    // The first way goes by a relay at m, the second straight.
    let relay = UdpSocket::bind((m, 4789)).unwrap();
    relay.set_nonblocking(true).unwrap();
    let relay = Cut(relay, [a, b].map(|ip| SocketAddr::new(ip.into(), 4789)));
    let ends = |vni: u32, [x, y]: [Ipv4Addr; 2], pool: &Pool| {
        open(&format!("{vni},remote={m},local={x},backup=2@{y},probe_ms=20,key=abc"), pool).unwrap()
    };
    let (mut x, mut y) = (ends(1, [a, b], &near), ends(1, [b, a], &far));
    assert_eq!(x.link(&mut near), LinkState::Down, "nothing was heard yet");
    let mut both = [(&mut x, &mut near), (&mut y, &mut far)];
    let state = |e: &[(&mut Vxlan, &mut Pool)], word: Option<&str>| {
        e.iter().all(|(p, _)| match (p.fault(), word) {
            (Some(f), Some(w)) => f.contains(w),
            (f, w) => f.is_none() && w.is_none(),
        })
    };
    look_after(&mut both, |e| {
        relay.pass();
        state(e, None)
    });
    let through = |both: &mut [(&mut Vxlan, &mut Pool)], n| {
        let [(x, near), (y, far)] = both else { unreachable!() };
        send(*x, near, &[frame(n, 64)]);
        relay.pass();
        assert_eq!(receive(&mut [y], far, 1)[0], [frame(n, 64)]);
    };
    through(&mut both, 1);
    // Cut: nothing passes by m.
    look_after(&mut both, |e| state(e, Some("silent: 1 of")));
    look_after(&mut both, |e| state(e, Some("2 is taken")));
    through(&mut both, 2);
    look_after(&mut both, |e| {
        relay.pass();
        state(e, None) && e.iter().all(|(p, _)| p.counters().way_changes == 2)
    });
    through(&mut both, 3);
    x.close(&mut near);
    y.close(&mut far);
    assert_eq!(near.available(), near.count());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any bytes from the peer: a frame, or counted.
    #[test]
    fn any_datagram_is_a_frame_or_counted(all in prop::collection::vec(
        (prop::collection::vec(any::<u8>(), 0..40), any::<bool>(), any::<bool>()), 1..50,
    )) {
        let [a, b] = two_again();
        let mut pool = Pool::new(128, 2048).unwrap();
        let mut port = end(7, [a, b], ",probe_ms=10", &pool);
        let peer = UdpSocket::bind((b, 0)).unwrap();
        let (mut frames, mut unknown, mut malformed) = (0, 0, 0);
        for (bytes, valid, known) in &all {
            let mut d = bytes.clone();
            if d.len() >= 8 {
                if *valid { d[0] |= 8 }
                if *known { d[4..7].copy_from_slice(&[0, 0, 7]) }
            }
            match () {
                () if d.len() < 22 || d[0] & 8 == 0 => malformed += 1,
                () if d[4..7] != [0, 0, 7] => unknown += 1,
                () => frames += 1,
            }
            peer.send_to(&d, (a, 4789)).unwrap();
        }
        peer.send_to(&[8, 0, 0, 0, 0, 0, 7, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (a, 4789)).unwrap();
        let got = receive(&mut [&mut port], &mut pool, frames + 1);
        prop_assert_eq!(got[0].len(), frames + 1);
        let c = port.counters();
        prop_assert_eq!((c.rx_unknown, c.rx_malformed), (unknown, malformed));
        port.close(&mut pool);
        prop_assert_eq!(pool.available(), pool.count());
    }
}

/// One pair for all cases: they run one after the other.
fn two_again() -> [Ipv4Addr; 2] {
    let pid = std::process::id();
    [1, 2].map(|last| Ipv4Addr::new(127, 9, (pid % 250) as u8, (pid / 250 % 125) as u8 * 2 + last))
}

/// A cable between two namespaces, w and h1, and the kernel's VXLAN device vx0 in the latter, whose other end is at w. `None`, said aloud, where
/// there can be none.
fn kernels_device(test: &str) -> Option<Lab> {
    let lab = Lab::new(&["w", "h1"]);
    lab.quiet("w");
    lab.quiet("h1");
    lab.veth(1);
    lab.run("w", "ip addr add 192.0.2.1/24 dev p1");
    lab.run("h1", "ip addr add 192.0.2.2/24 dev eth0");
    let made = "ip link add vx0 type vxlan id 42 remote 192.0.2.1 local 192.0.2.2 dstport 4789 \
                dev eth0 nolearning";
    if !lab.works("h1", made) {
        eprintln!("SKIPPED: {test} needs VXLAN devices of the kernel");
        return None;
    }
    Some(lab)
}

/// The kernel's VXLAN device as the other end, a cable between, and tshark on what went over it.
#[test]
fn the_kernels_device_and_tshark_agree() {
    const TEST: &str = "the_kernels_device_and_tshark_agree";
    if !common::can_have_namespaces(TEST) || !common::have(TEST, &["tshark"]) {
        return;
    }
    let Some(lab) = kernels_device(TEST) else { return };
    lab.run("h1", "ip link set vx0 up");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cable.pcap");
    let written = file.clone();
    let (to_far, from_near) = std::sync::mpsc::channel::<Vec<Vec<u8>>>();
    let (to_near, from_far) = std::sync::mpsc::channel::<Vec<Vec<u8>>>();
    let sent: Vec<Vec<u8>> = (0..80).map(|n| frame(n, 60 + n as usize)).collect();
    let expected = sent.clone();
    let by_kernel = lab.within("h1", move || {
        let mut pool = Pool::new(512, 2048).unwrap();
        let mut port = AfPacket::open("vx0", &pool).unwrap();
        let got = receive_any(&mut port, &mut pool, expected.len());
        send(&mut port, &mut pool, &expected);
        to_near.send(got).unwrap();
        // Until the other side has them.
        let _ = from_near.recv();
        port.close(&mut pool);
    });
    let sends = sent.clone();
    let got = lab.within("w", move || {
        let mut pool = Pool::new(512, 2048).unwrap();
        let mut cable = AfPacket::open("p1", &pool).unwrap();
        let mut port = open("42,remote=192.0.2.2,local=192.0.2.1", &pool).unwrap();
        assert_eq!(port.caps().max_frame_bytes, 1500 - 50 + 14, "the cable's MTU");
        std::thread::sleep(Duration::from_millis(100));
        send(&mut port, &mut pool, &sends);
        let at_kernel = from_far.recv_timeout(LIMIT).unwrap();
        let at_us = receive_any(&mut port, &mut pool, sends.len());
        // What the kernel has sent over the cable, as it was.
        let mut out = PcapOut::create(&written).unwrap();
        let mut burst = Burst::new();
        while cable.rx(&mut pool, &mut burst) > 0 {
            while !burst.is_empty() {
                out.tx(&mut pool, &mut burst);
            }
        }
        out.flush(&mut pool);
        out.close(&mut pool);
        to_far.send(Vec::new()).unwrap();
        (at_kernel, at_us)
    });
    let (at_kernel, at_us) = got.join().unwrap();
    by_kernel.join().unwrap();
    assert!(at_kernel == sent, "{} frames came out of the kernel's device", at_kernel.len());
    assert!(at_us == sent, "{} frames came from the kernel's device", at_us.len());
    // Ours, as tshark reads them: written as a cable would see them.
    let ours = dir.path().join("ours.pcap");
    datagrams(&ours, &sent);
    for (file, n) in [(&file, sent.len()), (&ours, sent.len())] {
        let said = common::run(&format!(
            "tshark -n -r {} -d udp.port==4789,vxlan -Y vxlan.vni==42 -T fields -e vxlan.flags -e frame.len \
             -e udp.dstport",
            file.display()
        ));
        assert_eq!(said.lines().count(), n, "{}: {said}", file.display());
        assert!(said.lines().all(|l| l.starts_with("0x0800\t") && l.ends_with("\t4789")), "{said}");
    }
}

/// The kernel keeps what is sent to a neighbour that does not answer; other ends at the same address send on.
#[test]
fn a_neighbour_that_is_silent_keeps_nobody_else_from_sending() {
    const TEST: &str = "a_neighbour_that_is_silent_keeps_nobody_else_from_sending";
    if !common::can_have_namespaces(TEST) {
        return;
    }
    let lab = Lab::new(&["w", "h1", "h2"]);
    ["w", "h1", "h2"].into_iter().for_each(|n| lab.quiet(n));
    lab.veth(1);
    lab.veth(2);
    lab.run("w", "ip addr add 192.0.2.1/24 dev p1");
    lab.run("w", "ip addr add 198.51.100.1/24 dev p2");
    lab.run("h1", "ip addr add 192.0.2.2/24 dev eth0");
    let got = lab.within("w", || {
        let mut pool = Pool::new(512, 2048).unwrap();
        let mut alive = open("1,remote=192.0.2.2,local=192.0.2.1", &pool).unwrap();
        // Nobody has these addresses. One of them alone has all of the default where frames have certain lengths.
        let mut dead = open("2,remote=198.51.100.2,local=192.0.2.1", &pool).unwrap();
        let mut too = open("3,remote=198.51.100.3,local=192.0.2.1", &pool).unwrap();
        let mut taken = 0;
        for (port, n) in [(&mut dead, 40), (&mut too, 40), (&mut alive, 1)] {
            for _ in 0..n {
                let mut burst = Burst::new();
                while burst.room() > 0 {
                    let mut f = pool.alloc().unwrap();
                    f.set_len(1400).unwrap();
                    let _ = burst.push(f);
                }
                taken = port.tx(&mut pool, &mut burst);
                burst.drain().for_each(|f| pool.free(f));
            }
        }
        taken
    });
    assert_eq!(got.join().unwrap(), BURST);
}

/// A kernel of this machine leaves its checksums to an adapter that no frame of a tunnel's end here meets.
#[test]
fn checksums_that_the_kernels_device_leaves_are_finished() {
    const TEST: &str = "checksums_that_the_kernels_device_leaves_are_finished";
    if !common::can_have_namespaces(TEST) {
        return;
    }
    let Some(lab) = kernels_device(TEST) else { return };
    lab.run("h1", "ip addr add 10.7.0.2/24 dev vx0");
    lab.run("h1", "ip link set vx0 up");
    lab.run("h1", "ip neigh add 10.7.0.1 lladdr 02:00:00:00:00:09 dev vx0");
    let far = lab.within("h1", || {
        let socket = UdpSocket::bind("10.7.0.2:5000").unwrap();
        std::thread::sleep(Duration::from_millis(300));
        for n in 0..20u8 {
            socket.send_to(&vec![n; 100 + usize::from(n)], "10.7.0.1:7000").unwrap();
        }
    });
    let near = lab.within("w", || {
        let mut pool = Pool::new(512, 2048).unwrap();
        let mut port = open("42,remote=192.0.2.2,local=192.0.2.1", &pool).unwrap();
        let (mut n, mut burst, begun) = (0, Burst::new(), Instant::now());
        while n < 20 {
            assert!(begun.elapsed() < LIMIT, "{n} of 20 came");
            port.rx(&mut pool, &mut burst);
            for f in burst.drain() {
                let b = f.bytes();
                if b[12..14] == [8, 0] && b[23] == 17 && b[36..38] == 7000u16.to_be_bytes() {
                    // The sum over the pseudo-header and all of the datagram, its checksum in it.
                    let datagram = &b[34..];
                    let length = (datagram.len() as u16).to_be_bytes();
                    let pseudo = [&b[26..34], &[0, 17], &length].concat();
                    let whole = [&pseudo[..], datagram].concat();
                    let word =
                        |w: &[u8]| u32::from(w[0]) << 8 | w.get(1).map_or(0, |b| u32::from(*b));
                    let mut sum: u32 = whole.chunks(2).map(word).sum();
                    sum = (sum & 0xffff) + (sum >> 16);
                    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "datagram {n}");
                    n += 1;
                }
                pool.free(f);
            }
        }
        port.counters().csum_completed
    });
    far.join().unwrap();
    assert!(near.join().unwrap() >= 20);
}

/// Frames of our type, so many.
fn receive_any(port: &mut dyn Device, pool: &mut Pool, n: usize) -> Vec<Vec<u8>> {
    let (mut got, mut burst, begun) = (Vec::new(), Burst::new(), Instant::now());
    while got.len() < n {
        assert!(begun.elapsed() < LIMIT, "{} of {n} came", got.len());
        port.rx(pool, &mut burst);
        for f in burst.drain() {
            if f.bytes().get(12..14) == Some(&[0x88, 0xb6]) {
                got.push(f.bytes().to_vec());
            }
            pool.free(f);
        }
    }
    got
}

/// Sends frames by a port to a socket, and writes what that got as packets of a cable.
fn datagrams(file: &std::path::Path, frames: &[Vec<u8>]) {
    let [a, b] = two();
    let mut pool = Pool::new(512, 2048).unwrap();
    let socket = UdpSocket::bind((b, 4789)).unwrap();
    let mut port = end(42, [a, b], "", &pool);
    let mut out = PcapOut::create(file).unwrap();
    for f in frames {
        send(&mut port, &mut pool, std::slice::from_ref(f));
        let mut d = [0; 2048];
        let (n, from) = socket.recv_from(&mut d).unwrap();
        assert_eq!(from.port(), 4789, "a socket has one port");
        let len = (n + 28) as u16;
        let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        packet.extend([0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0x40, 0, 64, 17, 0, 0]);
        packet.extend(a.octets().iter().chain(&b.octets()));
        packet.extend([0x12, 0xb5, 0x12, 0xb5]);
        packet.extend((n as u16 + 8).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(&d[..n]);
        send(&mut out, &mut pool, &[packet]);
    }
    out.close(&mut pool);
    port.close(&mut pool);
    assert_eq!(pool.available(), pool.count());
}
