"""Faucet as a judge: two VLANs, a trunk, access lists, routing between the VLANs by IPv4 and IPv6, and Gauge polling,
with hosts in namespaces that ping and iperf3 through the target.

    python3 scripts/judges/faucet.py [--target weir|ovs] [--hardware NAME]
"""
import json
import os
import sys

from checks import Judge, pings
from switches import CONTROLLER, switch

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = {
    "h1": ("10.0.100.1/24", "fc00:100::1/64", "10.0.100.254", "fc00:100::254"),
    "h2": ("10.0.100.2/24", "fc00:100::2/64", "10.0.100.254", "fc00:100::254"),
    "h3": ("10.0.200.3/24", "fc00:200::3/64", "10.0.200.254", "fc00:200::254"),
    "h4": ("10.0.200.4/24", "fc00:200::4/64", "10.0.200.254", "fc00:200::254"),
}

# h1, h2 in VLAN 100; h3, h4 in VLAN 200; port 5 is a trunk of both. What h2 may not: ping h4, and reach TCP port 5999.
FAUCET = """
vlans:
  v100:
    vid: 100
    faucet_mac: "0e:00:00:00:01:00"
    faucet_vips: ["10.0.100.254/24", "fc00:100::254/64"]
  v200:
    vid: 200
    faucet_mac: "0e:00:00:00:02:00"
    faucet_vips: ["10.0.200.254/24", "fc00:200::254/64"]
routers:
  both:
    vlans: [v100, v200]
acls:
  of-h2:
    - rule: {dl_type: 0x800, nw_proto: 1, ipv4_dst: "10.0.200.4/32", actions: {allow: 0}}
    - rule: {dl_type: 0x800, nw_proto: 6, tcp_dst: 5999, actions: {allow: 0}}
    - rule: {dl_type: 0x86dd, nw_proto: 6, tcp_dst: 5999, actions: {allow: 0}}
    - rule: {actions: {allow: 1}}
dps:
  judged:
    dp_id: 1
    hardware: "%(hardware)s"
    arp_neighbor_timeout: 2
    nd_neighbor_timeout: 2
    interfaces:
      1: {native_vlan: v100}
      2: {native_vlan: v100, acls_in: [of-h2]}
      3: {native_vlan: v200}
      4: {native_vlan: v200}
      5: {tagged_vlans: [v100, v200]}
"""

GAUGE = """
faucet_configs: ["%(faucet)s"]
watchers:
  ports: {type: port_stats, dps: [judged], interval: 2, db: ports}
  flows: {type: flow_table, dps: [judged], interval: 5, db: flows}
  state: {type: port_state, dps: [judged], db: state}
dbs:
  ports: {type: text, file: "%(directory)s/port-stats"}
  flows: {type: text, path: "%(directory)s"}
  state: {type: text, file: "%(directory)s/port-state"}
"""


def main():
    judge = Judge("faucet", __doc__, venv="faucet", arguments=lambda parser: parser.add_argument(
        "--hardware", help="what Faucet is told that the target is: 'Open vSwitch', Generic, GenericTFM"))
    hardware = judge.args.hardware or {"ovs": "Open vSwitch", "weir": "Generic"}[judge.args.target]
    with judge.lab() as lab:
        ports = [lab.host(name, four, six, via=(g4, g6)) for name, (four, six, g4, g6) in HOSTS.items()]
        ports.append(lab.host("h5"))
        tagged = lab.spawn("tagged-host", [sys.executable, os.path.join(HERE, "tagged_host.py"), "eth0",
                                           "100", "10.0.100.5", "200", "10.0.200.5"], ns="h5")
        directory = lab.directory("faucet")
        with judge.capture(lab, 6653) as for_faucet, judge.capture(lab, 6654, "gauge") as for_gauge:
            faucet, gauge = controllers(judge, lab, directory, hardware)
            target = switch(judge.args.target, lab, ports, ["of13"], controllers=(CONTROLLER, "tcp:127.0.0.1:6654"))
            judge.version = target.version
            look(judge, lab, directory, faucet)
            judge.check("all processes still run", all(p.alive() for p in (tagged, faucet, gauge, target.process)))
            complaints = lab.run("sh", "-c", "cat %s/*exception*.log 2>/dev/null || true" % directory)[1]
            judge.check("no exception in Faucet or Gauge", not complaints.strip(), complaints.strip()[-400:])
        judge.decoded("Faucet", for_faucet)
        judge.decoded("Gauge", for_gauge)
    return judge.end()


