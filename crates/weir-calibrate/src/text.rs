//! A calibration as a profile, in the format that `weir-estimate` reads.
//!
//! Room: text. What comes out is for the caller to read again before it is trusted.

use crate::Calibration;
use crate::bench::Costs;
use crate::levels::{Level, size};
use std::fmt::Write;

/// Buffers that a core's ports use in turn: what software takes, not what the machine has.
const BUFFERS: u32 = 1024;

/// The profile, by this name; `sources` say where it comes from.
pub fn profile(c: &Calibration, name: &str, sources: &[String]) -> String {
    let mut out = String::new();
    let quoted = |t: &str| format!("\"{}\"", t.replace('\\', "\\\\").replace('"', "'"));
    // Writing to a String can't fail.
    let _ = write_profile(&mut out, c, name, sources, &quoted);
    out
}

fn write_profile(
    out: &mut String,
    c: &Calibration,
    name: &str,
    sources: &[String],
    quoted: &dyn Fn(&str) -> String,
) -> std::fmt::Result {
    let m = &c.machine;
    let kind = if m.is_virtual { ", virtual" } else { "" };
    writeln!(out, "# Measured by 'weir calibrate'. Calibrate again instead of editing.\n")?;
    writeln!(out, "name = {}", quoted(name))?;
    let about = format!("{}, {} CPUs{kind}, as calibrated", m.model, m.cpus);
    writeln!(out, "about = {}", quoted(&about))?;
    writeln!(out, "source = [")?;
    for s in sources {
        writeln!(out, "    {},", quoted(s))?;
    }
    let seconds = c.time.as_secs_f64();
    let told = format!(
        "{} figures of {} samples in {seconds:.0} s; {} samples rejected; not narrow: {}",
        c.figures,
        c.samples.0,
        c.samples.1,
        c.wide.len()
    );
    writeln!(out, "    {},", quoted(&told))?;
    if !c.left_out.is_empty() {
        let names: Vec<&str> = c.left_out.iter().map(|(eo, _)| *eo).collect();
        let told = format!("not measured, since every sample was disturbed: {}", names.join(", "));
        writeln!(out, "    {},", quoted(&told))?;
    }
    writeln!(out, "]")?;
    writeln!(out, "calibrated_on = {}\n", quoted(&m.fingerprint))?;
    processor(out, c)?;
    for level in &c.levels.caches {
        cache(out, c, level, quoted)?;
    }
    memory(out, c, quoted)?;
    if let Some(s) = &c.sharing {
        let cycles = s.context_ns * c.clock_hz / 1e9;
        writeln!(out, "[contention]\ncontext_cycles = {cycles:.0}")?;
        writeln!(out, "timeslice = \"{:.3} ms\"\nprovenance = \"measured\"", s.timeslice_s * 1e3)?;
        writeln!(
            out,
            "source = \"two threads on one CPU: waking each other in turns; both at work, by the kernel's account\"\n"
        )?;
    }
    residence(out, c)?;
    curve(out, c)?;
    for cost in &c.costs {
        operation(out, cost, quoted)?;
    }
    Ok(())
}

fn processor(out: &mut String, c: &Calibration) -> std::fmt::Result {
    let counter =
        c.machine.counter_hz.map(|hz| format!("; the counter runs at {:.0} MHz", hz / 1e6));
    writeln!(out, "[processor]\nsockets = 1\ncores_per_socket = {}", c.machine.cpus)?;
    writeln!(out, "# By a chain of dependent instructions{}.", counter.unwrap_or_default())?;
    writeln!(out, "clock = \"{:.0} MHz\"", c.clock_hz / 1e6)?;
    writeln!(out, "line = \"{} B\"", c.machine.line_bytes())?;
    writeln!(out, "# Loads from main memory that one core has under way, by chains at once.")?;
    writeln!(out, "outstanding = {:.1}", c.levels.memory.outstanding)?;
    writeln!(out, "# Not the machine's but software's: two rings of 512 descriptors.")?;
    writeln!(out, "buffers = {BUFFERS}\n")
}

fn cache(
    out: &mut String,
    c: &Calibration,
    l: &Level,
    quoted: &dyn Fn(&str) -> String,
) -> std::fmt::Result {
    let shared =
        if l.cache.sharers > 1 && l.cache.sharers >= c.machine.cpus { "socket" } else { "core" };
    writeln!(out, "[[cache]]\nname = \"l{}\"", l.cache.level)?;
    writeln!(out, "size = \"{:.0} KiB\"", (l.bytes / 1024.0).max(1.0))?;
    writeln!(out, "ways = {}", l.cache.ways)?;
    writeln!(out, "latency_cycles = {:.1}", l.latency)?;
    writeln!(out, "bytes_per_cycle = {:.1}", l.bytes_per_cycle)?;
    writeln!(out, "outstanding = {:.1}", l.outstanding)?;
    writeln!(out, "shared = \"{shared}\"")?;
    let mut source = format!("huge pages, latency within {:.1} %", l.off * 100.0);
    if l.bytes < l.cache.bytes {
        source +=
            &format!("; the machine says {}: as much of it as acted as ours", size(l.cache.bytes));
    }
    writeln!(out, "source = {}\n", quoted(&source))
}

