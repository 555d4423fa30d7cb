//! Small running data planes and what is said of them, and of what they would be after changes.

use super::*;
use crate::config::plan::Plan;
use crate::config::{apply::scratch, read};
use crate::router::node::Routers;
use std::collections::BTreeSet;
use weir_dataplane::flowtext::{NoNames, parse_flow};
use weir_dataplane::{Placement, RuleSpec, Runner, Serving, Vid, WhenIdle};

const PORTS: &str = "[dataplane]\nframes = 512\n\
    [[port]]\nname = 'a'\ndevice = 'null'\n[[port]]\nname = 'b'\ndevice = 'null'\n\
    [[port]]\nname = 't'\ndevice = 'null'\n";

/// Two networks that share port t by VLAN, each with more to its section.
fn two(red: &str, blue: &str) -> String {
    format!(
        "{PORTS}[[vdp]]\nvid = 1\nname = 'red'\nports = ['a', 't']\n\
         mapping = ['in_port=a', 'in_port=t,dl_vlan=1']\n{red}\n\
         [[vdp]]\nvid = 2\nname = 'blue'\nports = ['b', 't']\n\
         mapping = ['in_port=b', 'in_port=t,dl_vlan=2']\n{blue}\n"
    )
}

fn plan(text: &str) -> Plan {
    read::from_text(text, "t").unwrap()
}

/// Does something with a data plane of this configuration, in which VDPs have these flows more.
fn running<T>(text: &str, flows: &[(u16, &str)], f: impl FnOnce(&Live) -> T) -> T {
    let (mut plane, model) = scratch(&plan(text)).unwrap();
    for (vid, flow) in flows {
        let f = parse_flow(flow, &NoNames).unwrap();
        let (priority, actions) = (f.priority.into(), f.actions.into());
        let rule = RuleSpec { matcher: f.matcher, priority, cookie: 0, actions };
        plane.add_rule(Vid(*vid), f.table, &rule, Placement::Fast).unwrap();
    }
    let runner = Runner::start(plane, Serving::Worker, WhenIdle::Rest).unwrap();
    let live = Live::new(runner.handle(), model, Routers::none()).unwrap();
    let out = f(&live);
    drop(live);
    runner.stop().unwrap();
    out
}

fn proof(text: &str, flows: &[(u16, &str)]) -> (Vec<LeakItem>, VerifiedItem) {
    running(text, flows, |live| verify(live, &[], 20, None).unwrap())
}

/// What is said of a change from one configuration to another, VDPs with these numbers put.
fn change(
    from: &str,
    flows: &[(u16, &str)],
    to: &str,
    put: &[u16],
) -> (Vec<LeakItem>, VerifiedItem) {
    let after = Ahead {
        before: plan(from),
        plan: plan(to),
        anew: BTreeSet::new(),
        put: put.iter().copied().collect(),
        routers: BTreeSet::new(),
    };
    running(from, flows, |live| verify(live, &[], 20, Some(&after)).unwrap())
}

fn openflow(more: &str) -> String {
    format!("openflow = {{ {more} }}")
}

const TAGS_FOR_BLUE: &str = "priority=9,in_port=1,actions=mod_vlan_vid:2,output:2";

#[test]
fn a_switch_that_stands_alone_is_reckoned_with_while_its_controller_is_there() {
    let by = |leaks: &[LeakItem]| leaks.iter().map(|l| l.by.clone()).collect::<Vec<_>>();
    let mode = |controllers: &str, mode: &str| {
        let red = openflow(&format!("controllers = [{controllers}], fail_mode = '{mode}'"));
        two(&red, "")
    };
    let there = "'tcp:192.0.2.1:6653'";
    let (leaks, done) = proof(&mode(there, "secure"), &[]);
    assert!(done.isolated, "{leaks:?}");
    // Whatever flows say: what they drop is passed on, too.
    let drops = (1, "priority=9,actions=drop");
    for flows in [&[][..], &[drops][..]] {
        let (leaks, done) = proof(&mode(there, "standalone"), flows);
        let alone = |l: &LeakItem| l.by.contains("fail_mode = \"standalone\"") && l.may();
        assert!(!done.isolated && leaks.iter().any(alone), "{leaks:?}");
    }
    // Nobody to wait for: flows act, and what none takes is passed on.
    let (leaks, _) = proof(&mode("", "standalone"), &[]);
    assert_eq!(by(&leaks), ["default rule"], "{leaks:?}");
    let (_, done) = proof(&mode("", "standalone"), &[drops]);
    assert!(done.isolated);
    // So it is before such a switch is there.
    let (leaks, done) = change(&two("", ""), &[], &mode(there, "standalone"), &[1]);
    assert!(!done.isolated && done.added.is_some_and(|a| a.leaks == 1), "{leaks:?}");
    // While it stands alone its flows count as well: they come back.
    let above = (1, "priority=65535,actions=drop");
    let alone = |live: &Live| {
        let actions = [weir_dataplane::Action::Output(weir_dataplane::Out::Normal)].into();
        let (matcher, priority) = (weir_classify::Match::any(), 1 << 16);
        let rule = RuleSpec { matcher, priority, cookie: 0, actions };
        live.with(move |p, _| p.add_rule(Vid(1), 0, &rule, Placement::Fast).map(drop)).unwrap()
    };
    let leaks = running(&mode(there, "standalone"), &[(1, TAGS_FOR_BLUE)], |live| {
        alone(live).unwrap();
        verify(live, &[], 20, None).unwrap().0
    });
    assert!(leaks.iter().any(|l| l.by.contains("4098->vlan_vid")), "{leaks:?}");
    let leaks = running(&mode(there, "secure"), &[above], |live| verify(live, &[], 20, None));
    assert!(leaks.unwrap().1.isolated);
}

