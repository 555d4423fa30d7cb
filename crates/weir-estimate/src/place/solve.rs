//! Demands onto hosts: a greedy assignment first, then an integer program where it is small enough, and
//! a bound that says how far from the best either may be.
//!
//! Room: numbers. Called by `place`.

mod exact;
mod greedy;

use super::demand::{Amounts, Need, Problem, RESOURCES, only_cores};
use super::request::Objective;
use super::{Answer, HostUse, Place, Plan, Refusal};
use crate::quantity::apart;

/// Each demand's host, by its place.
pub(super) type Assignment = Vec<usize>;

/// A sum of decimal fractions may be over by this much.
pub(super) const SLACK: f64 = 1e-9;

/// Most hosts that are added to see what would be enough.
const MOST_MORE: usize = 500;

pub(super) fn solve(problem: &Problem, objective: Objective) -> Answer {
    if let Some(refusal) = impossible(problem) {
        return Answer::Infeasible(refusal);
    }
    let greedy = greedy::assign(problem, objective);
    let bound = bound(problem, objective);
    let value = |a: &Assignment| value(problem, objective, a);
    let mut best = greedy;
    let mut optimal = best.as_ref().is_some_and(|a| value(a) <= bound + 1e-6);
    if !optimal && exact::small_enough(problem) {
        match exact::assign(problem, objective) {
            exact::Outcome::Best(a) => {
                let least = value(&a);
                if fits(problem, &a) && best.as_ref().is_none_or(|b| least <= value(b) + 1e-6) {
                    best = Some(a);
                }
                // One of the solver's that does not fit is still as good as any that does.
                optimal = best.as_ref().is_some_and(|b| value(b) <= least + 1e-6);
            }
            exact::Outcome::Found(a) => {
                if fits(problem, &a) && best.as_ref().is_none_or(|b| value(&a) < value(b)) {
                    best = Some(a);
                }
            }
            exact::Outcome::Nothing => {}
        }
    }
    match best {
        Some(a) => {
            // Where nothing can be better than the value, that is the bound.
            let bound = if optimal { value(&a) } else { bound.min(value(&a)) };
            Answer::Placed(plan(problem, objective, &a, bound, optimal))
        }
        None => Answer::Infeasible(too_little(problem)),
    }
}

/// What a demand takes of a host, where it can run there at all.
pub(super) fn need(problem: &Problem, demand: usize, host: usize) -> Option<&Need> {
    let kind = problem.hosts.get(host)?.kind;
    problem.demands.get(demand)?.needs.get(kind)?.as_ref().ok()
}

/// What is free of each resource on each host.
pub(super) fn free(problem: &Problem) -> Vec<Amounts> {
    let one = |s: &super::demand::Site| {
        std::array::from_fn(|r| {
            s.whole.get(r).copied().unwrap_or(0.0) - s.taken.get(r).copied().unwrap_or(0.0)
        })
    };
    problem.hosts.iter().map(one).collect()
}

/// Whether something fits into what is free.
pub(super) fn room(free: &Amounts, takes: &Amounts) -> bool {
    free.iter().zip(takes).all(|(f, t)| *t <= f + SLACK)
}

fn fits(problem: &Problem, a: &Assignment) -> bool {
    let mut free = free(problem);
    a.iter().enumerate().all(|(d, h)| {
        let (Some(n), Some(f)) = (need(problem, d, *h), free.get_mut(*h)) else { return false };
        f.iter_mut().zip(n.takes).for_each(|(f, t)| *f -= t);
        f.iter().all(|f| *f >= -SLACK)
    })
}

/// Hosts in use, the fullest host's part, or watts.
fn value(problem: &Problem, objective: Objective, a: &Assignment) -> f64 {
    let mut used: Vec<Amounts> = problem.hosts.iter().map(|h| h.taken).collect();
    let mut on: Vec<bool> = problem.hosts.iter().map(is_on).collect();
    let mut watts = 0.0;
    for (d, h) in a.iter().enumerate() {
        let (Some(n), Some(u)) = (need(problem, d, *h), used.get_mut(*h)) else { continue };
        u.iter_mut().zip(n.takes).for_each(|(u, t)| *u += t);
        if let (Some(on), Some(site)) = (on.get_mut(*h), problem.hosts.get(*h)) {
            *on = true;
            watts += site.core_watts * n.takes[0];
        }
    }
    let in_use = || problem.hosts.iter().zip(&on).filter(|(_, on)| **on).map(|(h, _)| h);
    match objective {
        Objective::FewestHosts => in_use().count() as f64,
        Objective::LeastEnergy => watts + in_use().map(|h| h.idle_watts).sum::<f64>(),
        Objective::MostHeadroom => problem
            .hosts
            .iter()
            .zip(&used)
            .flat_map(|(h, u)| {
                u.iter().zip(&h.whole).filter(|(_, w)| **w > 0.0).map(|(u, w)| u / w)
            })
            .fold(0.0, f64::max),
    }
}

