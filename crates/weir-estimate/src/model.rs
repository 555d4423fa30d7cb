//! Models: a network function as a list of elementary operations (002 §3), with tables, parameters,
//! branches and caches in front of tables.
//!
//! Room: what a function does, without a word of any machine. Read from `models/*.toml`; resolved
//! against a [`Library`], which knows the other models and the operations.

use crate::fault::{Fault, unknown};
use crate::formula::{Formula, Unit};
use crate::operation::{Operation, Operations, Where};
use crate::read::{At, Bounds, Section, document};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What every formula of a model may name: the frame's length with its FCS, its payload (without
/// Ethernet's header and FCS: 002's *ps*), the flows of the traffic. No parameter has such a name.
pub const NAMES: &[(&str, Unit)] =
    &[("frame", Unit::Bytes), ("ps", Unit::Bytes), ("flows", Unit::Entries)];

/// Most steps a model may have, branches and their steps included.
const MAX_STEPS: usize = 1000;
/// Most steps a model may have once the models that it uses stand in it.
const MAX_EXPANDED: usize = 10_000;
/// Deepest nesting of branches and models.
pub(crate) const MAX_DEPTH: usize = 16;

/// Operations, each with the one that stands for it.
pub type Stands = Vec<(Arc<str>, Arc<str>)>;

/// A network function.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its name.
    pub name: Arc<str>,
    /// What it does.
    pub about: String,
    /// Where it comes from.
    pub sources: Vec<String>,
    /// The file, for errors.
    pub file: Arc<str>,
    /// What may be set.
    pub parameters: Vec<Setting>,
    /// Operations that a function behind it need not do, since it has done them: what a frame passes
    /// on its way to a function takes it in and sends it, and may look its rules up.
    pub does: Vec<Arc<str>>,
    /// Operations that are done another way behind it: each with the one whose cost is charged.
    pub instead: Stands,
    /// The operation whose cost says (`parallel`) how many frames a core has under way at once in a
    /// function behind it that does not ask ahead.
    pub together: Option<Arc<str>>,
    /// Its tables.
    pub tables: Vec<Table>,
    /// What it does with a frame.
    pub steps: Vec<Step>,
}

/// A parameter of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Its name.
    pub name: Arc<str>,
    /// What it counts.
    pub unit: Unit,
    /// Its value where nobody sets it.
    pub default: f64,
}

/// A table in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: Arc<str>,
    /// How many entries it has room for.
    pub entries: Formula,
    /// Bytes of an entry.
    pub entry: Formula,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An elementary operation.
    Do(Op),
    /// Another model, in its place.
    Use(Arc<str>),
    /// One of several ways, each with its probability.
    Branch(Vec<Arm>),
    /// A cache in front of a table: what is done on a hit, and on a miss (a full lookup, a slow path).
    FlowCache(FlowCache),
}

/// An elementary operation in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// Which.
    pub eo: Arc<str>,
    /// Its arguments.
    pub arguments: Vec<(Arc<str>, Formula)>,
    /// Where its data is.
    pub at: Option<Where>,
    /// The table it touches: a place in [`Model::tables`].
    pub table: Option<usize>,
    /// How often it is done.
    pub times: Formula,
    /// What the paper's total needs in its place.
    pub paper: Option<Box<Op>>,
    /// The pass behind which alone it is done: what the function's program does there beyond its model.
    pub behind: Option<Arc<str>>,
    /// Its line in the file.
    pub line: usize,
}

/// One way of a branch.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// How likely it is; nothing for what the others leave.
    pub probability: Option<Formula>,
    /// What is done.
    pub steps: Vec<Step>,
}

/// A cache of recent flows, as Open vSwitch's microflow cache (002 §4.1.2).
#[derive(Clone, Debug, PartialEq)]
pub struct FlowCache {
    /// Its table: a place in [`Model::tables`].
    pub table: usize,
    /// What finds an entry, hit or miss.
    pub lookup: Vec<Step>,
    /// What is done when it is there.
    pub hit: Vec<Step>,
    /// What is done when it is not.
    pub miss: Vec<Step>,
}

impl Model {
    /// Reads one; `file` is what errors call it.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn read(file: &str, text: &str, operations: &Operations) -> Result<Self, Fault> {
        document(file, text, |top| Reader { operations, top, steps: 0 }.model())
    }
}

struct Reader<'r, 's> {
    operations: &'r Operations,
    top: &'r Section<'s>,
    steps: usize,
}

