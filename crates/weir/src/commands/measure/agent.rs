//! The switch's SNMP agent, as it was given: by its address, or by a file.
//!
//! Room: one file, the environment, and the agent's socket while it is asked who it is. A community or a
//! password never stands on the command line, which every user of the machine can read and which results
//! repeat; nor in what is printed.

use crate::config::error::toml_says;
use crate::fault::{self, bad_input};
use anyhow::{Result, anyhow};
use std::path::Path;
use std::time::Duration;
use weir_measure::engine::sampling::{Periodic, Sampler};
use weir_measure::snmp::{Access, Client, Poller, Target, Vendors};

/// Where the community is, when only an address is given.
const COMMUNITY: &str = "WEIR_SNMP_COMMUNITY";
/// Between two readings.
const INTERVAL: Duration = Duration::from_secs(1);
/// For one answer; how often.
const WAIT: Duration = Duration::from_secs(1);
const TRIES: u32 = 3;
/// The longest file, in bytes.
const LONGEST: u64 = 64 * 1024;

/// A reader of that agent, which has said who it is.
pub fn sampler(given: &str) -> Result<Box<dyn Sampler>> {
    let target = target(given)?;
    let vendors = Vendors::ours()?;
    let of = format!("the switch, by SNMP from {}", target.address);
    let client = Client::new(target, WAIT, TRIES);
    let poller = Poller::begin(client, &vendors, &[]).map_err(|e| anyhow!("--snmp: {e}"))?;
    let of = format!("{of} ({})", poller.vendor);
    Ok(Box::new(Periodic::new(poller, of, INTERVAL)))
}

fn target(given: &str) -> Result<Target> {
    let bad = |e: &dyn std::fmt::Display| bad_input(format!("--snmp {given}: {e}"));
    if Path::new(given).extension().is_some_and(|e| e == "toml") {
        let read = |e: std::io::Error| fault::file(format_args!("--snmp {given}"), &e);
        let size = std::fs::metadata(given).map_err(read)?.len();
        if size > LONGEST {
            return Err(bad(&format!("longer than {LONGEST} bytes")));
        }
        let text = std::fs::read_to_string(given).map_err(read)?;
        // Only what is wrong and where: the whole message would repeat the line, with its password.
        return toml::from_str(&text).map_err(|e: toml::de::Error| {
            let before = e.span().and_then(|s| text.get(..s.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            // serde repeats a value of a wrong type, which may be a password without quotes.
            let what = match e.message() {
                m if m.starts_with("invalid type") => {
                    "a value of another type than it must have".to_owned()
                }
                _ => toml_says(&text, &e),
            };
            bad(&format!("line {line}: {what}"))
        });
    }
    if given.contains('@') {
        return Err(bad_input(format!(
            "--snmp: a community doesn't belong on the command line: put it into {COMMUNITY}, or into a file: '--snmp FILE.toml'"
        )));
    }
    let mut target: Target = given.parse().map_err(|e| bad(&e))?;
    if let Ok(community) = std::env::var(COMMUNITY) {
        target.access = Access::Community(community);
    }
    Ok(target)
}
