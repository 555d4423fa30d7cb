"""DPDK's testpmd and Open vSwitch with DPDK, on one core, frames from memory: rates, and one pass with its output kept.

Called by main.py, which has moved into a network namespace of its own. Touches only the directory that it is given,
a hugetlbfs in there and the number of hugepages, which is put back; ends its processes by pid.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import time

import flowmods
import workloads

HUGEPAGES = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
DPDK_MIB = 1024
MBUFS = 262144
CORE = 1
# What Open vSwitch gets before the trace: it polls a port a moment before OpenFlow knows it, and drops what arrives
# meanwhile. Told apart by their EtherType, the local experimental one.
LEAD = [bytes.fromhex("0e00000000020e000000000188b5").ljust(60, b"\0")] * 20000


class Failed(Exception):
    """A measurement that did not come about; the message says why."""


def run(*command: object, cwd: pathlib.Path) -> None:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{command[0]} in {cwd}: {(done.stderr or done.stdout).strip()[-300:]}")


def unpacked(package: str, work: pathlib.Path) -> pathlib.Path:
    """A package's file, whose contents are below `work` then: the system keeps its own."""
    run("apt-get", "download", "-qq", package, cwd=work)
    file = next(work.glob(f"{package}*.deb"))
    run("dpkg", "-x", file, work, cwd=work)
    return file


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


def switch_binary(work: pathlib.Path) -> pathlib.Path | None:
    """OVS built with DPDK: the installed one, else unpacked from its package so that the system keeps its own."""
    inside = pathlib.Path("usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk")
    for root in (pathlib.Path("/"), work):
        if (root / inside).exists():
            return root / inside
    with contextlib.suppress(Failed):
        unpacked("openvswitch-switch-dpdk", work)
    return work / inside if (work / inside).exists() else None


class Switch:
    """Open vSwitch in a directory of its own, with a bridge, rules in it, and no ports yet."""

    def __init__(self, binary: pathlib.Path, flows: pathlib.Path, work: pathlib.Path):
        self.binary, self.flows, self.work = binary, flows, work
        own = {name: str(work) for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")}
        self.env = os.environ | own | {"OVS_PKGDATADIR": "/usr/share/openvswitch"}
        self.running: list[subprocess.Popen] = []

    def call(self, *command: str) -> str:
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise Failed(f"{command[0]}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def vsctl(self, *arguments: str) -> str:
        return self.call("ovs-vsctl", "--timeout=60", f"--db=unix:{self.work}/db.sock", *arguments)

    def appctl(self, *arguments: str) -> str:
        return self.call("ovs-appctl", "-t", f"{self.work}/vswitchd.ctl", *arguments)

    def start(self, *command: str) -> subprocess.Popen:
        with (self.work / "ovs.log").open("a") as log:
            process = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.running.append(process)
        return process

    def received(self) -> int:
        stats = self.appctl("dpif-netdev/pmd-stats-show")
        return int(re.search(rf"pmd thread[^\n]*core_id {CORE}:.*?packets received: (\d+)", stats, re.S).group(1))

    def port(self, number: int, name: str, device: str) -> None:
        interface = ["type=dpdk", f"ofport_request={number}", f"options:dpdk-devargs={device}"]
        self.vsctl("add-port", "br", name, "--", "set", "Interface", name, *interface)
        fault = self.vsctl("get", "Interface", name, "error").strip()
        if fault != "[]":
            raise Failed(f"OVS port {name}: {fault}")

    @contextlib.contextmanager
    def up(self):
        work, socket = self.work, f"unix:{self.work}/db.sock"
        with hugepages(work / "huge") as huge:
            try:
                self.call("ovsdb-tool", "create", f"{work}/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
                server = self.start("ovsdb-server", f"{work}/conf.db", f"--remote=p{socket}", f"--unixctl={work}/db.ctl")
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
                self.vsctl("--no-wait", "init", "--", "set", "Open_vSwitch", ".", *settings)
                switch = self.start(str(self.binary), socket, f"--unixctl={work}/vswitchd.ctl", "--disable-system")
                wait_for((work / "vswitchd.ctl").exists, switch, "ovs-vswitchd")
                self.vsctl("add-br", "br", "--", "set", "bridge", "br", "datapath_type=netdev", "fail-mode=secure")
                self.vsctl("set", "bridge", "br", "protocols=OpenFlow13,OpenFlow14")
                self.call("ovs-ofctl", "-O", "OpenFlow13", "--bundle", "add-flows", f"{work}/br.mgmt", str(self.flows))
                yield switch
            finally:
                for process in reversed(self.running):
                    end(process)

    def rates(self, trace: pathlib.Path, window: tuple[float, int], workload: workloads.Workload) -> list[float]:
        with self.up() as switch:
            # The sink first: what the source sends before it is there would be dropped, and its flows with it.
            self.port(2, "sink", "net_null1,no-rx=1")
            self.port(1, "source", f'"net_pcap0,rx_pcap={trace},infinite_rx=1"')
            time.sleep(workload.learning)
            thread = thread_named(switch.pid, f"pmd-c{CORE:02}")
            try:
                with flowmods.changing(self.work / "br.mgmt", workload.flow_mods):
                    return measure(self.received, switch.pid, thread, *window)
            except flowmods.Refused as error:
                raise Failed(str(error)) from error

    def one_pass(self, trace: pathlib.Path) -> list[bytes]:
        """What comes out of port 2 when the trace has gone in by port 1 once."""
        wanted = workloads.read_pcap(trace)
        played, kept = self.work / "in.pcap", self.work / "out.pcap"
        workloads.write_pcap(played, LEAD + wanted)
        with self.up():
            self.port(2, "sink", f'"net_pcap1,tx_pcap={kept}"')
            self.port(1, "source", f'"net_pcap0,rx_pcap={played}"')
            last, still = -1, 0
            while still < 4:  # a pass is over when no more is received
                time.sleep(0.5)
                now = self.received()
                still, last = (still + 1 if now == last else 0), now
            self.vsctl("del-port", "br", "source", "--", "del-port", "br", "sink")
            time.sleep(1)
        if last != len(LEAD) + len(wanted):
            raise Failed(f"Open vSwitch received {last - len(LEAD)} of {len(wanted)} frames")
        return [frame for frame in workloads.read_pcap(kept) if frame[12:14] != b"\x88\xb5"]
