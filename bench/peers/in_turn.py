"""Programs that are measured in turn: each waits for a line, measures for a moment, and answers in a line of JSON, so that what neighbours
take of the processor while one is measured they take from the others, too. Called by lookups.py.
"""

import json
import os
import select
import subprocess
import tempfile
import time

import dpdk

# A measurement that is not done by then is none. Larger sets keep rte_acl at building for minutes, or for ever.
MOST_SECONDS = 120
# Who needs more says so, before the kernel ends whom it likes.
MOST_MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def last_word(said: str, code: int) -> str:
    """Why a program ended, by what it said; DPDK's own lines tell nothing."""
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("EAL:")]
    return lines[-1][-200:] if lines else f"ended with {code}, without a word"


class Measured:
    """One of the programs, pinned where all of them are."""

    def __init__(self, command: list, environment: dict[str, str]):
        self.said = tempfile.TemporaryFile()
        # A file descriptor is read: what a reader of text keeps to itself no `select` tells of.
        self.process = subprocess.Popen(
            ["prlimit", f"--data={MOST_MEMORY}", "taskset", "-c", str(dpdk.CORE), *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            env=os.environ | environment,
            bufsize=0,
        )
        self.rest = b""

    def __enter__(self) -> "Measured":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            dpdk.end(self.process)
        self.process.stdin.close()
        self.process.stdout.close()
        self.said.close()

    def answer(self, seconds: float = MOST_SECONDS) -> dict:
        """The next line of JSON. Whatever else it prints is passed over."""
        until = time.monotonic() + seconds
        while True:
            line, found, rest = self.rest.partition(b"\n")
            if found:
                self.rest = rest
                if line.startswith(b"{"):
                    return json.loads(line)
                continue
            ready, _, _ = select.select([self.process.stdout], [], [], max(until - time.monotonic(), 0))
            if not ready:
                raise dpdk.Failed(f"no answer in {seconds:.0f} s")
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                raise dpdk.Failed(self.why())
            self.rest += more

    def turn(self) -> dict:
        try:
            self.process.stdin.write(b"\n")
        except BrokenPipeError:
            raise dpdk.Failed(self.why()) from None
        return self.answer()

    def last_turn(self) -> dict:
        """What it says when no turn follows."""
        self.process.stdin.close()
        return self.answer()

    def why(self) -> str:
        code = self.process.wait()
        self.said.seek(0)
        return last_word(self.said.read().decode(errors="replace"), code)
