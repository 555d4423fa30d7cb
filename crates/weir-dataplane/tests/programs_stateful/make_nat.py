"""What a NAT makes of packets, by scapy: tests/golden/nat.txt. Usage: make_nat.py > FILE.

A line is: port and frame that come in, port and frame that must leave ("-": dropped). The NAT has the external
address 192.0.2.1 with ports from 2000 on, in ascending order for each protocol; it is asked in the order of lines.
"""
from scapy.config import conf
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPerror, TCPerror, UDPerror  # noqa: F401
from scapy.layers.l2 import Ether
from scapy.packet import Raw
import scapy

conf.padding = False
HOST, OTHER, GATEWAY = "02:00:00:00:07:01", "02:00:00:00:07:02", "02:00:00:00:09:09"
INSIDE, OUTSIDE = "02:00:00:00:07:c9", "02:00:00:00:07:ca"
A, B, PEER, EXTERNAL = "10.0.0.1", "10.0.0.2", "203.0.113.1", "192.0.2.1"
ROUTER = "198.51.100.7"


def inside(host, p):
    return 1, bytes(Ether(src=host, dst=INSIDE) / p)


def to_inside(host, p):
    return 1, bytes(Ether(src=INSIDE, dst=host) / p)


def outside(p):
    return 2, bytes(Ether(src=GATEWAY, dst=OUTSIDE) / p)


def to_outside(p):
    return 2, bytes(Ether(src=OUTSIDE, dst=GATEWAY) / p)


def ip(src, dst, ttl=64, **more):
    return IP(src=src, dst=dst, ttl=ttl, id=0x1234, **more)


def say(got, want):
    text = lambda f: f"{f[0]} {f[1].hex()}"  # noqa: E731
    print(text(got) + "\t" + (text(want) if want else "-"))


def both(host, own, l4, peer=PEER, ttl=64, **more):
    """A packet outwards, and the same as it must leave: l4 makes it from the source port."""
    out = lambda src, port, ttl: ip(src, peer, ttl, **more) / l4(port)  # noqa: E731
    say(inside(host, out(own[0], own[1], ttl)), to_outside(out(EXTERNAL, own[2], ttl - 1)))


def quoted(p, n=8):
    """A packet as an error quotes it: its header and n bytes."""
    p = bytes(p)
    return Raw(p[: (p[0] & 15) * 4 + n])


print("# What scapy makes of it: programs_stateful/make_nat.py")
print(f"# scapy {scapy.VERSION}")
udp = lambda data: lambda port: UDP(sport=port, dport=53) / Raw(data)  # noqa: E731
both(HOST, (A, 5000, 2000), udp(b"even"))
both(HOST, (A, 5000, 2000), udp(b"odd"))
both(OTHER, (B, 5000, 2001), udp(b""))
both(OTHER, (B, 5000, 2001), udp(bytes(range(256)) * 5), ttl=2)
both(HOST, (A, 5001, 2002), lambda port: UDP(sport=port, dport=53, chksum=0) / Raw(b"no sum"))
tcp = lambda flags, **m: lambda port: TCP(sport=port, dport=80, flags=flags, seq=7, ack=9, **m)  # noqa: E731
both(HOST, (A, 5000, 2000), tcp("S", options=[("MSS", 1460), ("SAckOK", b"")]))
both(HOST, (A, 5000, 2000), lambda port: tcp("PA")(port) / Raw(b"GET / HTTP/1.0\r\n\r\n"))
both(HOST, (A, 5002, 2001), tcp("S"), tos=0xb8, flags="DF")
echo = lambda data: lambda ident: ICMP(type=8, id=ident, seq=3) / Raw(data)  # noqa: E731
both(HOST, (A, 77, 2000), echo(b"abcdefg"))
both(HOST, (A, 77, 2000), lambda i: ICMP(type=13, id=i, seq=1, ts_ori=5, ts_rx=0, ts_tx=0))
# A router alert: the header is longer.
both(HOST, (A, 5000, 2000), udp(b"options"), options=[scapy.layers.inet.IPOption(b"\x94\x04\x00\x00")])

answer = lambda dst, l4, ttl: ip(PEER, dst, ttl) / l4  # noqa: E731
for own, l4 in (
    ((A, 5000, 2000), lambda port: UDP(sport=53, dport=port) / Raw(b"answer")),
    ((A, 5000, 2000), lambda port: TCP(sport=80, dport=port, flags="SA", seq=1, ack=8)),
    ((A, 77, 2000), lambda ident: ICMP(type=0, id=ident, seq=3) / Raw(b"abcdefg")),
):
    say(outside(answer(EXTERNAL, l4(own[2]), 50)), to_inside(HOST, answer(A, l4(own[1]), 49)))
say(outside(answer(EXTERNAL, UDP(sport=53, dport=2050), 50)), None)
say(outside(answer(EXTERNAL, TCP(sport=53, dport=2002, flags="S"), 50)), None)

# What a router says of packets that went out; what a host says of one that came in.
sent = lambda src, l4: ip(src, PEER, 60) / l4  # noqa: E731
for what in (ICMP(type=11, code=0), ICMP(type=3, code=4, nexthopmtu=1280), ICMP(type=12, code=0, ptr=9)):
    for n in (8, 28):
        for there, here in (
            (UDP(sport=2000, dport=53) / Raw(b"x" * 30), UDP(sport=5000, dport=53) / Raw(b"x" * 30)),
            (tcp("PA")(2000) / Raw(b"y" * 30), tcp("PA")(5000) / Raw(b"y" * 30)),
            (echo(b"z" * 30)(2000), echo(b"z" * 30)(77)),
        ):
            say(
                outside(ip(ROUTER, EXTERNAL, 40) / what / quoted(sent(EXTERNAL, there), n)),
                to_inside(HOST, ip(ROUTER, A, 39) / what / quoted(sent(A, here), n)),
            )
came = lambda dst, port: ip(PEER, dst, 33) / UDP(sport=53, dport=port) / Raw(b"late answer")  # noqa: E731
refuse = ICMP(type=3, code=3)
say(
    inside(HOST, ip(A, PEER) / refuse / quoted(came(A, 5000), 19)),
    to_outside(ip(EXTERNAL, PEER, 63) / refuse / quoted(came(EXTERNAL, 2000), 19)),
)
# Hairpinning: B's external endpoint, from A's.
pin = lambda src, sport, dst, dport, ttl: ip(src, dst, ttl) / UDP(sport=sport, dport=dport) / Raw(b"hello")  # noqa: E731
say(inside(HOST, pin(A, 5000, EXTERNAL, 2001, 64)), to_inside(OTHER, pin(EXTERNAL, 2000, B, 5000, 63)))
say(inside(HOST, pin(A, 5000, EXTERNAL, 2077, 64)), None)
