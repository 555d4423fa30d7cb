//! OpenFlow 1.0 against os-ken: each message in `testdata/of10/vectors.txt` means what is written here,
//! and is written again byte by byte.

use std::collections::BTreeMap;
use weir_openflow::codec::{decode, encode};
use weir_openflow::model::*;

const A: u128 = 0x0200_0000_000a;
const B: u128 = 0x0200_0000_000b;
const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0x0a];

fn vectors() -> BTreeMap<&'static str, Vec<u8>> {
    let text = include_str!("../testdata/of10/vectors.txt");
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines.filter_map(|l| l.split_once(' ')).map(|(name, hex)| (name, bytes(hex))).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn any() -> Match {
    Match::default()
}

fn arp() -> Match {
    any()
        .with(Field::EthType, 0x0806)
        .with(Field::ArpOp, 2)
        .with(Field::ArpSpa, 0x0a00_0001)
        .with_masked(Field::ArpTpa, 0x0a00_0000, 0xffff_ff00)
}

fn prefixes() -> Match {
    any()
        .with(Field::EthType, 0x0800)
        .with_masked(Field::Ipv4Src, 0x0a01_0000, 0xffff_0000)
        .with_masked(Field::Ipv4Dst, 0x0a02_0300, 0xffff_ff80)
}

fn tcp() -> Match {
    any()
        .with(Field::InPort, Port::LOCAL.0.into())
        .with(Field::EthSrc, A)
        .with(Field::EthDst, B)
        .with(Field::VlanVid, 0x1001)
        .with(Field::VlanPcp, 0)
        .with(Field::EthType, 0x0800)
        .with(Field::IpDscp, 46)
        .with(Field::IpProto, 6)
        .with(Field::Ipv4Src, 0xc000_0201)
        .with(Field::Ipv4Dst, 0xc000_0202)
        .with(Field::TcpSrc, 1234)
        .with(Field::TcpDst, 80)
}

fn flow_mod(matcher: Match) -> FlowMod {
    FlowMod {
        cookie: 0x1122_3344_5566_7788,
        cookie_mask: 0,
        table: 0,
        command: FlowCommand::Add,
        idle_timeout: 10,
        hard_timeout: 300,
        priority: 0x8001,
        buffer_id: NO_BUFFER,
        out_port: Port::ANY,
        out_group: GROUP_ANY,
        flags: FlowFlags::default(),
        matcher,
        instructions: Vec::new(),
    }
}

fn output(port: Port, max_len: u16) -> Action {
    Action::Output { port, max_len }
}

fn actions() -> Vec<Action> {
    vec![
        output(Port(3), 0),
        output(Port::CONTROLLER, 128),
        Action::SetVlanVid(4094),
        Action::SetVlanPcp(7),
        Action::PopVlan,
        Action::SetField(Field::EthSrc, A),
        Action::SetField(Field::EthDst, B),
        Action::SetField(Field::Ipv4Src, 0xc000_0209),
        Action::SetField(Field::Ipv4Dst, 0xc633_6407),
        Action::SetNwTos(0xb8),
        Action::SetTpSrc(65535),
        Action::SetTpDst(1),
        Action::Enqueue { port: Port(2), queue: 0x0102_0304 },
        Action::Experimenter { experimenter: 0x00ab_cdef, data: vec![1, 2, 3, 4, 5, 6, 7, 8] },
        output(Port::IN_PORT, 0xffff),
    ]
}

fn apply(actions: Vec<Action>) -> Vec<Instruction> {
    vec![Instruction::Apply(actions)]
}

fn port(no: Port, name: &str) -> PortDesc {
    PortDesc {
        no,
        mac: MAC_A,
        name: name.into(),
        config: PortConfig(0),
        state: PortState(0),
        current: PortFeatures(0),
        advertised: PortFeatures::FD_1G | PortFeatures::AUTONEG,
        supported: PortFeatures(0x7f | 0x1f << 11),
        peer: PortFeatures::PAUSE,
        current_kbps: 0,
        max_kbps: 0,
    }
}

fn request(body: StatsRequest) -> Message {
    Message::StatsRequest { more: Part::Last, body }
}

fn reply(body: StatsReply) -> Message {
    Message::StatsReply { more: Part::Last, body }
}

fn filter(matcher: Match, table: u8, out_port: Port) -> FlowFilter {
    FlowFilter { table, out_port, out_group: GROUP_ANY, cookie: 0, cookie_mask: 0, matcher }
}

fn flow_entry(matcher: Match, instructions: Vec<Instruction>) -> FlowStats {
    FlowStats {
        table: 0,
        duration_sec: 5,
        duration_nsec: 6000,
        priority: 0x8000,
        idle_timeout: 60,
        hard_timeout: 0,
        flags: FlowFlags::default(),
        cookie: 0xcafe,
        packets: 12,
        bytes: 3456,
        matcher,
        instructions,
    }
}

