//! Random messages that 1.3 can say.

mod stats;

use proptest::collection::vec;
use proptest::prelude::*;
use weir_openflow::model::*;

pub use stats::flow_stats;
use stats::{any_reply, any_request};

/// A match: of some fields, each that whose prerequisites can be had beside the others.
pub fn any_match() -> BoxedStrategy<Match> {
    vec((0..Field::COUNT as u8, any::<u128>(), any::<u128>(), any::<bool>()), 0..8)
        .prop_map(|wishes| {
            let mut matcher = Match::default();
            for (number, value, mask, exact) in wishes {
                let field = Field::from_number(number).unwrap();
                if matcher.get(field).is_none() {
                    matcher = demand(matcher, field, value, mask, exact);
                }
            }
            matcher
        })
        .boxed()
}

fn demand(matcher: Match, field: Field, value: u128, mask: u128, exact: bool) -> Match {
    let Some(matcher) = provide(matcher, field.prerequisite()) else { return Match::default() };
    let full = field.full();
    let mut value = value & full;
    if exact || !field.maskable() {
        match field {
            Field::VlanVid => value |= u128::from(VLAN_PRESENT),
            Field::InPort => value = value & 0x7fff_ffff | 1,
            _ => {}
        }
        return matcher.with(field, value);
    }
    match mask & full {
        0 => matcher,
        mask if mask == full && field == Field::VlanVid => matcher,
        mask => matcher.with_masked(field, value, mask),
    }
}

/// Adds what is needed; `None` where the match demands otherwise.
fn provide(matcher: Match, needs: Prerequisite) -> Option<Match> {
    if needs.met_by(&matcher) {
        return Some(matcher);
    }
    let fresh = |m: Match, field: Field, value: u128| {
        m.get(field).is_none().then(|| m.clone().with(field, value))
    };
    let eth = |m: Match, types: &[u16]| match m.get(Field::EthType) {
        Some(e) => types.iter().any(|t| u128::from(*t) == e.value).then_some(m),
        None => fresh(m, Field::EthType, types[0].into()),
    };
    let made = match needs {
        Prerequisite::None => Some(matcher),
        Prerequisite::InPort => fresh(matcher, Field::InPort, 1),
        Prerequisite::VlanTag => fresh(matcher, Field::VlanVid, 0x1000),
        Prerequisite::EthType(types) => eth(matcher, types),
        Prerequisite::IpProto(types, proto) => {
            eth(matcher, types).and_then(|m| fresh(m, Field::IpProto, proto.into()))
        }
        Prerequisite::Icmpv6Type(types) => provide(matcher, Field::Icmpv6Type.prerequisite())
            .and_then(|m| fresh(m, Field::Icmpv6Type, types[0].into())),
        other => panic!("{other:?} is new"),
    };
    made.filter(|m| needs.met_by(m))
}

fn any_port() -> BoxedStrategy<Port> {
    prop_oneof![
        (1..100u32).prop_map(Port),
        Just(Port::IN_PORT),
        Just(Port::ALL),
        Just(Port::CONTROLLER),
        Just(Port::LOCAL),
    ]
    .boxed()
}

fn any_action() -> BoxedStrategy<Action> {
    prop_oneof![
        (any_port(), any::<u16>()).prop_map(|(port, max_len)| Action::Output { port, max_len }),
        any::<u32>().prop_map(Action::SetQueue),
        (0..GROUP_MAX).prop_map(Action::Group),
        (any::<u128>(), 0..Field::COUNT as u8).prop_map(|(value, n)| set_field(n, value)),
        prop_oneof![Just(0x8100), Just(0x88a8)].prop_map(Action::PushVlan),
        prop_oneof![Just(0x8847), Just(0x8848)].prop_map(Action::PushMpls),
        any::<u16>().prop_map(Action::PopMpls),
        any::<u8>().prop_map(Action::SetNwTtl),
        any::<u8>().prop_map(Action::SetMplsTtl),
        prop_oneof![
            Just(Action::PopVlan),
            Just(Action::PushPbb(0x88e7)),
            Just(Action::PopPbb),
            Just(Action::DecNwTtl),
            Just(Action::DecMplsTtl),
            Just(Action::CopyTtlIn),
            Just(Action::CopyTtlOut),
        ],
        (any::<u32>(), 0..3usize).prop_map(|(experimenter, n)| Action::Experimenter {
            experimenter,
            data: vec![7; 8 * n]
        }),
    ]
    .boxed()
}

