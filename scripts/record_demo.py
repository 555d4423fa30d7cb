#!/usr/bin/env python3
"""Records a run of `weir demo` on a terminal as a picture: docs/demo.svg.

usage: scripts/record_demo.py [--weir PROGRAM] [--out FILE] [-- ARGUMENTS]

Runs `weir demo ARGUMENTS` on a pseudo-terminal, keeps what it printed and when, and draws it. In a
browser the lines appear one after the other, in the order and with the pauses of the run, a long
pause shortened; whoever asks for less motion, or looks with a program that does not animate, sees the
last screen. Nothing is edited: other numbers need another run. Python's standard library only.
"""

import argparse
import codecs
import os
import pty
import re
import select
import sys
import time
from html import escape

COLUMNS, ROWS = 104, 60
CELL, LINE, SIZE = 8.4, 19, 14
MARGIN, BAR = 18, 38
LONGEST_PAUSE = 1.2
COLOURS = {
    "back": "#10151c", "bar": "#1a212b", "text": "#d5dbe3", "faint": "#7d8896", "strong": "#ffffff",
    31: "#ff7b72", 32: "#56d364", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#56d4dd",
}
EIGHTHS = {c: (i + 1) / 8 for i, c in enumerate("▏▎▍▌▋▊▉█")}
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"


def run(command):
    """What `command` printed on a terminal: (seconds since the beginning, text), and its status."""
    child, fd = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(ROWS))
        os.environ.pop("NO_COLOR", None)
        try:
            os.execvp(command[0], command)
        except OSError as e:
            print(f"record_demo: {command[0]}: {e.strerror}", file=sys.stderr)
            os._exit(127)
    begin, parts = time.monotonic(), []
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    while True:
        select.select([fd], [], [])
        try:
            data = os.read(fd, 65536)
        except OSError:
            data = b""  # Linux says EIO when the other end is closed.
        if not data:
            break
        parts.append((time.monotonic() - begin, decode(data)))
    _, status = os.waitpid(child, 0)
    return parts, os.waitstatus_to_exitcode(status)


class Screen:
    """Lines of cells; understands what programs that only print need: SGR, CR, LF, erase line."""

    def __init__(self):
        self.lines, self.times, self.column = [[]], [None], 0
        self.style, self.pending = frozenset(), ""

    def feed(self, at, text):
        text, self.pending = self.pending + text, ""
        i = 0
        while i < len(text):
            c = text[i]
            if c == "\x1b":
                end = next((j for j in range(i + 2, len(text)) if text[j].isalpha()), None)
                if end is None:
                    self.pending = text[i:]
                    return
                self.escape(text[i + 2:end], text[end])
                i = end + 1
                continue
            i += 1
            if c == "\n":
                self.lines.append([])
                self.times.append(None)
                self.column = 0
            elif c == "\r":
                self.column = 0
            else:
                line = self.lines[-1]
                line.extend([(" ", frozenset())] * (self.column + 1 - len(line)))
                line[self.column] = (c, self.style)
                self.column += 1
                self.times[-1] = at

    def escape(self, parameters, final):
        if final == "K":
            del self.lines[-1][self.column:]
        elif final == "m":
            for p in parameters.split(";"):
                n = int(p or 0)
                self.style = frozenset() if n == 0 else self.style | {n}


def colour(style):
    for n in style:
        if n in COLOURS:
            return COLOURS[n]
    return COLOURS["faint" if 2 in style else "strong" if 1 in style else "text"]


def runs(line):
    """(column, text, style) of neighbours of one style; blocks that are drawn stand alone."""
    out = []
    for column, (c, style) in enumerate(line):
        block = c in EIGHTHS
        if out and out[-1][2] == style and out[-1][3] == block:
            out[-1][1] += c
        else:
            out.append([column, c, style, block])
    return [(a, b, c, d) for a, b, c, d in out if b.strip()]


def number(x):
    return f"{x:.2f}".rstrip("0").rstrip(".")


