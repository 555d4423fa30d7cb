//! `l2-basic`: an Ethernet switch with a static table (002 §3.1.1): one rule a destination MAC address.

use super::{At, Function, Job, Oracle};
use anyhow::Result;
use std::fmt::Write;

/// The switch.
pub struct L2Basic;

/// An entry's MAC address.
fn mac(entry: u32) -> [u8; 6] {
    let [_, b, c, d] = entry.to_be_bytes();
    [2, 0, 0, b, c, d]
}

fn rules(entries: u32) -> String {
    let mut text = String::new();
    for e in 0..entries {
        let [_, _, _, b, c, d] = mac(e);
        let _ = writeln!(text, "dl_dst=02:00:00:{b:02x}:{c:02x}:{d:02x},actions=output:2");
    }
    text
}

impl Function for L2Basic {
    fn name(&self) -> &'static str {
        "l2-basic"
    }
    fn about(&self) -> &'static str {
        "Ethernet switch with a static table"
    }
    fn paper_entries(&self) -> u32 {
        2_097_152
    }
    fn most_entries(&self) -> u32 {
        1 << 24
    }
    fn job(&self, entries: u32) -> Result<Job> {
        Job::rules(&rules(entries), &[1, 2])
    }
    fn frame(&self, _: u32, _: u32, entry: u32, len: usize) -> At {
        let mut bytes = mac(entry).to_vec();
        bytes.extend([2, 1, 0, 0, 0, 1, 0x88, 0xb5]);
        bytes.resize(len, 0);
        At { port: 1, bytes }
    }
    fn oracle(&self, entries: u32) -> Oracle {
        Box::new(move |_, input| {
            let known = (0..entries).any(|e| input.bytes.starts_with(&mac(e)));
            if known { vec![At { port: 2, ..input.clone() }] } else { Vec::new() }
        })
    }
    fn ovs(&self, entries: u32) -> Option<String> {
        Some(rules(entries))
    }
}
