//! Seeded leaks: an isolated plane, and each way in which a change can break it, told for what it is.

use crate::planes::{DATA, IN_PORT, TAG, layout, maps};
use std::collections::BTreeMap;
use weir_supervisor::verify::{
    Act, By, Controller, Edit, Group, Leak, Match, Plane, Port, Program, Reaches, Rule, Share,
    Sure, Table, To, Vdp, Verifier, WORK,
};

const RED: usize = 0;
const BLUE: usize = 1;
const TRUNK: usize = 2;

fn set_tag(v: u64) -> Act {
    Act::Edit(Edit::Set(Box::new(TAG.is(v))))
}

fn rule(matcher: Match, priority: u32, acts: Vec<Act>) -> Rule {
    Rule { matcher, priority, acts: acts.into() }
}

/// Red has port 1 and tag 1 of port 3, blue port 2 and tag 2 of port 3. Both carry their frames
/// between their port and the trunk, tagging them on the way.
fn isolated() -> Plane {
    let vdp = |network: usize| {
        let tag = network as u64 + 1;
        let out = rule(IN_PORT.is(1), 1, vec![set_tag(tag), Act::Output(To::Port(TRUNK))]);
        let back = rule(IN_PORT.is(2), 1, vec![set_tag(0), Act::Output(To::Port(network))]);
        Vdp {
            name: format!("v{network}"),
            network,
            ports: vec![(1, network), (2, TRUNK)],
            tables: vec![Table::new(vec![out, back])],
            default: Vec::new(),
            alone: Vec::new(),
            program: Program::Nothing,
            controllers: vec![network],
            groups: BTreeMap::new(),
        }
    };
    let both = |port: u64, tag: u64| IN_PORT.is(port).and(&TAG.is(tag)).expect("two fields");
    Plane {
        layout: layout(false),
        networks: vec!["red".into(), "blue".into(), "default".into()],
        ports: (1..=3).map(|n| Port { name: format!("p{n}"), number: n }).collect(),
        controllers: [RED, BLUE]
            .map(|n| Controller { name: format!("c{n}"), networks: vec![n] })
            .into(),
        vdps: vec![vdp(RED), vdp(BLUE)],
        mapping: vec![
            maps(RED, IN_PORT.is(1), 1),
            maps(RED, both(3, 1), 1),
            maps(BLUE, IN_PORT.is(2), 1),
            maps(BLUE, both(3, 2), 1),
        ],
        rest: None,
        shares: None,
    }
}

/// The leaks of the isolated plane after a change.
fn after(change: impl FnOnce(&mut Plane)) -> Vec<Leak> {
    let mut p = isolated();
    change(&mut p);
    let report = Verifier::new(p, WORK).report(100);
    assert!(report.undecided.is_empty());
    report.leaks
}

fn put(p: &mut Plane, vdp: usize, r: Rule) {
    p.vdps[vdp].tables[0].put(r);
}

#[test]
fn the_plane_is_isolated() {
    assert_eq!(after(|_| {}), Vec::new());
}

#[test]
fn an_output_to_anothers_port() {
    let leaks = after(|p| {
        p.vdps[RED].ports.push((3, 1));
        put(p, RED, rule(DATA.is(3), 9, vec![Act::Output(To::Port(1))]));
    });
    // The port is blue's by its mapping rule, whoever else has it.
    assert!(leaks.iter().any(|l| {
        l.from == RED
            && l.to == Some(BLUE)
            && l.reaches == Reaches::Port(1)
            && l.by == By::Rule(0, 0)
    }));
}

#[test]
fn a_tag_rewritten_to_anothers() {
    let leaks = after(|p| {
        let acts = vec![set_tag(2), Act::Output(To::Port(TRUNK))];
        put(p, RED, rule(IN_PORT.is(1).and(&DATA.is(3)).expect("two fields"), 9, acts));
    });
    let [l] = leaks.as_slice() else { panic!("{leaks:?}") };
    assert_eq!((l.from, l.to, l.reaches), (RED, Some(BLUE), Reaches::Port(TRUNK)));
    let leaves = l.leaves.expect("it leaves");
    assert!(TAG.is(2).covers(&leaves) && DATA.is(3).covers(&leaves), "{leaves:?}");
    assert!(DATA.is(3).covers(&l.frames) && l.in_port == RED, "{l:?}");
}

