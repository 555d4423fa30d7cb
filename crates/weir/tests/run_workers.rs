//! `weir run` with several workers: asked as one, counted as one, and what several can't hold between them refused.

mod openflow_rig;
mod run_daemon;
mod two_namespaces;

use openflow_rig::{Peer, config as switch, flow, listening};
use run_daemon::{Daemon, has, is_root, skipped};
use std::process::{Command, Stdio};
use std::time::Duration;
use two_namespaces::{Lab, sh};
use weir_io::replay::Arena;
use weir_openflow::model::{
    Action, Band, BandKind, ErrorCode, FlowFlags, FlowMod, Instruction, Message, MeterCommand,
    MeterFlags, MeterMod, Port,
};

fn several(workers: usize, rest: &str) -> String {
    format!("[dataplane]\nworkers = {workers}\nframes = 4096\n{rest}")
}

fn capture() -> String {
    format!("{}/../../testdata/real.pcap", env!("CARGO_MANIFEST_DIR"))
}

/// The same VDP over the same capture; `rest` is its own.
fn replayed(rest: &str) -> String {
    format!(
        "[[port]]\nname = 'in'\ndevice = 'pcap:{}'\n[[port]]\nname = 'out'\ndevice = 'pcap-out:out.pcap'\n\
         [[vdp]]\nvid = 1\nports = ['in', 'out']\nmapping = ['in_port=in']\n{rest}",
        capture()
    )
}

fn frames(d: &Daemon) -> Vec<Vec<u8>> {
    Arena::load(&d.path("out.pcap")).unwrap().iter().map(|f| f.bytes.to_vec()).collect()
}

#[test]
fn a_capture_goes_through_whole_whoever_has_its_flows() {
    for workers in [2, 5] {
        let text = several(workers, &replayed("rule = [{ actions = 'output:out' }]\n"));
        let mut d = Daemon::spawn(&text, &["--until-done"]);
        let status = d.end();
        let said = d.said.join("\n");
        assert!(status.success(), "{said}");
        let arena = Arena::load(std::path::Path::new(&capture())).unwrap();
        assert!(said.contains(&format!("accounted for: {} received", arena.len())), "{said}");
        assert!(said.contains(&format!("{workers} workers, each serves its channels")), "{said}");
        let mut sent: Vec<Vec<u8>> = arena.iter().map(|f| f.bytes.to_vec()).collect();
        let mut got = frames(&d);
        // Flows keep their order, which tests of the data plane hold; here none may be missing or twice.
        sent.sort();
        got.sort();
        assert!(sent == got, "{} frames in, {} out", sent.len(), got.len());
    }
}

