//! Offloads and stamps of an interface while an instrument holds it, and afterwards; ethtool is the judge.
//! Needs root; skipped, visibly, without.

mod common;

use common::Lab;
use weir_io::features::Held;
use weir_io::stamped::{Offers, Stamping, Stamps, offers};
use weir_packet::DeviceError;

/// What ethtool says of features that can be set, by name.
fn features(lab: &Lab) -> Vec<(String, bool)> {
    let said = lab.run("w", "ethtool -k p1");
    let settable = said.lines().filter(|l| !l.contains("[fixed]"));
    let pairs = settable.filter_map(|l| l.trim().split_once(": "));
    pairs.map(|(name, state)| (name.to_owned(), state.starts_with("on"))).collect()
}

fn is_on(all: &[(String, bool)], name: &str) -> bool {
    all.iter().find(|f| f.0 == name).unwrap_or_else(|| panic!("{name} is not in {all:?}")).1
}

#[test]
fn offloads_are_off_while_held_and_as_before_afterwards() {
    const TEST: &str = "offloads_are_off_while_held_and_as_before_afterwards";
    if !common::can_have_namespaces(TEST) || !common::have(TEST, &["ethtool"]) {
        return;
    }
    let lab = Lab::new(&["h1", "w"]);
    lab.veth(1);
    // One is off already: it must stay so.
    lab.run("w", "ethtool -K p1 gro on tx-udp-segmentation off");
    let before = features(&lab);
    assert!(is_on(&before, "generic-receive-offload"));
    let held = lab.within("w", || Held::new("p1").unwrap()).join().unwrap();
    let during = features(&lab);
    for name in [
        "generic-receive-offload",
        "generic-segmentation-offload",
        "tcp-segmentation-offload",
        "rx-vlan-offload",
        "tx-vlan-offload",
    ] {
        assert!(!is_on(&during, name), "{name} is on");
    }
    let said = held.switched_off().unwrap();
    for word in ["GRO", "GSO", "TSO", "VLAN stripping"] {
        assert!(said.contains(word), "{said}");
    }
    assert_eq!(held.still_on(), None);
    // From a thread of another namespace.
    drop(held);
    assert_eq!(features(&lab), before);
    let none = lab.within("w", || Held::new("p9").map(drop)).join().unwrap();
    assert!(matches!(none, Err(DeviceError::NoInterface(_))), "{none:?}");
}

#[test]
fn a_veth_has_stamps_of_the_kernel() {
    if !common::can_have_namespaces("a_veth_has_stamps_of_the_kernel") {
        return;
    }
    let lab = Lab::new(&["h1", "w"]);
    lab.veth(1);
    let (said, held) =
        lab.within("w", || (offers("p1").unwrap(), Stamping::new("p1").unwrap())).join().unwrap();
    // Transmit, receive and the system's clock, all by software.
    let want = Offers { so_timestamping: 1 << 1 | 1 << 3 | 1 << 4, ..Offers::default() };
    assert_eq!((said, held.stamps(), held.note()), (want, Stamps::Software, None));
    if common::have("a_veth_has_stamps_of_the_kernel", &["ethtool"]) {
        assert!(lab.run("w", "ethtool -T p1").contains("PTP Hardware Clock: none"));
    }
}
