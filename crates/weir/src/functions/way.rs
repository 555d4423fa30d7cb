//! What a function's rules ask of weir's data plane, for the estimate of the pass through a VDP.
//!
//! Room: a [`Job`] and some frames in, parameters of `models/vdp-rules.toml` or `models/vdp-program.toml` out.

use super::{At, Function, Job, Stack};
use std::collections::{BTreeMap, BTreeSet};
use weir_classify::{Field, FlowKey};
use weir_dataplane::flowtext::FlowSpec;
use weir_dataplane::{Action, MAX_TABLES, Op, extract};

/// The model of the pass, and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// The model.
    pub model: &'static str,
    /// Its parameters.
    pub settings: Vec<(String, f64)>,
}

/// Whether an action is of 004's bitmap, or no work of the executor's at all.
fn is_plain(a: &Action) -> bool {
    match a {
        Action::Output(_) | Action::Goto(_) | Action::DecTtl => true,
        Action::SetField { field, mask, .. } => {
            matches!(field, Field::EthSrc | Field::EthDst) && *mask == field.full()
        }
        _ => false,
    }
}

/// Whether an action costs the executor nothing of its own, or is told of apart: meters are the function's.
fn is_free(a: &Action) -> bool {
    matches!(a, Action::Output(_) | Action::Goto(_) | Action::Meter(_))
}

/// Whether an action moves headers.
fn is_move(a: &Action) -> bool {
    matches!(
        a,
        Action::PushVlan(_)
            | Action::PopVlan
            | Action::PushMpls(_)
            | Action::PopMpls(_)
            | Action::PushPbb(_)
            | Action::PopPbb
    )
}

/// Whether an action puts a tunnel's headers in front, which stand apart from the list.
fn is_wrap(a: &Action) -> bool {
    matches!(a, Action::EncapVxlan { .. } | Action::EncapGre { .. })
}

/// Whether an action takes a tunnel's headers off.
fn is_unwrap(a: &Action) -> bool {
    matches!(a, Action::DecapVxlan | Action::DecapGre)
}

/// Bytes of a rule's actions for the executor.
fn list_bytes(actions: &[Action]) -> f64 {
    (actions.len() * size_of::<Op>()) as f64
}

/// Whether no checksum tells of the field that an action writes.
fn is_unsummed(a: &Action) -> bool {
    match a {
        Action::DecMplsTtl => true,
        Action::SetField { field, .. } => matches!(
            field,
            Field::EthSrc
                | Field::EthDst
                | Field::EthType
                | Field::VlanTci
                | Field::MplsLabel
                | Field::MplsTc
                | Field::Metadata
        ),
        _ => false,
    }
}

/// What a list of actions asks of the executor: how many write fields of which a checksum tells, how many others, how
/// many move headers, how many put a tunnel's in front, how many take one's off. An executor is needed for all of a rule's actions or for none.
fn work(actions: &[Action]) -> [f64; 5] {
    if actions.iter().all(is_plain) {
        return [0.0; 5];
    }
    let (mut writes, mut plain, mut moves, mut wraps, mut unwraps) = (0, 0, 0, 0, 0);
    for a in actions.iter().filter(|a| !is_free(a)) {
        let of = if is_wrap(a) {
            &mut wraps
        } else if is_unwrap(a) {
            &mut unwraps
        } else if is_move(a) {
            &mut moves
        } else if is_unsummed(a) {
            &mut plain
        } else {
            &mut writes
        };
        *of += 1;
    }
    // A label and its TTL are written at once, where nothing else is done.
    if plain == 2 && is_swap(actions) {
        plain = 1;
    }
    [writes, plain, moves, wraps, unwraps].map(f64::from)
}

/// Whether all that a list of actions does is to swap a label, its TTL with it.
fn is_swap(actions: &[Action]) -> bool {
    let label =
        |a: &Action| matches!(a, Action::SetField { field: Field::MplsLabel | Field::MplsTc, .. });
    match actions {
        [a, Action::DecMplsTtl, Action::Output(_)] | [Action::DecMplsTtl, a, Action::Output(_)] => {
            label(a)
        }
        _ => false,
    }
}

/// The parameters that say so.
const WORK: [&str; 5] = ["actions", "plain", "moves", "wraps", "unwraps"];

/// The table that a list of actions goes on to.
fn onward(actions: &[Action]) -> Option<u8> {
    actions.iter().find_map(|a| if let Action::Goto(t) = a { Some(*t) } else { None })
}

/// Words of the key that hold the ingress port, Ethernet's header and VLAN tags.
const ETHERNET_WORDS: usize = 3;

/// Frames that are looked at.
const SAMPLE: u32 = 16;

impl Way {
    /// That of a function's job.
    pub fn of_function(job: &Job, f: &dyn Function, entries: u32, len: usize) -> Self {
        // A prime, so that each is another's; another, where all of them would be one's.
        let step = if entries.is_multiple_of(7919) { 7907 } else { 7919 };
        let frame = |i: u32| f.frame(entries, i, i * step % entries.max(1), len);
        Self::of(job, &(0..SAMPLE).map(frame).collect::<Vec<At>>())
    }

