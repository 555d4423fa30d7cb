"""The workloads that weir and its peers are given: frames and rules in ovs-ofctl's syntax, the same bytes every time.

Called by main.py. Frames are of 60 bytes, 64 with the FCS, unless said otherwise; every rule sends to port 2.
"""

import dataclasses
import pathlib
import random
import struct
from collections.abc import Callable

Made = tuple[list[bytes], list[str]]
# Frames of a trace: what net_pcap holds in memory at once.
FRAMES = 50000


@dataclasses.dataclass(frozen=True)
class Workload:
    about: str
    make: Callable[[random.Random], Made]
    # weir's rules split over so many VDPs.
    vdps: int = 1
    # Rules of other destinations added and deleted meanwhile, so many changes a second.
    flow_mods: int = 0
    # Seconds after which Open vSwitch knows the flows, and its caches are full.
    learning: float = 5
    # More frames than net_pcap holds in memory, or flows that Open vSwitch takes minutes to learn: weir alone is measured.
    alone: bool = False


def local_mac(number: int) -> bytes:
    return b"\x02" + number.to_bytes(5, "big")


def text(mac: bytes) -> str:
    return mac.hex(":")


def dotted(address: int) -> str:
    return ".".join(map(str, address.to_bytes(4, "big")))


ROUTER, HOST = local_mac(0xAABBCCDD01), local_mac(0xAABBCCDD02)


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


@dataclasses.dataclass(frozen=True)
class Flow:
    """A five-tuple."""

    source: int
    destination: int
    protocol: int
    source_port: int
    destination_port: int

    @classmethod
    def number(cls, n: int) -> "Flow":
        return cls(0x0A000000 + n, 0x0B000000 + n, 17, 1024 + n * 7 % 60000, 1024 + n * 13 % 60000)


def frame(destination: bytes, source: bytes, flow: Flow, tags: bytes = b"\x08\x00") -> bytes:
    """`tags`: what stands between the MACs and IPv4, the EtherType included. UDP goes without a checksum."""
    room = 60 - 12 - len(tags)
    if flow.protocol == 6:
        ports = (flow.source_port, flow.destination_port)
        datagram = struct.pack("!HHIIBBHHH", *ports, 1, 0, 0x50, 0x10, 8192, 0, 0)
    elif flow.protocol == 17:
        datagram = struct.pack("!HHHH", flow.source_port, flow.destination_port, room - 20, 0)
    else:
        datagram = struct.pack("!BBHHH", 8, 0, 0, flow.source_port, 1)
    total = max(room, 20 + len(datagram))
    head = struct.pack("!BBHHHBBHII", 0x45, 0, total, 0, 0, 64, flow.protocol, 0, flow.source, flow.destination)
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return (destination + source + tags + head + datagram).ljust(60, b"\0")


def macs(order: random.Random, count: int) -> list[bytes]:
    return [local_mac(n) for n in order.sample(range(1 << 40), count)]


def four_rewrites(order: random.Random) -> Made:
    frames = [frame(local_mac(1 + n % 4), local_mac(100), Flow.number(n)) for n in range(256)]
    rewrites = [(n, text(local_mac(n)), text(local_mac(200 + n)), text(local_mac(300))) for n in range(1, 5)]
    return frames, [
        f"priority=10,dl_dst={dst},actions=set_field:{new}->eth_dst,set_field:{src}->eth_src,output:2"
        for _, dst, new, src in rewrites
    ]


def macs_of(count: int, frames: int = FRAMES) -> Callable[[random.Random], Made]:
    """So many destination MACs, a rule each, visited in no order."""

    def make(order: random.Random) -> Made:
        all_macs = macs(order, count)
        picked = [order.randrange(count) for _ in range(frames)]
        rules = [f"priority=100,dl_dst={text(mac)},actions=output:2" for mac in all_macs]
        return [frame(all_macs[i], HOST, Flow.number(i)) for i in picked], rules

    return make


def stations(count: int, first: str, second: str) -> Callable[[random.Random], Made]:
    """Two tables, a rule for each station in both, from these texts. Everybody sends to everybody."""

    def make(order: random.Random) -> Made:
        all_macs = macs(order, count)
        pairs = [(order.choice(all_macs), order.choice(all_macs)) for _ in range(FRAMES)]
        rules = [rule.format(text(mac)) for rule in (first, second) for mac in all_macs]
        return [frame(dst, src, Flow.number(i % 10000)) for i, (dst, src) in enumerate(pairs)], rules

    return make


# As learning controllers write them: whose frames go on, and where stations are.
LEARNED = "priority=100,dl_src={},actions=goto_table:1", "table=1,priority=100,dl_dst={},actions=output:2"
# The first table writes to the action set where stations are, the second lets senders pass.
PERMITTED = (
    "priority=100,dl_dst={},actions=write_actions(output:2),goto_table:1",
    "table=1,priority=100,dl_src={},actions=write_metadata:1",
)


