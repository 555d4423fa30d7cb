//! `weir run` with several workers and a VDP that one of them does: it may have what takes one worker, its ports' frames are
//! that worker's, and nothing that is said later makes it otherwise.

mod openflow_rig;
mod run_daemon;
mod two_namespaces;

use run_daemon::{Daemon, has, is_root, skipped};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Instant;
use two_namespaces::{Lab, sh};
use weir_io::replay::Arena;

fn two(rest: &str) -> String {
    format!("[dataplane]\nworkers = 2\nframes = 4096\n{rest}")
}

fn capture() -> String {
    format!("{}/../../testdata/real.pcap", env!("CARGO_MANIFEST_DIR"))
}

/// A VDP of one worker over a capture; `rest` is its own.
fn replayed(worker: usize, rest: &str) -> String {
    two(&format!(
        "[[port]]\nname = 'in'\ndevice = 'pcap:{}'\n[[port]]\nname = 'out'\ndevice = 'pcap-out:out.pcap'\n\
         [[vdp]]\nvid = 1\nports = ['in', 'out']\nmapping = ['in_port=in']\nworker = {worker}\n{rest}",
        capture()
    ))
}

/// What several workers refuse is there, and a capture goes through it whole and in order.
#[test]
fn a_pinned_vdp_has_what_takes_one_worker() {
    let meter = "[[vdp.meter]]\nid = 1\nunit = 'kbps'\nband = [{ rate = 4000000 }]\n";
    let cases = [
        "program = 'forward'\n".to_owned(),
        "rule = [{ actions = 'NORMAL' }]\nprogram = 'learning'\n".to_owned(),
        format!("rule = [{{ actions = 'meter:1,output:out' }}]\n{meter}"),
        "rule = [{ actions = 'set_queue:1,output:out' }]\n[[vdp.queue]]\nport = 'out'\nid = 1\n".to_owned(),
        "rule = [{ actions = 'output:out' }]\n[[vdp.share]]\nport = 'out'\nceiling_bps = 10000000000\n"
            .to_owned(),
        "openflow = { fail_mode = 'standalone' }\n".to_owned(),
    ];
    for (n, rest) in cases.iter().enumerate() {
        let worker = n % 2;
        let (alone, one) = sent(&replayed(0, rest).replace("workers = 2", "workers = 1"));
        let (pinned, said) = sent(&replayed(worker, rest));
        assert!(said.contains(&format!("fast path, worker {worker}")), "{said}");
        let told =
            |said: &str| said.lines().find(|l| l.contains("accounted for")).map(str::to_owned);
        assert_eq!(told(&said), told(&one), "{rest}");
        // The order of all, not of each flow alone.
        assert!(alone == pinned, "{rest}: {} of {}", pinned.len(), alone.len());
        // A switch that waits for its controllers sends nothing yet.
        assert_eq!(alone.is_empty(), rest.contains("standalone"), "{rest}");
    }
}

/// What leaves, and what was said.
fn sent(config: &str) -> (Vec<Vec<u8>>, String) {
    let mut d = Daemon::spawn(config, &["--until-done"]);
    let status = d.end();
    let said = d.said.join("\n");
    assert!(status.success(), "{config}{said}");
    let got = Arena::load(&d.path("out.pcap")).unwrap();
    (got.iter().map(|f| f.bytes.to_vec()).collect(), said)
}

