//! Random multipart requests and replies.

use proptest::collection::vec;
use proptest::prelude::*;
use weir_openflow::model::*;

use super::{any_band, any_bucket, any_match, any_port_desc};

/// A flow of a reply, told from others by `n`.
pub fn flow_stats(n: u64) -> FlowStats {
    FlowStats {
        table: 1,
        duration_sec: 2,
        duration_nsec: 3,
        priority: 4,
        idle_timeout: 5,
        hard_timeout: 6,
        flags: FlowFlags::SEND_FLOW_REM,
        cookie: n,
        packets: n * 3,
        bytes: n * 4,
        matcher: Match::default().with(Field::EthDst, n.into()),
        instructions: vec![Instruction::Apply(vec![Action::Output {
            port: Port(1),
            max_len: (n % 7) as u16,
        }])],
    }
}

fn any_field() -> BoxedStrategy<Field> {
    (0..Field::COUNT as u8).prop_map(|n| Field::from_number(n).unwrap()).boxed()
}

fn any_table_features() -> BoxedStrategy<TableFeatures> {
    let entries = || prop::sample::select(vec![Entries::Regular, Entries::Miss]);
    let ids = || vec(0..30u16, 0..9);
    let maskable = prop::sample::select(vec![Maskable::No, Maskable::Yes]);
    let fields = || vec(any_field(), 0..9);
    use TableProperty as P;
    let property = prop_oneof![
        (entries(), ids()).prop_map(|(e, i)| P::Instructions(e, i)),
        (entries(), vec(any::<u8>(), 0..20)).prop_map(|(e, i)| P::NextTables(e, i)),
        (entries(), ids()).prop_map(|(e, i)| P::WriteActions(e, i)),
        (entries(), ids()).prop_map(|(e, i)| P::ApplyActions(e, i)),
        vec((any_field(), maskable), 0..9).prop_map(P::Match),
        fields().prop_map(P::Wildcards),
        (entries(), fields()).prop_map(|(e, f)| P::WriteSetField(e, f)),
        (entries(), fields()).prop_map(|(e, f)| P::ApplySetField(e, f)),
        (entries(), any::<(u32, u32)>(), vec(any::<u8>(), 0..9))
            .prop_map(|(e, (a, b), d)| P::Experimenter(e, a, b, d)),
    ];
    (any::<u8>(), any::<[u64; 2]>(), any::<[u32; 2]>(), "[a-z]{0,31}", vec(property, 0..6))
        .prop_map(|(table, metadata, n, name, properties)| TableFeatures {
            table,
            name,
            metadata_match: metadata[0],
            metadata_write: metadata[1],
            config: n[0],
            max_entries: n[1],
            properties,
        })
        .boxed()
}

fn any_filter() -> BoxedStrategy<FlowFilter> {
    (any::<u8>(), any::<[u32; 2]>(), any::<[u64; 2]>(), any_match())
        .prop_map(|(table, n, cookies, matcher)| FlowFilter {
            table,
            out_port: Port(n[0]),
            out_group: n[1],
            cookie: cookies[0],
            cookie_mask: cookies[1],
            matcher,
        })
        .boxed()
}

pub fn any_request() -> BoxedStrategy<StatsRequest> {
    use StatsRequest as R;
    prop_oneof![
        prop::sample::select(vec![
            R::Desc,
            R::Table,
            R::GroupDesc,
            R::GroupFeatures,
            R::MeterFeatures,
            R::PortDesc,
        ]),
        any_filter().prop_map(R::Flow),
        any_filter().prop_map(R::Aggregate),
        any::<u32>().prop_map(|n| R::Port(Port(n))),
        any::<(u32, u32)>().prop_map(|(port, queue)| R::Queue { port: Port(port), queue }),
        any::<u32>().prop_map(R::Group),
        any::<u32>().prop_map(R::Meter),
        any::<u32>().prop_map(R::MeterConfig),
        vec(any_table_features(), 0..4).prop_map(R::TableFeatures),
        (any::<(u32, u32)>(), vec(any::<u8>(), 0..40))
            .prop_map(|((experimenter, kind), data)| R::Experimenter { experimenter, kind, data }),
    ]
    .boxed()
}

