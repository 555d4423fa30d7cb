"""The pages' tables as pictures: docs/performance*.md → docs/plots/*.svg, each named by its page and section. Called by main.py
when a section is written.

    plots.py            draws those of all pages anew
    plots.py --check    says which are not what their page says; exit status 1 if there is one

A picture is drawn from what its page's table says and from nothing else, so that no figure has two sources. Python alone.
"""

import pathlib
import re
import sys
from dataclasses import dataclass
from itertools import zip_longest
from xml.sax.saxutils import escape

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
WIDTH, VALUES, TOP, BAR, GAP, AXIS = 960, 62, 66, 13, 9, 40
# Letters of a row's name, at most, and how wide one is.
LETTERS, LETTER = 70, 6.1
# Those of `weir report`.
INK, GRID = "#1c1f23", "#dfe2e6"
COLOURS = ("#0072b2", "#c44e00", "#00795a")


@dataclass(frozen=True)
class Chart:
    """A table as bars: a group of them for each row, one for each column that is named."""

    section: str
    file: str
    title: str
    unit: str
    # What a row is called, of its cells.
    name: str
    # How a bar is called, by the heading of its column.
    bars: dict[str, str]


CHARTS = (
    Chart(
        "# Performance beside other data planes",
        "data-path",
        "Frames of 64 bytes from memory",
        "million frames per CPU-second",
        "{workload}",
        {"weir": "weir", "Open vSwitch": "Open vSwitch with DPDK"},
    ),
    Chart(
        "## Two workers",
        "workers",
        "Two workers beside two processes",
        "million frames per CPU-second",
        "{workload}",
        {"two workers": "two workers", "two processes": "two processes"},
    ),
    Chart(
        "## More workers, on more processors",
        "more-workers",
        "More workers, on more processors, by simulation",
        "million frames a second",
        "{workload}; workers: {workers}",
        {"a queue each": "a queue each", "without loss": "without loss", "one queue": "one queue"},
    ),
    Chart("## Few VDPs and many", "vdps", "What a frame takes", "ns", "{VDPs} VDPs by {VDPs told apart by}", {"ns a frame": "weir"}),
    Chart(
        "## Lookups alone",
        "lookups",
        "Lookups alone, whole traces, no flow cache",
        "million per CPU-second",
        "{set}",
        {"weir": "weir", "AVX-512": "rte_acl, AVX-512", "AVX2": "rte_acl, AVX2"},
    ),
)


def sections(page: str) -> list[str]:
    return [part for part in re.split(r"(?m)^(?=#{1,2} )", page) if part.strip()]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table(section: str) -> list[dict[str, str]]:
    """Its first table: of each row, what stands below each heading; of two of one name the first."""
    lines = section.split("\n")
    start = next((i for i, line in enumerate(lines) if line.startswith("|")), len(lines))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        row: dict[str, str] = {}
        for heading, cell in zip_longest(cells(lines[start]), cells(line), fillvalue=""):
            row.setdefault(heading, cell)
        rows.append(row)
    return rows


# A row's name, and of its bars what the table says.
Group = tuple[str, dict[str, str]]


def number(cell: str) -> float:
    return float(cell.replace(",", ""))


def shortened(cell: str) -> str:
    return cell if len(cell) <= LETTERS else cell[: LETTERS - 1].rstrip(" ,;") + "…"


def groups(chart: Chart, section: str) -> list[Group]:
    """The rows that have a bar: a cell without a figure is none, a column that is not there an error."""
    out = []
    for row in table(section):
        for heading in (*chart.bars, *re.findall(r"{(.*?)}", chart.name)):
            if heading not in row:
                sys.exit(f"plots.py: '{chart.section}' has no column '{heading}' any more: name it anew in CHARTS")
        bars = {shown: row.get(heading, "") for heading, shown in chart.bars.items()}
        drawn = {shown: cell for shown, cell in bars.items() if re.fullmatch(r"\d[\d,]*(\.\d+)?", cell)}
        if drawn:
            out.append((chart.name.format_map({heading: shortened(cell) for heading, cell in row.items()}), drawn))
    return out


def steps(most: float) -> list[float]:
    """Round marks from 0 to `most` or a little more."""
    power = 10.0 ** (len(f"{most:.0f}") - 1)
    step = next(s * power for s in (0.1, 0.2, 0.5, 1.0, 2.0) if most <= 8 * s * power)
    return [step * i for i in range(int(most / step) + 2)]


