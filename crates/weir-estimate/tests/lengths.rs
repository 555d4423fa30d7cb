//! Functions that make frames longer or shorter: links carry what comes in and what leaves.

mod support;

use std::collections::BTreeMap;
use support::{ask, library, profile};
use weir_estimate::estimate::{Limit, Mode};
use weir_estimate::place::{Answer, Request, place};
use weir_estimate::{Estimate, Question};

fn of(function: &str, frame: u32) -> Estimate {
    let library = library();
    let profile = profile(&library, "xeon-e5-2690v2");
    let question = Question { frame, cores: 20, ..Question::default() };
    ask(&library, function, &profile, &question)
}

fn line(e: &Estimate) -> &Limit {
    e.limits.iter().find(|l| l.name == "line rate").expect("cards")
}

#[test]
fn the_longer_side_binds() {
    let rate = |bytes: f64| 20e9 / ((bytes + 20.0) * 8.0) / 1e6;
    let near = |e: &Estimate, bytes: f64| {
        let l = line(e);
        assert!((l.mpps - rate(bytes)).abs() < 1e-9, "{l:?}");
    };
    let e = of("vxlan-encap", 64);
    assert_eq!(e.lengths.leaves, 110.0);
    near(&e, 110.0);
    assert!(line(&e).about.ends_with("as frames leave: 110 bytes each"), "{e:?}");
    let e = of("vxlan-decap", 174);
    assert_eq!(e.lengths.leaves, 128.0);
    near(&e, 174.0);
    assert!(line(&e).about.ends_with("as frames come in"), "{e:?}");
    assert!(e.notes.is_empty(), "{:?}", e.notes);
    // Half of them grow by 46 bytes, half shrink by as many.
    near(&of("vxlan-gateway", 200), 200.0);
    let e = of("bng-access", 100);
    assert_eq!(e.lengths.leaves, 128.0);
    near(&e, 128.0);
    // Nothing changes, and nothing is said of it.
    let e = of("l2-basic", 64);
    assert_eq!(line(&e).about, "20 Gbit/s / 672 bits on the wire");
    // What leaves is never shorter than Ethernet allows.
    assert_eq!(of("vxlan-decap", 80).lengths.leaves, 64.0);
}

#[test]
fn frames_too_short_for_what_is_taken_off_are_told() {
    let e = of("vxlan-decap", 64);
    assert!(
        e.notes.iter().any(|n| n.contains("takes 50 bytes off a frame, and one of 64")),
        "{e:?}"
    );
    assert!(of("vxlan-gateway", 64).notes.iter().any(|n| n.contains("vxlan-gateway takes 50")));
    assert_eq!(of("vxlan-decap", 68).notes, Vec::<String>::new());
    assert_eq!(of("vxlan-encap", 64).notes, Vec::<String>::new());
}

/// The paper knows one length.
#[test]
fn papers_figures_are_as_they_were() {
    let library = library();
    let profile = profile(&library, "xeon-e5-2690v2");
    let question = Question { mode: Mode::Paper, ..Question::default() };
    let e = ask(&library, "bng-access", &profile, &question);
    assert_eq!(e.lengths.leaves, 64.0);
    assert!(e.limits.iter().all(|l| l.name != "line rate"));
}

#[test]
fn placement_counts_both_directions() {
    let library = library();
    let profiles =
        BTreeMap::from([("xeon-e5-2690v2".to_owned(), profile(&library, "xeon-e5-2690v2"))]);
    let ask = |functions: &[(&str, f64, u32)]| {
        let mut text = "[[host]]\nname = \"h\"\nprofile = \"xeon-e5-2690v2\"\n".to_owned();
        for (i, (function, mpps, frame)) in functions.iter().enumerate() {
            text += &format!(
                "[[function]]\nname = \"f{i}\"\nfunction = \"{function}\"\nrate = \"{mpps} Mpps\"\nframe = {frame}\n"
            );
        }
        let request = Request::read("r.toml", &text).expect("a request");
        place(&library, &profiles, &request).expect("an answer")
    };
    // 25 Mpps of 64 bytes come in, and 26 Gbit/s would leave.
    let Answer::Infeasible(r) = ask(&[("vxlan-encap", 25.0, 64)]) else { panic!("placed") };
    assert!(r.constraint.starts_with("links out: 'f0' takes 26.00 Gbit/s"), "{r:?}");
    // The one takes what the other leaves.
    let Answer::Placed(plan) = ask(&[("vxlan-encap", 5.0, 200), ("vxlan-decap", 5.0, 246)]) else {
        panic!("refused");
    };
    let host = &plan.hosts[0];
    let both = 5e6 * (220.0 + 266.0) * 8.0 / 1e9;
    assert!((host.used[1] - both).abs() < 1e-9 && (host.used[2] - both).abs() < 1e-9, "{host:?}");
}

/// Nothing counts the bytes of frames where no card is known; a chunk holds so many of a VDP's.
#[test]
fn frames_that_nothing_carries_are_told() {
    let library = library();
    let asked = |machine: &str, frame, through: Option<&str>| {
        let question = Question { frame, through: through.map(Into::into), ..Question::default() };
        ask(&library, "ipv4-router", &profile(&library, machine), &question).notes
    };
    let told = |frame, through, what: &str| {
        asked("virtual-epyc", frame, through).iter().any(|n| n.contains(what))
    };
    let links = "links are no limit without [[nic]]";
    assert!(told(65535, None, links) && told(9000, None, links));
    assert!(!told(64, None, links) && !told(1518, None, links));
    assert!(!asked("xeon-e5-2690v2", 9000, None).iter().any(|n| n.contains(links)));
    let vdp = Some("vdp-program");
    assert!(told(9000, vdp, "frames of 9000 bytes don't go over AF_XDP, whose longest have 3836"));
    assert!(told(65535, vdp, "no VDP carries frames of 65535 bytes: the longest have 32508"));
    assert!(!told(3836, vdp, "AF_XDP") && told(3837, vdp, "AF_XDP") && !told(9000, None, "VDP"));
}
