"""os-ken and ovs-ofctl as tenants of `weir slicer` over Open vSwitch, with hosts in namespaces.

    python3 scripts/judges/slicer.py [--only of10|of13]

One bridge, three slices. `red` has what is untagged on ports 1 and 2, `blue` on 3 and 4, with the same addresses; each has
os-ken's learning switch for a controller, and believes that it is alone. `green` has VLAN 30 on every port, and ovs-ofctl.
What hosts receive and what the bridge says of its flows is the judge; `--target` has no say here. Then slices and flow space
change while they run, by FlowVisor's JSON-RPC.
"""
import base64
import json
import os
import re
import signal
import struct
import sys
import urllib.request

from checks import Judge, pings
from lab import listening
from ofctl import Ofctl
from switches import Ovs, find_weir

HERE = os.path.dirname(os.path.abspath(__file__))
PROTOCOLS = {"of10": ("OpenFlow10", "simple_switch"), "of13": ("OpenFlow13", "simple_switch_13")}
BRIDGE, SWITCHES, RED, BLUE, RED_TOOLS, GREEN_TOOLS, RPC = 16653, 16633, 16701, 16702, 16711, 16713, 18081

CONFIG = """
listen = ["ptcp:%(switches)d"]
remember = "kept"
[api]
listen = "127.0.0.1:%(rpc)d"
tokens = "tokens"
[[slice]]
name = "red"
controllers = ["tcp:127.0.0.1:%(red)d"]
listen = ["ptcp:%(red_tools)d"]
limits = { rules = 20 }
[[slice]]
name = "blue"
controllers = ["tcp:127.0.0.1:%(blue)d"]
[[slice]]
name = "green"
listen = ["ptcp:%(green_tools)d"]
[[flowspace]]
ports = [1, 2]
match = "dl_vlan=none"
write = "red"
[[flowspace]]
ports = ["ph3", "ph4"]
match = "dl_vlan=none"
write = "blue"
[[flowspace]]
match = "dl_vlan=30"
write = "green"
"""


def main():
    judge = Judge("slicer", __doc__, venv="osken-apps",
                  arguments=lambda p: p.add_argument("--only", choices=sorted(PROTOCOLS)))
    for version in sorted(PROTOCOLS):
        if judge.args.only in (None, version):
            with judge.lab(version) as lab:
                try:
                    sliced(judge, lab, version)
                except Exception as error:  # noqa: BLE001 - the other version is judged all the same
                    judge.check(version, False, "%s: %s" % (type(error).__name__, error))
    return judge.end()


def tagged(vid, n):
    """A broadcast frame of a VLAN, of a type that nobody answers."""
    return b"\xff" * 6 + b"\x02\0\0\0\0" + bytes([n]) + struct.pack("!HHH", 0x8100, vid, 0x88b5) + b"\0" * 60


