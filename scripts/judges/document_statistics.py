"""Recomputes a document's distributions from the raw samples beside it, and compares.

usage: document_statistics.py DOCUMENT.json...

Knows nothing of weir but the documented shape (docs/guide/report.md): the percentile p of n values is the one at rank
ceil(p/100 * n), smallest first; the deviation is over n - 1. Percentiles must be equal to the last digit; mean and
deviation to nine digits, since sums may be taken in any order. A distribution whose file has fewer samples than were
counted can't be recomputed: it is named, its file counted. One line a distribution; exit status 1 when one differs.
"""

import json
import math
import statistics
import sys
from fractions import Fraction
from pathlib import Path


def read(path):
    lines = path.read_text().splitlines()
    return [float(line) for line in lines if line and not line.startswith("#")]


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


def differences(d, samples):
    if d["samples"]["count"] != len(samples):
        yield f"the file has {len(samples)} samples, not {d['samples']['count']}"
    if d["count"] != len(samples):
        return
    ordered = sorted(samples)
    n = len(ordered)
    mean = math.fsum(ordered) / n
    largest = max(abs(ordered[0]), abs(ordered[-1]))
    expected = {"min": ordered[0], "max": ordered[-1]}
    for name, value in expected.items():
        if d[name] != value:
            yield f"{name} is {value!r}, not {d[name]!r}"
    # What cancels is as uncertain as the largest value's last digits.
    if not (close(d["mean"], mean) or abs(d["mean"] - mean) <= largest * 1e-12):
        yield f"mean is {mean!r}, not {d['mean']!r}"
    deviation = statistics.stdev([float(v) for v in ordered]) if n > 1 else 0.0
    if not (close(d["standard_deviation"], deviation) or abs(d["standard_deviation"] - deviation) <= largest * 1e-9):
        yield f"standard deviation is {deviation!r}, not {d['standard_deviation']!r}"
    if d["method"] != "exact":
        yield f"method is {d['method']!r} though all samples are there"
    for percent, value in d["percentiles"]:
        rank = max(1, math.ceil(Fraction(str(percent)) / 100 * n))
        if value != ordered[rank - 1]:
            yield f"percentile {percent} is {ordered[rank - 1]!r}, not {value!r}"


def main(paths):
    if not paths:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    wrong = 0
    for path in map(Path, paths):
        document = json.loads(path.read_text())
        for d in document["distributions"]:
            name = f"{path.name}, {d['id']}"
            if not d.get("samples"):
                print(f"no samples  {name}")
                continue
            found = list(differences(d, read(path.parent / d["samples"]["file"])))
            whole = d["count"] == d["samples"]["count"]
            verdict = "DIFFERS" if found else "equal" if whole else "not whole"
            print(f"{verdict:11} {name}: {d['count']} values" + "".join(f"; {f}" for f in found))
            wrong += bool(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