/// Whether a host runs something already.
pub(super) fn is_on(site: &super::demand::Site) -> bool {
    site.taken.iter().skip(1).any(|t| *t > 0.0)
}

/// What no assignment can do better than.
fn bound(problem: &Problem, objective: Objective) -> f64 {
    let hosts = problem.hosts.len();
    let least = |r: usize| -> f64 {
        let one = |d: usize| {
            let all = (0..hosts).filter_map(|h| need(problem, d, h)?.takes.get(r).copied());
            all.fold(f64::MAX, f64::min)
        };
        (0..problem.demands.len()).map(one).sum()
    };
    let on = problem.hosts.iter().filter(|h| is_on(h)).count();
    let free = free(problem);
    // As many of the roomiest hosts as each resource alone would take, those that are on first.
    let count = (0..RESOURCES.len())
        .map(|r| {
            let mut wanted = least(r);
            let of = |on: bool| {
                let mut room: Vec<f64> = problem
                    .hosts
                    .iter()
                    .zip(&free)
                    .filter(|(h, _)| is_on(h) == on)
                    .map(|(_, f)| f.get(r).copied().unwrap_or(0.0).max(0.0))
                    .collect();
                room.sort_unstable_by(|a, b| b.total_cmp(a));
                room
            };
            wanted -= of(true).iter().sum::<f64>();
            let mut more = 0;
            for room in of(false) {
                if wanted <= SLACK {
                    break;
                }
                wanted -= room;
                more += 1;
            }
            on + more
        })
        .max()
        .unwrap_or(on);
    match objective {
        Objective::FewestHosts => count.max(usize::from(!problem.demands.is_empty())) as f64,
        Objective::LeastEnergy => {
            let cheapest = |d: usize| {
                let watts = |h: usize| {
                    Some(need(problem, d, h)?.takes[0] * problem.hosts.get(h)?.core_watts)
                };
                (0..hosts).filter_map(watts).fold(f64::MAX, f64::min)
            };
            let idle = problem.hosts.iter().map(|h| h.idle_watts).fold(f64::MAX, f64::min);
            let running: f64 =
                problem.hosts.iter().filter(|h| is_on(h)).map(|h| h.idle_watts).sum();
            let work: f64 = (0..problem.demands.len()).map(cheapest).sum();
            work + running + idle * count.saturating_sub(on) as f64
        }
        Objective::MostHeadroom => (0..RESOURCES.len())
            .map(|r| {
                let of = |f: fn(&super::demand::Site) -> &Amounts| -> f64 {
                    problem.hosts.iter().filter_map(|h| f(h).get(r)).sum()
                };
                let whole = of(|h| &h.whole);
                if whole > 0.0 { (least(r) + of(|h| &h.taken)) / whole } else { 0.0 }
            })
            .fold(0.0, f64::max),
    }
}

