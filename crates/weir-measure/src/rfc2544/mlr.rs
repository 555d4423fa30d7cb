//! Multiple loss ratio search (bmwg, draft-ietf-bmwg-mlrsearch): for each of several loss ratios the highest
//! load whose trials lose no more, for devices that lose a little by chance. With no loss at all it is called
//! NDR (non-drop rate), with half a percent PDR (partial drop rate).
//!
//! A trial is *good* for a goal if it lost no more than the goal's ratio. A load is a *lower bound* once so much
//! trial time at it was good that, whatever the rest of the goal's time brought, no more than its exceed ratio
//! would be bad; an *upper bound* once too much was bad; until then it is tried again. The search narrows the
//! range between the lowest upper bound and the highest lower bound below it to the goal's width, in equal
//! ratios. The *conditional throughput* is what the lower bound forwards in the trial that is as bad as the
//! exceed ratio lets it be.
//!
//! All trials have the goals' final duration: the draft's shorter ones before that save time and change no
//! result. The goals are searched by falling loss ratio, so that each finds the trials of those before it.

use super::{Error, SettingsError, Trial, TrialRecord, try_rate, within};
use crate::Rate;
use std::time::Duration;

/// No search takes more trials.
const MOST_TRIALS: usize = 4096;
/// How often the highest load is lowered to what the source could offer.
const MOST_CLAMPS: u32 = 8;

/// A goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// What it is called: `NDR`.
    pub name: String,
    /// The most that a good trial loses, 0 to 1.
    pub loss_ratio: f64,
    /// The part of the time that may be bad, 0 to below 1.
    pub exceed_ratio: f64,
    /// How narrow the range must be, as a part of its upper end.
    pub width: f64,
    /// Trial time at a load.
    pub duration_sum: Duration,
}

impl Goal {
    /// As the draft's own examples have it: half of 21 seconds may be bad, to half a percent.
    pub fn new(name: &str, loss_ratio: f64) -> Self {
        let duration_sum = Duration::from_secs(21);
        Self { name: name.to_owned(), loss_ratio, exceed_ratio: 0.5, width: 0.005, duration_sum }
    }
}

/// How to search.
#[derive(Clone, Debug, PartialEq)]
pub struct MlrSettings {
    /// The lowest load worth trying.
    pub min: Rate,
    /// The highest.
    pub max: Rate,
    /// Length of a trial; the draft's is a second.
    pub duration: Duration,
    /// The part of a load, 0 to 1, below which the source counts as too slow for it.
    pub reach: f64,
    /// What to find.
    pub goals: Vec<Goal>,
}

/// What was found of a goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Its name.
    pub goal: String,
    /// The highest load that is a lower bound, with no upper bound below it; `None`: not even the lowest is.
    pub lower: Option<Rate>,
    /// The lowest upper bound; `None`: the highest load that could be offered is a lower bound.
    pub upper: Option<Rate>,
    /// What the lower bound forwards, in frames a second.
    pub conditional_fps: Option<f64>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Mlr {
    /// Of each goal, in the order given.
    pub bounds: Vec<Bounds>,
    /// Whether the source could not offer the highest load.
    pub source_fell_short: bool,
    /// Every trial, in order.
    pub trials: Vec<TrialRecord>,
}

/// What the trials at one load say of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Undecided,
}

/// Trials at one load: their loss ratios.
struct Tried {
    load: Rate,
    losses: Vec<f64>,
}

impl Tried {
    fn class(&self, goal: &Goal, duration: Duration) -> Class {
        let trial = duration.as_secs_f64();
        let bad = self.losses.iter().filter(|l| **l > goal.loss_ratio).count() as f64 * trial;
        let done = self.losses.len() as f64 * trial;
        // At least one trial, however short the sum.
        let whole = goal.duration_sum.as_secs_f64().max(trial).max(done);
        let may = goal.exceed_ratio * whole;
        if bad > may {
            Class::Upper
        } else if bad + (whole - done) <= may && !self.losses.is_empty() {
            Class::Lower
        } else {
            Class::Undecided
        }
    }

    /// Frames a second that get through in the trial at the exceed ratio's place among all, best first.
    fn conditional_fps(&self, goal: &Goal) -> f64 {
        let mut losses = self.losses.clone();
        losses.sort_unstable_by(f64::total_cmp);
        let rank = ((1.0 - goal.exceed_ratio) * losses.len() as f64).ceil().max(1.0) as usize;
        self.load.fps() * (1.0 - losses.get(rank - 1).copied().unwrap_or(1.0))
    }
}

struct Search<'a, T> {
    trial: &'a mut T,
    settings: &'a MlrSettings,
    max: Rate,
    short: u32,
    tried: Vec<Tried>,
    trials: Vec<TrialRecord>,
}

