"""os-ken's own applications as judges, with hosts in namespaces: simple_switch (1.0) and simple_switch_13 learn,
simple_switch_igmp_13 sends multicast to members only, rest_router routes what its web interface is told, and ofctl_rest
reads back what was installed through it.

    python3 scripts/judges/osken_apps.py [--target weir|ovs] [--only APPLICATION]
"""
import json
import os
import sys
import urllib.error
import urllib.request

from checks import Judge, pings
from lab import listening
from switches import MGMT_PORT, switch
from ofctl import FRAME, Ofctl

HERE = os.path.dirname(os.path.abspath(__file__))
WEB = 8080


def main():
    judge = Judge("osken-apps", __doc__, venv="osken-apps",
                  arguments=lambda p: p.add_argument("--only", choices=[a.__name__ for a in PARTS]))
    for part in PARTS:
        if judge.args.only in (None, part.__name__):
            with judge.lab(part.__name__) as lab:
                try:
                    part(judge, lab)
                except Exception as error:  # noqa: BLE001 - the other applications are judged all the same
                    judge.check(part.__name__, False, "%s: %s" % (type(error).__name__, error))
    return judge.end()


class Scene:
    """A target with hosts h1.. on ports 1.., an application, and the recording of their connection."""

    def __init__(self, judge, lab, application, version, addresses, web=False, fail_mode="secure"):
        self.judge, self.lab, self.name = judge, lab, "%s (%s)" % (application, {"of10": "1.0", "of13": "1.3"}[version])
        ports = [lab.host("h%d" % n, *a["addresses"], via=a.get("via")) for n, a in enumerate(addresses, 1)]
        self.capture = judge.capture(lab, 6653)
        self.capture.__enter__()
        self.app = lab.spawn(application, [
            judge.venv.bin("python"), "-u", os.path.join(HERE, "osken_apps_manager.py"), "--ofp-tcp-listen-port", "6653",
            "--wsapi-host", "127.0.0.1", "--wsapi-port", WEB, "os_ken.app." + application])
        for port in (6653, WEB) if web else (6653,):
            lab.wait(application, lambda: listening(lab, None, port), needs=[self.app], patience_s=60)
        self.target = switch(judge.args.target, lab, ports, [version], fail_mode=fail_mode)
        judge.version = self.target.version
        self.ofctl = Ofctl(lab, self.target.mgmt, {"of10": "OpenFlow10", "of13": "OpenFlow13"}[version])

    def check(self, what, good, detail=""):
        return self.judge.check("%s: %s" % (self.name, what), good, detail)

    def attempt(self, what, doing):
        return self.judge.attempt("%s: %s" % (self.name, what), doing)

    def pings(self, what, ns, to, **kwargs):
        return pings(self.judge, self.lab, "%s: %s" % (self.name, what), ns, to, **kwargs)

    def end(self):
        complaints = [l for l in self.app.output().splitlines() if l.startswith("Traceback") or "uncaught" in l]
        self.check("no exception in the application", self.app.alive() and not complaints, "; ".join(complaints[:3]))
        self.capture.__exit__()
        self.judge.decoded(self.name, self.capture)

    def rest(self, method, path, body=None):
        """The application's answer, read as JSON where it is."""
        request = urllib.request.Request("http://127.0.0.1:%d%s" % (WEB, path), method=method,
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=15) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise AssertionError("%s %s: %s %s" % (method, path, error.code, error.read().decode()[:200])) from None
        try:
            return json.loads(text)
        except ValueError:
            return text


def one_network(count):
    return [dict(addresses=["10.0.0.%d/24" % n]) for n in range(1, count + 1)]


def learning(judge, lab, application, version):
    scene = Scene(judge, lab, application, version, one_network(3))
    for a, b in ((1, 2), (2, 3), (3, 1)):
        scene.pings("h%d to h%d" % (a, b), "h%d" % a, "10.0.0.%d" % b, patience_s=30)
    def learned():
        flows = [f["line"] for f in scene.ofctl.flows() if "dl_dst=" in f["line"]]
        return len(flows) >= 6 and all("output:" in f for f in flows), "%d rules" % len(flows)
    scene.attempt("has installed a rule for each direction", learned)
    def unicast():
        before = lab.received("h3")
        got = lab.ping("h1", "10.0.0.2", count=50)
        leaked = lab.received("h3") - before
        return got == 50 and leaked <= 4, "%d answered, h3 received %d frames meanwhile" % (got, leaked)    # ARP may come
    scene.attempt("a third host sees nothing of a pair that is known", unicast)
    def quiet():
        before = scene.app.output().count("packet in")
        lab.ping("h1", "10.0.0.2", count=50)
        return scene.app.output().count("packet in") - before <= 4
    scene.attempt("the application sees nothing of it either", quiet)
    scene.attempt("iperf3", lambda: (lambda rate: (rate > 1e6, "%.0f Mbit/s" % (rate / 1e6)))(lab.iperf("h2", "h1", "10.0.0.2")))
    scene.end()


