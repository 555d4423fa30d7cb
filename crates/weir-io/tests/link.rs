//! Interfaces that are missing, down, deleted, and back; ports that share a umem; errors that say
//! what to do. Needs root; skipped, visibly, without.

mod common;

use common::Lab;
use weir_io::af_packet::AfPacket;
use weir_io::af_xdp::{AfXdp, Mode, Options, Program, Umem};
use weir_io::open::open_queue;
use weir_io::patience::Again;
use weir_io::tap::{Lifetime, Tap};
use weir_io::{Opened, open, open_patiently};
use weir_packet::{Burst, Device, DeviceError, LinkState, Pool};

type Open = fn(&mut Pool) -> Box<dyn Device>;

fn xdp(name: &str, mode: Mode, umem: &Umem, pool: &mut Pool) -> Box<dyn Device> {
    Box::new(AfXdp::open(name, Options { mode, ..Options::default() }, umem, pool).unwrap())
}

fn frame(n: u8) -> Vec<u8> {
    let mut f = vec![0; 60];
    f[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, n, 0x88, 0xb5]);
    f
}

fn send(port: &mut dyn Device, pool: &mut Pool, n: u8) {
    let mut burst = Burst::new();
    let mut f = pool.alloc().unwrap();
    f.copy_from(&frame(n)).unwrap();
    burst.push(f).unwrap();
    assert_eq!(port.tx(pool, &mut burst), 1, "{}", port.name());
    port.flush(pool);
}

