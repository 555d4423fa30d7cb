//! Real TCP through real ports: a download of several megabytes from host to host, byte for byte,
//! over IPv4, IPv6 and in a VLAN, through each kind of port, with the hosts' offloads as their
//! kernels set them. Needs root, python3 and curl; skipped, visibly, without.

mod common;

use common::{Forwarder, Lab, Seen};
use weir_io::af_packet::AfPacket;
use weir_io::af_xdp::{AfXdp, Mode, Offer, Options, OtherEnd, Umem};
use weir_io::tap::{Lifetime, Tap};
use weir_packet::{Device, Pool, Shortcut, Way, Ways};

const BYTES: usize = 4 << 20;
const VID: u16 = 7;

type Ports = [Box<dyn Device>; 2];

fn ready(test: &str) -> bool {
    common::have(test, &["python3", "curl", "tc"]) && common::can_have_namespaces(test)
}

/// Downloads over both families, untagged or inside a VLAN; what the forwarder saw.
fn downloads(tagged: bool, open: fn(&mut Pool) -> Ports) -> Seen {
    let mut lab = Lab::two_hosts();
    for n in [1, 2] {
        if tagged {
            lab.tag(n, VID);
        }
        lab.address(n, "eth0", 9);
    }
    let dir = tempfile::tempdir().unwrap();
    let content = common::content(BYTES);
    std::fs::write(dir.path().join("file"), &content).unwrap();
    lab.serve(dir.path());
    let forwarder = Forwarder::start(&lab, 4096, open);
    for host in ["10.9.0.2", "[fd00:9::2]"] {
        lab.download(&format!("http://{host}:8000/file"), &content, dir.path());
    }
    forwarder.stop()
}

fn af_packet(pool: &mut Pool) -> Ports {
    ["p1", "p2"].map(|p| Box::new(AfPacket::open(p, pool).unwrap()) as Box<dyn Device>)
}

#[test]
fn tcp_through_af_packet() {
    if !ready("tcp_through_af_packet") {
        return;
    }
    let seen = downloads(false, af_packet);
    assert!(seen.longest <= 1514, "{seen:?}");
    assert!(seen.counters[1].segmented > 0, "the kernel was expected to send super-frames");
    assert!(seen.counters[0].csum_completed > 0);
    assert!(seen.frames as usize > 2 * BYTES / 1448);
    assert_eq!(seen.counters[1].rx_errors + seen.counters[0].rx_errors, 0);
}

#[test]
fn tcp_in_a_vlan_through_af_packet() {
    if !ready("tcp_in_a_vlan_through_af_packet") {
        return;
    }
    let seen = downloads(true, af_packet);
    assert!(seen.longest <= 1518, "{seen:?}");
    assert!(seen.tagged as usize > 2 * BYTES / 1448, "{seen:?}");
    assert!(seen.counters[1].vlan_restored > 0 && seen.counters[1].segmented > 0, "{seen:?}");
}

fn af_xdp(mode: Mode, pool: &mut Pool) -> Ports {
    let umem = Umem::new();
    let ports = ["p1", "p2"].map(|p| {
        let port = AfXdp::open(p, Options { mode, ..Options::default() }, &umem, pool).unwrap();
        assert_eq!(port.is_generic(), mode == Mode::Generic);
        Box::new(port) as Box<dyn Device>
    });
    assert_eq!(umem.ports(), 2);
    ports
}

fn check_xdp(test: &str, tagged: bool, open: fn(&mut Pool) -> Ports) {
    if !ready(test) {
        return;
    }
    let seen = downloads(tagged, open);
    assert!(seen.longest <= 1518, "{seen:?}");
    assert!(seen.frames as usize > 2 * BYTES / 1448);
    assert!(seen.counters[1].csum_completed > 0);
    assert_eq!(seen.counters[0].rx_errors + seen.counters[1].rx_errors, 0, "{seen:?}");
    assert_eq!(seen.tagged > 0, tagged);
}

#[test]
fn tcp_through_native_xdp() {
    check_xdp("tcp_through_native_xdp", false, |pool| af_xdp(Mode::Native, pool));
}

#[test]
fn tcp_in_a_vlan_through_native_xdp() {
    check_xdp("tcp_in_a_vlan_through_native_xdp", true, |pool| af_xdp(Mode::Native, pool));
}

#[test]
fn tcp_through_generic_xdp() {
    check_xdp("tcp_through_generic_xdp", false, |pool| af_xdp(Mode::Generic, pool));
}

#[test]
fn tcp_in_a_vlan_through_generic_xdp() {
    check_xdp("tcp_in_a_vlan_through_generic_xdp", true, |pool| af_xdp(Mode::Generic, pool));
}