impl<T: Trial> Search<'_, T> {
    /// One more trial; a source that falls short lowers the highest load.
    fn run(&mut self, load: Rate) -> Result<(), Error<T::Error>> {
        let r = try_rate(self.trial, load, self.settings.duration)?;
        self.trials.push(TrialRecord::of(load, &r));
        let actual = r.offered_actual.filter(|_| r.sent > 0);
        let mut load = load;
        let reached = actual.is_some_and(|a| a.fps() >= load.fps() * self.settings.reach);
        if !reached && self.short < MOST_CLAMPS {
            self.short += 1;
            load = actual.unwrap_or(self.settings.min).min(load);
            self.max = if load < self.settings.min { self.settings.min } else { load };
            load = self.max;
        }
        let loss = if r.sent == 0 { 1.0 } else { r.loss_ratio() };
        match self.tried.iter_mut().find(|t| t.load == load) {
            Some(t) => t.losses.push(loss),
            None => self.tried.push(Tried { load, losses: vec![loss] }),
        }
        Ok(())
    }

    /// The lowest upper bound, and the highest lower bound below it.
    fn bounds(&self, goal: &Goal) -> (Option<&Tried>, Option<Rate>) {
        let duration = self.settings.duration;
        let of = |c: Class| self.tried.iter().filter(move |t| t.class(goal, duration) == c);
        let less = |a: &f64, b: &f64| a.total_cmp(b);
        let upper = of(Class::Upper).map(|t| t.load.fps()).min_by(less);
        let lower = of(Class::Lower)
            .filter(|t| upper.is_none_or(|u| t.load.fps() < u))
            .max_by(|a, b| less(&a.load.fps(), &b.load.fps()));
        (lower, upper.and_then(|u| Rate::new(u).ok()))
    }

    /// The next load to try; `None`: the goal is reached.
    fn next(&self, goal: &Goal, steps: &mut i32) -> Option<Rate> {
        let (lower, upper) = self.bounds(goal);
        let (min, max) = (self.settings.min, self.max);
        match (lower.map(|t| t.load), upper) {
            (Some(l), None) if l >= max => None,
            (_, None) => Some(max),
            (None, Some(u)) if u <= min => None,
            (None, Some(u)) => {
                // What got through there is near; then further down, in growing steps.
                let passed = self.tried.iter().find(|t| t.load == u);
                let passed = passed.map_or(0.0, |t| t.conditional_fps(goal));
                let down = u.fps() * (1.0 - goal.width * f64::from(1 << (*steps).min(16)));
                *steps += 1;
                let next = if *steps == 1 && passed < u.fps() { passed.min(down) } else { down };
                let next = Rate::new(next.max(min.fps())).unwrap_or(min);
                Some(next)
            }
            (Some(l), Some(u)) => {
                let narrow = u.fps() - l.fps() <= goal.width * u.fps();
                let middle = Rate::new((l.fps() * u.fps()).sqrt()).ok()?;
                // Numbers end somewhere.
                (!narrow && middle > l && middle < u).then_some(middle)
            }
        }
    }
}

