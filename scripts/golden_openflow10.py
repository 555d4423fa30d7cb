#!/usr/bin/env python3
"""Makes OpenFlow 1.0 messages by os-ken, for weir-openflow's tests to read and to write again.

usage: pip install os-ken==3.1.1; scripts/golden_openflow10.py > crates/weir-openflow/testdata/of10/vectors.txt

Requests are serialised by os-ken's classes. Replies, which os-ken only reads, are packed from the
format strings of its ofproto_v1_0 and then read by its parser, which must find what was packed.
"""

import struct
import sys

from os_ken.lib.mac import haddr_to_bin
from os_ken.ofproto import ofproto_parser
from os_ken.ofproto import ofproto_v1_0 as ofp
from os_ken.ofproto import ofproto_v1_0_parser as parser
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

DP = ProtocolDesc(ofp.OFP_VERSION)
A = haddr_to_bin('02:00:00:00:00:0a')
B = haddr_to_bin('02:00:00:00:00:0b')
XID = 0x01020304


def match(**fields):
    """An OFPMatch that says "any address" by 32 wildcarded bits."""
    made = parser.OFPMatch(**fields)
    for shift in (ofp.OFPFW_NW_SRC_SHIFT, ofp.OFPFW_NW_DST_SHIFT):
        if made.wildcards >> shift & 0x3f > 32:
            made.wildcards = made.wildcards & ~(0x3f << shift) | 32 << shift
    return made


def packed_match(made):
    buf = bytearray()
    made.serialize(buf, 0)
    return bytes(buf)


MATCHES = {
    'any': match(),
    'l2': match(in_port=7, dl_src=A, dl_dst=B, dl_type=0x88cc),
    'vlan': match(dl_vlan=100, dl_vlan_pcp=5),
    'vid': match(dl_vlan=4095),
    'untagged': match(dl_vlan=0xffff),
    'pcp': match(dl_vlan_pcp=3),
    'prefixes': match(dl_type=0x0800, nw_src='10.1.0.0', nw_src_mask=16, nw_dst='10.2.3.0', nw_dst_mask=25),
    'tcp': match(in_port=0xfffe, dl_src=A, dl_dst=B, dl_vlan=1, dl_vlan_pcp=0, dl_type=0x0800, nw_tos=0xb8,
                 nw_proto=6, nw_src='192.0.2.1', nw_dst='192.0.2.2', tp_src=1234, tp_dst=80),
    'udp': match(dl_type=0x0800, nw_proto=17, tp_dst=53),
    'icmp': match(dl_type=0x0800, nw_proto=1, tp_src=8, tp_dst=0),
    'arp': match(dl_type=0x0806, nw_proto=2, nw_src='10.0.0.1', nw_dst='10.0.0.0', nw_dst_mask=24),
}

ACTIONS = [
    parser.OFPActionOutput(3, 0),
    parser.OFPActionOutput(ofp.OFPP_CONTROLLER, 128),
    parser.OFPActionVlanVid(4094),
    parser.OFPActionVlanPcp(7),
    parser.OFPActionStripVlan(),
    parser.OFPActionSetDlSrc(A),
    parser.OFPActionSetDlDst(B),
    parser.OFPActionSetNwSrc('192.0.2.9'),
    parser.OFPActionSetNwDst('198.51.100.7'),
    parser.OFPActionSetNwTos(0xb8),
    parser.OFPActionSetTpSrc(65535),
    parser.OFPActionSetTpDst(1),
    parser.OFPActionEnqueue(2, 0x01020304),
    parser.OFPActionVendorUnknown(0x00abcdef, data=b'\1\2\3\4\5\6\7\x08'),
    parser.OFPActionOutput(ofp.OFPP_IN_PORT, 0xffff),
]


def flow_mod(made, actions=(), command=ofp.OFPFC_ADD, **more):
    return parser.OFPFlowMod(DP, match=made, cookie=0x1122334455667788, command=command, idle_timeout=10,
                             hard_timeout=300, priority=0x8001, actions=list(actions), **more)