/// Refused where it stands before anything is touched, and by each way of changing it later.
#[test]
fn pins_that_can_not_be_are_refused_whoever_asks() {
    let share = "[[vdp.share]]\nport = 'out'\nguarantee_bps = 1000000\n";
    let cases = [
        (replayed(2, ""), "VDP 1: worker = 2, and there are 2, counted from 0"),
        (
            replayed(1, "").replace("in_port=in", "ip"),
            "write in_port=... into each of its mapping rules",
        ),
        (replayed(1, "path = 'slow'\n"), "the slow path takes one worker, and there are 2"),
        (replayed(1, "cpu_permille = 10\n"), "a guaranteed part of a worker's cycles takes one"),
        (replayed(1, share), "a share of a port takes one worker"),
        (two("[[vdp]]\nvid = 0\nworker = 1\ndefault = 'drop'\n"), "'worker' in VDP 0"),
    ];
    for (text, what) in cases {
        let mut d = Daemon::spawn(&text, &[]);
        assert_eq!(d.end().code(), Some(2), "{text}");
        let said = d.said.join("\n");
        assert!(said.contains(what) && said.contains("t.toml:"), "{what}: {said}");
        assert!(!d.path("out.pcap").exists());
    }
    let ports = "[[port]]\nname = 'a'\ndevice = 'null'\n[[port]]\nname = 'b'\ndevice = 'null'\n";
    let red = "[[vdp]]\nvid = 1\nname = 'red'\nports = ['a', 'b']\nmapping = ['in_port=a']\nworker = 1\nprogram = 'forward'\n";
    let text = two(&format!("{ports}{red}"));
    let mut d = Daemon::start(&text, &[]);
    assert!(d.ask(&["show", "--vdp", "red"]).contains("1, alone"));
    let detail = d.json(&["show", "--vdp", "red"])["vdps"][0]["detail"].clone();
    assert_eq!((&detail["worker"], &detail["program"]), (&1.into(), &"forward".into()));
    let other = "[[vdp]]\nvid = 2\nname = 'blue'\nports = ['a', 'b']\nmapping = ['in_port=b']\nworker = 0\n";
    let apart = "is kept whole by worker 1 for VDP 1: pin both to one worker";
    let changes = [
        (text.replace("worker = 1", "worker = 0"), "its worker can't be changed while it runs"),
        (text.replace("worker = 1\n", ""), "a slow-path program takes one worker"),
        (text.replace("'in_port=a'", "'arp'"), "write in_port=... into each"),
        (format!("{text}{}", other.replace("in_port=b", "in_port=a,arp")), apart),
    ];
    for (changed, what) in changes {
        let line = d.reload(&changed);
        assert!(line.contains(what) && line.contains("nothing has changed"), "{line}");
    }
    let both = format!("{text}{other}");
    assert_eq!(d.reload(&both), "reload: done");
    let told = d.refused(&["vdp", "mapping", "add", "blue", "in_port=a,arp"]);
    assert!(told.contains(apart), "{told}");
    let told = d.refused(&["vdp", "mapping", "add", "blue", "arp"]);
    assert!(told.contains("write in_port=... into each"), "{told}");
    let told = d.refused(&["vdp", "set", "blue", "--worker", "1"]);
    assert!(told.contains("its worker can't be changed"), "{told}");
    let create = ["vdp", "create", "3", "--ports", "a,b", "--mapping", "in_port=b,arp"];
    let told = d.refused(&[&create[..], &["--worker", "1"]].concat());
    assert!(told.contains("is kept whole by worker 0 for VDP 2"), "{told}");
    d.ask(&[&create[..], &["--worker", "0", "--program", "learning"]].concat());
    d.ask(&["vdp", "mapping", "del", "red", "in_port=a"]);
    // Nobody needs the port whole now, and another may have it.
    d.ask(&["vdp", "mapping", "add", "blue", "in_port=a"]);
    let told = d.refused(&["vdp", "mapping", "add", "red", "in_port=a,arp"]);
    assert!(told.contains("is kept whole by worker 0 for VDP 2"), "{told}");
    // All as the file says, and a port that goes and comes is whole again.
    assert_eq!(d.reload(&text), "reload: done");
    d.ask(&["port", "remove", "a"]);
    d.ask(&["port", "add", "a", "null"]);
    let told = d.refused(&[&create[..6], &["in_port=a,arp", "--worker", "0"]].concat());
    assert!(told.contains("is kept whole by worker 1 for VDP 1"), "{told}");
    let said = d.stop();
    assert!(!said.iter().any(|l| l.contains("defect")), "{}", said.join("\n"));
}

