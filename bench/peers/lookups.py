"""Lookups alone: weir's classifier beside DPDK's rte_acl and Open vSwitch's classifier on the same rule sets and traces, one core.
Called by main.py.

Sets come from a folder (--data, or WEIR_DATA) with `rules/SET[.oft][.zst]` and `traces/SET_trace_u[.oft][.zst]`, as
testdata/rules/README.md describes them; else the project's samples are taken. rte_acl is static: any change is a
rebuild, and its time to build stands beside its rate. Weir's tables and Open vSwitch's were filled rule by rule and can be changed.
"""

import contextlib
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import tempfile
from typing import NamedTuple

import dpdk
import in_turn
import ovs_classifier
from ovs_classifier import ROOT, TARGET

PROFILE = "release"
# Of a measurement: what neighbours take of the processor changes within a second.
PARTS = 6
# Sizes as names of sets end, in the order of the page.
ORDER = ["1k", "10k", "50k", "100k", "8k"]
# The section that is Open vSwitch's.
UPDATABLE = "## Lookups beside a classifier that can be updated"


class Set:
    def __init__(self, rules: pathlib.Path, trace: pathlib.Path):
        self.rules, self.trace = rules, trace
        self.name = re.sub(r"(\.oft)?(\.zst)?$", "", rules.name)

    def __lt__(self, other: "Set") -> bool:
        def key(s: Set) -> tuple:
            kind, _, size = s.name.rpartition("_")
            return s.rules.name.count(".oft"), ORDER.index(size) if size in ORDER else len(ORDER), kind

        return key(self) < key(other)


def sets(folder: pathlib.Path | None) -> list[Set]:
    """Every set of the folder that has a uniform trace."""
    found = []
    if folder is None:
        base = ROOT / "testdata" / "rules"
        for trace in base.glob("*_trace*"):
            rules = base / trace.name.replace("_trace", "")
            found.append(Set(rules, trace))
        return sorted(found)
    for rules in (folder / "rules").iterdir():
        stem, rest = re.fullmatch(r"([^.]*)(.*)", rules.name).groups()
        trace = folder / "traces" / f"{stem}_trace_u{rest}"
        if trace.exists():
            found.append(Set(rules, trace))
    return sorted(found)


def plain(path: pathlib.Path, to: pathlib.Path) -> pathlib.Path:
    if path.suffix != ".zst":
        return path
    if not shutil.which("zstd"):
        raise dpdk.Failed("zstd, which reads the sets, is not installed (apt-get install zstd)")
    subprocess.run(["zstd", "-qdf", path, "-o", to], check=True)
    return to


def example(package: str, name: str) -> pathlib.Path:
    """A program beside a crate of weir's, built."""
    command = ["cargo", "build", "-q", "--locked", f"--{PROFILE}", "-p", package, "--example", name]
    subprocess.run(command, check=True, cwd=ROOT)
    return TARGET / PROFILE / "examples" / name


def build_theirs(to: pathlib.Path) -> pathlib.Path | None:
    """rte_acl's program; nothing where DPDK's headers or a compiler are missing."""
    asked = subprocess.run(["pkg-config", "--cflags", "libdpdk"], capture_output=True, text=True, check=False) if shutil.which("pkg-config") else None
    if asked is None or asked.returncode != 0 or not shutil.which("cc"):
        return None
    source = pathlib.Path(__file__).with_name("acl.c")
    flags = ["-O2", "-march=native", *shlex.split(asked.stdout)]
    subprocess.run(["cc", *flags, source, "-o", to, "-lrte_acl", "-lrte_eal"], check=True)
    return to


@functools.cache
def huge_pages() -> str:
    """Memory in huge pages, as `weir run` asks for it and DPDK has it."""
    wanted = "".join(re.findall(r'"(glibc\.[^"]+)"', (ROOT / "crates/weir/src/huge_pages.rs").read_text()))
    if "hugetlb=1" not in wanted:
        raise dpdk.Failed("huge_pages.rs does not say any more how weir asks for huge pages")
    return wanted