fn set_field(number: u8, value: u128) -> Action {
    let field = Field::from_number(number).unwrap();
    if !field.settable() {
        return Action::SetField(Field::TunnelId, value & Field::TunnelId.full());
    }
    let present = if field == Field::VlanVid { u128::from(VLAN_PRESENT) } else { 0 };
    Action::SetField(field, value & field.full() | present)
}

fn any_actions() -> BoxedStrategy<Vec<Action>> {
    vec(any_action(), 0..6).boxed()
}

/// In the order in which they are kept; set-fields only such as need nothing of the match.
fn any_instructions() -> BoxedStrategy<Vec<Instruction>> {
    let unconditional = || {
        any_actions().prop_map(|mut list| {
            list.retain(|a| match a {
                Action::SetField(field, _) => field.prerequisite() == Prerequisite::None,
                _ => true,
            });
            list
        })
    };
    use prop::option::of as one;
    (
        one((1..METER_MAX).prop_map(Instruction::Meter)),
        one(unconditional().prop_map(Instruction::Apply)),
        one(Just(Instruction::Clear)),
        one(unconditional().prop_map(Instruction::Write)),
        one(any::<(u64, u64)>()
            .prop_map(|(value, mask)| Instruction::WriteMetadata { value, mask })),
        one((any::<u32>(), 0..2usize).prop_map(|(experimenter, n)| Instruction::Experimenter {
            experimenter,
            data: vec![1; 8 * n],
        })),
        one((200..=TABLE_MAX).prop_map(Instruction::GotoTable)),
    )
        .prop_map(|(a, b, c, d, e, f, g)| [a, b, c, d, e, f, g].into_iter().flatten().collect())
        .boxed()
}

fn any_flow_mod() -> BoxedStrategy<Message> {
    let command = prop::sample::select(vec![
        FlowCommand::Add,
        FlowCommand::Modify,
        FlowCommand::ModifyStrict,
        FlowCommand::Delete,
        FlowCommand::DeleteStrict,
    ]);
    (any::<[u64; 2]>(), any::<[u16; 3]>(), any::<[u32; 3]>(), 0..200u8, command, 0..32u32)
        .prop_flat_map(|(cookies, shorts, longs, table, command, flags)| {
            (any_match(), any_instructions()).prop_map(move |(matcher, instructions)| {
                Message::FlowMod(FlowMod {
                    cookie: cookies[0],
                    cookie_mask: cookies[1],
                    table,
                    command,
                    idle_timeout: shorts[0],
                    hard_timeout: shorts[1],
                    priority: shorts[2],
                    buffer_id: longs[0],
                    out_port: Port(longs[1]),
                    out_group: longs[2],
                    flags: FlowFlags(flags),
                    matcher,
                    instructions,
                })
            })
        })
        .boxed()
}

fn any_bucket() -> BoxedStrategy<Bucket> {
    (1..9u16, 1..9u32, any_actions())
        .prop_map(|(weight, port, actions)| Bucket {
            weight,
            watch_port: Port(port),
            watch_group: GROUP_ANY,
            actions,
        })
        .boxed()
}

fn any_band() -> BoxedStrategy<Band> {
    let kind = prop_oneof![
        Just(BandKind::Drop),
        any::<u8>().prop_map(BandKind::DscpRemark),
        any::<u32>().prop_map(BandKind::Experimenter),
    ];
    (any::<u32>(), any::<u32>(), kind)
        .prop_map(|(rate, burst, kind)| Band { rate, burst, kind })
        .boxed()
}

