//! The link of a port is its node's to know, wherever the node is processed and wherever the port is.

use super::*;
use weir_openflow::model::{PortState, StatsReply};

/// A tunnel's end that is up while there is another that probes it.
fn probed(local: &str, remote: &str) -> String {
    format!("vxlan:9,remote={remote},local={local},probe_ms=20,key=5")
}

/// Waits until a switch says of its second port that it is up, or down. Says whether it told so unasked.
fn is(c: &mut Peer<std::net::TcpStream>, link: LinkState) -> bool {
    let until = Instant::now() + crate::run_daemon::LIMIT;
    let mut told = false;
    while Instant::now() < until {
        let ask = Message::StatsRequest { more: Part::Last, body: StatsRequest::PortDesc };
        let (answer, others) = c.ask(ask).unwrap();
        let of = |p: &weir_openflow::model::PortDesc| match p.state.has(PortState::LINK_DOWN) {
            true => LinkState::Down,
            false => LinkState::Up,
        };
        told |= others.iter().any(
            |m| matches!(&m.body, Message::PortStatus(s) if s.desc.no == Port(2) && of(&s.desc) == link),
        );
        let Message::StatsReply { body: StatsReply::PortDesc(all), .. } = answer else {
            panic!("{answer:?}")
        };
        if all.iter().any(|p| p.no == Port(2) && of(p) == link) {
            return told;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("its port is never {link:?}");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Up,
    Down,
}

/// Both hosts, a port of one of them with an end at the other, and a controller.
fn plugged(at: usize) -> (World, [String; 2], TcpListener) {
    let w = world();
    let ends = w.ends.clone();
    let d = [&w.east, &w.west][at];
    d.ask(&["port", "add", "e9", &probed(&ends[at], &ends[1 - at])]);
    plug(&w, &ends, at);
    (w, ends, TcpListener::bind("127.0.0.1:0").unwrap())
}

fn plug(w: &World, ends: &[String; 2], at: usize) {
    [&w.west, &w.east][at].ask(&["port", "add", "x9", &probed(&ends[1 - at], &ends[at])]);
    [&w.east, &w.west][at].until("its link is up", |d| d.port("e9")["up"] == true);
}

fn pull(w: &World, at: usize) {
    [&w.west, &w.east][at].ask(&["port", "remove", "x9"]);
}

#[test]
fn a_switch_that_is_away_hears_of_links_at_home() {
    let (w, ends, listener) = plugged(0);
    let at = listener.local_addr().unwrap().to_string();
    w.s.apply(&SWITCH.replace("CONTROLLER", &at).replace("'e2'", "'e9'"));
    let mut c = Peer::accept(&listener);
    patient(c.raw());
    is(&mut c, LinkState::Up);
    w.moved("west");
    is(&mut c, LinkState::Up);
    pull(&w, 0);
    assert!(is(&mut c, LinkState::Down), "it is told");
    // It leaves with a port that is down, and comes back so.
    w.moved("east");
    is(&mut c, LinkState::Down);
    w.moved("west");
    is(&mut c, LinkState::Down);
    plug(&w, &ends, 0);
    assert!(is(&mut c, LinkState::Up), "it is told");
    // What its home says of the connection is so.
    let shown = w.at_east()["detail"]["openflow"]["controllers"][0].clone();
    let conn = &shown["connections"][0];
    assert_eq!((&conn["version"], &conn["role"]), (&"1.3".into(), &"unknown".into()), "{shown}");
    assert!(conn["by"].is_string() && conn["messages_in"].as_u64() > Some(9), "{shown}");
    let text = w.s.ask(&["net", "show", "red"]);
    assert!(text.contains("1 of 1"), "{text}");
    let text = w.east.ask(&["show", "--vdp", "red.s1"]);
    assert!(text.contains("OpenFlow 1.3, by way of 127.0.0.1:"), "{text}");
    assert!(!text.contains("connecting"), "{text}");
    let counted = |w: &World| {
        let c = &w.at_east()["detail"]["openflow"]["controllers"][0]["connections"][0];
        ["messages_in", "messages_out"].map(|k| c[k].as_u64().unwrap())
    };
    let before = counted(&w);
    (0..5).for_each(|_| done(&mut c));
    let after = counted(&w);
    assert!(after[0] >= before[0] + 5 && after[1] >= before[1] + 5, "{before:?} {after:?}");
    // One that comes meanwhile is seen, too, and what was counted stays.
    w.moved("east");
    let home = counted(&w);
    assert!(home[0] >= after[0] && home[1] >= after[1], "{after:?} {home:?}");
    w.moved("west");
    drop(c);
    let mut c = Peer::accept(&listener);
    patient(c.raw());
    done(&mut c);
    w.east.until("its connection is seen", |_| {
        let c = w.at_east()["detail"]["openflow"]["controllers"][0].clone();
        c["connections"][0]["version"] == "1.3" && c["connected"].as_u64() >= Some(2)
    });
    w.moved("east");
    done(&mut c);
    w.end();
}

#[test]
fn a_switch_hears_of_the_links_of_its_ports_on_other_hosts() {
    for fabric in ["{}", "{ probe_ms = 20 }"] {
        let (w, ends, listener) = plugged(1);
        let at = listener.local_addr().unwrap().to_string();
        let lab = SWITCH.replace("CONTROLLER", &at).replace("'e2'", "'west:e9'");
        let lab = format!("[[link]]\nbetween = ['east', 'west']\n{lab}fabric = {fabric}\n");
        w.s.apply(&lab);
        assert!(w.s.apply(&lab).contains("nothing differs"));
        let mut c = Peer::accept(&listener);
        patient(c.raw());
        is(&mut c, LinkState::Up);
        pull(&w, 1);
        assert!(is(&mut c, LinkState::Down), "it is told");
        plug(&w, &ends, 1);
        assert!(is(&mut c, LinkState::Up), "it is told");
        // A port that goes there is one that is down.
        w.west.ask(&["port", "remove", "e9"]);
        assert!(is(&mut c, LinkState::Down), "it is told");
        w.west.ask(&["port", "add", "e9", &probed(&ends[1], &ends[0])]);
        assert!(is(&mut c, LinkState::Up), "it is told");
        drop(listener);
        w.end();
    }
}
