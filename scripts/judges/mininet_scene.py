"""Networks of Mininet with weir's switches, by its own Python: a check a line, "WORD TEXT", for mininet_labs.py.

    /usr/bin/python3 scripts/judges/mininet_scene.py bridges
    /usr/bin/python3 scripts/judges/mininet_scene.py controller PORT
"""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "labs"))

from mininet.log import setLogLevel  # noqa: E402
from mininet.net import Mininet  # noqa: E402
from mininet.node import RemoteController  # noqa: E402
from mininet.topo import LinearTopo  # noqa: E402
from mininet.topolib import TreeTopo  # noqa: E402

from mininet_weir import PLANE, WeirBridge, WeirSwitch  # noqa: E402


def check(what, good, detail=""):
    print("%s %s\t%s" % ("ok" if good else "FAIL", what, detail), flush=True)


def reach(net, what, loss):
    """All hosts ask all others, and so many of a hundred get no answer."""
    got = net.pingAll(timeout=2)
    check(what, abs(got - loss) < 0.1, "%.1f %% without an answer" % got)


def runs():
    """Processes of `weir run`."""
    found = subprocess.run(["pgrep", "-fc", "weir run "], capture_output=True, text=True, check=False)
    return int(found.stdout)


def bridges():
    net = Mininet(LinearTopo(3), switch=WeirBridge, controller=None)
    try:
        net.start()
        reach(net, "hosts of a line of bridges reach each other", 0)
        net.configLinkStatus("s1", "s2", "down")
        reach(net, "a link that is down parts them", 100 * 4 / 6)
        net.configLinkStatus("s1", "s2", "up")
        time.sleep(1)
        reach(net, "and one that is up again joins them", 0)
        s1, host = net["s1"], net.addHost("h9", ip="10.0.0.9")
        link = net.addLink(host, s1)
        host.configDefault()
        s1.attach(link.intf2.name)
        time.sleep(1)
        reach(net, "a host that comes later is reached", 0)
        s1.detach(link.intf2.name)
        check("and one that is detached is not", net.ping([host, net["h1"]], timeout="1") == 100)
        net["s3"].stop(deleteIntfs=False)
        check("other switches go on when one is stopped", net.ping([net["h1"], net["h2"]], timeout="2") == 0)
    finally:
        net.stop()
    check("nothing is left of it", runs() == 0 and PLANE.process is None, "%d left" % runs())
    net = Mininet(TreeTopo(3, 3), switch=WeirBridge, controller=None)
    try:
        net.start()
        check("thirteen switches are one process", runs() == 1, "%d processes" % runs())
        reach(net, "27 hosts reach each other", 0)
    finally:
        net.stop()


def controller(port):
    net = Mininet(LinearTopo(2), switch=WeirSwitch, controller=None, listenPort=16754)
    net.addController("c0", RemoteController, ip="127.0.0.1", port=port)
    try:
        net.start()
        check("switches find their controller", net.waitConnected(timeout=20))
        reach(net, "hosts reach each other by it", 0)
        flows = net["s1"].dpctl("dump-flows")
        check("ovs-ofctl sees its flows", flows.count("dl_dst") >= 2, flows.replace("\n", " "))
        net["s1"].dpctl("add-flow", "priority=900,icmp,actions=drop")
        reach(net, "a tool's flow acts", 100)
        net["s1"].dpctl("del-flows", "icmp")
        reach(net, "until it is deleted", 0)
    finally:
        net.stop()


if __name__ == "__main__":
    setLogLevel("warning")
    if sys.argv[1] == "bridges":
        bridges()
    else:
        controller(int(sys.argv[2]))
