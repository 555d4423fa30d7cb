"""Recomputes what modules say in their tables and figures from the raw samples beside the document, and compares.

usage: module_tables.py DOCUMENT.json...

Knows nothing of weir but the documented shape (docs/guide/report.md) and which column is of which samples. Percentile p
is the value at rank ceil(p/100 * n), the deviation of `actions` is over n - 1. Loss is what gave no sample, of what was
sent. One line a document; exit status 1 when a value differs, 2 for a document of whose module nothing is known here.
"""

import json
import math
import statistics
import sys
from pathlib import Path


def quantile(samples, q):
    # In whole thousandths: q * len would be rounded.
    rank = -(-round(q * 1000) * len(samples) // 1000)
    return sorted(samples)[rank - 1] if samples else None


def at_rank(q):
    return lambda s, row: quantile(s.values, q)


def deviation(s, row):
    return None if not s.values else statistics.stdev(s.values) if len(s.values) > 1 else 0.0


def per_entry(s, row):
    median = quantile(s.values, 0.5)
    return None if median is None else median * 1e3 / row["entries"]


def missing(s, row):
    return s.missing


def count(s, row):
    return len(s.values)


def answered(s, row):
    return len(s.values) / (len(s.values) + s.missing) * 100


def lost_of(column):
    return lambda s, row: s.missing / row[column] * 100


def not_there(column):
    return lambda s, row: (row[column] - len(s.values)) / row[column] * 100


def spread(name):
    return [(name, at_rank(0.5)), ("p10", at_rank(0.1)), ("p90", at_rank(0.9))]


# For each module: which samples a row of its table is of, and how its columns come from them.
MODULES = {
    "flow-insert": [
        (
            lambda row, n: f"first-packet-{row['entries']:.0f}",
            [
                ("first packet", at_rank(0.5)),
                ("first packet p10", at_rank(0.1)),
                ("first packet p90", at_rank(0.9)),
                ("per entry", per_entry),
                ("incomplete", missing),
            ],
        ),
        (lambda row, n: f"barrier-{row['entries']:.0f}", [("barrier", at_rank(0.5))]),
        (lambda row, n: f"transmission-{row['entries']:.0f}", [("transmission", at_rank(0.5))]),
    ],
    "flow-modify": [
        (
            lambda row, n: f"{row['change'].replace(', ', '-').replace(' ', '-')}-{row['entries']:.0f}",
            spread("data plane") + [("per entry", per_entry)],
        )
    ],
    "flow-stats": [
        (
            lambda row, n: f"stats-{row['asked'] * 100:.0f}",
            [("delay", at_rank(0.5)), ("delay p90", at_rank(0.9)), ("answered", answered)],
        )
    ],
    "interaction": [
        (lambda row, n: f"update-{row['polls'] * 100:.0f}", spread("data plane") + [("incomplete", missing)])
    ],
    "consistency": [
        (
            lambda row, n: f"update-{row['change'].replace(' ', '-')}",
            [("data plane", at_rank(0.5)), ("incomplete", missing)],
        )
    ],
    "expiry": [
        (
            lambda row, n: f"{row['time-out']}-{row['after']:.0f}",
            [("late", at_rank(0.5)), ("late p90", at_rank(0.9)), ("told", count)],
        )
    ],
    "counters": [
        (
            lambda row, n: f"age-{row['counter'].replace(', ', '-')}",
            [("age", at_rank(0.5)), ("age p90", at_rank(0.9))],
        )
    ],
    "packet-in": [
        (
            lambda row, n: f"packet-in-{row['asked']:.0f}",
            [("median", at_rank(0.5)), ("p90", at_rank(0.9)), ("p99", at_rank(0.99)), ("loss", lost_of("frames"))],
        )
    ],
    "packet-out": [
        (
            lambda row, n: f"packet-out-{row['asked']:.0f}",
            [("median", at_rank(0.5)), ("p90", at_rank(0.9)), ("p99", at_rank(0.99)), ("loss", lost_of("packets"))],
        )
    ],
    "actions": [
        (
            lambda row, n: f"action-{n}",
            [("median", at_rank(0.5)), ("standard deviation", deviation), ("loss", not_there("frames"))],
        )
    ],
}

# Curves whose points are median, 10th and 90th percentile of samples: module, figure, curve, samples at x.
CURVES = [
    ("flow-insert", "flow-insertion", "first packet", lambda x: f"first-packet-{x:.0f}"),
    ("flow-insert", "flow-insertion", "barrier notification", lambda x: f"barrier-{x:.0f}"),
    ("interaction", "interaction", "update", lambda x: f"update-{x * 100:.0f}"),
]


class Samples:
    def __init__(self, path, d):
        self.missing = d["missing"]
        self.values = []
        # A distribution without a value has no file.
        if d.get("samples"):
            lines = (path.parent / d["samples"]["file"]).read_text().splitlines()
            self.values = [float(line) for line in lines if line and not line.startswith("#")]


def same(a, b):
    if a is None or b is None:
        return a is None and b is None
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def differences(path, document):
    found = {d["id"]: Samples(path, d) for d in document["distributions"]}
    table = document["tables"][0]
    names = [c["name"] for c in table["columns"]]
    compared = 0
    wrong = []

    def compare(what, said, computed):
        nonlocal compared
        compared += 1
        if not same(said, computed):
            wrong.append(f"{what} is {computed!r}, not {said!r}")

    for n, cells in enumerate(table["rows"]):
        row = dict(zip(names, cells))
        for of, columns in MODULES[document["id"]]:
            samples = found.get(of(row, n))
            # What the switch has not has no samples; a module says so in its row.
            if samples is None:
                if document["id"] != "counters":
                    wrong.append(f"row {n} has no samples {of(row, n)}")
                continue
            for column, compute in columns:
                compare(f"row {n}, {column}", row[column], compute(samples, row))
    for module, figure, curve, of in CURVES:
        for f in (f for f in document["figures"] if document["id"] == module and f["id"] == figure):
            for s in (s for s in f["series"] if s["name"] == curve):
                for x, *said in s["points"]:
                    values = found[of(x)].values
                    for percent, value in zip((0.5, 0.1, 0.9), said):
                        compare(f"{curve} at {x}, {percent}", value, quantile(values, percent))
    return compared, wrong


def main(paths):
    if not paths:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    status = 0
    for path in map(Path, paths):
        document = json.loads(path.read_text())
        if document["id"] not in MODULES:
            print(f"unknown     {path.name}: module {document['id']}")
            status = max(status, 2)
            continue
        compared, wrong = differences(path, document)
        if compared == 0:
            wrong.append("nothing to compare")
        verdict = "DIFFERS" if wrong else "equal"
        print(f"{verdict:11} {path.name}: {compared} values" + "".join(f"; {w}" for w in wrong))
        status = max(status, 1 if wrong else 0)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