def pinned(command: list) -> str:
    env = os.environ | {"GLIBC_TUNABLES": huge_pages()}
    done = subprocess.run(["taskset", "-c", str(dpdk.CORE), *command], capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        raise dpdk.Failed(in_turn.last_word(done.stderr, done.returncode))
    return done.stdout


def ours(program: pathlib.Path, rules: pathlib.Path, trace: pathlib.Path) -> dict:
    """The program's own medians of five."""
    text = pinned([program, rules, trace])
    kept = re.search(r"under (\d+) updates a second: [\d.]+ M/CPU-s, ([\d.]+) of", text)
    rest = re.search(r"(\d+) lines, \d+ rules; build ([\d.]+) s, ([\d.]+) M updates/s, (\d+) bytes a line", text)
    index = re.search(r"before there is an index: ([\d.]+) M/CPU-s\n\d+ indexes: \d+ leaves, made in ([\d.]+) s", text)
    if not kept or not rest:
        raise dpdk.Failed(f"not understood: {text[-200:]}")
    lines, build, updates, size = rest.groups()
    under = {"updates_a_second": int(kept[1]), "kept": float(kept[2])}
    if index:
        under |= {"before_index": float(index[1]), "index_s": float(index[2])}
    return {"lines": int(lines), "build_s": float(build), "updates_m": float(updates), "bytes": int(size)} | under


class Measured(NamedTuple):
    """A program that waits for its turns; what it has said before the first, and its rates so far."""

    program: in_turn.Measured
    facts: dict
    rates: dict[str, list[float]]


def in_turns(programs: dict[str, Measured], repeats: int) -> dict[str, str]:
    """Measures each `repeats` times, each time in as many parts as there are of a measurement, by turns. Who fails has no further
    turn; and why."""
    failed = {}
    for _ in range(repeats):
        sums: dict[str, dict[str, list[float]]] = {name: {} for name in programs}
        for name in PARTS * list(programs):
            if name not in failed:
                try:
                    for way, (done, passed) in programs[name].program.turn().items():
                        of = sums[name].setdefault(way, [0, 0])
                        of[0], of[1] = of[0] + done, of[1] + passed
                except dpdk.Failed as error:
                    failed[name] = str(error)
        for name, ways in sums.items():
            for way, (done, passed) in ways.items():
                programs[name].rates.setdefault(way, []).append(done / passed / 1e6)
    return failed


def beside(commands: dict[str, list], repeats: int) -> dict[str, dict]:
    """Programs measured in turn. Of each its facts, all rates and their medians, and `ratio`: the median of weir's rates, each
    over that of the peer's fastest way at the same time; of one that failed why."""
    environment = {"GLIBC_TUNABLES": huge_pages()}
    results = {}
    with contextlib.ExitStack() as stack:
        ready = {}
        for name, command in commands.items():
            program = stack.enter_context(in_turn.Measured(command, environment))
            try:
                ready[name] = Measured(program, program.answer(), {})
            except dpdk.Failed as error:
                results[name] = {"error": str(error)}
        results |= {name: {"error": why} for name, why in in_turns(ready, repeats).items()}
        for name, each in ready.items():
            if name in results:
                continue
            medians = {way: statistics.median(rates) for way, rates in each.rates.items()}
            results[name] = each.facts | {"mlps_per_cpu_s": each.rates, "mlps": medians}
        # Whose updates are asked for last: nobody is measured after them.
        if "error" not in results.get("Open vSwitch", {"error": ""}):
            try:
                results["Open vSwitch"] |= ready["Open vSwitch"].program.last_turn()
            except dpdk.Failed as error:
                results["Open vSwitch"] = {"error": str(error)}
    own = results["weir"].get("mlps_per_cpu_s", {}).get("bursts of 32")
    for name, each in results.items():
        if own and name != "weir" and "error" not in each:
            fastest = max(each["mlps"], key=each["mlps"].get)
            each["ratio"] = statistics.median(w / p for w, p in zip(own, each["mlps_per_cpu_s"][fastest], strict=True))
    return results


def huge_memory(stack: contextlib.ExitStack) -> list:
    """What DPDK is told, of memory that goes when the stack does."""
    own = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-acl-")))
    huge = stack.enter_context(dpdk.hugepages(own / "huge"))
    eal = ["-l", dpdk.CORE, "--no-pci", "--no-telemetry", "--force-max-simd-bitwidth=512", "--huge-unlink"]
    return [*eal, "--huge-dir", huge, "--file-prefix", own.name, "-m", dpdk.DPDK_MIB]


def per_rule(of: dict) -> dict:
    """Medians of what was measured more than once, and bytes by rule or line."""
    if "error" in of:
        return of
    medians = {"bytes": of["bytes"] // of.get("lines", of["rules"])}
    if "updates_m_per_cpu_s" in of:
        medians |= {"build_s": statistics.median(of["build_s"]), "updates_m": statistics.median(of["updates_m_per_cpu_s"])}
    return of | medians


def measure(folder: pathlib.Path | None, only: str | None, window: tuple[float, int]) -> list[dict]:
    results, part = [], window[0] / PARTS
    program = example("weir-classify", "lookup_rate")
    with tempfile.TemporaryDirectory(prefix="weir-lookups-") as temporary:
        base = pathlib.Path(temporary)
        peer = build_theirs(base / "acl")
        if peer is None:
            print("rte_acl is not to be had (apt-get install libdpdk-dev gcc pkg-config): its columns are left out")
        switch = None
        try:
            switch = ovs_classifier.build(base / "ovs_classifier")
        except (dpdk.Failed, OSError) as error:
            print(f"Open vSwitch's classifier is not to be had ({error}): its table is left out")
        for each in sets(folder):
            if only and only not in each.name:
                continue
            rules, trace = plain(each.rules, base / "rules"), plain(each.trace, base / "trace")
            row = {"set": each.name, "weir": ours(program, rules, trace)}
            commands: dict[str, list] = {"weir": [program, "turns", rules, trace, part]}
            with contextlib.ExitStack() as stack:
                if peer:
                    try:
                        commands["rte_acl"] = [peer, rules, trace, part, *huge_memory(stack)]
                    except (dpdk.Failed, OSError, subprocess.CalledProcessError) as error:
                        row["rte_acl"] = {"error": str(error)}
                if switch:
                    commands["Open vSwitch"] = [switch, rules, trace, part, window[1]]
                found = beside(commands, window[1])
            row |= {name: per_rule(of) for name, of in found.items() if name != "weir"}
            if "error" in found["weir"]:
                raise dpdk.Failed(f"weir: {found['weir']['error']}")
            row["weir"] |= {"mlps": found["weir"]["mlps"]["bursts of 32"], "mlps_per_cpu_s": found["weir"]["mlps_per_cpu_s"]["bursts of 32"]}
            print(line(row), flush=True)
            if switch:
                print(updatable_line(row), flush=True)
            results.append(row)
    return results


def line(row: dict) -> str:
    w, r = row["weir"], row.get("rte_acl", {"error": "not measured"})
    if "error" in r:
        peer = f"{r['error']} | | | | | "
    else:
        rates = [f"{r['mlps'][a]:.1f}" if a in r["mlps"] else "–" for a in ("scalar", "AVX2", "AVX-512x32")]
        peer = f"{' | '.join(rates)} | {r['ratio']:.2f} | {r['build_s']:.2f} | {r['bytes']:,}"
    before, index = (f"{w['before_index']:.1f}", f"{w['index_s']:.2f}") if "index_s" in w else ("–", "–")
    ours = f"{w['build_s']:.3f} | {index} | {w['bytes']:,} | {w['updates_m']:.2f} | {w['kept']:.2f}"
    return f"| {row['set']} | {w['lines']:,} | {before} | {w['mlps']:.1f} | {peer} | {ours} |"


def page(results: list[dict], folder: pathlib.Path | None) -> list[str]:
    source = "whole sets" if folder else "the samples in `testdata/rules`"
    return [
        "## Lookups alone",
        "",
        f"The classifier beside DPDK's `rte_acl` (bursts of 32, hugepages), {source}: million lookups per CPU-second, uniform",
        "traces, no flow cache, every answer equal to the trace's. `rte_acl` is built once and can't be changed; weir's tables are",
        "filled rule by rule, and lines they take out and put back again are the updates (millions a second). Large tables of many",
        "shapes get an index, which a thread beside the worker makes (index, s) and changes keep true: *before* is what serves until",
        "then. The last column is what lookups keep of their rate while the same thread does 100,000 updates a second.",
        f"All programs stand side by side, and a measurement of each is made of {PARTS} parts, by turns: rates are medians, and *weir / best* is",
        "the median of what weir has over what the peer's fastest way has at the same time.",
        "",
        "| set | rules | before | weir | rte_acl scalar | AVX2 | AVX-512 | weir / best | rte_acl build, s | bytes a rule | weir build, s | index, s | bytes a rule | updates | kept |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(line(row) for row in results),
    ]


def updatable_line(row: dict) -> str:
    w, o = row["weir"], row["Open vSwitch"]
    ours = f"{w['build_s']:.3f} | {w['bytes']:,} | {w['updates_m']:.2f}"
    if "error" in o:
        return f"| {row['set']} | {w['mlps']:.1f} | {o['error']} | | | | | | | | {ours} |"
    rule, bits = o["mlps"]["rule"], o["mlps"]["rule and bits"]
    # Of what is slow fewer answers are checked than the trace has.
    checked = "all" if o["checked"] == o["lookups"] else f"{o['checked']:,}"
    theirs = f"{o['rules']:,} | {checked} | {o['build_s']:.3f} | {o['bytes']:,} | {o['updates_m']:.3f}"
    return f"| {row['set']} | {w['mlps']:.1f} | {rule:.3g} | {bits:.3g} | {times(o['ratio'])} | {theirs} | {ours} |"


def times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 100 else f"{ratio:,.0f}"


def updatable_page(results: list[dict], folder: pathlib.Path | None) -> list[str]:
    source = "whole sets" if folder else "the samples in `testdata/rules`"
    return [
        UPDATABLE,
        "",
        f"Open vSwitch's ({ovs_classifier.version()}, built here from its sources), {source}, in the same run as the lookups alone: million per CPU-second,",
        "uniform traces, memory in huge pages, one classifier for each VID, with the prefix tries and segments that Open vSwitch gives its own tables. It is asked",
        "for the rule alone, and for the rule and the bits that were looked at, as Open vSwitch asks. Rules of one priority that some header fits both have",
        "priorities of their own, since it does not say which wins. It has no ranges: ports become as many rules as they have prefixes. Answers are compared",
        "with the trace's, as many as it gives in five seconds. The ratio is as there. Updates are lines taken out and put back, millions a second, all rules of a line at once.",
        "",
        "| set | weir | Open vSwitch, rule | rule and bits | weir / best | its rules | answers checked | build, s | bytes a line | updates | weir build, s | bytes a line | updates |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(updatable_line(row) for row in results if "Open vSwitch" in row),
    ]
