"""weir beside DPDK's testpmd and Open vSwitch with DPDK: frames from memory, one core, no NIC. Called by ./run.

    main.py [--seconds S] [--repeats N] [--workload NAME] [--json FILE]  rates; whole: all, to a page of docs (see `page_here`)
    main.py --compare [--workload NAME]                 the output of one pass, frame by frame, weir's and Open vSwitch's
    main.py --workers                                   only two workers beside two processes, and more by simulation; no peers, no root
    main.py --many                                      only few VDPs beside many; no peers, no root
    main.py --networks                                  only what the slicer and the proof of isolation take; no peers, no root
    main.py --lookups [--data DIR] [--set NAME]         only lookups, beside rte_acl and Open vSwitch's classifier (lookups.py)

Each workload is a trace and rules in ovs-ofctl's syntax (workloads.py). Every program gets the same trace: testpmd and
OVS replay it through net_pcap into net_null, weir through `weir bench dataplane`. The figure is millions of frames per
CPU-second of the forwarding thread, which holds on a busy machine; each row is the median of the repeats. testpmd's
`io` is what the generator and the sink cost alone, and is part of testpmd's and OVS's figures.

plots.py draws the page's tables. Needs root (hugepages, a network namespace). What is not installed is said, and its rows left out.
"""

import argparse
import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter

import dpdk
import lookups
import ovs_classifier
import plots
import workloads
from lookups import ROOT, TARGET

WEIR = pathlib.Path(os.environ.get("WEIR", TARGET / "release/weir"))


def cpu(name: str) -> str:
    found = re.search(rf"^{name}\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found.group(1) if found else "?"


# The widest vectors decide most of what a classifier can do: a page has figures of one kind of them alone.
WIDEST = next((shown for flag, shown in (("avx512bw", "AVX-512"), ("avx2", "AVX2")) if flag in cpu("flags").split()), "")


def processor() -> str:
    """Its name, and which kind of that name, which clouds have for many."""
    widest = f", {WIDEST}" if WIDEST else ""
    return f"{cpu('model name')} (family {cpu('cpu family')}, model {cpu('model')}{widest})"


def page_here() -> pathlib.Path:
    """The page of this kind of vectors, unless it has another processor's figures: then one of this processor's own. Who wants
    those replaced removes the page first."""
    kind = ROOT / "docs" / {"AVX-512": "performance.md", "AVX2": "performance-avx2.md"}.get(WIDEST, "performance-other.md")
    if not kind.exists() or processor() in kind.read_text():
        return kind
    maker = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}.get(cpu("vendor_id"), "other")
    return kind.with_name(f"performance-{maker}-{cpu('cpu family')}-{cpu('model')}.md")


PAGE = page_here()
# What a whole run needs built before it is without a network.
EXAMPLES = (("weir-classify", "lookup_rate"), ("weir-dataplane", "forwarding_rate"))
MODES = {"four-rewrites": ("io", "macswap", "5tswap"), "mac-1": ("io",), "mac-10k": ("io",), "acl-10k": ("io",)}


def weir(name: str, trace: pathlib.Path, flows: pathlib.Path, *more: str) -> str:
    command = [WEIR, "bench", "dataplane", "--rules", flows, "--trace", trace, *more]
    vdps = workloads.WORKLOADS[name].vdps
    command += ["--vdps", str(vdps)] if vdps > 1 else []
    mods = workloads.WORKLOADS[name].flow_mods
    command += ["--flow-mods", str(mods)] if mods and "--out" not in more else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise dpdk.Failed(f"weir: {done.stderr.strip()[-300:]}")
    return done.stdout


def weir_rates(name: str, trace: pathlib.Path, flows: pathlib.Path, seconds: float, repeats: int) -> list[float]:
    once = ("--seconds", str(seconds), "--repeats", "1", "--json")
    return [float(json.loads(weir(name, trace, flows, *once))["result"]["mpps_per_cpu_s"]) for _ in range(repeats)]


# ---- rates -----------------------------------------------------------------------------------------------------------


