//! Random messages of the model that OpenFlow 1.0 can say, in the form in which it says them.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use weir_openflow::model::*;

/// Ports that exist or have a meaning.
pub fn port() -> impl Strategy<Value = Port> {
    prop_oneof![(1..=0xff00_u32).prop_map(Port), (0xffff_fff8..=u32::MAX).prop_map(Port)]
}

fn text(longest: usize) -> impl Strategy<Value = String> {
    vec(select(('a'..='z').collect::<Vec<_>>()), 0..longest)
        .prop_map(|chars| chars.into_iter().collect())
}

fn bits(known: u32) -> impl Strategy<Value = u32> {
    any::<u32>().prop_map(move |n| n & known)
}

fn prefix(m: Match, field: Field, value: u32, length: u32) -> Match {
    let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
    if mask == 0 { m } else { m.with_masked(field, value.into(), mask.into()) }
}

fn exact<T: Into<u128>>(m: Match, field: Field, value: Option<T>) -> Match {
    match value {
        Some(value) => m.with(field, value.into()),
        None => m,
    }
}

fn layer2() -> impl Strategy<Value = Match> {
    let mac = || option::of(any::<u64>().prop_map(|n| n >> 16));
    let vlan = prop_oneof![
        Just(Match::default()),
        Just(Match::default().with(Field::VlanVid, 0)),
        (0..8_u8).prop_map(|pcp| Match::default()
            .with_masked(Field::VlanVid, 0x1000, 0x1000)
            .with(Field::VlanPcp, pcp.into())),
        (0..4096_u16, option::of(0..8_u8)).prop_map(|(vid, pcp)| {
            let tagged = Match::default().with(Field::VlanVid, u128::from(0x1000 | vid));
            exact(tagged, Field::VlanPcp, pcp)
        }),
    ];
    (option::of(port()), mac(), mac(), vlan).prop_map(|(port, source, target, vlan)| {
        let m = exact(vlan, Field::InPort, port.map(|p| p.0));
        exact(exact(m, Field::EthSrc, source), Field::EthDst, target)
    })
}

/// Matches, normalised.
pub fn matcher() -> impl Strategy<Value = Match> {
    let addresses = (any::<u32>(), 0..=32_u32, any::<u32>(), 0..=32_u32);
    let transport = (option::of(any::<u16>()), option::of(any::<u16>()));
    let upper = (option::of(any::<u8>()), option::of(0..64_u8), addresses, transport);
    let kind = option::of(select(vec![0x0800_u16, 0x0806, 0x86dd, 0x88cc]));
    let proto = option::of(prop_oneof![select(vec![1_u8, 6, 17, 58, 132]), any::<u8>()]);
    (layer2(), kind, proto, upper).prop_map(
        |(m, kind, proto, (op, dscp, (s, sl, d, dl), (ts, td)))| {
            let m = exact(m, Field::EthType, kind);
            match kind {
                Some(0x0806) => {
                    let m = exact(m, Field::ArpOp, op);
                    prefix(prefix(m, Field::ArpSpa, s, sl), Field::ArpTpa, d, dl)
                }
                Some(kind @ (0x0800 | 0x86dd)) => {
                    let m = exact(exact(m, Field::IpDscp, dscp), Field::IpProto, proto);
                    let m = match kind {
                        0x0800 => prefix(prefix(m, Field::Ipv4Src, s, sl), Field::Ipv4Dst, d, dl),
                        _ => m,
                    };
                    let (source, target) = match proto {
                        Some(1) if kind == 0x0800 => (Field::Icmpv4Type, Field::Icmpv4Code),
                        Some(58) if kind == 0x86dd => (Field::Icmpv6Type, Field::Icmpv6Code),
                        Some(6) => (Field::TcpSrc, Field::TcpDst),
                        Some(17) => (Field::UdpSrc, Field::UdpDst),
                        Some(132) => (Field::SctpSrc, Field::SctpDst),
                        _ => return m,
                    };
                    let within = |p: Option<u16>| p.map(|p| u128::from(p) & source.full());
                    exact(exact(m, source, within(ts)), target, within(td))
                }
                _ => m,
            }
        },
    )
}

