"""weir beside DPDK's testpmd and Open vSwitch with DPDK: frames from memory, one core, no NIC. Called by ./run.

    bench_peers.py [--seconds S] [--repeats N] [--workload NAME] [--json FILE]

Each workload is a trace and rules in ovs-ofctl's syntax, made here, the same bytes every time. Every program gets the
same trace: testpmd and OVS replay it through net_pcap into net_null, weir through `weir bench dataplane`. The figure is
millions of frames per CPU-second of the forwarding thread, which holds on a busy machine; each row is the median of
the repeats. testpmd's `io` is what the generator and the sink cost alone, and is part of testpmd's and OVS's figures.

Needs root (hugepages, a network namespace). What is not installed is said, and its rows left out.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEIR = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "weir"
HUGEPAGES = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
DPDK_MIB = 1024
MBUFS = 262144
CORE = 1


# ---- workloads -------------------------------------------------------------------------------------------------------


def udp_frame(dst: bytes, src: bytes, flow: int, tags: bytes = b"") -> bytes:
    """60 bytes, 64 with the FCS: Ethernet, optional tags that end in an IPv4 payload, IPv4, UDP without a checksum."""
    room = 60 - 14 - len(tags)
    header = struct.pack("!BBHHHBBHII", 0x45, 0, room, 0, 0, 64, 17, 0, 0x0A000000 + flow, 0x0A800000 + flow)
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header = header[:10] + struct.pack("!H", 0xFFFF - ((total & 0xFFFF) + (total >> 16))) + header[12:]
    datagram = struct.pack("!HHHH", 1024 + flow % 50000, 2000, room - 20, 0)
    kind = b"" if tags else b"\x08\x00"
    return (dst + src + (tags or kind) + header + datagram).ljust(60, b"\0")


def local_mac(number: int) -> bytes:
    return b"\x02" + number.to_bytes(5, "big")


def text(mac: bytes) -> str:
    return mac.hex(":")


def four_rewrites() -> tuple[list[bytes], list[str]]:
    """Four destinations, each with a rule of its own that rewrites both MACs: what testpmd's macswap does blindly."""
    frames = [udp_frame(local_mac(1 + n % 4), local_mac(100), n) for n in range(256)]
    rules = [
        f"priority=10,dl_dst={text(local_mac(n))},"
        f"actions=set_field:{text(local_mac(200 + n))}->eth_dst,set_field:{text(local_mac(300))}->eth_src,output:2"
        for n in range(1, 5)
    ]
    return frames, rules


def many_macs() -> tuple[list[bytes], list[str]]:
    """Ten thousand destination MACs, as many rules, visited in no order."""
    order = random.Random(1)
    macs = [local_mac(n) for n in order.sample(range(1 << 24), 10000)]
    frames = [udp_frame(order.choice(macs), local_mac(1 << 30), n) for n in range(50000)]
    return frames, [f"priority=10,dl_dst={text(mac)},actions=output:2" for mac in macs]


def mpls_swap() -> tuple[list[bytes], list[str]]:
    """A thousand labels, each swapped for another."""
    order = random.Random(2)
    labels = order.sample(range(16, 1 << 20), 1000)
    frames = []
    for n in range(10000):
        entry = struct.pack("!HI", 0x8847, order.choice(labels) << 12 | 1 << 8 | 64)
        frames.append(udp_frame(local_mac(1), local_mac(2), n, tags=entry))
    return frames, [
        f"priority=10,mpls,mpls_label={label},actions=set_field:{label ^ 1}->mpls_label,output:2" for label in labels
    ]


WORKLOADS = {"four-rewrites": four_rewrites, "many-macs": many_macs, "mpls-swap": mpls_swap}


def write_workload(directory: pathlib.Path, name: str) -> tuple[pathlib.Path, pathlib.Path]:
    frames, rules = WORKLOADS[name]()
    trace, flows = directory / f"{name}.pcap", directory / f"{name}.flows"
    with trace.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for frame in frames:
            out.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
    flows.write_text("\n".join(rules) + "\n")
    return trace, flows


# ---- what a DPDK program needs ---------------------------------------------------------------------------------------


class Failed(Exception):
    """A measurement that did not come about; the message says why."""


@contextlib.contextmanager
def hugepages(directory: pathlib.Path):
    """A hugetlbfs of our own, and enough pages; both put back as found."""
    total, free = HUGEPAGES / "nr_hugepages", HUGEPAGES / "free_hugepages"
    was = int(total.read_text())
    wanted = DPDK_MIB // 2 + 40
    directory.mkdir()
    subprocess.run(["mount", "-t", "hugetlbfs", "none", directory], check=True)
    try:
        short = wanted - int(free.read_text())
        if short > 0:
            total.write_text(str(was + short))
        if int(free.read_text()) < wanted:
            raise Failed(f"the kernel gives {free.read_text().strip()} hugepages of {wanted}")
        yield directory
    finally:
        shutil.rmtree(pathlib.Path("/var/run/dpdk") / directory.parent.name, ignore_errors=True)
        subprocess.run(["umount", directory], check=False)
        total.write_text(str(was))


