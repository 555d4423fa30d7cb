"""Carries frames between a TAP and an interface, adding VLAN tags one way and removing them the other.

Stands in for a VLAN device where the kernel has none. Run by record.sh inside a host's namespace:

    tagger.py TAP INTERFACE MAC TPID:VID[,TPID:VID]      (TPIDs in hexadecimal, outermost tag first)
"""

import fcntl
import os
import select
import socket
import struct
import sys

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
SIOCSIFHWADDR, ARPHRD_ETHER = 0x8924, 1
SOL_PACKET, PACKET_AUXDATA, ETH_P_ALL = 263, 8, 3
PACKET_OUTGOING = 4
TP_STATUS_VLAN_VALID, TP_STATUS_VLAN_TPID_VALID = 0x10, 0x40


def open_tap(name: str, mac: str) -> int:
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        address = bytes.fromhex(mac.replace(":", ""))
        request = struct.pack("16sH6s16x", name.encode(), ARPHRD_ETHER, address)
        fcntl.ioctl(any_socket, SIOCSIFHWADDR, request)
    return tap


def open_interface(name: str) -> socket.socket:
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    # The kernel takes the outer tag out of a received frame and reports it beside the frame.
    wire.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    wire.bind((name, 0))
    return wire


def receive_whole(wire: socket.socket) -> bytes | None:
    """One received frame with its outer tag back in place; None for a frame that was sent from here."""
    frame, ancillary, _, address = wire.recvmsg(65536, socket.CMSG_SPACE(20))
    if address[2] == PACKET_OUTGOING:
        return None
    for level, kind, data in ancillary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA) and len(data) >= 20:
            status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", data[:20])
            if status & TP_STATUS_VLAN_VALID:
                if not status & TP_STATUS_VLAN_TPID_VALID:
                    tpid = 0x8100
                frame = frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
    return frame


def parse_tags(text: str) -> bytes:
    pairs = (tag.split(":") for tag in text.split(","))
    return b"".join(struct.pack("!HH", int(tpid, 16), int(vid)) for tpid, vid in pairs)


def main() -> None:
    tap_name, wire_name, mac, tags_text = sys.argv[1:]
    tags = parse_tags(tags_text)
    tap, wire = open_tap(tap_name, mac), open_interface(wire_name)
    while True:
        ready, _, _ = select.select([tap, wire], [], [])
        if tap in ready:
            frame = os.read(tap, 65536)
            try:
                wire.send(frame[:12] + tags + frame[12:])
            except OSError:
                pass  # the interface is down for now: the frame is lost, as on a pulled cable
        if wire in ready:
            frame = receive_whole(wire)
            if frame is not None and frame[12 : 12 + len(tags)] == tags:
                try:
                    os.write(tap, frame[:12] + frame[12 + len(tags) :])
                except OSError:
                    pass  # the TAP is not up yet


if __name__ == "__main__":
    main()
