//! `weir net verify`: proof that no network reaches another.
//!
//! Room: the client's side of the control socket; `crate::verify` answers on the other.

use crate::commands::say::put;
use crate::environment::Envelope;
use crate::fault::bad_input;
use crate::socket::client::Where;
use crate::socket::protocol::{Item, Request};
use crate::verify::{LeakItem, MOST_LEAKS, VerifiedItem};
use anyhow::{Result, bail};
use serde::Serialize;
use std::fmt::Write;

/// Arguments of `weir net verify`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Prove that no network reaches another",
    long_about = "Decides, from the rules as installed in a running data plane, whether a frame of \
                  one network can reach another's port, rule, counter or controller. Exactly: every \
                  frame is considered, none is sampled. A leak comes with the rule that does it, \
                  the frames that show it and, where one can be made, a frame for 'weir trace'. \
                  Networks are those of 'weir apply' and 'weir net'; any other VDP is \
                  a network of its own, unless --network puts several into one.",
    after_long_help = "Examples:\n  \
                       weir net verify\n  \
                       weir net verify --network red=1,2 --network blue=3\n  \
                       weir net verify --json | jq '.result.leaks[].frame'\n\n\
                       Exit status: 0 isolated; 1 a leak, or not decided; 2 nothing was proved: the arguments are wrong, or \
                       no data plane answers."
)]
pub struct Args {
    #[command(flatten)]
    to: Where,
    /// VDPs, by number or name, that are one network; several times for several networks
    #[arg(long, value_name = "NAME=VDP,…")]
    network: Vec<String>,
    /// Leaks that are told at most
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20,
        value_parser = clap::value_parser!(u16).range(1..=MOST_LEAKS as i64)
    )]
    leaks: u16,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Verified {
    #[serde(flatten)]
    done: VerifiedItem,
    leaks: Vec<LeakItem>,
}

/// Runs it.
pub fn run(a: &Args) -> Result<()> {
    let networks = a.network.iter().map(|n| network(n)).collect::<Result<_>>()?;
    let leaks = usize::from(a.leaks);
    // Who was not answered knows as little as who asked wrongly; 1 says that it is not so.
    let asked = Request::Verify { networks, leaks, after: Vec::new() };
    let (items, _) = a.to.ask(&asked).map_err(bad_input)?;
    let (mut leaks, mut done) = (Vec::new(), None);
    for i in items {
        match i {
            Item::Leak(l) => leaks.push(*l),
            Item::Verified(v) => done = Some(*v),
            _ => {}
        }
    }
    let done = done.ok_or_else(|| bad_input("the data plane's answer has no end: is it older?"))?;
    let isolated = done.isolated;
    let (n, undecided) = (leaks.len() + done.more, done.undecided.len());
    let verified = Verified { done, leaks };
    if a.json {
        put(format!(
            "{}\n",
            serde_json::to_string_pretty(&Envelope::new("net-verify", verified))?
        ))?;
    } else {
        put(words(&verified))?;
    }
    match (isolated, n) {
        (true, _) => Ok(()),
        (false, 0) => bail!("not decided for {undecided} VDPs: their rules took too much work"),
        (false, 1) => bail!("not isolated: 1 leak"),
        (false, n) => bail!("not isolated: {n} leaks"),
    }
}

/// `NAME=VDP,VDP`.
fn network(text: &str) -> Result<(String, Vec<String>)> {
    let wrong =
        || bad_input(format!("--network {text}: write NAME=VDP,VDP, as in --network red=1,2"));
    let (name, vdps) = text.split_once('=').ok_or_else(wrong)?;
    let vdps: Vec<String> = vdps.split(',').map(|v| v.trim().to_owned()).collect();
    if name.is_empty() || vdps.iter().any(String::is_empty) {
        return Err(wrong());
    }
    Ok((name.to_owned(), vdps))
}