fn expected_flow_mods() -> Vec<(&'static str, FlowMod)> {
    let one = || apply(vec![output(Port(3), 0)]);
    let command = |command| FlowMod { command, instructions: one(), ..flow_mod(any()) };
    let delete = |command| FlowMod { command, table: TABLE_ALL, ..flow_mod(any()) };
    let ip = any().with(Field::EthType, 0x0800);
    vec![
        ("flow_mod_any", flow_mod(any())),
        (
            "flow_mod_l2",
            flow_mod(
                any()
                    .with(Field::InPort, 7)
                    .with(Field::EthSrc, A)
                    .with(Field::EthDst, B)
                    .with(Field::EthType, 0x88cc),
            ),
        ),
        (
            "flow_mod_vlan",
            flow_mod(any().with(Field::VlanVid, 0x1000 | 100).with(Field::VlanPcp, 5)),
        ),
        ("flow_mod_vid", flow_mod(any().with(Field::VlanVid, 0x1fff))),
        ("flow_mod_untagged", flow_mod(any().with(Field::VlanVid, 0))),
        (
            "flow_mod_pcp",
            flow_mod(any().with_masked(Field::VlanVid, 0x1000, 0x1000).with(Field::VlanPcp, 3)),
        ),
        ("flow_mod_prefixes", flow_mod(prefixes())),
        ("flow_mod_tcp", flow_mod(tcp())),
        ("flow_mod_udp", flow_mod(ip.clone().with(Field::IpProto, 17).with(Field::UdpDst, 53))),
        (
            "flow_mod_icmp",
            flow_mod(
                ip.with(Field::IpProto, 1).with(Field::Icmpv4Type, 8).with(Field::Icmpv4Code, 0),
            ),
        ),
        ("flow_mod_arp", flow_mod(arp())),
        (
            "flow_mod_actions",
            FlowMod {
                buffer_id: 77,
                flags: FlowFlags::SEND_FLOW_REM,
                instructions: apply(actions()),
                ..flow_mod(any())
            },
        ),
        (
            "flow_mod_emergency",
            FlowMod { flags: FlowFlags::EMERG | FlowFlags::CHECK_OVERLAP, ..flow_mod(any()) },
        ),
        ("flow_mod_modify", command(FlowCommand::Modify)),
        ("flow_mod_modify_strict", command(FlowCommand::ModifyStrict)),
        ("flow_mod_delete", FlowMod { out_port: Port(9), ..delete(FlowCommand::Delete) }),
        ("flow_mod_delete_strict", delete(FlowCommand::DeleteStrict)),
    ]
}

fn expected_switch() -> Vec<(&'static str, Message)> {
    let features = Features {
        datapath_id: 0xaabb_ccdd_eeff,
        buffers: 256,
        tables: 1,
        auxiliary_id: 0,
        capabilities: Capabilities(0x67) | Capabilities::STP | Capabilities::ARP_MATCH_IP,
        actions: 0xfff,
        ports: vec![
            PortDesc {
                config: PortConfig::NO_FLOOD,
                state: PortState::LINK_DOWN,
                current: PortFeatures::FD_10G | PortFeatures::FIBER,
                ..port(Port(1), "eth1")
            },
            PortDesc {
                config: PortConfig::KNOWN,
                state: PortState(3 << 8),
                current: PortFeatures::COPPER,
                ..port(Port::LOCAL, "br0")
            },
            PortDesc { state: PortState(1 << 8), ..port(Port(0xff00), "aaaaaaaaaaaaaaa") },
        ],
    };
    vec![
        ("features_request", Message::FeaturesRequest),
        ("features_reply", Message::FeaturesReply(features)),
        ("get_config_request", Message::GetConfigRequest),
        (
            "get_config_reply",
            Message::GetConfigReply(SwitchConfig {
                fragments: Fragments::Drop,
                miss_send_len: 128,
            }),
        ),
        (
            "set_config",
            Message::SetConfig(SwitchConfig {
                fragments: Fragments::Reassemble,
                miss_send_len: 0xfffe,
            }),
        ),
        (
            "port_mod",
            Message::PortMod(PortMod {
                port: Port(3),
                mac: MAC_A,
                config: PortConfig::NO_FLOOD | PortConfig::DOWN,
                mask: PortConfig::NO_FLOOD | PortConfig::DOWN | PortConfig::NO_STP,
                advertise: PortFeatures::FD_1G | PortFeatures::AUTONEG,
            }),
        ),
        (
            "port_status",
            Message::PortStatus(PortStatus {
                reason: PortReason::Modify,
                desc: PortDesc {
                    config: PortConfig::DOWN,
                    state: PortState::LINK_DOWN,
                    ..port(Port(5), "veth5")
                },
            }),
        ),
        ("role_request", role(Role::Master, Message::RoleRequest)),
        ("role_reply", role(Role::Slave, Message::RoleReply)),
        ("barrier_request", Message::BarrierRequest),
        ("barrier_reply", Message::BarrierReply),
        ("queue_config_request", Message::QueueConfigRequest(Port(6))),
        (
            "queue_config_reply",
            Message::QueueConfigReply {
                port: Port(2),
                queues: vec![
                    QueueDesc {
                        id: 3,
                        port: Port(2),
                        properties: vec![QueueProperty::MinRate(250)],
                    },
                    QueueDesc { id: 4, port: Port(2), properties: Vec::new() },
                ],
            },
        ),
    ]
}

