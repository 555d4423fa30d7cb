"""Lookups alone: weir's classifier beside DPDK's rte_acl and Open vSwitch's classifier on the same rule sets and traces, one core.
Called by main.py.

Sets come from a folder (--data, or WEIR_DATA) with `rules/SET[.oft][.zst]` and `traces/SET_trace_u[.oft][.zst]`, as
testdata/rules/README.md describes them; else the project's samples are taken. rte_acl is static: any change is a
rebuild, and its time to build stands beside its rate. Weir's tables and Open vSwitch's were filled rule by rule and can be changed.
"""

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
from collections.abc import Callable

import dpdk
import ovs_classifier
from ovs_classifier import ROOT, TARGET

PROFILE = "release"
# Larger sets keep the library at building for minutes, or for ever.
MOST_SECONDS = 120
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


def pinned(command: list, limit: float | None = None) -> str:
    env = os.environ | {"GLIBC_TUNABLES": huge_pages()}
    done = subprocess.run(["taskset", "-c", str(dpdk.CORE), *command], capture_output=True, text=True, check=False, timeout=limit, env=env)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("EAL:")]
        raise dpdk.Failed(said[-1][-200:] if said else f"ended with {done.returncode}, without a word")
    return done.stdout


def ours(program: pathlib.Path, rules: pathlib.Path, trace: pathlib.Path) -> dict:
    """The program's own medians of five."""
    text = pinned([program, rules, trace])
    rate = re.search(r"bursts of 32: ([\d.]+) M/CPU-s", text)
    kept = re.search(r"under (\d+) updates a second: [\d.]+ M/CPU-s, ([\d.]+) of", text)
    rest = re.search(r"(\d+) lines, \d+ rules; build ([\d.]+) s, ([\d.]+) M updates/s, (\d+) bytes a line", text)
    index = re.search(r"before there is an index: ([\d.]+) M/CPU-s\n\d+ indexes: \d+ leaves, made in ([\d.]+) s", text)
    if not rate or not kept or not rest:
        raise dpdk.Failed(f"not understood: {text[-200:]}")
    lines, build, updates, size = rest.groups()
    under = {"updates_a_second": int(kept[1]), "kept": float(kept[2])}
    if index:
        under |= {"before_index": float(index[1]), "index_s": float(index[2])}
    return {"mlps": float(rate[1]), "lines": int(lines), "build_s": float(build), "updates_m": float(updates), "bytes": int(size)} | under


def theirs(program: pathlib.Path, rules: pathlib.Path, trace: pathlib.Path, window: tuple[float, int], directory: pathlib.Path) -> dict:
    with dpdk.hugepages(directory / "huge") as huge:
        eal = ["-l", str(dpdk.CORE), "--no-pci", "--no-telemetry", "--force-max-simd-bitwidth=512", "--huge-unlink"]
        eal += ["--huge-dir", huge, "--file-prefix", directory.name, "-m", str(dpdk.DPDK_MIB)]
        try:
            text = pinned([program, rules, trace, str(window[0]), str(window[1]), *eal], MOST_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise dpdk.Failed(f"not built in {MOST_SECONDS} s") from error
    result = json.loads(text.strip().splitlines()[-1])
    result["mlps"] = {a: statistics.median(r) for a, r in result["mlps_per_cpu_s"].items()}
    result["bytes"] //= result["rules"]
    return result


def updatable(program: pathlib.Path, rules: pathlib.Path, trace: pathlib.Path, window: tuple[float, int]) -> dict:
    """Open vSwitch's, by the faster of its two ways to ask."""
    try:
        result = json.loads(pinned([program, rules, trace, str(window[0]), str(window[1])], MOST_SECONDS))
    except subprocess.TimeoutExpired as error:
        raise dpdk.Failed(f"not measured in {MOST_SECONDS} s") from error
    result["mlps"] = {way: statistics.median(each) for way, each in result["mlps_per_cpu_s"].items()}
    result["build_s"] = statistics.median(result["build_s"])
    result["updates_m"] = statistics.median(result["updates_m_per_cpu_s"])
    result["bytes"] //= result["lines"]
    return result


def tried(run: Callable[..., dict], *arguments: object) -> dict:
    """What a peer says, or why it says nothing."""
    try:
        return run(*arguments)
    except (dpdk.Failed, OSError) as error:
        return {"error": str(error)}


def measure(folder: pathlib.Path | None, only: str | None, window: tuple[float, int]) -> list[dict]:
    results = []
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
            if peer:
                with tempfile.TemporaryDirectory(prefix="weir-acl-") as own:
                    row["rte_acl"] = tried(theirs, peer, rules, trace, window, pathlib.Path(own))
            print(line(row), flush=True)
            if switch:
                row["Open vSwitch"] = tried(updatable, switch, rules, trace, window)
                print(updatable_line(row), flush=True)
            results.append(row)
    return results


def line(row: dict) -> str:
    w, r = row["weir"], row.get("rte_acl", {"error": "not measured"})
    if "error" in r:
        peer = f"{r['error']} | | | | | "
    else:
        rates = [f"{r['mlps'][a]:.1f}" if a in r["mlps"] else "–" for a in ("scalar", "AVX2", "AVX-512x32")]
        peer = f"{' | '.join(rates)} | {w['mlps'] / max(r['mlps'].values()):.2f} | {r['build_s']:.2f} | {r['bytes']:,}"
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
    return f"| {row['set']} | {w['mlps']:.1f} | {rule:.3g} | {bits:.3g} | {times(w['mlps'] / max(rule, bits))} | {theirs} | {ours} |"


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
        "with the trace's, as many as it gives in five seconds. Updates are lines taken out and put back, millions a second, all rules of a line at once.",
        "",
        "| set | weir | Open vSwitch, rule | rule and bits | weir / best | its rules | answers checked | build, s | bytes a line | updates | weir build, s | bytes a line | updates |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(updatable_line(row) for row in results if "Open vSwitch" in row),
    ]
