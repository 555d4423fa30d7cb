//! Modules at run time: a measurement written as a script (rhai), run without building weir anew. 001 §2.
//!
//! Room: between a file of text and [`crate::module`]'s contract. A script gets the same events as a compiled
//! module, acts by the same calls, has parameters of the same kinds and writes into the same document; it
//! touches nothing else: no files, sockets, clocks, other scripts.
//!
//! - [`Script`]: a file that was read; [`Script::make`] makes a module of it. [`about`]: what it says of itself.
//! - `desk`: what handlers act by (`cx`); `rules`: flow_mods and probes from maps; `told`: events as maps;
//!   `paper`: what `finish` writes into (`doc`); `handlers`: the module itself.
//! - [`bounds`]: what a script may use. Past that it fails, in one line with its file and line.
//!
//! `docs/guide/measure.md` lists handlers and calls.

pub mod about;
pub mod bounds;
mod desk;
mod handlers;
mod paper;
mod rules;
mod told;

use crate::module::{About, Entry, Module, Params};
use rhai::{AST, Dynamic, Engine, EvalAltResult, Map, Position};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use weir_io::file::trouble;

/// How a script's file name ends.
pub const EXTENSION: &str = "rhai";
/// The longest script, in bytes.
const LONGEST: u64 = 1 << 20;

/// Why a script can't be a module.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ScriptError(String);

/// A script that was read.
#[derive(Clone, Debug)]
pub struct Script {
    body: Arc<Body>,
    about: About,
}

struct Body {
    /// As errors name it.
    name: String,
    engine: Engine,
    ast: AST,
    handlers: BTreeSet<String>,
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a script may define: its name, and how many arguments it takes.
const HANDLERS: [(&str, usize); 12] = [
    ("about", 0),
    ("takes", 1),
    ("start", 1),
    ("written", 3),
    ("message", 2),
    ("frame", 2),
    ("timer", 2),
    ("sample", 2),
    ("load_done", 2),
    ("unanswered", 2),
    ("connection", 3),
    ("finish", 1),
];

impl Script {
    /// Reads a file.
    ///
    /// # Errors
    /// It can't be read, or [`Script::read`]'s.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let at = |e: &dyn std::fmt::Display| ScriptError(format!("{}: {e}", path.display()));
        let size = std::fs::metadata(path).map_err(|e| at(&trouble(&e)))?.len();
        if size > LONGEST {
            return Err(at(&format!("longer than {LONGEST} bytes")));
        }
        let text = std::fs::read_to_string(path).map_err(|e| at(&trouble(&e)))?;
        Self::read(&path.display().to_string(), &text)
    }

    /// Reads a script; `name` is what errors call it.
    ///
    /// # Errors
    /// In one line with name and line: it can't be parsed, lacks a function, or says of itself what can't be.
    pub fn read(name: &str, text: &str) -> Result<Self, ScriptError> {
        let mut engine = bounds::engine();
        desk::register(&mut engine);
        paper::register(&mut engine);
        let ast = engine
            .compile(text)
            .map_err(|e| ScriptError(said(name, e.position(), &e.err_type().to_string())))?;
        let mut handlers = BTreeSet::new();
        for f in ast.iter_functions() {
            let Some((_, takes)) = HANDLERS.iter().find(|h| h.0 == f.name) else { continue };
            if f.params.len() != *takes {
                return Err(ScriptError(format!(
                    "{name}: function '{}' takes {takes} arguments, not {}",
                    f.name,
                    f.params.len()
                )));
            }
            handlers.insert(f.name.to_owned());
        }
        for needed in ["about", "start", "finish"] {
            if !handlers.contains(needed) {
                return Err(ScriptError(format!("{name}: there is no function '{needed}'")));
            }
        }
        let body = Body { name: name.to_owned(), engine, ast, handlers };
        let map: Map = body
            .call("about", &mut nobody(), Vec::new())
            .map_err(ScriptError)?
            .try_cast()
            .ok_or_else(|| ScriptError(format!("{name}: 'about' must return a map: #{{ … }}")))?;
        let about = about::read(map).map_err(|why| ScriptError(format!("{name}: about: {why}")))?;
        // Defaults outside their own ranges are the script's mistake.
        for depth in [crate::module::Depth::Full, crate::module::Depth::Quick] {
            Params::defaults(&about, depth).map_err(|e| ScriptError(format!("{name}: {e}")))?;
        }
        Ok(Self { body: Arc::new(body), about })
    }

    /// What it is.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// A module of it.
    pub fn make(&self, params: &Params) -> Box<dyn Module> {
        Box::new(handlers::Scripted::new(Arc::clone(&self.body), params))
    }

    /// The same as weir's own modules are listed.
    pub fn entry(self) -> Entry {
        Entry::new(self.about.clone(), move |params| self.make(params))
    }
}

/// The state of functions that have none.
fn nobody() -> Dynamic {
    Dynamic::UNIT
}

impl Body {
    fn has(&self, handler: &str) -> bool {
        self.handlers.contains(handler)
    }

    /// Calls a function of the script; what went wrong in one line.
    fn call(
        &self,
        handler: &str,
        state: &mut Dynamic,
        arguments: Vec<Dynamic>,
    ) -> Result<Dynamic, String> {
        let work = || {
            let options = rhai::CallFnOptions::new().bind_this_ptr(state).eval_ast(false);
            let mut scope = rhai::Scope::new();
            self.engine.call_fn_with_options(options, &mut scope, &self.ast, handler, arguments)
        };
        // A mistake in the interpreter must not take the switch's table with it.
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(e)) => Err(format!("{} (in '{handler}')", in_words(&self.name, &e))),
            Err(_) => Err(format!("{}: '{handler}' broke the interpreter", self.name)),
        }
    }

    /// How long the script says that it takes, in seconds.
    fn takes(&self, params: Map) -> Option<Duration> {
        if !self.has("takes") {
            return None;
        }
        let value = self.call("takes", &mut nobody(), vec![params.into()]).ok()?;
        let seconds = value.as_float().or_else(|_| value.as_int().map(|n| n as f64)).ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// An error with the script's name and line.
fn in_words(name: &str, e: &EvalAltResult) -> String {
    // Where a function of the script called another, what went wrong is innermost.
    let mut inner = e;
    while let EvalAltResult::ErrorInFunctionCall(.., cause, _) = inner {
        inner = cause;
    }
    let what = match inner {
        EvalAltResult::ErrorTooManyOperations(_) => {
            format!("more than {} operations at once", bounds::OPERATIONS)
        }
        // Without the position that it adds.
        EvalAltResult::ErrorRuntime(text, _) => text.to_string(),
        other => {
            let mut bare = other.to_string();
            if let Some(at) = bare.rfind(" (line ") {
                bare.truncate(at);
            }
            bare
        }
    };
    said(name, inner.position(), &what)
}

fn said(name: &str, at: Position, what: &str) -> String {
    let what: String =
        what.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    match at.line() {
        Some(line) => format!("{name}:{line}: {what}"),
        None => format!("{name}: {what}"),
    }
}

#[cfg(test)]
mod tests;