/// Searches all goals.
///
/// # Errors
/// [`Error::Settings`]; [`Error::Trial`] when a trial could not be made.
pub fn mlr<T: Trial>(trial: &mut T, settings: &MlrSettings) -> Result<Mlr, Error<T::Error>> {
    let MlrSettings { min, max, reach, .. } = *settings;
    if min > max {
        return Err(SettingsError::Range { min, max }.into());
    }
    within("the source's reach", reach, (0.0..=1.0).contains(&reach), "a part from 0 to 1")?;
    for g in &settings.goals {
        let part = |x: f64| (0.0..1.0).contains(&x);
        within("a goal's loss ratio", g.loss_ratio, part(g.loss_ratio), "a part from 0 to 1")?;
        within("its exceed ratio", g.exceed_ratio, part(g.exceed_ratio), "a part from 0 to 1")?;
        within("its width", g.width, g.width > 0.0 && g.width < 1.0, "a part above 0, below 1")?;
    }
    let mut search =
        Search { trial, settings, max, short: 0, tried: Vec::new(), trials: Vec::new() };
    let mut order: Vec<usize> = (0..settings.goals.len()).collect();
    let ratio = |n: &usize| settings.goals.get(*n).map_or(0.0, |g| g.loss_ratio);
    order.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    for goal in order.iter().filter_map(|n| settings.goals.get(*n)) {
        let mut steps = 0;
        while search.trials.len() < MOST_TRIALS {
            let Some(load) = search.next(goal, &mut steps) else { break };
            let before = search.max;
            // Until it is one or the other, or the source can't offer it.
            while search.trials.len() < MOST_TRIALS && search.max == before {
                let at = search.tried.iter().find(|t| t.load == load);
                if at.is_some_and(|t| t.class(goal, settings.duration) != Class::Undecided) {
                    break;
                }
                search.run(load)?;
            }
        }
    }
    let bounds = settings.goals.iter().map(|goal| {
        let (lower, upper) = search.bounds(goal);
        Bounds {
            goal: goal.name.clone(),
            lower: lower.map(|t| t.load),
            upper,
            conditional_fps: lower.map(|t| t.conditional_fps(goal)),
        }
    });
    Ok(Mlr { bounds: bounds.collect(), source_fell_short: search.short > 0, trials: search.trials })
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Simulated;
    use super::*;
    use proptest::prelude::*;

    fn settings(max: f64) -> MlrSettings {
        MlrSettings {
            min: Rate::new(1_000.0).unwrap(),
            max: Rate::new(max).unwrap(),
            duration: Duration::from_secs(1),
            reach: 0.99,
            goals: vec![Goal::new("NDR", 0.0), Goal::new("PDR", 0.005)],
        }
    }

    fn lower(m: &Mlr, n: usize) -> f64 {
        m.bounds[n].lower.map_or(0.0, Rate::fps)
    }

    #[test]
    fn classes_are_those_of_the_draft() {
        let goal = Goal::new("", 0.0);
        let of = |good: usize, bad: usize| {
            let losses = [vec![0.0; good], vec![0.1; bad]].concat();
            let t = Tried { load: Rate::new(1.0).unwrap(), losses };
            t.class(&goal, Duration::from_secs(1))
        };
        // Of 21 seconds ten and a half may be bad.
        for (good, bad, want) in [
            (0, 0, Class::Undecided),
            (10, 10, Class::Undecided),
            (10, 0, Class::Undecided),
            (11, 0, Class::Lower),
            (11, 10, Class::Lower),
            (0, 10, Class::Undecided),
            (0, 11, Class::Upper),
            (10, 11, Class::Upper),
        ] {
            assert_eq!(of(good, bad), want, "{good} good, {bad} bad");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_sharp_capacity_is_found_by_both(capacity in 2_000.0..2e6f64) {
            let s = settings(1e6);
            let m = mlr(&mut Simulated::of_capacity(capacity), &s).unwrap();
            if capacity >= 1e6 {
                prop_assert_eq!((lower(&m, 0), m.bounds[0].upper), (1e6, None));
            } else {
                // NDR: the capacity; PDR: what is offered when a 200th of it is lost.
                for (n, want) in [(0, capacity), (1, capacity / 0.995)] {
                    let got = lower(&m, n);
                    let want = want.min(1e6);
                    // Frames are whole: a trial is right to one of them.
                    prop_assert!(got <= want + 1.0, "{got} of {want}");
                    prop_assert!(got >= want * 0.995 - 2.0, "{got} of {want}");
                }
            }
            prop_assert!(lower(&m, 0) <= lower(&m, 1));
            prop_assert!(m.trials.len() < 800, "{}", m.trials.len());
        }
    }

    #[test]
    fn loss_by_chance_spares_the_pdr() {
        // One in a thousand is lost at any rate: no rate is without loss, every rate has less than 0.5 %.
        let m =
            mlr(&mut Simulated::of_capacity(500_000.0).losing(0.001, 7), &settings(1e6)).unwrap();
        assert_eq!(m.bounds[0].lower, None);
        let pdr = lower(&m, 1);
        assert!((0.99..=1.01).contains(&(pdr / 500_000.0)), "{pdr}");
        let forwards = m.bounds[1].conditional_fps.unwrap();
        assert!(forwards < pdr && forwards > pdr * 0.994, "{forwards} of {pdr}");
    }

    #[test]
    fn a_capacity_that_wavers_is_found_in_its_middle() {
        // Within 3 % of half a million: half of the trials lose nothing at the middle.
        let m = mlr(&mut Simulated::of_capacity(500_000.0).noisy(0.03, 3), &settings(1e6)).unwrap();
        let ndr = lower(&m, 0);
        assert!((0.975..=1.015).contains(&(ndr / 500_000.0)), "{ndr}");
    }

    #[test]
    fn a_source_that_falls_short_is_the_limit() {
        let m =
            mlr(&mut Simulated::of_capacity(1e9).fed_at_most(300_000.0), &settings(1e6)).unwrap();
        assert!(m.source_fell_short);
        assert_eq!((lower(&m, 0), m.bounds[0].upper), (300_000.0, None));
        let none =
            MlrSettings { goals: vec![Goal { width: 0.0, ..Goal::new("", 0.0) }], ..settings(1e6) };
        assert!(mlr(&mut Simulated::of_capacity(1.0), &none).is_err());
        assert!(mlr(&mut Simulated::of_capacity(1.0), &settings(10.0)).is_err());
    }
}
