"""OpenFlow 1.3 messages for golden_openflow.py: of every type, with every field, action, instruction and property."""

import struct

from os_ken.ofproto import ofproto_v1_3 as ofproto
from os_ken.ofproto import ofproto_v1_3_parser as parser

from golden_of13_fields import FIELDS, TCP

o, p = ofproto, parser

# Actions that need nothing of the match.
ACTIONS = {
    "output": (p.OFPActionOutput(3, 128), "Output { port: Port(3), max_len: 128 }"),
    "controller": (
        p.OFPActionOutput(o.OFPP_CONTROLLER, o.OFPCML_NO_BUFFER),
        "Output { port: Port(4294967293), max_len: 65535 }",
    ),
    "copy_ttl_out": (p.OFPActionCopyTtlOut(), "CopyTtlOut"),
    "copy_ttl_in": (p.OFPActionCopyTtlIn(), "CopyTtlIn"),
    "set_mpls_ttl": (p.OFPActionSetMplsTtl(63), "SetMplsTtl(63)"),
    "dec_mpls_ttl": (p.OFPActionDecMplsTtl(), "DecMplsTtl"),
    "push_vlan": (p.OFPActionPushVlan(0x88A8), "PushVlan(34984)"),
    "pop_vlan": (p.OFPActionPopVlan(), "PopVlan"),
    "push_mpls": (p.OFPActionPushMpls(0x8848), "PushMpls(34888)"),
    "pop_mpls": (p.OFPActionPopMpls(0x0800), "PopMpls(2048)"),
    "set_queue": (p.OFPActionSetQueue(9), "SetQueue(9)"),
    "group": (p.OFPActionGroup(77), "Group(77)"),
    "set_nw_ttl": (p.OFPActionSetNwTtl(12), "SetNwTtl(12)"),
    "dec_nw_ttl": (p.OFPActionDecNwTtl(), "DecNwTtl"),
    "push_pbb": (p.OFPActionPushPbb(0x88E7), "PushPbb(35047)"),
    "pop_pbb": (p.OFPActionPopPbb(), "PopPbb"),
    "set_tunnel": (p.OFPActionSetField(tunnel_id=6), "SetField(TunnelId, 6)"),
    "set_eth_dst": (p.OFPActionSetField(eth_dst="00:00:00:00:00:07"), "SetField(EthDst, 7)"),
    "set_vlan": (p.OFPActionSetField(vlan_vid=0x1007), "SetField(VlanVid, 4103)"),
    "experimenter": (
        p.OFPActionExperimenterUnknown(0x4F4E4600, b"12345678"),
        "Experimenter { experimenter: 1330529792, data: [49, 50, 51, 52, 53, 54, 55, 56] }",
    ),
}


def flow_mod(dp, **kw):
    kw.setdefault("match", p.OFPMatch())
    kw.setdefault("instructions", [])
    return p.OFPFlowMod(dp, **kw)


def apply(*actions):
    return p.OFPInstructionActions(o.OFPIT_APPLY_ACTIONS, list(actions))


def write(*actions):
    return p.OFPInstructionActions(o.OFPIT_WRITE_ACTIONS, list(actions))


def serialized(part):
    buf = bytearray()
    part.serialize(buf, 0)
    return bytes(buf)


def make(v):
    symmetric(v)
    flows(v)
    objects(v)
    switch(v)
    requests(v)
    replies(v)