impl Reader<'_, '_> {
    fn model(mut self) -> Result<Model, Fault> {
        let top = self.top;
        let mut model = Model {
            name: top.need_name("name", "the model's name")?.into(),
            about: top.need_text("about", "what it does, in a line")?,
            sources: top.texts("source")?,
            file: top.file().into(),
            parameters: Vec::new(),
            does: Vec::new(),
            instead: self.instead(top)?,
            together: match top.text("together")? {
                Some(eo) => Some(Arc::clone(&self.known(top, &eo)?.name)),
                None => None,
            },
            tables: Vec::new(),
            steps: Vec::new(),
        };
        for eo in top.texts("does")? {
            if self.operations.get(&eo).is_none() {
                let names = self.operations.names();
                return Err(top.wrong(unknown("operation in 'does'", &eo, names)));
            }
            model.does.push(eo.into());
        }
        if model.sources.is_empty() {
            return Err(top.missing("source", "a list of where the model comes from"));
        }
        if let Some(s) = top.section("parameters")? {
            for key in s.keys() {
                let Some(p) = s.section(&key.value)? else { continue };
                if NAMES.iter().any(|n| n.0 == key.value) {
                    let text =
                        format!("a parameter '{}' would hide what a question says", key.value);
                    return Err(p.wrong(format!("{text}: give it another name")));
                }
                let unit = p.word("unit", Unit::NAMES)?.unwrap_or(Unit::Pure);
                let default = p.need_number("default", Bounds::NotNegative)?;
                p.text("about")?;
                p.finish()?;
                model.parameters.push(Setting { name: key.value.into(), unit, default });
            }
        }
        for s in top.sections("table")? {
            let name: Arc<str> = s.need_name("name", "the table's name")?.into();
            if model.tables.iter().any(|t| t.name == name) {
                return Err(s.wrong(format!("table '{name}' is there already")));
            }
            let entries = s.formula("entries")?;
            let entries =
                entries.ok_or_else(|| s.missing("entries", "how many it has room for"))?;
            let entry = s.formula("entry_bytes")?;
            let entry = entry.ok_or_else(|| s.missing("entry_bytes", "the bytes of an entry"))?;
            check(&s, &model, &entries, Unit::Entries, "entries")?;
            check(&s, &model, &entry, Unit::Bytes, "entry_bytes")?;
            s.finish()?;
            model.tables.push(Table { name, entries: entries.value, entry: entry.value });
        }
        model.steps = self.steps(top, "steps", &model, 0)?;
        if model.steps.is_empty() {
            return Err(top.missing("steps", "a list of operations"));
        }
        Ok(model)
    }

    /// An operation that is named.
    fn known(&self, s: &Section<'_>, eo: &At<String>) -> Result<&Operation, Fault> {
        self.operations.get(&eo.value).ok_or_else(|| {
            let text = unknown("operation", &eo.value, self.operations.names());
            s.fault(&eo.span, text)
        })
    }

    /// Operations and what stands for them, which must want nothing that they have not.
    fn instead(&self, top: &Section<'_>) -> Result<Stands, Fault> {
        let Some(s) = top.section("as")? else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for key in s.keys() {
            let of = self.known(&s, &key)?;
            let Some(by) = s.text(&key.value)? else { continue };
            let by_operation = self.known(&s, &by)?;
            for p in &by_operation.parameters {
                if !of.parameters.iter().any(|q| q.name == p.name && q.unit == p.unit) {
                    let text = format!(
                        "{} wants '{}' in {}, which {} has not",
                        by.value,
                        p.name,
                        p.unit.name(),
                        key.value
                    );
                    return Err(s.fault(&by.span, text));
                }
            }
            all.push((Arc::clone(&of.name), Arc::clone(&by_operation.name)));
        }
        s.finish()?;
        Ok(all)
    }

    fn steps(
        &mut self,
        s: &Section<'_>,
        key: &str,
        model: &Model,
        depth: usize,
    ) -> Result<Vec<Step>, Fault> {
        if depth > MAX_DEPTH {
            return Err(s.wrong(format!("branches nest deeper than {MAX_DEPTH}")));
        }
        let list = s.sections(key)?;
        self.steps += list.len();
        if self.steps > MAX_STEPS {
            return Err(s.wrong(format!("more than {MAX_STEPS} steps")));
        }
        list.iter().map(|s| self.step(s, model, depth)).collect()
    }

