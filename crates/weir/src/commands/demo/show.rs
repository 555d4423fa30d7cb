//! The demo's tables, for people.

use super::report::{
    CaptureFacts, Fate, Forwarding, Growth, Measuring, Moving, Networks, Predicting, Report,
    Shared, Step, VdpReport,
};
use crate::commands::style::{Style, Verdict};
use crate::environment::VERSION;
use std::path::Path;

/// The beginning.
pub fn opening(s: &Style, c: &CaptureFacts) -> String {
    format!(
        "\n{} {}\n{} frames of real traffic ({:.0} kB, HTTP to VXLAN) between {} hosts, each on a \
         port of its own.\n",
        s.strong("weir"),
        s.faint(VERSION),
        c.frames,
        c.bytes as f64 / 1e3,
        c.ports,
    )
}

fn heading(s: &Style, n: u32, text: &str) -> String {
    format!("\n{}\n", s.head(format_args!("{n}  {text}")))
}

/// A table: first line is the head; columns whose head begins with '<' are left-aligned.
fn table(s: &Style, rows: &[Vec<String>]) -> String {
    let Some(head) = rows.first() else { return String::new() };
    let left: Vec<bool> = head.iter().map(|h| h.starts_with('<')).collect();
    let text = |c: &str, row: usize| if row == 0 { c.replace('<', "") } else { c.to_owned() };
    let width = |i: usize| {
        let cells = rows.iter().enumerate().filter_map(|(n, r)| Some(text(r.get(i)?, n)));
        cells.map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    for (n, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let (cell, w) = (text(cell, n), widths.get(i).copied().unwrap_or(0));
            line += "  ";
            line += &if left.get(i) == Some(&true) {
                format!("{cell:<w$}")
            } else {
                format!("{cell:>w$}")
            };
        }
        let line = line.trim_end();
        out += " ";
        out += &if n == 0 { s.faint(line) } else { line.to_owned() };
        out += "\n";
    }
    out
}

fn cells(of: &[&str]) -> Vec<String> {
    of.iter().map(|c| (*c).to_owned()).collect()
}

/// The capture through both paths.
pub fn forwarding(s: &Style, f: &Forwarding) -> String {
    let mut out =
        heading(s, 1, "Four virtual data planes share one data plane; the capture by both paths");
    let mut rows = vec![cells(&[
        "<VDP",
        "<mapped by",
        "rules",
        "frames in",
        "by software",
        "copies",
        "out",
        "<  dropped",
    ])];
    rows.extend(f.vdps.iter().map(vdp));
    out += &table(s, &rows);
    out += &s.faint("   by software: frames through the software stage, on the fast / slow path\n");
    out
}

fn vdp(v: &VdpReport) -> Vec<String> {
    let program = v.program.map_or_else(String::new, |p| format!(" + {p}"));
    vec![
        format!("{} {}", v.vid, v.name),
        v.mapped_by.to_owned(),
        format!("{}{program}", v.rules.len()),
        v.fast.received.to_string(),
        format!("{} / {}", v.fast.through_software, v.slow.through_software),
        v.fast.cloned.to_string(),
        v.fast.forwarded.to_string(),
        format!("  {}", dropped(&v.fast)),
    ]
}

fn dropped(f: &Fate) -> String {
    if f.dropped.is_empty() {
        return "none".to_owned();
    }
    let reasons: Vec<_> = f.dropped.iter().map(|(why, n)| format!("{n} {why}")).collect();
    reasons.join(", ")
}

/// Networks with a controller each.
pub fn networks(s: &Style, n: &Networks) -> String {
    let mut out =
        heading(s, 2, "Four networks with the same addresses, an OpenFlow controller each");
    let mut rows = vec![cells(&[
        "<VDP",
        "<controller",
        "<OpenFlow",
        "hosts",
        "pings answered",
        "first",
        "second",
        "flows",
    ])];
    rows.extend(n.networks.iter().map(|n| {
        vec![
            format!("{} net{}", n.vid, n.vid),
            n.controller.clone(),
            n.version.clone(),
            n.hosts.to_string(),
            format!("{} of {}", n.answered, n.pings),
            micros(n.first_us),
            micros(n.later_us),
            n.flows.to_string(),
        ]
    }));
    out += &table(s, &rows);
    let text = format!(
        "   {}; each host pings each of its network twice\n   questions that nobody could answer \
         were heard at {} ports of their own network and {} of the others\n",
        n.controllers, n.heard_at_home, n.strange_frames
    );
    out + &s.faint(&text)
}

