//! A model as one list: models that it uses in their place, branches weighted by their probability,
//! arguments computed.
//!
//! Room: models alone; no cost is known here. Called by `paper` and `full`.

use super::{ETHERNET_BYTES, Mode, Question};
use crate::fault::{Fault, unknown};
use crate::formula::Formula;
use crate::model::{Arm, Library, Model, Op, Step};
use crate::operation::{Operation, Where};
use crate::profile::Profile;
use std::sync::Arc;

/// An operation with its arguments, as often as it is done.
#[derive(Clone, Debug)]
pub(super) struct Done<'m> {
    /// The model it stands in.
    pub model: &'m Model,
    /// The operation, as the model has it.
    pub op: &'m Op,
    /// The operation, as the catalogue has it.
    pub operation: &'m Operation,
    /// Its arguments.
    pub arguments: Vec<(Arc<str>, f64)>,
    /// How often for a frame.
    pub times: f64,
    /// Where its data is.
    pub at: Where,
    /// The operation whose cost says how many frames are under way at once in it, where not a whole
    /// burst is.
    pub together: Option<Arc<str>>,
    /// The operation that stands for it behind a pass.
    pub instead: Option<Arc<str>>,
}

impl Done<'_> {
    /// The operation that is charged: the one that stands for it, where the profile knows that.
    pub fn eo(&self, profile: &Profile) -> &Arc<str> {
        self.instead.as_ref().filter(|i| profile.costs.contains_key(*i)).unwrap_or(&self.op.eo)
    }
}

/// The part of the frames that finds its flow in a cache: the model, and the place of its table.
pub(super) type HitRate<'a> = dyn Fn(&Model, usize) -> Result<f64, Fault> + 'a;

/// The model as one list.
pub(super) fn expand<'m>(
    library: &'m Library,
    model: &'m Model,
    question: &Question,
    hit_rate: &HitRate<'_>,
) -> Result<Vec<Done<'m>>, Fault> {
    let mut e = Expander { library, question, hit_rate, done: Vec::new() };
    e.steps(model, &model.steps, 1.0)?;
    check_settings(&e.done, model, question)?;
    e.done.retain(|d| d.op.behind.is_none());
    Ok(e.done)
}

/// The model as one list, behind what frames pass on their way to it.
pub(super) fn passed<'m>(
    library: &'m Library,
    model: &'m Model,
    question: &Question,
    hit_rate: &HitRate<'_>,
) -> Result<Vec<Done<'m>>, Fault> {
    let Some(name) = &question.through else {
        return expand(library, model, question, hit_rate);
    };
    let pass = library.model(name)?;
    let mut e = Expander { library, question, hit_rate, done: Vec::new() };
    e.steps(pass, &pass.steps, 1.0)?;
    // What a pass does not do for these frames needs no cost.
    e.done.retain(|d| d.times > 0.0);
    let first = e.done.len();
    e.steps(model, &model.steps, 1.0)?;
    check_settings(&e.done, model, question)?;
    let mut at = 0;
    e.done.retain(|d| {
        at += 1;
        let here = d.op.behind.as_ref().is_none_or(|b| *b == pass.name);
        at <= first || here && !pass.does.contains(&d.op.eo)
    });
    for d in e.done.iter_mut().skip(first) {
        if d.at != Where::Ahead {
            d.together.clone_from(&pass.together);
        }
        d.instead = pass.instead.iter().find(|i| i.0 == d.op.eo).map(|i| Arc::clone(&i.1));
    }
    Ok(e.done)
}