fn any_group() -> BoxedStrategy<Message> {
    let kind = prop::sample::select(vec![
        GroupKind::All,
        GroupKind::Select,
        GroupKind::Indirect,
        GroupKind::FastFailover,
    ]);
    (kind, 0..GROUP_MAX, vec(any_bucket(), 1..4))
        .prop_map(|(kind, id, mut buckets)| {
            if kind != GroupKind::Select {
                buckets.iter_mut().for_each(|b| b.weight = 0);
            }
            if kind == GroupKind::Indirect {
                buckets.truncate(1);
            }
            Message::GroupMod(GroupMod { command: GroupCommand::Add, kind, id, buckets })
        })
        .boxed()
}

fn any_port_desc() -> BoxedStrategy<PortDesc> {
    (any::<[u32; 8]>(), any::<[u8; 6]>(), "[a-zé]{0,7}")
        .prop_map(|(n, mac, name)| PortDesc {
            no: Port(n[7]),
            mac,
            name,
            config: PortConfig(n[0] & 0x65),
            state: PortState(n[1]),
            current: PortFeatures(n[2]),
            advertised: PortFeatures(n[3]),
            supported: PortFeatures(n[4]),
            peer: PortFeatures(n[5]),
            current_kbps: n[6],
            max_kbps: n[0] ^ n[6],
        })
        .boxed()
}

/// What a switch or a controller may say of itself.
fn any_small() -> BoxedStrategy<Message> {
    let role = prop::sample::select(vec![Role::NoChange, Role::Equal, Role::Master, Role::Slave]);
    let role = (role, any::<u64>()).prop_map(|(role, generation)| RoleMsg { role, generation });
    let fragments =
        prop::sample::select(vec![Fragments::Normal, Fragments::Drop, Fragments::Reassemble]);
    let config = (fragments, any::<u16>())
        .prop_map(|(fragments, miss_send_len)| SwitchConfig { fragments, miss_send_len });
    let asynchronous = any::<[[u32; 2]; 3]>().prop_map(|n| AsyncConfig {
        packet_in: n[0],
        port_status: n[1],
        flow_removed: n[2],
    });
    prop_oneof![
        prop::sample::select(vec![
            Message::FeaturesRequest,
            Message::GetConfigRequest,
            Message::BarrierRequest,
            Message::BarrierReply,
            Message::GetAsyncRequest,
        ]),
        vec(any::<u8>(), 0..99).prop_map(Message::EchoRequest),
        vec(any::<u8>(), 0..99).prop_map(Message::EchoReply),
        vec(any::<u32>(), 0..4).prop_map(|bitmap| Message::Hello { version: 4, bitmap }),
        role.prop_flat_map(|r| prop_oneof![
            Just(Message::RoleRequest(r)),
            Just(Message::RoleReply(r))
        ]),
        config.prop_flat_map(|c| prop_oneof![
            Just(Message::SetConfig(c)),
            Just(Message::GetConfigReply(c))
        ]),
        asynchronous.prop_flat_map(|a| prop_oneof![
            Just(Message::SetAsync(a)),
            Just(Message::GetAsyncReply(a))
        ]),
        any::<(u64, u32, u8, u32)>().prop_map(|(datapath_id, buffers, tables, bits)| {
            Message::FeaturesReply(Features {
                datapath_id,
                buffers,
                tables,
                auxiliary_id: tables ^ 1,
                capabilities: Capabilities(bits),
                actions: 0,
                ports: vec![],
            })
        }),
        (any::<u8>(), 0..4u32).prop_map(|(table, config)| Message::TableMod { table, config }),
        any::<u32>().prop_map(|n| Message::QueueConfigRequest(Port(n))),
        vec(any::<(u32, u16, u16)>(), 0..5).prop_map(|rows| Message::QueueConfigReply {
            port: Port(7),
            queues: rows
                .into_iter()
                .map(|(id, min, max)| QueueDesc {
                    id,
                    port: Port(7),
                    properties: vec![QueueProperty::MinRate(min), QueueProperty::MaxRate(max)],
                })
                .collect(),
        }),
        (any::<(u32, u32)>(), vec(any::<u8>(), 0..40)).prop_map(|((experimenter, kind), data)| {
            Message::Experimenter { experimenter, kind, data }
        }),
        (any::<u32>(), any::<[u8; 6]>(), 0..0x8000u32).prop_map(|(port, mac, bits)| {
            Message::PortMod(PortMod {
                port: Port(port),
                mac,
                config: PortConfig(bits & 0x65),
                mask: PortConfig(!bits & 0x65),
                advertise: PortFeatures(bits),
            })
        }),
    ]
    .boxed()
}

