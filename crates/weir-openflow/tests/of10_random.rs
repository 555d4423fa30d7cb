//! OpenFlow 1.0 on random messages and on random bytes; Open vSwitch reads what is written.

#[path = "of10_random/mod.rs"]
mod random;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::process::Command;
use weir_openflow::codec::{decode, encode};
use weir_openflow::model::*;

fn write(body: Message) -> Vec<u8> {
    let mut out = Vec::new();
    let msg = Msg { xid: 0xabcd, body };
    encode(Version::V10, &msg, &mut out).unwrap_or_else(|e| panic!("{msg:?}: {e}"));
    out
}

/// A message in golden bytes, some of them changed.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let vectors: Vec<Vec<u8>> = include_str!("../testdata/of10/vectors.txt")
        .lines()
        .filter_map(|l| l.split_once(' ').filter(|_| !l.starts_with('#')))
        .map(|(_, hex)| {
            let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
            (0..hex.len()).step_by(2).map(byte).collect()
        })
        .collect();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (prop::sample::select(vectors), changes, 0..40_usize).prop_map(|(mut bytes, changes, cut)| {
        for (at, value) in changes {
            // The version stays, so that something is read at all.
            let at = at.index(bytes.len()).max(1);
            bytes[at] = value;
        }
        let length = bytes.len().saturating_sub(cut.saturating_sub(20)).max(8);
        bytes.truncate(length);
        bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(body in random::message()) {
        let bytes = write(body.clone());
        prop_assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), bytes.len());
        prop_assert_eq!(decode(Version::V10, &bytes), Ok(Msg { xid: 0xabcd, body }));
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(Version::V10, &bytes);
    }

    #[test]
    fn what_is_read_can_be_written_and_means_the_same(bytes in nearly()) {
        let Ok(msg) = decode(Version::V10, &bytes) else { return Ok(()) };
        let mut again = Vec::new();
        encode(Version::V10, &msg, &mut again).unwrap();
        let read = decode(Version::V10, &again).unwrap();
        // A text that was no UTF-8 may be cut when it is written; its second form stays.
        if !format!("{msg:?}").contains('\u{fffd}') {
            prop_assert_eq!(read, msg);
        }
    }
}

#[test]
fn long_replies_are_split_between_entries() {
    let flow = FlowStats {
        table: 0,
        duration_sec: 0,
        duration_nsec: 0,
        priority: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: FlowFlags::default(),
        cookie: 0,
        packets: 0,
        bytes: 0,
        matcher: Match::default(),
        instructions: vec![Instruction::Apply(vec![Action::PopVlan])],
    };
    let flows: Vec<_> = (0..2000).map(|n| FlowStats { cookie: n, ..flow.clone() }).collect();
    let body = StatsReply::Flow(flows.clone());
    let bytes = write(Message::StatsReply { more: Part::Last, body });
    let (mut rest, mut read, mut parts) = (&bytes[..], Vec::new(), Vec::new());
    while !rest.is_empty() {
        let (one, more) = rest.split_at(usize::from(u16::from_be_bytes([rest[2], rest[3]])));
        match decode(Version::V10, one).unwrap() {
            Msg {
                xid: 0xabcd,
                body: Message::StatsReply { more, body: StatsReply::Flow(part) },
            } => {
                parts.push(more);
                read.extend(part);
            }
            other => panic!("{other:?}"),
        }
        rest = more;
    }
    assert_eq!(read, flows);
    // 682 entries of 96 bytes in each.
    assert_eq!(parts, [Part::More, Part::More, Part::Last]);
}

/// What Open vSwitch reads in these bytes; `None`, said aloud, where it is not installed.
fn ofp_parse(name: &str, bytes: &[u8]) -> Option<String> {
    let file = std::env::temp_dir().join(format!("weir-of10-{name}-{}", std::process::id()));
    std::fs::write(&file, bytes).unwrap();
    let run = Command::new("ovs-ofctl").arg("ofp-parse").arg(&file).output();
    std::fs::remove_file(&file).unwrap();
    match run {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            Some(String::from_utf8_lossy(&said).into_owned())
        }
        Err(e) => {
            eprintln!("SKIPPED: ovs-ofctl: {e}");
            None
        }
    }
}