/// Networks by a LAB file.
pub fn shared(s: &Style, x: &Shared) -> String {
    let title = "Two tenants and a guest by 'weir apply labs/demo.toml'; the guest attacks";
    let mut out = heading(s, 3, title);
    let moves: f64 = x.moves_ms.iter().sum();
    out += &format!(
        "   {} networks made in {}; proved isolated {} times, in at most {}\n",
        x.networks.len(),
        micros(x.applied_ms * 1e3),
        x.proofs.iter().filter(|p| p.isolated).count(),
        micros(x.proofs.iter().map(|p| p.decided_us).max().unwrap_or(0) as f64),
    );
    out += &format!(
        "   guest: {} frames as fast as they are taken, {} more under a tenant's tag, of which {} got through\n",
        s.strong(grouped(x.flooded)),
        s.strong(grouped(x.spoofed)),
        s.strong(x.strange),
    );
    let moved = "blue moved to the slow path and back meanwhile, then the guest was deleted";
    out += &format!("   {moved} ({})\n", micros(moves * 1e3));
    let mut rows = vec![cells(&["<tenant", "frames sent", "arrived", "lost", "twice or late"])];
    rows.extend(x.tenants.iter().map(|t| {
        let numbers = [t.sent, t.arrived].map(grouped);
        let [sent, arrived] = numbers;
        vec![t.network.clone(), sent, arrived, t.lost.to_string(), t.again.to_string()]
    }));
    out + &table(s, &rows)
}

/// VDPs that moved.
pub fn moving(s: &Style, m: &Moving) -> String {
    let mut out = heading(s, 4, "A VDP moves between the paths while it carries traffic");
    out += &format!(
        "   {} round trips in {:.1} s, four VDPs in turn, {} flows at full rate ({:.1} million \
         frames/s)\n   {} frames sent, {} of them by software\n",
        s.strong(m.round_trips),
        m.seconds,
        m.flows,
        m.mpps,
        s.strong(grouped(m.sent)),
        grouped(m.through_software),
    );
    out += &format!(
        "   lost {}, duplicated {}, out of order {}\n",
        s.strong(m.lost),
        s.strong(m.duplicated),
        s.strong(m.reordered),
    );
    out += &format!(
        "   channel drained in {} (median), {} at the longest; at most {} frames held meanwhile\n",
        micros(m.drain_median_us),
        micros(m.drain_longest_us),
        m.most_held,
    );
    out
}

/// From few VDPs to many.
pub fn growth(s: &Style, g: &Growth) -> String {
    let title = format!(
        "From {} to {} VDPs with {} rules each, the load in all unchanged",
        g.steps.first().map_or(0, |x| x.vdps),
        g.steps.last().map_or(0, |x| x.vdps),
        g.rules_per_vdp
    );
    let mut out = heading(s, 5, &title);
    let top = g.steps.iter().map(|x| x.mpps_per_cpu_s).fold(0.0, f64::max);
    let mut rows = vec![cells(&[
        "VDPs",
        "rules",
        "created in",
        "tables",
        "process",
        "Mframes/CPU-s",
        "<",
        "ns/frame",
    ])];
    rows.extend(g.steps.iter().map(|x| {
        vec![
            x.vdps.to_string(),
            x.rules.to_string(),
            micros(x.created_ms * 1e3),
            format!("{:.1} MiB", x.tables_mib),
            x.resident_mib.map_or_else(|| "?".to_owned(), |m| format!("{m:.0} MiB")),
            format!("{:.1}", x.mpps_per_cpu_s),
            bar(x.mpps_per_cpu_s / top),
            format!("{:.1}", x.ns_per_frame),
        ]
    }));
    out += &table(s, &rows);
    out += &s.faint(format_args!(
        "   {}-byte frames from memory, one worker, its source included; median of {} runs of {:.0} \
         ms\n",
        g.frame_bytes,
        g.runs,
        g.run_seconds * 1e3
    ));
    out += &tcam(s, g);
    out
}