fn any_packet() -> BoxedStrategy<Message> {
    let reason = prop::sample::select(vec![
        PacketInReason::NoMatch,
        PacketInReason::Action,
        PacketInReason::InvalidTtl,
    ]);
    let data = || vec(any::<u8>(), 0..200);
    prop_oneof![
        (any::<(u32, u16, u8, u64)>(), reason, any_match(), data()).prop_map(
            |((buffer_id, total_len, table, cookie), reason, matcher, data)| {
                Message::PacketIn(PacketIn {
                    buffer_id,
                    total_len,
                    reason,
                    table,
                    cookie,
                    matcher,
                    data,
                })
            }
        ),
        (any::<u32>(), 1..99u32, any_actions(), data()).prop_map(
            |(buffer_id, port, actions, data)| {
                Message::PacketOut(PacketOut { buffer_id, in_port: Port(port), actions, data })
            }
        ),
    ]
    .boxed()
}

fn any_removed() -> BoxedStrategy<Message> {
    let reason = prop::sample::select(vec![
        RemovedReason::IdleTimeout,
        RemovedReason::HardTimeout,
        RemovedReason::Delete,
        RemovedReason::GroupDelete,
    ]);
    (any::<[u64; 3]>(), any::<[u32; 2]>(), any::<[u16; 3]>(), reason, any_match())
        .prop_map(|(n, duration, shorts, reason, matcher)| {
            Message::FlowRemoved(FlowRemoved {
                cookie: n[0],
                priority: shorts[0],
                reason,
                table: shorts[0] as u8,
                duration_sec: duration[0],
                duration_nsec: duration[1],
                idle_timeout: shorts[1],
                hard_timeout: shorts[2],
                packets: n[1],
                bytes: n[2],
                matcher,
            })
        })
        .boxed()
}

/// Any message but an error, which the numbers' test covers.
pub fn any_message() -> BoxedStrategy<Message> {
    let part = prop::sample::select(vec![Part::Last, Part::More]);
    let reason =
        prop::sample::select(vec![PortReason::Add, PortReason::Delete, PortReason::Modify]);
    prop_oneof![
        4 => any_flow_mod(),
        2 => any_group(),
        1 => (1..METER_MAX, 0..3u16, vec(any_band(), 0..4)).prop_map(|(id, flags, bands)| {
            Message::MeterMod(MeterMod {
                command: MeterCommand::Modify,
                flags: MeterFlags(flags << 2 | 1),
                id,
                bands,
            })
        }),
        3 => any_small(),
        2 => any_packet(),
        1 => any_removed(),
        1 => (reason, any_port_desc())
            .prop_map(|(reason, desc)| Message::PortStatus(PortStatus { reason, desc })),
        3 => (any_request(), part.clone())
            .prop_map(|(body, more)| Message::StatsRequest { more, body }),
        4 => (any_reply(), part).prop_map(|(body, more)| Message::StatsReply { more, body }),
    ]
    .boxed()
}