/// That every setting is a parameter of a model that is used.
fn check_settings(done: &[Done<'_>], top: &Model, question: &Question) -> Result<(), Fault> {
    for (name, value) in &question.settings {
        let models = || std::iter::once(top).chain(done.iter().map(|d| d.model));
        let mut known: Vec<&str> =
            models().flat_map(|m| m.parameters.iter().map(|p| &*p.name)).collect();
        known.sort_unstable();
        known.dedup();
        if !known.contains(&name.as_str()) {
            let text = unknown("parameter", name, known.into_iter());
            return Err(Fault::new(&top.file, text));
        }
        if !(0.0..1e18).contains(value) {
            return Err(Fault::new(&top.file, format!("{name} = {value}: expected 0 to 1e18")));
        }
    }
    Ok(())
}

/// The value of one of a model's formulas.
pub(super) fn value(model: &Model, question: &Question, formula: &Formula) -> Result<f64, Fault> {
    let names = |name: &str| {
        let given = question.settings.iter().rev().find(|s| s.0 == name).map(|s| s.1);
        if let Some(p) = model.parameters.iter().find(|p| *p.name == *name) {
            return Some(given.unwrap_or(p.default));
        }
        match name {
            "frame" => Some(f64::from(question.frame)),
            "ps" => Some(f64::from(question.frame) - ETHERNET_BYTES),
            "flows" => question.traffic.as_ref().map(|t| t.flows),
            _ => None,
        }
    };
    let wrong = |text: String| Fault::new(&model.file, text);
    let value = formula.value(&names).map_err(|e| match e {
        crate::formula::Wrong::Unknown(n) if *n == *"flows" => {
            wrong(format!("'{formula}' needs traffic: give it, as in zipf:1.1,flows=1M"))
        }
        e => wrong(e.to_string()),
    })?;
    if (0.0..1e18).contains(&value) {
        Ok(value)
    } else {
        Err(wrong(format!("'{formula}' is {value}: expected 0 to 1e18")))
    }
}

/// The part of the frames that goes each way.
pub(super) fn branches(
    model: &Model,
    question: &Question,
    arms: &[Arm],
) -> Result<Vec<f64>, Fault> {
    let mut left = 1.0;
    let mut parts = Vec::new();
    for arm in arms {
        let p = arm.probability.as_ref().map(|p| value(model, question, p)).transpose()?;
        left -= p.unwrap_or(0.0);
        parts.push(p);
    }
    // Probabilities that are tenths don't add up to 1 in binary.
    const SLACK: f64 = 1e-9;
    if left < -SLACK {
        let text = format!("branch: probabilities add up to {}: expected 1 at most", 1.0 - left);
        return Err(Fault::new(&model.file, text));
    }
    Ok(parts.into_iter().map(|p| p.unwrap_or(left.max(0.0))).collect())
}

/// Bytes of the tables of all models in a list.
pub(super) fn table_bytes(done: &[Done<'_>], question: &Question) -> Result<f64, Fault> {
    let mut seen: Vec<&Arc<str>> = Vec::new();
    let mut bytes = 0.0;
    for d in done {
        if seen.contains(&&d.model.name) {
            continue;
        }
        seen.push(&d.model.name);
        for t in &d.model.tables {
            bytes += value(d.model, question, &t.entries)? * value(d.model, question, &t.entry)?;
        }
    }
    Ok(bytes)
}

struct Expander<'m, 'q> {
    library: &'m Library,
    question: &'q Question,
    hit_rate: &'q HitRate<'q>,
    done: Vec<Done<'m>>,
}

impl<'m> Expander<'m, '_> {
    fn steps(&mut self, model: &'m Model, steps: &'m [Step], times: f64) -> Result<(), Fault> {
        for step in steps {
            match step {
                Step::Do(op) => self.op(model, op, times)?,
                Step::Use(name) => {
                    let used = self.library.get(name);
                    let used = used.ok_or_else(|| {
                        let text = unknown("model", name, self.library.names());
                        Fault::new(&model.file, text)
                    })?;
                    self.steps(used, &used.steps, times)?;
                }
                Step::Branch(arms) => self.branch(model, arms, times)?,
                Step::FlowCache(c) => {
                    let hit = (self.hit_rate)(model, c.table)?;
                    self.steps(model, &c.lookup, times)?;
                    self.steps(model, &c.hit, times * hit)?;
                    self.steps(model, &c.miss, times * (1.0 - hit))?;
                }
            }
        }
        Ok(())
    }

    fn branch(&mut self, model: &'m Model, arms: &'m [Arm], times: f64) -> Result<(), Fault> {
        for (arm, part) in arms.iter().zip(branches(model, self.question, arms)?) {
            self.steps(model, &arm.steps, times * part)?;
        }
        Ok(())
    }

    fn op(&mut self, model: &'m Model, op: &'m Op, times: f64) -> Result<(), Fault> {
        let op = match (&op.paper, self.question.mode) {
            (Some(paper), Mode::Paper) => paper,
            _ => op,
        };
        let operations = self.library.operations();
        let operation = operations.get(&op.eo).ok_or_else(|| {
            Fault::new(&model.file, unknown("operation", &op.eo, operations.names()))
        })?;
        let times = times * value(model, self.question, &op.times)?;
        let mut arguments = Vec::with_capacity(op.arguments.len());
        for (name, formula) in &op.arguments {
            arguments.push((Arc::clone(name), value(model, self.question, formula)?));
        }
        let at = op.at.unwrap_or(operation.at);
        let (together, instead) = (None, None);
        let done = Done { model, op, operation, arguments, times, at, together, instead };
        self.done.push(done);
        Ok(())
    }
}