def simple_switch(judge, lab):
    learning(judge, lab, "simple_switch", "of10")


def simple_switch_13(judge, lab):
    learning(judge, lab, "simple_switch_13", "of13")


GROUP = "225.1.2.3"
_MEMBER = r"""
import socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 7000))
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(sys.argv[1]) + socket.inet_aton(sys.argv[2]))
print("joined", flush=True)
while True:
    print("got", s.recv(100).decode(), flush=True)
"""
_SPEAKER = r"""
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[2]))
for n in range(int(sys.argv[3])):
    s.sendto(b"%d" % n, (sys.argv[1], 7000)); time.sleep(0.01)
"""


def simple_switch_igmp_13(judge, lab):
    # The application makes datapath 1 a querier with the multicast server at port 2.
    scene = Scene(judge, lab, "simple_switch_igmp_13", "of13", one_network(4))
    for n in range(1, 5):
        lab.run("sh", "-c", "echo 2 > /proc/sys/net/ipv4/conf/eth0/force_igmp_version", ns="h%d" % n)
        lab.run("ip", "route", "add", "224.0.0.0/4", "dev", "eth0", ns="h%d" % n)
        # Hosts that are new tell everybody so by IPv6 for some seconds, which would count at h4.
        lab.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6", ns="h%d" % n)
    scene.pings("h1 to h2", "h1", "10.0.0.2", patience_s=30)
    members = {n: lab.spawn("member-h%d" % n, [sys.executable, "-u", "-c", _MEMBER, GROUP, "10.0.0.%d" % n], ns="h%d" % n)
               for n in (1, 3)}
    rule = lambda: next((f["line"] for f in scene.ofctl.flows() if "in_port=2" in f["line"] and GROUP in f["line"]), "")
    scene.attempt("members' reports become a rule", lambda: bool(lab.wait(
        "the rule, among %s" % [f["line"] for f in scene.ofctl.flows()][:6],
        lambda: "output:1" in rule() and "output:3" in rule(), patience_s=40)))
    def reaches():
        before = lab.received("h4")
        lab.run(sys.executable, "-c", _SPEAKER, GROUP, "10.0.0.2", 100, ns="h2")
        lab.run("sleep", "0.5")
        got = {n: m.output().count("got") for n, m in members.items()}
        # What the querier and the hosts themselves say may reach h4.
        return got == {1: 100, 3: 100} and lab.received("h4") - before <= 6, "members %s, h4 %d frames" % (
            got, lab.received("h4") - before)
    scene.attempt("all members and nobody else receive", reaches)
    def leaves():
        members[3].stop()
        lab.wait("the rule without h3", lambda: "output:1" in rule() and "output:3" not in rule(), patience_s=20)
        before = lab.received("h3")
        lab.run(sys.executable, "-c", _SPEAKER, GROUP, "10.0.0.2", 50, ns="h2")
        lab.run("sleep", "0.5")
        return members[1].output().count("got") == 150 and lab.received("h3") - before <= 6
    scene.attempt("who leaves receives no more", leaves)
    scene.end()


def rest_router(judge, lab):
    scene = Scene(judge, lab, "rest_router", "of13", [
        dict(addresses=["172.16.10.10/24"], via="172.16.10.1"), dict(addresses=["172.16.20.10/24"], via="172.16.20.1"),
        dict(addresses=["192.168.30.10/24", "10.99.0.1/32"], via="192.168.30.1")], web=True)
    router = "/router/%016x" % 1
    lab.wait("the router to know its switch", lambda: "switch_id" in str(quietly(lambda: scene.rest("GET", "/router/all"))),
             patience_s=30)
    pings(judge, lab, "rest_router: nothing is routed before it is told", "h1", "172.16.20.10", wanted=False)
    def told(body, word):
        return lambda: (lambda answer: (word in str(answer), str(answer)[:200]))(scene.rest("POST", router, body))
    for address in ("172.16.10.1/24", "172.16.20.1/24", "192.168.30.1/24"):
        scene.attempt("takes the address " + address, told({"address": address}, "success"))
    for n, (ns, to) in enumerate((("h1", "172.16.10.1"), ("h2", "172.16.20.1"), ("h1", "172.16.20.10"),
                                  ("h2", "192.168.30.10"), ("h3", "172.16.10.10"))):
        scene.pings("%s to %s" % (ns, to), ns, to, patience_s=30)
    scene.attempt("takes a static route", told({"destination": "10.99.0.0/16", "gateway": "192.168.30.10"}, "success"))
    scene.pings("h1 by the static route", "h1", "10.99.0.1", patience_s=30)
    scene.attempt("says what it was told", lambda: all(w in str(scene.rest("GET", router)) for w in (
        "172.16.10.1/24", "172.16.20.1/24", "192.168.30.1/24", "10.99.0.0/16", "192.168.30.10")))
    def ttl():
        # One hop: the router answers "time exceeded" itself, and nothing reaches h2.
        before = lab.received("h2")
        code = ("import socket; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(0, socket.IP_TTL, 1); "
                "s.setsockopt(0, 11, 1); s.settimeout(3); s.connect(('172.16.20.10', 9)); s.send(b'x');\n"
                "try: s.recv(1)\nexcept OSError as e: print(e.errno)")
        _, out, _ = lab.run(sys.executable, "-c", code, ns="h1")
        return out.strip() in ("113", "101"), "errno %s, h2 received %d" % (out.strip(), lab.received("h2") - before)
    scene.attempt("answers time exceeded", ttl)
    scene.attempt("iperf3 through the router", lambda: (lambda r: (r > 1e6, "%.0f Mbit/s" % (r / 1e6)))(
        lab.iperf("h2", "h1", "172.16.20.10")))
    def forget():
        data = scene.rest("GET", router)[0]["internal_network"][0]
        number = next(a["address_id"] for a in data["address"] if a["address"].startswith("172.16.20."))
        answer = scene.rest("DELETE", router, {"address_id": str(number)})
        return "success" in str(answer) and lab.ping("h1", "172.16.20.10", count=3, patience_s=0.5) == 0, str(answer)[:200]
    scene.attempt("forgets an address", forget)
    scene.end()


