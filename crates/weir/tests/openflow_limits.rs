//! What the file allows a switch to have: beyond it the exact error, over a real connection, and the
//! switch says so beforehand.

mod openflow_rig;
mod run_daemon;

use openflow_rig::{Peer, config, flow, listening};
use run_daemon::Daemon;
use std::process::Stdio;
use weir_openflow::model::{
    Band, BandKind, ErrorCode, GroupCommand, GroupKind, GroupMod, Message, MeterCommand,
    MeterFlags, MeterMod, Part, StatsReply, StatsRequest,
};

fn group(id: u32) -> Message {
    Message::GroupMod(GroupMod {
        command: GroupCommand::Add,
        kind: GroupKind::All,
        id,
        buckets: vec![],
    })
}

fn meter(id: u32) -> Message {
    Message::MeterMod(MeterMod {
        command: MeterCommand::Add,
        flags: MeterFlags::KBPS,
        id,
        bands: vec![Band { rate: 1, burst: 0, kind: BandKind::Drop }],
    })
}

#[test]
fn limits_of_the_file_are_kept_and_told() {
    let text = "listen = ['ptcp:0']\nlimits = { flows = 3, groups = 2, meters = 1 }";
    let d = Daemon::start(&config(text), &[]);
    let mut p = Peer::to(&listening(&d));
    let mut codes = |messages: Vec<Message>| -> Vec<ErrorCode> {
        messages.into_iter().for_each(|m| {
            p.send(m);
        });
        p.barrier().unwrap().into_iter().map(|e| e.code).collect()
    };
    // The first again is no further one.
    let flows = [1, 2, 3, 1, 4].map(|to| flow(to, 2)).to_vec();
    assert_eq!(codes(flows), [ErrorCode::FlowTableFull]);
    assert_eq!(codes([1, 2, 3].map(group).to_vec()), [ErrorCode::GroupOutOfGroups]);
    assert_eq!(codes([1, 2].map(meter).to_vec()), [ErrorCode::MeterOutOfMeters]);
    assert_eq!(p.flows(), 3);
    let mut ask = |body| match p.ask(Message::StatsRequest { more: Part::Last, body }).unwrap().0 {
        Message::StatsReply { body, .. } => body,
        other => panic!("{other:?}"),
    };
    match ask(StatsRequest::GroupFeatures) {
        StatsReply::GroupFeatures(f) => assert_eq!(f.max, [2; 4]),
        other => panic!("{other:?}"),
    }
    match ask(StatsRequest::MeterFeatures) {
        StatsReply::MeterFeatures(f) => assert_eq!(f.max_meters, 1),
        other => panic!("{other:?}"),
    }
    d.stop();
}

/// What is in a switch is its owner's: a benchmark fills one that is empty, or is told that it may.
#[test]
fn a_benchmark_leaves_a_filled_switch_alone() {
    let d = Daemon::start(&config("listen = ['ptcp:0:127.0.0.1']\n"), &[]);
    let address = listening(&d);
    let bench = |more: &[&str]| {
        let all = ["bench", "openflow", "--only", "insert", "--target", &address];
        run_daemon::weir()
            .args(all)
            .args(more)
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
    };
    let mut owner = Peer::to(&address);
    owner.send(flow(1, 2));
    assert_eq!((owner.barrier().unwrap().len(), owner.flows()), (0, 1));
    let o = bench(&["--rules", "10"]).unwrap().wait_with_output().unwrap();
    let said = String::from_utf8(o.stderr).unwrap();
    assert_eq!((o.status.code(), owner.flows()), (Some(2), 1), "{said}");
    assert!(said.contains("has 1 flows") && said.contains("--delete-flows"), "{said}");
    // Ended in the middle it takes along what it has put there.
    let long = ["--rules", "4000", "--repeats", "10000", "--delete-flows"];
    let mut long = bench(&long).unwrap();
    d.until("its rules are there", |_| owner.flows() > 100);
    let pid = rustix::process::Pid::from_raw(long.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(!long.wait().unwrap().success());
    d.until("its rules have gone", |_| owner.flows() == 0);
    let o = bench(&["--rules", "10", "--repeats", "1"]).unwrap().wait_with_output().unwrap();
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    assert_eq!(owner.flows(), 0);
    d.stop();
}
