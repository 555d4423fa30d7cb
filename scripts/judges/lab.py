"""A laboratory: namespaces of our own in which judges, switches and hosts live, and which end with us.

Every judge calls `enter()` first: from there on it runs in a user (where it is not root), network, mount and process
namespace made for it, with an empty /run. Nothing of it is visible outside, and when its first process ends, however it
ends, the kernel ends everything else in it and removes its interfaces. So nothing is cleaned up by name, ever.

`Lab` then makes further network namespaces ("hosts"), veth pairs between them, and starts processes. Knows nothing of
OpenFlow.
"""
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
_MS_REC_PRIVATE = 0x4000 | 0x40000
_PR_SET_PDEATHSIG = 1

RUN = "/run"    # a tmpfs of the lab's own


class LabError(Exception):
    """Something in the laboratory, not in the switch, went wrong."""


def _os(result, what):
    if result < 0:
        errno = ctypes.get_errno()
        raise LabError("%s: %s" % (what, os.strerror(errno)))


def enter():
    """Returns in a child that has namespaces of its own; the parent waits for it and leaves with its exit status."""
    uid, gid = os.geteuid(), os.getegid()
    flags = _NEWNS | _NEWPID | _NEWNET | (_NEWUSER if uid else 0)
    _os(_LIBC.unshare(flags), "namespaces (needs root, or user namespaces)")
    if uid:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", "0 %d 1" % uid)
        _write("/proc/self/gid_map", "0 %d 1" % gid)
    child = os.fork()
    if child:
        _wait_for(child)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _os(_LIBC.mount(b"none", b"/", None, _MS_REC_PRIVATE, None), "mount")
    _os(_LIBC.mount(b"proc", b"/proc", b"proc", 0, None), "mount /proc")
    _os(_LIBC.mount(b"tmpfs", RUN.encode(), b"tmpfs", 0, None), "mount " + RUN)
    for directory in ("netns", "openvswitch"):      # where ip and ovs-ofctl leave things
        os.makedirs(os.path.join(RUN, directory))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))     # also where a shell started us with it ignored
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def _write(path, text):
    with open(path, "w") as f:
        f.write(text)


def _wait_for(child):
    # The terminal sends its Ctrl-C to the child as well; a plain kill reaches the parent alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    while True:
        try:
            _, status = os.waitpid(child, 0)
            break
        except InterruptedError:
            continue
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


class Process:
    """A process of the lab, its output in a file."""

    def __init__(self, name, popen, log):
        self.name, self.popen, self.log = name, popen, log

    def alive(self):
        return self.popen.poll() is None

    def output(self):
        with open(self.log, errors="replace") as f:
            return f.read()

    def stop(self, how=signal.SIGTERM, patience_s=10):
        if self.alive():
            self.popen.send_signal(how)
            try:
                self.popen.wait(patience_s)
            except subprocess.TimeoutExpired:
                self.popen.kill()
        return self.popen.wait()


