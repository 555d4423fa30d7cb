//! Connections of `weir run` to controllers: who comes, who goes, who misbehaves, and that nobody else
//! notices.

mod openflow_rig;
mod run_daemon;

use openflow_rig::{Peer, config, flow, listening, patient, switch};
use run_daemon::Daemon;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weir_openflow::model::{Message, Version};

/// A listener for a switch to come to.
fn controller() -> (TcpListener, String) {
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = l.local_addr().unwrap().to_string();
    (l, at)
}

#[test]
fn a_barrier_after_a_thousand_flow_mods_comes_when_all_are_there() {
    let d = Daemon::start(&config("listen = ['ptcp:0']"), &[]);
    let mut p = Peer::to(&listening(&d));
    assert_eq!(p.version(), Version::V13);
    for n in 0..1000 {
        p.send(flow(n, 2));
    }
    assert_eq!(p.barrier().unwrap(), []);
    assert_eq!(p.flows(), 1000);
    assert_eq!(switch(&d)["flows"], 1000);
    // The data plane has them, too.
    let rules = d.ask(&["show", "--vdp", "1", "--rules"]);
    assert_eq!(rules.matches("dl_dst=").count(), 1000);
    d.stop();
}

#[test]
fn a_switch_comes_back_to_its_controller() {
    let (l, at) = controller();
    let mut d = Daemon::start(&config(&format!("controllers = ['tcp:{at}']")), &[]);
    let mut p = Peer::accept(&l);
    d.wait_for(&format!("VDP 1 (red): controller tcp:{at}: connected: OpenFlow 1.3"));
    assert!(matches!(p.ask(Message::FeaturesRequest).unwrap().0, Message::FeaturesReply(_)));
    let mut other = flow(1, 2);
    if let Message::FlowMod(m) = &mut other {
        m.cookie = 77;
    }
    p.send(other);
    p.barrier().unwrap();
    let seen = switch(&d)["controllers"][0].clone();
    assert_eq!(seen["connections"][0]["version"], "1.3");
    assert_eq!(seen["connections"][0]["role"], "equal");
    assert!(seen["connections"][0]["messages_in"].as_u64().unwrap() >= 3, "{seen}");
    drop(p);
    d.wait_for("disconnected: the peer has closed it");
    let mut p = Peer::accept(&l);
    // Fail-secure: its flows are still there.
    assert_eq!(p.flows(), 1);
    assert_eq!(switch(&d)["controllers"][0]["connected"], 2);
    // Now nobody is there to come back to.
    drop((p, l));
    d.until("an attempt fails", |d| {
        let c = &switch(d)["controllers"][0];
        c["attempts"].as_u64() >= Some(1)
            && c["last_error"].as_str().is_some_and(|e| e.contains("can't connect"))
    });
    d.stop();
}

#[test]
fn a_reload_adds_and_removes_controllers_and_leaves_the_others() {
    let (one, at_one) = controller();
    let (two, at_two) = controller();
    let mut d = Daemon::start(&config(&format!("controllers = ['tcp:{at_one}']")), &[]);
    let mut first = Peer::accept(&one);
    first.barrier().unwrap();
    let both = config(&format!("controllers = ['tcp:{at_one}', 'tcp:{at_two}']"));
    assert!(d.reload(&both).contains("done"));
    let mut second = Peer::accept(&two);
    second.barrier().unwrap();
    first.barrier().unwrap();
    assert_eq!(switch(&d)["controllers"][0]["connected"], 1);
    let last = config(&format!("controllers = ['tcp:{at_two}']\nlisten = ['ptcp:0']"));
    assert!(d.reload(&last).contains("done"));
    assert_eq!(first.next().unwrap_err(), "closed");
    second.barrier().unwrap();
    let s = switch(&d);
    assert_eq!(s["controllers"].as_array().unwrap().len(), 1);
    assert_eq!(s["controllers"][0]["connected"], 1, "{s}");
    Peer::to(&listening(&d)).barrier().unwrap();
    // What a switch is can't be changed while it runs.
    let said = d.reload(&last.replace("[vdp.openflow]", "[vdp.openflow]\ntables = 3"));
    assert!(said.contains("nothing has changed"), "{said}");
    second.barrier().unwrap();
    d.stop();
}

