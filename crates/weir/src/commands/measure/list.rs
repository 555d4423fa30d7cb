//! `weir measure list`: modules and their parameters.

use super::given;
use crate::commands::say::{complain, put};
use crate::environment::Envelope;
use crate::fault::bad_input;
use anyhow::Result;
use serde::Serialize;
use std::path::Path;
use weir_measure::module::Entry;
use weir_measure::modules;
use weir_measure::script::EXTENSION;

#[derive(Serialize)]
struct Listed {
    name: String,
    asks: String,
    paper: Option<String>,
    ports: usize,
    /// What a description of traffic may change; empty: it has no data traffic.
    traffic: &'static str,
    parameters: Vec<ListedParam>,
}

#[derive(Serialize)]
struct ListedParam {
    name: String,
    unit: String,
    about: String,
    range: String,
    default: String,
    quick: String,
}

fn listed(e: &Entry) -> Listed {
    let params = e.about.params.iter().map(|p| ListedParam {
        name: p.name.clone(),
        unit: p.unit.clone(),
        about: p.about.clone(),
        range: p.kind.range(),
        default: p.default.clone(),
        quick: p.quick.clone().unwrap_or_else(|| p.default.clone()),
    });
    Listed {
        name: e.about.name.clone(),
        asks: e.about.asks.clone(),
        paper: e.about.paper.clone(),
        ports: e.about.channels,
        traffic: if e.about.channels == 0 { "" } else { e.about.leaves.words() },
        parameters: params.collect(),
    }
}

/// Prints them.
pub fn run(module: Option<&str>, json: bool) -> Result<()> {
    let entries = match module {
        Some(path) if Path::new(path).is_dir() => {
            let scripts = given::scripts(Path::new(path))?;
            if scripts.is_empty() {
                return Err(bad_input(format!(
                    "{path}: no scripts in it: the names of modules' scripts end with .{EXTENSION}"
                )));
            }
            let (good, bad): (Vec<_>, Vec<_>) = scripts.into_iter().partition(Result::is_ok);
            bad.into_iter().filter_map(Result::err).for_each(complain);
            good.into_iter().flatten().collect()
        }
        Some(name) => vec![given::entry(name)?],
        None => modules::all(),
    };
    let all: Vec<Listed> = entries.iter().map(listed).collect();
    if json {
        return put(serde_json::to_string(&Envelope::new("modules", all))? + "\n");
    }
    let mut text = String::new();
    for m in all {
        let paper = m.paper.map_or_else(String::new, |p| format!(" ({p})"));
        text += &format!("{:14} {}?{paper}\n", m.name, m.asks);
        if !m.traffic.is_empty() {
            text += &format!("    --traffic may change: {}\n", m.traffic);
        }
        for p in m.parameters {
            let unit = if p.unit.is_empty() { String::new() } else { format!(" {}", p.unit) };
            let quick =
                if p.quick == p.default { String::new() } else { format!("; quick: {}", p.quick) };
            text += &format!(
                "    {} = {}{unit}{quick}\n        {} ({})\n",
                p.name, p.default, p.about, p.range
            );
        }
    }
    put(text)
}