fn words(v: &Verified) -> String {
    let mut out = String::new();
    for (i, l) in v.leaks.iter().enumerate() {
        // A text takes what is written to it.
        let _ = leak(&mut out, i + 1, l);
    }
    let d = &v.done;
    let size = format!("{} networks, {} VDPs, {} rules", d.networks, d.vdps, d.rules);
    out.push_str(&match d.isolated {
        true => format!("isolated: {size}; no frame of one network reaches another\n"),
        false => format!("looked at: {size}\n"),
    });
    match d.more {
        0 => {}
        1 => out.push_str("1 more leak is not told: --leaks N tells more\n"),
        n => out.push_str(&format!("{n} more leaks are not told: --leaks N tells more\n")),
    }
    for u in &d.undecided {
        out.push_str(&format!("not decided: VDP {u}: its rules took too much work\n"));
    }
    for n in &d.notes {
        out.push_str(&format!("note: {n}\n"));
    }
    out
}

fn leak(out: &mut String, n: usize, l: &LeakItem) -> std::fmt::Result {
    let to = match &l.to {
        Some(to) if l.kind == "claim" => {
            writeln!(
                out,
                "leak {n}: frames of network {} are claimed by network {to}, too, with equal priority: chance decides",
                l.from
            )?;
            return rest(out, l);
        }
        Some(to) => format!("{} of network {to}", l.reaches),
        None => format!("{}, outside of its own part of it", l.reaches),
    };
    let may = if l.may() { "may " } else { "" };
    writeln!(out, "leak {n}: frames of network {} {may}reach {to}", l.from)?;
    rest(out, l)
}

/// What does it, and which frames show it.
fn rest(out: &mut String, l: &LeakItem) -> std::fmt::Result {
    writeln!(out, "  by      {}: {}", l.vdp, l.by)?;
    writeln!(out, "  in      port {}", l.in_port)?;
    writeln!(out, "  frames  {}", l.frames)?;
    if let Some(leaves) = &l.leaves {
        writeln!(out, "  leave   {leaves}")?;
    }
    match l.sure.as_str() {
        "content" => writeln!(out, "  sure    it hangs on bytes behind the header, too")?,
        "may" => writeln!(out, "  sure    it may: it hangs on what rules do not say")?,
        _ => {}
    }
    let Some(frame) = &l.frame else { return writeln!(out) };
    writeln!(out, "  frame   {frame}")?;
    if let Some(traced) = l.traced {
        let says = if traced { "goes that way" } else { "does not go that way now" };
        writeln!(out, "  trace   in the running data plane it {says}")?;
    }
    writeln!(out, "          weir trace CONFIG.toml --in-port {} --frame {frame}\n", l.in_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaks_that_are_not_told_are_counted() {
        let said = |more| {
            words(&Verified {
                done: VerifiedItem { more, ..VerifiedItem::default() },
                leaks: vec![],
            })
        };
        assert!(!said(0).contains("not told"), "{}", said(0));
        assert!(said(1).contains("1 more leak is not told"), "{}", said(1));
        assert!(said(2).contains("2 more leaks are not told"), "{}", said(2));
    }

    fn of(sure: &str) -> LeakItem {
        LeakItem {
            from: "red".to_owned(),
            to: Some("blue".to_owned()),
            kind: "port".to_owned(),
            reaches: "port e1".to_owned(),
            vdp: "red.s1".to_owned(),
            by: "the program 'learning'".to_owned(),
            by_rule: true,
            in_port: "e2".to_owned(),
            frames: String::new(),
            leaves: None,
            sure: sure.to_owned(),
            frame: None,
            traced: None,
            there_before: false,
        }
    }

    #[test]
    fn a_claim_is_told_as_one() {
        let (kind, reaches) = ("claim".to_owned(), "frames claimed with equal priority".to_owned());
        let mut out = String::new();
        leak(&mut out, 1, &LeakItem { kind, reaches, ..of("frame") }).unwrap();
        let first = out.lines().next().unwrap();
        assert_eq!(
            first,
            "leak 1: frames of network red are claimed by network blue, too, with equal priority: chance decides"
        );
        assert!(out.contains("  by      red.s1: "), "{out}");
    }

    #[test]
    fn what_hangs_on_a_program_may_be() {
        for (sure, says) in [("frame", "red reach port e1"), ("may", "red may reach port e1")] {
            let mut out = String::new();
            leak(&mut out, 1, &of(sure)).unwrap();
            assert!(out.contains(says), "{out}");
        }
    }
}
