"""Mininet's switches as weir's: all of a network's on one data plane, a VDP each.

    sudo mn --custom labs/mininet_weir.py --switch weir --controller remote --topo tree,2
    sudo mn --custom labs/mininet_weir.py --switch weirbr --controller none --topo linear,4 --test pingall

WeirSwitch takes the place of OVSSwitch, WeirBridge that of OVSBridge (no controller, learning). `weir` is looked for in the
PATH, or is what the environment says in WEIR. While the network runs, `weir show`, `top`, `capture` and `stats` look into it
by the socket that `sh echo $WEIR_SOCKET` names. Scripts import it: net = Mininet(topo, switch=WeirSwitch).
"""

import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from mininet.log import error
from mininet.node import Switch

READY_S = 60
ENDED_S = 10
# What the ring of a port takes.
FRAMES = 2048


class Plane:
    """One `weir run`, with all switches that have been started and not stopped."""

    def __init__(self):
        self.switches, self.process, self.folder, self.frames = [], None, None, None

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self):
        """Its file, from what the switches are now."""
        # With room for interfaces that come later.
        if self.frames is None:
            self.frames = 16384 + FRAMES * sum(len(s.data_ports()) for s in self.switches)
        parts = [f'[dataplane]\nsocket = "{self.path("socket")}"\nframes = {self.frames}\n']
        for vid, switch in sorted((s.vid, s) for s in self.switches):
            ports = switch.data_ports()
            parts += [f'[[port]]\nname = "{i.name}"\ndevice = "{switch.device}{i.name}"\n' for i in ports]
            numbers = ", ".join(f'"{i.name}" = {switch.ports[i]}' for i in ports)
            mapping = ", ".join(f'"in_port={i.name}"' for i in ports)
            parts.append(f'[[vdp]]\nvid = {vid}\nname = "{switch.name}"\nports = {{ {numbers} }}\nmapping = [{mapping}]\n')
            parts.append(switch.openflow())
        with open(self.path("weir.toml"), "w", encoding="utf-8") as f:
            f.write("\n".join(parts))

    def follow(self):
        """Has the data plane be what the switches are: begins it, ends it, or has it read its file again."""
        if not self.switches:
            self.end()
        elif self.process is None:
            self.begin()
        else:
            with open(self.path("log"), encoding="utf-8") as log:
                log.seek(0, os.SEEK_END)
                self.write()
                self.process.send_signal(signal.SIGHUP)
                self.wait(log, r"reload: (done|nothing differs)|.*nothing has changed.*")

    def begin(self):
        # By this name 'mn -c' finds it, after a Mininet that was killed.
        self.folder = tempfile.mkdtemp(prefix="mininet:weir-")
        atexit.register(self.end)
        os.environ["WEIR_SOCKET"] = self.path("socket")
        self.write()
        weir = os.environ.get("WEIR", "weir")
        with open(self.path("log"), "w", encoding="utf-8") as log:
            # Mininet's Ctrl-C is not meant for it.
            self.process = subprocess.Popen(
                [weir, "run", self.path("weir.toml")], stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        with open(self.path("log"), encoding="utf-8") as log:
            try:
                self.wait(log, r"running: .*")
            except Exception:
                self.end()
                raise

    def wait(self, log, line):
        """Until its log has that line; why nothing has changed, if nothing has, is shown."""
        said, until = "", time.monotonic() + READY_S
        while not re.search(f"^{line}$", said, re.M):
            more = log.read()
            said += more
            if not more:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise Exception(f"weir run: {said.strip() or 'no answer'}; its file is {self.path('weir.toml')}")
                time.sleep(0.02)
        if "nothing has changed" in said:
            error(f"*** weir: {said}\n")

    def ask(self, *words):
        done = subprocess.run(
            [os.environ.get("WEIR", "weir"), *words, "--socket", self.path("socket")], capture_output=True, text=True, check=False)
        return done.stdout

    def end(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(ENDED_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.returncode:
            with open(self.path("log"), encoding="utf-8") as log:
                error("*** weir: " + "".join(log.readlines()[-3:]))
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.process = self.frames = None


PLANE = Plane()


class WeirSwitch(Switch):
    """A VDP that is an OpenFlow switch."""

    def __init__(self, name, failMode="secure", protocols=None, device="", batch=False, **params):
        """failMode: without a controller ('secure' or 'standalone')
           protocols: as for OVSSwitch: 'OpenFlow10', 'OpenFlow13', or both with a comma
           device: the kind of its ports, such as 'af_packet:'; AF_XDP if there is nothing
           batch: wait for the others and start with them"""
        Switch.__init__(self, name, **params)
        self.fail_mode, self.protocols, self.device, self.batch = failMode, protocols, device, batch
        self.vid, self.controllers = None, []

    @classmethod
    def setup(cls):
        if not shutil.which(os.environ.get("WEIR", "weir")):
            raise Exception("weir is not in the PATH: build it (cargo build --release -p weir) and name it in WEIR")

    def data_ports(self):
        return [i for i in self.intfList() if self.ports.get(i) and not i.IP()]

    def openflow(self):
        lines = ["[vdp.openflow]", f'datapath_id = "{self.dpid}"', f'fail_mode = "{self.fail_mode}"']
        known = {"OpenFlow10": "1.0", "OpenFlow13": "1.3"}
        asked = [known.get(p) for p in (self.protocols or "").split(",") if p]
        if None in asked:
            raise Exception(f"{self.name}: protocols={self.protocols}: weir speaks OpenFlow10 and OpenFlow13")
        if asked:
            lines.append(f"versions = {asked}")
        kinds = [f"{c.protocol}:{c.IP()}:{c.port}" for c in self.controllers]
        lines.append(f"controllers = {kinds}")
        if self.listenPort:
            lines.append(f'listen = ["ptcp:{self.listenPort}"]')
        return "\n".join(lines) + "\n"

    def start(self, controllers):
        self.controllers = list(controllers)
        taken = {s.vid for s in PLANE.switches}
        self.vid = next(v for v in range(1, 65535) if v not in taken)
        PLANE.switches.append(self)
        if not self.batch:
            PLANE.follow()

    @classmethod
    def batchStartup(cls, switches, run=None):
        PLANE.follow()
        for s in switches:
            s.batch = False
        return switches

    def connected(self):
        if self.fail_mode == "standalone":
            return True
        shown = PLANE.ask("show", "--vdp", self.name, "--json")
        openflow = json.loads(shown)["result"]["vdps"][0]["detail"]["openflow"] if shown else {"controllers": []}
        return any(c["version"] for e in openflow["controllers"] for c in e["connections"])

    def attach(self, intf):
        "Connects a data port."
        self.cmd("ip", "link", "set", intf, "up")
        PLANE.follow()

    def detach(self, intf):
        "Disconnects a data port."
        self.ports.pop(self.nameToIntf.get(str(intf), intf), None)
        PLANE.follow()

    def dpctl(self, *args):
        "Runs ovs-ofctl on it."
        if not self.listenPort:
            return "give it a listenPort: mn --listenport, or listenPort=6654\n"
        version = "OpenFlow10" if self.protocols == "OpenFlow10" else "OpenFlow13"
        return self.cmd("ovs-ofctl", "-O", version, args[0], f"tcp:127.0.0.1:{self.listenPort}", *args[1:])

    def stop(self, deleteIntfs=True):
        if self in PLANE.switches:
            PLANE.switches.remove(self)
            PLANE.follow()
        super().stop(deleteIntfs)

    @classmethod
    def batchShutdown(cls, switches, run=None):
        PLANE.switches = [s for s in PLANE.switches if s not in switches]
        PLANE.follow()
        for s in switches:
            s.terminate()
        return switches


class WeirBridge(WeirSwitch):
    """A learning switch without a controller."""

    def __init__(self, *args, **params):
        params["failMode"] = "standalone"
        WeirSwitch.__init__(self, *args, **params)

    def start(self, controllers):
        super().start([])


switches = {"weir": WeirSwitch, "weirbr": WeirBridge}
