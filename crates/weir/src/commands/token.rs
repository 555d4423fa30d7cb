//! `weir token`: who may ask the HTTP API.
//!
//! Room: arguments and output; `crate::serve::tokens` keeps them.

use super::columns::Columns;
use super::say::{Reader, note, offer, put, say};
use crate::environment::Envelope;
use crate::fault::{bad_input, is_bad_input};
use crate::serve::caller::now_s;
use crate::serve::tokens::{Entry, Role, Tokens, default_path};
use anyhow::{Result, anyhow};
use serde::Serialize;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use weir_supervisor::model::owner_name;

/// Tokens for the HTTP API: who may ask, as what, and until when
#[derive(Debug, clap::Subcommand)]
#[command(after_long_help = "Examples:\n  \
                       weir token add --role operator >token\n  \
                       weir token add --role owner --owner alice --expires 30d\n  \
                       weir token list")]
pub enum Args {
    Add(Add),
    List(List),
    Remove(Remove),
}

/// Where tokens are kept.
#[derive(Debug, clap::Args)]
struct Kept {
    /// File of tokens [default: $XDG_STATE_HOME/weir/tokens.toml, else
    /// ~/.local/state/weir/tokens.toml]
    #[arg(long, value_name = "PATH")]
    tokens: Option<PathBuf>,
}

impl Kept {
    fn open(&self) -> Tokens {
        Tokens::new(self.tokens.clone().unwrap_or_else(default_path))
    }
}

/// Make a token, and print it: it is kept nowhere, only its hash is
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  \
                             weir token add --role operator\n  \
                             weir token add --role owner --owner alice --expires 30d")]
pub struct Add {
    /// What it is for
    #[arg(long, value_enum)]
    role: Role,
    /// Whose networks, for --role owner: as a LAB file's 'owner' says
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// How long it holds: 90d, 12h, 30m, 45s, or never
    #[arg(long, value_name = "TIME", default_value = "90d")]
    expires: String,
    #[command(flatten)]
    kept: Kept,
}

/// List the tokens: ids, roles, and until when they hold
#[derive(Debug, clap::Args)]
pub struct List {
    /// For programs: the ids, roles, owners, and when they were made and end, in seconds since 1970
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kept: Kept,
}

/// Remove a token: from then on it is none
#[derive(Debug, clap::Args)]
pub struct Remove {
    /// Its id, the word behind 'weir_'
    id: String,
    #[command(flatten)]
    kept: Kept,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    match args {
        Args::Add(a) => add(a),
        Args::List(a) => list(a),
        Args::Remove(a) => remove(a),
    }
}

fn remove(a: &Remove) -> Result<()> {
    let id: String = a.id.chars().take(64).collect();
    a.kept.open().remove(&a.id).map_err(|e| match is_bad_input(&e) {
        true => e,
        // Who takes a token away must know that it was not.
        false => e.context(format!("token '{id}' is not removed, and holds as before")),
    })
}

fn add(a: &Add) -> Result<()> {
    let owner = a.owner.as_deref().map(str::trim).filter(|o| !o.is_empty());
    match (a.role, owner) {
        (Role::Owner, None) => {
            return Err(bad_input("--role owner: say whose networks, by --owner NAME"));
        }
        (Role::Operator | Role::Reader, Some(_)) => {
            return Err(bad_input("--owner: only for --role owner: others see all networks"));
        }
        _ => {}
    }
    // A token whose networks no lab can have is one for nothing.
    owner.map_or(Ok(()), owner_name).map_err(|e| bad_input(format_args!("--{e}")))?;
    let now = now_s();
    let expires = lasting(&a.expires)?.map(|s| now.saturating_add(s));
    let tokens = a.kept.open();
    let (entry, text) = tokens.add(a.role, owner.map(str::to_owned), now, expires)?;
    let id = &entry.id;
    note(format_args!("token {id}: this is the only time it is shown"));
    let unread = match offer(format_args!("{text}\n")) {
        Ok(Reader::There) if !is_nowhere("/dev/stdout") => return Ok(()),
        Ok(_) => anyhow!("nobody reads the standard output"),
        Err(e) => e,
    };
    // Nobody has seen it: it is none.
    Err(match tokens.remove(id) {
        Ok(()) => unread.context(format!("token {id} could not be told, and is none")),
        Err(e) => {
            let left = format!("token {id} could not be told, and not be removed, either: {e:#}");
            unread.context(left)
        }
    })
}

/// Whether what is written there is lost: where the output was closed, the runtime has put the same.
fn is_nowhere(path: &str) -> bool {
    let device = |p: &str| std::fs::metadata(p).ok().map(|m| (m.file_type(), m.rdev()));
    let nowhere = device("/dev/null").filter(|(kind, _)| kind.is_char_device());
    nowhere.is_some() && device(path) == nowhere
}

/// Seconds; `None` for ever.
fn lasting(text: &str) -> Result<Option<u64>> {
    let wrong = || bad_input(format_args!("--expires {text}: write 90d, 12h, 30m, 45s, or never"));
    if text == "never" {
        return Ok(None);
    }
    let unit = match text.chars().last() {
        Some('d') => 86_400,
        Some('h') => 3600,
        Some('m') => 60,
        Some('s') => 1,
        _ => return Err(wrong()),
    };
    let number = text.get(..text.len() - 1).and_then(|n| n.parse::<u64>().ok());
    number.filter(|n| *n > 0).and_then(|n| n.checked_mul(unit)).map(Some).ok_or_else(wrong)
}

/// A token as it is listed: without its hash.
#[derive(Debug, Serialize)]
struct Listed<'t> {
    id: &'t str,
    role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'t str>,
    created_s: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_s: Option<u64>,
    /// Whether it holds now.
    holds: bool,
}

impl<'t> Listed<'t> {
    fn of(e: &'t Entry, now_s: u64) -> Self {
        let (role, created_s, expires_s) = (e.role, e.created_s, e.expires_s);
        let (owner, holds) = (e.owner.as_deref(), e.holds(now_s));
        Self { id: &e.id, role, owner, created_s, expires_s, holds }
    }
}

fn list(a: &List) -> Result<()> {
    let now = now_s();
    if a.json {
        let all = a.kept.open().all()?;
        let tokens: Vec<Listed<'_>> = all.iter().map(|e| Listed::of(e, now)).collect();
        return say(serde_json::to_string_pretty(&Envelope::new("tokens", tokens))?);
    }
    let mut c = Columns::new(&["id", "role", "owner", "holds for"]);
    for e in a.kept.open().all()?.iter() {
        let role = format!("{:?}", e.role).to_lowercase();
        let left = match e.expires_s {
            None => "ever".to_owned(),
            Some(_) if !e.holds(now) => "no more".to_owned(),
            Some(end) => match end - now {
                s if s >= 2 * 86_400 => format!("{} days", s / 86_400),
                s if s >= 2 * 3600 => format!("{} hours", s / 3600),
                s => format!("{s} s"),
            },
        };
        c.row(vec![e.id.clone(), role, e.owner.as_deref().map_or("-".to_owned(), shown), left]);
    }
    put(c.text())
}

/// A name in a cell: one of before names were looked at may have anything in it.
fn shown(owner: &str) -> String {
    owner.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(lasting("90d").unwrap(), Some(90 * 86_400));
        assert_eq!(lasting("1s").unwrap(), Some(1));
        assert_eq!(lasting("never").unwrap(), None);
        for wrong in
            ["", "d", "0d", "-1d", "1", "1y", "99999999999999999999d", "9999999999999999999d", "1é"]
        {
            assert!(lasting(wrong).is_err(), "{wrong}");
        }
    }
}
