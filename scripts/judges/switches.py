"""The switches that judges look at: Open vSwitch's user-space data path, or weir, in a lab.

`Ovs` is a private ovsdb-server and ovs-vswitchd pair, never the system's. `Weir` is `weir run` on a configuration made
from weir.toml.in. `switch(...)` gives either by name, with the same attributes:

    mgmt        what ovs-ofctl is given ("tcp:127.0.0.1:PORT")
    version     of the program
    process     the lab's Process of the data path

Called by the judges and the conformance runner. Touches the lab only.
"""
import os
import string
import sys

import lab as laboratory

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TEMPLATE = os.path.join(os.path.dirname(HERE), "conformance", "weir.toml.in")

PROTOCOLS = {"of10": "OpenFlow10", "of13": "OpenFlow13"}
MGMT_PORT = 16653
CONTROLLER = "tcp:127.0.0.1:6653"


class Ovs:
    """One ovs-vswitchd. In a namespace of its own if another runs in the lab: each wants a device `ovs-netdev`."""

    def __init__(self, lab, name="ovs", ns=None):
        self.lab, self.name, self.ns = lab, name, ns
        self.directory = lab.directory(name)
        self.env = {k: self.directory for k in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")}
        self.env["OVS_PKGDATADIR"] = "/usr/share/openvswitch"
        self.db = "unix:%s/db.sock" % self.directory
        d = self.directory
        lab.run("ovsdb-tool", "create", d + "/conf.db", "/usr/share/openvswitch/vswitch.ovsschema", env=self.env)
        database = lab.spawn(name + "-db", ["ovsdb-server", d + "/conf.db", "--remote=p" + self.db, "--no-chdir",
                                            "--unixctl=%s/db.ctl" % d, "--pidfile=%s/db.pid" % d], ns=ns, env=self.env)
        lab.wait("ovsdb-server", lambda: os.path.exists(d + "/db.sock"), needs=[database])
        self.vsctl("--no-wait", "init")
        self.process = lab.spawn(name, ["ovs-vswitchd", self.db, "--pidfile=%s/switch.pid" % d, "--disable-system",
                                        "--no-chdir", "--unixctl=%s/switch.ctl" % d], ns=ns, env=self.env)
        lab.wait("ovs-vswitchd", lambda: os.path.exists(d + "/switch.ctl"), needs=[self.process])
        self.version = lab.run("ovs-vswitchd", "--version")[1].split("\n")[0]
        self.mgmt = None

    def vsctl(self, *args):
        return self.lab.run("ovs-vsctl", "--timeout=60", "--db", self.db, *args, ns=self.ns, env=self.env)[1]

    def appctl(self, *args):
        return self.lab.run("ovs-appctl", "-t", self.directory + "/switch.ctl", *args, ns=self.ns, env=self.env)[1]

    def bridge(self, name, dpid, ports, protocols, controllers=(), mgmt_port=None, fail_mode="secure"):
        """A bridge of the user-space data path; `ports` are numbered from 1, `protocols` are of10/of13."""
        listen = ["ptcp:%d:127.0.0.1" % mgmt_port] if mgmt_port else []
        self.vsctl("--", "add-br", name, "--", "set", "bridge", name, "datapath_type=netdev",
                   "fail-mode=" + fail_mode, "other-config:datapath-id=%016x" % dpid,
                   "other-config:disable-in-band=true", "protocols=" + ",".join(PROTOCOLS[p] for p in protocols))
        for number, port in enumerate(ports, 1):
            self.vsctl("--", "add-port", name, port, "--", "set", "interface", port, "ofport_request=%d" % number)
        if listen or controllers:
            self.vsctl("set-controller", name, *controllers, *listen)
        self.lab.wait("the ports of " + name, lambda: all(
            self.vsctl("get", "interface", port, "ofport").strip() == str(number)
            for number, port in enumerate(ports, 1)), needs=[self.process])
        if mgmt_port:
            self.mgmt = "tcp:127.0.0.1:%d" % mgmt_port
            self.lab.wait("the listener of " + name, lambda: laboratory.listening(self.lab, self.ns, mgmt_port))

    def without_flow_cache(self):
        """Every frame is looked up in the OpenFlow tables: the data path may remember no flow."""
        self.vsctl("set", "Open_vSwitch", ".", "other_config:flow-limit=0", "other_config:emc-insert-inv-prob=0")


class Weir:
    """`weir run` with one VDP that is an OpenFlow switch."""

    def __init__(self, lab, dpid, ports, protocols, controllers=(), mgmt_port=MGMT_PORT, fail_mode="secure",
                 binary=None, devices=None, cpu=None):
        self.lab = lab
        self.binary = binary or find_weir()
        self.directory = lab.directory("weir")
        self.version = lab.run(self.binary, "--version")[1].strip()
        path = os.path.join(self.directory, "weir.toml")
        with open(path, "w") as f:
            f.write(configuration(dpid, ports, protocols, controllers, mgmt_port, fail_mode,
                                  os.path.join(self.directory, "socket"), devices or {}, cpu))
        self.process = lab.spawn("weir", [self.binary, "run", path])
        self.mgmt = "tcp:127.0.0.1:%d" % mgmt_port
        lab.wait("weir's listener", lambda: laboratory.listening(lab, None, mgmt_port), needs=[self.process])


def configuration(dpid, ports, protocols, controllers, mgmt_port, fail_mode, socket, devices, cpu):
    """weir.toml.in with its names filled in; `devices`: what a port is, where it is no interface of its name; `cpu`: the
    worker's own, if it has one."""
    with open(TEMPLATE) as f:
        template = "".join(line for line in f if not line.startswith("#"))
    quoted = lambda items: "[" + ", ".join('"%s"' % i for i in items) + "]"
    return string.Template(template).substitute(
        socket=socket,
        cpu="" if cpu is None else "cpu = %d" % cpu,
        port_sections="\n".join('[[port]]\nname = "%s"\ndevice = "%s"\n' % (p, devices.get(p, "af_packet:" + p))
                                for p in ports),
        ports=quoted(ports),
        last=ports[-1],
        mapping=quoted("in_port=" + p for p in ports),
        dpid="%016x" % dpid,
        versions=quoted({"of10": "1.0", "of13": "1.3"}[p] for p in protocols),
        controllers=quoted(controllers),
        mgmt="ptcp:%d:127.0.0.1" % mgmt_port,
        fail_mode=fail_mode,
    )


def find_weir():
    """WEIR, or the newest of the builds in the target directory."""
    if os.environ.get("WEIR"):
        return os.path.abspath(os.environ["WEIR"])
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target")
    built = [p for p in (os.path.join(target, kind, "weir") for kind in ("release", "debug")) if os.access(p, os.X_OK)]
    if not built:
        sys.exit("judges: no weir in %s: build it first, or set WEIR" % target)
    return max(built, key=os.path.getmtime)


def switch(kind, lab, ports, protocols, dpid=1, controllers=(CONTROLLER,), mgmt_port=MGMT_PORT, fail_mode="secure"):
    """The target of a judge: `kind` is "ovs" or "weir", its ports interfaces of the lab's own namespace."""
    if kind == "ovs":
        target = Ovs(lab, "target")
        target.bridge("target", dpid, ports, protocols, controllers, mgmt_port, fail_mode)
        return target
    return Weir(lab, dpid, ports, protocols, controllers, mgmt_port, fail_mode)