/// Where the other end may not be set, super-frames come in several buffers and are cut here.
#[test]
fn tcp_through_generic_xdp_with_super_frames() {
    if !ready("tcp_through_generic_xdp_with_super_frames") {
        return;
    }
    let seen = downloads(false, |pool| {
        let umem = Umem::new();
        ["p1", "p2"].map(|p| {
            let options =
                Options { mode: Mode::Generic, other_end: OtherEnd::Leave, ..Options::default() };
            let port = AfXdp::open(p, options, &umem, pool).unwrap();
            assert!(port.notes()[0].contains("tx-tcp-segmentation off"), "{:?}", port.notes());
            Box::new(port) as Box<dyn Device>
        })
    });
    assert!(seen.counters[1].segmented > 0, "{seen:?}");
    assert!(seen.longest <= 1514, "{seen:?}");
    assert_eq!(seen.counters[1].rx_errors, 0, "{seen:?}");
}

/// Two ports, each of which the kernel leaves by the other.
fn shortcut(other_end: OtherEnd, pool: &mut Pool) -> Ports {
    let umem = Umem::new();
    let mut ports = ["p1", "p2"].map(|p| {
        let (mode, shortcut) = (Mode::Generic, Offer::Yes);
        let options = Options { mode, shortcut, other_end, ..Options::default() };
        AfXdp::open(p, options, &umem, pool).unwrap()
    });
    let exits = ports.each_ref().map(|p| p.exit().unwrap());
    for (port, exit) in ports.iter_mut().zip([exits[1], exits[0]]) {
        let max_frame_bytes = 1518;
        let way = Way { exit, max_frame_bytes, eth_dst: None, eth_src: None, counter: 0 };
        port.start(&Ways { by_mac: Vec::new(), rest: Some(way) }).unwrap();
    }
    ports.map(|p| Box::new(p) as Box<dyn Device>)
}

#[test]
fn tcp_through_a_shortcut() {
    if !ready("tcp_through_a_shortcut") {
        return;
    }
    for tagged in [false, true] {
        let seen = downloads(tagged, |pool| shortcut(OtherEnd::Set, pool));
        assert!(seen.frames < 100, "the kernel forwards: {seen:?}");
        assert_eq!(seen.counters[0].rx_errors + seen.counters[1].rx_errors, 0, "{seen:?}");
    }
}

/// Where the other end may not be set, super-frames are too long for the way, and are cut here.
#[test]
fn tcp_through_a_shortcut_with_super_frames() {
    if !ready("tcp_through_a_shortcut_with_super_frames") {
        return;
    }
    let seen = downloads(false, |pool| shortcut(OtherEnd::Leave, pool));
    assert!(seen.counters[1].segmented > 0 && seen.longest <= 1514, "{seen:?}");
    assert_eq!(seen.counters[1].rx_errors, 0, "{seen:?}");
}

#[test]
fn tcp_through_tap() {
    if !ready("tcp_through_tap") {
        return;
    }
    through_tap(false);
}

/// Host 2 is behind a TAP device that was moved to its namespace; the other port is on veth.
fn through_tap(tagged: bool) {
    let mut lab = Lab::new(&["h1", "h2", "w"]);
    lab.quiet("w");
    lab.veth(1);
    let dir = tempfile::tempdir().unwrap();
    let content = common::content(BYTES);
    std::fs::write(dir.path().join("file"), &content).unwrap();
    let forwarder = Forwarder::start(&lab, 4096, |pool| {
        let tap = Tap::open("weir0", Lifetime::Port, pool).unwrap();
        assert_eq!(tap.name(), "weir0");
        [Box::new(AfPacket::open("p1", pool).unwrap()), Box::new(tap)]
    });
    // The host takes the interface; the port stays with the descriptor.
    common::run(&format!("ip -n {} link set weir0 netns {}", lab.full("w"), lab.full("h2")));
    lab.run("h2", "ip link set weir0 name eth0");
    lab.run("h2", "ip link set eth0 up");
    for n in [1, 2] {
        if tagged {
            lab.tag(n, VID);
        }
        lab.address(n, "eth0", 9);
    }
    lab.serve(dir.path());
    for host in ["10.9.0.2", "[fd00:9::2]"] {
        lab.download(&format!("http://{host}:8000/file"), &content, dir.path());
    }
    let seen = forwarder.stop();
    assert!(seen.longest <= 1518, "{seen:?}");
    assert_eq!(seen.tagged > 0, tagged);
    assert!(seen.frames as usize > 2 * BYTES / 1448);
    assert_eq!(seen.counters[1].rx_errors, 0);
}

#[test]
fn tcp_in_a_vlan_through_tap() {
    if !ready("tcp_in_a_vlan_through_tap") {
        return;
    }
    through_tap(true);
}
