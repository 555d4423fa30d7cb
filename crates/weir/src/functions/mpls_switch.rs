//! `mpls-switch`: swaps one label (002 §3.1.3): one rule a label, which also counts the TTL down.

use super::{At, Function, Job, Oracle};
use anyhow::Result;
use std::fmt::Write;

/// The switch.
pub struct MplsSwitch;

/// The first label that is not reserved (RFC 3032 §2.1).
const FIRST: u32 = 16;

/// The label that an entry's label becomes.
fn swapped(entry: u32) -> u32 {
    600_000 + entry % 1000
}

fn rules(entries: u32) -> String {
    let mut text = String::new();
    for e in 0..entries {
        let (label, new) = (FIRST + e, swapped(e));
        let _ = writeln!(
            text,
            "dl_type=0x8847,mpls_label={label},actions=set_field:{new}->mpls_label,dec_mpls_ttl,output:2"
        );
    }
    text
}

impl Function for MplsSwitch {
    fn name(&self) -> &'static str {
        "mpls-switch"
    }
    fn about(&self) -> &'static str {
        "MPLS switch: swaps one label"
    }
    fn paper_entries(&self) -> u32 {
        // All of 2^20 that are not reserved.
        (1 << 20) - FIRST
    }
    fn most_entries(&self) -> u32 {
        (1 << 20) - FIRST
    }
    fn job(&self, entries: u32) -> Result<Job> {
        Job::rules(&rules(entries), &[1, 2])
    }
    fn frame(&self, _: u32, _: u32, entry: u32, len: usize) -> At {
        let mut bytes = vec![2, 0, 0, 1, 0, 2, 2, 0, 0, 1, 0, 1, 0x88, 0x47];
        bytes.extend((((FIRST + entry) << 12) | 1 << 8 | 64).to_be_bytes());
        bytes.resize(len, 0);
        At { port: 1, bytes }
    }
    fn oracle(&self, entries: u32) -> Oracle {
        Box::new(move |_, input| {
            let mut bytes = input.bytes.clone();
            let Some(header) = bytes.get_mut(14..18) else { return Vec::new() };
            let word = header.iter().fold(0u32, |w, b| w << 8 | u32::from(*b));
            let (label, rest, ttl) = (word >> 12, word & 0xf00, word & 0xff);
            if !(FIRST..FIRST + entries).contains(&label) || ttl < 2 {
                return Vec::new();
            }
            let out = swapped(label - FIRST) << 12 | rest | (ttl - 1);
            header.copy_from_slice(&out.to_be_bytes());
            vec![At { port: 2, bytes }]
        })
    }
    fn ovs(&self, entries: u32) -> Option<String> {
        Some(rules(entries))
    }
}