def requests():
    yield 'hello', parser.OFPHello(DP)
    yield 'error', parser.OFPErrorMsg(DP, ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_OVERLAP, b'x' * 64)
    yield 'echo_request', parser.OFPEchoRequest(DP, b'ping')
    yield 'echo_reply', parser.OFPEchoReply(DP, b'ping')
    yield 'features_request', parser.OFPFeaturesRequest(DP)
    yield 'get_config_request', parser.OFPGetConfigRequest(DP)
    yield 'set_config', parser.OFPSetConfig(DP, ofp.OFPC_FRAG_REASM, 0xfffe)
    for name, made in MATCHES.items():
        yield 'flow_mod_' + name, flow_mod(made)
    yield 'flow_mod_actions', flow_mod(MATCHES['any'], ACTIONS, buffer_id=77, flags=ofp.OFPFF_SEND_FLOW_REM)
    yield 'flow_mod_emergency', flow_mod(MATCHES['any'], flags=ofp.OFPFF_EMERG | ofp.OFPFF_CHECK_OVERLAP)
    yield 'flow_mod_modify', flow_mod(MATCHES['any'], ACTIONS[:1], ofp.OFPFC_MODIFY)
    yield 'flow_mod_modify_strict', flow_mod(MATCHES['any'], ACTIONS[:1], ofp.OFPFC_MODIFY_STRICT)
    yield 'flow_mod_delete', flow_mod(MATCHES['any'], (), ofp.OFPFC_DELETE, out_port=9)
    yield 'flow_mod_delete_strict', flow_mod(MATCHES['any'], (), ofp.OFPFC_DELETE_STRICT)
    yield 'packet_out', parser.OFPPacketOut(DP, 0xffffffff, 4, ACTIONS, b'a frame')
    yield 'packet_out_buffered', parser.OFPPacketOut(DP, 5, ofp.OFPP_NONE, ACTIONS[:1])
    yield 'port_mod', parser.OFPPortMod(DP, 3, '02:00:00:00:00:0a', ofp.OFPPC_NO_FLOOD | ofp.OFPPC_PORT_DOWN,
                                        ofp.OFPPC_NO_FLOOD | ofp.OFPPC_PORT_DOWN | ofp.OFPPC_NO_STP,
                                        ofp.OFPPF_1GB_FD | ofp.OFPPF_AUTONEG)
    yield 'desc_request', parser.OFPDescStatsRequest(DP, 0)
    yield 'flow_request', parser.OFPFlowStatsRequest(DP, 0, MATCHES['arp'], 0xff, ofp.OFPP_NONE)
    yield 'aggregate_request', parser.OFPAggregateStatsRequest(DP, 0, MATCHES['tcp'], 0, 2)
    yield 'table_request', parser.OFPTableStatsRequest(DP, 0)
    yield 'port_request', parser.OFPPortStatsRequest(DP, 0, ofp.OFPP_NONE)
    yield 'queue_request', parser.OFPQueueStatsRequest(DP, 0, ofp.OFPP_ALL, ofp.OFPQ_ALL)
    yield 'queue_request_one', parser.OFPQueueStatsRequest(DP, 0, 1, 2)
    yield 'barrier_request', parser.OFPBarrierRequest(DP)
    yield 'queue_config_request', parser.OFPQueueGetConfigRequest(DP, 6)
    yield 'role_request', parser.NXTRoleRequest(DP, 1)


def phy_port(no, name, config=0, state=0, current=0):
    return struct.pack('!' + ofp._OFP_PHY_PORT_PACK_STR, no, A, name, config, state, current, 1 << 5 | 1 << 9,
                       0xfff, 1 << 10)


def stats(kind, body, flags=0):
    return ofp.OFPT_STATS_REPLY, struct.pack(ofp.OFP_STATS_MSG_PACK_STR, kind, flags) + body


def flow_entry(made, actions):
    acts = bytearray()
    for action in actions:
        action.serialize(acts, len(acts))
    head = struct.pack(ofp.OFP_FLOW_STATS_0_PACK_STR, ofp.OFP_FLOW_STATS_SIZE + len(acts), 0)
    rest = struct.pack('!' + ofp._OFP_FLOW_STATS_1_PACK_STR, 5, 6000, 0x8000, 60, 0, 0xcafe, 12, 3456)
    return head + packed_match(made) + rest + bytes(acts)


