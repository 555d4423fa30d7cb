//! Connections of `weir run` to controllers: who comes, who goes, who misbehaves, and that nobody else
//! notices.

mod openflow_rig;
mod run_daemon;

use openflow_rig::{Peer, config, flow, listening, patient, switch};
use run_daemon::{Daemon, LIMIT};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use weir_openflow::model::{
    Action, FlowCommand, Fragments, Match, Message, NO_BUFFER, NO_MAX_LEN, PacketOut, Part, Port,
    StatsReply, StatsRequest, SwitchConfig, Version,
};

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

/// A source at full rate into port 1, and two ports that swallow.
fn loaded() -> String {
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/real.pcap");
    format!(
        "[[port]]\nname = 'in'\ndevice = 'replay:{capture}'\n\
         [[port]]\nname = 'a'\ndevice = 'null'\n[[port]]\nname = 'b'\ndevice = 'null'\n\
         [[vdp]]\nvid = 1\nname = 'red'\nports = ['in', 'a', 'b']\nmapping = ['in_port=in']\n\
         [vdp.openflow]\nlisten = ['ptcp:0']\n"
    )
}

/// What left by ports 2 and 3 so far.
fn left(p: &mut Peer<TcpStream>) -> [u64; 2] {
    let body = StatsRequest::Port(Port::ANY);
    match p.ask(Message::StatsRequest { more: Part::Last, body }).unwrap().0 {
        Message::StatsReply { body: StatsReply::Port(all), .. } => [2, 3].map(|no| {
            all.iter().find(|s| s.port == Port(no)).unwrap_or_else(|| panic!("{all:?}")).tx_packets
        }),
        other => panic!("{other:?}"),
    }
}

#[test]
fn soak_barrier_by_tcp_is_true_while_frames_come_at_full_rate() {
    let full = std::env::var_os("WEIR_SOAK").is_some();
    let rounds = if full { 10_000 } else { 60 };
    println!("soak: {rounds} barriers by TCP");
    let d = Daemon::start(&loaded(), &[]);
    let at = listening(&d);
    let (mut p, mut reader) = (Peer::to(&at), Peer::to(&at));
    for n in 0..500 {
        p.send(flow(n, 2));
    }
    let all = |port: u32, command, priority| {
        let Message::FlowMod(mut m) = flow(0, port) else { unreachable!() };
        (m.matcher, m.command, m.priority) = (Match::default(), command, priority);
        Message::FlowMod(m)
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Another reads all flows without end.
        let reading = scope.spawn(|| {
            loop {
                let n = reader.flows();
                if over.load(Relaxed) {
                    return n;
                }
            }
        });
        let ends = Ending(&over);
        for round in 0..rounds {
            // By turns to each port: replaced, changed, or deleted to uncover another.
            let now = round % 2;
            let port = 2 + now as u32;
            for m in match round / 2 % 3 {
                0 => vec![all(port, FlowCommand::Add, 200)],
                1 => vec![all(port, FlowCommand::ModifyStrict, 200)],
                _ => vec![
                    all(port, FlowCommand::Add, 150),
                    all(port, FlowCommand::DeleteStrict, 200),
                    all(port, FlowCommand::Add, 200),
                ],
            } {
                p.send(m);
            }
            assert_eq!(p.barrier().unwrap(), []);
            let before = left(&mut p);
            let until = Instant::now() + LIMIT;
            let after = loop {
                let after = left(&mut p);
                if after[now] > before[now] {
                    break after;
                }
                assert!(Instant::now() < until, "round {round}: no frames");
            };
            assert_eq!(after[1 - now], before[1 - now], "round {round}: frames by the old flow");
        }
        drop(ends);
        assert!(reading.join().unwrap() >= 500);
    });
    d.stop();
}

/// Ends the reader, however the test ends.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// At most so many a second and a tenth of it at once: the least time that `n` of them take.
fn least(n: u32, per_second: u32) -> Duration {
    Duration::from_secs(1) * (n - per_second / 10) / per_second
}

#[test]
fn rates_are_of_all_connections_together() {
    for (limit, ask) in
        [("messages_per_s", Message::BarrierRequest), ("flow_mods_per_s", flow(1, 2))]
    {
        let with = format!("listen = ['ptcp:0']\nlimits = {{ {limit} = 400 }}");
        let d = Daemon::start(&config(&with), &[]);
        let start = Instant::now();
        let mut peers: Vec<_> = (0..3).map(|_| Peer::to(&listening(&d))).collect();
        for p in &mut peers {
            for _ in 0..100 {
                p.send(ask.clone());
            }
            p.push();
        }
        // Every one is answered, and none lost.
        for p in &mut peers {
            assert_eq!(p.barrier().unwrap(), []);
        }
        let took = start.elapsed();
        assert!(took >= least(300, 400), "{limit}: {took:?}");
        d.stop();
    }
}

#[test]
fn packet_ins_are_held_to_their_rate() {
    let limits = "listen = ['ptcp:0']\nlimits = { packet_ins_per_s = 100 }";
    let d = Daemon::start(&config(limits), &[]);
    let start = Instant::now();
    let mut p = Peer::to(&listening(&d));
    // So that a tool gets packets.
    let fragments = Fragments::Normal;
    p.send(Message::SetConfig(SwitchConfig { fragments, miss_send_len: 128 }));
    let up = Action::Output { port: Port::CONTROLLER, max_len: NO_MAX_LEN };
    let (in_port, actions, data) = (Port::CONTROLLER, vec![up], vec![2; 64]);
    let out = PacketOut { buffer_id: NO_BUFFER, in_port, actions, data };
    for _ in 0..200 {
        p.send(Message::PacketOut(out.clone()));
    }
    let mut told = 0;
    d.until("all are told or held back", |d| {
        let kept = switch(d)["packet_ins_limited"].as_u64().unwrap();
        let (_, before) = p.ask(Message::BarrierRequest).unwrap();
        told += before.iter().filter(|m| matches!(m.body, Message::PacketIn(_))).count() as u64;
        told + kept == 200
    });
    let most = 10.0 + 100.0 * start.elapsed().as_secs_f64();
    assert!(told >= 10 && told as f64 <= most, "{told}, not {most}");
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

/// Whoever moves a node to where its connections can't follow hears of it at once, with the address.
#[test]
fn connections_that_can_not_follow_their_switch_are_told_with_the_address() {
    let (l, at) = controller();
    let d = Daemon::start(&config(&format!("controllers = ['tcp:{at}']")), &[]);
    let mut c = Peer::accept(&l);
    c.flows();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let asked = |way: serde_json::Value| {
        let mut to = UnixStream::connect(d.socket()).unwrap();
        writeln!(to, "{}", serde_json::json!({ "do": "vdp-move", "vdp": "red", "way": way }))
            .unwrap();
        let mut told = String::new();
        BufReader::new(to).read_line(&mut told).unwrap();
        told
    };
    let begun = Instant::now();
    let token = "0".repeat(32);
    let told = asked(serde_json::json!({ "hand-over": { "at": nobody, "token": token } }));
    let why = format!(
        "can't reach {nobody}: connection refused: both hosts must share a network namespace"
    );
    assert!(told.contains(&why), "{told}");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    // It stays what it was.
    let told = asked(serde_json::json!({ "home": {} }));
    assert!(told.contains("ok"), "{told}");
    c.flows();
    d.stop();
}
