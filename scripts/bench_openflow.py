#!/usr/bin/env python3
"""`./run bench-openflow`: `weir bench openflow` against weir and against Open vSwitch's user-space data path, one after the
other in one run, on this machine; writes docs/openflow-performance.md and the raw results beside it.

Needs root (namespaces) and Debian's openvswitch-switch. Nothing in the page is typed by hand.
"""
import argparse
import json
import os
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(HERE, "judges"))

import lab as laboratory  # noqa: E402
import many_switches  # noqa: E402
from switches import Weir, find_weir, switch  # noqa: E402

ROWS = [
    ("flow_mods a second until the barrier's reply", lambda r: r["insert"]["per_s"]["median"], "%.0f", "higher"),
    ("statistics of all flows, ms", lambda r: r["insert"]["stats_ms"]["median"], "%.1f", "lower"),
    ("all flows deleted by one flow_mod, ms", lambda r: r["insert"]["delete_ms"]["median"], "%.1f", "lower"),
    ("100 rules and a barrier, median us", lambda r: r["insert"]["hundred_us"]["p50"], "%.0f", "lower"),
    ("barrier round trip, median us", lambda r: r["barrier_us"]["p50"], "%.1f", "lower"),
    ("barrier round trip, 99th percentile us", lambda r: r["barrier_us"]["p99"], "%.1f", "lower"),
    ("packet_in to packet_out, a second", lambda r: r["punt"]["per_s"]["median"], "%.0f", "higher"),
    ("packet_out to packet_in at 1000 a second, median us", lambda r: r["punt"]["round_us"]["p50"], "%.1f", "lower"),
    ("resident memory beyond the empty switch, bytes a rule", lambda r: r["bytes_a_rule"], "%.0f", "lower"),
]


def resident(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))


def document(weir, out):
    """What the program printed. It is called by its name: where it was built says nothing to a reader."""
    result = json.loads(out)
    result["environment"]["command"] = result["environment"]["command"].replace(str(weir), "weir", 1)
    return result


def measure(weir, kind, rules, repeats):
    with laboratory.Lab() as lab:
        ports = [lab.host("h%d" % n, "10.0.0.%d/24" % n) for n in (1, 2)]
        target = switch(kind, lab, ports, ["of13"], controllers=())
        pid = target.process.popen.pid
        before = resident(pid)
        _, out, _ = lab.run(weir, "bench", "openflow", "--delete-flows", "--target", target.mgmt[len("tcp:"):],
                            "--rules", str(rules),
                            "--repeats", str(repeats), "--json", timeout=900)
        result = document(weir, out)
        result["result"]["bytes_a_rule"] = (resident(pid) - before) / rules
        result["result"]["version_of_target"] = target.version
        return result


def capture(path, flows=64):
    """A pcap of shortest UDP frames, each of another flow."""
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for n in range(flows):
            ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 46, n, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 1, n]))
            total = sum(struct.unpack("!10H", ip))
            ip = ip[:10] + struct.pack("!H", 0xFFFF - (total % 0xFFFF)) + ip[12:]
            udp = struct.pack("!HHHH", 1000 + n, 2000, 26, 0)
            frame = (bytes([6, 0, 0, 0, 0, n]) + bytes([6, 0, 0, 0, 1, n]) + b"\x08\x00" + ip + udp).ljust(60, b"\0")
            f.write(struct.pack("<IIII", 0, n, len(frame), len(frame)) + frame)


def forwarding(weir, rules, repeats):
    """What weir forwards from memory while its flows are asked for, and while they change."""
    with laboratory.Lab() as lab:
        path = os.path.join(lab.directory("traffic"), "in.pcap")
        capture(path)
        target = Weir(lab, 1, ["in", "out"], ["of13"], devices={"in": "replay:" + path, "out": "null"},
                      cpu=max(os.sched_getaffinity(0)))
        others = sorted(os.sched_getaffinity(0))[:-1]
        _, out, _ = lab.run("taskset", "-c", ",".join(map(str, others)), weir, "bench", "openflow", "--delete-flows", "--target",
                            target.mgmt[len("tcp:"):], "--rules", str(rules),
                            "--repeats", str(repeats), "--only", "forwarding", "--json", timeout=900)
        return document(weir, out)