def symmetric(v):
    dp = v.dp
    bitmap = p.OFPHelloElemVersionBitmap([1, 4])
    v.says("hello", p.OFPHello(dp, elements=[]), "Hello { version: 4, bitmap: [] }")
    v.hears(
        "hello_bitmap",
        o.OFPT_HELLO,
        struct.pack("!HHI", 1, 8, 0x12),
        lambda m: m.elements[0].versions == bitmap.versions,
        "Hello { version: 4, bitmap: [18] }",
    )
    v.says(
        "error",
        p.OFPErrorMsg(dp, o.OFPET_BAD_MATCH, o.OFPBMC_DUP_FIELD, b"offending"),
        "code: MatchDupField",
        "data: [111, 102, 102,",
    )
    v.says("echo_request", p.OFPEchoRequest(dp, b"ab"), "EchoRequest([97, 98])")
    v.says("echo_reply", p.OFPEchoReply(dp, b"cd"), "EchoReply([99, 100])")
    v.says(
        "experimenter",
        p.OFPExperimenter(dp, 0x2320, 5, b"xyz"),
        "experimenter: 8992, kind: 5, data: [120, 121, 122]",
    )


def flows(v):
    dp = v.dp
    for name, (fields, want) in FIELDS.items():
        v.says(f"match_{name}", flow_mod(dp, match=p.OFPMatch(**fields)), want)
    for name, (action, want) in ACTIONS.items():
        v.says(f"action_{name}", flow_mod(dp, instructions=[apply(action)]), f"Apply([{want}])")
    settable = {
        "ip_dscp": 10, "ip_ecn": 1, "ipv4_src": "10.0.0.9", "ipv4_dst": "10.0.0.8",
        "tcp_src": 9, "tcp_dst": 8, "eth_type": 0x0800, "ip_proto": 17,
    }
    rust = {"ipv4_src": 167772169, "ipv4_dst": 167772168}
    for name, value in settable.items():
        camel = "".join(part.capitalize() for part in name.split("_"))
        v.says(
            f"set_{name}",
            flow_mod(dp, match=p.OFPMatch(**TCP), instructions=[apply(p.OFPActionSetField(**{name: value}))]),
            f"SetField({camel}, {rust.get(name, value)})",
        )
    v.says(
        "set_after_push",
        flow_mod(
            dp,
            match=p.OFPMatch(eth_type=0x0800),
            instructions=[apply(p.OFPActionPushMpls(0x8847), p.OFPActionSetField(mpls_label=17))],
        ),
        "Apply([PushMpls(34887), SetField(MplsLabel, 17)])",
    )
    v.says(
        "flow_mod_whole",
        flow_mod(
            dp, cookie=0x1122334455667788, cookie_mask=0xFF, table_id=3, command=o.OFPFC_ADD, idle_timeout=5,
            hard_timeout=9, priority=77, buffer_id=0x99, out_port=2, out_group=4,
            flags=o.OFPFF_SEND_FLOW_REM | o.OFPFF_CHECK_OVERLAP | o.OFPFF_NO_BYT_COUNTS,
            match=p.OFPMatch(in_port=1, eth_dst="00:00:00:00:00:01", **TCP, tcp_dst=80),
            instructions=[
                p.OFPInstructionMeter(5),
                apply(p.OFPActionOutput(1, 0), p.OFPActionGroup(2)),
                p.OFPInstructionActions(o.OFPIT_CLEAR_ACTIONS, []),
                write(p.OFPActionSetQueue(1), p.OFPActionOutput(o.OFPP_IN_PORT)),
                p.OFPInstructionWriteMetadata(0x10, 0xF0),
                p.OFPInstructionGotoTable(4),
            ],
        ),
        "cookie: 1234605616436508552, cookie_mask: 255, table: 3, command: Add, idle_timeout: 5, hard_timeout: 9, "
        "priority: 77, buffer_id: 153, out_port: Port(2), out_group: 4, flags: FlowFlags(19)",
        "Meter(5), Apply([Output { port: Port(1), max_len: 0 }, Group(2)]), Clear, Write([SetQueue(1), "
        "Output { port: Port(4294967288), max_len: 65509 }]), WriteMetadata { value: 16, mask: 240 }, GotoTable(4)",
    )
    commands = ("Add", "Modify", "ModifyStrict", "Delete", "DeleteStrict")
    for number, name in enumerate(commands):
        table = o.OFPTT_ALL if number >= 3 else 0
        v.says(
            f"flow_mod_{name.lower()}",
            flow_mod(dp, command=number, table_id=table, out_port=o.OFPP_ANY, out_group=o.OFPG_ANY),
            f"table: {table}, command: {name}",
            "out_port: Port(4294967295), out_group: 4294967295",
        )
    v.hears(
        "flow_removed",
        o.OFPT_FLOW_REMOVED,
        struct.pack("!QHBBIIHHQQ", 9, 8, o.OFPRR_HARD_TIMEOUT, 2, 7, 6, 5, 4, 3, 2)
        + serialized(p.OFPMatch(in_port=1)),
        lambda m: (m.cookie, m.priority, m.reason, m.table_id, m.duration_sec, m.duration_nsec, m.idle_timeout,
                   m.hard_timeout, m.packet_count, m.byte_count) == (9, 8, 1, 2, 7, 6, 5, 4, 3, 2),
        "cookie: 9, priority: 8, reason: HardTimeout, table: 2, duration_sec: 7, duration_nsec: 6, idle_timeout: 5, "
        "hard_timeout: 4, packets: 3, bytes: 2",
    )