fn memory(out: &mut String, c: &Calibration, quoted: &dyn Fn(&str) -> String) -> std::fmt::Result {
    let m = &c.levels.memory;
    if let Some(t) = &c.levels.tlb {
        writeln!(out, "[tlb]\npage = \"4 KiB\"")?;
        writeln!(out, "reach = \"{:.0} KiB\"", t.reach / 1024.0)?;
        writeln!(out, "miss_cycles = {:.1}", t.miss_cycles)?;
        writeln!(
            out,
            "source = \"reach: a line in each of so many pages, less as many in a row; cost: latency over sizes\"\n"
        )?;
    }
    for (bytes, cycles) in &c.levels.strewn {
        writeln!(out, "[[strewn]]\nsize = \"{:.0} KiB\"\ncycles = {cycles:.1}\n", bytes / 1024.0)?;
    }
    // Channels can't be seen: one, as fast as all together.
    writeln!(out, "[memory]\nchannels = 1")?;
    writeln!(out, "rate = \"{:.0} MT/s\"\nbus = \"8 B\"", m.all / 8.0 / 1e6)?;
    writeln!(out, "latency = \"{:.1} ns\"", m.latency_ns)?;
    writeln!(out, "size = \"{:.0} MiB\"", (c.machine.memory_bytes / 1048576.0).max(1.0))?;
    let huge = if c.levels.huge { "huge pages" } else { "no huge pages came" };
    let source = format!(
        "latency fitted over sizes (the largest, {huge}, within {:.1} %); one core reads {:.1} GB/s, all together {:.1} GB/s, written as \
         one channel",
        m.off * 100.0,
        m.one / 1e9,
        m.all / 1e9
    );
    writeln!(out, "source = {}\n", quoted(&source))
}

fn residence(out: &mut String, c: &Calibration) -> std::fmt::Result {
    let Some(r) = &c.residence else { return Ok(()) };
    let load = r.load_ns * c.clock_hz / 1e9;
    writeln!(out, "# How long lines stay in the last cache, which others fill, too.\n[residence]")?;
    writeln!(out, "load_cycles = {load:.1}")?;
    if let Some(last) = c.machine.caches.last() {
        writeln!(out, "size = \"{:.0} KiB\"", last.bytes / 1024.0)?;
    }
    writeln!(
        out,
        "source = \"frames beyond a core's own caches, copied over and over with computing after each burst\"\n"
    )?;
    for (after, part) in &r.taken {
        writeln!(
            out,
            "[[residence.taken]]\nafter = \"{:.3} ms\"\npart = {part:.3}\n",
            after * 1e3
        )?;
    }
    Ok(())
}

fn curve(out: &mut String, c: &Calibration) -> std::fmt::Result {
    writeln!(out, "# Latency of loads spread over so much, in ns: huge pages, pages of 4 KiB.")?;
    for s in &c.levels.curve {
        let (huge, small) = (s.huge.ns.value, s.small.ns.value);
        writeln!(out, "#   {:>10}  {huge:>7.2}  {small:>7.2}", size(s.bytes))?;
    }
    writeln!(out)
}

fn operation(out: &mut String, c: &Costs, quoted: &dyn Fn(&str) -> String) -> std::fmt::Result {
    writeln!(out, "[eo.{}]\ncycles = {}", c.eo, quoted(&c.cycles))?;
    if let Some(a) = &c.accesses {
        writeln!(out, "accesses = {}", quoted(a))?;
    }
    if !c.coefficients.is_empty() {
        let one = |(n, v): &(String, f64)| format!("{n} = {v:.3}");
        let all: Vec<String> = c.coefficients.iter().map(one).collect();
        writeln!(out, "coefficients = {{ {} }}", all.join(", "))?;
    }
    if let Some(p) = c.parallel {
        writeln!(out, "parallel = {p:.1}")?;
    }
    if let Some(b) = c.beyond {
        let (from, to) = (b.from, b.to);
        writeln!(
            out,
            "beyond = {{ from = {from:.1}, to = {to:.1}, parallel = {:.1} }}",
            b.parallel
        )?;
    }
    writeln!(out, "error = {:.3}", c.error)?;
    writeln!(out, "provenance = \"{}\"", if c.measured { "measured" } else { "assumed" })?;
    writeln!(out, "source = {}\n", quoted(&c.about))
}