def sliced(judge, lab, version):
    protocol, application = PROTOCOLS[version]

    def check(what, good, detail=""):
        return judge.check("%s: %s" % (version, what), good, detail)

    hosts = {n: lab.host("h%d" % n, "10.0.0.%d/24" % (1 + (n + 1) % 2)) for n in range(1, 5)}
    weir = find_weir()
    path = os.path.join(lab.directory("slicer"), "slices.toml")
    with open(path, "w") as f:
        f.write(CONFIG % dict(switches=SWITCHES, red=RED, blue=BLUE, red_tools=RED_TOOLS, green_tools=GREEN_TOOLS,
                               rpc=RPC))
    token = lab.run(weir, "token", "add", "--role", "operator", "--tokens",
                    os.path.join(os.path.dirname(path), "tokens"))[1].strip()

    def fvctl(method, params=None):
        """As fvctl asks: JSON-RPC by POST, its password a token."""
        auth = base64.b64encode(("fvadmin:" + token).encode()).decode()
        body = json.dumps(dict(id="fvctl", method=method, jsonrpc="2.0", params=params)).encode()
        headers = {"Authorization": "Basic " + auth, "Content-Type": "application/json"}
        request = urllib.request.Request("http://127.0.0.1:%d" % RPC, data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    apps = []
    for port in (RED, BLUE):
        apps.append(lab.spawn("%s-%d" % (application, port), [
            judge.venv.bin("python"), "-u", os.path.join(HERE, "osken_apps_manager.py"),
            "--ofp-tcp-listen-port", str(port), "os_ken.app." + application]))
    capture = judge.capture(lab, RED, "red")
    capture.__enter__()
    for port, app in zip((RED, BLUE), apps):
        lab.wait(app.name, lambda: listening(lab, None, port), needs=[app], patience_s=60)
    slicer = lab.spawn("slicer", [weir, "slicer", path])
    lab.wait("the slicer", lambda: listening(lab, None, SWITCHES), needs=[slicer])
    ovs = Ovs(lab, "target")
    ovs.bridge("target", 1, [hosts[n] for n in sorted(hosts)], [version], ["tcp:127.0.0.1:%d" % SWITCHES], BRIDGE)
    judge.version = "%s, %s" % (lab.run(weir, "--version")[1].strip(), ovs.version)
    lab.wait("the switch at the slicer", lambda: "is there" in slicer.output(), needs=[slicer])

    def tool(port, *args):
        command, rest = args[0], args[1:]
        return lab.run("ovs-ofctl", "-O", protocol, command, "tcp:127.0.0.1:%d" % port, *rest, check=False, timeout=30)

    # Two learning switches at once, with the same addresses.
    for a, to in ((1, "10.0.0.2"), (3, "10.0.0.2"), (2, "10.0.0.1"), (4, "10.0.0.1")):
        pings(judge, lab, "%s: h%d to its slice's other host" % (version, a), "h%d" % a, to, patience_s=30)
    before = {n: lab.received("h%d" % n) for n in hosts}
    lab.send("h1", b"\xff" * 6 + b"\x02\0\0\0\0\x01\x88\xb5" + b"\0" * 60, 100)
    lab.wait("the flood", lambda: lab.received("h2") - before[2] >= 100, patience_s=20)
    leaked = [lab.received("h%d" % n) - before[n] for n in (3, 4)]
    check("red's broadcasts come to red's host, and to none of blue's", max(leaked) <= 4, "blue received %s" % leaked)

    # A third tenant, by hand.
    status, _, err = tool(GREEN_TOOLS, "add-flow", "cookie=7,priority=5,actions=flood")
    check("green floods its VLAN", status == 0, err)
    before = {n: lab.received("h%d" % n) for n in hosts}
    lab.send("h1", tagged(30, 1), 100)
    lab.wait("green's frames", lambda: all(lab.received("h%d" % n) - before[n] >= 100 for n in (2, 3, 4)), patience_s=20)
    check("green's frames come to every port", True)
    before = {n: lab.received("h%d" % n) for n in hosts}
    lab.send("h1", tagged(31, 1), 100)
    got = [lab.received("h%d" % n) - before[n] for n in (2, 3, 4)]
    check("frames of a VLAN that is nobody's go nowhere", max(got) <= 4, got)

    def own_flow():
        _, flows, _ = tool(GREEN_TOOLS, "dump-flows")
        return [l.strip() for l in flows.splitlines() if "actions=" in l]

    # Open vSwitch counts what its data path has remembered a while later.
    lab.wait("green's packets to be counted", lambda: "n_packets=100," in "".join(own_flow()), patience_s=20)
    lines = own_flow()
    good = len(lines) == 1 and "cookie=0x7" in lines[0] and "actions=FLOOD" in lines[0] and "vlan" not in lines[0]
    check("green reads its one flow as it wrote it", good, lines)
    check("with the packets of all its rules", True)
    status, out, err = tool(GREEN_TOOLS, "add-flow", "dl_vlan=31,actions=drop")
    check("green can't have another VLAN", status != 0 or "EPERM" in out + err, out + err)
    status, out, err = tool(GREEN_TOOLS, "add-flow", "actions=mod_vlan_vid:31,output:1")
    check("nor send into it", status != 0 or "EPERM" in out + err, out + err)
    status, out, err = tool(RED_TOOLS, "add-flow", "actions=output:3")
    check("red can't send to blue's port", status != 0 or "OUT_PORT" in out + err, out + err)
    _, ports, _ = tool(RED_TOOLS, "show" if version == "of10" else "dump-ports-desc")
    check("red sees its ports alone", set(re.findall(r"\((ph\d)\)", ports)) == {"ph1", "ph2"}, ports)
    for n in range(12):     # two rules each
        tool(RED_TOOLS, "add-flow", "priority=9,dl_dst=02:00:00:00:09:%02x,actions=drop" % n)

    # What is truly there.
    own = [f["line"] for f in Ofctl(lab, ovs.mgmt, protocol).flows()]
    green = [l for l in own if "dl_vlan=30" in l]
    rest = [l for l in own if l not in green]
    check("the bridge has green's rule in its VLAN", len(green) == 1, green)
    check("and no rule that is no slice's", rest and all("in_port=" in l and "vlan_tci=0x0000" in l for l in rest), rest[:3])
    of_red = [l for l in rest if re.search(r"in_port=(1|2|\"?ph1\"?|\"?ph2\"?)\b", l)]
    check("red has no more rules than it may", len(of_red) <= 20, len(of_red))
    tool(RED_TOOLS, "del-flows")
    left = [f["line"] for f in Ofctl(lab, ovs.mgmt, protocol).flows()]
    gone = [l for l in left if re.search(r"in_port=(1|2|\"?ph1\"?|\"?ph2\"?)\b", l)]
    check("red deletes all its flows and nobody else's", not gone and len(left) == len(own) - len(of_red),
          "%d left of %d" % (len(left), len(own)))
    pings(judge, lab, "%s: blue goes on" % version, "h3", "10.0.0.2")

    # Killed and started again: what was there goes on, also while it is away.
    def standing():
        """The bridge's rules without what changes by itself, each with how long it has been there."""
        counted = r"duration=([\d.]+)s|n_packets=\d+|n_bytes=\d+|idle_age=\d+|hard_age=\d+"
        return {re.sub(counted, "", l): float(re.search(r"duration=([\d.]+)s", l).group(1))
                for l in (f["line"] for f in Ofctl(lab, ovs.mgmt, protocol).flows())}

    before = standing()
    slicer.stop(signal.SIGKILL)
    pings(judge, lab, "%s: blue goes on while the slicer is away" % version, "h3", "10.0.0.2")
    slicer = lab.spawn("slicer-again", [weir, "slicer", path])
    lab.wait("what was there is taken up", lambda: "are taken up" in slicer.output(), needs=[slicer])
    lab.wait("green's tools are let in", lambda: tool(GREEN_TOOLS, "dump-flows")[0] == 0, needs=[slicer])
    after = standing()
    # 1.3's application asks for its rule for what matches none anew whenever it connects.
    touched = [l for l in before if after.get(l, 0) < before[l] and "CONTROLLER" not in l]
    check("a slicer that was killed finds its rules and touches none", not touched, touched)
    lines = own_flow()
    check("green reads its flow as it wrote it, as before", len(lines) == 1 and "cookie=0x7" in lines[0], lines)

    # Slices and flow space change while they run.
    ids = fvctl("list-datapaths").get("result")
    check("FlowVisor's names know the bridge", ids == ["00:00:00:00:00:00:00:01"], ids)
    entry = dict(name="more", dpid=ids[0], priority=100, match={"dl_vlan": 31},
                 **{"slice-action": [{"slice-name": "green", "permission": 6}]})
    answer = fvctl("add-flowspace", [entry])
    check("add-flowspace", answer.get("result") is True, answer)
    status, out, err = tool(GREEN_TOOLS, "add-flow", "dl_vlan=31,actions=flood")
    check("green has another VLAN now", status == 0, out + err)

    def rules(pattern):
        return [f["line"] for f in Ofctl(lab, ovs.mgmt, protocol).flows() if re.search(pattern, f["line"])]

    # Its flood of before has no VLAN of its own: it holds there, too.
    check("and its flows are there", len(rules("dl_vlan=31")) == 2, rules("dl_vlan=31"))
    answer = fvctl("remove-flowspace", ["more"])
    check("remove-flowspace takes the VLAN and the rule away", answer.get("result") is True and not rules("dl_vlan=31"), answer)
    green_before = rules("dl_vlan=30")
    answer = fvctl("remove-slice", {"slice-name": "blue"})
    of_blue = r"in_port=(3|4|\"?ph3\"?|\"?ph4\"?)\b.*vlan_tci=0x0000|vlan_tci=0x0000.*in_port=(3|4|\"?ph3\"?|\"?ph4\"?)\b"
    check("remove-slice takes blue and its rules away", answer.get("result") is True and not rules(of_blue), rules(of_blue))
    check("green's rules are as they were", rules("dl_vlan=30") and len(rules("dl_vlan=30")) == len(green_before), green_before)
    pings(judge, lab, "%s: blue's hosts are nobody's" % version, "h3", "10.0.0.2", wanted=False)
    # Red has deleted its flows above, and its controller's rule for what matches none with them (1.3).
    seen = {n: lab.received("h%d" % n) for n in hosts}
    lab.send("h1", tagged(30, 1), 100)
    lab.wait("green's frames", lambda: all(lab.received("h%d" % n) - seen[n] >= 100 for n in (2, 3, 4)), patience_s=20)
    check("green goes on, on every port", True)

    complaints = [l for app in apps for l in app.output().splitlines() if l.startswith("Traceback") or "uncaught" in l]
    check("no exception in the applications", all(a.alive() for a in apps) and not complaints, "; ".join(complaints[:3]))
    check("the slicer runs on", slicer.alive(), slicer.output()[-300:])
    capture.__exit__()
    judge.decoded("red's controller, %s" % version, capture)


if __name__ == "__main__":
    sys.exit(main())