/// Many flows between two namespaces by a VDP that a worker of two does, with a meter and NORMAL, beside one that both do.
#[test]
fn a_meter_of_ofctl_is_one_limit_whoever_has_the_ports() {
    let test = "a_meter_of_ofctl_is_one_limit_whoever_has_the_ports";
    if !is_root() || !["ip", "ping", "ovs-ofctl", "python3"].into_iter().all(has) {
        return skipped(test, "needs root, ip, ping, ovs-ofctl and python3");
    }
    let Some(lab) = Lab::new("wp", "") else {
        return skipped(test, "network namespaces can't be made here");
    };
    let n = &lab.0;
    // Homes of ports that nothing is pinned to are the other worker's and this one's, in turn.
    for (kind, worker) in [("", 0), ("", 1), ("af_packet:", 1)] {
        let blue = "[[port]]\nname = 'c'\ndevice = 'null'\n[[vdp]]\nvid = 2\nname = 'blue'\nports = ['c']\n\
                    mapping = ['in_port=c']\n[vdp.openflow]\nlisten = ['ptcp:0']\n";
        let ports = openflow_rig::config("listen = ['ptcp:0']")
            .replacen("'null'", &format!("'{kind}{n}a'"), 1)
            .replacen("'null'", &format!("'{kind}{n}b'"), 1)
            .replace("name = 'red'\n", &format!("name = 'red'\nworker = {worker}\n"));
        let d = Daemon::start(&two(&format!("{ports}{blue}")), &[]);
        let listens = |vdp: &str| {
            let shown = d.json(&["show", "--vdp", vdp]);
            let of = &shown["vdps"][0]["detail"]["openflow"]["listeners"][0]["bound"];
            of.as_str().unwrap().to_owned()
        };
        let ofctl = |vdp: &str, command: &str, rest: &str| {
            let to = listens(vdp);
            let run = format!(
                "ovs-ofctl -O OpenFlow13 -t 20 {command} tcp:{to} {rest} 2>&1 || echo FAILED"
            );
            sh(&run)
        };
        let done = |said: String| assert!(!said.contains("FAILED"), "{said}");
        done(ofctl("red", "add-flow", "priority=1,actions=NORMAL"));
        let limit = "meter=7,pktps,burst,stats,band=type=drop,rate=1,burst_size=60";
        done(ofctl("red", "add-meter", limit));
        done(ofctl("red", "add-flow", "priority=9,udp,in_port=1,actions=meter:7,output:2"));
        // The VDP that both do has none.
        let told = ofctl("blue", "add-meter", limit);
        assert!(told.contains("OUT_OF_METERS") && told.contains("FAILED"), "{told}");
        let told = ofctl("blue", "add-flow", "priority=1,actions=NORMAL");
        assert!(told.contains("EPERM") && told.contains("FAILED"), "{told}");
        let answers = || {
            let ping = format!("ip netns exec {n}x ping -n -q -c 1 -W 1 10.9.0.2 || true");
            sh(&ping).contains(" 1 received")
        };
        d.until("an answer", |_| answers());
        let took = Instant::now();
        let receive = "import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\ns.bind(('10.9.0.2',6000))\n\
            print('ready',flush=True)\nn=0\ns.settimeout(60)\n\
            while True:\n try: s.recv(100)\n except TimeoutError: break\n n+=1; s.settimeout(2)\nprint(n)";
        let mut y = Command::new("ip")
            .args(["netns", "exec", &format!("{n}y"), "python3", "-c", receive])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(y.stdout.take().unwrap());
        let mut ready = String::new();
        lines.read_line(&mut ready).unwrap();
        let send = "import socket,time\nss=[socket.socket(socket.AF_INET,socket.SOCK_DGRAM) for _ in range(50)]\n\
            for n in range(10):\n for s in ss: s.sendto(b'x'*20,('10.9.0.2',6000))\n time.sleep(.01)";
        let ended = Command::new("ip")
            .args(["netns", "exec", &format!("{n}x"), "python3", "-c", send])
            .status()
            .unwrap();
        assert!(ended.success());
        let metered = || {
            let said = ofctl("red", "meter-stats", "");
            let number = |key: &str| {
                let (_, rest) = said.split_once(key).unwrap_or_else(|| panic!("{key}: {said}"));
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                digits.parse::<u64>().unwrap()
            };
            (number("packet_in_count:"), number("0: packet_count:"))
        };
        d.until("all frames at the meter", |_| metered().0 == 500);
        let passed = 500 - metered().1;
        // Two workers with one bucket of tokens each would let 120 pass.
        let most = 61 + took.elapsed().as_secs();
        assert!((60..=most).contains(&passed), "{kind} worker {worker}: {passed}");
        let mut got = String::new();
        lines.read_to_string(&mut got).unwrap();
        y.wait().unwrap();
        assert_eq!(got.trim().parse::<u64>().unwrap(), passed);
        // The VDP goes, and comes again by the other worker, and forwards.
        let mut d = d;
        let before = two(&format!("{ports}{blue}"));
        let bare = before.split("[[vdp]]").next().unwrap().to_owned();
        assert_eq!(d.reload(&bare), "reload: done");
        let again =
            before.replace(&format!("worker = {worker}\n"), &format!("worker = {}\n", 1 - worker));
        assert_eq!(d.reload(&again), "reload: done");
        let to = openflow_rig::listening(&d);
        sh(&format!("ovs-ofctl -O OpenFlow13 -t 20 add-flow tcp:{to} actions=NORMAL"));
        d.until("an answer", |_| {
            let ping = format!("ip netns exec {n}x ping -n -q -c 1 -W 1 10.9.0.2 || true");
            sh(&ping).contains(" 1 received")
        });
        let said = d.stop();
        assert!(!said.iter().any(|l| l.contains("defect")), "{}", said.join("\n"));
    }
}
