"""A host behind a trunk: answers ARP and pings for ADDRESS in VLAN VID, by raw sockets, on INTERFACE.

    python3 tagged_host.py INTERFACE VID ADDRESS [VID ADDRESS]...

Runs in a host's namespace; for kernels without 802.1Q devices, and because the tag is then what the switch sent and not
what a kernel made of it. Frames that come without a tag, or with another, are left alone.
"""
import fcntl
import socket
import struct
import sys

ETH_P_ALL, PACKET_AUXDATA, SOL_PACKET, TP_STATUS_VLAN_VALID = 3, 8, 263, 0x10


def main(interface, pairs):
    addresses = {(int(vid), socket.inet_aton(a)) for vid, a in zip(pairs[::2], pairs[1::2])}
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    s.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    s.bind((interface, 0))
    mac = fcntl.ioctl(s, 0x8927, struct.pack("256s", interface.encode()))[18:24]    # SIOCGIFHWADDR
    print("ready", flush=True)
    while True:
        frame, ancillary, _, address = s.recvmsg(65535, 256)
        if address[2] == socket.PACKET_OUTGOING:
            continue
        vid = tag_of(ancillary)
        if vid is None and frame[12:14] == b"\x81\0":
            vid, frame = struct.unpack("!H", frame[14:16])[0] & 0xfff, frame[:12] + frame[16:]
        if vid is None:
            continue
        reply = answer(frame, vid, addresses, mac)
        if reply:
            s.send(reply[:12] + struct.pack("!HH", 0x8100, vid) + reply[12:])


def tag_of(ancillary):
    for level, kind, data in ancillary:
        if level == SOL_PACKET and kind == PACKET_AUXDATA:
            status, _, _, _, _, tci, _ = struct.unpack("=IIIHHHH", data[:20])
            if status & TP_STATUS_VLAN_VALID:
                return tci & 0xfff
    return None


def answer(frame, vid, addresses, mac):
    kind = frame[12:14]
    if kind == b"\x08\x06" and frame[20:22] == b"\0\1" and (vid, frame[38:42]) in addresses:
        return (frame[6:12] + mac + frame[12:20] + b"\0\2" + mac + frame[38:42] + frame[22:28] + frame[28:32]).ljust(60, b"\0")
    if kind == b"\x08\0" and frame[0:6] == mac and frame[23] == 1 and (vid, frame[30:34]) in addresses:
        header = (frame[14] & 15) * 4
        icmp = 14 + header
        if frame[icmp] != 8:
            return None
        total, = struct.unpack("!H", frame[16:18])
        body = b"\0\0\0\0" + frame[icmp + 4:14 + total]
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
        swapped = frame[14:26] + frame[30:34] + frame[26:30] + frame[34:icmp]
        return frame[6:12] + mac + frame[12:14] + swapped + body
    return None


def checksum(data):
    data += b"\0" * (len(data) & 1)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