/// What one worker would do, and several do not, is said where it stands, before anything is touched.
#[test]
fn what_takes_one_worker_is_refused_at_start_and_while_running() {
    let meter = "[[vdp.meter]]\nid = 1\nunit = 'kbps'\nband = [{ rate = 1000 }]\n";
    let share = "[[vdp.share]]\nport = 'out'\nguarantee_bps = 1000000\n";
    let queue = "[[vdp.queue]]\nport = 'out'\nid = 1\n";
    let cases = [
        ("program = 'forward'\n", "a slow-path program"),
        ("path = 'slow'\n", "the slow path"),
        ("rule = [{ actions = 'output:out' }]\nplacement = 'slow'\n", "the slow path"),
        ("cpu_permille = 100\n", "a guaranteed part of a worker's cycles"),
        (meter, "a meter"),
        (share, "a share of a port"),
        (queue, "a queue"),
        ("rule = [{ actions = 'NORMAL' }]\n", "NORMAL"),
        ("openflow = { fail_mode = 'standalone' }\n", "fail_mode = \"standalone\""),
    ];
    let plain = several(2, &switch("listen = ['ptcp:0']"));
    let mut running = Daemon::start(&plain, &[]);
    for (rest, what) in cases {
        let mut d = Daemon::spawn(&several(2, &replayed(rest)), &[]);
        assert_eq!(d.end().code(), Some(2), "{rest}");
        let said = d.said.join("\n");
        let wanted = format!("{what} takes one worker, and there are 2");
        assert!(said.contains(&wanted) && said.contains("VDP 1"), "{said}");
        assert!(said.contains("or run the data plane with one worker"), "{said}");
        assert!(said.contains("t.toml:"), "no place: {said}");
        // The same by one worker is fine.
        let alone = replayed(rest);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("t.toml"), alone).unwrap();
        let mut check = run_daemon::weir();
        check.args(["run", "--check"]).arg(dir.path().join("t.toml"));
        assert!(check_of(&mut check), "{rest}");
        // And by a reload.
        let rest = rest.replace("'out'", "'b'").replace("output:out", "output:b");
        let more = format!("{plain}\n[[vdp]]\nvid = 2\nports = ['b']\n{rest}");
        let line = running.reload(&more);
        assert!(line.contains(what) && line.contains("nothing has changed"), "{line}");
    }
    let shortcut = "[[port]]\nname = 's'\ndevice = 'xdp-shortcut:none0'\n";
    let mut d = Daemon::spawn(&several(2, shortcut), &[]);
    assert_eq!(d.end().code(), Some(2));
    let said = d.said.join("\n");
    assert!(said.contains("a shortcut in the kernel takes one worker"), "{said}");
    let fixed = running.reload(&plain.replace("workers = 2", "workers = 3"));
    assert!(fixed.contains("[dataplane] workers: fixed while the data plane runs"), "{fixed}");
    running.stop();
    for wrong in ["0", "65"] {
        let text = several(2, &replayed("")).replace("workers = 2", &format!("workers = {wrong}"));
        let mut d = Daemon::spawn(&text, &[]);
        assert_eq!(d.end().code(), Some(2));
        let said = d.said.join("\n");
        assert!(said.contains("1 to 64 workers") && said.contains("t.toml:2"), "{said}");
    }
}