#[test]
fn open_vswitch_reads_it() {
    let mut runner = TestRunner::deterministic();
    let bodies: Vec<Message> =
        (0..2000).map(|_| random::message().new_tree(&mut runner).unwrap().current()).collect();
    let Some(said) =
        ofp_parse("random", &bodies.iter().cloned().flat_map(write).collect::<Vec<_>>())
    else {
        return;
    };
    let read = said.lines().filter(|l| l.contains("(xid=0xabcd)")).count();
    let wrong: Vec<&str> =
        said.lines().filter(|l| l.contains("***") || l.contains("decode error")).take(5).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(read, bodies.len());
}

#[test]
fn open_vswitch_reads_the_same_meaning() {
    let ip = Match::default().with(Field::EthType, 0x0800);
    let flow = |matcher, actions: Vec<Action>| {
        Message::FlowMod(FlowMod {
            cookie: 0x77,
            cookie_mask: 0,
            table: 0,
            command: FlowCommand::Add,
            idle_timeout: 5,
            hard_timeout: 6,
            priority: 7,
            buffer_id: NO_BUFFER,
            out_port: Port::ANY,
            out_group: GROUP_ANY,
            flags: FlowFlags::SEND_FLOW_REM,
            matcher,
            instructions: vec![Instruction::Apply(actions)],
        })
    };
    let tcp = ip
        .clone()
        .with(Field::IpProto, 6)
        .with_masked(Field::Ipv4Src, 0x0a00_0000, 0xff00_0000)
        .with(Field::TcpDst, 80)
        .with(Field::IpDscp, 10)
        .with(Field::InPort, Port::LOCAL.0.into());
    let priority =
        Match::default().with_masked(Field::VlanVid, 0x1000, 0x1000).with(Field::VlanPcp, 2);
    let untagged = Match::default().with(Field::VlanVid, 0);
    let cases = [
        (
            flow(
                tcp,
                vec![Action::SetVlanVid(3), Action::Output { port: Port::CONTROLLER, max_len: 64 }],
            ),
            "priority=7,tcp,in_port=LOCAL,nw_src=10.0.0.0/8,nw_tos=40,tp_dst=80 cookie:0x77 idle:5 hard:6 \
             send_flow_rem actions=mod_vlan_vid:3,CONTROLLER:64",
        ),
        (flow(priority, vec![Action::PopVlan]), "priority=7,dl_vlan_pcp=2 cookie:0x77"),
        (
            flow(untagged, vec![Action::Enqueue { port: Port(3), queue: 9 }]),
            "priority=7,vlan_tci=0x0000 cookie:0x77 idle:5 hard:6 send_flow_rem actions=enqueue:3:9",
        ),
        (
            flow(ip, vec![Action::SetNwTos(0xb8), Action::SetField(Field::Ipv4Dst, 0x0102_0304)]),
            "priority=7,ip cookie:0x77 idle:5 hard:6 send_flow_rem actions=mod_nw_tos:184,mod_nw_dst:1.2.3.4",
        ),
        (
            Message::RoleReply(RoleMsg { role: Role::Master, generation: 0 }),
            "NXT_ROLE_REPLY (xid=0xabcd): role=primary",
        ),
        (
            Message::Error(ErrorMsg { code: ErrorCode::FlowTableFull, data: vec![0; 64] }),
            "OFPFMFC_TABLE_FULL",
        ),
        (
            Message::SetConfig(SwitchConfig { fragments: Fragments::Drop, miss_send_len: 99 }),
            "frags=drop miss_send_len=99",
        ),
    ];
    for (body, meaning) in cases {
        let Some(said) = ofp_parse("meaning", &write(body)) else { return };
        assert!(said.contains(meaning), "{said}\nis not\n{meaning}");
    }
}