def controllers(judge, lab, directory, hardware):
    with open(directory + "/faucet.yaml", "w") as f:
        f.write(FAUCET % dict(hardware=hardware))
    with open(directory + "/gauge.yaml", "w") as f:
        f.write(GAUGE % dict(faucet=directory + "/faucet.yaml", directory=directory))
    started = []
    for name, port in (("faucet", 6653), ("gauge", 6654)):
        upper = name.upper()
        env = {"PATH": judge.venv.bin("") + ":" + os.environ["PATH"], upper + "_CONFIG": "%s/%s.yaml" % (directory, name), upper + "_LOG": os.path.join(lab.logs, name + ".own.log"),
               upper + "_EXCEPTION_LOG": "%s/%s-exception.log" % (directory, name), "FAUCET_EVENT_SOCK": "0",
               "FAUCET_PROMETHEUS_PORT": "9302", "GAUGE_PROMETHEUS_PORT": "9303"}
        started.append(lab.spawn(name, [judge.venv.bin("python"), judge.venv.bin(name),
                                        "--ryu-ofp-tcp-listen-port=%d" % port], env=env))
    for process, port in zip(started, (6653, 6654)):
        from lab import listening
        lab.wait(process.name, lambda: listening(lab, None, port), needs=[process], patience_s=60)
    return started


def look(judge, lab, directory, faucet):
    pings(judge, lab, "within VLAN 100, IPv4", "h1", "10.0.100.2", patience_s=40)
    pings(judge, lab, "within VLAN 100, IPv6", "h1", "fc00:100::2")
    pings(judge, lab, "within VLAN 200, IPv4", "h3", "10.0.200.4")
    pings(judge, lab, "within VLAN 200, IPv6", "h3", "fc00:200::4")
    pings(judge, lab, "to the trunk in VLAN 100", "h1", "10.0.100.5")
    pings(judge, lab, "to the trunk in VLAN 200", "h3", "10.0.200.5")
    # An address of the other VLAN's network as a neighbour: the VLANs do not leak into each other without the router.
    lab.run("ip", "addr", "add", "10.0.100.77/24", "dev", "eth0", ns="h3")
    pings(judge, lab, "no way from VLAN 100 to a host in VLAN 200 without the router", "h1", "10.0.100.77", wanted=False)
    lab.run("ip", "addr", "del", "10.0.100.77/24", "dev", "eth0", ns="h3")

    for who, vip4, vip6 in (("h1", "10.0.100.254", "fc00:100::254"), ("h3", "10.0.200.254", "fc00:200::254")):
        pings(judge, lab, "%s to Faucet's own address, IPv4" % who, who, vip4)
        pings(judge, lab, "%s to Faucet's own address, IPv6" % who, who, vip6)
    pings(judge, lab, "between the VLANs, IPv4", "h1", "10.0.200.3", patience_s=30)
    pings(judge, lab, "between the VLANs, IPv6", "h1", "fc00:200::3", patience_s=30)
    pings(judge, lab, "between the VLANs, the other way, IPv4", "h4", "10.0.100.2", wanted=False)    # h2's answer is denied
    pings(judge, lab, "between the VLANs, the other way, IPv6", "h4", "fc00:100::2", patience_s=30)

    pings(judge, lab, "the access list stops h2's ping to h4", "h2", "10.0.200.4", wanted=False)
    pings(judge, lab, "the access list lets h2's ping to h3 by", "h2", "10.0.200.3", patience_s=30)
    for to, port, wanted in (("10.0.100.1", 5999, False), ("10.0.100.1", 5998, True), ("fc00:100::1", 5999, False)):
        got = connects(lab, "h1", "h2", to, port)
        judge.check("TCP from h2 to %s port %d is %s" % (to, port, "let by" if wanted else "stopped"), got == wanted)

    for what, to in (("within a VLAN, IPv4", "10.0.100.2"), ("within a VLAN, IPv6", "fc00:100::2")):
        judge.attempt("iperf3 " + what, lambda: throughput(lab, "h2", "h1", to))
    for what, to in (("between the VLANs, IPv4", "10.0.200.3"), ("between the VLANs, IPv6", "fc00:200::3")):
        judge.attempt("iperf3 " + what, lambda: throughput(lab, "h3", "h1", to))

    judge.attempt("Gauge polls port statistics", lambda: polled(lab, directory))
    judge.attempt("Gauge reads the flow table", lambda: flow_table(lab, directory))
    judge.attempt("a port that goes down is seen by Gauge", lambda: port_down(lab, directory))