def thread_named(pid: int, *prefixes: str) -> int:
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().startswith(prefixes):
            return int(task.name)
    raise Failed(f"process {pid} has no thread called {' or '.join(prefixes)}")


def cpu_seconds(pid: int, thread: int) -> float:
    return int(pathlib.Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0]) / 1e9


def wait_for(condition, process: subprocess.Popen, what: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            raise Failed(f"{what} did not come up")
        time.sleep(0.05)


def end(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def measure(count, pid: int, thread: int, seconds: float, repeats: int) -> list[float]:
    """Millions of frames per CPU-second of one thread, once per repeat; `count` reads the frames so far."""
    rates = []
    for _ in range(repeats):
        frames, cpu = count(), cpu_seconds(pid, thread)
        time.sleep(seconds)
        frames, cpu = count() - frames, cpu_seconds(pid, thread) - cpu
        rates.append(frames / cpu / 1e6)
    return rates


# ---- the programs ----------------------------------------------------------------------------------------------------


def testpmd(mode: str, trace: pathlib.Path, work: pathlib.Path, seconds: float, repeats: int) -> list[float]:
    with hugepages(work / "huge") as huge, (work / "testpmd.log").open("w+") as log:
        process = subprocess.Popen(
            ["stdbuf", "-oL", "dpdk-testpmd", "-l", f"0,{CORE}", "--main-lcore", "0", "--no-pci", "--no-telemetry"]
            + ["--file-prefix", work.name, "--huge-dir", huge, "--huge-unlink", "-m", str(DPDK_MIB)]
            + ["--vdev", f"net_pcap0,rx_pcap={trace},infinite_rx=1", "--vdev", "net_null0,no-rx=1", "--", "-i"]
            + [f"--forward-mode={mode}", "--nb-cores=1", f"--coremask={1 << CORE:#x}"]
            + [f"--total-num-mbufs={MBUFS}", "--mbuf-size=2176"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        )
        printed = pathlib.Path(log.name)

        def command(line: str) -> None:
            process.stdin.write(line + "\n")
            process.stdin.flush()

        def sent() -> int:
            start = printed.stat().st_size
            command("show port stats all")
            found: list[str] = []

            def answered() -> bool:
                with printed.open(errors="replace") as answer:
                    answer.seek(start)
                    found[:] = re.findall(r"TX-packets: (\d+)", answer.read())
                return len(found) == 2

            wait_for(answered, process, "testpmd's answer")
            return int(found[1])

        try:
            wait_for(lambda: "testpmd>" in printed.read_text(errors="replace"), process, "testpmd")
            command("start")
            time.sleep(1)
            thread = thread_named(process.pid, f"lcore-worker-{CORE}", f"rte-worker-{CORE}")
            return measure(sent, process.pid, thread, seconds, repeats)
        except (Failed, BrokenPipeError) as error:
            raise Failed(f"{error}: {printed.read_text(errors='replace').strip()[-300:]}") from error
        finally:
            end(process)


def ovs_binary(work: pathlib.Path) -> pathlib.Path | None:
    """OVS built with DPDK: the installed one, else unpacked from its package so that the system keeps its own."""
    inside = pathlib.Path("usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk")
    for root in (pathlib.Path("/"), work):
        if (root / inside).exists():
            return root / inside
    subprocess.run(["apt-get", "download", "-qq", "openvswitch-switch-dpdk"], cwd=work, capture_output=True, check=False)
    for package in work.glob("openvswitch-switch-dpdk*.deb"):
        subprocess.run(["dpkg", "-x", package, work], check=True)
    return work / inside if (work / inside).exists() else None


def ovs(binary: pathlib.Path, trace: pathlib.Path, flows: pathlib.Path, work: pathlib.Path, seconds: float, repeats: int):
    """OVS in a directory and a network namespace of its own: its userspace datapath wants a TAP of a fixed name."""
    own = {name: str(work) for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")}
    env = os.environ | own | {"OVS_PKGDATADIR": "/usr/share/openvswitch"}
    socket = f"unix:{work}/db.sock"
    running: list[subprocess.Popen] = []

    def call(*command: str) -> str:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise Failed(f"{command[0]}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def vsctl(*arguments: str) -> str:
        return call("ovs-vsctl", "--timeout=60", f"--db={socket}", *arguments)

    def received() -> int:
        stats = call("ovs-appctl", "-t", f"{work}/vswitchd.ctl", "dpif-netdev/pmd-stats-show")
        return int(re.search(rf"pmd thread[^\n]*core_id {CORE}:.*?packets received: (\d+)", stats, re.S).group(1))

    def start(*command: str) -> subprocess.Popen:
        with (work / "ovs.log").open("a") as log:
            process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        running.append(process)
        return process

    with hugepages(work / "huge") as huge:
        try:
            call("ovsdb-tool", "create", f"{work}/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
            server = start("ovsdb-server", f"{work}/conf.db", f"--remote=p{socket}", f"--unixctl={work}/db.ctl")
            wait_for((work / "db.sock").exists, server, "ovsdb-server")
            extra = f"--no-pci --no-telemetry --huge-unlink --huge-dir {huge} --file-prefix {work.name}"
            options = {
                "dpdk-init": "true",
                "dpdk-socket-mem": str(DPDK_MIB),
                "pmd-cpu-mask": f"{1 << CORE:#x}",
                "dpdk-lcore-mask": "0x1",
                "dpdk-extra": f'"{extra}"',
            }
            settings = [f"other_config:{key}={value}" for key, value in options.items()]
            vsctl("--no-wait", "init", "--", "set", "Open_vSwitch", ".", *settings)
            switch = start(str(binary), socket, f"--unixctl={work}/vswitchd.ctl", "--disable-system")
            wait_for((work / "vswitchd.ctl").exists, switch, "ovs-vswitchd")
            vsctl("add-br", "br", "--", "set", "bridge", "br", "datapath_type=netdev", "fail-mode=secure")
            vsctl("set", "bridge", "br", "protocols=OpenFlow13")
            call("ovs-ofctl", "-O", "OpenFlow13", "--bundle", "add-flows", f"{work}/br.mgmt", str(flows))
            # The sink first: what the source sends before it is there would be dropped, and its flows with it.
            for port, name, device in (
                (2, "sink", "net_null1,no-rx=1"),
                (1, "source", f'"net_pcap0,rx_pcap={trace},infinite_rx=1"'),
            ):
                interface = ["type=dpdk", f"ofport_request={port}", f"options:dpdk-devargs={device}"]
                vsctl("add-port", "br", name, "--", "set", "Interface", name, *interface)
                fault = vsctl("get", "Interface", name, "error").strip()
                if fault != "[]":
                    raise Failed(f"OVS port {name}: {fault}")
            time.sleep(5)  # its caches fill
            thread = thread_named(switch.pid, f"pmd-c{CORE:02}")
            return measure(received, switch.pid, thread, seconds, repeats)
        finally:
            for process in reversed(running):
                end(process)


def weir(trace: pathlib.Path, flows: pathlib.Path, seconds: float, repeats: int) -> list[float]:
    rates = []
    for _ in range(repeats):
        command = [WEIR, "bench", "dataplane", "--rules", flows, "--trace", trace, "--seconds", str(seconds), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"weir: {done.stderr.strip()[-300:]}")
        rates.append(float(json.loads(done.stdout)["mpps_per_cpu_s"]))
    return rates


# ---- the comparison --------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(prog="run bench-peers", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--repeats", type=int, default=3, help="measurements; the median counts")
    parser.add_argument("--workload", choices=WORKLOADS, help="only this one")
    parser.add_argument("--json", type=pathlib.Path, help="write every single result here")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench-peers: needs root for hugepages and a network namespace; try sudo ./run bench-peers")

    results = []
    print(f"{'workload':<15} {'program':<18} {'M frames/CPU-s':>15} {'least':>8} {'most':>8}")

    def row(workload: str, program: str, run) -> None:
        try:
            rates = run()
        except (Failed, OSError, subprocess.SubprocessError) as error:
            print(f"{workload:<15} {program:<18} not measured: {error}", flush=True)
            results.append({"workload": workload, "program": program, "error": str(error)})
            return
        median = statistics.median(rates)
        print(f"{workload:<15} {program:<18} {median:>15.2f} {min(rates):>8.2f} {max(rates):>8.2f}", flush=True)
        results.append({"workload": workload, "program": program, "mpps_per_cpu_s": median, "repeats": rates})

    with tempfile.TemporaryDirectory(prefix="weir-peers-") as temporary:
        base = pathlib.Path(temporary)
        fetched = base / "ovs-dpdk"
        fetched.mkdir()
        dpdk = shutil.which("dpdk-testpmd") is not None
        switch = ovs_binary(fetched) if dpdk else None
        unshare_network()  # from here on no network is needed
        for name in [arguments.workload] if arguments.workload else WORKLOADS:
            trace, flows = write_workload(base, name)
            window = (arguments.seconds, arguments.repeats)
            row(name, "weir", lambda: weir(trace, flows, *window))
            for mode in ("io", "macswap", "5tswap") if dpdk else ():
                with tempfile.TemporaryDirectory(prefix="weir-testpmd-") as own:
                    row(name, f"testpmd {mode}", lambda: testpmd(mode, trace, pathlib.Path(own), *window))
            if switch:
                with tempfile.TemporaryDirectory(prefix="weir-ovs-") as own:
                    row(name, "Open vSwitch", lambda: ovs(switch, trace, flows, pathlib.Path(own), *window))
        if not dpdk:
            print("testpmd is not installed (apt-get install dpdk-dev): its rows and Open vSwitch's are left out")
        elif not switch:
            print("Open vSwitch with DPDK is not to be had (openvswitch-switch-dpdk): its rows are left out")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    if any("error" in result for result in results):
        sys.exit(1)


def unshare_network() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(0x40000000) != 0:  # CLONE_NEWNET
        sys.exit(f"bench-peers: no network namespace: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


if __name__ == "__main__":
    main()