fn tcam(s: &Style, g: &Growth) -> String {
    let mut out = heading(s, 6, "The TCAM as a budget: what a lookup wakes of it");
    let mut rows = vec![cells(&[
        "VDPs",
        "mapping entries",
        "action entries",
        "blocks in use",
        "a lookup wakes",
        "<",
        "of all",
    ])];
    rows.extend(g.steps.iter().map(|x: &Step| {
        let t = &x.tcam;
        let share = t.woken_mean / f64::from(t.blocks.max(1));
        vec![
            x.vdps.to_string(),
            format!("{} of {}", t.mapping_entries[0], t.mapping_entries[1]),
            format!("{} of {}", t.action_entries[0], t.action_entries[1]),
            format!("{} of {}", t.blocks_in_use, t.blocks),
            format!("{:.1} blocks", t.woken_mean),
            bar(share),
            format!("{:.1} %", 100.0 * share),
        ]
    }));
    out += &table(s, &rows);
    out += &s.faint("   a TCAM without slices wakes every block for every frame\n");
    out
}

/// Two switches beside each other.
pub fn measuring(s: &Style, m: &Measuring) -> String {
    let mut out =
        heading(s, 7, "Two OpenFlow switches measured: this data plane, and one with faults");
    let other = m.all.iter().find(|x| x.device != m.embedded).map_or("", |x| &x.device);
    let mut rows = vec![vec![
        "<module".to_owned(),
        "<statement".to_owned(),
        format!("<{}", m.embedded),
        format!("<{other}"),
    ]];
    let outcome = |module: &str, device: &str, verdict: &str| {
        let of = m.all.iter().find(|x| x.module == module && x.device == device)?;
        of.verdicts.iter().find(|v| v.verdict == verdict).map(|v| v.outcome)
    };
    for x in m.all.iter().filter(|x| x.device == m.embedded) {
        for v in &x.verdicts {
            let other = outcome(&x.module, other, &v.verdict).unwrap_or("-");
            rows.push(cells(&[&x.module, &v.verdict, v.outcome, other]));
        }
    }
    out += &table(s, &rows);
    let failing = m.all.iter().filter(|x| x.device == other).flat_map(|x| &x.verdicts);
    for v in failing.filter(|v| v.outcome == "fails") {
        out += &wrapped(&v.sentence);
    }
    out += &s.faint(format_args!(
        "   001 table 2 and figure 3 in short, in {:.1} s; nothing was told to the instrument\n",
        m.seconds
    ));
    out
}

/// What was predicted, and what came of it.
pub fn predicting(s: &Style, p: &Predicting) -> String {
    let mut out = heading(s, 8, "Two network functions: predicted, then measured");
    let head = ["<function", "entries", "frame", "predicted", "measured", "error"];
    let mut rows = vec![cells(&head)];
    for f in &p.functions {
        rows.push(vec![
            f.function.to_owned(),
            f.entries.to_string(),
            format!("{} B", f.frame_bytes),
            format!("{:.2} M/s", f.predicted_mfps),
            format!("{:.2} M/s", f.measured_mfps),
            format!("{:+.0} %", f.error * 100.0),
        ]);
    }
    out += &table(s, &rows);
    out += &s.faint(format_args!(
        "   frames per CPU-second; by a calibration of {:.1} s that ran neither function\n",
        p.calibration_seconds
    ));
    out
}