_SERVE = "import socket,sys; s=socket.create_server((sys.argv[1], int(sys.argv[2])), family=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET); print(1, flush=True); c,_=s.accept(); c.send(b'x'); c.close()"
_DIAL = "import socket,sys; s=socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3); sys.exit(s.recv(1) != b'x')"


def connects(lab, server, client, to, port):
    serving = lab.spawn("tcp-server", [sys.executable, "-c", _SERVE, to, port], ns=server)
    lab.wait("a TCP server", lambda: serving.output(), needs=[serving])
    status, _, _ = lab.run(sys.executable, "-c", _DIAL, to, port, ns=client, check=False)
    serving.stop()
    return status == 0


def throughput(lab, server, client, to):
    rate = lab.iperf(server, client, to)
    return rate > 1e6, "%.0f Mbit/s" % (rate / 1e6)


def polled(lab, directory):
    """Gauge's numbers for port 1 grow, and by what h1 sent."""
    def readings(field):
        lines = [l.split() for l in open(directory + "/port-stats")] if os.path.exists(directory + "/port-stats") else []
        return [int(float(l[-1])) for l in lines if any("judged-1-" in w and w.endswith(field) for w in l)
                or (any("judged" in w for w in l) and any(w.endswith("1-" + field) for w in l))]
    lab.wait("Gauge's file", lambda: len(readings("packets-in")) >= 2, patience_s=20)
    before = readings("packets-in")[-1]
    n = len(readings("packets-in"))
    lab.wait("a reading", lambda: len(readings("packets-in")) > n, patience_s=10)
    before, n = readings("packets-in")[-1], len(readings("packets-in"))
    got = lab.ping("h1", "10.0.100.2", count=200, patience_s=1)
    lab.wait("two readings", lambda: len(readings("packets-in")) > n + 1, patience_s=15)
    grown = readings("packets-in")[-1] - before
    return got == 200 and 200 <= grown <= 260, "%d pings, packets-in of port 1 grew by %d" % (got, grown)


def flow_table(lab, directory):
    def tables():
        found = []
        for base, _, files in os.walk(directory):
            found += [os.path.join(base, f) for f in files if "flow" in f and f.endswith((".json", ".gz"))]
        return found
    lab.wait("a flow table in %s" % sorted(os.listdir(directory)), tables, patience_s=15)
    path = max(tables(), key=os.path.getmtime)
    import gzip
    with (gzip.open if path.endswith(".gz") else open)(path) as f:
        text = f.read()
    body = json.loads(text)
    replies = body if isinstance(body, list) else [body]
    count = sum(len(r.get("OFPFlowStatsReply", {}).get("body", [])) for r in replies)
    return count > 20, "%d flows" % count


def port_down(lab, directory):
    lab.run("ip", "link", "set", "ph4", "down")
    path = directory + "/port-state"
    try:
        lab.wait("the port's state", lambda: os.path.exists(path) and "down" in open(path).read().lower(), patience_s=15)
    finally:
        lab.run("ip", "link", "set", "ph4", "up")
    return True


if __name__ == "__main__":
    sys.exit(main())
