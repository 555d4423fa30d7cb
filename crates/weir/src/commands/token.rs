//! `weir token`: who may ask the HTTP API.
//!
//! Room: arguments and output; `crate::serve::tokens` keeps them.

use super::columns::Columns;
use super::say::{note, put, say};
use crate::fault::bad_input;
use crate::serve::caller::now_s;
use crate::serve::tokens::{Role, Tokens, default_path};
use anyhow::Result;
use std::path::PathBuf;

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
        Args::Remove(a) => a.kept.open().remove(&a.id),
    }
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
    let now = now_s();
    let expires = lasting(&a.expires)?.map(|s| now.saturating_add(s));
    let (entry, text) = a.kept.open().add(a.role, owner.map(str::to_owned), now, expires)?;
    note(format_args!("token {}: this is the only time it is shown", entry.id));
    say(text)
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

fn list(a: &List) -> Result<()> {
    let now = now_s();
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
        c.row(vec![e.id.clone(), role, e.owner.clone().unwrap_or("-".to_owned()), left]);
    }
    put(c.text())
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
