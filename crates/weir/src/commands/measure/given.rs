//! What the user gave: the module (its name, or a script), its parameters from a file and the command line.

use crate::config::error::{nearest, toml_says};
use crate::fault::{self, bad_input};
use anyhow::Result;
use std::path::Path;
use weir_measure::module::traffic::Traffic;
use weir_measure::module::{Depth, Entry, Params};
use weir_measure::modules;
use weir_measure::script::{self, Script, ScriptError};

/// The module of that name, or of that script.
///
/// # Errors
/// There is none, or it can't be a module.
pub fn entry(name: &str) -> Result<Entry> {
    if is_script(Path::new(name)) {
        return Script::load(Path::new(name)).map(Script::entry).map_err(bad_input);
    }
    modules::find(name).ok_or_else(|| {
        let all = modules::all();
        let names = || all.iter().map(|e| e.about.name.as_str());
        let near = nearest(name, names());
        let near = near.map_or_else(String::new, |n| format!(" (did you mean '{n}'?)"));
        let known = names().collect::<Vec<_>>().join(", ");
        bad_input(format!("no module '{name}'{near}: there are {known}; or give a script: x.rhai"))
    })
}

/// Whether a path is a script's, by how it ends.
fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == script::EXTENSION)
}

/// The scripts of a directory, by name; what can't be a module is told beside those that can.
///
/// # Errors
/// The directory can't be read.
pub fn scripts(directory: &Path) -> Result<Vec<Result<Entry, ScriptError>>> {
    let at = |e: std::io::Error| fault::file(directory.display(), &e);
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .map_err(at)?
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| is_script(p))
        .collect();
    paths.sort();
    Ok(paths.iter().map(|p| Script::load(p).map(Script::entry)).collect())
}

/// Its parameters: defaults, then the file's, then the command line's.
pub fn params(
    entry: &Entry,
    depth: Depth,
    config: Option<&Path>,
    set: &[String],
) -> Result<Params> {
    let mut params = Params::defaults(&entry.about, depth)?;
    if let Some(path) = config {
        let at = |e: &dyn std::fmt::Display| bad_input(format!("{}: {e}", path.display()));
        for (name, value) in from_file(path, &entry.about.name)? {
            params.set(&name, &value).map_err(|e| at(&e))?;
        }
    }
    for text in set {
        let Some((name, value)) = text.split_once('=') else {
            return Err(bad_input(format!("--set {text}: give NAME=VALUE")));
        };
        params.set(name.trim(), value).map_err(|e| bad_input(format!("--set {text}: {e}")))?;
    }
    Ok(params)
}

/// The description of traffic: what stands in the file of that name, or else the text itself.
pub fn traffic(given: &str) -> Result<Traffic> {
    let bad = |e: &dyn std::fmt::Display| bad_input(format!("--traffic {given}: {e}"));
    let text = if given.contains('=') {
        given.to_owned()
    } else {
        std::fs::read_to_string(given)
            .map_err(|e| fault::file(format_args!("--traffic {given}"), &e))?
    };
    Traffic::read(&text).map_err(|e| bad(&e))
}

/// The table of one module: names and values as text. Tables of other modules must be modules' too.
fn from_file(path: &Path, module: &str) -> Result<Vec<(String, String)>> {
    let at = |e: &dyn std::fmt::Display| bad_input(format!("{}: {e}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| fault::file(path.display(), &e))?;
    let all: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let before = e.span().and_then(|s| text.get(..s.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        at(&format!("line {line}: {}", toml_says(&text, &e)))
    })?;
    let mut found = Vec::new();
    for (name, value) in &all {
        if name != module {
            entry(name).map_err(|e| at(&e))?;
        }
        let Some(table) = value.as_table() else {
            return Err(at(&format!(
                "'{name}' is no table: write [{name}] and its parameters below"
            )));
        };
        if name != module {
            continue;
        }
        for (key, value) in table {
            found.push((
                key.clone(),
                plain(value).ok_or_else(|| {
                    at(&format!("{name}.{key}: give a number, a word, or a list of numbers"))
                })?,
            ));
        }
    }
    Ok(found)
}

/// A value as the command line would have it.
fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(s) => Some(s.clone()),
        toml::Value::Integer(n) => Some(n.to_string()),
        toml::Value::Float(n) => Some(n.to_string()),
        toml::Value::Array(a) => {
            let parts = a.iter().map(|v| plain(v).filter(|_| !v.is_array()));
            Some(parts.collect::<Option<Vec<_>>>()?.join(","))
        }
        _ => None,
    }
}