def draw_line(line, y):
    out = []
    for column, text, style, block in runs(line):
        x = MARGIN + column * CELL
        fill = colour(style)
        if block:
            width = sum(EIGHTHS[c] for c in text) * CELL
            fill = COLOURS[36] if fill == COLOURS["text"] else fill
            out.append(f'<rect x="{number(x)}" y="{y - 10}" width="{number(width)}" height="11" '
                       f'rx="1.5" fill="{fill}"/>')
            continue
        weight = ' font-weight="600"' if 1 in style else ""
        # Words apart from each other stand for themselves: not every viewer keeps wide gaps.
        for m in re.finditer(r"\S+(?: \S+)*", text):
            word = m.group()
            out.append(f'<text x="{number(x + m.start() * CELL)}" y="{y}" '
                       f'textLength="{number(len(word) * CELL)}" fill="{fill}"{weight}>'
                       f'{escape(word)}</text>')
    return "".join(out)


def pauses(times):
    """When each line shall appear: as it did, but without long pauses."""
    shown, last, now = [], 0.0, 0.0
    for t in times:
        if t is not None:
            now += min(max(t - last, 0.03), LONGEST_PAUSE)
            last = t
        shown.append(now)
    return shown


def draw(screen, title):
    lines, times = screen.lines, screen.times
    while lines and not any(c.strip() for c, _ in lines[-1]):
        lines.pop()
        times.pop()
    # The first line is the command itself.
    prompt = [("$", frozenset({32})), (" ", frozenset())] + [(c, frozenset({1})) for c in title]
    lines, times = [prompt] + lines, [0.0] + times
    columns = max(len(line) for line in lines)
    width = 2 * MARGIN + columns * CELL
    height = BAR + MARGIN + LINE * len(lines) + 6
    body = []
    for i, (line, at) in enumerate(zip(lines, pauses(times))):
        cells = draw_line(line, BAR + MARGIN + LINE * i + 4)
        if cells:
            body.append(f'<g style="animation-delay:{number(at)}s">{cells}</g>')
    dots = "".join(f'<circle cx="{20 + 20 * i}" cy="{BAR / 2}" r="6" fill="{c}"/>'
                   for i, c in enumerate(("#ff5f57", "#febc2e", "#28c840")))
    w, h = number(width), number(height)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" \
viewBox="0 0 {w} {h}" role="img" aria-label="{escape(title)}: a run on a terminal">
<style>
text{{font-family:{FONT};font-size:{SIZE}px;white-space:pre}}
@keyframes show{{from{{opacity:0}}to{{opacity:1}}}}
@media (prefers-reduced-motion:no-preference){{g{{animation:show .15s ease-out both}}}}
</style>
<rect width="{w}" height="{h}" rx="10" fill="{COLOURS['back']}"/>
<path d="M0 {BAR}V10a10 10 0 0 1 10-10H{number(width - 10)}a10 10 0 0 1 10 10V{BAR}z" \
fill="{COLOURS['bar']}"/>
{dots}
<text x="{number(width / 2)}" y="{BAR / 2 + 5}" text-anchor="middle" \
fill="{COLOURS['faint']}">{escape(title)}</text>
{chr(10).join(body)}
</svg>
"""


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--weir", default="target/release/weir", help="the program")
    p.add_argument("--out", default="docs/demo.svg", help="the picture")
    p.add_argument("arguments", nargs="*", help="for weir demo")
    a = p.parse_args()
    parts, status = run([a.weir, "demo", *a.arguments])
    if status != 0:
        sys.stdout.write("".join(text for _, text in parts))
        sys.exit(f"record_demo: weir demo ended with status {status}: nothing written")
    screen = Screen()
    for at, text in parts:
        screen.feed(at, text)
    with open(a.out, "w", encoding="utf-8") as f:
        f.write(draw(screen, " ".join(["weir demo", *a.arguments])))
    print(f"{a.out}: {len(screen.lines)} lines")


if __name__ == "__main__":
    main()
