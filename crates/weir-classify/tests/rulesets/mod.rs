//! Reads rule sets and traces: ClassBench's five-tuple text, and the twelve-tuple text (`.oft`).
//!
//! Five-tuple: `@src/len dst/len sport : sport dport : dport proto/mask …`, the first line has the
//! highest priority; trace lines `sip dip sport dport proto expected`. What follows the protocol
//! (flags) is not part of the tuple. Twelve-tuple: `prio vid` and twelve `value/mask` in hex; the
//! highest priority wins, then the lowest line; trace lines `vid`, twelve values, `expected`.
//! `expected` is the 0-based line of the winner, −1 for a miss. Used by tests and an example.

use std::collections::BTreeMap;
use std::path::Path;
use weir_classify::{Field, FlowKey, Match, Rule, RuleId};

/// The rules of one set.
pub struct RuleSet {
    /// The VDP of each rule, and the rule; its id is its line. A line with port ranges is several
    /// rules with one id.
    pub rules: Vec<(u64, Rule)>,
}

/// One lookup and its answer.
pub struct Lookup {
    pub vid: u64,
    pub key: FlowKey,
    pub expected: Option<RuleId>,
}

type Read<T> = Result<T, String>;

/// The twelve fields in the order of the file. VLAN id and priority are kept apart, as the sets
/// have them.
const TWELVE: [Field; 12] = [
    Field::InPort,
    Field::EthSrc,
    Field::EthDst,
    Field::EthType,
    Field::VlanVid,
    Field::VlanPcp,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::IpProto,
    Field::IpTos,
    Field::TpSrc,
    Field::TpDst,
];

/// The text of a file; `.zst` through the `zstd` command.
pub fn text(path: &Path) -> Read<String> {
    if path.extension().is_some_and(|e| e == "zst") {
        let out = std::process::Command::new("zstd")
            .arg("-dcq")
            .arg(path)
            .output()
            .map_err(|e| format!("zstd, which reads {}: {e}", path.display()))?;
        if !out.status.success() {
            return Err(format!("zstd cannot read {}", path.display()));
        }
        return String::from_utf8(out.stdout).map_err(|e| e.to_string());
    }
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// The rules of a set, by its form: five-tuple lines begin with `@`.
pub fn rules(text: &str) -> Read<RuleSet> {
    let lines = text.lines().filter(|l| !l.trim().is_empty()).count();
    let mut out = RuleSet { rules: Vec::new() };
    for (i, line) in text.lines().filter(|l| !l.trim().is_empty()).enumerate() {
        let id = RuleId(i as u32);
        if let Some(five) = line.strip_prefix('@') {
            let priority = (lines - i) as u32;
            for matcher in five_tuple(five).ok_or_else(|| format!("rule {}: '{line}'", i + 1))? {
                out.rules.push((0, Rule { matcher, priority, id }));
            }
        } else {
            let (vid, priority, matcher) =
                twelve_tuple(line).ok_or_else(|| format!("rule {}: '{line}'", i + 1))?;
            out.rules.push((vid, Rule { matcher, priority, id }));
        }
    }
    Ok(out)
}

fn five_tuple(line: &str) -> Option<Vec<Match>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [src, dst, s0, _, s1, d0, _, d1, proto, ..] = words[..] else { return None };
    let (proto, proto_mask) = proto.split_once('/')?;
    let base = Match::any()
        .with_masked(Field::Ipv4Src, prefix(src)?.0, prefix(src)?.1)
        .with_masked(Field::Ipv4Dst, prefix(dst)?.0, prefix(dst)?.1)
        .with_masked(Field::IpProto, hex(proto)?, hex(proto_mask)?);
    let mut out = Vec::new();
    for (sv, sm) in range(s0.parse().ok()?, s1.parse().ok()?) {
        for (dv, dm) in range(d0.parse().ok()?, d1.parse().ok()?) {
            let m = base.with_masked(Field::TpSrc, sv.into(), sm.into());
            out.push(m.with_masked(Field::TpDst, dv.into(), dm.into()));
        }
    }
    Some(out)
}

fn prefix(s: &str) -> Option<(u128, u128)> {
    let (addr, len) = s.split_once('/')?;
    let addr: std::net::Ipv4Addr = addr.parse().ok()?;
    let len: u32 = len.parse().ok().filter(|&l| l <= 32)?;
    let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
    Some((u32::from(addr).into(), mask.into()))
}

/// A range of ports as values and masks, the fewest there are.
fn range(mut low: u32, high: u32) -> Vec<(u16, u16)> {
    let mut out = Vec::new();
    while low <= high {
        // The largest aligned block that begins at `low` and stays within.
        let block = (0..=16u32)
            .rev()
            .find(|&n| low.is_multiple_of(1 << n) && low + (1 << n) - 1 <= high)
            .unwrap_or(0);
        out.push((low as u16, !(((1u32 << block) - 1) as u16)));
        low += 1 << block;
    }
    out
}

fn hex(s: &str) -> Option<u128> {
    u128::from_str_radix(s.trim_start_matches("0x").trim_start_matches("0X"), 16).ok()
}

fn twelve_tuple(line: &str) -> Option<(u64, u32, Match)> {
    let mut words = line.split_whitespace();
    let priority = words.next()?.parse().ok()?;
    let vid = words.next()?.parse().ok()?;
    let mut m = Match::any();
    for f in TWELVE {
        let (value, mask) = words.next()?.split_once('/')?;
        m = m.with_masked(f, hex(value)?, hex(mask)?);
    }
    Some((vid, priority, m))
}

/// The lookups of a trace, by its form.
pub fn trace(text: &str) -> Read<Vec<Lookup>> {
    text.lines()
        .filter(|l| !l.trim().is_empty())
        .map(|l| one_lookup(l).ok_or_else(|| format!("trace: '{l}'")))
        .collect()
}

fn one_lookup(line: &str) -> Option<Lookup> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (expected, words) = words.split_last()?;
    let expected: i64 = expected.parse().ok()?;
    let expected = u32::try_from(expected).ok().map(RuleId);
    let mut key = FlowKey::default();
    if words.len() == 13 {
        for (f, w) in TWELVE.iter().zip(&words[1..]) {
            key.set(*f, hex(w)?);
        }
        return Some(Lookup { vid: words[0].parse().ok()?, key, expected });
    }
    let five = [Field::Ipv4Src, Field::Ipv4Dst, Field::TpSrc, Field::TpDst, Field::IpProto];
    if words.len() != 5 {
        return None;
    }
    for (f, w) in five.iter().zip(words) {
        key.set(*f, w.parse().ok()?);
    }
    Some(Lookup { vid: 0, key, expected })
}

/// One table a VDP.
pub type Tables<C> = BTreeMap<u64, C>;