#[test]
fn a_tag_taken_off_on_a_shared_port_is_nobodys() {
    let leaks = after(|p| {
        put(p, RED, rule(IN_PORT.is(1), 9, vec![set_tag(0), Act::Output(To::Port(TRUNK))]));
    });
    let [l] = leaks.as_slice() else { panic!("{leaks:?}") };
    assert_eq!((l.from, l.to, l.reaches), (RED, None, Reaches::Port(TRUNK)));
}

#[test]
fn a_leaking_rule_that_no_frame_gets_to_is_none() {
    let leaks = after(|p| {
        let any = IN_PORT.is(1);
        put(p, RED, rule(any, 9, vec![set_tag(1), Act::Output(To::Port(TRUNK))]));
        put(p, RED, rule(any, 8, vec![set_tag(2), Act::Output(To::Port(TRUNK))]));
        // Nor is one that only frames of another port would match.
        let three = IN_PORT.is(3);
        put(p, RED, rule(three, 9, vec![set_tag(2), Act::Output(To::Port(TRUNK))]));
    });
    assert_eq!(leaks, Vec::new());
}

#[test]
fn a_group_of_anothers() {
    let leaks = after(|p| {
        p.vdps[RED].groups.insert(1, Group { network: BLUE, buckets: Vec::new() });
        put(p, RED, rule(DATA.is(1), 9, vec![Act::Group(1)]));
    });
    let [l] = leaks.as_slice() else { panic!("{leaks:?}") };
    assert_eq!((l.from, l.to, l.reaches), (RED, Some(BLUE), Reaches::Group(1)));
}

#[test]
fn a_bucket_that_leaves() {
    let leaks = after(|p| {
        let buckets = vec![vec![set_tag(2), Act::Output(To::Port(TRUNK))].into()];
        p.vdps[RED].groups.insert(1, Group { network: RED, buckets });
        put(p, RED, rule(IN_PORT.is(1), 9, vec![Act::Group(1)]));
    });
    let [l] = leaks.as_slice() else { panic!("{leaks:?}") };
    assert_eq!((l.to, l.reaches), (Some(BLUE), Reaches::Port(TRUNK)));
}

#[test]
fn a_mapping_rule_on_anothers_port() {
    let leaks =
        after(|p| p.mapping.push(maps(RED, IN_PORT.is(2).and(&DATA.is(3)).expect("two"), 2)));
    assert!(leaks.iter().any(|l| {
        l.from == BLUE && l.to == Some(RED) && l.reaches == Reaches::Rules && l.in_port == 1
    }));
    // Below blue's own it takes nothing.
    let below = after(|p| p.mapping.push(maps(RED, IN_PORT.is(2), 0)));
    assert_eq!(below, Vec::new());
}

#[test]
fn mapping_rules_that_chance_decides_between() {
    let mut rules = Vec::new();
    let leaks = after(|p| {
        p.mapping.push(maps(RED, IN_PORT.is(3).and(&DATA.is(0)).expect("two"), 1));
        rules.clone_from(&p.mapping);
    });
    let claimed: Vec<_> = leaks.iter().filter(|l| l.reaches == Reaches::Claimed).collect();
    assert!(!claimed.is_empty(), "{leaks:?}");
    for l in claimed {
        // The rule that is named is of the VDP that is named.
        let By::Mapping(at) = l.by else { panic!("{l:?}") };
        assert_eq!(rules[at].vdp, l.vdp, "{l:?}");
    }
}

#[test]
fn frames_out_of_anothers_declared_share() {
    let leaks = after(|p| {
        let share = |network, port, tag| Share {
            network,
            matcher: IN_PORT.is(port).and(&TAG.is(tag)).expect("two fields"),
            priority: 0,
        };
        p.shares = Some(vec![share(RED, 3, 1), share(BLUE, 3, 2), share(BLUE, 3, 3)]);
        p.mapping.push(maps(RED, IN_PORT.is(3).and(&TAG.is(3)).expect("two fields"), 1));
    });
    assert!(leaks.iter().any(|l| l.reaches == Reaches::Rules && l.from == BLUE), "{leaks:?}");
}