#[test]
fn who_is_cut_off_reaches_nobody() {
    let leaking = [(1, TAGS_FOR_BLUE)];
    assert!(!proof(&two("", ""), &leaking).1.isolated);
    let (leaks, done) = proof(&two("isolated = true", ""), &leaking);
    assert!(done.isolated, "{leaks:?}");
    let (leaks, done) = change(&two("", ""), &leaking, &two("isolated = true", ""), &[1]);
    assert!(done.isolated && done.added == Some(Added::default()), "{leaks:?}");
    // Who is let in again is proved again.
    let (_, done) = change(&two("isolated = true", ""), &leaking, &two("", ""), &[1]);
    assert!(done.added.is_some_and(|a| a.leaks == 1));
}

#[test]
fn two_tags_are_decided() {
    let flows = |out: u16| {
        let tags = format!(
            "priority=8,in_port=1,actions=push_vlan:0x8100,set_field:4103->vlan_vid,push_vlan:0x88a8,\
             set_field:{}->vlan_vid,output:2",
            4096 + out
        );
        let outer = "priority=8,in_port=2,dl_vlan=1,actions=strip_vlan,goto_table:1".to_owned();
        let inner = format!(
            "table=1,priority=8,dl_vlan=7,actions=strip_vlan,push_vlan:0x8100,\
             set_field:{}->vlan_vid,output:in_port",
            4096 + out
        );
        let third = format!(
            "table=1,priority=9,dl_vlan=8,actions=strip_vlan,goto_table:2\n\
             table=2,dl_vlan=9,actions=strip_vlan,mod_vlan_vid:{out},output:in_port"
        );
        let third: Vec<String> = third.lines().map(str::to_owned).collect();
        [vec![tags, outer, inner], third].concat()
    };
    for (out, isolated) in [(1, true), (2, false)] {
        let flows = flows(out);
        let flows: Vec<(u16, &str)> = flows.iter().map(|f| (1, f.as_str())).collect();
        let (leaks, done) = proof(&two("", ""), &flows);
        assert_eq!((done.isolated, &done.undecided[..]), (isolated, &[][..]), "{leaks:?}");
    }
}

#[test]
fn one_controller_by_two_addresses_is_one() {
    let to = |at: &str| {
        let more = openflow(&format!("controllers = ['{at}']"));
        format!("{more}\nrule = [{{ actions = 'controller' }}]")
    };
    for (a, b) in [
        ("tcp:localhost:6653", "tcp:127.0.0.1:6653"),
        ("tcp:[::1]", "tcp:localhost"),
        ("tcp:[2001:db8::7]", "tcp:[2001:db8:0:0::7]:6653"),
    ] {
        let (leaks, _) = proof(&two(&to(a), &to(b)), &[]);
        assert_eq!(leaks.len(), 2, "{a} {b}");
        let told = &leaks[0].reaches;
        assert!(told.contains(a) && told.contains(" = "), "{told}");
    }
    let (leaks, done) = proof(&two(&to("tcp:192.0.2.1"), &to("tcp:192.0.2.2")), &[]);
    assert!(done.isolated && !done.notes.iter().any(|n| n.contains("looked up")), "{leaks:?}");
    // Of a name it is said that nobody knows.
    let (_, done) = proof(&two(&to("tcp:ctl.example.org"), &to("tcp:192.0.2.2")), &[]);
    let open = |n: &String| n.contains("tcp:ctl.example.org:6653") && n.contains("not looked up");
    assert!(done.isolated && done.notes.iter().any(open), "{:?}", done.notes);
    let (_, done) = proof(&two(&to("tcp:ctl.example.org"), ""), &[]);
    assert!(!done.notes.iter().any(|n| n.contains("looked up")), "{:?}", done.notes);
}