/// Actions; ports are such as a switch takes in a flow.
pub fn action() -> impl Strategy<Value = Action> {
    let out = || {
        prop_oneof![
            (1..0xff00_u32).prop_map(Port),
            select(vec![Port::IN_PORT, Port::NORMAL, Port::FLOOD, Port::ALL, Port::LOCAL]),
        ]
    };
    prop_oneof![
        (out(), any::<u16>()).prop_map(|(port, max_len)| Action::Output { port, max_len }),
        any::<u16>().prop_map(|max_len| Action::Output { port: Port::CONTROLLER, max_len }),
        (0..4096_u16).prop_map(Action::SetVlanVid),
        (0..8_u8).prop_map(Action::SetVlanPcp),
        Just(Action::PopVlan),
        any::<u64>().prop_map(|n| Action::SetField(Field::EthSrc, u128::from(n >> 16))),
        any::<u64>().prop_map(|n| Action::SetField(Field::EthDst, u128::from(n >> 16))),
        any::<u32>().prop_map(|n| Action::SetField(Field::Ipv4Src, n.into())),
        any::<u32>().prop_map(|n| Action::SetField(Field::Ipv4Dst, n.into())),
        (0..64_u8).prop_map(|dscp| Action::SetNwTos(dscp << 2)),
        any::<u16>().prop_map(Action::SetTpSrc),
        any::<u16>().prop_map(Action::SetTpDst),
        (1..0xff00_u32, any::<u32>())
            .prop_map(|(port, queue)| Action::Enqueue { port: Port(port), queue }),
    ]
}

fn instructions() -> impl Strategy<Value = Vec<Instruction>> {
    vec(action(), 0..6)
        .prop_map(|a| if a.is_empty() { Vec::new() } else { vec![Instruction::Apply(a)] })
}

fn flow_mod() -> impl Strategy<Value = Message> {
    let commands = vec![
        FlowCommand::Add,
        FlowCommand::Modify,
        FlowCommand::ModifyStrict,
        FlowCommand::Delete,
        FlowCommand::DeleteStrict,
    ];
    // No emergency flag: Open vSwitch refuses it.
    let head = (select(commands), any::<u64>(), any::<[u16; 3]>(), any::<u32>(), 0..4_u32);
    (head, port(), matcher(), instructions()).prop_map(
        |(
            (command, cookie, [idle_timeout, hard_timeout, priority], buffer_id, flags),
            out_port,
            matcher,
            instructions,
        )| {
            let delete = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
            Message::FlowMod(FlowMod {
                cookie,
                cookie_mask: 0,
                table: if delete { TABLE_ALL } else { 0 },
                command,
                idle_timeout,
                hard_timeout,
                priority,
                buffer_id,
                out_port,
                out_group: GROUP_ANY,
                flags: FlowFlags(flags),
                matcher,
                instructions,
            })
        },
    )
}

fn port_desc() -> impl Strategy<Value = PortDesc> {
    let features = || bits(0xf87f).prop_map(PortFeatures);
    let features = (features(), features(), features(), features());
    let what = (port(), any::<[u8; 6]>(), text(16));
    (what, bits(0x7f), bits(0x301), features).prop_map(
        |((no, mac, name), config, state, (current, advertised, supported, peer))| PortDesc {
            no,
            mac,
            name,
            config: PortConfig(config),
            state: PortState(state),
            current,
            advertised,
            supported,
            peer,
            current_kbps: 0,
            max_kbps: 0,
        },
    )
}