def one_port(order: random.Random) -> Made:
    return macs_of(10000)(order)[0], ["priority=100,in_port=1,actions=output:2"]


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of an access list: prefixes as (network, length), ports as (value, mask)."""

    pair: tuple[tuple[int, int], ...]
    protocol: int
    ports: tuple[tuple[int, int], ...]

    def rule(self, priority: int) -> str:
        match = {6: "tcp", 17: "udp", 1: "icmp"}[self.protocol]
        for name, (net, length) in zip(("nw_src", "nw_dst"), self.pair, strict=True):
            match += f",{name}={dotted(net)}/{length}"
        for name, (value, mask) in zip(("tp_src", "tp_dst"), self.ports, strict=True):
            match += f",{name}={value:#x}/{mask:#x}" if mask else ""
        return f"priority={priority},{match},actions=output:2"

    def flow(self, order: random.Random) -> Flow:
        """One of those that it takes."""
        fill = [net | order.getrandbits(32) & (0xFFFFFFFF >> length) for net, length in self.pair]
        ports = [value | order.getrandbits(16) & ~mask & 0xFFFF for value, mask in self.ports]
        return Flow(*fill, self.protocol, *ports)

    def free_bits(self) -> int:
        return sum(32 - length for _, length in self.pair) + sum(16 - mask.bit_count() for _, mask in self.ports)


def access_list(order: random.Random, count: int) -> list[Line]:
    """Pairs of prefixes as firewalls have them, ports exact, in ranges of a power of two, or any."""
    lines: dict[Line, None] = {}
    places = [order.getrandbits(32) for _ in range(max(4, count // 20))]
    while len(lines) < count:
        pair = []
        for _ in range(2):
            length = order.choice((8, 16, 20, 24, 24, 28, 32, 32, 32))
            net = (order.choice(places) ^ order.getrandbits(12)) & (0xFFFFFFFF << (32 - length))
            pair.append((net, length))
        protocol = order.choice((6, 6, 6, 17, 17, 1))
        ports = [order.choice(((0, 0), (0, 0), (order.randrange(1, 1024), 0xFFFF), (1024, 0xFC00)))]
        ports.insert(0, order.choice(((0, 0), (0, 0), (0, 0), (1024, 0xFC00))))
        if protocol == 1:
            ports = [(0, 0), (0, 0)]
        lines[Line(tuple(pair), protocol, tuple(ports))] = None
    return list(lines)


def five_tuples(count: int, flows_per_rule: float) -> Callable[[random.Random], Made]:
    """An access list, and flows that its lines take, visited in no order."""

    def make(order: random.Random) -> Made:
        lines = access_list(order, count)
        rules = [line.rule(p) for line, p in zip(lines, order.sample(range(1, 65536), count), strict=True)]
        each = [line.flow(order) for line in lines]
        made = [frame(ROUTER, HOST, order.choice(each)) for _ in range(int(count * flows_per_rule))]
        return [order.choice(made) for _ in range(FRAMES)], rules

    return make


def tuple_space(count: int) -> Callable[[random.Random], Made]:
    """Rules of which no two have the same masks: what makes who searches tuple by tuple slowest. Flows that they take, in no order."""

    def make(order: random.Random) -> Made:
        lines: dict[tuple[int, ...], Line] = {}
        while len(lines) < count:
            of_pair, of_ports = [order.randint(1, 32) for _ in range(2)], [order.randint(1, 16) for _ in range(2)]
            pair = tuple((order.getrandbits(n) << (32 - n), n) for n in of_pair)
            ports = tuple((order.getrandbits(n) << (16 - n), 0xFFFF << (16 - n) & 0xFFFF) for n in of_ports)
            lines[(*of_pair, *of_ports)] = Line(pair, order.choice((6, 17)), ports)
        rules = [line.rule(p) for line, p in zip(lines.values(), order.sample(range(1, 65536), count), strict=True)]
        some = list(lines.values())
        return [frame(ROUTER, HOST, order.choice(some).flow(order)) for _ in range(FRAMES)], rules

    return make


def flows_of(count: int, flows: int) -> Callable[[random.Random], Made]:
    """An access list that is the same for any number of flows, and so many flows, each as often as any other."""

    def make(_: random.Random) -> Made:
        order = random.Random("flows")
        lines = access_list(order, count)
        rules = [line.rule(p) for line, p in zip(lines, order.sample(range(1, 65536), count), strict=True)]
        wide = [line for line in lines if line.free_bits() >= 16]
        some: dict[Flow, None] = {}
        while len(some) < flows:
            some[order.choice(wide).flow(order)] = None
        made = [frame(ROUTER, HOST, flow) for flow in some]
        return made * max(1, FRAMES // flows), rules

    return make


def set_fields(order: random.Random) -> Made:
    actions = "mod_dl_src:02:00:00:00:00:0a,mod_dl_dst:02:00:00:00:00:0b,dec_ttl,output:2"
    frames = [frame(ROUTER, HOST, Flow.number(order.randrange(10000))) for _ in range(FRAMES)]
    return frames, [f"priority=100,ip,actions={actions}"]


def networks(count: int) -> Callable[[random.Random], Made]:
    """So many VLANs with 16 MACs each."""

    def make(order: random.Random) -> Made:
        keys = [(vlan, mac) for vlan in range(1, count + 1) for mac in macs(order, 16)]
        frames = []
        for _ in range(FRAMES):
            i = order.randrange(len(keys))
            vlan, mac = keys[i]
            frames.append(frame(mac, HOST, Flow.number(i), struct.pack("!HHH", 0x8100, vlan, 0x0800)))
        return frames, [f"priority=100,dl_vlan={vlan},dl_dst={text(mac)},actions=output:2" for vlan, mac in keys]

    return make


def mpls_swap(order: random.Random) -> Made:
    labels, swapped = (order.sample(range(16, 1 << 20), 1000) for _ in range(2))
    frames = []
    for _ in range(FRAMES):
        i = order.randrange(1000)
        tags = struct.pack("!HI", 0x8847, labels[i] << 12 | 1 << 8 | 64)
        frames.append(frame(ROUTER, HOST, Flow.number(i), tags))
    return frames, [
        f"priority=100,dl_type=0x8847,mpls_label={old},actions=set_field:{new}->mpls_label,dec_mpls_ttl,output:2"
        for old, new in zip(labels, swapped, strict=True)
    ]


WORKLOADS = {
    "four-rewrites": Workload("four destinations, both MACs rewritten; weir with four VDPs", four_rewrites, vdps=4),
    "port": Workload("one in_port rule", one_port),
    "mac-1": Workload("one destination MAC", macs_of(1, 1024)),
    "mac-10k": Workload("10,000 MACs, uniform, a rule each", macs_of(10000)),
    "mac-10k-mods": Workload("10,000 MACs under 900 flow_mods a second", macs_of(10000), flow_mods=900),
    "mac-1m": Workload("1,000,000 MAC rules, 200,000 frames", macs_of(1000000, 200000)),
    "stations": Workload("10,000 stations in two tables, by source, then by destination; 50,000 pairs", stations(10000, *LEARNED), learning=40),
    "permitted": Workload(
        "the same pairs: by destination, written to the action set, then by source", stations(10000, *PERMITTED), learning=40
    ),
    "acl-1k": Workload("1,000 five-tuple rules, 1,300 flows", five_tuples(1000, 1.3)),
    "acl-10k": Workload("10,000 five-tuple rules, 13,000 flows", five_tuples(10000, 1.3)),
    "flows-one": Workload("1,000 five-tuple rules, one flow", flows_of(1000, 1)),
    "flows-1m": Workload("the same rules, 1,000,000 flows", flows_of(1000, 1000000), alone=True),
    "tse-8k": Workload("8,192 five-tuple rules, no two with the same masks, 50,000 flows", tuple_space(8192), alone=True),
    "set-fields": Workload("set MACs, decrement TTL; 10,000 flows", set_fields),
    "networks-4": Workload("4 VLANs with 16 MACs each; weir with a VDP for each", networks(4), vdps=4),
    "networks": Workload("1,024 VLANs with 16 MACs each; weir with a VDP for each", networks(1024), vdps=1024),
    "networks-one": Workload("the same; weir with one VDP for all", networks(1024)),
    "mpls-swap": Workload("1,000 labels, swapped, TTL decremented", mpls_swap),
}


def read_pcap(path: pathlib.Path) -> list[bytes]:
    """The frames of a pcap file of this machine's byte order."""
    data, at, frames = path.read_bytes(), 24, []
    while at + 16 <= len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        frames.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return frames


def write_pcap(path: pathlib.Path, frames: list[bytes]) -> None:
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for each in frames:
            out.write(struct.pack("<IIII", 0, 0, len(each), len(each)) + each)


def write(directory: pathlib.Path, name: str) -> tuple[pathlib.Path, pathlib.Path]:
    """The trace and the rules of a workload as files."""
    frames, rules = WORKLOADS[name].make(random.Random(name))
    trace, flows = directory / f"{name}.pcap", directory / f"{name}.flows"
    write_pcap(trace, frames)
    flows.write_text("\n".join(rules) + "\n")
    return trace, flows
