//! How long what leaves a function is: `prepend` makes a frame longer and `strip` shorter, each way through the
//! model by itself.
//!
//! Room: a model's steps. Called by the estimators, for what links and buses carry in either direction.

use super::expand::{HitRate, branches, value};
use super::{ETHERNET_BYTES, FRAME_BYTES, Question};
use crate::fault::Fault;
use crate::model::{Library, Model, Op, Step};

/// What writes bytes in front of a frame, and what takes them off.
const CHANGES: [(&str, f64); 2] = [("prepend", 1.0), ("strip", -1.0)];

/// Most ways that are told apart; beyond, a step's are taken for one.
const MOST: usize = 256;

/// A frame on its way in, and as it leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lengths {
    /// Bytes of a frame as it comes in, FCS included.
    pub comes: f64,
    /// Bytes of a frame as it leaves, on average over the model's ways.
    pub leaves: f64,
    /// The most bytes that a way takes off a frame before any are written in front of it.
    pub stripped: f64,
}

/// One way through a model's steps.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    /// The part of the frames that goes it.
    part: f64,
    /// Bytes that a frame is longer behind it.
    grows: f64,
    /// Bytes of it that are gone where most are.
    stripped: f64,
}

const UNCHANGED: Way = Way { part: 1.0, grows: 0.0, stripped: 0.0 };

impl Lengths {
    /// Those of a model's frames. What a model does only behind a pass is done to the frame all the same: without
    /// the pass it is in what copies it.
    pub(super) fn of(
        library: &Library,
        model: &Model,
        question: &Question,
        hit_rate: &HitRate<'_>,
    ) -> Result<Self, Fault> {
        let reader = Reader { library, question, hit_rate };
        let ways = reader.steps(model, &model.steps)?;
        let comes = f64::from(question.frame);
        let leaves = |w: &Way| w.part * longer(comes, w.grows);
        Ok(Self {
            comes,
            leaves: ways.iter().map(leaves).sum(),
            stripped: ways.iter().map(|w| w.stripped).fold(0.0, f64::max),
        })
    }

    /// Frames that nothing changes.
    pub fn unchanged(frame: u32) -> Self {
        let comes = f64::from(frame);
        Self { comes, leaves: comes, stripped: 0.0 }
    }

    /// A frame's that passes one after the other.
    pub fn through<'l>(frame: u32, all: impl Iterator<Item = &'l Lengths>) -> Self {
        let comes = f64::from(frame);
        let grows = all.map(|l| l.leaves - l.comes).sum();
        Self { comes, leaves: longer(comes, grows), stripped: 0.0 }
    }

    /// Says so where a frame is too short to have what is taken off it.
    pub(super) fn too_short(self, model: &Model) -> Option<String> {
        let least = self.stripped + ETHERNET_BYTES;
        (self.stripped > 0.0 && self.comes < least).then(|| {
            format!(
                "{} takes {} bytes off a frame, and one of {} has not so many before its own Ethernet header: \
                 the shortest that can come in has {least}",
                model.name, self.stripped, self.comes
            )
        })
    }
}

/// A frame's length behind what makes it longer or shorter: none on the wire is shorter than Ethernet's shortest.
fn longer(frame: f64, grows: f64) -> f64 {
    (frame + grows).max(f64::from(FRAME_BYTES.0))
}

struct Reader<'r> {
    library: &'r Library,
    question: &'r Question,
    hit_rate: &'r HitRate<'r>,
}

impl Reader<'_> {
    fn steps(&self, model: &Model, steps: &[Step]) -> Result<Vec<Way>, Fault> {
        let mut ways = vec![UNCHANGED];
        for step in steps {
            let next = match step {
                Step::Do(op) => self.op(model, op)?,
                Step::Use(name) => match self.library.get(name) {
                    Some(used) => self.steps(used, &used.steps)?,
                    None => continue,
                },
                Step::Branch(arms) => {
                    let mut all = Vec::new();
                    for (arm, part) in arms.iter().zip(branches(model, self.question, arms)?) {
                        all.extend(parts(self.steps(model, &arm.steps)?, part));
                    }
                    all
                }
                Step::FlowCache(c) => {
                    let hit = (self.hit_rate)(model, c.table)?;
                    let found = then(self.steps(model, &c.lookup)?, &self.steps(model, &c.hit)?);
                    let not = then(self.steps(model, &c.lookup)?, &self.steps(model, &c.miss)?);
                    parts(found, hit).chain(parts(not, 1.0 - hit)).collect()
                }
            };
            ways = then(ways, &next);
        }
        Ok(ways)
    }

    fn op(&self, model: &Model, op: &Op) -> Result<Vec<Way>, Fault> {
        let Some((_, sign)) = CHANGES.iter().find(|c| *c.0 == *op.eo) else {
            return Ok(vec![UNCHANGED]);
        };
        let Some((_, b)) = op.arguments.iter().find(|a| *a.0 == *"b") else {
            return Ok(vec![UNCHANGED]);
        };
        let bytes = value(model, self.question, b)? * value(model, self.question, &op.times)?;
        let grows = sign * bytes;
        Ok(vec![Way { part: 1.0, grows, stripped: (-grows).max(0.0) }])
    }
}

/// Of these frames so large a part.
fn parts(ways: Vec<Way>, part: f64) -> impl Iterator<Item = Way> {
    ways.into_iter().map(move |w| Way { part: w.part * part, ..w }).filter(|w| w.part > 0.0)
}

/// First these ways, then those.
fn then(first: Vec<Way>, next: &[Way]) -> Vec<Way> {
    if let [n] = next
        && *n == UNCHANGED
    {
        return first;
    }
    let mut all: Vec<Way> = Vec::new();
    for (a, b) in first.iter().flat_map(|a| next.iter().map(move |b| (a, b))) {
        let way = Way {
            part: a.part * b.part,
            grows: a.grows + b.grows,
            stripped: a.stripped.max(b.stripped - a.grows),
        };
        match all.iter_mut().find(|w| w.grows == way.grows && w.stripped == way.stripped) {
            Some(same) => same.part += way.part,
            None => all.push(way),
        }
    }
    if all.len() <= MOST {
        return all;
    }
    let part: f64 = all.iter().map(|w| w.part).sum();
    let grows = all.iter().map(|w| w.part * w.grows).sum::<f64>() / part;
    vec![Way { part, grows, stripped: all.iter().map(|w| w.stripped).fold(0.0, f64::max) }]
}