#[test]
fn garbage_a_stall_and_a_flood_harm_only_themselves() {
    let d = Daemon::start(&config("listen = ['ptcp:0']\nlimits = { queue_bytes = 65536 }"), &[]);
    let at = listening(&d);
    let mut healthy = Peer::to(&at);
    for n in 0..200 {
        healthy.send(flow(n, 1));
    }
    healthy.barrier().unwrap();

    // One that is no OpenFlow at all: it is told so and hung up on.
    let mut web = TcpStream::connect(&at).unwrap();
    patient(&web);
    web.write_all(b"GET / HTTP/1.1\r\nHost: switch\r\n\r\n").unwrap();
    let mut told = Vec::new();
    let until = Instant::now() + Duration::from_secs(20);
    let mut buffer = [0; 4096];
    loop {
        match web.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => told.extend_from_slice(&buffer[..n]),
            Err(_) => assert!(Instant::now() < until, "it is still open"),
        }
    }
    assert_eq!(told[1], 0, "a hello first");
    assert!(told.windows(5).any(|w| w == b"hello"), "why it was refused: {told:02x?}");

    // One whose lengths lie once it is up.
    let mut liar = Peer::to(&at);
    liar.raw().write_all(&[4, 14, 0, 3, 0, 0, 0, 9]).unwrap();
    let first = liar.next().unwrap();
    assert!(matches!(first.body, Message::Error(_)), "{first:?}");
    assert!(liar.next().is_err());

    // One that says nothing, and one that asks for much and never reads.
    let silent = TcpStream::connect(&at).unwrap();
    let mut greedy = Peer::to(&at);
    greedy.raw().set_nonblocking(true).unwrap();
    let echo = [4, 2, 0, 8, 0, 0, 0, 1];
    let flood: Vec<u8> = echo.iter().copied().cycle().take(8 * 8192).collect();
    let until = Instant::now() + Duration::from_secs(5);
    let mut sent = 0_usize;
    let mut stuck = 0;
    while Instant::now() < until && stuck < 20 {
        match greedy.raw().write(&flood) {
            Ok(n) => {
                sent += n;
                stuck = 0;
            }
            Err(_) => {
                stuck += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let began = Instant::now();
        healthy.barrier().unwrap();
        assert!(began.elapsed() < Duration::from_secs(2), "the healthy one waits");
    }
    assert!(stuck >= 20, "it was read without end: {sent} bytes");
    let s = switch(&d);
    let all = s["listeners"][0]["connections"].as_array().unwrap();
    let most = all.iter().map(|c| c["waiting_bytes"].as_u64().unwrap()).max().unwrap();
    assert!((65536..200_000).contains(&most), "{s}");
    assert_eq!(healthy.flows(), 200);
    drop((silent, greedy));
    d.until("they are gone", |d| {
        switch(d)["listeners"][0]["connections"].as_array().unwrap().len() == 1
    });
    assert_eq!(healthy.flows(), 200);
    d.stop();
}

#[test]
fn what_cannot_be_listened_at_is_said_at_once() {
    let (_taken, at) = controller();
    let port = at.rsplit(':').next().unwrap();
    let mut d = Daemon::spawn(&config(&format!("listen = ['ptcp:{port}']")), &[]);
    let status = d.end();
    assert_eq!(status.code(), Some(1));
    let all = d.said.join("\n");
    assert!(all.contains(&format!("listener ptcp:{port}:127.0.0.1: can't listen")), "{all}");
}

#[test]
fn connections_beyond_the_limit_are_refused() {
    let d = Daemon::start(&config("listen = ['ptcp:0']\nlimits = { connections = 2 }"), &[]);
    let at = listening(&d);
    let mut first = Peer::to(&at);
    let mut second = Peer::to(&at);
    let third = TcpStream::connect(&at).unwrap();
    patient(&third);
    assert!(Peer::over(third).is_err());
    first.barrier().unwrap();
    second.barrier().unwrap();
    drop(second);
    d.until("there is room again", |d| {
        switch(d)["listeners"][0]["connections"].as_array().unwrap().len() == 1
    });
    Peer::to(&at).barrier().unwrap();
    assert_eq!(switch(&d)["listeners"][0]["refused"], 1);
    d.stop();
}