def quietly(doing):
    try:
        return doing()
    except (AssertionError, OSError):
        return None


def ofctl_rest(judge, lab):
    rest_of(judge, lab, "of10")


def ofctl_rest_13(judge, lab):
    rest_of(judge, lab, "of13")


def rest_of(judge, lab, version):
    scene = Scene(judge, lab, "ofctl_rest", version, one_network(3), web=True)
    three = version == "of13"
    lab.wait("the switch", lambda: scene.rest("GET", "/stats/switches") == [1], patience_s=30)
    def add(entry):
        scene.rest("POST", "/stats/flowentry/add", {k: v for k, v in dict(entry, dpid=1).items() if k != "reads"})
    def flows():
        return scene.rest("GET", "/stats/flow/1")["1"]
    entries = [
        dict(priority=100, cookie=7, idle_timeout=300, hard_timeout=600, match={"in_port": 1},
             reads={"in_port": "1"}, actions=[{"type": "OUTPUT", "port": 2}]),
        dict(priority=101, match={"in_port": 2, "dl_vlan": "5"} if not three else {"in_port": 2, "vlan_vid": 5},
             reads={"in_port": "2", "dl_vlan": "5"}, actions=[{"type": "STRIP_VLAN"} if not three else {"type": "POP_VLAN"}, {"type": "OUTPUT", "port": 1}]),
        dict(priority=102, match={"dl_type": 0x800, "nw_src": "10.0.0.0/8", "nw_proto": 6, "tp_dst": 80} if not three
             else {"eth_type": 0x800, "ipv4_src": "10.0.0.0/255.0.0.0", "ip_proto": 6, "tcp_dst": 80},
             reads={"dl_type": "2048", "nw_src": "10.0.0.0/8", "nw_proto": "6", "tp_dst": "80"}, actions=[]),
        dict(priority=103, match={"dl_dst": "02:00:00:00:00:09"} if not three else {"eth_dst": "02:00:00:00:00:09"},
             reads={"dl_dst": "02:00:00:00:00:09"}, actions=[{"type": "SET_DL_SRC", "dl_src": "02:00:00:00:00:0a"} if not three
                      else {"type": "SET_FIELD", "field": "eth_src", "value": "02:00:00:00:00:0a"},
                      {"type": "OUTPUT", "port": 3}]),
    ]
    def installed():
        for entry in entries:
            add(entry)
        got = lab.wait("the rules", lambda: (lambda f: f if len(f) >= len(entries) else None)(flows()), patience_s=5)
        by_priority = {f["priority"]: f for f in got}
        missing = []
        for entry in entries:
            flow = by_priority.get(entry["priority"])
            if not flow:
                missing.append("priority %d is missing" % entry["priority"])
                continue
            for key in ("cookie", "idle_timeout", "hard_timeout"):
                if flow[key] != entry.get(key, 0):
                    missing.append("%s %r" % (key, flow[key]))
            if len(flow["actions"]) != len(entry["actions"]) or any(
                    a["type"] not in f for a, f in zip(entry["actions"], flow["actions"])):
                missing.append("actions %r" % (flow["actions"],))
            # os-ken names fields of both versions by their names of 1.0 when it reads them.
            read = {k: str(v).replace("/255.0.0.0", "/8") for k, v in flow["match"].items()}
            if read != entry["reads"]:
                missing.append("match %r" % (flow["match"],))
        return not missing, "; ".join(missing)
    scene.attempt("rules read back as installed", installed)
    def counted():
        before = lab.received("h2")
        lab.send("h1", FRAME, 100)
        read = lambda: next((f["packet_count"], f["byte_count"]) for f in flows() if f["priority"] == 100)
        lab.wait("100 frames, %s" % (read(),), lambda: read()[0] >= 100, patience_s=4)
        extra = read()[0] - 100     # a host's own neighbour discovery may come along
        return 0 <= extra <= 8 and lab.received("h2") - before >= 100, "%s" % (read(),)
    scene.attempt("rules count", counted)
    for path, words in (("desc", ["mfr_desc", "hw_desc", "sw_desc", "serial_num"]), ("port", ["rx_packets", "tx_packets"]),
                        ("portdesc", ["hw_addr", "name"]), ("table", ["table_id", "active_count"]),
                        ("aggregateflow", ["flow_count", "packet_count"]), ("queue", [])):
        scene.attempt("GET /stats/%s" % path, lambda: (lambda a: (all(w in str(a) for w in words), str(a)[:120]))(
            scene.rest("GET", "/stats/%s/1" % path)))
    if three:
        scene.attempt("groups read back as installed", lambda: groups(scene))
        scene.attempt("meters read back as installed", lambda: meters(scene))
    def modified():
        scene.rest("POST", "/stats/flowentry/modify_strict", dict(entries[0], dpid=1, actions=[{"type": "OUTPUT", "port": 3}]))
        lab.wait("the change", lambda: any(f["priority"] == 100 and f["actions"] == ["OUTPUT:3"] for f in flows()), patience_s=5)
        scene.rest("POST", "/stats/flowentry/delete_strict", dict(entries[1], dpid=1))
        lab.wait("the end of one", lambda: 101 not in [f["priority"] for f in flows()], patience_s=5)
        return len(flows()) == len(entries) - 1
    scene.attempt("modify_strict, delete_strict", modified)
    def aged():
        add(dict(priority=200, match={"in_port": 3}, idle_timeout=1, actions=[]))
        add(dict(priority=201, match={"in_port": 3}, hard_timeout=2, actions=[]))
        lab.wait("both", lambda: {200, 201} <= {f["priority"] for f in flows()}, patience_s=2)
        lab.wait("the end of both", lambda: not {200, 201} & {f["priority"] for f in flows()}, patience_s=8)
        return True
    scene.attempt("rules age", aged)
    def cleared():
        scene.rest("DELETE", "/stats/flowentry/clear/1")
        return lab.wait("no rules", lambda: not flows(), patience_s=5) is not None
    scene.attempt("clear", cleared)
    scene.end()