    fn step(&mut self, s: &Section<'_>, model: &Model, depth: usize) -> Result<Step, Fault> {
        let step = if let Some(name) = s.text("use")? {
            Step::Use(name.value.into())
        } else if s.has("branch") {
            let mut arms = Vec::new();
            for arm in s.sections("branch")? {
                let probability = arm.formula("probability")?;
                if let Some(p) = &probability {
                    check(&arm, model, p, Unit::Pure, "probability")?;
                }
                let steps = self.steps(&arm, "steps", model, depth + 1)?;
                arm.finish()?;
                arms.push(Arm { probability: probability.map(|p| p.value), steps });
            }
            if arms.is_empty() {
                return Err(s.wrong("a branch has no way: one at least"));
            }
            if arms.iter().filter(|a| a.probability.is_none()).count() > 1 {
                return Err(s.wrong("two ways of a branch without 'probability': one at most"));
            }
            Step::Branch(arms)
        } else if let Some(table) = s.text("flow_cache")? {
            Step::FlowCache(FlowCache {
                table: table_of(s, model, &table)?,
                lookup: self.steps(s, "lookup", model, depth + 1)?,
                hit: self.steps(s, "hit", model, depth + 1)?,
                miss: self.steps(s, "miss", model, depth + 1)?,
            })
        } else if s.has("eo") {
            Step::Do(self.op(s, model, None)?)
        } else {
            return Err(s.wrong("a step is one of 'eo', 'use', 'branch', 'flow_cache'"));
        };
        s.finish()?;
        Ok(step)
    }

    fn op(&self, s: &Section<'_>, model: &Model, base: Option<&Op>) -> Result<Op, Fault> {
        let eo: Arc<str> = match (s.text("eo")?, base) {
            (Some(eo), _) => {
                if self.operations.get(&eo.value).is_none() {
                    let text = unknown("operation", &eo.value, self.operations.names());
                    return Err(s.fault(&eo.span, text));
                }
                eo.value.into()
            }
            (None, Some(base)) => Arc::clone(&base.eo),
            (None, None) => return Err(s.missing("eo", "an elementary operation")),
        };
        let Some(operation) = self.operations.get(&eo) else {
            return Err(s.wrong(unknown("operation", &eo, self.operations.names())));
        };
        let table = match s.text("table")? {
            Some(t) => Some(table_of(s, model, &t)?),
            None => base.and_then(|b| b.table),
        };
        let mut arguments = Vec::new();
        for p in &operation.parameters {
            let of_base = || base?.arguments.iter().find(|a| a.0 == p.name).map(|a| a.1.clone());
            let of_table = || {
                let t = model.tables.get(table?)?;
                match &*p.name {
                    "HE" | "es" => Some(t.entry.clone()),
                    "max" => Some(t.entries.clone()),
                    _ => None,
                }
            };
            let value = match s.formula(&p.name)? {
                Some(f) => {
                    check(s, model, &f, p.unit, &p.name)?;
                    f.value
                }
                None => match of_base().or_else(of_table).or(p.default.map(Formula::number)) {
                    Some(f) => f,
                    None => {
                        let what = format!("{} of {eo}, in {}", p.name, p.unit.name());
                        return Err(s.missing(&p.name, &what));
                    }
                },
            };
            arguments.push((Arc::clone(&p.name), value));
        }
        let times = s.formula("times")?;
        if let Some(t) = &times {
            check(s, model, t, Unit::Pure, "times")?;
        }
        let times = times.map(|t| t.value);
        let at = s.word("at", Where::NAMES)?.or_else(|| base.and_then(|b| b.at));
        let mut op = Op {
            eo,
            arguments,
            at,
            table,
            times: times
                .or_else(|| base.map(|b| b.times.clone()))
                .unwrap_or_else(|| Formula::number(1.0)),
            paper: None,
            behind: s.text("behind")?.map(|t| t.value.into()),
            line: s.wrong("").place.map_or(0, |p| p.0),
        };
        if base.is_none()
            && let Some(p) = s.section("paper")?
        {
            op.paper = Some(Box::new(self.op(&p, model, Some(&op))?));
            p.finish()?;
        }
        Ok(op)
    }
}

/// The place of a table in a model.
fn table_of(s: &Section<'_>, model: &Model, name: &At<String>) -> Result<usize, Fault> {
    model.tables.iter().position(|t| *t.name == *name.value).ok_or_else(|| {
        let known: Vec<&str> = model.tables.iter().map(|t| &*t.name).collect();
        s.fault(&name.span, unknown("table", &name.value, known.into_iter()))
    })
}

