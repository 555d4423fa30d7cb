//! The largest first, each to where it serves the objective best; then hosts are emptied where what they
//! carry fits elsewhere.
//!
//! Room: numbers. Quick, never the last word: `solve` says how far from the best it may be.

use super::super::demand::RESOURCES;
use super::{Assignment, Problem, SLACK, free, is_on, need, room};
use crate::place::request::Objective;

/// An assignment, where one is found.
pub(super) fn assign(problem: &Problem, objective: Objective) -> Option<Assignment> {
    // By the scarcest resource first; then by each alone, which packs what that order can't.
    let mut orders = std::iter::once(None).chain((0..RESOURCES.len()).map(Some));
    let mut found = orders.find_map(|o| by_size(problem, objective, o))?;
    if objective != Objective::MostHeadroom {
        empty(problem, &mut found);
    }
    Some(found)
}

fn size(problem: &Problem, d: usize, resource: Option<usize>) -> f64 {
    let of = |h: usize| {
        let (n, site) = (need(problem, d, h)?, problem.hosts.get(h)?);
        let part = |r: usize| n.takes[r] / site.whole[r].max(1e-9);
        Some(match resource {
            Some(r) => part(r),
            None => (0..RESOURCES.len()).map(part).fold(0.0, f64::max),
        })
    };
    (0..problem.hosts.len()).filter_map(of).fold(f64::MAX, f64::min)
}

fn by_size(problem: &Problem, objective: Objective, by: Option<usize>) -> Option<Assignment> {
    let mut order: Vec<(f64, usize)> =
        (0..problem.demands.len()).map(|d| (size(problem, d, by), d)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut free = free(problem);
    let mut on: Vec<bool> = problem.hosts.iter().map(is_on).collect();
    let mut assignment = vec![usize::MAX; problem.demands.len()];
    for (_, d) in order {
        let score = |h: usize| {
            let (n, f, site) = (need(problem, d, h)?, free.get(h)?, problem.hosts.get(h)?);
            if !room(f, &n.takes) {
                return None;
            }
            let left: f64 = (0..RESOURCES.len())
                .filter(|r| site.whole[*r] > 0.0 && site.whole[*r].is_finite())
                .map(|r| (f[r] - n.takes[r]) / site.whole[r])
                .fold(1.0, f64::min);
            let opened = if on.get(h) == Some(&true) { 0.0 } else { 1.0 };
            Some(match objective {
                // A host that is on, and of those the fullest; else the roomiest.
                Objective::FewestHosts if opened == 0.0 => (0.0, left),
                Objective::FewestHosts => (1.0, -f[0]),
                Objective::MostHeadroom => (-left, 0.0),
                Objective::LeastEnergy => {
                    (opened * site.idle_watts + site.core_watts * n.takes[0], left)
                }
            })
        };
        let best = (0..problem.hosts.len()).filter_map(|h| Some((score(h)?, h))).min_by(|a, b| {
            a.0.0.total_cmp(&b.0.0).then(a.0.1.total_cmp(&b.0.1)).then(a.1.cmp(&b.1))
        });
        let (_, h) = best?;
        let takes = need(problem, d, h)?.takes;
        if let (Some(f), Some(on), Some(a)) =
            (free.get_mut(h), on.get_mut(h), assignment.get_mut(d))
        {
            f.iter_mut().zip(takes).for_each(|(f, t)| *f -= t);
            *on = true;
            *a = h;
        }
    }
    Some(assignment)
}

/// Empties hosts, the least filled first, where what they carry fits on others that are in use.
fn empty(problem: &Problem, assignment: &mut Assignment) {
    let mut free = free(problem);
    for (d, h) in assignment.iter().enumerate() {
        if let (Some(n), Some(f)) = (need(problem, d, *h), free.get_mut(*h)) {
            f.iter_mut().zip(n.takes).for_each(|(f, t)| *f -= t);
        }
    }
    let mut hosts: Vec<usize> = (0..problem.hosts.len()).collect();
    let carried = |a: &Assignment, h: usize| a.iter().filter(|x| **x == h).count();
    hosts.sort_by_key(|h| carried(assignment, *h));
    for h in hosts {
        let there: Vec<usize> =
            (0..assignment.len()).filter(|d| assignment.get(*d) == Some(&h)).collect();
        if there.is_empty() || problem.hosts.get(h).is_none_or(is_on) {
            continue;
        }
        let (mut tried, mut trial) = (free.clone(), assignment.clone());
        let moved = there.iter().all(|d| {
            let to = (0..problem.hosts.len()).find(|o| {
                let used =
                    *o != h && (trial.contains(o) || problem.hosts.get(*o).is_some_and(is_on));
                used && need(problem, *d, *o)
                    .zip(tried.get(*o))
                    .is_some_and(|(n, f)| f.iter().zip(n.takes).all(|(f, t)| t <= *f + SLACK))
            });
            let Some(to) = to else { return false };
            for (place, sign) in [(to, 1.0), (h, -1.0)] {
                if let (Some(n), Some(f)) = (need(problem, *d, place), tried.get_mut(place)) {
                    f.iter_mut().zip(n.takes).for_each(|(f, t)| *f -= sign * t);
                }
            }
            if let Some(a) = trial.get_mut(*d) {
                *a = to;
            }
            true
        });
        if moved {
            (free, *assignment) = (tried, trial);
        }
    }
}
