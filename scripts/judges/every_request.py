"""A controller that sends each request of a version once and says which were not answered as they should be: for the
messages that no tool asks for (roles, asynchronous configuration, queues), so that tshark sees their answers, too.

Called by the judge `ofctl` while it captures. Touches one TCP connection.
"""
import socket
import struct

ANY = 0xffffffff
ERROR, ECHO_REQUEST, ECHO_REPLY, EXPERIMENTER = 1, 2, 3, 4
NICIRA_ROLE = struct.pack("!III", 0x2320, 10, 0)

ALL_13 = struct.pack("!B3xII4xQQHH4x", 0xff, ANY, ANY, 0, 0, 1, 4)
ALL_10 = struct.pack("!I36xBxH", 0x003fffff, 0xff, 0xffff)
STATS_13 = {0: b"", 1: ALL_13, 2: ALL_13, 3: b"", 4: struct.pack("!I4x", ANY), 5: struct.pack("!II", ANY, ANY),
            6: struct.pack("!I4x", 0xfffffffc), 7: b"", 8: b"", 9: struct.pack("!I4x", ANY),
            10: struct.pack("!I4x", ANY), 11: b"", 12: b"", 13: b""}
STATS_10 = {0: b"", 1: ALL_10, 2: ALL_10, 3: b"", 4: struct.pack("!H6x", 0xffff), 5: struct.pack("!H2xI", 0xfffc, ANY)}

# (name, type, body, type of the answer)
REQUESTS = {
    "of13": (4, [("echo", ECHO_REQUEST, b"echo", ECHO_REPLY), ("features", 5, b"", 6), ("get_config", 7, b"", 8),
                 ("queue_get_config", 22, struct.pack("!I4x", ANY), 23),
                 ("role: what is it", 24, struct.pack("!I4xQ", 0, 0), 25),
                 ("role: equal", 24, struct.pack("!I4xQ", 1, 0), 25), ("get_async", 26, b"", 27),
                 ("experimenter", EXPERIMENTER, struct.pack("!II", 1, 1), ERROR), ("barrier", 20, b"", 21)],
             (18, 19, 4, STATS_13)),
    "of10": (1, [("echo", ECHO_REQUEST, b"echo", ECHO_REPLY), ("features", 5, b"", 6), ("get_config", 7, b"", 8),
                 ("queue_get_config", 20, struct.pack("!H2x", 1), 21),
                 ("Nicira's role", EXPERIMENTER, NICIRA_ROLE, EXPERIMENTER), ("barrier", 18, b"", 19)],
             (16, 17, 0, STATS_10)),
}


def answers(address, version):
    """(all were answered, what was not); `address` is "tcp:HOST:PORT"."""
    _, host, port = address.split(":")
    number, requests, (ask, reply, padding, statistics) = REQUESTS[version]
    kinds = [("statistics %d" % kind, ask, struct.pack("!HH", kind, 0) + bytes(padding) + body, reply)
             for kind, body in statistics.items()]
    wrong = []
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(struct.pack("!BBHI", number, 0, 8, 1))
        message(sock)
        for xid, (name, kind, body, wanted) in enumerate(requests + kinds, 2):
            sock.sendall(struct.pack("!BBHI", number, kind, 8 + len(body), xid) + body)
            got = whole_answer(sock, xid, reply)
            if got != (number, wanted):
                wrong.append("%s: version %d, type %d" % (name, *got))
    return not wrong, "; ".join(wrong) or "%d requests" % len(requests + kinds)


def whole_answer(sock, xid, reply):
    """Version and type of the answer to `xid`, read to the end of its last part."""
    while True:
        version, kind, got, body = message(sock)
        more = kind == reply and struct.unpack("!H", body[2:4])[0] & 1
        if got == xid and not more:
            return version, kind


def message(sock):
    version, kind, length, xid = struct.unpack("!BBHI", exactly(sock, 8))
    return version, kind, xid, exactly(sock, length - 8)


def exactly(sock, count):
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise ConnectionError("the switch has closed the connection")
        data += more
    return data