    /// That of a job whose frames are like these.
    pub fn of(job: &Job, frames: &[At]) -> Self {
        let all = frames.len().max(1) as f64;
        let mut sum: BTreeMap<&str, f64> = BTreeMap::new();
        let mut add = |name: &'static str, v: f64| {
            *sum.entry(name).or_default() += v / all;
        };
        for at in frames {
            Stack::of(&at.bytes).parameters().into_iter().for_each(|(n, v)| add(n, v));
        }
        let sources: BTreeSet<u32> = frames.iter().map(|at| at.port).collect();
        add("sources", sources.len() as f64 * all);
        if job.program.is_some() {
            return Self { model: "vdp-program", settings: named(sum) };
        }
        let of = |table: u8| job.rules.iter().filter(move |r| r.table == table);
        let find = |at: &At| {
            let mut key = FlowKey::default();
            extract(&at.bytes, at.port, &mut key).ok()?;
            of(0).filter(|r| r.matcher.matches(&key)).max_by_key(|r| r.priority)
        };
        let met: Vec<_> = frames.iter().map(find).collect();
        for found in met.iter().copied() {
            // By one of many rules, not by everybody's; without one, all places where it could be are asked.
            let strewn = found.is_none_or(|r| {
                met.iter().flatten().filter(|other| std::ptr::eq(**other, r)).count() == 1
            });
            add("strewn", f64::from(u8::from(strewn)));
            let mut next = None;
            if let Some(r) = found {
                let work = work(&r.actions);
                WORK.iter().zip(work).for_each(|(name, n)| add(name, n));
                next = onward(&r.actions);
                let moved = r.actions.iter().any(|a| is_move(a) || is_unwrap(a));
                add("again", f64::from(u8::from(moved && next.is_some())));
                let listed = strewn && work.iter().any(|n| *n > 0.0);
                add("strewn_listed", f64::from(u8::from(listed)));
            }
            // Behind the first table frames may be others: what is usual there.
            for _ in 0..MAX_TABLES {
                let Some(table) = next else { break };
                let n = of(table).count().max(1) as f64;
                for r in of(table) {
                    WORK.iter().zip(work(&r.actions)).for_each(|(name, w)| add(name, w / n));
                }
                add("further", 1.0);
                next = of(table).find_map(|r| onward(&r.actions)).filter(|t| *t > table);
            }
        }
        let mut masks: BTreeMap<u8, BTreeSet<Vec<u64>>> = BTreeMap::new();
        let mut words = 0;
        // A frame that the executor changes is looked at whole, and so is one that is changed and goes on, meters aside.
        let more = |r: &FlowSpec| {
            let meters = r.actions.iter().filter(|a| matches!(a, Action::Meter(_))).count();
            onward(&r.actions).is_some() && r.actions.len() > 1 + meters
        };
        let does = |r: &FlowSpec| work(&r.actions).iter().any(|n| *n > 0.0);
        let mut deep = job.rules.iter().any(|r| does(r) || more(r));
        for r in &job.rules {
            let mask = r.matcher.mask();
            deep |= mask.0.iter().skip(ETHERNET_WORDS).any(|w| *w != 0);
            words = words.max(mask.0.iter().filter(|w| **w != 0).count());
            masks.entry(r.table).or_default().insert(mask.0.to_vec());
        }
        let tunnels = job.rules.iter().filter(|r| r.actions.iter().any(is_wrap)).count();
        sum.insert("tunnels", tunnels as f64);
        let first = of(0).count();
        let first_masks = masks.get(&0).map_or(0, BTreeSet::len);
        let further_masks = masks.range(1..).map(|(_, m)| m.len()).max().unwrap_or(1);
        sum.insert("rules", first.max(1) as f64);
        sum.insert("further_rules", (job.rules.len() - first) as f64);
        let (mut bytes, mut further_bytes, mut further_listed) = (0.0, 0.0, 0.0);
        for r in &job.rules {
            match r.table {
                0 => bytes += list_bytes(&r.actions),
                _ if r.actions.iter().all(is_plain) => {}
                _ => {
                    further_bytes += list_bytes(&r.actions);
                    further_listed += 1.0;
                }
            }
        }
        let further = (job.rules.len() - first).max(1) as f64;
        sum.insert("list_bytes", bytes / first.max(1) as f64);
        sum.insert("further_list_bytes", further_bytes / further);
        sum.insert("further_listed", further_listed / further);
        sum.insert("deep", f64::from(u8::from(deep)));
        sum.insert("masks", first_masks as f64);
        sum.insert("further_masks", further_masks as f64);
        sum.insert("words", 2.0 * words as f64);
        // A head and the masked words, in one to two slots a rule.
        sum.insert("rule_bytes", 8.0 * (1 + words) as f64 * 1.5);
        Self { model: "vdp-rules", settings: named(sum) }
    }
}

fn named(sum: BTreeMap<&str, f64>) -> Vec<(String, f64)> {
    sum.into_iter().map(|(n, v)| (n.to_owned(), v)).collect()
}
