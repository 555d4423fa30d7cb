"""`./run conformance`: os-ken's switch tester against weir, or against Open vSwitch to prove the harness.

Makes the tester's environment (network, once), enters a lab, runs the chosen cases, prints how they ended, writes
target/judges/conformance-TARGET-VERSION.json; with --docs, docs/conformance.md from those of whole runs.
"""
import argparse
import datetime
import json
import os
import platform
import shutil
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "judges"))

import cases as case_files  # noqa: E402
import lab as laboratory  # noqa: E402
import locked_venv  # noqa: E402
import report  # noqa: E402
from control_capture import Capture  # noqa: E402
from tester import Bed  # noqa: E402


def main():
    args = arguments()
    if args.docs:
        return write_docs()
    venv = locked_venv.ensure("osken")
    tests = os.path.join(venv.package("os_ken"), "tests", "switch")
    os.makedirs(locked_venv.STATE, exist_ok=True)
    laboratory.enter()
    good, named = True, 0
    for version in args.versions:
        whole = case_files.load(tests, version)
        cases = chosen(args, whole, version)
        named += len(cases)
        if args.list:
            for c in cases:
                print("%-10s %-45s %s" % (c.kind, c.path, c.description))
        elif cases:
            good &= one(args, venv, version, whole, cases)
    if not named:
        print("conformance: nothing is called so", file=sys.stderr)
        good = False
    return 0 if good else 1


def arguments():
    p = argparse.ArgumentParser(prog="./run conformance", description=__doc__.split("\n\n")[0])
    p.add_argument("versions", nargs="*", metavar="of10|of13", help="one or both; both if none is named")
    p.add_argument("--target", choices=("weir", "ovs", "ovs-cacheless"), default="weir")
    p.add_argument("--quick", action="store_true", help="some cases of every kind, about a minute")
    p.add_argument("--only", metavar="GROUP", help="cases whose file or description contains this: match, 25_SET_FIELD")
    p.add_argument("--kind", choices=case_files.KINDS, help="cases of one kind")
    p.add_argument("--skip-kind", choices=case_files.KINDS)
    p.add_argument("--again", action="store_true", help="only the cases that failed in the last whole run of the same target, whose result they amend")
    p.add_argument("--at-least", type=int, metavar="N", help="fail unless so many pass; default: all but the disputed ones (docs/conformance.md)")
    p.add_argument("--list", action="store_true", help="name the cases and stop")
    p.add_argument("--docs", action="store_true", help="run nothing: write docs/conformance.md from the last runs, whole ones where there are")
    p.add_argument("--verbose", action="store_true", help="a line a case")
    args = p.parse_args()
    args.versions = args.versions or ["of10", "of13"]
    for version in args.versions:
        if version not in ("of10", "of13"):
            p.error("no version '%s': of10 or of13" % version)
    return args


def chosen(args, whole, version):
    cases = case_files.quick(whole) if args.quick else whole
    if args.only:
        cases = [c for c in cases if args.only in c.path or args.only in c.description]
    if args.kind:
        cases = [c for c in cases if c.kind == args.kind]
    if args.skip_kind:
        cases = [c for c in cases if c.kind != args.skip_kind]
    if args.again:
        with open(result_path(args.target, version)) as f:
            failed = {(c["file"], c["description"]) for c in json.load(f)["cases"] if not c["ok"]}
        cases = [c for c in cases if (c.path, c.description) in failed]
    return cases


def result_path(target, version, partial=False):
    return os.path.join(locked_venv.STATE, "conformance-%s-%s%s.json" % (target, version, "-part" if partial else ""))


def one(args, venv, version, whole, cases):
    began, failures = time.monotonic(), []

    def told(case, outcome):
        if not outcome.ok:
            failures.append(case)
        if args.verbose or not outcome.ok:
            print("%-5s %s: %s%s" % ("ok" if outcome.ok else "FAIL", case.path, case.description,
                                     "" if outcome.ok else "\n      " + outcome.reason), flush=True)

    logs = os.path.join(locked_venv.STATE, "logs-%s-%s" % (args.target, version))
    shutil.rmtree(logs, ignore_errors=True)
    with laboratory.Lab(keep_logs_in=logs) as lab:
        bed = Bed(lab, venv, args.target.split("-")[0], version, args.target == "ovs-cacheless")
        with Capture(lab, 6653, os.path.join(logs, "control.pcapng")) as capture:
            outcomes = bed.run(cases, told)
            said = bed.target.version
        wire = capture.verdict()
    about = dict(
        target={"weir": "weir", "ovs": "Open vSwitch", "ovs-cacheless": "Open vSwitch without its flow cache"}[args.target],
        target_version=said, version=version, osken=venv.version("os-ken"), whole=len(cases) == len(whole),
        whole_cases=len(whole), date=datetime.date.today().isoformat(), machine=machine(), kernel="Linux " + platform.release().split("-")[0],
        load="%.1f" % os.getloadavg()[0], seconds=round(time.monotonic() - began, 1), restarts=bed.starts - 1,
        decoded=wire.as_dict(),
    )
    result = report.as_json(cases, outcomes, about)
    kept, path = result, result_path(args.target, version, not about["whole"])
    if args.again:
        with open(result_path(args.target, version)) as f:
            first = json.load(f)
        if first["target_version"] == said:
            kept, path = report.again(first, result), result_path(args.target, version)
    with open(path, "w") as f:
        json.dump(kept, f, indent=1)
    print("conformance: OpenFlow %s, %s: %s in %.0f s" % (
        {"of10": "1.0", "of13": "1.3"}[version], about["target"], report.score(cases, outcomes), about["seconds"]))
    for reason, count in result["failures_by_reason"].items():
        print("    %4d  %s" % (count, reason))
    print("    tshark: " + wire.text())
    wanted = len(cases) - sum(case_files.disputed(c) for c in cases)
    return result["passed"] >= (args.at_least if args.at_least is not None else wanted) and wire.good


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((l.split(":", 1)[1].strip() for l in f if l.startswith("model name")), platform.machine())
    return "%d × %s" % (os.cpu_count(), model)


def write_docs():
    results = []
    for target in ("weir", "ovs", "ovs-cacheless"):
        for version in ("of13", "of10"):
            # Where no whole run was made, the last selection stands there, and says that it is one.
            made = [p for p in (result_path(target, version), result_path(target, version, True)) if os.path.exists(p)]
            if made:
                with open(made[0]) as f:
                    results.append(json.load(f))
    if not results:
        print("conformance: no whole run has been made yet", file=sys.stderr)
        return 1
    with open(os.path.join(ROOT, "docs", "conformance.md"), "w") as f:
        f.write(report.as_markdown(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
