//! What the file allows a switch to have: beyond it the exact error, over a real connection, and the
//! switch says so beforehand.

mod openflow_rig;
mod run_daemon;

use openflow_rig::{Peer, config, flow, listening};
use run_daemon::Daemon;
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
