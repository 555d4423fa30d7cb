//! `weir top`: rates of a running data plane, refreshed on the terminal; one table after the other
//! in a pipe.
//!
//! Room: the client's side of the control socket.

use super::columns::Columns;
use super::say::{Reader, offer};
use super::stats::Stats;
use crate::fault::bad_input;
use crate::socket::client::Where;
use crate::socket::items::Count;
use crate::socket::protocol::Request;
use anyhow::Result;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Arguments of `weir top`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Show the rates of a running data plane, live",
    long_about = "Shows the rates of a running data plane's ports and VDPs, busiest VDPs first, \
                  and refreshes them until Ctrl-C. On a terminal it uses the whole screen and \
                  gives it back as it was, and says how many lines it has no room for; in a pipe it \
                  prints one table after the other, whole.",
    after_long_help = "Examples:\n  weir top\n  weir top --interval-ms 200\n  \
                       weir top --count 10 > rates.txt"
)]
pub struct Args {
    #[command(flatten)]
    to: Where,
    /// Time between two tables, 50 to 60000
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    interval_ms: u64,
    /// End after so many tables
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// The whole screen, until it is dropped.
pub(super) struct Screen;

impl Screen {
    /// Takes it, if there is one.
    pub(super) fn take() -> Option<Self> {
        if !std::io::stdout().is_terminal() {
            return None;
        }
        // The other screen, without a cursor.
        offer("\x1b[?1049h\x1b[?25l").ok().map(|_| Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone needs no mending.
        let _ = offer("\x1b[?25h\x1b[?1049l");
    }
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    if !(50..=60_000).contains(&args.interval_ms) {
        return Err(bad_input(format!("--interval-ms {}: 50 to 60000", args.interval_ms)));
    }
    let mut client = args.to.connect()?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let mut before = Stats::of(client.ask(&Request::Stats {})?.0);
    let screen = Screen::take();
    let mut shown = 0;
    while args.count.is_none_or(|n| shown < n) {
        if waited(&mut signals, Duration::from_millis(args.interval_ms)) == Ended::Yes {
            return Ok(());
        }
        let now = Stats::of(client.ask(&Request::Stats {})?.0);
        let text = table(&before, &now);
        let shown_text = match &screen {
            Some(_) => format!("\x1b[H\x1b[J{}", cut(&text)),
            None => format!("{text}\n"),
        };
        if offer(shown_text)? == Reader::Gone {
            return Ok(());
        }
        (before, shown) = (now, shown + 1);
    }
    Ok(())
}

/// Whether a signal has come.
#[derive(PartialEq, Eq)]
pub(super) enum Ended {
    Yes,
    No,
}

/// Waits, unless a signal says that it is enough.
pub(super) fn waited(signals: &mut Signals, time: Duration) -> Ended {
    let until = Instant::now() + time;
    loop {
        if signals.pending().next().is_some() {
            return Ended::Yes;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ended::No;
        }
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
}

/// As much as the terminal has room for.
pub(super) fn cut(text: &str) -> String {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    match size {
        Ok(s) if s.ws_row > 0 && s.ws_col > 0 => clip(text, s.ws_row.into(), s.ws_col.into()),
        // One that does not know its size is as large as an old one.
        _ => clip(text, 24, 80),
    }
}

/// As much of a text as so many lines of so many characters have room for, and how much that is not.
fn clip(text: &str, rows: usize, columns: usize) -> String {
    let all = text.lines().count();
    // Behind the last line stands the cursor, in one of its own.
    let room = rows.saturating_sub(1);
    let shown = if all <= room { all } else { room.saturating_sub(1) };
    let rest = (shown < all).then(|| format!("… {} lines more", all - shown));
    let line = |l: &str| l.chars().take(columns).chain(['\r', '\n']).collect::<String>();
    text.lines().take(shown).chain(rest.as_deref()).map(line).collect()
}

fn table(before: &Stats, now: &Stats) -> String {
    let ns = now.plane.at_ns.saturating_sub(before.plane.at_ns).max(1);
    let rate = |n: u64| (u128::from(n) * 1_000_000_000 / u128::from(ns)).to_string();
    let mbps = |bytes: u64| format!("{:.1}", bytes as f64 * 8e3 / ns as f64);
    let since = |n: Count, b: Option<Count>| {
        let b = b.unwrap_or_default();
        (n.frames.saturating_sub(b.frames), n.bytes.saturating_sub(b.bytes))
    };
    let f = &now.plane.frames;
    let mut out = format!(
        "weir: {} ports, {} VDPs, {} of {} frames free\n\n",
        now.ports.iter().filter(|p| p.number != 0).count(),
        now.vdps.len(),
        f.free,
        f.count
    );
    let heads = ["port", "state", "rx/s", "rx Mbit/s", "tx/s", "tx Mbit/s", "waiting"];
    let mut c = Columns::new(&heads);
    let old: HashMap<u16, _> = before.ports.iter().map(|p| (p.number, p)).collect();
    for p in now.ports.iter().filter(|p| p.number != 0) {
        let o = old.get(&p.number);
        let (rx, rx_bytes) = since(p.rx, o.map(|o| o.rx));
        let (tx, tx_bytes) = since(p.tx, o.map(|o| o.tx));
        c.row(vec![
            p.name.clone(),
            if p.up { "up" } else { "down" }.to_owned(),
            rate(rx),
            mbps(rx_bytes),
            rate(tx),
            mbps(tx_bytes),
            p.backlog.to_string(),
        ]);
    }
    out.push_str(&c.text());
    out.push('\n');
    let old: HashMap<u16, _> = before.vdps.iter().map(|v| (v.vid, v)).collect();
    let mut rows = Vec::new();
    for v in &now.vdps {
        let o = old.get(&v.vid);
        let (rx, rx_bytes) = since(v.received, o.map(|o| o.received));
        let (tx, _) = since(v.forwarded, o.map(|o| o.forwarded));
        let dropped = |v: &crate::socket::items::VdpItem| v.dropped.values().sum::<u64>();
        let lost = dropped(v).saturating_sub(o.map_or(0, |o| dropped(o)));
        let slow = v.slow.saturating_sub(o.map_or(0, |o| o.slow));
        let cells = vec![
            v.vid.to_string(),
            v.name.clone(),
            v.phase.clone(),
            rate(rx),
            mbps(rx_bytes),
            rate(tx),
            rate(lost),
            rate(slow),
            v.held.to_string(),
        ];
        rows.push((rx, cells));
    }
    rows.sort_by_key(|(rx, _)| std::cmp::Reverse(*rx));
    let heads = ["vdp", "name", "path", "rx/s", "rx Mbit/s", "tx/s", "dropped/s", "slow/s", "held"];
    let mut c = Columns::new(&heads);
    rows.into_iter().for_each(|(_, r)| c.row(r));
    out.push_str(&c.text());
    out
}

#[cfg(test)]
mod tests {
    use super::clip;

    #[test]
    fn a_screen_holds_what_it_has_room_for_and_tells_of_the_rest() {
        let text = "header\na\nb\nc\n";
        assert_eq!(clip(text, 5, 80), "header\r\na\r\nb\r\nc\r\n");
        assert_eq!(clip(text, 4, 80), "header\r\na\r\n… 2 lines more\r\n");
        // Lines that would go on in the next one are cut.
        assert_eq!(clip(text, 5, 3), "hea\r\na\r\nb\r\nc\r\n");
        for rows in 0..8 {
            assert!(clip(text, rows, 80).lines().count() < rows.max(2), "{rows} rows");
        }
    }
}