def objects(v):
    dp = v.dp
    bucket = lambda weight, port, group, *acts: p.OFPBucket(weight, port, group, list(acts))
    out = p.OFPActionOutput(2, 0)
    any_ = (o.OFPP_ANY, o.OFPG_ANY)
    v.says(
        "group_all",
        p.OFPGroupMod(dp, o.OFPGC_ADD, o.OFPGT_ALL, 5, [bucket(0, *any_, out), bucket(0, *any_, p.OFPActionPopVlan(), out)]),
        "command: Add, kind: All, id: 5",
        "Bucket { weight: 0, watch_port: Port(4294967295), watch_group: 4294967295, actions: [PopVlan, Output",
    )
    v.says(
        "group_select",
        p.OFPGroupMod(dp, o.OFPGC_MODIFY, o.OFPGT_SELECT, 6, [bucket(3, *any_, out), bucket(1, *any_)]),
        "command: Modify, kind: Select, id: 6", "weight: 3", "weight: 1",
    )
    v.says(
        "group_indirect",
        p.OFPGroupMod(dp, o.OFPGC_ADD, o.OFPGT_INDIRECT, 7, [bucket(0, *any_, p.OFPActionGroup(6))]),
        "kind: Indirect, id: 7", "Group(6)",
    )
    v.says(
        "group_failover",
        p.OFPGroupMod(dp, o.OFPGC_ADD, o.OFPGT_FF, 8, [bucket(0, 1, o.OFPG_ANY, out), bucket(0, o.OFPP_ANY, 7, out)]),
        "kind: FastFailover, id: 8", "watch_port: Port(1), watch_group: 4294967295",
        "watch_port: Port(4294967295), watch_group: 7",
    )
    v.says(
        "group_delete",
        p.OFPGroupMod(dp, o.OFPGC_DELETE, o.OFPGT_ALL, o.OFPG_ALL, []),
        "command: Delete, kind: All, id: 4294967292, buckets: []",
    )
    v.says(
        "meter_add",
        p.OFPMeterMod(
            dp, o.OFPMC_ADD, o.OFPMF_PKTPS | o.OFPMF_BURST | o.OFPMF_STATS, 3,
            [p.OFPMeterBandDrop(100, 10), p.OFPMeterBandDscpRemark(50, 5, 1), p.OFPMeterBandExperimenter(7, 8, 9)],
        ),
        "command: Add, flags: MeterFlags(14), id: 3",
        "[Band { rate: 100, burst: 10, kind: Drop }, Band { rate: 50, burst: 5, kind: DscpRemark(1) }, "
        "Band { rate: 7, burst: 8, kind: Experimenter(9) }]",
    )
    v.says(
        "meter_delete", p.OFPMeterMod(dp, o.OFPMC_DELETE, 0, o.OFPM_ALL, []),
        "command: Delete, flags: MeterFlags(0), id: 4294967295, bands: []",
    )
    v.says(
        "port_mod",
        p.OFPPortMod(dp, 3, "00:11:22:33:44:55", o.OFPPC_NO_RECV, o.OFPPC_NO_RECV | o.OFPPC_PORT_DOWN, o.OFPPF_COPPER),
        "port: Port(3), mac: [0, 17, 34, 51, 68, 85], config: PortConfig(4), mask: PortConfig(5), "
        "advertise: PortFeatures(2048)",
    )
    v.says("table_mod", p.OFPTableMod(dp, 4, 3), "TableMod { table: 4, config: 3 }")