/// A demand that no host can take even when all is free, or a sum that no packing can hold.
fn impossible(problem: &Problem) -> Option<Refusal> {
    let free = free(problem);
    for (d, wanted) in problem.demands.iter().enumerate() {
        let all = 0..problem.hosts.len();
        let somewhere = all
            .clone()
            .any(|h| need(problem, d, h).zip(free.get(h)).is_some_and(|(n, f)| room(f, &n.takes)));
        if somewhere {
            continue;
        }
        let name = &wanted.name;
        // No kind of host can run it: what the kinds say.
        if wanted.needs.iter().all(Result::is_err) {
            let unfit = || wanted.needs.iter().filter_map(|n| n.as_ref().err());
            let why: Vec<&str> = unfit().map(|u| u.why.as_str()).collect();
            let mut mends: Vec<&str> = Vec::new();
            for u in unfit() {
                if !mends.contains(&u.mends) {
                    mends.push(u.mends);
                }
            }
            return Some(Refusal {
                constraint: format!("'{name}': {}", why.join("; ")),
                enough: mends.join("; "),
            });
        }
        // The host that comes nearest, and what it lacks.
        let lack = |h: usize| {
            let (n, f) = (need(problem, d, h)?, free.get(h)?);
            // The first of those that lack alike.
            let r = (0..RESOURCES.len()).rev().max_by(|a, b| {
                let part = |r: usize| n.takes[r] / f[r].max(1e-9);
                part(*a).total_cmp(&part(*b))
            })?;
            Some((n.takes[r] / f[r].max(1e-9), h, r, n.takes[r], f[r]))
        };
        let nearest = all.filter_map(lack).min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, h, r, takes, has)) = nearest {
            let (what, unit) = RESOURCES[r];
            let host = problem.hosts.get(h).map(|h| h.name.as_str()).unwrap_or_default();
            let [takes, has] = apart([takes, has], 2);
            return Some(Refusal {
                constraint: united(format!(
                    "{what}: '{name}' takes {takes} {unit}, and no host has as much free ({host} has {has})"
                )),
                enough: united(format!("a host with {takes} {unit} of {what} free")),
            });
        }
    }
    for (r, (what, unit)) in RESOURCES.iter().enumerate() {
        let least = |d: usize| {
            let all = (0..problem.hosts.len()).filter_map(|h| Some(need(problem, d, h)?.takes[r]));
            all.fold(f64::MAX, f64::min)
        };
        let wanted: f64 = (0..problem.demands.len()).map(least).sum();
        let has: f64 = free.iter().map(|f| f[r].max(0.0)).sum();
        if wanted > has + SLACK {
            let [wanted, has] = apart([wanted, has], 2);
            let constraint =
                format!("{what}: at least {wanted} {unit} are asked for, and {has} are free");
            return Some(Refusal { constraint: united(constraint), enough: enough(problem) });
        }
    }
    None
}

/// As it reads where a unit is nothing.
fn united(text: String) -> String {
    text.replace("  ", " ").replace(" ,", ",")
}

/// All would fit in sum, and nothing that was tried does.
fn too_little(problem: &Problem) -> Refusal {
    Refusal {
        constraint: "no assignment was found: what is free is too scattered".into(),
        enough: enough(problem),
    }
}

/// How many more hosts would be enough, of the kind of which fewest are.
fn enough(problem: &Problem) -> String {
    let mut best: Option<(usize, &super::demand::Site)> = None;
    let mut seen = Vec::new();
    for site in &problem.hosts {
        // A further host has as many cores set aside as the one that it is like.
        let like = (site.kind, site.set_aside);
        if seen.contains(&like) {
            continue;
        }
        seen.push(like);
        let with = |more: usize| {
            let mut p = problem.clone();
            for i in 0..more {
                let name = format!("more-{i}");
                let taken = only_cores(site.set_aside);
                p.hosts.push(super::demand::Site { name, taken, ..site.clone() });
            }
            greedy::assign(&p, Objective::FewestHosts).is_some()
        };
        let most = MOST_MORE.min(problem.demands.len());
        if !with(most) {
            continue;
        }
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = usize::midpoint(low, high);
            if with(middle) { high = middle } else { low = middle + 1 }
        }
        if best.is_none_or(|b| high < b.0) {
            best = Some((high, site));
        }
    }
    match best {
        Some((n, site)) => {
            let aside = match site.set_aside {
                0.0 => String::new(),
                cores => format!(" with {cores} cores set aside"),
            };
            format!("{n} more empty hosts of profile {}{aside}", site.profile)
        }
        None => "none of these kinds of host, however many".into(),
    }
}

fn plan(
    problem: &Problem,
    objective: Objective,
    a: &Assignment,
    bound: f64,
    optimal: bool,
) -> Plan {
    let mut hosts: Vec<HostUse> = problem
        .hosts
        .iter()
        .map(|h| HostUse {
            name: h.name.clone(),
            profile: h.profile.clone(),
            used: h.taken,
            whole: h.whole,
        })
        .collect();
    let mut places = Vec::new();
    for (d, h) in a.iter().enumerate() {
        let (Some(n), Some(host), Some(wanted)) =
            (need(problem, d, *h), hosts.get_mut(*h), problem.demands.get(d))
        else {
            continue;
        };
        host.used.iter_mut().zip(n.takes).for_each(|(u, t)| *u += t);
        places.push(Place { name: wanted.name.clone(), host: host.name.clone(), need: *n });
    }
    let mut notes = problem.notes.clone();
    notes.extend(places.iter().filter(|p| p.need.turn_s > 0.0).map(|p| {
        format!(
            "'{}': its functions and the switch share {:.0} of the cores of {}: a frame waits up to {:.1} ms for its turn, which is not in its latency",
            p.name,
            p.need.takes[0],
            p.host,
            p.need.turn_s * 1e3
        )
    }));
    Plan { places, hosts, objective: value(problem, objective, a), bound, optimal, notes }
}