def main():
    p = argparse.ArgumentParser(prog="./run bench-openflow", description=__doc__)
    p.add_argument("--rules", type=int, nargs="+", default=[100000, 1000000])
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--only-switches", action="store_true", help="say what many switches cost, and write nothing")
    args = p.parse_args()
    weir = os.environ.get("WEIR") or find_weir()
    laboratory.enter()
    if args.only_switches:
        print("\n".join(many_switches.section(switches(weir))))
        return
    everything = {}
    for rules in args.rules:
        for kind in ("ovs", "weir"):
            print("bench-openflow: %d rules, %s" % (rules, kind), file=sys.stderr, flush=True)
            everything["%s-%d" % (kind, rules)] = measure(weir, kind, rules, args.repeats)
    print("bench-openflow: forwarding meanwhile", file=sys.stderr, flush=True)
    everything["forwarding"] = forwarding(weir, args.rules[0], 2 * args.repeats + 1)
    print("bench-openflow: many switches", file=sys.stderr, flush=True)
    everything["switches"] = switches(weir)
    page(everything, args)


def switches(weir):
    with laboratory.Lab() as lab:
        return many_switches.measure(lab, weir)


def page(everything, args):
    any_one = next(iter(everything.values()))
    e = any_one["environment"]
    out = ["# The control channel beside Open vSwitch", "",
           "Made by `./run bench-openflow`; do not edit. The same bytes of OpenFlow 1.3 over one TCP connection on loopback,",
           "Open vSwitch's user-space data path first, weir next, in one run; medians of %d." % args.repeats, "",
           "Machine: %s, %d cores, Linux %s, load %s. weir %s." % (e["cpu_model"], e["cores"], e["kernel"], e["load_1min"], e["commit"]), ""]
    for rules in args.rules:
        ovs, weir = (everything["%s-%d" % (kind, rules)]["result"] for kind in ("ovs", "weir"))
        out += ["## %s exact rules" % format(rules, ","), "",
                "| | %s | weir | ratio |" % ovs["version_of_target"], "| --- | ---: | ---: | ---: |"]
        for name, get, form, better in ROWS:
            a, b = get(ovs), get(weir)
            ratio = (b / a if better == "higher" else a / b) if a and b else float("nan")
            out.append("| %s | %s | %s | %.1f |" % (name, form % a, form % b, ratio))
        refused = [(k, r["insert"]["errors"]) for k, r in (("Open vSwitch", ovs), ("weir", weir)) if r["insert"]["errors"]]
        out += [""] + ["%s refused %d flow_mods." % r for r in refused] + ([""] if refused else [])
    f = everything["forwarding"]["result"]["forwarding"]
    part = lambda s: "%.1f %% (%.1f to %.1f)" % tuple(100 * s[k] for k in ("median", "low", "high"))
    out += ["A ratio above 1 is in weir's favour.", "",
            "## Forwarding meanwhile", "",
            "weir alone, shortest frames from memory through one rule beside %s others, its worker on a core of its own" %
            format(f["flows"], ","),
            "(`cpu` of `[dataplane]`), its OpenFlow thread and the controller on what is left; a second each, beside the undisturbed seconds before and after.", "",
            "| | |", "| --- | ---: |",
            "| frames a second, undisturbed | %.1f million |" % (f["quiet_per_s"]["median"] / 1e6),
            "| under %.1f statistics of all flows a second | %s |" % (f["replies_per_s"]["median"], part(f["under_stats"])),
            "| under %.0f flow_mods a second | %s |" % (f["flow_mods_per_s"]["median"], part(f["under_flow_mods"]))]
    out += many_switches.section(everything["switches"])
    with open(os.path.join(ROOT, "docs", "openflow-performance.md"), "w") as f:
        f.write("\n".join(out) + "\n")
    with open(os.path.join(ROOT, "docs", "openflow-performance.json"), "w") as f:
        json.dump(everything, f, indent=1)
    print("\n".join(out))


if __name__ == "__main__":
    main()