def rates(names: list[str], base: pathlib.Path, switch: pathlib.Path | None, window: tuple[float, int]) -> list[dict]:
    results: list[dict] = []
    print(f"{'workload':<15} {'program':<18} {'M frames/CPU-s':>15} {'least':>8} {'most':>8} {'weir, times':>12}")

    def row(workload: str, program: str, run) -> None:
        try:
            each = run()
        except (dpdk.Failed, OSError, subprocess.SubprocessError) as error:
            print(f"{workload:<15} {program:<18} not measured: {error}", flush=True)
            results.append({"workload": workload, "program": program, "error": str(error)})
            return
        median = statistics.median(each)
        ours = next((r["mpps_per_cpu_s"] for r in results if (r["workload"], r["program"]) == (workload, "weir")), None)
        ratio = f"{ours / median:>12.2f}" if ours else ""
        print(f"{workload:<15} {program:<18} {median:>15.2f} {min(each):>8.2f} {max(each):>8.2f} {ratio}", flush=True)
        results.append({"workload": workload, "program": program, "mpps_per_cpu_s": median, "repeats": each})

    for name in names:
        trace, flows = workloads.write(base, name)
        row(name, "weir", lambda: weir_rates(name, trace, flows, *window))
        for mode in MODES.get(name, ()) if shutil.which("dpdk-testpmd") else ():
            with tempfile.TemporaryDirectory(prefix="weir-testpmd-") as own:
                row(name, f"testpmd {mode}", lambda: dpdk.testpmd(mode, trace, pathlib.Path(own), *window))
        if switch and not workloads.WORKLOADS[name].alone:
            with tempfile.TemporaryDirectory(prefix="weir-ovs-") as own:
                row(name, "Open vSwitch", lambda: dpdk.Switch(switch, flows, pathlib.Path(own)).rates(trace, window, workloads.WORKLOADS[name]))
        trace.unlink()
        flows.unlink()
    return results