fn about_switch() -> impl Strategy<Value = Message> {
    let features = (any::<u64>(), any::<u32>(), any::<u8>(), bits(0x0003_0067), any::<u32>());
    let port_mod = (port(), any::<[u8; 6]>(), bits(0x7f), bits(0x7f), bits(0xf87f));
    let status =
        (select(vec![PortReason::Add, PortReason::Delete, PortReason::Modify]), port_desc());
    let fragments = select(vec![Fragments::Normal, Fragments::Drop, Fragments::Reassemble]);
    let role = select(vec![Role::Equal, Role::Master, Role::Slave])
        .prop_map(|role| RoleMsg { role, generation: 0 });
    let config = (fragments, any::<u16>())
        .prop_map(|(fragments, miss_send_len)| SwitchConfig { fragments, miss_send_len });
    prop_oneof![
        (features, vec(port_desc(), 0..4)).prop_map(
            |((id, buffers, tables, can, actions), ports)| {
                Message::FeaturesReply(Features {
                    datapath_id: id,
                    buffers,
                    tables,
                    auxiliary_id: 0,
                    capabilities: Capabilities(can),
                    actions,
                    ports,
                })
            }
        ),
        port_mod.prop_map(|(port, mac, config, mask, advertise)| Message::PortMod(PortMod {
            port,
            mac,
            config: PortConfig(config),
            mask: PortConfig(mask),
            advertise: PortFeatures(advertise),
        })),
        status.prop_map(|(reason, desc)| Message::PortStatus(PortStatus { reason, desc })),
        config.clone().prop_map(Message::SetConfig),
        config.prop_map(Message::GetConfigReply),
        role.clone().prop_map(Message::RoleRequest),
        role.prop_map(Message::RoleReply),
        (1..0xff00_u32).prop_map(|n| Message::QueueConfigRequest(Port(n))),
        (port(), vec((any::<u32>(), option::of(0..1001_u16)), 0..5)).prop_map(|(port, queues)| {
            let queue = |(id, rate): (u32, Option<u16>)| QueueDesc {
                id,
                port,
                properties: rate.map(QueueProperty::MinRate).into_iter().collect(),
            };
            Message::QueueConfigReply { port, queues: queues.into_iter().map(queue).collect() }
        }),
        select(vec![
            Message::FeaturesRequest,
            Message::GetConfigRequest,
            Message::BarrierRequest,
            Message::BarrierReply,
        ]),
    ]
}

fn packets() -> impl Strategy<Value = Message> {
    let data = || vec(any::<u8>(), 0..80);
    let reason = select(vec![PacketInReason::NoMatch, PacketInReason::Action]);
    let removed =
        select(vec![RemovedReason::IdleTimeout, RemovedReason::HardTimeout, RemovedReason::Delete]);
    let numbers = (any::<[u64; 3]>(), any::<[u32; 2]>(), any::<[u16; 2]>());
    prop_oneof![
        (any::<u32>(), any::<u16>(), port(), reason, data()).prop_map(
            |(buffer_id, total_len, port, reason, data)| Message::PacketIn(PacketIn {
                buffer_id,
                total_len,
                reason,
                table: 0,
                cookie: u64::MAX,
                matcher: Match::default().with(Field::InPort, port.0.into()),
                data,
            })
        ),
        (1..0xff00_u32, vec(action(), 0..4), data()).prop_map(|(port, actions, data)| {
            Message::PacketOut(PacketOut {
                buffer_id: NO_BUFFER,
                in_port: Port(port),
                actions,
                data,
            })
        }),
        (removed, numbers, matcher()).prop_map(
            |(reason, ([cookie, packets, bytes], durations, [priority, idle]), matcher)| {
                Message::FlowRemoved(FlowRemoved {
                    cookie,
                    priority,
                    reason,
                    table: 0,
                    duration_sec: durations[0],
                    duration_nsec: durations[1],
                    idle_timeout: idle,
                    hard_timeout: 0,
                    packets,
                    bytes,
                    matcher,
                })
            }
        ),
        data().prop_map(Message::EchoRequest),
        data().prop_map(Message::EchoReply),
    ]
}

