"""Memory and idle CPU of `weir run` with many VDPs, each of them a switch that is connected to its controller.

A part of `./run bench-openflow`. The controller here does what keeps a connection up: it greets, asks for the features and
answers echo requests. Touches the lab it is given.
"""
import asyncio
import os
import struct

VDPS = 1024
SECONDS = 12
PATIENCE_S = 120
PORT = 6653
HELLO, ECHO_REQUEST, ECHO_REPLY, FEATURES_REQUEST, FEATURES_REPLY = 0, 2, 3, 5, 6


def measure(lab, weir):
    """{"vdps", "resident_bytes", "idle_cpu_percent", "seconds"}: idle is a part of one core, over `seconds`."""
    directory = lab.directory("many")
    path = os.path.join(directory, "many.toml")
    with open(path, "w") as f:
        f.write("".join('[[port]]\nname = "p%d"\ndevice = "null"\n' % n for n in range(2)))
        f.write("".join('[[vdp]]\nvid = %d\nname = "v%d"\nports = ["p0", "p1"]\nmapping = ["in_port=p0,dl_vlan=%d"]\n'
                        '[vdp.openflow]\ncontrollers = ["tcp:127.0.0.1:%d"]\n' % (n, n, n, PORT) for n in range(1, VDPS + 1)))
    return asyncio.run(_watched(lab, [weir, "run", "--socket", os.path.join(directory, "socket"), path]))


async def _watched(lab, argv):
    up, everyone = set(), asyncio.Event()

    async def controller(reader, writer):
        writer.write(struct.pack("!BBHIHHI", 4, HELLO, 16, 1, 1, 8, 1 << 4))
        try:
            while True:
                head = await reader.readexactly(8)
                _, kind, length, _ = struct.unpack("!BBHI", head)
                body = await reader.readexactly(length - 8)
                if kind == HELLO:
                    writer.write(struct.pack("!BBHI", 4, FEATURES_REQUEST, 8, 2))
                elif kind == ECHO_REQUEST:
                    writer.write(bytes([4, ECHO_REPLY]) + head[2:] + body)
                elif kind == FEATURES_REPLY:
                    up.add(body[:8])
                    if len(up) == VDPS:
                        everyone.set()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass

    server = await asyncio.start_server(controller, "127.0.0.1", PORT, backlog=4096)
    process = lab.spawn("many", argv)
    try:
        try:
            await asyncio.wait_for(everyone.wait(), PATIENCE_S)
        except asyncio.TimeoutError:
            raise RuntimeError("%d of %d switches came: %s" % (len(up), VDPS, process.output()[-300:])) from None
        await asyncio.sleep(2)
        pid = process.popen.pid
        before = _cpu_seconds(pid)
        await asyncio.sleep(SECONDS)
        used = _cpu_seconds(pid) - before
        return dict(vdps=VDPS, resident_bytes=_resident(pid), idle_cpu_percent=100 * used / SECONDS, seconds=SECONDS)
    finally:
        process.stop()
        server.close()


def _cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as f:
        values = f.read().rsplit(")", 1)[1].split()
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))


def section(result):
    """Lines of the page."""
    return ["", "## %s switches" % format(result["vdps"], ","), "",
            "As many VDPs in one process, each connected to a controller that answers echo requests and asks nothing.", "",
            "| | |", "| --- | ---: |",
            "| resident memory at most | %.0f MiB |" % (result["resident_bytes"] / 2**20),
            "| CPU, idle, over %d s | %.1f %% of a core |" % (result["seconds"], result["idle_cpu_percent"])]
