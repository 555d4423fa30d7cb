"""What every judge does the same way: arguments, a line a check, a result file, an exit status.

    judge = Judge("faucet", "What it does.", venv="faucet")    # parses arguments, makes the environment, enters the lab
    with judge.lab() as lab: judge.check("hosts of one VLAN", ...)
    sys.exit(judge.end())
"""
import argparse
import datetime
import json
import os
import platform
import shutil
import sys
import time

sys.dont_write_bytecode = True

import lab as laboratory  # noqa: E402
import locked_venv  # noqa: E402
from control_capture import Capture  # noqa: E402


class Judge:
    def __init__(self, name, about, venv=None, arguments=lambda parser: None):
        parser = argparse.ArgumentParser(prog=name, description=about)
        parser.add_argument("--target", choices=("weir", "ovs"), default="weir")
        arguments(parser)
        self.args = parser.parse_args()
        self.name, self.results, self.began = name, [], time.monotonic()
        self.last = self.began
        self.venv = locked_venv.ensure(venv) if venv else None
        self.logs = os.path.join(locked_venv.STATE, "logs-%s-%s" % (name, self.args.target))
        self.wires, self.version = [], ""
        shutil.rmtree(self.logs, ignore_errors=True)
        laboratory.enter()

    def lab(self, part=""):
        return laboratory.Lab(keep_logs_in=os.path.join(self.logs, part) if part else self.logs)

    def capture(self, lab, port, part="control", switch_listens=False):
        """Records a control connection; `decoded` judges it when the capture is over."""
        return Capture(lab, port, os.path.join(lab.logs, part + ".pcapng"), switch_listens)

    def decoded(self, what, capture):
        verdict = capture.verdict()
        self.check("tshark decodes what the switch said to %s" % what, verdict.good, verdict.text(), verdict.note)

    def check(self, what, good, detail="", skipped=""):
        now = time.monotonic()
        self.results.append(dict(check=what, ok=bool(good), detail=str(detail), skipped=bool(skipped),
                                 seconds=round(now - self.last, 2)))
        self.last = now
        word = "skip" if skipped else "ok" if good else "FAIL"
        detail = " ".join(str(detail).split())
        print("%-4s %s%s" % (word, what, ": " + detail[:500 if word == "FAIL" else 150] if detail else ""), flush=True)
        return bool(good)

    def attempt(self, what, doing):
        """A check that is a function; whatever it raises is its failure."""
        try:
            answer = doing()
        except Exception as error:  # noqa: BLE001 - a judge goes on with its other checks
            return self.check(what, False, "%s: %s" % (type(error).__name__, error))
        good, detail = answer if isinstance(answer, tuple) else (answer, "")
        return self.check(what, good, detail)

    def end(self):
        passed = sum(r["ok"] for r in self.results)
        result = dict(judge=self.name, target=self.args.target, target_version=self.version, passed=passed,
                      run=len(self.results), date=datetime.date.today().isoformat(), kernel="Linux " + platform.release().split("-")[0],
                      seconds=round(time.monotonic() - self.began, 1), checks=self.results)
        with open(os.path.join(locked_venv.STATE, "%s-%s.json" % (self.name, self.args.target)), "w") as f:
            json.dump(result, f, indent=1)
        print("%s: %s: %d of %d in %.0f s" % (self.name, self.version or self.args.target, passed, len(self.results),
                                              result["seconds"]))
        return 0 if passed == len(self.results) else 1


def pings(judge, lab, what, ns, to, wanted=True, patience_s=20.0):
    """Echo requests are answered (within `patience_s`, since somebody may have to learn first), or never are."""
    if not wanted:
        got = lab.ping(ns, to, count=3, patience_s=0.5)
        return judge.check(what, got == 0, "" if got == 0 else "%d of 3 answered" % got)
    end = time.monotonic() + patience_s
    while lab.ping(ns, to, count=1, patience_s=0.5) == 0:
        if time.monotonic() > end:
            return judge.check(what, False, "no answer in %.0f s" % patience_s)
    got = lab.ping(ns, to, count=10, patience_s=1)
    return judge.check(what, got == 10, "" if got == 10 else "%d of 10 answered" % got)
