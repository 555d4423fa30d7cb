//! A frame's way, told to people.

use super::change::{ByteChange, FieldChange};
use super::told::{Program, Rule, TellStep, Told};
use crate::commands::style::{Style, Verdict};
use weir_packet::DropReason;

/// Columns that the first word of a line takes.
const INDENT: usize = 10;
/// Columns of a line.
const WIDTH: usize = 100;

/// Why NORMAL drops a frame where nothing forwards as a plain switch would.
const NO_PROGRAM: &str = "NORMAL is the VDP's program, and it has none: program = \"learning\" (here --program learning) is one";

/// All of it.
pub fn show(s: Style, t: &Told) -> String {
    let mut out = Page { style: s, text: String::new(), asks: None };
    out.line("frame", &format!("{} bytes, in by port {}", t.bytes, t.in_port));
    let mut ends = Vec::new();
    for step in &t.steps {
        out.step(step, &mut ends);
    }
    if let Some(text) = &t.shortcut {
        out.line("shortcut", text);
    }
    if let Some(p) = &t.program {
        out.program(p, &mut ends);
    }
    for (sent, text) in ends {
        let verdict = s.verdict(Verdict::of(sent), text);
        out.line("result", &verdict);
    }
    out.text
}

struct Page {
    style: Style,
    text: String,
    /// What the frame went to the software stage for, where it did last.
    asks: Option<&'static str>,
}

/// An end of the way: whether a frame got on by it, and in words.
type End = (bool, String);

impl Page {
    fn line(&mut self, word: &str, text: &str) {
        let word = format!("{word:<INDENT$}");
        self.text += &format!("{}{text}\n", self.style.head(word));
    }
    /// A list with commas, over as many lines as it needs.
    fn list(&mut self, word: &str, items: &str) {
        let mut row = String::new();
        let mut word = word;
        for item in items.split_inclusive(',') {
            if !row.is_empty() && INDENT + row.len() + item.len() > WIDTH {
                self.line(word, &row);
                (word, row) = ("", String::new());
            }
            row += item;
        }
        self.line(word, &row);
    }
    fn more(&mut self, text: &str) {
        self.text += &format!("{:INDENT$}{text}\n", "");
    }
    fn faint(&mut self, text: &str) {
        let text = self.style.faint(text);
        self.more(&text);
    }
    fn rule(&mut self, r: &Rule) {
        let matcher = if r.matcher.is_empty() { "every frame" } else { &r.matcher };
        self.more(&format!("priority={} {matcher}", r.priority));
        if let Some(a) = &r.actions {
            self.more(&format!("actions={}", self.style.strong(a)));
        }
    }
    fn step(&mut self, s: &TellStep, ends: &mut Vec<End>) {
        match s {
            TellStep::Mapping { key, vid, vdp, rule } => {
                self.list("key", key);
                let name = self.style.strong(format_args!("{vid} ({vdp})"));
                match rule {
                    Some(r) => {
                        self.line("VDP", &format!("{name}, by the mapping rule"));
                        self.rule(r);
                    }
                    None => self.line("VDP", &format!("{name}: no mapping rule takes it")),
                }
            }
            TellStep::Path { path } => self.line("path", path),
            TellStep::Table { table, rule } => {
                let word = format!("table {table}");
                match rule {
                    Some(r) => {
                        self.line(&word, "the rule that wins:");
                        self.rule(r);
                    }
                    None => self.line(&word, "no rule matches"),
                }
            }
            TellStep::Default { does } => {
                self.line("default", &format!("the VDP's default rule: {does}"));
            }
            TellStep::Change { actions, fields, bytes } => self.change(actions, fields, bytes),
            TellStep::Meter { id, verdict } => self.line("meter", &format!("{id}: {verdict}")),
            TellStep::Group { id, buckets } => self.line("group", &format!("{id}: {buckets}")),
            TellStep::Software { why: asked } => {
                let why = match *asked {
                    "normal" => "NORMAL: forward as a plain switch would",
                    "action" => "the rule sends it there",
                    _ => "by the default rule",
                };
                self.asks = Some(*asked);
                self.line("software", why);
            }
            TellStep::Program { name, .. } => {
                self.line("program", &format!("'{name}' gets it"));
            }
            TellStep::Consumed { .. } => {
                ends.push((true, "at its destination: the VDP's controllers or stack".to_owned()));
            }
            TellStep::Output { port, bytes, queue, refused, .. } => {
                let queue = if *queue > 0 { format!(", queue {queue}") } else { String::new() };
                self.line("output", &format!("port {port}, {bytes} bytes{queue}"));
                ends.push(match refused {
                    None => (true, format!("forwarded by port {port}")),
                    Some(why) => (false, format!("dropped at port {port}: {}", reason(why))),
                });
            }
            TellStep::Held => ends.push((true, "held until the VDP has moved".to_owned())),
            TellStep::Dropped { reason: why } => {
                let why = match self.asks {
                    Some("normal") if *why == DropReason::Miss.label() => NO_PROGRAM.to_owned(),
                    _ => reason(why),
                };
                ends.push((false, format!("dropped: {why}")));
            }
        }
    }
    fn change(&mut self, actions: &str, fields: &[FieldChange], bytes: &[ByteChange]) {
        self.line("change", if actions.is_empty() { "in the bucket" } else { actions });
        let width = fields.iter().map(|f| f.field.len()).max().unwrap_or(0);
        for f in fields {
            let value = |v: &Option<String>| v.clone().unwrap_or_else(|| "none".to_owned());
            let (before, after) = (value(&f.before), value(&f.after));
            self.more(&format!("  {:<width$}  {before} → {after}", f.field));
        }
        for b in bytes {
            let n = b.before.len().max(b.after.len()).div_ceil(3);
            let at = if n == 1 {
                format!("byte {}", b.at)
            } else {
                format!("bytes {} to {}", b.at, b.at + n - 1)
            };
            let change = match (b.before.as_str(), b.after.as_str()) {
                ("", after) => format!("  at {} put in: {after}", b.at),
                (before, "") => format!("  {at} taken out: {before}"),
                (before, after) => format!("  {at}: {before} → {after}"),
            };
            self.faint(&change);
        }
        if fields.is_empty() && bytes.is_empty() {
            self.faint("  no byte of the frame changes");
        }
    }
    fn program(&mut self, p: &Program, ends: &mut Vec<End>) {
        for f in &p.sent {
            self.line("sent", &format!("port {}, {} bytes", f.port, f.bytes));
            let fields = f.fields.iter().map(|c| {
                let v = |v: &Option<String>| v.clone().unwrap_or_else(|| "none".to_owned());
                format!("  {}  {} → {}", c.field, v(&c.before), v(&c.after))
            });
            fields.collect::<Vec<_>>().iter().for_each(|l| self.more(l));
            ends.push((true, format!("sent by the program, port {}", f.port)));
        }
        if p.consumed > 0 {
            ends.push((true, "at its destination: the program".to_owned()));
        }
        if p.held > 0 {
            ends.push((true, "held by the program".to_owned()));
        }
        for (why, n) in &p.dropped {
            let times = if *n > 1 { format!("{n} times ") } else { String::new() };
            ends.push((false, format!("dropped {times}by the program: {}", reason(why))));
        }
    }
}