def port(number, name):
    return struct.pack(
        o.OFP_PORT_PACK_STR, number, b"\x02\0\0\0\0\x01", name, o.OFPPC_NO_FWD, o.OFPPS_LIVE, 1, 2, 4, 8, 1000, 2000
    )


PORT = (
    "mac: [2, 0, 0, 0, 0, 1], name: \"{}\", config: PortConfig(32), state: PortState(4), current: PortFeatures(1), "
    "advertised: PortFeatures(2), supported: PortFeatures(4), peer: PortFeatures(8), current_kbps: 1000, max_kbps: 2000"
)


def switch(v):
    dp = v.dp
    v.says("features_request", p.OFPFeaturesRequest(dp), "FeaturesRequest")
    v.hears(
        "features_reply", o.OFPT_FEATURES_REPLY,
        struct.pack(o.OFP_SWITCH_FEATURES_PACK_STR, 0xAB, 256, 254, 0, 0x4F, 0),
        lambda m: (m.datapath_id, m.n_buffers, m.n_tables, m.auxiliary_id, m.capabilities) == (0xAB, 256, 254, 0, 0x4F),
        "datapath_id: 171, buffers: 256, tables: 254, auxiliary_id: 0, capabilities: Capabilities(79)",
    )
    v.says("get_config_request", p.OFPGetConfigRequest(dp), "GetConfigRequest")
    v.hears(
        "get_config_reply", o.OFPT_GET_CONFIG_REPLY, struct.pack("!HH", 1, 128),
        lambda m: (m.flags, m.miss_send_len) == (1, 128), "fragments: Drop, miss_send_len: 128",
    )
    v.says("set_config", p.OFPSetConfig(dp, 2, 0xFFFF), "SetConfig(SwitchConfig { fragments: Reassemble, miss_send_len: 65535")
    v.says(
        "packet_out",
        p.OFPPacketOut(dp, o.OFP_NO_BUFFER, o.OFPP_CONTROLLER, [p.OFPActionOutput(o.OFPP_TABLE, 0)], data=b"\1\2\3"),
        "buffer_id: 4294967295, in_port: Port(4294967293)", "port: Port(4294967289)", "data: [1, 2, 3]",
    )
    v.says("packet_out_buffer", p.OFPPacketOut(dp, 5, 2, []), "buffer_id: 5, in_port: Port(2), actions: [], data: []")
    v.hears(
        "packet_in", o.OFPT_PACKET_IN,
        struct.pack("!IHBBQ", 9, 64, o.OFPR_ACTION, 3, 0xFF)
        + serialized(p.OFPMatch(in_port=1, metadata=5, tunnel_id=6)) + b"\0\0" + b"frame",
        lambda m: (m.buffer_id, m.total_len, m.reason, m.table_id, m.cookie, bytes(m.data), m.match["in_port"])
        == (9, 64, 1, 3, 0xFF, b"frame", 1),
        "buffer_id: 9, total_len: 64, reason: Action, table: 3, cookie: 255", "field: Metadata, value: 5",
        "field: TunnelId, value: 6", "data: [102, 114, 97, 109, 101]",
    )
    v.hears(
        "port_status", o.OFPT_PORT_STATUS, struct.pack("!B7x", o.OFPPR_MODIFY) + port(9, b"eth9"),
        lambda m: (m.reason, m.desc.port_no, m.desc.name, m.desc.max_speed) == (2, 9, b"eth9", 2000),
        "reason: Modify", "no: Port(9)", PORT.format("eth9"),
    )
    v.says("barrier_request", p.OFPBarrierRequest(dp), "BarrierRequest")
    v.hears("barrier_reply", o.OFPT_BARRIER_REPLY, b"", lambda m: isinstance(m, p.OFPBarrierReply), "BarrierReply")
    v.says("queue_config_request", p.OFPQueueGetConfigRequest(dp, 4), "QueueConfigRequest(Port(4))")
    rate = lambda kind, tenths: struct.pack("!HH4xH6x", kind, 16, tenths)
    v.hears(
        "queue_config_reply", o.OFPT_QUEUE_GET_CONFIG_REPLY,
        struct.pack("!I4x", 4) + struct.pack("!IIH6x", 1, 4, 48) + rate(1, 100) + rate(2, 900)
        + struct.pack("!IIH6x", 2, 4, 16),
        lambda m: m.port == 4 and [q.queue_id for q in m.queues] == [1, 2]
        and [r.rate for r in m.queues[0].properties] == [100, 900],
        "port: Port(4), queues: [QueueDesc { id: 1, port: Port(4), properties: [MinRate(100), MaxRate(900)] }, "
        "QueueDesc { id: 2, port: Port(4), properties: [] }]",
    )
    v.says("role_request", p.OFPRoleRequest(dp, o.OFPCR_ROLE_MASTER, 11), "RoleRequest(RoleMsg { role: Master, generation: 11 })")
    v.hears(
        "role_reply", o.OFPT_ROLE_REPLY, struct.pack("!I4xQ", o.OFPCR_ROLE_SLAVE, 12),
        lambda m: (m.role, m.generation_id) == (3, 12), "RoleReply(RoleMsg { role: Slave, generation: 12 })",
    )
    v.says("get_async_request", p.OFPGetAsyncRequest(dp), "GetAsyncRequest")
    v.hears(
        "get_async_reply", o.OFPT_GET_ASYNC_REPLY, struct.pack("!6I", 1, 2, 3, 4, 5, 6),
        lambda m: (m.packet_in_mask, m.port_status_mask, m.flow_removed_mask) == ([1, 2], [3, 4], [5, 6]),
        "packet_in: [1, 2], port_status: [3, 4], flow_removed: [5, 6]",
    )
    v.says("set_async", p.OFPSetAsync(dp, [7, 0], [5, 1], [15, 2]), "SetAsync", "packet_in: [7, 0], port_status: [5, 1], flow_removed: [15, 2]")