pub fn any_reply() -> BoxedStrategy<StatsReply> {
    use StatsReply as R;
    prop_oneof![
        "[a-zß]{0,15}".prop_map(|s| R::Desc(SwitchDesc {
            manufacturer: s.repeat(8),
            hardware: s.clone(),
            software: s.clone(),
            serial: s.clone(),
            datapath: s,
        })),
        vec(any::<u32>().prop_map(|n| flow_stats(n.into())), 0..9).prop_map(R::Flow),
        any::<(u64, u64, u32)>().prop_map(|(packets, bytes, flows)| R::Aggregate(Aggregate {
            packets,
            bytes,
            flows
        })),
        vec(any::<(u8, u32, u64)>(), 0..9).prop_map(|rows| R::Table(
            rows.into_iter()
                .map(|(table, active, n)| TableStats {
                    table,
                    name: String::new(),
                    max_entries: 0,
                    active,
                    lookups: n,
                    matched: !n,
                })
                .collect()
        )),
        vec(any::<[u64; 6]>(), 0..9).prop_map(|rows| R::Port(
            rows.into_iter()
                .map(|n| PortStats {
                    port: Port(n[0] as u32),
                    rx_packets: n[1],
                    tx_bytes: n[2],
                    rx_over_err: n[3],
                    collisions: n[4],
                    duration_nsec: n[5] as u32,
                    ..PortStats::default()
                })
                .collect()
        )),
        vec(any::<[u32; 5]>(), 0..9).prop_map(|rows| R::Queue(
            rows.into_iter()
                .map(|n| QueueStats {
                    port: Port(n[0]),
                    queue: n[1],
                    tx_bytes: n[2].into(),
                    tx_packets: n[3].into(),
                    tx_errors: n[4].into(),
                    duration_sec: n[0],
                    duration_nsec: n[1],
                })
                .collect()
        )),
        vec((any::<[u32; 4]>(), vec(any::<(u64, u64)>(), 0..4)), 0..5).prop_map(|rows| R::Group(
            rows.into_iter()
                .map(|(n, buckets)| GroupStats {
                    group: n[0],
                    references: n[1],
                    packets: n[2].into(),
                    bytes: n[3].into(),
                    duration_sec: n[3],
                    duration_nsec: n[2],
                    buckets,
                })
                .collect()
        )),
        vec((any::<u32>(), vec(any_bucket(), 0..3)), 0..4).prop_map(|rows| R::GroupDesc(
            rows.into_iter()
                .map(|(id, buckets)| GroupDesc { id, kind: GroupKind::Select, buckets })
                .collect()
        )),
        any::<([u32; 2], [u32; 4], [u32; 4])>().prop_map(|(n, max, actions)| R::GroupFeatures(
            GroupFeatures { kinds: n[0], capabilities: n[1], max, actions }
        )),
        vec((any::<[u32; 4]>(), vec(any::<(u64, u64)>(), 0..4)), 0..5).prop_map(|rows| R::Meter(
            rows.into_iter()
                .map(|(n, bands)| MeterStats {
                    meter: n[0],
                    flows: n[1],
                    packets: n[2].into(),
                    bytes: n[3].into(),
                    duration_sec: n[1],
                    duration_nsec: n[0],
                    bands,
                })
                .collect()
        )),
        vec((any::<(u32, u16)>(), vec(any_band(), 0..3)), 0..4).prop_map(|rows| R::MeterConfig(
            rows.into_iter()
                .map(|((id, flags), bands)| MeterConfig { id, flags: MeterFlags(flags), bands })
                .collect()
        )),
        any::<([u32; 3], u8, u8)>().prop_map(|(n, max_bands, max_color)| R::MeterFeatures(
            MeterFeatures {
                max_meters: n[0],
                band_types: n[1],
                capabilities: n[2],
                max_bands,
                max_color,
            }
        )),
        vec(any_table_features(), 1..4).prop_map(R::TableFeatures),
        vec(any_port_desc(), 0..5).prop_map(R::PortDesc),
    ]
    .boxed()
}