/// A reason's label with what it means.
fn reason(label: &str) -> String {
    let found = DropReason::ALL.iter().find(|r| r.label() == label);
    let meaning = match found {
        Some(DropReason::Runt) => "shorter than an Ethernet header",
        Some(DropReason::Malformed) => "a header's lengths contradict the frame",
        Some(DropReason::Action) => "the rule says so, or has no port left to send by",
        Some(DropReason::Miss) => "no rule, and nothing behind the rules",
        Some(DropReason::TooDeep) => "too many tables or nested groups",
        Some(DropReason::TtlExpired) => "the TTL or hop limit is used up",
        Some(DropReason::NoSuchHeader) => "an action needs a header that it has not",
        Some(DropReason::NoRoom) => "no room in the frame for another header",
        Some(DropReason::Meter) => "beyond the meter's rate",
        Some(DropReason::GroupEmpty) => "the group has no bucket that can be used",
        Some(DropReason::NoSuchPort) => "the port is not there",
        Some(DropReason::PortDown) => "the port is down",
        Some(DropReason::FrameTooLong) => "longer than the port takes",
        Some(DropReason::Program) => "the program's own decision",
        Some(DropReason::Unreachable) => "no route, or no neighbour that answers",
        Some(DropReason::Congestion) => {
            "marked as congested on its way through the tunnel, which its sender would not understand"
        }
        Some(DropReason::VdpGone) => "its VDP is being deleted",
        _ => return label.to_owned(),
    };
    format!("{label} ({meaning})")
}
