"""The cases of os-ken's switch tester: read from the installed package, chosen, and written out for the tester to run.

The tester reads every JSON file below one directory and keeps them by the description at their head, so that of two files
with the same description it runs one (so 184 of the 192 cases for 1.0 run when it is given the package's own directory).
Here each file is written with a description of its own and each case with its number in front, which is how the
results are found again in the log. Nothing else of a case is changed.
"""
import copy
import json
import os
import re
from dataclasses import dataclass, field, replace

KINDS = ("egress", "packet-in", "table-miss", "throughput")


@dataclass(frozen=True)
class Case:
    number: int             # in the order of the directory, from 0
    path: str               # "of13/match/06_VLAN_VID.json"
    title: str              # the file's own description
    description: str
    kind: str               # one of KINDS
    seconds: float          # that the tester sends for, where it is a throughput
    packets_per_s: int
    body: dict = field(hash=False, compare=False, repr=False, default=None)

    @property
    def directory(self):
        return os.path.dirname(self.path)


def disputed(case):
    """Whether no switch that keeps to RFC 9260 (§6.8, appendix A) can pass: see docs/conformance.md."""
    return os.path.basename(case.path).startswith(("17_SCTP", "18_SCTP")) and "25_SET_FIELD" in case.path


def load(tests, version):
    """Every case of "of10" or "of13", in order of paths."""
    found, top = [], os.path.join(tests, version)
    for directory, children, files in os.walk(top):
        children.sort()
        for name in sorted(files):
            if name.endswith(".json"):
                path = os.path.join(directory, name)
                with open(path) as f:
                    title, bodies = _parts(json.load(f))
                for body in bodies:
                    found.append((os.path.relpath(path, tests), title, body))
    found.sort(key=lambda f: f[0])
    return [Case(n, path, title, body["description"], *_kind(body), body) for n, (path, title, body) in enumerate(found)]


def _parts(content):
    titles = [c for c in content if isinstance(c, str)]
    return titles[-1], [c for c in content if isinstance(c, dict)]


def _kind(body):
    kind, seconds, rate = "egress", 0.0, 0
    for test in body["tests"]:
        if isinstance(test["ingress"], dict):
            kind, packets = "throughput", test["ingress"]["packets"]
            seconds += packets.get("duration_time", 30)
            rate = max(rate, packets.get("pktps", 1000))
        elif "PACKET_IN" in test:
            kind = "packet-in"
        elif "table-miss" in test:
            kind = "table-miss"
    return kind, seconds, rate


QUICK_THROUGHPUTS = ("group/00_ALL", "meter/01_DROP_00_KBPS_00", "meter/02_DSCP_REMARK_01_PKTPS_00")
QUICK_SECONDS = 4
METER_KBPS, METER_BURST = 1 << 0, 1 << 2        # OFPMF_*


def quick(cases):
    """Some of every kind: of every file the first case of the kinds that take no time, of every sixth file one table-miss
    (a second each), and three throughputs, for four seconds instead of thirty."""
    chosen, seen, files = [], set(), {}
    for case in cases:
        files.setdefault(case.path, len(files))
        if (case.path, case.kind) in seen or (case.kind == "table-miss" and files[case.path] % 6):
            continue
        if case.kind == "throughput":
            if not any(name in case.path for name in QUICK_THROUGHPUTS):
                continue
            case = shortened(case, QUICK_SECONDS)
        seen.add((case.path, case.kind))
        chosen.append(case)
    return chosen


def shortened(case, seconds):
    """The same for so many seconds. A meter that names no burst may let a second's worth pass at first, which is little of
    thirty seconds and much of these: here it is told a tenth of that."""
    body = copy.deepcopy(case.body)
    for test in body["tests"]:
        test["ingress"]["packets"]["duration_time"] = seconds
    for meter in (p["OFPMeterMod"] for p in body["prerequisite"] if "OFPMeterMod" in p):
        meter["flags"] = meter.get("flags", METER_KBPS) | METER_BURST
        for band in (values for kinds in meter["bands"] for values in kinds.values()):
            band["burst_size"] = band["rate"] // 10
    return replace(case, body=body, seconds=float(seconds * len(body["tests"])))


def write(cases, into):
    """The files that the tester is pointed at."""
    by_path = {}
    for case in cases:
        by_path.setdefault(case.path, []).append(case)
    for order, (path, members) in enumerate(sorted(by_path.items())):
        content = ["%04d %s" % (order, path)]
        for case in members:
            content.append(dict(case.body, description="[%04d] %s" % (case.number, case.description)))
        with open(os.path.join(into, "%04d.json" % order), "w") as f:
            json.dump(content, f)


RESULT = re.compile(r"^ {4}\[(\d{4})\] .*? (OK|ERROR)$")


def result_in(line):
    """(number, "OK" or "ERROR") if this line of the tester's log says how a case ended."""
    found = RESULT.match(line.rstrip())
    return (int(found.group(1)), found.group(2)) if found else None