def requests(v):
    dp = v.dp
    match = p.OFPMatch(in_port=2)
    v.says("desc_request", p.OFPDescStatsRequest(dp, 0), "body: Desc")
    for name, cls in (("Flow", p.OFPFlowStatsRequest), ("Aggregate", p.OFPAggregateStatsRequest)):
        v.says(
            f"{name.lower()}_request", cls(dp, 0, 3, 4, 5, 6, 7, match),
            f"body: {name}(FlowFilter {{ table: 3, out_port: Port(4), out_group: 5, cookie: 6, cookie_mask: 7",
            "field: InPort, value: 2",
        )
    v.says("table_request", p.OFPTableStatsRequest(dp, 0), "body: Table")
    v.says("port_request", p.OFPPortStatsRequest(dp, 0, 9), "body: Port(Port(9))")
    v.says("queue_request", p.OFPQueueStatsRequest(dp, 0, 9, 8), "body: Queue { port: Port(9), queue: 8 }")
    v.says("group_request", p.OFPGroupStatsRequest(dp, 0, 4), "body: Group(4)")
    v.says("group_desc_request", p.OFPGroupDescStatsRequest(dp, 0), "body: GroupDesc")
    v.says("group_features_request", p.OFPGroupFeaturesStatsRequest(dp, 0), "body: GroupFeatures")
    v.says("meter_request", p.OFPMeterStatsRequest(dp, 0, 4), "body: Meter(4)")
    v.says("meter_config_request", p.OFPMeterConfigStatsRequest(dp, 0, o.OFPM_ALL), "body: MeterConfig(4294967295)")
    v.says("meter_features_request", p.OFPMeterFeaturesStatsRequest(dp, 0), "body: MeterFeatures")
    v.says("table_features_request", p.OFPTableFeaturesStatsRequest(dp, 0, []), "body: TableFeatures([])", "more: Last")
    v.says("table_features_set", p.OFPTableFeaturesStatsRequest(dp, 1, [table_features()]), "more: More", *TABLE_FEATURES)
    v.says("port_desc_request", p.OFPPortDescStatsRequest(dp, 0), "body: PortDesc")
    v.says(
        "experimenter_request", p.OFPExperimenterStatsRequest(dp, 0, 5, 6, b"78"),
        "body: Experimenter { experimenter: 5, kind: 6, data: [55, 56] }",
    )