fn role(role: Role, message: fn(RoleMsg) -> Message) -> Message {
    message(RoleMsg { role, generation: 0 })
}

fn expected_packets() -> Vec<(&'static str, Message)> {
    vec![
        ("hello", Message::Hello { version: 1, bitmap: Vec::new() }),
        ("error", Message::Error(ErrorMsg { code: ErrorCode::FlowOverlap, data: vec![b'x'; 64] })),
        ("echo_request", Message::EchoRequest(b"ping".to_vec())),
        ("echo_reply", Message::EchoReply(b"ping".to_vec())),
        (
            "packet_in",
            Message::PacketIn(PacketIn {
                buffer_id: 256,
                total_len: 60,
                reason: PacketInReason::Action,
                table: 0,
                cookie: u64::MAX,
                matcher: any().with(Field::InPort, 2),
                data: b"the first bytes".to_vec(),
            }),
        ),
        (
            "packet_out",
            Message::PacketOut(PacketOut {
                buffer_id: NO_BUFFER,
                in_port: Port(4),
                actions: actions(),
                data: b"a frame".to_vec(),
            }),
        ),
        (
            "packet_out_buffered",
            Message::PacketOut(PacketOut {
                buffer_id: 5,
                in_port: Port::ANY,
                actions: vec![output(Port(3), 0)],
                data: Vec::new(),
            }),
        ),
        (
            "flow_removed",
            Message::FlowRemoved(FlowRemoved {
                cookie: 0xfeed,
                priority: 100,
                reason: RemovedReason::HardTimeout,
                table: 0,
                duration_sec: 9,
                duration_nsec: 10,
                idle_timeout: 11,
                hard_timeout: 0,
                packets: 12,
                bytes: 1300,
                matcher: tcp(),
            }),
        ),
    ]
}

fn expected_stats() -> Vec<(&'static str, Message)> {
    let desc = SwitchDesc {
        manufacturer: "made".into(),
        hardware: "hard".into(),
        software: "soft".into(),
        serial: "serial".into(),
        datapath: "path".into(),
    };
    let table = TableStats {
        table: 0,
        name: "only".into(),
        max_entries: 1_000_000,
        active: 5,
        lookups: 6,
        matched: 7,
    };
    let port = PortStats {
        port: Port::LOCAL,
        rx_packets: 1,
        tx_packets: 2,
        rx_bytes: 3,
        tx_bytes: 4,
        rx_dropped: 5,
        tx_dropped: 6,
        rx_errors: 7,
        tx_errors: 8,
        rx_frame_err: 9,
        rx_over_err: 10,
        rx_crc_err: 11,
        collisions: u64::MAX,
        ..PortStats::default()
    };
    let queue = QueueStats {
        port: Port(1),
        queue: 2,
        tx_bytes: 3,
        tx_packets: 4,
        tx_errors: 5,
        ..QueueStats::default()
    };
    vec![
        ("desc_request", request(StatsRequest::Desc)),
        ("desc_reply", reply(StatsReply::Desc(desc))),
        ("flow_request", request(StatsRequest::Flow(filter(arp(), TABLE_ALL, Port::ANY)))),
        (
            "flow_reply",
            Message::StatsReply {
                more: Part::More,
                body: StatsReply::Flow(vec![
                    flow_entry(prefixes(), apply(actions())),
                    flow_entry(any(), Vec::new()),
                ]),
            },
        ),
        ("aggregate_request", request(StatsRequest::Aggregate(filter(tcp(), 0, Port(2))))),
        (
            "aggregate_reply",
            reply(StatsReply::Aggregate(Aggregate { packets: 1, bytes: 2, flows: 3 })),
        ),
        ("table_request", request(StatsRequest::Table)),
        ("table_reply", reply(StatsReply::Table(vec![table]))),
        ("port_request", request(StatsRequest::Port(Port::ANY))),
        ("port_reply", reply(StatsReply::Port(vec![port]))),
        ("queue_request", request(StatsRequest::Queue { port: Port::ANY, queue: QUEUE_ALL })),
        ("queue_request_one", request(StatsRequest::Queue { port: Port(1), queue: 2 })),
        ("queue_reply", reply(StatsReply::Queue(vec![queue]))),
    ]
}

#[test]
fn as_os_ken_does() {
    let mut vectors = vectors();
    let flow_mods = expected_flow_mods().into_iter().map(|(n, f)| (n, Message::FlowMod(f)));
    let rest = expected_switch().into_iter().chain(expected_packets()).chain(expected_stats());
    for (name, body) in flow_mods.chain(rest) {
        let golden = vectors.remove(name).unwrap_or_else(|| panic!("no vector {name}"));
        let msg = Msg { xid: 0x0102_0304, body };
        assert_eq!(decode(Version::V10, &golden).as_ref(), Ok(&msg), "{name} is read");
        let mut written = Vec::new();
        encode(Version::V10, &msg, &mut written).unwrap();
        assert_eq!(written, golden, "{name} is written");
    }
    assert!(vectors.is_empty(), "not looked at: {:?}", vectors.keys());
}