def replies():
    ports = (phy_port(1, b'eth1', 1 << 4, 1, 1 << 6 | 1 << 8) + phy_port(ofp.OFPP_LOCAL, b'br0', 0x7f, 3 << 8, 1 << 7)
             + phy_port(0xff00, b'a' * 15, 0, 1 << 8))
    yield ('features_reply', ofp.OFPT_FEATURES_REPLY,
           struct.pack(ofp.OFP_SWITCH_FEATURES_PACK_STR, 0x0000aabbccddeeff, 256, 1, 0xef, 0xfff) + ports,
           lambda m: (m.datapath_id, m.n_buffers, m.capabilities, len(m.ports)) == (0xaabbccddeeff, 256, 0xef, 3))
    yield ('get_config_reply', ofp.OFPT_GET_CONFIG_REPLY,
           struct.pack(ofp.OFP_SWITCH_CONFIG_PACK_STR, 1, 128),
           lambda m: (m.flags, m.miss_send_len) == (1, 128))
    yield ('packet_in', ofp.OFPT_PACKET_IN,
           struct.pack(ofp.OFP_PACKET_IN_PACK_STR, 0x100, 60, 2, ofp.OFPR_ACTION) + b'the first bytes',
           lambda m: (m.buffer_id, m.total_len, m.in_port, m.reason, m.data) == (256, 60, 2, 1, b'the first bytes'))
    yield ('flow_removed', ofp.OFPT_FLOW_REMOVED,
           packed_match(MATCHES['tcp']) + struct.pack('!' + ofp._OFP_FLOW_REMOVED_PACK_STR0, 0xfeed, 100,
                                                      ofp.OFPRR_HARD_TIMEOUT, 9, 10, 11, 12, 1300),
           lambda m: (m.cookie, m.reason, m.duration_nsec, m.byte_count) == (0xfeed, 1, 10, 1300))
    yield ('port_status', ofp.OFPT_PORT_STATUS,
           struct.pack('!B7x', ofp.OFPPR_MODIFY) + phy_port(5, b'veth5', 1, 1, 0),
           lambda m: (m.reason, m.desc.port_no) == (2, 5))
    yield ('desc_reply', *stats(ofp.OFPST_DESC, struct.pack(ofp.OFP_DESC_STATS_PACK_STR, b'made', b'hard', b'soft',
                                                           b'serial', b'path')),
           lambda m: m.body.hw_desc == b'hard')
    flows = flow_entry(MATCHES['prefixes'], ACTIONS) + flow_entry(MATCHES['any'], [])
    yield ('flow_reply', *stats(ofp.OFPST_FLOW, flows, 1),
           lambda m: len(m.body) == 2 and len(m.body[0].actions) == len(ACTIONS) and m.body[1].byte_count == 3456)
    yield ('aggregate_reply', *stats(ofp.OFPST_AGGREGATE, struct.pack(ofp.OFP_AGGREGATE_STATS_REPLY_PACK_STR, 1, 2, 3)),
           lambda m: m.body[0].flow_count == 3)
    yield ('table_reply', *stats(ofp.OFPST_TABLE, struct.pack(ofp.OFP_TABLE_STATS_PACK_STR, 0, b'only', 0x3fffff,
                                                             1000000, 5, 6, 7)),
           lambda m: m.body[0].active_count == 5)
    numbers = list(range(1, 12)) + [0xffffffffffffffff]
    yield ('port_reply', *stats(ofp.OFPST_PORT, struct.pack(ofp.OFP_PORT_STATS_PACK_STR, 0xfffe, *numbers)),
           lambda m: (m.body[0].port_no, m.body[0].rx_crc_err) == (0xfffe, 11))
    yield ('queue_reply', *stats(ofp.OFPST_QUEUE, struct.pack(ofp.OFP_QUEUE_STATS_PACK_STR, 1, 2, 3, 4, 5)),
           lambda m: m.body[0].tx_errors == 5)
    yield 'barrier_reply', ofp.OFPT_BARRIER_REPLY, b'', lambda m: True
    rate = (struct.pack(ofp.OFP_QUEUE_PROP_HEADER_PACK_STR, ofp.OFPQT_MIN_RATE, 16)
            + struct.pack(ofp.OFP_QUEUE_PROP_MIN_RATE_PACK_STR, 250))
    queues = (struct.pack(ofp.OFP_PACKET_QUEUE_PQCK_STR, 3, 8 + len(rate)) + rate
              + struct.pack(ofp.OFP_PACKET_QUEUE_PQCK_STR, 4, 8))
    yield ('queue_config_reply', ofp.OFPT_QUEUE_GET_CONFIG_REPLY,
           struct.pack(ofp.OFP_QUEUE_GET_CONFIG_REPLY_PACK_STR, 2) + queues,
           lambda m: m.port == 2 and len(m.queues) == 2)
    yield ('role_reply', ofp.OFPT_VENDOR, struct.pack('!III', 0x2320, 11, 2), lambda m: m.vendor == 0x2320)


def main():
    print('# OpenFlow 1.0 messages made by os-ken 3.1.1: scripts/golden_openflow10.py')
    for name, message in requests():
        message.set_xid(XID)
        message.serialize()
        print(name, bytes(message.buf).hex())
    for name, kind, body, holds in replies():
        raw = struct.pack(ofp.OFP_HEADER_PACK_STR, 1, kind, 8 + len(body), XID) + body
        if not holds(ofproto_parser.msg(DP, 1, kind, len(raw), XID, raw)):
            sys.exit(name + ': os-ken reads something else than was packed')
        print(name, raw.hex())


if __name__ == '__main__':
    main()