def text(x: float, y: float, said: str, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{INK}" text-anchor="{anchor}" font-size="{size}">{escape(said)}</text>\n'


def svg(chart: Chart, rows: list[Group], on: str) -> str:
    shown = [s for s in chart.bars.values() if any(s in bars for _, bars in rows)]
    marks = steps(max(number(cell) for _, bars in rows for cell in bars.values()))
    tall = len(shown) * BAR + GAP
    left = 24 + round(LETTER * max(len(name) for name, _ in rows))
    bottom, wide = TOP + len(rows) * tall + GAP, WIDTH - left - VALUES

    def at(value: float) -> float:
        return left + value / marks[-1] * wide

    height = bottom + AXIS
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    out = [
        f'{head} font-family="Helvetica, Arial, sans-serif"><title>{escape(chart.title)}</title>\n',
        '<rect width="100%" height="100%" fill="#ffffff"/>\n',
        text(14, 25, chart.title, size=16),
        text(14, 46, on),
    ]
    x = float(WIDTH - 14)
    colours = dict(zip(chart.bars.values(), COLOURS))
    for name in reversed(shown):
        out.append(text(x, 25, name, "end"))
        x -= 6.6 * len(name) + 16
        out.append(f'<rect x="{x:.1f}" y="15" width="11" height="11" fill="{colours[name]}"/>\n')
        x -= 14
    for mark in marks:
        out.append(f'<path d="M{at(mark):.1f} {TOP}V{bottom}" stroke="{GRID}"/>\n')
        out.append(text(at(mark), bottom + 16, f"{mark:g}", "middle"))
    out.append(text(left + wide / 2, bottom + 34, chart.unit, "middle"))
    for i, (name, bars) in enumerate(rows):
        top = TOP + GAP + i * tall
        out.append(text(left - 10, top + len(shown) * BAR / 2 + 4, name, "end"))
        for j, bar in enumerate(shown):
            if bar in bars:
                end, y = at(number(bars[bar])), top + j * BAR
                out.append(f'<rect x="{left}" y="{y}" width="{max(end - left, 1):.1f}" height="{BAR - 1}" fill="{colours[bar]}"/>\n')
                out.append(text(end + 5, y + BAR - 3, bars[bar], size=11))
    return "".join([*out, "</svg>\n"])


def machine(section: str) -> str:
    """What it was measured on, as `about` of main.py has it: processors, and the day."""
    found = re.search(r"(\d+ × .*), Linux .*; (\d{4}-\d\d-\d\d)\.", section)
    return f"{found[1]}; {found[2]}" if found else ""


def drawn(page: pathlib.Path) -> tuple[str, dict[pathlib.Path, str]]:
    """The page with its pictures in it, and these."""
    parts, files = [], {}
    for part in sections(page.read_text()):
        part = re.sub(r"(?m)^!\[.*\]\(plots/.*\)\n+", "", part)
        chart = next((c for c in CHARTS if part.startswith(c.section)), None)
        rows = groups(chart, part) if chart else []
        if chart and rows:
            name = f"{page.stem}-{chart.file}.svg"
            files[page.parent / "plots" / name] = svg(chart, rows, machine(part))
            part = re.sub(r"(?m)^(?=\|)", f"![{chart.title}: {chart.unit}](plots/{name})\n\n", part, count=1)
        parts.append(part)
    return "".join(parts), files


def draw(page: pathlib.Path) -> None:
    """Puts a page's pictures beside it, and into it."""
    said, files = drawn(page)
    for path, picture in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(picture)
    page.write_text(said)


def stale(page: pathlib.Path) -> list[str]:
    """What `draw` would change."""
    said, files = drawn(page)
    found = [path for path, picture in files.items() if not path.exists() or path.read_text() != picture]
    return [str(p.relative_to(DOCS.parent)) for p in ([page] if said != page.read_text() else []) + found]


def main() -> None:
    pages = sorted(DOCS.glob("performance*.md"))
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    if sys.argv[1:]:
        old = [name for page in pages for name in stale(page)]
        known = {path for page in pages for path in drawn(page)[1]}
        left = [str(path.relative_to(DOCS.parent)) for path in sorted((DOCS / "plots").glob("*.svg")) if path not in known]
        for name in old:
            print(f"{name} is not what its table says: python3 bench/peers/plots.py draws it anew")
        for name in left:
            print(f"{name} belongs to no page: remove it")
        sys.exit(1 if old or left else 0)
    for page in pages:
        draw(page)


if __name__ == "__main__":
    main()