fn flow_stats() -> impl Strategy<Value = FlowStats> {
    (
        any::<u8>(),
        any::<[u32; 2]>(),
        any::<[u16; 3]>(),
        any::<[u64; 3]>(),
        matcher(),
        instructions(),
    )
        .prop_map(
            |(
                table,
                [sec, nsec],
                [priority, idle, hard],
                [cookie, packets, bytes],
                matcher,
                instructions,
            )| {
                FlowStats {
                    table,
                    duration_sec: sec,
                    duration_nsec: nsec,
                    priority,
                    idle_timeout: idle,
                    hard_timeout: hard,
                    flags: FlowFlags::default(),
                    cookie,
                    packets,
                    bytes,
                    matcher,
                    instructions,
                }
            },
        )
}

fn stats_request() -> impl Strategy<Value = StatsRequest> {
    let filter = || {
        (matcher(), any::<u8>(), port()).prop_map(|(matcher, table, out_port)| FlowFilter {
            table,
            out_port,
            out_group: GROUP_ANY,
            cookie: 0,
            cookie_mask: 0,
            matcher,
        })
    };
    prop_oneof![
        select(vec![StatsRequest::Desc, StatsRequest::Table]),
        filter().prop_map(StatsRequest::Flow),
        filter().prop_map(StatsRequest::Aggregate),
        port().prop_map(StatsRequest::Port),
        // 1.0's ALL and NONE are both "any" here, and it is written as ALL.
        (port().prop_filter("one form", |p| *p != Port::ALL), any::<u32>())
            .prop_map(|(port, queue)| StatsRequest::Queue { port, queue }),
    ]
}

fn stats_reply() -> impl Strategy<Value = StatsReply> {
    let table = (any::<u8>(), text(32), any::<[u32; 2]>(), any::<[u64; 2]>()).prop_map(
        |(table, name, [max_entries, active], [lookups, matched])| TableStats {
            table,
            name,
            max_entries,
            active,
            lookups,
            matched,
        },
    );
    let port_stats = (port(), any::<[u64; 12]>()).prop_map(|(port, n)| PortStats {
        port,
        rx_packets: n[0],
        tx_packets: n[1],
        rx_bytes: n[2],
        tx_bytes: n[3],
        rx_dropped: n[4],
        tx_dropped: n[5],
        rx_errors: n[6],
        tx_errors: n[7],
        rx_frame_err: n[8],
        rx_over_err: n[9],
        rx_crc_err: n[10],
        collisions: n[11],
        ..PortStats::default()
    });
    let queue = (port(), any::<u32>(), any::<[u64; 3]>()).prop_map(|(port, queue, n)| QueueStats {
        port,
        queue,
        tx_bytes: n[0],
        tx_packets: n[1],
        tx_errors: n[2],
        ..QueueStats::default()
    });
    let desc = [text(256), text(256), text(256), text(32), text(256)];
    prop_oneof![
        desc.prop_map(|[manufacturer, hardware, software, serial, datapath]| {
            StatsReply::Desc(SwitchDesc { manufacturer, hardware, software, serial, datapath })
        }),
        vec(flow_stats(), 0..5).prop_map(StatsReply::Flow),
        (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(packets, bytes, flows)| {
            StatsReply::Aggregate(Aggregate { packets, bytes, flows })
        }),
        vec(table, 0..4).prop_map(StatsReply::Table),
        vec(port_stats, 0..4).prop_map(StatsReply::Port),
        vec(queue, 0..4).prop_map(StatsReply::Queue),
    ]
}

/// Any of them.
pub fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        3 => flow_mod(),
        2 => about_switch(),
        2 => packets(),
        1 => stats_request().prop_map(|body| Message::StatsRequest { more: Part::Last, body }),
        2 => (select(vec![Part::Last, Part::More]), stats_reply())
            .prop_map(|(more, body)| Message::StatsReply { more, body }),
    ]
}