/// A sentence below a table, in lines that a terminal has room for.
fn wrapped(sentence: &str) -> String {
    const WIDTH: usize = 92;
    let (mut out, mut column) = (String::new(), 0);
    for word in sentence.split_whitespace() {
        let wide = word.chars().count();
        if out.is_empty() || column + 1 + wide > WIDTH {
            let begin = if out.is_empty() { "   – " } else { "\n     " };
            out += begin;
            column = 5;
        } else {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += wide;
    }
    out + "\n"
}

/// The end: what was to be shown, what was measured, whether it holds.
pub fn summary(s: &Style, r: &Report) -> String {
    let (f, m) = (&r.forwarding, &r.moving);
    let balanced = f.imbalances.is_empty()
        && m.imbalance.is_none()
        && r.shared.imbalance.is_none()
        && r.growth.steps.iter().all(|x| x.imbalance.is_none());
    let clean = m.lost + m.duplicated + m.reordered + m.damaged == 0;
    let played: u64 = r.growth.steps.iter().map(|x| x.received).sum();
    let seen = 2 * f.compared as u64 + m.sent + played;
    let same = f.different.is_empty();
    let apart = r.networks.strange_frames + r.networks.strange_answers == 0
        && r.networks.networks.iter().all(|n| n.answered == n.pings);
    let routed = f.routed == f.routed_as_kernel;
    let delivered = r.growth.steps.iter().all(|x| x.received == x.forwarded);
    let measured = r.measuring.missed.is_empty() && r.measuring.broken.is_empty();
    let lines = [
        (balanced, "conservation", format!("each of {} frames accounted for once", grouped(seen))),
        (
            same,
            "fast = slow path",
            if same {
                format!("{0} of {0} frames: same output, byte for byte", f.compared)
            } else {
                format!("frames {:?} differ", f.different)
            },
        ),
        (
            routed,
            "routing",
            format!(
                "{} of {} routed frames as the Linux kernel's router sent them",
                f.routed_as_kernel, f.routed
            ),
        ),
        (
            apart,
            "four controllers",
            format!(
                "{} of {} pings answered inside networks; {} frames came into another",
                r.networks.networks.iter().map(|n| n.answered).sum::<usize>(),
                r.networks.networks.iter().map(|n| n.pings).sum::<usize>(),
                r.networks.strange_frames
            ),
        ),
        (
            untouched(&r.shared),
            "one attacked",
            format!(
                "{} frames of two tenants beside {} of an attacker: {} lost; isolation proved",
                grouped(r.shared.tenants.iter().map(|t| t.sent).sum()),
                grouped(r.shared.flooded + r.shared.spoofed),
                r.shared.tenants.iter().map(|t| t.lost + t.again).sum::<u64>()
            ),
        ),
        (
            clean,
            "moving under load",
            format!(
                "{} moves and back: {} lost, {} duplicated, {} out of order",
                m.round_trips, m.lost, m.duplicated, m.reordered
            ),
        ),
        (
            delivered,
            "many VDPs",
            match (r.growth.steps.first(), r.growth.steps.last()) {
                (Some(a), Some(b)) => format!(
                    "{} VDPs cost {:+.1} ns a frame beside {}; made in {}",
                    b.vdps,
                    b.ns_per_frame - a.ns_per_frame,
                    a.vdps,
                    micros(b.created_ms * 1e3)
                ),
                _ => String::new(),
            },
        ),
        (
            measured,
            "two switches",
            format!(
                "{} of {} configured faults named; {} promises of this one broken",
                r.measuring.named,
                r.measuring.faults,
                r.measuring.broken.len()
            ),
        ),
    ];
    let mut out = format!("\n{}\n", s.head("Report"));
    for (holds, what, found) in lines {
        let what = s.verdict(Verdict::of(holds), format_args!("{what:<18}"));
        out += &format!("   {what} {found}\n");
    }
    let well = if r.failures.is_empty() { "All of it holds" } else { "Not all of it holds" };
    out + &format!("\n   {} ({:.1} s).\n", s.strong(well), r.seconds)
}

/// Whether the tenants noticed nothing, and were proved apart.
fn untouched(x: &Shared) -> bool {
    x.strange == 0
        && x.imbalance.is_none()
        && x.proofs.iter().all(|p| p.isolated)
        && x.tenants.iter().all(|t| t.lost + t.again == 0)
}

/// Where the page is.
pub fn page(s: &Style, path: &Path) -> String {
    format!("   The measurements as a page: {}\n", s.strong(path.display()))
}

/// Where the files are.
pub fn written(s: &Style, dir: &Path) -> String {
    let files = "demo.json, fast.pcapng, slow.pcapng";
    format!("   {}\n", s.faint(format_args!("written to {}: {files}", dir.display())))
}

fn bar(share: f64) -> String {
    const WIDTH: f64 = 20.0;
    let eighths = (share.clamp(0.0, 1.0) * WIDTH * 8.0).round() as usize;
    let part = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let mut out = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        out.push(part[eighths % 8]);
    }
    out
}

fn micros(us: f64) -> String {
    match us {
        x if x < 1e3 => format!("{x:.0} µs"),
        x if x < 1e6 => format!("{:.1} ms", x / 1e3),
        x => format!("{:.2} s", x / 1e6),
    }
}

/// Digits in groups of three, a thin space between.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(d);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!([grouped(7), grouped(1234), grouped(1_000_000)], ["7", "1 234", "1 000 000"]);
        assert_eq!([micros(12.4), micros(1500.0), micros(2.5e6)], ["12 µs", "1.5 ms", "2.50 s"]);
        assert_eq!(wrapped("two words"), "   – two words\n");
        assert!(wrapped(&"word ".repeat(60)).lines().all(|l| l.chars().count() <= 92));
        assert_eq!([bar(0.0), bar(0.5), bar(1.0 / 160.0)], ["", &"█".repeat(10), "▏"]);
    }
}