class OxmId(p.OFPOxmId):
    """os-ken leaves the length of the payload zero, which 1.3.5 (section 7.3.5.5.2) wants given."""

    def __init__(self, name, mask, length):
        super().__init__(name, mask)
        self.payload = length

    def serialize(self):
        buf = super().serialize()
        buf[3] = self.payload
        return buf


def table_features():
    oxm = OxmId
    of = lambda cls, kind, **kw: cls(type_=kind, **kw)
    return p.OFPTableFeaturesStats(
        table_id=1, name="one".encode(), metadata_match=0xFF, metadata_write=0xF0, config=3, max_entries=1000,
        properties=[
            of(p.OFPTableFeaturePropInstructions, 0, instruction_ids=[p.OFPInstructionId(1), p.OFPInstructionId(4)]),
            of(p.OFPTableFeaturePropInstructions, 1, instruction_ids=[p.OFPInstructionId(4)]),
            of(p.OFPTableFeaturePropNextTables, 2, table_ids=[2, 3, 4]),
            of(p.OFPTableFeaturePropNextTables, 3, table_ids=[]),
            of(p.OFPTableFeaturePropActions, 4, action_ids=[p.OFPActionId(0), p.OFPActionId(22), p.OFPActionId(25)]),
            of(p.OFPTableFeaturePropActions, 7, action_ids=[p.OFPActionId(0)]),
            of(p.OFPTableFeaturePropOxm, 8, oxm_ids=[oxm("in_port", False, 4), oxm("eth_dst", True, 12)]),
            of(p.OFPTableFeaturePropOxm, 10, oxm_ids=[oxm("in_port", False, 4)]),
            of(p.OFPTableFeaturePropOxm, 12, oxm_ids=[oxm("eth_src", False, 6)]),
            of(p.OFPTableFeaturePropOxm, 15, oxm_ids=[oxm("ipv4_src", False, 4)]),
        ],
    )


TABLE_FEATURES = (
    "table: 1, name: \"one\", metadata_match: 255, metadata_write: 240, config: 3, max_entries: 1000",
    "[Instructions(Regular, [1, 4]), Instructions(Miss, [4]), NextTables(Regular, [2, 3, 4]), NextTables(Miss, []), "
    "WriteActions(Regular, [0, 22, 25]), ApplyActions(Miss, [0]), Match([(InPort, No), (EthDst, Yes)]), "
    "Wildcards([InPort]), WriteSetField(Regular, [EthSrc]), ApplySetField(Miss, [Ipv4Src])]",
)


