
"use strict";
// Draws the page's pictures from the data in it, sorts its tables, offers its data. What comes from
// the data is set as text and attributes, never as markup.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const COLOURS = 8;
  const DASHES = ["", "7 4", "2 3", "9 3 2 3", "4 2", "12 4"];
  const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "plus"];

  const make = (name, attributes, ...children) => {
    const e = document.createElement(name);
    for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
    e.append(...children);
    return e;
  };
  const draw = (name, attributes, text) => {
    const e = document.createElementNS(SVG, name);
    for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const colour = (s) => `var(--c${s.colour % COLOURS})`;
  const dash = (s) => (s.published ? "1 4" : DASHES[s.mark % DASHES.length]);

  // ---- Numbers -------------------------------------------------------------------------------

  const number = (v) => {
    if (v === 0) return "0";
    const size = Math.abs(v);
    if (size >= 1e15 || size < 1e-4) return v.toExponential(2);
    const rounded = size >= 1000 ? Math.round(v) : Number(v.toPrecision(4));
    return rounded.toLocaleString("en-US", { maximumFractionDigits: 10 });
  };
  const quantity = (v, axis) => (axis.unit ? `${number(v)} ${axis.unit}` : number(v));
  const title = (axis) => (axis.unit ? `${axis.label} (${axis.unit})` : axis.label);

  // ---- Scales: a value's place between 0 and 1, and where ticks stand -------------------------

  // Not by spreading into Math.min: a figure may have more points than a call takes arguments.
  const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
  const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
  const steps = (from, to, count) => {
    const raw = (to - from) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
    const ticks = [];
    for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9 && ticks.length < 50; i++) {
      ticks.push({ at: Number((i * step).toPrecision(12)) });
    }
    return ticks;
  };
  const linear = (values, fromZero, count) => {
    let from = least(values), to = most(values);
    if (fromZero && from > 0) from = 0;
    if (fromZero && to < 0) to = 0;
    if (from === to) { from -= Math.abs(from) / 2 || 1; to += Math.abs(to) / 2 || 1; }
    const room = (to - from) * 0.04;
    if (!(fromZero && from === 0)) from -= room;
    if (!(fromZero && to === 0)) to += room;
    return { place: (v) => (v - from) / (to - from), ticks: steps(from, to, count), fits: () => true };
  };
  const log = (values, count) => {
    const fits = (v) => v > 0;
    const positive = values.filter(fits);
    if (!positive.length) return null;
    let from = Math.log10(least(positive)), to = Math.log10(most(positive));
    const room = Math.max((to - from) * 0.04, 0.05);
    from -= room; to += room;
    const ticks = [], decades = to - from;
    const apart = Math.max(1, Math.ceil(decades / count));
    for (let d = Math.floor(from); d <= to; d++) {
      for (const m of [1, 2, 3, 4, 5, 6, 7, 8, 9]) {
        const at = m * 10 ** d, place = Math.log10(at);
        if (place < from || place > to) continue;
        const named = m === 1 ? d % apart === 0 : decades < 1.2 ? m % 2 === 0 || m === 5 : decades < 2.6 && (m === 2 || m === 5);
        if (named || decades < 5) ticks.push({ at, minor: m !== 1, silent: !named });
      }
    }
    return { place: (v) => (Math.log10(v) - from) / (to - from), ticks, fits };
  };
  // Percent p at -log10(1 - p/100): 90, 99, 99.9 are equally far apart. 100 stands behind the last.
  const percentile = (values) => {
    const inner = values.filter((v) => v < 100);
    const last = -Math.log10(1 - Math.max(50, most(inner)) / 100);
    const end = last + 0.35;
    const place = (v) => (v >= 100 ? 1 : Math.min(-Math.log10(1 - v / 100), end) / end);
    const ticks = [0, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999].filter((v) => place(v) < 0.93);
    return { place, ticks: [...ticks, 100].map((at) => ({ at, text: at === 100 ? "max" : String(at) })), fits: () => true };
  };
  const things = (names) => ({
    place: (v) => (v + 0.5) / names.length, ticks: names.map((text, at) => ({ at, text })), fits: () => true,
  });
  const scale = (kind, values, fromZero, count) =>
    kind === "percentile" ? percentile(values)
      : (kind === "log" && log(values, count)) || linear(values, fromZero, count);

  // ---- Marks ---------------------------------------------------------------------------------

  const marker = (s, x, y, r) => {
    const shape = SHAPES[s.mark % SHAPES.length];
    const paint = s.published || shape === "cross" || shape === "plus"
      ? { fill: "var(--paper)", stroke: colour(s), "stroke-width": 1.6 } : { fill: colour(s) };
    const path = {
      square: `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
      triangle: `M${x} ${y - r * 1.2}l${r * 1.15} ${r * 2}h${-r * 2.3}z`,
      diamond: `M${x} ${y - r * 1.35}l${r * 1.35} ${r * 1.35}l${-r * 1.35} ${r * 1.35}l${-r * 1.35} ${-r * 1.35}z`,
      cross: `M${x - r} ${y - r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}`,
      plus: `M${x - r * 1.2} ${y}h${2.4 * r}m${-1.2 * r} ${-1.2 * r}v${2.4 * r}`,
    }[shape];
    return path ? draw("path", { d: path, ...paint }) : draw("circle", { cx: x, cy: y, r, ...paint });
  };
  const swatch = (s) => {
    const svg = draw("svg", { viewBox: "0 0 30 12", "aria-hidden": "true" });
    svg.append(draw("line", { x1: 0, y1: 6, x2: 30, y2: 6, stroke: colour(s), "stroke-width": 1.8, "stroke-dasharray": dash(s) }));
    svg.append(marker(s, 15, 6, 3.4));
    return svg;
  };

  // ---- A picture -----------------------------------------------------------------------------

  const picture = (figure) => {
    const plot = JSON.parse(figure.querySelector(".plot-data").textContent);
    const chart = figure.querySelector(".chart");
    const shown = plot.series.map(() => true);
    const kinds = { x: plot.x.scale, y: plot.y.scale };
    const canvas = make("div"), note = make("p", { class: "note" });
    const tip = make("div", { class: "tip", hidden: "" });
    const live = make("span", { class: "hidden", "aria-live": "polite" });
    const legend = make("div", { class: "legend", role: "group", "aria-label": "Curves" });
    const tools = make("div", { class: "tools" });
    chart.append(legend, canvas, tip, note, tools, live);
    let spots = [], chosen = null, overlay = null, frame = null;

    plot.series.forEach((s, i) => {
      const missing = s.points.filter((p) => p[1] === null).length;
      const words = [s.name];
      if (s.published) words.push(`(published, ${s.published})`);
      if (missing) words.push(`(${missing} not measured)`);
      const b = make("button", { type: "button", "aria-pressed": "true" }, swatch(s), make("span", {}, words.join(" ")));
      b.addEventListener("click", () => {
        shown[i] = !shown[i];
        b.setAttribute("aria-pressed", String(shown[i]));
        paint();
      });
      legend.append(b);
    });
    for (const which of ["x", "y"]) {
      if (kinds[which] === "percentile" || plot[which].names) continue;
      const b = make("button", { type: "button" });
      const say = () => {
        b.setAttribute("aria-pressed", String(kinds[which] === "log"));
        b.textContent = `log ${which}`;
        b.title = `${plot[which].label}: logarithmic`;
      };
      b.addEventListener("click", () => {
        kinds[which] = kinds[which] === "log" ? "linear" : "log";
        say();
        paint();
      });
      say();
      tools.append(b);
    }

    const describe = (at) => {
      const [x, y, lo, hi] = at.point, lines = [at.series.name];
      lines.push(kinds.x === "percentile" && x >= 100 ? "largest" : `${plot.x.label}: ${plot.x.names ? plot.x.names[x] : quantity(x, plot.x)}`);
      lines.push(`${kinds.x === "percentile" ? "value" : plot.y.label}: ${quantity(y, plot.y)}`);
      if (lo !== null && hi !== null) lines.push(`${at.series.spread || "spread"}: ${number(lo)} to ${quantity(hi, plot.y)}`);
      if (at.series.published) lines.push(`published, ${at.series.published}`);
      return lines.join("\n");
    };
    const point = (at) => {
      chosen = at;
      overlay.replaceChildren();
      tip.hidden = !at;
      if (!at) return;
      overlay.append(
        draw("line", { class: "cross", x1: at.x, x2: at.x, y1: frame.top, y2: frame.bottom }),
        draw("line", { class: "cross", x1: frame.left, x2: frame.right, y1: at.y, y2: at.y }),
        draw("circle", { class: "focus", cx: at.x, cy: at.y, r: 7 }),
      );
      tip.textContent = describe(at);
      const left = at.x + 14 + tip.offsetWidth < frame.width ? at.x + 14 : Math.max(0, at.x - 14 - tip.offsetWidth);
      tip.style.left = `${left}px`;
      tip.style.top = `${canvas.offsetTop + Math.max(0, at.y - tip.offsetHeight - 10)}px`;
    };
    const nearest = (x, y) => {
      let best = null, least = 40 * 40;
      for (const s of spots) {
        const d = (s.x - x) ** 2 + (s.y - y) ** 2;
        if (d < least) { least = d; best = s; }
      }
      return best;
    };
    const walk = (event) => {
      const keys = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      if (event.key === "Escape") { point(null); return; }
      const move = keys[event.key];
      if (!move || !spots.length) return;
      event.preventDefault();
      const now = chosen || spots[0];
      let next = now;
      if (!chosen) next = now;
      else if (move[1]) {
        const own = spots.filter((s) => s.series === now.series);
        next = own[Math.min(own.length - 1, Math.max(0, own.indexOf(now) + move[1]))];
      } else {
        const all = [...new Set(spots.map((s) => s.series))];
        const series = all[(all.indexOf(now.series) + move[0] + all.length) % all.length];
        const own = spots.filter((s) => s.series === series);
        next = own.reduce((a, b) => (Math.abs(b.x - now.x) < Math.abs(a.x - now.x) ? b : a));
      }
      point(next);
      live.textContent = describe(next).replaceAll("\n", ", ");
    };

    const paint = (forced) => {
      const width = Math.max(260, Math.floor(forced || chart.clientWidth || 700));
      const height = Math.round(Math.min(420, Math.max(250, width * 0.5)));
      const visible = plot.series.filter((_, i) => shown[i]);
      const points = visible.flatMap((s) => s.points.filter((p) => p[0] !== null && p[1] !== null));
      const xs = points.map((p) => p[0]);
      const ys = points.flatMap((p) => [p[1], p[2], p[3]]).filter((v) => v !== null);
      const svg = draw("svg", {
        viewBox: `0 0 ${width} ${height}`, height, class: "hit", tabindex: "0", role: "group",
        "aria-roledescription": "plot",
        "aria-label": `${plot.title}: ${title(plot.y)} by ${title(plot.x)}. Arrow keys read the points; the values are a table below.`,
      });
      spots = [];
      chosen = null;
      tip.hidden = true;
      overlay = draw("g", { "aria-hidden": "true" });
      if (!points.length) {
        svg.append(draw("text", { x: width / 2, y: height / 2, "text-anchor": "middle" },
          plot.series.length && !visible.length ? "every curve is switched off" : "nothing was measured"));
        frame = { left: 0, right: width, top: 0, bottom: height, width };
        svg.append(overlay);
        canvas.replaceChildren(svg);
        return;
      }
      const y = scale(kinds.y, ys, true, Math.floor(height / 48));
      const tickText = (t) => t.text || number(t.at);
      const widest = Math.max(...y.ticks.filter((t) => !t.silent).map((t) => tickText(t).length), 1);
      const names = plot.x.names;
      frame = { left: Math.max(widest * 7 + 14, names ? 62 : 0), right: width - 14, top: 28, bottom: height - (names ? 106 : 46), width };
      const x = names ? things(names) : scale(kinds.x, xs, false, Math.floor((frame.right - frame.left) / 90));
      const px = (v) => frame.left + x.place(v) * (frame.right - frame.left);
      const py = (v) => frame.bottom - y.place(v) * (frame.bottom - frame.top);
      for (const t of x.ticks) {
        svg.append(draw("line", { class: t.minor ? "grid minor" : "grid", x1: px(t.at), x2: px(t.at), y1: frame.top, y2: frame.bottom }));
      }
      let until = -Infinity;
      for (const t of x.ticks.filter((t) => !t.silent)) {
        if (names) {
          const at = { x: px(t.at), y: frame.bottom + 15 };
          svg.append(draw("text", { ...at, "text-anchor": "end", transform: `rotate(-35 ${at.x} ${at.y})` }, t.text));
          continue;
        }
        const text = tickText(t), half = text.length * 3.6;
        if (px(t.at) - half < until + 6) continue;
        until = px(t.at) + half;
        svg.append(draw("text", { x: px(t.at), y: frame.bottom + 17, "text-anchor": "middle" }, text));
      }
      for (const t of y.ticks) {
        svg.append(draw("line", { class: t.minor ? "grid minor" : "grid", x1: frame.left, x2: frame.right, y1: py(t.at), y2: py(t.at) }));
        if (!t.silent) svg.append(draw("text", { x: frame.left - 7, y: py(t.at) + 4, "text-anchor": "end" }, tickText(t)));
      }
      svg.append(draw("path", { class: "frame", d: `M${frame.left} ${frame.top}V${frame.bottom}H${frame.right}` }));
      const middle = (frame.left + frame.right) / 2;
      const across = plot.x.scale === "percentile" ? "percent of the values that are not above" : title(plot.x);
      svg.append(draw("text", { class: "axis", x: middle, y: height - 8, "text-anchor": "middle" }, across));
      svg.append(draw("text", { class: "axis", x: 2, y: 13 }, title(plot.y)));

      let left = 0;
      visible.forEach((s, n) => {
        // Curves of things stand beside each other, and are not joined.
        const beside = names ? (n - (visible.length - 1) / 2) * Math.min(7, (frame.right - frame.left) / names.length / (visible.length + 1)) : 0;
        const px = (v) => frame.left + x.place(v) * (frame.right - frame.left) + beside;
        const fits = (p) => x.fits(p[0]) && y.fits(p[1]);
        const runs = [[]];
        for (const p of s.points) {
          if (p[0] !== null && p[1] !== null && fits(p)) runs[runs.length - 1].push(p);
          else {
            if (p[1] !== null) left += 1;
            if (runs[runs.length - 1].length) runs.push([]);
          }
        }
        const all = runs.flat();
        const spread = all.filter((p) => p[2] !== null && p[3] !== null && y.fits(p[2]) && y.fits(p[3]));
        if (spread.length > 12 && !names) {
          const up = spread.map((p) => `${px(p[0])} ${py(p[3])}`), down = spread.map((p) => `${px(p[0])} ${py(p[2])}`).reverse();
          svg.append(draw("path", { class: "band", fill: colour(s), d: `M${[...up, ...down].join("L")}z` }));
        } else {
          for (const p of spread) {
            const d = `M${px(p[0]) - 3} ${py(p[2])}h6M${px(p[0]) - 3} ${py(p[3])}h6M${px(p[0])} ${py(p[2])}V${py(p[3])}`;
            svg.append(draw("path", { class: "bar", stroke: colour(s), d }));
          }
        }
        for (const run of runs.filter((r) => r.length > 1 && !names)) {
          const d = run.map((p, i) => `${i ? "L" : "M"}${px(p[0]).toFixed(1)} ${py(p[1]).toFixed(1)}`).join("");
          svg.append(draw("path", { class: "curve", stroke: colour(s), "stroke-dasharray": dash(s), d }));
        }
        const few = all.length <= 60;
        for (const p of all) {
          spots.push({ x: px(p[0]), y: py(p[1]), series: s, point: p });
          if (few) svg.append(marker(s, px(p[0]), py(p[1]), 3.4));
        }
      });
      note.textContent = left ? `${left} ${left > 1 ? "values" : "value"} at or below zero not drawn: the axis is logarithmic.` : "";
      svg.append(overlay);
      svg.addEventListener("pointermove", (e) => {
        const box = svg.getBoundingClientRect();
        point(nearest((e.clientX - box.left) * width / box.width, (e.clientY - box.top) * height / box.height));
      });
      svg.addEventListener("pointerleave", () => point(null));
      svg.addEventListener("blur", () => point(null));
      svg.addEventListener("keydown", walk);
      canvas.replaceChildren(svg);
    };

    let drawn = 0;
    const fit = () => {
      if (chart.clientWidth && chart.clientWidth !== drawn) {
        drawn = chart.clientWidth;
        paint();
      }
    };
    paint();
    drawn = chart.clientWidth;
    new ResizeObserver(() => requestAnimationFrame(fit)).observe(chart);
    return paint;
  };

  // ---- Tables: sorted by a column, saved as CSV -----------------------------------------------

  const offer = (name, type, text) => {
    const url = URL.createObjectURL(new Blob([text], { type }));
    const a = make("a", { href: url, download: name });
    document.body.append(a);
    a.click();
    a.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };
  const table = (t) => {
    const body = t.tBodies[0], rows = [...body.rows];
    const value = (row, i) => {
      const cell = row.cells[i];
      return !cell ? "" : cell.dataset.v !== undefined ? cell.dataset.v : cell.textContent;
    };
    [...t.tHead.rows[0].cells].forEach((head, i) => {
      const b = make("button", { type: "button" }, ...head.childNodes);
      b.title = "sort by this column";
      head.append(b);
      b.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const h of t.tHead.rows[0].cells) h.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => {
          const v = value(row, i), n = v === "" ? NaN : Number(v);
          return Number.isNaN(n) ? v : n;
        };
        const order = (a, b) => {
          const [p, q] = [key(a), key(b)];
          if (typeof p !== typeof q) return typeof p === "number" ? -1 : 1;
          const way = typeof p === "number" ? p - q : p.localeCompare(q);
          return down ? -way : way;
        };
        body.append(...rows.toSorted(order));
      });
    });
    const b = make("button", { type: "button" }, "Save as CSV");
    b.addEventListener("click", () => {
      const quote = (v) => (/[",\r\n]/.test(v) ? `"${v.replaceAll('"', '""')}"` : v);
      const lines = [[...t.tHead.rows[0].cells].map((h) => quote(h.textContent)).join(",")];
      for (const row of body.rows) lines.push([...row.cells].map((_, i) => quote(value(row, i))).join(","));
      offer(`${t.dataset.name || "table"}.csv`, "text/csv", `${lines.join("\r\n")}\r\n`);
    });
    t.parentElement.after(make("p", { class: "tools" }, b));
  };

  // ---- The documents and their samples --------------------------------------------------------

  const downloads = (p) => {
    for (const data of document.querySelectorAll("script.document, script.samples")) {
      if (data.dataset.document !== p.dataset.document) continue;
      const name = data.dataset.name, text = data.textContent;
      if (!text) {
        p.append(make("span", { class: "marked" }, `samples not in this page: ${name}, beside the document`));
        continue;
      }
      const what = data.classList.contains("document") ? "Save the document" : "Save samples";
      const b = make("button", { type: "button" }, `${what}: ${name}`);
      b.addEventListener("click", () => offer(name, data.type, text));
      p.append(b);
    }
  };

  const painters = [...document.querySelectorAll("figure.plot")].map(picture);
  document.querySelectorAll("table.data").forEach(table);
  document.querySelectorAll("p.downloads").forEach(downloads);
  const printed = window.matchMedia("print");
  const toPaper = () => {
    for (const d of document.querySelectorAll("details[data-print]")) d.open = true;
    for (const paint of painters) paint(680);
  };
  printed.addEventListener("change", (e) => (e.matches ? toPaper() : painters.forEach((paint) => paint())));
  window.addEventListener("beforeprint", toPaper);
  window.addEventListener("afterprint", () => painters.forEach((paint) => paint()));
  document.documentElement.dataset.ready = String(painters.length);
})();
