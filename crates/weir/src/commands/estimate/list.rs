//! `weir estimate list`: what is known.

use super::{Files, shelf};
use crate::commands::columns::Columns;
use crate::commands::say::put;
use crate::environment::Envelope;
use anyhow::Result;
use serde::Serialize;

/// What to list.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: Files,
}

#[derive(Serialize)]
struct Known {
    functions: Vec<Named>,
    profiles: Vec<Named>,
    operations: Vec<Named>,
}

#[derive(Serialize)]
struct Named {
    name: String,
    about: String,
    source: Vec<String>,
}

/// Lists it.
pub fn run(a: &Args) -> Result<()> {
    let library = shelf::library(&a.files)?;
    let named = |name: &str, about: &str, source: &[String]| Named {
        name: name.to_owned(),
        about: about.to_owned(),
        source: source.to_vec(),
    };
    let known = Known {
        functions: library.iter().map(|m| named(&m.name, &m.about, &m.sources)).collect(),
        profiles: shelf::profiles(&library)?
            .iter()
            .map(|p| named(&p.name, &p.about, &p.sources))
            .collect(),
        operations: library
            .operations()
            .iter()
            .map(|o| named(&o.name, &o.about, std::slice::from_ref(&o.source)))
            .collect(),
    };
    if a.json {
        return put(&(serde_json::to_string(&Envelope::new("estimator", known))? + "\n"));
    }
    let mut text = String::new();
    let parts = [
        ("function", known.functions),
        ("profile", known.profiles),
        ("operation", known.operations),
    ];
    for (what, all) in parts {
        let mut table = Columns::new(&[what, "what it is"]);
        for n in all {
            table.row(vec![n.name, n.about]);
        }
        text += &table.text();
        text.push('\n');
    }
    put(text.trim_end_matches('\n'))?;
    put("\n")
}