def replies(v):
    def reply(name, kind, body, meant, *fragments, flags=0):
        head = struct.pack(o.OFP_MULTIPART_REPLY_PACK_STR, kind, flags)
        v.hears(name, o.OFPT_MULTIPART_REPLY, head + body, meant, *fragments)

    reply(
        "desc_reply", o.OFPMP_DESC, struct.pack(o.OFP_DESC_PACK_STR, b"m", b"h", b"s", b"n", b"d"),
        lambda m: (m.body.mfr_desc, m.body.hw_desc, m.body.sw_desc, m.body.serial_num, m.body.dp_desc)
        == (b"m", b"h", b"s", b"n", b"d"),
        'manufacturer: "m", hardware: "h", software: "s", serial: "n", datapath: "d"',
    )
    flow = flow_stats()
    reply(
        "flow_reply", o.OFPMP_FLOW, flow + flow,
        lambda m: len(m.body) == 2 and (m.body[1].priority, m.body[1].cookie, m.body[1].byte_count) == (6, 9, 11)
        and len(m.body[1].instructions) == 2,
        "more: More", "table: 3, duration_sec: 4, duration_nsec: 5, priority: 6, idle_timeout: 7, hard_timeout: 8, "
        "flags: FlowFlags(1), cookie: 9, packets: 10, bytes: 11", "instructions: [Apply([Output { port: Port(1), "
        "max_len: 0 }]), GotoTable(4)]", flags=1,
    )
    reply(
        "aggregate_reply", o.OFPMP_AGGREGATE, struct.pack(o.OFP_AGGREGATE_STATS_REPLY_PACK_STR, 1, 2, 3),
        lambda m: (m.body.packet_count, m.body.byte_count, m.body.flow_count) == (1, 2, 3),
        "Aggregate { packets: 1, bytes: 2, flows: 3 }",
    )
    table = lambda n: struct.pack(o.OFP_TABLE_STATS_PACK_STR, n, 20, 30, 40)
    reply(
        "table_reply", o.OFPMP_TABLE, table(0) + table(1),
        lambda m: [(t.table_id, t.active_count, t.lookup_count, t.matched_count) for t in m.body] == [(0, 20, 30, 40), (1, 20, 30, 40)],
        "table: 1, name: \"\", max_entries: 0, active: 20, lookups: 30, matched: 40",
    )
    counters = list(range(1, 16))
    names = ("rx_packets tx_packets rx_bytes tx_bytes rx_dropped tx_dropped rx_errors tx_errors rx_frame_err "
             "rx_over_err rx_crc_err collisions duration_sec duration_nsec").split()
    reply(
        "port_reply", o.OFPMP_PORT_STATS, struct.pack(o.OFP_PORT_STATS_PACK_STR, *counters),
        lambda m: [getattr(m.body[0], n) for n in names] == counters[1:],
        "port: Port(1), " + ", ".join(f"{n}: {c}" for n, c in zip(names, counters[1:])),
    )
    reply(
        "queue_reply", o.OFPMP_QUEUE, struct.pack(o.OFP_QUEUE_STATS_PACK_STR, 1, 2, 3, 4, 5, 6, 7),
        lambda m: (m.body[0].tx_bytes, m.body[0].tx_packets, m.body[0].tx_errors, m.body[0].duration_nsec) == (3, 4, 5, 7),
        "port: Port(1), queue: 2, tx_bytes: 3, tx_packets: 4, tx_errors: 5, duration_sec: 6, duration_nsec: 7",
    )
    group = struct.pack(o.OFP_GROUP_STATS_PACK_STR, 72, 1, 2, 3, 4, 5, 6) + struct.pack("!4Q", 7, 8, 9, 10)
    reply(
        "group_reply", o.OFPMP_GROUP, group + group,
        lambda m: len(m.body) == 2 and (m.body[1].group_id, m.body[1].ref_count, m.body[1].bucket_stats[1].byte_count) == (1, 2, 10),
        "group: 1, references: 2, packets: 3, bytes: 4, duration_sec: 5, duration_nsec: 6, buckets: [(7, 8), (9, 10)]",
    )
    buckets = serialized(p.OFPBucket(2, 3, 4, [p.OFPActionOutput(5, 6)]))
    reply(
        "group_desc_reply", o.OFPMP_GROUP_DESC,
        struct.pack(o.OFP_GROUP_DESC_PACK_STR, 8 + len(buckets), o.OFPGT_SELECT, 9) + buckets,
        lambda m: (m.body[0].type, m.body[0].group_id, m.body[0].buckets[0].watch_port) == (1, 9, 3),
        "id: 9, kind: Select, buckets: [Bucket { weight: 2, watch_port: Port(3), watch_group: 4, actions: [Output { port: "
        "Port(5), max_len: 6 }] }]",
    )
    reply(
        "group_features_reply", o.OFPMP_GROUP_FEATURES, struct.pack(o.OFP_GROUP_FEATURES_PACK_STR, *range(1, 11)),
        lambda m: (m.body.types, m.body.capabilities, m.body.max_groups, m.body.actions) == (1, 2, [3, 4, 5, 6], [7, 8, 9, 10]),
        "kinds: 1, capabilities: 2, max: [3, 4, 5, 6], actions: [7, 8, 9, 10]",
    )
    meter = struct.pack(o.OFP_METER_STATS_PACK_STR, 1, 56, 2, 3, 4, 5, 6) + struct.pack("!2Q", 7, 8)
    reply(
        "meter_reply", o.OFPMP_METER, meter + meter,
        lambda m: len(m.body) == 2 and (m.body[1].meter_id, m.body[1].flow_count, m.body[1].band_stats[0].byte_band_count) == (1, 2, 8),
        "meter: 1, flows: 2, packets: 3, bytes: 4, duration_sec: 5, duration_nsec: 6, bands: [(7, 8)]",
    )
    bands = serialized(p.OFPMeterBandDrop(3, 4))
    reply(
        "meter_config_reply", o.OFPMP_METER_CONFIG,
        struct.pack(o.OFP_METER_CONFIG_PACK_STR, 8 + len(bands), o.OFPMF_KBPS, 2) + bands,
        lambda m: (m.body[0].flags, m.body[0].meter_id, m.body[0].bands[0].rate) == (1, 2, 3),
        "id: 2, flags: MeterFlags(1), bands: [Band { rate: 3, burst: 4, kind: Drop }]",
    )
    reply(
        "meter_features_reply", o.OFPMP_METER_FEATURES, struct.pack(o.OFP_METER_FEATURES_PACK_STR, 1, 6, 15, 4, 5),
        lambda m: (m.body[0].max_meter, m.body[0].band_types, m.body[0].capabilities, m.body[0].max_bands, m.body[0].max_color)
        == (1, 6, 15, 4, 5),
        "max_meters: 1, band_types: 6, capabilities: 15, max_bands: 4, max_color: 5",
    )
    reply(
        "table_features_reply", o.OFPMP_TABLE_FEATURES, bytes(table_features().serialize()),
        lambda m: m.body[0].max_entries == 1000 and len(m.body[0].properties) == 10, *TABLE_FEATURES,
    )
    reply(
        "port_desc_reply", o.OFPMP_PORT_DESC, port(1, b"p1") + port(o.OFPP_LOCAL, b"local"),
        lambda m: [(d.port_no, d.name) for d in m.body] == [(1, b"p1"), (o.OFPP_LOCAL, b"local")],
        "no: Port(1)", PORT.format("p1"), "no: Port(4294967294)", PORT.format("local"),
    )
    reply(
        "experimenter_reply", o.OFPMP_EXPERIMENTER, struct.pack("!II", 5, 6) + b"78",
        lambda m: (m.body.experimenter, m.body.exp_type, bytes(m.body.data)) == (5, 6, b"78"),
        "body: Experimenter { experimenter: 5, kind: 6, data: [55, 56] }",
    )


def flow_stats():
    rest = serialized(p.OFPMatch(in_port=2)) + serialized(apply(p.OFPActionOutput(1, 0))) + serialized(p.OFPInstructionGotoTable(4))
    length = o.OFP_FLOW_STATS_0_SIZE + len(rest)
    return struct.pack(o.OFP_FLOW_STATS_0_PACK_STR, length, 3, 4, 5, 6, 7, 8, 1, 9, 10, 11) + rest