class Lab:
    """Hosts, wires and processes; a context manager that ends the processes in the reverse order."""

    def __init__(self, keep_logs_in=None):
        self.logs = keep_logs_in or tempfile.mkdtemp(dir=RUN)
        os.makedirs(self.logs, exist_ok=True)
        self.processes, self.namespaces, self.interfaces = [], [], []
        self._serial = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.stop()
        for name in self.namespaces:
            self.run("ip", "netns", "del", name, check=False)
        for interface in self.interfaces:
            self.run("ip", "link", "del", interface, check=False)

    def directory(self, name):
        """A fresh directory that ends with the lab."""
        path = os.path.join(RUN, name)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        return path

    # ---- processes

    def spawn(self, name, argv, ns=None, env=None, cwd=None):
        self._serial += 1
        log = os.path.join(self.logs, "%02d-%s.log" % (self._serial, name))
        with open(log, "wb") as out:
            popen = subprocess.Popen(_in(ns, argv), stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                     env=dict(os.environ, **(env or {})), cwd=cwd, start_new_session=True)
        process = Process(name, popen, log)
        self.processes.append(process)
        return process

    def run(self, *argv, ns=None, check=True, timeout=120, env=None, stdin=None):
        """Runs to the end; returns (exit status, stdout, stderr)."""
        r = subprocess.run(_in(ns, argv), capture_output=True, text=True, timeout=timeout, input=stdin,
                           env=dict(os.environ, **(env or {})))
        if check and r.returncode:
            raise LabError("%s: %s" % (" ".join(map(str, argv)), (r.stderr or r.stdout).strip()))
        return r.returncode, r.stdout, r.stderr

    def wait(self, what, condition, patience_s=30.0, needs=None):
        """Until `condition()` is true; raises when it does not become so, or a process in `needs` ends."""
        end = time.monotonic() + patience_s
        while True:
            answer = condition()
            if answer:
                return answer
            for process in needs or ():
                if not process.alive():
                    raise LabError("waiting for %s: %s ended: %s" % (what, process.name, process.output()[-2000:]))
            if time.monotonic() > end:
                raise LabError("waited %.0f s for %s" % (patience_s, what))
            time.sleep(0.05)

    # ---- namespaces and wires

    def namespace(self, name):
        self.run("ip", "netns", "add", name)
        self.namespaces.append(name)
        self.run("ip", "link", "set", "lo", "up", ns=name)
        return name

    def wire(self, a, a_ns, b, b_ns):
        """A veth pair, both ends up; `None` is the lab's own namespace."""
        self.run("ip", "link", "add", a, "type", "veth", "peer", "name", b)
        for interface, ns in ((a, a_ns), (b, b_ns)):
            if ns:
                self.run("ip", "link", "set", interface, "netns", ns)
            else:
                self.interfaces.append(interface)
        for interface, ns in ((a, a_ns), (b, b_ns)):
            self.run("ip", "link", "set", interface, "up", ns=ns)

    def silence(self, interface, ns=None):
        """No frame of the kernel's own leaves this interface: it belongs to a switch."""
        self.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/%s/disable_ipv6" % interface, ns=ns)
        self.run("ip", "addr", "flush", "dev", interface, ns=ns)
        self.no_offload(interface, ns)

    def no_offload(self, interface, ns=None):
        """Whole frames with whole checksums: what a switch that reads raw sockets is entitled to."""
        self.run("ethtool", "-K", interface, "tx", "off", "rx", "off", "gro", "off", "gso", "off", "tso", "off",
                 ns=ns, check=False)

    def switch_port(self, name, peer, peer_ns, switch_ns=None):
        """A wire whose end `name` is for a switch and whose end `peer` is in `peer_ns`."""
        self.wire(name, switch_ns, peer, peer_ns)
        self.silence(name, switch_ns)
        return name

    def host(self, name, *addresses, switch_ns=None, mac=None, via=None):
        """A namespace with one interface, eth0; returns the switch's end of its wire, "p" + name."""
        self.namespace(name)
        port = "p" + name
        self.wire(port, switch_ns, "eth0", name)
        self.silence(port, switch_ns)
        self.no_offload("eth0", name)
        if mac:
            self.run("ip", "link", "set", "eth0", "address", mac, ns=name)
        self.run("sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad", ns=name)
        for address in addresses:
            extra = ["nodad"] if ":" in address else []
            self.run("ip", "addr", "add", address, "dev", "eth0", *extra, ns=name)
        for gateway in [via] if isinstance(via, str) else via or ():
            self.run("ip", *(["-6"] if ":" in gateway else []), "route", "add", "default", "via", gateway, ns=name)
        return port

    # ---- hosts' programs

    def ping(self, ns, to, count=3, patience_s=1, size=None):
        """How many of `count` echo requests were answered. Python's own raw sockets: no ping package is wanted."""
        return _ping(self, ns, to, count, patience_s, size)

    def send(self, ns, frame, count=1):
        """`count` copies of a frame (bytes) out of a host's eth0, as they are; 10,000 a second, since a switch that
        reads a socket has but its buffer."""
        code = ("import socket,sys,time; s=socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0)); "
                "[(s.send(bytes.fromhex(sys.argv[1])), n % 20 or time.sleep(0.002)) for n in range(int(sys.argv[2]))]")
        self.run(sys.executable, "-c", code, frame.hex(), count, ns=ns)

    def received(self, ns):
        """Frames that a host's eth0 has received."""
        import json
        _, out, _ = self.run("ip", "-s", "-j", "link", "show", "eth0", ns=ns)
        return json.loads(out)[0]["stats64"]["rx"]["packets"]

    def iperf(self, server_ns, client_ns, to, seconds=2):
        """Bits a second by TCP, received."""
        import json
        server = self.spawn("iperf3-server", ["iperf3", "-s", "-1"], ns=server_ns)
        self.wait("iperf3", lambda: listening(self, server_ns, 5201), needs=[server])
        _, out, _ = self.run("iperf3", "-c", to, "-t", str(seconds), "-J", ns=client_ns, timeout=seconds + 30)
        server.stop()
        return json.loads(out)["end"]["sum_received"]["bits_per_second"]


def _in(ns, argv):
    argv = [str(a) for a in argv]
    return (["ip", "netns", "exec", ns] if ns else []) + argv


def listening(lab, ns, port):
    """Does somebody listen on this TCP port?"""
    _, out, _ = lab.run("cat", "/proc/net/tcp", "/proc/net/tcp6", ns=ns)
    want = ":%04X" % port
    return any(f[1].endswith(want) and f[3] == "0A" for f in (line.split() for line in out.splitlines()) if len(f) > 3)


_PINGER = r"""
import os, select, socket, struct, sys, time
to, count, patience, size = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
six = ":" in to
s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_RAW, 58 if six else 1)
def checksum(b):
    b += b"\0" * (len(b) & 1)
    t = sum(struct.unpack("!%dH" % (len(b) // 2), b))
    t = (t >> 16) + (t & 0xffff)
    return ~(t + (t >> 16)) & 0xffff
ident, got = os.getpid() & 0xffff, 0
for n in range(count):
    body = bytes(range(256)) * (size // 256 + 1)
    head = struct.pack("!BBHHH", 128 if six else 8, 0, 0, ident, n)
    p = head + body[:size]
    if not six:
        p = p[:2] + struct.pack("!H", checksum(p)) + p[4:]
    end = time.monotonic() + patience
    try:
        s.sendto(p, (to, 0))
    except OSError:
        time.sleep(patience)
        continue
    while (left := end - time.monotonic()) > 0 and select.select([s], [], [], left)[0]:
        r = s.recv(65535)
        r = r if six else r[(r[0] & 15) * 4:]
        if r[0] == (129 if six else 0) and r[4:8] == struct.pack("!HH", ident, n) and r[8:] == p[8:]:
            got += 1
            break
print(got)
"""


def _ping(lab, ns, to, count, patience_s, size):
    argv = [sys.executable, "-c", _PINGER, to, str(count), str(patience_s), str(size or 56)]
    _, out, _ = lab.run(*argv, ns=ns, timeout=count * patience_s + 20)
    return int(out)