/// Waits until the port has received the frame of number `n`; others may come too.
fn expect(port: &mut dyn Device, pool: &mut Pool, n: u8) {
    let mut burst = Burst::new();
    for _ in 0..2000 {
        port.rx(pool, &mut burst);
        port.flush(pool);
        let mut found = false;
        for f in burst.drain() {
            found |= f.bytes() == frame(n);
            pool.free(f);
        }
        if found {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("frame {n} did not come through {}", port.name());
}

/// Asks for the link until it is what is wanted.
fn wait_for(port: &mut dyn Device, pool: &mut Pool, wanted: LinkState) {
    for _ in 0..1000 {
        if port.link(pool) == wanted {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    panic!("{} did not become {wanted:?}: {:?}", port.name(), port.fault());
}

fn ip(command: &str) {
    common::run(&format!("ip {command}"));
}

/// A port on `p1`, and a second one that sends into its other end, `far`, in the same namespace.
fn survives(test: &'static str, open: Open) {
    if !common::can_have_namespaces(test) {
        return;
    }
    let lab = Lab::new(&["w"]);
    lab.quiet("w");
    let body = move || {
        let make = || {
            ip("link add p1 type veth peer name far");
            ip("link set far up");
            ip("link set p1 up");
        };
        make();
        let mut pool = Pool::new(2048, 2048).unwrap();
        let mut port = open(&mut pool);
        for round in 1..4u8 {
            let mut far = AfPacket::open("far", &pool).unwrap();
            wait_for(&mut *port, &mut pool, LinkState::Up);
            assert_eq!(port.fault(), None);
            send(&mut far, &mut pool, round);
            expect(&mut *port, &mut pool, round);
            send(&mut *port, &mut pool, round + 100);
            expect(&mut far, &mut pool, round + 100);

            ip("link set far down");
            wait_for(&mut *port, &mut pool, LinkState::Down);
            ip("link set far up");
            wait_for(&mut *port, &mut pool, LinkState::Up);
            send(&mut far, &mut pool, round + 50);
            expect(&mut *port, &mut pool, round + 50);

            ip("link del p1");
            wait_for(&mut *port, &mut pool, LinkState::Gone);
            assert!(port.fault().unwrap().contains("'p1' does not exist"));
            let mut burst = Burst::new();
            assert_eq!(port.rx(&mut pool, &mut burst), 0);
            port.flush(&mut pool);
            far.close(&mut pool);
            assert_eq!(pool.available() + port.held(), pool.count());
            make();
        }
        wait_for(&mut *port, &mut pool, LinkState::Up);
        port.close(&mut pool);
        assert_eq!(pool.available(), pool.count());
    };
    lab.within("w", body).join().unwrap();
}

/// What the kernel has received and sent by `p1`, of this network namespace.
fn kernel() -> [u64; 2] {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = table.lines().find_map(|l| l.trim_start().strip_prefix("p1:")).unwrap();
    let counts: Vec<u64> = line.split_whitespace().map(|n| n.parse().unwrap()).collect();
    [counts[1], counts[9]]
}

/// What a port takes and the interface does not, as a link goes, and what comes while its socket is away, is counted.
#[test]
fn what_is_lost_as_a_link_goes_is_counted() {
    if !common::can_have_namespaces("what_is_lost_as_a_link_goes_is_counted") {
        return;
    }
    let lab = Lab::new(&["w"]);
    lab.quiet("w");
    let body = || {
        ip("link add p1 type veth peer name far");
        ip("link set far up");
        ip("link set p1 up");
        let mut pool = Pool::new(2048, 2048).unwrap();
        let mut far = AfPacket::open("far", &pool).unwrap();
        let mut port = xdp("p1", Mode::Native, &Umem::new(), &mut pool);
        let before = kernel();
        let (mut taken, mut came) = (0, 0);
        let mut burst = Burst::new();
        for round in 0..4u8 {
            // Its own end goes, or the other.
            let end = ["far", "p1"][usize::from(round) % 2];
            wait_for(&mut *port, &mut pool, LinkState::Up);
            wait_for(&mut far, &mut pool, LinkState::Up);
            for n in 0..20 {
                send(&mut *port, &mut pool, n);
                send(&mut far, &mut pool, n);
                taken += 1;
            }
            ip(&format!("link set {end} down"));
            for n in 0..60 {
                send(&mut *port, &mut pool, n);
                taken += 1;
            }
            // What came before.
            for _ in 0..50 {
                port.rx(&mut pool, &mut burst);
                came += burst.len() as u64;
                burst.drain().for_each(|f| pool.free(f));
            }
            wait_for(&mut *port, &mut pool, LinkState::Down);
            ip(&format!("link set {end} up"));
            wait_for(&mut far, &mut pool, LinkState::Up);
            // The port has not looked yet.
            for n in 0..30 {
                send(&mut far, &mut pool, n);
            }
            wait_for(&mut *port, &mut pool, LinkState::Up);
            send(&mut far, &mut pool, 77);
            for _ in 0..50 {
                port.rx(&mut pool, &mut burst);
                came += burst.len() as u64;
                burst.drain().for_each(|f| pool.free(f));
            }
        }
        port.flush(&mut pool);
        let (kernel, counted) = (kernel(), port.counters());
        let [received, sent] = [kernel[0] - before[0], kernel[1] - before[1]];
        assert_eq!(taken - counted.tx_errors, sent, "{counted:?}");
        assert_eq!(came + counted.rx_missed + counted.rx_errors, received, "{counted:?}");
        assert!(counted.tx_errors >= 4 * 50 && counted.rx_missed >= 30, "{counted:?}");
        port.close(&mut pool);
        far.close(&mut pool);
        assert_eq!(pool.available(), pool.count());
    };
    lab.within("w", body).join().unwrap();
}

/// The kernel's flag comes later, up to a second, where both ends of a pair have the same number.
#[test]
fn a_link_is_seen_as_soon_as_frames_pass() {
    if !common::can_have_namespaces("a_link_is_seen_as_soon_as_frames_pass") {
        return;
    }
    let lab = Lab::new(&["w", "h1"]);
    lab.quiet("w");
    lab.quiet("h1");
    let (w, h1) = (lab.full("w"), lab.full("h1"));
    common::run(&format!("ip -n {h1} link add far type veth peer name p1 netns {w}"));
    common::run(&format!("ip -n {h1} link set far up"));
    let body = move || {
        ip("link set p1 up");
        let mut pool = Pool::new(64, 2048).unwrap();
        let mut port = AfPacket::open("p1", &pool).unwrap();
        for round in 0..3 {
            assert_eq!(port.link(&mut pool), LinkState::Up, "round {round}");
            common::run(&format!("ip -n {h1} link set far down"));
            wait_for(&mut port, &mut pool, LinkState::Down);
            common::run(&format!("ip -n {h1} link set far up"));
        }
        port.close(&mut pool);
    };
    lab.within("w", body).join().unwrap();
}

/// A link that went and came back between two looks is down at one: who was behind it may be another. By itself in a
/// process that `ip netns exec` gives the namespace's sysfs.
#[test]
fn a_link_that_was_away_between_two_looks_is_down_once() {
    const TEST: &str = "a_link_that_was_away_between_two_looks_is_down_once";
    const INSIDE: &str = "WEIR_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_none() {
        if common::can_have_namespaces(TEST) {
            let lab = Lab::new(&["w"]);
            let again = std::env::current_exe().unwrap();
            let again = format!("env {INSIDE}=1 {} --exact {TEST} --nocapture", again.display());
            assert!(lab.run("w", &again).contains("1 passed"));
        }
        return;
    }
    ip("link add p1 type veth peer name far");
    ip("link set far up");
    ip("link set p1 up");
    let mut pool = Pool::new(2048, 2048).unwrap();
    let opens: [Open; 2] = [
        |pool| Box::new(AfPacket::open("p1", pool).unwrap()),
        |pool| xdp("p1", Mode::Native, &Umem::new(), pool),
    ];
    for open in opens {
        let mut port = open(&mut pool);
        wait_for(&mut *port, &mut pool, LinkState::Up);
        for _ in 0..3 {
            assert_eq!(port.link(&mut pool), LinkState::Up);
            ip("link set far down");
            ip("link set far address 02:00:00:00:00:07");
            ip("link set far up");
            assert_eq!(port.link(&mut pool), LinkState::Down);
            wait_for(&mut *port, &mut pool, LinkState::Up);
        }
        port.close(&mut pool);
    }
}

#[test]
fn af_packet_survives_its_interface() {
    survives("af_packet_survives_its_interface", |pool| {
        Box::new(AfPacket::open("p1", pool).unwrap())
    });
}

#[test]
fn native_xdp_survives_its_interface() {
    survives("native_xdp_survives_its_interface", |pool| {
        xdp("p1", Mode::Native, &Umem::new(), pool)
    });
}

#[test]
fn generic_xdp_survives_its_interface() {
    survives("generic_xdp_survives_its_interface", |pool| {
        xdp("p1", Mode::Generic, &Umem::new(), pool)
    });
}

/// What was taken for sending when the link was down, or the interface on its way out, is lost and counted, not sent when
/// the link is back.
#[test]
fn xdp_sends_nothing_late() {
    if !common::can_have_namespaces("xdp_sends_nothing_late") {
        return;
    }
    for mode in [Mode::Native, Mode::Generic] {
        let lab = Lab::new(&["w"]);
        lab.quiet("w");
        let body = move || {
            ip("link add p1 type veth peer name far");
            ip("link set far up");
            ip("link set p1 up");
            let mut pool = Pool::new(2048, 2048).unwrap();
            let mut port = xdp("p1", mode, &Umem::new(), &mut pool);
            let mut far = AfPacket::open("far", &pool).unwrap();
            wait_for(&mut *port, &mut pool, LinkState::Up);
            ip("link set p1 down");
            (1..=5).for_each(|n| send(&mut *port, &mut pool, n));
            wait_for(&mut *port, &mut pool, LinkState::Down);
            assert_eq!(port.counters().tx_errors, 5);
            ip("link set p1 up");
            wait_for(&mut *port, &mut pool, LinkState::Up);
            assert_eq!(port.fault(), None);
            send(&mut *port, &mut pool, 6);
            let (mut came, mut burst) = (Vec::new(), Burst::new());
            while !came.contains(&6) {
                far.rx(&mut pool, &mut burst);
                for f in burst.drain() {
                    came.extend(f.bytes().get(11).filter(|n| f.bytes() == frame(**n)));
                    pool.free(f);
                }
            }
            assert_eq!(came, [6]);

            ip("link set p1 down");
            (1..=5).for_each(|n| send(&mut *port, &mut pool, n));
            ip("link del p1");
            wait_for(&mut *port, &mut pool, LinkState::Gone);
            assert_eq!(port.counters().tx_errors, 10);
            far.close(&mut pool);
            port.close(&mut pool);
            assert_eq!(pool.available(), pool.count());
        };
        lab.within("w", body).join().unwrap();
    }
}

#[test]
fn tap_survives_its_deletion() {
    if !common::can_have_namespaces("tap_survives_its_deletion") {
        return;
    }
    let lab = Lab::new(&["w"]);
    lab.quiet("w");
    let body = || {
        let mut pool = Pool::new(512, 2048).unwrap();
        let mut port = Tap::open("weir0", Lifetime::Port, &pool).unwrap();
        for round in 1..3u8 {
            wait_for(&mut port, &mut pool, LinkState::Up);
            let mut stack = AfPacket::open("weir0", &pool).unwrap();
            send(&mut stack, &mut pool, round);
            expect(&mut port, &mut pool, round);
            send(&mut port, &mut pool, round + 100);
            expect(&mut stack, &mut pool, round + 100);
            stack.close(&mut pool);
            ip("link del weir0");
            wait_for(&mut port, &mut pool, LinkState::Gone);
            ip("tuntap add weir0 mode tap");
        }
        wait_for(&mut port, &mut pool, LinkState::Up);
        port.close(&mut pool);
        assert_eq!(pool.available(), pool.count());
        drop(port);
        // Made by someone else, it stays.
        ip("link show weir0");
        let mut kept = Tap::open("", Lifetime::Persistent, &pool).unwrap();
        let name = kept.name().to_owned();
        assert!(name.starts_with("tap"), "{name}");
        kept.close(&mut pool);
        ip(&format!("link show {name}"));
    };
    lab.within("w", body).join().unwrap();
}

#[test]
fn ports_share_a_umem_and_leave_it_in_any_order() {
    if !common::can_have_namespaces("ports_share_a_umem_and_leave_it_in_any_order") {
        return;
    }
    let lab = Lab::new(&["w"]);
    lab.quiet("w");
    let body = || {
        for n in 1..=3 {
            ip(&format!("link add p{n} type veth peer name far{n}"));
            ip(&format!("link set far{n} up"));
            ip(&format!("link set p{n} up"));
        }
        let (mut pool, umem) = (Pool::new(4096, 2048).unwrap(), Umem::new());
        let mut a = xdp("p1", Mode::Native, &umem, &mut pool);
        let mut b = xdp("p2", Mode::Generic, &umem, &mut pool);
        assert_eq!(umem.ports(), 2);
        let mut far1 = AfPacket::open("far1", &pool).unwrap();
        let mut far2 = AfPacket::open("far2", &pool).unwrap();
        for n in 0..100 {
            send(&mut far1, &mut pool, n);
            let mut burst = Burst::new();
            while b.tx(&mut pool, &mut burst) == 0 {
                a.rx(&mut pool, &mut burst);
            }
            b.flush(&mut pool);
            expect(&mut far2, &mut pool, n);
        }
        // The first one registered the umem; it goes, the other goes on, a third one comes.
        a.close(&mut pool);
        drop(a);
        assert_eq!(umem.ports(), 1);
        let mut c = xdp("p3", Mode::Native, &umem, &mut pool);
        assert_eq!(umem.ports(), 2);
        send(&mut far2, &mut pool, 7);
        expect(&mut *b, &mut pool, 7);
        send(&mut *b, &mut pool, 8);
        expect(&mut far2, &mut pool, 8);
        // And the first one again, at once: its queue may not be free yet.
        let mut a = xdp("p1", Mode::Native, &umem, &mut pool);
        send(&mut far1, &mut pool, 9);
        expect(&mut *a, &mut pool, 9);
        let held = a.held() + b.held() + c.held() + far1.held() + far2.held();
        assert_eq!(pool.available() + held, pool.count());
        for p in [&mut a, &mut b, &mut c] {
            p.close(&mut pool);
        }
        far1.close(&mut pool);
        far2.close(&mut pool);
        assert_eq!(pool.available(), pool.count());
    };
    lab.within("w", body).join().unwrap();
}

#[test]
fn what_is_switched_off_is_switched_on_again() {
    let test = "what_is_switched_off_is_switched_on_again";
    if !common::have(test, &["ethtool"]) || !common::can_have_namespaces(test) {
        return;
    }
    let lab = Lab::two_hosts();
    let before = lab.run("h1", "ethtool -k eth0");
    assert!(before.contains("tx-vlan-offload: on"));
    let body = || {
        let mut pool = Pool::new(1024, 2048).unwrap();
        let options = Options { mode: Mode::Generic, ..Options::default() };
        let port = AfXdp::open("p1", options, &Umem::new(), &mut pool).unwrap();
        assert!(port.notes().iter().any(|n| n.contains("tx-vlan-hw-insert")), "{:?}", port.notes());
        (pool, port)
    };
    let (mut pool, mut port) = lab.within("w", body).join().unwrap();
    let during = lab.run("h1", "ethtool -k eth0");
    assert!(during.contains("tx-vlan-offload: off"), "{during}");
    assert!(during.contains("tcp-segmentation-offload: off"), "{during}");
    port.close(&mut pool);
    assert_eq!(lab.run("h1", "ethtool -k eth0"), before);
}

#[test]
fn errors_say_what_to_do() {
    if !common::can_have_namespaces("errors_say_what_to_do") {
        return;
    }
    let lab = Lab::new(&["w"]);
    let body = || {
        ip("link add p1 type veth peer name far");
        let (mut pool, umem) = (Pool::new(64, 2048).unwrap(), Umem::new());
        let mut fails =
            |spec: &str| open_patiently(&spec.parse().unwrap(), &mut pool, &umem).unwrap_err();
        for spec in ["p1", "xdp:p1", "af_packet:p1"] {
            let e = fails(spec);
            assert!(matches!(e, DeviceError::InterfaceDown(_)), "{e}");
            assert!(e.to_string().contains("ip link set p1 up"), "{e}");
        }
        let e = fails("tap:p1");
        assert!(e.to_string().contains("is no TAP device"), "{e}");
        for name in ["tap:a/b", "tap:%d", "tap:a b"] {
            let e = fails(name).to_string();
            assert!(e.contains("a name has no '%'"), "{e}");
        }
        ip("tuntap add t0 mode tun");
        for spec in ["t0", "xdp:t0", "af_packet:t0"] {
            let e = fails(spec);
            assert!(e.to_string().contains("no Ethernet header"), "{e}");
        }
        ip("link set p1 up");
        ip("link set far up");
        // Chunks that AF_XDP can't use: the fallback is taken, and the reason given.
        let mut wide = Pool::new(256, 8192).unwrap();
        let mut another = Pool::new(256, 2048).unwrap();
        let Opened { mut device, notes, .. } =
            open_patiently(&"p1".parse().unwrap(), &mut wide, &umem).unwrap();
        assert!(notes[0].contains("AF_PACKET, because AF_XDP failed"), "{notes:?}");
        device.close(&mut wide);
        let Opened { mut device, .. } =
            open_patiently(&"p1".parse().unwrap(), &mut pool, &umem).unwrap();
        let second =
            open_patiently(&"xdp-native:p1".parse().unwrap(), &mut pool, &Umem::new()).unwrap_err();
        assert!(second.to_string().contains("in use by another program"), "{second}");
        // Who asks again is told so; else what there is beside AF_XDP is taken.
        let (p1, other) = ("p1".parse().unwrap(), Umem::new());
        let busy = open(&p1, &mut another, &other, Again::Later).unwrap_err();
        assert!(matches!(busy, DeviceError::Busy { queue: 0, .. }), "{busy}");
        let last = open(&p1, &mut another, &other, Again::Never).unwrap();
        assert!(last.notes[0].contains("in use by another program"), "{:?}", last.notes);
        let Opened { device: mut beside, .. } = last;
        beside.close(&mut another);
        device.close(&mut pool);
        assert_eq!(pool.available(), pool.count());
        // This thread gives its rights away, for good.
        // SAFETY: no memory is involved; it is this thread's identity alone that changes.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) }, 0);
        let mut fails =
            |spec: &str| open_patiently(&spec.parse().unwrap(), &mut pool, &umem).unwrap_err();
        for (spec, need) in
            [("af_packet:p1", "CAP_NET_RAW"), ("xdp:p1", "CAP_BPF"), ("tap:weir1", "CAP_NET_ADMIN")]
        {
            let e = fails(spec).to_string();
            assert!(e.contains(need), "{e}");
        }
    };
    lab.within("w", body).join().unwrap();
}

/// Ports of one pool: those that come late say that their ring is short, work all the same, and leave frames for others.
#[test]
fn a_ring_that_is_short_is_told_and_works() {
    let test = "a_ring_that_is_short_is_told_and_works";
    if !common::can_have_namespaces(test) {
        return;
    }
    let lab = Lab::two_hosts();
    for i in 0..9 {
        lab.run("w", &format!("ip link add s{i}a type veth peer name s{i}b"));
        for end in ['a', 'b'] {
            lab.run("w", &format!("ip link set s{i}{end} up"));
        }
    }
    let body = || {
        let (mut pool, umem) = (Pool::new(4096, 2048).unwrap(), Umem::new());
        let mut open = |i: usize| xdp(&format!("s{i}a"), Mode::Generic, &umem, &mut pool);
        let mut ports: Vec<_> = (0..9).map(&mut open).collect();
        let short: Vec<usize> =
            (0..9).filter(|i| ports[*i].caveat().is_some_and(|c| c.contains("'frames'"))).collect();
        assert_eq!(short, [2, 3, 4, 5, 6, 7, 8], "two have all that they want");
        assert!(pool.available() >= 700, "{} are left", pool.available());
        let mut far = AfPacket::open("s8b", &pool).unwrap();
        send(&mut far, &mut pool, 7);
        expect(&mut *ports[8], &mut pool, 7);
        ports.iter_mut().for_each(|p| p.close(&mut pool));
        far.close(&mut pool);
        assert_eq!(pool.available(), pool.count());
    };
    lab.within("w", body).join().unwrap();
}

/// Runs the calling thread on this processor alone; whether that could be.
fn runs_on(processor: usize) -> bool {
    let me = std::fs::read_link("/proc/thread-self").unwrap();
    let me = me.file_name().unwrap().to_str().unwrap().to_owned();
    let done =
        std::process::Command::new("taskset").args(["-pc", &processor.to_string(), &me]).output();
    done.is_ok_and(|o| o.status.success())
}

/// A flow leaves by one of an interface's queues, on whichever processor its worker is: it would overtake itself by another.
#[test]
fn a_flow_keeps_its_queue() {
    let test = "a_flow_keeps_its_queue";
    if !common::can_have_namespaces(test) {
        return;
    }
    let lab = Lab::new(&["w"]);
    lab.quiet("w");
    let body = move || {
        if !runs_on(1) {
            eprintln!("SKIPPED: {test} needs taskset and two processors");
            return;
        }
        ip(
            "link add near numtxqueues 2 numrxqueues 2 type veth peer name far numtxqueues 2 numrxqueues 2",
        );
        ip("link set near up");
        ip("link set far up");
        let (mut pool, umem) = (Pool::new(16_384, 2048).unwrap(), Umem::new());
        let (spec, program) = ("xdp:far".parse().unwrap(), Program::default());
        let mut queues: Vec<_> = (0..2)
            .map(|q| open_queue(&spec, q, &mut pool, &umem, &program).unwrap().device)
            .collect();
        let mut near = AfPacket::open("near", &pool).unwrap();
        for n in 0..32 {
            assert!(runs_on(n % 2));
            send(&mut near, &mut pool, 7);
        }
        let mut got = [0, 0];
        for _ in 0..2000 {
            for (queue, got) in queues.iter_mut().zip(&mut got) {
                let mut burst = Burst::new();
                queue.rx(&mut pool, &mut burst);
                queue.flush(&mut pool);
                for f in burst.drain() {
                    *got += usize::from(f.bytes() == frame(7));
                    pool.free(f);
                }
            }
            if got.iter().sum::<usize>() == 32 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(got == [32, 0] || got == [0, 32], "{got:?}");
        queues.iter_mut().for_each(|q| q.close(&mut pool));
        near.close(&mut pool);
    };
    lab.within("w", body).join().unwrap();
}
