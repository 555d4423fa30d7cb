"""The score of a conformance run, as JSON and as Markdown. Pure: outcomes in, text out."""
import collections


def _short(reason):
    """What the tester itself counts failures by: the words before the first colon."""
    return reason.split(":", 1)[0] if reason else "no reason given"


def as_json(cases, outcomes, about):
    return counted(dict(
        about,
        cases=[dict(file=c.path, directory=c.directory, description=c.description, kind=c.kind, runs=1,
                    ok=outcomes[c.number].ok, reason=outcomes[c.number].reason,
                    seconds=round(outcomes[c.number].seconds, 3)) for c in cases],
    ))


def counted(result):
    """With the sums over its cases."""
    rows, reasons = collections.OrderedDict(), collections.Counter()
    for case in result["cases"]:
        row = rows.setdefault((case["directory"], case["kind"]), [0, 0])
        row[0] += case["ok"]
        row[1] += 1
        if not case["ok"]:
            reasons[_short(case["reason"])] += 1
    return dict(
        result,
        passed=sum(c["ok"] for c in result["cases"]),
        run=len(result["cases"]),
        directories=[dict(directory=d, kind=k, passed=p, run=n) for (d, k), (p, n) in rows.items()],
        failures_by_reason=dict(reasons.most_common()),
    )


def again(whole, part):
    """`whole` with the verdicts of the cases that were run once more in `part`."""
    latest = {(c["file"], c["description"]): c for c in part["cases"]}
    cases = []
    for case in whole["cases"]:
        once_more = latest.get((case["file"], case["description"]))
        cases.append(dict(once_more, runs=case["runs"] + 1) if once_more else case)
    return counted(dict(whole, cases=cases))


def score(cases, outcomes):
    return "%d of %d" % (sum(outcomes[c.number].ok for c in cases), len(cases))


def as_markdown(results):
    """One section a result (what `as_json` gave), failures named."""
    out = ["# Conformance",
           "",
           "os-ken's switch tester, with Open vSwitch's user-space data path (its flow cache off) as the tester switch,",
           "whatever the target. `./run conformance` makes a run, `./run conformance --docs` this page; do not edit it.",
           "",
           "*Egress* cases compare the frame that leaves port 2 with the one expected, *packet-in* cases the frame that the",
           "controller gets. *Table-miss* asks the tables' counters whether a frame was looked up and not matched.",
           "*Throughput* sends for half a minute and wants what leaves to be within a tenth of what is expected; the frames",
           "are sent by the clock here, where the package's generator falls behind on a busy machine.",
           "",
           "The tester by itself would run 184 cases of 1.0: of two pairs of files with the same description it keeps one.",
           "Here all 192 run.",
           "",
           "Sixteen cases of 1.3 are disputed: those that set SCTP's ports (action/25_SET_FIELD/17_SCTP_* and 18_SCTP_*).",
           "RFC 9260 (§6.8, appendix A) has the checksum of an SCTP packet be the CRC32c of its bytes. os-ken's",
           "`lib/packet/sctp.py` goes over the characters of Python's text for those bytes instead, `str(data)`, which",
           "begins with `bytearray(b'`, so what it expects behind the change is the checksum of no packet. A switch that",
           "writes the right checksum fails these, one that writes the difference into the old one fails them, too, and",
           "so does one that leaves it alone. weir writes the right one; what counts as passed is otherwise the tester's.",
           ""]
    for result in results:
        out += ["## OpenFlow %s, %s" % ({"of10": "1.0", "of13": "1.3"}[result["version"]], result["target"]),
                "",
                "%s**%d of %d**%s; %s; os-ken %s; %s; %s, %s, load %s; %.0f s." % (
                    "" if result["whole"] else "A selection: ", result["passed"], result["run"],
                    "" if result["whole"] else " (the whole has %d)" % result["whole_cases"],
                    result["target_version"], result["osken"], result["date"], result["machine"], result["kernel"],
                    result["load"], result["seconds"]),
                "",
                "| directory | kind | passed | of |",
                "| --- | --- | ---: | ---: |"]
        out += ["| %s | %s | %d | %d |" % (r["directory"], r["kind"], r["passed"], r["run"]) for r in result["directories"]]
        out.append("")
        later = [c for c in result["cases"] if c["ok"] and c.get("runs", 1) > 1]
        if later:
            out += ["%d of those that passed did so when they were run once more (`--again`), all of the kind %s." % (
                len(later), ", ".join("*%s*" % k for k in sorted({c["kind"] for c in later}))), ""]
        if result["failures_by_reason"]:
            out += ["| failures by reason | |", "| --- | ---: |"]
            out += ["| %s | %d |" % item for item in result["failures_by_reason"].items()]
            out.append("")
        failed = [c for c in result["cases"] if not c["ok"]]
        if failed and len(failed) <= 40:
            out += ["| failed | | reason |", "| --- | --- | --- |"]
            out += ["| %s | `%s` | %s |" % (c["file"].split("/", 1)[1], c["description"].replace("|", "\\|"),
                                            c["reason"].replace("|", "\\|")) for c in failed]
            out.append("")
    return "\n".join(out)