def said(*command: str) -> str:
    """The first line that a program prints, if it is there and says that all is well."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip().partition("\n")[0] if done.returncode == 0 else ""


def installed(package: str) -> str:
    return said("dpkg-query", "-W", "-f", "${Version}", package) or "not installed"


def about(command: str) -> str:
    version, commit = said(str(WEIR), "--version"), said("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
    # The page and its pictures are what a run changes.
    tracked = ("--untracked-files=no", "--", ".", f":!{PAGE.relative_to(ROOT)}", ":!docs/plots")
    changed = ", changed" if said("git", "-C", str(ROOT), "status", "--porcelain", *tracked) else ""
    clean = commit and commit in version and not changed
    scripts = "" if clean else f", run from {commit or 'an unknown commit'}{changed}"
    return (
        f"`{command}`: {version}{scripts}; Open vSwitch {installed('openvswitch-switch')}, "
        f"DPDK {installed('dpdk-dev')}; {os.cpu_count()} × {processor()}, "
        f"Linux {platform.release()}, load {os.getloadavg()[0]:.1f}; {time.strftime('%Y-%m-%d', time.gmtime())}."
    )


def page(results: list[dict], window: tuple[float, int]) -> str:
    lines = [
        "# Performance beside other data planes" + ("" if WIDEST == "AVX-512" else ", without AVX-512"),
        "",
        "Written by `./run bench-peers`; do not edit it. Frames of 64 bytes (FCS included) from memory, one core, no NIC:",
        "millions of frames per CPU-second of the forwarding thread, source, classification, actions and sink included;",
        f"medians of {window[1]} runs of {window[0]:g} s. The workloads are made by `bench/peers/workloads.py`.",
        "",
        about(f"./run bench-peers --seconds {window[0]:g} --repeats {window[1]}"),
        "",
        "| workload | weir | Open vSwitch | weir / Open vSwitch | testpmd |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for name, workload in workloads.WORKLOADS.items():
        of = {r["program"]: r for r in results if r["workload"] == name}

        def cell(program: str) -> str:
            r = of.get(program, {"error": "not measured"})
            if program != "weir" and workload.alone:
                return "–"
            return f"{r['mpps_per_cpu_s']:.1f}" if "error" not in r else "not measured"

        both = [of.get(p, {}).get("mpps_per_cpu_s") for p in ("weir", "Open vSwitch")]
        ratio = f"{both[0] / both[1]:.2f}" if all(both) else "–"
        pmd = ", ".join(f"{mode} {cell(f'testpmd {mode}')}" for mode in MODES.get(name, ()))
        lines.append(f"| {workload.about} | {cell('weir')} | {cell('Open vSwitch')} | {ratio} | {pmd} |")
    return "\n".join(lines) + "\n"


# ---- virtual networks ------------------------------------------------------------------------------------------------


def bench(kind: str) -> dict:
    done = subprocess.run([WEIR, "bench", kind, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise dpdk.Failed(f"weir bench {kind}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)["result"]


def networks(repeats: int) -> tuple[str, dict]:
    """What the slicer and the proof of isolation take: the run with the median of what each promises."""
    slicers = [bench("slicer") for _ in range(repeats)]
    proofs = [bench("verify") for _ in range(repeats)]

    def middle(runs: list[dict], of) -> dict:
        return sorted(runs, key=of)[len(runs) // 2]

    def us(f: dict) -> str:
        return f"{f['median_us']:.1f} | {f['p99_us']:.1f} | {f['longest_us']:.0f}"

    one = middle(slicers, lambda r: max(p["added_us"] for p in r["sockets"]["paths"]))
    proof = middle(proofs, lambda r: r["running_change_median_ms"])
    sockets, core = one["sockets"], {f["what"]: f for f in one["core"]}
    lines = [
        "## Virtual networks",
        "",
        f"`weir bench slicer` and `weir bench verify`, each the run with the median of {repeats}.",
        "",
        about("./run bench-peers --networks"),
        "",
        "| the slicer, µs | median | p99 | longest |",
        "| --- | ---: | ---: | ---: |",
        f"| an entry into a flow space of {core['insert']['present']:,} | {us(core['insert'])} |",
    ]
    for path in sockets["paths"]:
        lines.append(f"| {path['what']}, {sockets['rate']:,} a second, {sockets['rules']:,} rules: by the slicer | {us(path['sliced'])} |")
        lines.append(f"| the same without it | {us(path['direct'])} |")
        lines.append(f"| it adds | {path['added_us']:.1f} | | |")
    lines += [
        "",
        f"| `weir net verify`, {proof['networks']:,} networks, {proof['rules']:,} rules | decided | on a running data plane, rules read, too |",
        "| --- | ---: | ---: |",
        f"| all of it, s | {proof['whole_s']:.2f} | {proof['running_whole_s']:.2f} |",
        f"| one changed rule, ms, median | {proof['change_median_ms']:.2f} | {proof['running_change_median_ms']:.2f} |",
        f"| one changed rule, ms, worst | {proof['change_worst_ms']:.2f} | {proof['running_change_worst_ms']:.2f} |",
    ]
    return "\n".join(lines) + "\n", {"slicer": slicers, "verify": proofs}


# ---- workers, and many VDPs --------------------------------------------------------------------------------------------


def two_workers(name: str, base: pathlib.Path, window: tuple[float, int], *more: str) -> dict:
    """What `weir bench dataplane --workers 2` says of a workload."""
    trace, flows = workloads.write(base, name)
    length = ("--seconds", str(window[0]), "--repeats", str(window[1]))
    said = weir(name, trace, flows, "--workers", "2", *more, *length, "--json")
    trace.unlink()
    flows.unlink()
    return json.loads(said)["result"]


def crews(base: pathlib.Path, window: tuple[float, int]) -> tuple[str, dict]:
    """Two workers beside two processes, and how long a change takes to hold at the workers."""
    rows, each, changes = [], {}, 0
    for name in ("mac-10k", "acl-10k", "tse-8k"):
        r = each[name] = two_workers(name, base, window)
        waits = {
            v["workers"]: f"{v['p50_us']:.0f}, {v['p99_us']:.0f}, {v['max_us']:,.0f} | {v['bare_p50_us']:.0f}, {v['bare_p99_us']:.0f}"
            for v in r["visible"]
        }
        rates = f"{r['crew_mpps_per_cpu_s']:.1f} | {r['processes_mpps_per_cpu_s']:.1f} | {r['ratio_per_cpu_s']:.3f}"
        changes = max(v["changes"] for v in r["visible"])
        rows.append(f"| {workloads.WORKLOADS[name].about} | {rates} | {waits.get(2, '– | –')} | {waits.get(1, '– | –')} |")
        print(rows[-1], flush=True)
    lines = [
        "## Two workers",
        "",
        "`weir bench dataplane --workers 2`: two workers of one process beside two processes of one each, by turns; and, while they forward, how",
        f"long after it was asked a change holds at every worker that runs, {changes:,} changes each. Where two run, who asks takes its time from one of them.",
        "Beside it how long it takes until threads in their place that only read memory see a word: what the machine itself takes, somebody",
        "else having the processor.",
        "",
        about(f"./run bench-peers --workers --seconds {window[0]:g} --repeats {window[1]}"),
        "",
        "| workload | two workers | two processes | ratio | a change holds at both, µs: median, p99, longest | a word: median, p99 | at one | a word |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    return "\n".join(lines + rows) + "\n", each


def more_workers(base: pathlib.Path, window: tuple[float, int]) -> tuple[str, dict]:
    """What more workers would forward if there were processors for them: by simulation, of costs that two say here."""
    rows, each, told = [], {}, []
    for name in ("mac-10k", "acl-10k"):
        r = each[name] = two_workers(name, base, window, "--one-queue")
        about_it, scaling = workloads.WORKLOADS[name].about, r["scaling"]
        for w in scaling["workers"]:
            figures = (w["queue_each"], w["queue_each_without_loss"], w["one_queue"])
            rows.append(f"| {about_it} | {w['workers']} | " + " | ".join(f"{f:.1f}" for f in figures) + f" | {w['buckets_at_home']} |")
            print(rows[-1], flush=True)
        costs = scaling["costs"]
        checks = (f"with {c['buckets_at_home']} {c['measured']:.1f}, {c['simulated']:.1f} by the simulation" for c in scaling["checks"])
        told.append(
            f"- {about_it}: {costs['alone_ns']:.1f} ns a frame where a worker has a queue of its own, {costs['home_ns']:.1f} where worker 0 has all, "
            f"{costs['deal_ns']:.1f} to deal one out, {costs['mixed_ns']:.1f} more for each where it does both, {costs['far_ns']:.1f} where it was dealt out. "
            f"Of 256 buckets, {'; '.join(checks)}."
        )
    lines = [
        "## More workers, on more processors",
        "",
        "`weir bench dataplane --workers 2 --one-queue`, by simulation, million frames a second. A worker takes up to 64 frames a round, which lasts as long as",
        "they take. With a queue each nothing is shared: each does what one does as long as it has frames; *without loss* is until the busiest is full, where",
        "weir's own hash deals the capture's flows out (a device's would be another). With one queue worker 0 deals frames out, in lanes as long as they are, all",
        "buckets having as many, and of 256 it keeps what is best. Left out: memory and caches that processors share, and whatever else runs. What frames take is",
        "measured here, on two workers where worker 0 keeps all, three quarters, a quarter and none of the buckets; other shares, of which that knows nothing, say",
        "how right it is:",
        "",
        *told,
        "",
        about(f"./run bench-peers --workers --seconds {window[0]:g} --repeats {window[1]}"),
        "",
        "| workload | workers | a queue each | without loss | one queue | buckets that worker 0 keeps |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    return "\n".join(lines + rows) + "\n", each


def many(repeats: int) -> tuple[str, dict]:
    """What a frame takes where VDPs are few, and where they are many; by turns."""
    program = lookups.example("weir-dataplane", "forwarding_rate")
    cases = {
        "sources-4": ("source MAC", 4, None),
        "sources-1k": ("source MAC", 1024, "sources-4"),
        "sources-8k": ("source MAC", 8192, "sources-4"),
        "networks-4": ("VLAN", 4, None),
        "networks": ("VLAN", 1024, "networks-4"),
    }
    each: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(repeats):
        for name in cases:
            found = re.search(r"([\d.]+) ns", lookups.pinned([program, name, "0.6"]))
            if not found:
                raise dpdk.Failed(f"forwarding_rate {name} said no figure")
            each[name].append(float(found[1]))
    lines = [
        "## Few VDPs and many",
        "",
        f"`forwarding_rate`: 16 rules a VDP by destination MAC, uniform traffic, from memory into nothing; medians of {repeats} by turns. By source MAC 200,000 frames,",
        "by VLAN 50,000.",
        "",
        about(f"./run bench-peers --many --repeats {repeats}"),
        "",
        "| VDPs told apart by | VDPs | ns a frame | more than with four | least, most |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, (by, vdps, than) in cases.items():
        median = statistics.median(each[name])
        more = f"{median - statistics.median(each[than]):+.1f}" if than else ""
        lines.append(f"| {by} | {vdps:,} | {median:.1f} | {more} | {min(each[name]):.1f}, {max(each[name]):.1f} |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n", each


# ---- the output, frame by frame --------------------------------------------------------------------------------------


def compare(names: list[str], base: pathlib.Path, switch: pathlib.Path) -> tuple[list[str], bool]:
    """Whether one pass of each workload leaves the same frames. Not their order: what a first frame of a flow waits
    for in Open vSwitch lets others pass it."""
    lines, same = [], True
    for name in names:
        trace, flows = workloads.write(base, name)
        kept = base / "weir.pcap"
        try:
            weir(name, trace, flows, "--out", str(kept))
            ours = Counter(workloads.read_pcap(kept))
            with tempfile.TemporaryDirectory(prefix="weir-ovs-") as own:
                theirs = Counter(dpdk.Switch(switch, flows, pathlib.Path(own)).one_pass(trace))
        except (dpdk.Failed, OSError, subprocess.SubprocessError) as error:
            lines.append(f"| {name} | not compared: {error} | | |")
            same = False
        else:
            digest = hashlib.sha256(b"".join(sorted(ours.elements()))).hexdigest()[:16]
            differ = (ours - theirs).total() + (theirs - ours).total()
            same = same and differ == 0 and ours.total() > 0
            verdict = "equal" if differ == 0 else f"{differ} frames differ"
            lines.append(f"| {name} | {ours.total()} | {theirs.total()} | {verdict}, SHA-256 of the sorted {digest}… |")
        print(lines[-1], flush=True)
        trace.unlink()
        flows.unlink()
    return lines, same


# ---- the command -----------------------------------------------------------------------------------------------------


def section(text: str) -> str:
    """Puts a section of the page in place of the one of the same title, which it says."""
    title = text.partition("\n")[0]
    old = PAGE.read_text() if PAGE.exists() else ""
    parts = [p for p in plots.sections(old) if not p.startswith(title + "\n")]
    parts = [text, *parts] if title.startswith("# ") else [*parts, text]
    PAGE.write_text("\n".join(p.strip("\n") + "\n" for p in parts))
    plots.draw(PAGE)
    return title


def without(title: str) -> None:
    """Takes a section off the page, if it is there."""
    old = PAGE.read_text() if PAGE.exists() else ""
    PAGE.write_text("".join(p for p in plots.sections(old) if not p.startswith(title + "\n")))


def classifier(data: pathlib.Path | None, only: str | None, repeats: int) -> list[dict]:
    found = lookups.measure(data, only, (0.3, repeats))
    if only:
        return found
    whole = "./run bench-peers --lookups --data DIR"
    # What there is of whole sets is worth more than the samples that come along.
    if not data and PAGE.exists() and whole in PAGE.read_text():
        print(f"{PAGE.name} keeps its figures of whole sets: --data DIR measures those anew")
        return found
    pages = [lookups.page(found, data)]
    if any("Open vSwitch" in row for row in found):
        pages.append(lookups.updatable_page(found, data))
    else:
        # It would be of another run.
        without(lookups.UPDATABLE)
    for text in pages:
        text[2:2] = [about(whole if data else "./run bench-peers --lookups"), ""]
        section("\n".join(text) + "\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="run bench-peers", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measurement")
    parser.add_argument("--repeats", type=int, default=5, help="measurements; the median counts")
    parser.add_argument("--workload", choices=workloads.WORKLOADS, help="only this one; the page stays")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--compare", action="store_true", help="compare the output of one pass instead of rates")
    only.add_argument("--networks", action="store_true", help="only what the slicer and the proof of isolation take")
    only.add_argument("--workers", action="store_true", help="only two workers beside two processes, and more by simulation")
    only.add_argument("--many", action="store_true", help="only few VDPs beside many")
    only.add_argument("--lookups", action="store_true", help="only the classifier, beside rte_acl and Open vSwitch's")
    parser.add_argument("--data", type=pathlib.Path, default=os.environ.get("WEIR_DATA"), help="folder of rule sets and traces for lookups")
    parser.add_argument("--set", help="of --lookups, only sets with this in their name; the page stays")
    parser.add_argument("--json", type=pathlib.Path, help="write every single result here; of --workers, --many, --networks by section")
    arguments = parser.parse_args()
    window = (arguments.seconds, arguments.repeats)
    # What is measured beside no peer, by the option that asks for it alone.
    own = (
        ("workers", lambda base: crews(base, window)),
        ("workers", lambda base: more_workers(base, window)),
        ("many", lambda _: many(arguments.repeats)),
        ("networks", lambda _: networks(arguments.repeats)),
    )
    alone = [measure for name, measure in own if getattr(arguments, name)]
    if alone:
        every = {}
        with tempfile.TemporaryDirectory(prefix="weir-peers-") as temporary:
            for measure in alone:
                text, each = measure(pathlib.Path(temporary))
                every[section(text).strip("# ")] = each
                if arguments.json:
                    arguments.json.write_text(json.dumps(every, indent=1) + "\n")
        return
    if os.geteuid() != 0:
        sys.exit("bench-peers: needs root for hugepages and a network namespace; try sudo ./run bench-peers")
    if arguments.lookups:
        found = classifier(arguments.data, arguments.set, arguments.repeats)
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=1) + "\n")
        return
    names = [arguments.workload] if arguments.workload else list(workloads.WORKLOADS)
    with tempfile.TemporaryDirectory(prefix="weir-peers-") as temporary:
        base = pathlib.Path(temporary)
        fetched = base / "ovs-dpdk"
        fetched.mkdir()
        switch = dpdk.switch_binary(fetched)
        if not switch:
            print("Open vSwitch with DPDK is not to be had (openvswitch-switch-dpdk): its rows are left out")
            if arguments.compare:
                sys.exit(77)
        if not shutil.which("dpdk-testpmd"):
            print("testpmd is not installed (apt-get install dpdk-dev): its rows are left out")
        if not arguments.workload and not arguments.compare:
            for package, program in EXAMPLES:
                lookups.example(package, program)
            # Who cannot have them is told when lookups come.
            with contextlib.suppress(dpdk.Failed, OSError):
                ovs_classifier.sources()
        unshare_network()  # from here on no network is needed
        if arguments.compare:
            lines, same = compare([n for n in names if comparable(n)], base, switch)
            if not arguments.workload:
                head = ["## What comes out", "", "One pass of each workload, weir's output and Open vSwitch's as sets of frames."]
                head += ["", about("./run bench-peers --compare"), "", "| workload | weir | Open vSwitch | |", "| --- | ---: | ---: | --- |"]
                section("\n".join(head + lines) + "\n")
            sys.exit(0 if same else 1)
        results = rates(names, base, switch, window)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")
        if not arguments.workload:
            section(page(results, window))
            # One after the other: what fails loses nothing that was measured before.
            for _, measure in own:
                section(measure(base)[0])
            classifier(arguments.data, None, arguments.repeats)
    if any("error" in result for result in results):
        sys.exit(1)


def comparable(name: str) -> bool:
    of = workloads.WORKLOADS[name]
    return not of.flow_mods and not of.alone


def unshare_network() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(0x40000000) != 0:  # CLONE_NEWNET
        sys.exit(f"bench-peers: no network namespace: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


if __name__ == "__main__":
    main()
