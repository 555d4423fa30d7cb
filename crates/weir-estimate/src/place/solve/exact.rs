//! The same as an integer program: a binary for each demand and host, one for each host in use.
//!
//! Room: the solver's library. Asked where the program is small; what it finds is checked like any other
//! assignment.

use super::{Assignment, Problem, free, is_on, need};
use crate::place::request::Objective;
use good_lp::{
    Expression, ProblemVariables, Solution, SolverModel, Variable, WithTimeLimit, constraint,
    microlp, variable,
};

/// Most binaries for demands: beyond, a tree search takes too long to be waited for.
const MOST_BINARIES: usize = 400;
/// How long it may take, in seconds: what was found by then is taken.
const PATIENCE_S: f64 = 3.0;

/// What came of it.
pub(super) enum Outcome {
    /// Nothing is better.
    Best(Assignment),
    /// The best so far.
    Found(Assignment),
    /// None.
    Nothing,
}

pub(super) fn small_enough(problem: &Problem) -> bool {
    problem.demands.len() * problem.hosts.len() <= MOST_BINARIES
}

pub(super) fn assign(problem: &Problem, objective: Objective) -> Outcome {
    let mut vars = ProblemVariables::new();
    let demands = 0..problem.demands.len();
    let hosts = 0..problem.hosts.len();
    let x: Vec<Vec<Option<Variable>>> = demands
        .clone()
        .map(|d| {
            let one = |h| need(problem, d, h).map(|_| vars.add(variable().binary()));
            hosts.clone().map(one).collect()
        })
        .collect();
    let y: Vec<Variable> = hosts.clone().map(|_| vars.add(variable().binary())).collect();
    let fullest = vars.add(variable().min(0.0).max(1.0));
    let at = |d: usize, h: usize| x.get(d).and_then(|row| row.get(h)).copied().flatten();
    let goal: Expression = match objective {
        Objective::FewestHosts => y.iter().copied().map(Expression::from).sum(),
        Objective::MostHeadroom => fullest.into(),
        Objective::LeastEnergy => {
            let mut sum = Expression::from(0.0);
            for (site, y) in problem.hosts.iter().zip(&y) {
                sum += site.idle_watts * *y;
            }
            for d in demands.clone() {
                for h in hosts.clone() {
                    if let (Some(x), Some(n)) = (at(d, h), need(problem, d, h)) {
                        let watts = problem.hosts.get(h).map_or(0.0, |s| s.core_watts);
                        sum += watts * n.takes[0] * x;
                    }
                }
            }
            sum
        }
    };
    let mut model = vars.minimise(goal).using(microlp).with_time_limit(PATIENCE_S);
    for d in demands.clone() {
        let somewhere: Expression =
            hosts.clone().filter_map(|h| at(d, h)).map(Expression::from).sum();
        model.add_constraint(constraint!(somewhere == 1.0));
    }
    let free = free(problem);
    for ((h, site), (free, y)) in problem.hosts.iter().enumerate().zip(free.iter().zip(&y)) {
        // What nothing limits is no constraint, and would be none that a solver can read.
        for (r, room) in free.iter().enumerate().filter(|(_, room)| room.is_finite()) {
            let mut used = Expression::from(0.0);
            for d in demands.clone() {
                if let (Some(x), Some(n)) = (at(d, h), need(problem, d, h)) {
                    used += n.takes[r] * x;
                }
            }
            if objective == Objective::MostHeadroom && site.whole[r] > 0.0 {
                let taken = site.taken[r];
                model.add_constraint(constraint!(used.clone() + taken <= site.whole[r] * fullest));
            }
            model.add_constraint(constraint!(used <= room.max(0.0) * *y));
        }
        if is_on(site) {
            model.add_constraint(constraint!(*y == 1.0));
        }
    }
    // Empty hosts of one kind are alike: the first is used first, or every order would be searched.
    for (h, pair) in problem.hosts.windows(2).enumerate() {
        let [a, b] = pair else { continue };
        let alike = a.kind == b.kind && a.taken == b.taken && !is_on(a);
        if let (true, Some(ya), Some(yb)) = (alike, y.get(h), y.get(h + 1)) {
            model.add_constraint(constraint!(*ya >= *yb));
        }
    }
    let Ok(solution) = model.solve() else { return Outcome::Nothing };
    let chosen = |d: usize| {
        hosts
            .clone()
            .filter_map(|h| Some((solution.value(at(d, h)?), h)))
            .max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let Some(assignment) = demands.map(|d| chosen(d).map(|c| c.1)).collect::<Option<Assignment>>()
    else {
        return Outcome::Nothing;
    };
    match solution.status() {
        good_lp::solvers::SolutionStatus::Optimal => Outcome::Best(assignment),
        _ => Outcome::Found(assignment),
    }
}
