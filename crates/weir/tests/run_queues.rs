//! `weir run` with an interface that has a queue for each worker: nothing is dealt out by weir.

mod openflow_rig;
mod run_daemon;
mod two_namespaces;

use openflow_rig::{config as switch, listening};
use run_daemon::{Daemon, has, is_root, skipped};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use two_namespaces::{ENDS, Lab, sh};

fn pings(lab: &Lab, times: u32) -> bool {
    let n = &lab.0;
    // Without -w it does not wait for an answer that takes longer than two others took.
    let ping = format!("ip netns exec {n}x ping -n -q -c {times} -i 0.005 -w 10 10.9.0.2 || true");
    sh(&ping).contains(&format!(" {times} received"))
}
/// Frames that came by each of two queues, as the driver counts them.
fn by_queue(lab: &Lab, here: char) -> Option<[u64; 2]> {
    let said = sh(&format!("ethtool -S {}{here}", lab.0));
    let of = |q: usize| {
        let key = format!("rx_queue_{q}_xdp_packets:");
        let line = said.lines().find_map(|l| l.trim().strip_prefix(&key))?;
        line.trim().parse().ok()
    };
    Some([of(0)?, of(1)?])
}

/// Both ends of the veths have two queues.
const MANY: &str = "numtxqueues 2 numrxqueues 2";

#[test]
fn a_queue_for_each_worker_brings_its_frames_to_it() {
    let test = "a_queue_for_each_worker_brings_its_frames_to_it";
    if !is_root() || !["ip", "ping", "ovs-ofctl", "python3", "ethtool"].into_iter().all(has) {
        return skipped(test, "needs root, ip, ping, ovs-ofctl, python3 and ethtool");
    }
    let Some(lab) = Lab::new("wq", MANY) else {
        return skipped(test, "network namespaces can't be made here");
    };
    let n = &lab.0;
    let ports = switch("listen = ['ptcp:0']")
        .replacen("'null'", &format!("'xdp:{n}a'"), 1)
        .replacen("'null'", &format!("'xdp:{n}b'"), 1);
    let several = |rest: &str| format!("[dataplane]\nworkers = 2\nframes = 4096\n{rest}");
    let text = several(&ports);
    let mut d = Daemon::start(&text, &[]);
    let said = d.said.join("\n");
    for here in ["a", "b"] {
        assert!(said.contains(&format!("port {here}: a queue for each of 2 workers")), "{said}");
    }
    assert!(!said.contains("is served"), "{said}");
    let flood = |d: &Daemon| {
        let to = listening(d);
        sh(&format!("ovs-ofctl -O OpenFlow13 -t 20 add-flow tcp:{to} actions=FLOOD"));
    };
    flood(&d);
    d.until("an answer", |_| pings(&lab, 1));
    assert!(pings(&lab, 50));
    // Many flows come by both queues, and all of each arrives.
    let receive = "import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
        s.setsockopt(socket.SOL_SOCKET,socket.SO_RCVBUF,1<<22)\ns.bind(('10.9.0.2',6000))\nprint('ready',flush=True)\n\
        last={}\ns.settimeout(60)\nwhile len(last)<60 or min(last.values())<99:\n b,a=s.recvfrom(100); i=int(b)\n \
        assert i==last.get(a,-1)+1,(a,i,last.get(a)); last[a]=i\nprint(len(last))";
    let mut y = Command::new("ip")
        .args(["netns", "exec", &format!("{n}y"), "python3", "-c", receive])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(y.stdout.take().unwrap());
    let mut ready = String::new();
    lines.read_line(&mut ready).unwrap();
    let send = "import socket,time\nss=[socket.socket(socket.AF_INET,socket.SOCK_DGRAM) for _ in range(60)]\n\
        for n in range(100):\n for s in ss: s.sendto(b'%d'%n,('10.9.0.2',6000))\n time.sleep(.005)";
    sh(&format!("ip netns exec {n}x python3 -c \"{send}\""));
    let mut got = String::new();
    lines.read_to_string(&mut got).unwrap();
    assert!(y.wait().unwrap().success());
    assert_eq!(got.trim(), "60");
    if let Some(by) = by_queue(&lab, 'a') {
        assert!(by.iter().all(|n| *n > 100), "one queue has it all: {by:?}");
    }
    assert!(d.port("a")["rx"]["frames"].as_u64().unwrap() >= 6000, "{}", d.port("a"));
    // One worker can't have all of it, and is told so; nothing else changes.
    let told = d.refused(&[
        "vdp",
        "create",
        "7",
        "--ports",
        "a",
        "--mapping",
        "in_port=a,arp",
        "--worker",
        "0",
    ]);
    assert!(told.contains("each worker has a queue of it"), "{told}");
    assert!(pings(&lab, 20));
    // An interface goes, and comes back with its queues.
    sh(&format!("ip link del {n}a"));
    d.until("the port's fault", |d| d.port("a")["up"] == false);
    lab.wire(ENDS[0], MANY);
    d.until("an answer", |_| pings(&lab, 1));
    assert!(pings(&lab, 50));
    // A VDP of one worker that is there first has its port as a whole.
    let bare = text.split("[[port]]").next().unwrap().to_owned();
    assert_eq!(d.reload(&bare), "reload: done");
    // Queues of sockets that are closed are given back late.
    d.until("the queues", |_| {
        let one = format!(
            "ethtool -L {n}a rx 1 tx 1 2>&1 && ethtool -L {n}b rx 1 tx 1 2>&1 && echo DONE || true"
        );
        sh(&one).contains("DONE")
    });
    let pinned = text.replace("name = 'red'\n", "name = 'red'\nworker = 1\n");
    assert_eq!(d.reload(&pinned), "reload: done");
    flood(&d);
    let netns = |side: char| sh(&format!("ip netns exec {n}{side} ethtool -L e0 rx 1 tx 1"));
    netns('x');
    netns('y');
    d.until("an answer", |_| pings(&lab, 1));
    assert!(pings(&lab, 50));
    let said = d.stop();
    assert!(!said.iter().any(|l| l.contains("defect")), "{}", said.join("\n"));
}
