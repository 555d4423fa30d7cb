"""Rules added and deleted at a steady rate over OpenFlow 1.3 while a switch forwards. Called by dpdk.py."""

import contextlib
import pathlib
import socket
import struct
import threading
import time

VERSION, HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, FLOW_MOD = 4, 0, 1, 2, 3, 14
ADD, DELETE_STRICT = 0, 4
# Of the rules added, so many stay for a while: as `weir bench dataplane --flow-mods` does.
STAY = 64


def flow_mod(number: int, command: int) -> bytes:
    """One exact destination, of a range that no trace has; what comes to it is dropped."""
    mac = b"\x06" + number.to_bytes(5, "big")
    match = struct.pack("!HHI6s2x", 1, 14, 0x80000606, mac)
    body = struct.pack("!QQBBHHHIIIH2x", 0, 0, 0, command, 0, 0, 100, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return message(FLOW_MOD, body + match)


def message(kind: int, body: bytes = b"", xid: int = 0) -> bytes:
    return struct.pack("!BBHI", VERSION, kind, 8 + len(body), xid) + body


class Refused(Exception):
    """The switch refused a change, or the rate was not held."""


@contextlib.contextmanager
def changing(where: pathlib.Path, a_second: int):
    """Within, `a_second` changes a second are made at the Unix socket `where`; none, where that is 0."""
    if not a_second:
        yield
        return
    over, faults, made = threading.Event(), [], 0
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(where))
    connection.sendall(message(HELLO))

    def listen() -> None:
        buffer = b""
        with contextlib.suppress(OSError):
            while more := connection.recv(65536):
                buffer += more
                while len(buffer) >= 8 and len(buffer) >= (length := struct.unpack("!H", buffer[2:4])[0]):
                    if buffer[1] == ERROR:
                        faults.append(buffer[8:12].hex())
                    if buffer[1] == ECHO_REQUEST:
                        connection.sendall(message(ECHO_REPLY, buffer[8:length], struct.unpack("!I", buffer[4:8])[0]))
                    buffer = buffer[length:]

    def change() -> None:
        nonlocal made
        start = time.monotonic()
        while not over.is_set():
            while made < (time.monotonic() - start) * a_second:
                number = made // 2
                if made % 2 == 0:
                    connection.sendall(flow_mod(number, ADD))
                elif number >= STAY:
                    connection.sendall(flow_mod(number - STAY, DELETE_STRICT))
                made += 1
            time.sleep(0.001)

    threads = [threading.Thread(target=work, daemon=True) for work in (listen, change)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    try:
        yield
    finally:
        over.set()
        threads[1].join()
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()
    if faults:
        raise Refused(f"Open vSwitch refused {len(faults)} changes, the first by error {faults[0]}")
    if made < 0.9 * a_second * (time.monotonic() - began):
        raise Refused(f"only {made} changes in {time.monotonic() - began:.1f} s")
