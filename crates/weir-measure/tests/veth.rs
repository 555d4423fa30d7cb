//! A trial over a real wire: AF_PACKET on both ends of a veth pair, in a network namespace that ends
//! with the process. Needs `unshare` (user namespaces, or root) and iproute2; no root.

use std::process::{Command, Output};
use std::time::Duration;
use weir_io::af_packet::AfPacket;
use weir_measure::Rate;
use weir_measure::clock::{Monotonic, Wait};
use weir_measure::generator::End;
use weir_measure::port::Port;
use weir_measure::probe::{Headers, Vary, streams};
use weir_measure::receiver::Drain;
use weir_measure::trial::{PortTrial, PortTrialSettings, Ports};
use weir_packet::{Device, Pool};

const WIRE: &str = "ip link add name left type veth peer name right \
    && ip link set left up && ip link set right up";

/// Runs a command of the shell in a namespace of its own.
fn apart(command: &str) -> std::io::Result<Output> {
    Command::new("unshare").args(["-rn", "sh", "-c", command]).output()
}

/// Runs `inside` in a namespace that has the wire.
#[test]
fn a_trial_over_veth() {
    if !apart("command -v ip").is_ok_and(|o| o.status.success()) {
        eprintln!("SKIPPED: a_trial_over_veth needs unshare, user namespaces and iproute2");
        return;
    }
    let me = std::env::current_exe().unwrap();
    let inside = format!("'{}' inside --exact --ignored --nocapture", me.display());
    let out = apart(&format!("{WIRE} && exec {inside}")).unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    let complained = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.contains("1 passed"), "{said}{complained}");
}

fn open(name: &str) -> Port {
    let pool = Pool::new(2_048, 2048).unwrap();
    let device: Box<dyn Device> = Box::new(AfPacket::open(name, &pool).unwrap());
    Port { device, pool }
}

#[test]
#[ignore = "run by a_trial_over_veth, in its namespace"]
fn inside() {
    let ms = Duration::from_millis;
    let settings = PortTrialSettings {
        drain: Drain { settle: ms(20), quiet: ms(500), at_most: ms(5_000) },
        ..PortTrialSettings::default()
    };
    let ports = Ports::Apart { sources: vec![open("left")], sinks: vec![open("right")] };
    let set = streams(Headers::default(), &[Vary::SrcMac, Vary::DstPort], 16, 512).unwrap();
    let mut trial = PortTrial::new(ports, set, Monotonic::new(Wait::Sleep), settings);
    for _ in 0..2 {
        let end = End::After { frames: 5_000, at_most: Duration::from_secs(20) };
        let load = trial.load(Rate::new(20_000.0).unwrap(), end);
        let t = trial.trial(&load).unwrap();
        let total = t.tally.total;
        assert_eq!(t.left(), 5_000);
        assert_eq!(total.received() + total.lost, 5_000);
        // A wire loses nothing; what is missing, the receiving port itself must own up to.
        assert!(
            total.lost <= t.received.missed,
            "{:?} missed {}",
            t.tally.total,
            t.received.missed
        );
        assert_eq!((total.duplicated, total.reordered, total.too_old), (0, 0, 0));
        assert_eq!((t.tally.corrupted, t.tally.other_runs), (0, 0));
        assert_eq!(t.received.latency.count(), total.received(), "every probe has its delay");
        assert_eq!(t.received.from_the_future, 0, "one clock stamps and reads");
        assert!(t.sent.cpu > Duration::ZERO && t.received.cpu > Duration::ZERO);
    }
}