#[test]
fn a_drop_leaves_the_action_set_here_as_there() {
    let writes = (1, "priority=9,in_port=1,actions=write_actions(output:2),goto_table:1");
    for (second, isolated) in
        [("drop", false), ("clear_actions", true), ("clear_actions,goto_table:2", true)]
    {
        let flow = format!("table=1,priority=1,actions={second}");
        let (leaks, done) = proof(&two("", ""), &[writes, (1, &flow)]);
        assert_eq!(done.isolated, isolated, "{second}: {leaks:?}");
        // And so the running data plane says of the frame.
        assert!(leaks.iter().all(|l| l.traced == Some(true)), "{second}: {leaks:?}");
    }
}

#[test]
fn what_was_so_before_a_change_is_not_of_it() {
    let leaking = [(1, TAGS_FOR_BLUE)];
    let from = two("", "");
    // Blue's change has nothing to do with what red's flow does.
    let to = two("", "rule = [{ match = 'in_port=b', actions = 'drop' }]");
    let (leaks, done) = change(&from, &leaking, &to, &[2]);
    assert_eq!(done.added, Some(Added::default()));
    assert!(!done.isolated && leaks.len() == 1 && leaks[0].there_before, "{leaks:?}");
    // One that leaks by itself is told first.
    let to = two("", "rule = [{ match = 'in_port=b', actions = 'mod_vlan_vid:1,output:t' }]");
    let (leaks, done) = change(&from, &leaking, &to, &[2]);
    assert_eq!(done.added, Some(Added { leaks: 1, undecided: Vec::new() }));
    let told: Vec<_> = leaks.iter().map(|l| (l.from.as_str(), l.there_before)).collect();
    assert_eq!(told, [("blue", false), ("red", true)]);
    // Whoever comes to share the port, or leaves it, does not answer for red's flow.
    let third = format!(
        "{from}[[vdp]]\nvid = 3\nname = 'green'\nports = ['t']\n\
         mapping = [{{ match = 'in_port=t,dl_vlan=2', priority = 40000 }}]\n"
    );
    let green = third.replacen("dl_vlan=2', priority", "dl_vlan=3', priority", 1);
    let any = [(1, "priority=9,in_port=1,actions=output:2")];
    for (from, to) in [(&from, &green), (&green, &from)] {
        let (leaks, done) = change(from, &any, to, &[3]);
        assert_eq!(done.added, Some(Added::default()), "{leaks:?}");
        assert!(!done.isolated);
    }
    // What was not decided is let alone, but for who puts rules there.
    let before = Before { leaks: BTreeSet::new(), undecided: [(1, "red".to_owned())].into() };
    let put = |vid: u16| Ahead {
        before: plan(&from),
        plan: plan(&from),
        anew: BTreeSet::new(),
        put: [vid].into(),
        routers: BTreeSet::new(),
    };
    assert!(before.leaves(&put(2), &(1, "red".to_owned())));
    assert!(!before.leaves(&put(1), &(1, "red".to_owned())));
    assert!(!before.leaves(&put(1), &(2, "blue".to_owned())));
}

#[test]
fn who_is_nobodys_is_not_counted_nor_noted() {
    let one = openflow("controllers = ['tcp:192.0.2.1']");
    let (_, done) = proof(&two(&one, ""), &[]);
    assert_eq!((done.networks, done.vdps), (2, 2));
    let notes = |d: &VerifiedItem| d.notes.iter().filter(|n| n.contains("packet-outs")).count();
    assert!(notes(&done) == 1 && done.notes[0].contains("by port t,"), "{:?}", done.notes);
    // Alone at its ports.
    let alone = format!(
        "{PORTS}[[vdp]]\nvid = 1\nname = 'red'\nports = ['a']\nmapping = ['in_port=a']\n{one}\n"
    );
    let (_, done) = proof(&alone, &[]);
    assert_eq!((done.networks, done.vdps, notes(&done)), (1, 1, 0), "{:?}", done.notes);
    // With a program the default VDP is a network as any other.
    let (_, done) = proof(&format!("{alone}[[vdp]]\nvid = 0\nprogram = 'learning'\n"), &[]);
    assert_eq!((done.networks, done.vdps), (2, 2));
}