def groups(scene):
    scene.rest("POST", "/stats/groupentry/add", dict(dpid=1, type="SELECT", group_id=5, buckets=[
        dict(weight=3, actions=[{"type": "OUTPUT", "port": 1}]), dict(weight=1, actions=[{"type": "OUTPUT", "port": 2}])]))
    read = lambda: scene.rest("GET", "/stats/groupdesc/1")["1"]
    scene.lab.wait("the group", read, patience_s=5)
    group = read()[0]
    good = (group["group_id"] == 5 and group["type"] == "SELECT" and [b["weight"] for b in group["buckets"]] == [3, 1]
            and [b["actions"] for b in group["buckets"]] == [["OUTPUT:1"], ["OUTPUT:2"]])
    stats = scene.rest("GET", "/stats/group/1")["1"]
    scene.rest("POST", "/stats/groupentry/delete", dict(dpid=1, group_id=5))
    scene.lab.wait("no group", lambda: not read(), patience_s=5)
    return good and stats[0]["group_id"] == 5, str(group)[:200]


def meters(scene):
    scene.rest("POST", "/stats/meterentry/add", dict(dpid=1, flags=["KBPS"], meter_id=6, bands=[
        {"type": "DROP", "rate": 1000}]))
    read = lambda: scene.rest("GET", "/stats/meterconfig/1")["1"]
    scene.lab.wait("the meter", read, patience_s=5)
    meter = read()[0]
    good = (meter["meter_id"] == 6 and "KBPS" in meter["flags"] and meter["bands"][0]["type"] == "DROP"
            and meter["bands"][0]["rate"] == 1000)
    scene.rest("POST", "/stats/meterentry/delete", dict(dpid=1, meter_id=6))
    scene.lab.wait("no meter", lambda: not read(), patience_s=5)
    return good, str(meter)[:200]


PARTS = (simple_switch, simple_switch_13, simple_switch_igmp_13, rest_router, ofctl_rest, ofctl_rest_13)

if __name__ == "__main__":
    sys.exit(main())