/// That a formula names what there is, counts what it must, and is not below zero.
fn check(
    s: &Section<'_>,
    model: &Model,
    formula: &At<Formula>,
    unit: Unit,
    key: &str,
) -> Result<(), Fault> {
    let of = |name: &str| {
        let setting = model.parameters.iter().find(|p| *p.name == *name).map(|p| p.unit);
        setting.or_else(|| NAMES.iter().find(|n| n.0 == name).map(|n| n.1))
    };
    let mut strange = None;
    formula.value.names(&mut |n| {
        if of(n).is_none() {
            strange.get_or_insert(n);
        }
    });
    if let Some(name) = strange {
        let settings = model.parameters.iter().map(|p| &*p.name);
        let known: Vec<&str> = settings.chain(NAMES.iter().map(|n| n.0)).collect();
        let text = unknown("name", name, known.into_iter());
        return Err(s.fault(&formula.span, format!("{key}: {text}")));
    }
    match formula.value.unit(&of) {
        Ok(Some(u)) if u != unit => {
            let text =
                format!("{key} is in {}, and '{}' in {}", unit.name(), formula.value, u.name());
            Err(s.fault(&formula.span, format!("units disagree: {text}")))
        }
        Ok(_) => match formula.value.constant() {
            Some(n) if !(0.0..1e18).contains(&n) => {
                Err(s
                    .fault(&formula.span, format!("{key} = {n}: expected {}", Bounds::NotNegative)))
            }
            _ => Ok(()),
        },
        Err(e) => Err(s.fault(&formula.span, format!("{key}: {e}"))),
    }
}

/// The operations and the models that know each other.
#[derive(Clone, Debug, Default)]
pub struct Library {
    operations: Operations,
    models: BTreeMap<Arc<str>, Model>,
}

impl Library {
    /// With these operations, and no models yet.
    pub fn new(operations: Operations) -> Self {
        Self { operations, models: BTreeMap::new() }
    }

    /// The operations.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Reads a model, which replaces one of the same name, and returns its name.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn add(&mut self, file: &str, text: &str) -> Result<Arc<str>, Fault> {
        let model = Model::read(file, text, &self.operations)?;
        let name = Arc::clone(&model.name);
        self.models.insert(Arc::clone(&name), model);
        Ok(name)
    }

    /// A model, once all that it uses is known to be there and not to lead back to it.
    ///
    /// # Errors
    /// Unknown models, with the nearest known name; models that use themselves.
    pub fn model(&self, name: &str) -> Result<&Model, Fault> {
        let Some(model) = self.models.get(name) else {
            return Err(Fault::new("model", unknown("network function", name, self.names())));
        };
        let mut budget = MAX_EXPANDED;
        self.walk(model, &model.steps, &mut vec![&model.name], &mut budget)?;
        Ok(model)
    }

    /// A model that is there.
    pub fn get(&self, name: &str) -> Option<&Model> {
        self.models.get(name)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.models.keys().map(|k| &**k)
    }

    /// All models, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Model> {
        self.models.values()
    }

    fn walk<'a>(
        &'a self,
        model: &'a Model,
        steps: &'a [Step],
        way: &mut Vec<&'a Arc<str>>,
        budget: &mut usize,
    ) -> Result<(), Fault> {
        for step in steps {
            // Models that use models may multiply beyond any memory.
            *budget = budget.checked_sub(1).ok_or_else(|| {
                Fault::new(&model.file, format!("use: more than {MAX_EXPANDED} steps in all"))
            })?;
            match step {
                Step::Do(op) => {
                    if let Some(b) = op.behind.as_ref().filter(|b| !self.models.contains_key(*b)) {
                        let text = unknown("model", b, self.names());
                        let at = Fault::new(&model.file, format!("behind: {text}"));
                        return Err(Fault { place: Some((op.line, 1)), ..at });
                    }
                }
                Step::Branch(arms) => {
                    for arm in arms {
                        self.walk(model, &arm.steps, way, budget)?;
                    }
                }
                Step::FlowCache(c) => {
                    for steps in [&c.lookup, &c.hit, &c.miss] {
                        self.walk(model, steps, way, budget)?;
                    }
                }
                Step::Use(name) => {
                    let Some(used) = self.models.get(name) else {
                        let text = unknown("model", name, self.names());
                        return Err(Fault::new(&model.file, format!("use: {text}")));
                    };
                    let cycle = way.contains(&name);
                    way.push(name);
                    if cycle || way.len() > MAX_DEPTH {
                        let way: Vec<&str> = way.iter().map(|n| &***n).collect();
                        let what = if cycle { "a cycle" } else { "models that nest too deep" };
                        let text = format!("use: {what}: {}", way.join(" → "));
                        return Err(Fault::new(&model.file, text));
                    }
                    self.walk(used, &used.steps, way, budget)?;
                    way.pop();
                }
            }
        }
        Ok(())
    }
}