fn check_of(c: &mut Command) -> bool {
    c.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

#[test]
fn controllers_and_clients_ask_several_as_one() {
    let mut d = Daemon::start(&several(3, &switch("listen = ['ptcp:0']")), &[]);
    let mut peer = Peer::to(&listening(&d));
    for n in 0..500 {
        peer.send(flow(n, 1 + (n % 2) as u32));
    }
    assert_eq!(peer.barrier().unwrap(), []);
    assert_eq!(peer.flows(), 500);
    // Somebody would have to learn for it.
    let normal = match flow(9, 1) {
        Message::FlowMod(f) => {
            let port = Port::NORMAL;
            let actions = vec![Action::Output { port, max_len: 0 }];
            Message::FlowMod(FlowMod { instructions: vec![Instruction::Apply(actions)], ..f })
        }
        other => panic!("{other:?}"),
    };
    peer.send(normal);
    let refused = peer.barrier().unwrap();
    assert!(matches!(&refused[..], [e] if e.code == ErrorCode::FlowEperm), "{refused:?}");
    let bands = vec![Band { kind: BandKind::Drop, rate: 1, burst: 0 }];
    let (command, flags) = (MeterCommand::Add, MeterFlags::default());
    peer.send(Message::MeterMod(MeterMod { command, flags, id: 1, bands }));
    let refused = peer.barrier().unwrap();
    assert!(matches!(&refused[..], [e] if e.code == ErrorCode::MeterOutOfMeters), "{refused:?}");
    let shown = d.ask(&["show", "--vdp", "red", "--rules"]);
    assert!(shown.contains("500 flows"), "{shown}");
    assert_eq!(d.vdp(1)["takes"]["rules"], 500);
    // VDPs by requests: made, changed, deleted, made again by the same number.
    for _ in 0..20 {
        let made = "[[vdp]]\nvid = 7\nname = 'more'\nports = ['a']\nmapping = ['dl_vlan=7']\n";
        let more = format!("{}{made}", several(3, &switch("listen = ['ptcp:0']")));
        assert_eq!(d.reload(&more), "reload: done", "{}", d.said.join("\n"));
        d.ask(&["vdp", "rule", "add", "more", "dl_vlan=7,actions=output:1"]);
        assert_eq!(d.vdp(7)["takes"]["rules"], 1);
        d.ask(&["vdp", "rule", "del", "more", "dl_vlan=7"]);
        let line = d.reload(&several(3, &switch("listen = ['ptcp:0']")));
        assert_eq!(line, "reload: done", "{}", d.said.join("\n"));
        assert!(d.vdp(7).is_null());
    }
    assert_eq!(peer.flows(), 500);
    d.stop();
}

/// Pings, TCP and a controller's rules between two namespaces, by both kinds of ports.
#[test]
fn two_namespaces_speak_by_rules_of_ofctl() {
    let test = "two_namespaces_speak_by_rules_of_ofctl";
    if !is_root() || !["ip", "ping", "ovs-ofctl", "python3"].into_iter().all(has) {
        return skipped(test, "needs root, ip, ping, ovs-ofctl and python3");
    }
    let Some(lab) = Lab::new("ww", "") else {
        return skipped(test, "network namespaces can't be made here");
    };
    let n = &lab.0;
    for kind in ["", "af_packet:"] {
        let ports = switch("listen = ['ptcp:0']")
            .replacen("'null'", &format!("'{kind}{n}a'"), 1)
            .replacen("'null'", &format!("'{kind}{n}b'"), 1);
        let d = Daemon::start(&several(2, &ports), &[]);
        let ofctl = |command: &str, rest: &str| {
            let to = listening(&d);
            sh(&format!("ovs-ofctl -O OpenFlow13 -t 20 {command} tcp:{to} {rest}"))
        };
        ofctl("add-flow", "priority=5,arp,actions=FLOOD");
        ofctl("add-flow", "priority=6,icmp,in_port=1,actions=output:2");
        ofctl("add-flow", "priority=6,icmp,in_port=2,actions=output:1");
        ofctl("add-flow", "priority=7,tcp,nw_dst=10.9.0.2,actions=output:2");
        ofctl("add-flow", "priority=7,tcp,nw_dst=10.9.0.1,actions=output:1");
        let reaches = || {
            let answer = format!("ip netns exec {n}x ping -n -q -c 1 -W 1 10.9.0.2 || true");
            sh(&answer).contains(" 1 received")
        };
        d.until("an answer", |_| reaches());
        ofctl("--strict mod-flows", "priority=6,icmp,in_port=1,actions=output:2");
        let before = counted(&ofctl("dump-flows", ""), "icmp,in_port=1");
        let said = sh(&format!("ip netns exec {n}x ping -n -q -c 100 -i 0.005 -W 5 10.9.0.2"));
        assert!(said.contains(" 100 received"), "{said}");
        assert_eq!(counted(&ofctl("dump-flows", ""), "icmp,in_port=1") - before, 100);
        // Eight connections at once, a megabyte each, whole.
        let server = "import socket,threading\n\
             s=socket.create_server(('10.9.0.2',5001),backlog=16)\nprint('ready',flush=True)\n\
             def one(c):\n while True:\n  b=c.recv(65536)\n  if not b: break\n  c.sendall(b)\n c.close()\n\
             while True: threading.Thread(target=one,args=(s.accept()[0],),daemon=True).start()";
        let client = "import socket,threading,os,sys\nok=[]\n\
             def one():\n d=os.urandom(1<<20); c=socket.create_connection(('10.9.0.2',5001),30); c.settimeout(60)\n \
             t=threading.Thread(target=lambda:(c.sendall(d),c.shutdown(1)),daemon=True); t.start()\n g=b''\n \
             while True:\n  b=c.recv(65536)\n  if not b: break\n  g+=b\n ok.append(g==d)\n\
             ts=[threading.Thread(target=one) for _ in range(8)]\n[t.start() for t in ts]\n[t.join() for t in ts]\n\
             sys.exit(0 if ok==[True]*8 else 1)";
        let mut serves = Command::new("ip")
            .args(["netns", "exec", &format!("{n}y"), "python3", "-c", server])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 5];
        std::io::Read::read_exact(serves.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let ended = Command::new("ip")
            .args(["netns", "exec", &format!("{n}x"), "python3", "-c", client])
            .status()
            .unwrap();
        serves.kill().unwrap();
        serves.wait().unwrap();
        assert!(ended.success());
        // Each way 8 MiB by frames of at most 1,514 bytes.
        for way in ["nw_dst=10.9.0.2", "nw_dst=10.9.0.1"] {
            let frames = counted(&ofctl("dump-flows", ""), way);
            assert!(frames > 8 * (1 << 20) / 1514, "{way}: {frames}");
        }
        // A flow that is not used runs out once, at all workers, with everything that it counted.
        let controller = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = controller.local_addr().unwrap();
        let listen = "listen = ['ptcp:0']";
        let told = ports.replace(listen, &format!("{listen}\ncontrollers = ['tcp:{at}']"));
        let mut d = d;
        assert_eq!(d.reload(&several(2, &told)), "reload: done");
        let mut peer = Peer::accept(&controller);
        let mut short = FlowMod {
            idle_timeout: 1,
            ..match flow(0x0200_0000_0002, 2) {
                Message::FlowMod(f) => f,
                other => panic!("{other:?}"),
            }
        };
        short.priority = 1000;
        short.flags = FlowFlags::SEND_FLOW_REM;
        peer.send(Message::FlowMod(short));
        assert_eq!(peer.barrier().unwrap(), []);
        let said = sh(&format!("ip netns exec {n}x ping -n -q -c 50 -i 0.005 -W 5 10.9.0.2"));
        assert!(said.contains(" 50 received"), "{said}");
        let removed = removed(&mut peer);
        assert!(removed >= 50, "{removed} frames");
        // Its VDP goes, and comes again; nothing is forwarded by what it was told before.
        let text = several(2, &ports);
        let bare = text.split("[[vdp]]").next().unwrap().to_owned();
        assert_eq!(d.reload(&bare), "reload: done");
        assert!(!reaches());
        assert_eq!(d.reload(&text), "reload: done");
        let to = listening(&d);
        sh(&format!("ovs-ofctl -O OpenFlow13 add-flow tcp:{to} actions=FLOOD"));
        d.until("an answer", |_| reaches());
        let said = d.stop();
        assert!(!said.iter().any(|l| l.contains("defect")), "{}", said.join("\n"));
    }
}

/// Frames of the flow whose line has `of` in it.
fn counted(flows: &str, of: &str) -> u64 {
    let line = flows.lines().find(|l| l.contains(of)).unwrap_or_else(|| panic!("{of}: {flows}"));
    let n = line.split("n_packets=").nth(1).unwrap();
    n.split(',').next().unwrap().parse().unwrap()
}

/// What the one flow that runs out had counted; none comes after it.
fn removed<S: std::io::Read + std::io::Write>(peer: &mut Peer<S>) -> u64 {
    let frames = loop {
        match peer.next().unwrap().body {
            Message::FlowRemoved(r) => break r.packets,
            Message::EchoRequest(_) | Message::PortStatus(_) => {}
            other => panic!("{other:?}"),
        }
    };
    std::thread::sleep(Duration::from_millis(300));
    let (_, before) = peer.ask(Message::BarrierRequest).unwrap();
    assert!(!before.iter().any(|m| matches!(m.body, Message::FlowRemoved(_))), "{before:?}");
    frames
}
