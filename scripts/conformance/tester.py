"""Runs os-ken's switch tester over cases in a lab and says how each ended.

The lab: the tester switch (always Open vSwitch) in a namespace of its own, the target in the lab's first namespace beside
the controller, three wires between them, and a wire by which the tester switch reaches the controller.

os-ken's tester runs its cases in one green thread. If an assertion of its own fails there (an answer it did not foresee),
the thread ends, and the process waits for ever. So the log is watched: a case that brings the thread to its end, or that
is not over long after it should be, has failed, and the tester is started again with the cases after it.
"""
import os
import time
from dataclasses import dataclass

import cases as case_files
from switches import CONTROLLER, Ovs, switch

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET_DPID, TESTER_DPID = 1, 2
SPARE_S = 45.0          # for a case beyond what it sends for: several answers of 3 s each may be missing
DYING_S = 5.0           # after an exception in the tester


@dataclass
class Outcome:
    ok: bool
    reason: str
    seconds: float


class Bed:
    """The switches of a conformance run, wired and connected."""

    def __init__(self, lab, venv, kind, version, cacheless=False):
        self.lab, self.venv, self.version = lab, venv, version
        lab.namespace("tester")
        lab.wire("ctl0", None, "ctl1", "tester")
        lab.run("ip", "addr", "add", "10.255.255.1/24", "dev", "ctl0")
        lab.run("ip", "addr", "add", "10.255.255.2/24", "dev", "ctl1", ns="tester")
        for n in (1, 2, 3):
            lab.wire("target%d" % n, None, "tester%d" % n, "tester")
            lab.silence("target%d" % n)
            lab.silence("tester%d" % n, "tester")
        self.tester = Ovs(lab, "tester", "tester")
        self.tester.bridge("tester", TESTER_DPID, ["tester1", "tester2", "tester3"], [version],
                           ["tcp:10.255.255.1:6653"])
        self.tester.without_flow_cache()     # the instrument may not have what it is to find
        self.target = switch(kind, lab, ["target1", "target2", "target3"], [version], TARGET_DPID, (CONTROLLER,))
        if cacheless:
            self.target.without_flow_cache()
        self.starts = 0

    def run(self, cases, told=lambda case, outcome: None):
        """{case number: Outcome} of all of them."""
        outcomes, left = {}, list(cases)
        while left:
            before = len(outcomes)
            self._once(left, outcomes, told)
            left = [c for c in left if c.number not in outcomes]
            if left and len(outcomes) == before:    # nothing at all came: blame the first, go on
                outcomes[left[0].number] = Outcome(False, "the tester did not come as far as this case", 0.0)
                told(left[0], outcomes[left[0].number])
                left = left[1:]
        return outcomes

    def _once(self, cases, outcomes, told):
        self.starts += 1
        directory = self.lab.directory("cases-%d" % self.starts)
        case_files.write(cases, directory)
        version = {"of10": "openflow10", "of13": "openflow13"}[self.version]
        process = self.lab.spawn("osken-tester", [
            self.venv.bin("python"), "-u", self.venv.bin("osken-manager"),
            os.path.join(HERE, "paced_tester.py"),
            "--ofp-tcp-listen-port", "6653", "--test-switch-dir", directory,
            "--test-switch-target", "%016x" % TARGET_DPID, "--test-switch-tester", "%016x" % TESTER_DPID,
            "--test-switch-target-version", version, "--test-switch-tester-version", version,
        ])
        try:
            self._follow(process, cases, outcomes, told)
        finally:
            process.stop()

    def _follow(self, process, cases, outcomes, told):
        by_number = {c.number: c for c in cases}
        waiting = list(cases)
        began = time.monotonic()
        deadline = began + SPARE_S + waiting[0].seconds
        failed = None           # the case whose reason is the next line
        crash = None
        with open(process.log, errors="replace") as log:
            rest = ""
            while True:
                alive = process.alive()
                rest += log.read()
                *lines, rest = rest.split("\n")
                for line in lines:
                    if failed is not None and line.startswith("        "):
                        outcomes[failed].reason = line.strip()
                        told(by_number[failed], outcomes[failed])
                        failed = None
                        continue
                    result = case_files.result_in(line)
                    if result and result[0] in by_number:
                        number, how = result
                        now = time.monotonic()
                        outcomes[number] = Outcome(how == "OK", "", now - began)
                        waiting = [c for c in waiting if c.number != number]
                        began = now
                        deadline = now + SPARE_S + (waiting[0].seconds if waiting else 0)
                        if how == "OK":
                            told(by_number[number], outcomes[number])
                        else:
                            failed = number
                    elif "uncaught exception" in line or line.startswith("Traceback"):
                        crash = crash or line
                        deadline = min(deadline, time.monotonic() + DYING_S)
                    elif crash and line and not line.startswith(" "):
                        crash = line
                if not waiting and failed is None:
                    return
                if not alive and not lines:
                    break
                if time.monotonic() > deadline:
                    break
                time.sleep(0.05)
        if waiting:
            why = "the tester's own thread ended: %s" % crash if crash else "not over in time"
            outcomes[waiting[0].number] = Outcome(False, why, time.monotonic() - began)
            told(waiting[0], outcomes[waiting[0].number])