#[test]
fn a_controller_of_anothers() {
    let leaks = after(|p| {
        p.vdps[RED].controllers.push(BLUE);
        p.vdps[RED].default = vec![Act::Controller];
        p.vdps[RED].tables[0].remove(&IN_PORT.is(2), 1);
    });
    let [l] = leaks.as_slice() else { panic!("{leaks:?}") };
    assert_eq!((l.to, l.reaches, l.by), (Some(BLUE), Reaches::Controller(BLUE), By::Default));
}

#[test]
fn a_default_vdp_that_takes_the_rest() {
    let rest = |default: Vec<Act>| {
        after(|p| {
            p.mapping.remove(0);
            p.vdps.push(Vdp {
                name: "default".into(),
                network: 2,
                ports: Vec::new(),
                tables: Vec::new(),
                default,
                alone: Vec::new(),
                program: Program::Nothing,
                controllers: Vec::new(),
                groups: BTreeMap::new(),
            });
            p.rest = Some(2);
        })
    };
    assert_eq!(rest(Vec::new()), Vec::new());
    let leaks = rest(vec![Act::Output(To::InPort)]);
    let taken = |l: &Leak| l.reaches == Reaches::Rules && (l.from, l.to) == (RED, Some(2));
    assert!(leaks.iter().any(taken), "{leaks:?}");
    assert!(leaks.iter().any(|l| l.reaches == Reaches::Port(RED) && l.from == 2), "{leaks:?}");
}

#[test]
fn a_program_that_may_send_anything() {
    let leaks = after(|p| p.vdps[RED].program = Program::Anything);
    let [l] = leaks.as_slice() else { panic!("{leaks:?}") };
    assert_eq!((l.reaches, l.by), (Reaches::Port(TRUNK), By::Program));
}

#[test]
fn work_is_bounded_and_its_end_is_told() {
    let mut p = isolated();
    // Untagged frames on the trunk would be found only by looking.
    p.vdps[RED].tables[0].put(rule(IN_PORT.is(1), 9, vec![Act::Output(To::Port(TRUNK))]));
    let report = Verifier::new(p, 3).report(10);
    assert!(!report.isolated());
    assert!(report.undecided.contains(&RED), "{report:?}");
}

#[test]
fn what_is_done_while_controllers_are_away() {
    // By its rules red leaks nothing; alone it passes on what it gets as it was.
    let leaks = after(|p| {
        p.vdps[RED].program = Program::Passes;
        p.vdps[RED].alone = vec![Act::Program];
    });
    let [l] = leaks.as_slice() else { panic!("{leaks:?}") };
    assert_eq!((l.from, l.reaches, l.by), (RED, Reaches::Port(TRUNK), By::Alone));
    assert_eq!(l.sure, Sure::May);
    // Rules that drop everything keep nothing from it.
    let leaks = after(|p| {
        p.vdps[RED].program = Program::Passes;
        p.vdps[RED].alone = vec![Act::Program];
        put(p, RED, rule(Match::any(), 9, Vec::new()));
    });
    assert!(leaks.iter().any(|l| l.by == By::Alone), "{leaks:?}");
    // Nor is it nobody's for want of rules.
    let leaks = after(|p| {
        p.vdps[RED].tables.clear();
        p.vdps[RED].alone = vec![Act::Output(To::Port(TRUNK))];
    });
    assert!(leaks.iter().any(|l| l.by == By::Alone && l.in_port == RED), "{leaks:?}");
    // At ports of its own alone it harms nobody.
    let leaks = after(|p| {
        p.vdps[RED].program = Program::Passes;
        p.vdps[RED].alone = vec![Act::Program];
        p.vdps[RED].ports = vec![(1, RED)];
        p.vdps[RED].tables.clear();
        p.mapping.remove(1);
    });
    assert_eq!(leaks, Vec::new());
}
