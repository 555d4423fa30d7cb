//! Who asks, and what that lets him see and change.
//!
//! Room: a request's head in, a [`Caller`] out; comparing networks. Every operation takes one.

use super::notes::Notes;
use super::problem::Problem;
use super::shares::Share;
use super::tokens::{Entry, Role, Tokens};
use super::{App, JOBS};
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde_json::Value;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_supervisor::model::{Network, Openflow, Program};

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    entry: Entry,
    /// His part of what may be at work, while something is.
    at_work: Option<Arc<Share>>,
    /// Of his request.
    notes: Notes,
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let shown = parts.headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok());
        let token = shown.and_then(|v| {
            let (scheme, token) = v.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let Some(token) = token else { return Err(Problem::unauthorized()) };
        let who = app.tokens.who(token, now_s()).map_err(|e| unread(&app.tokens, &e))?;
        let entry = who.ok_or_else(Problem::unauthorized)?;
        let notes = parts.extensions.get::<Notes>().cloned().unwrap_or_default();
        notes.by(&entry.id);
        let mut caller = Self { entry, at_work: None, notes };
        let part = caller.part(JOBS);
        let share = app.at_work.take(caller.payer(), part).ok_or_else(|| {
            Problem::busy(format!("{part} requests are at work for you: try again"))
        })?;
        caller.at_work = Some(Arc::new(share));
        Ok(caller)
    }
}

/// Nobody is let in by tokens that were not read. Why they can't be is the log's to say, not whoever's asks.
fn unread(tokens: &Tokens, e: &anyhow::Error) -> Problem {
    tokens.say_unread(e);
    let text = "who may ask can't be told now: the log of 'weir serve' says why";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "tokens", text)
}

impl Caller {
    /// A guard of the lab's, by what the operator said in the daemon's configuration.
    pub fn guard(name: &str) -> Self {
        let (id, hash) = (format!("guard {name}"), String::new());
        let role = Role::Operator;
        let entry = Entry { id, hash, role, owner: None, created_s: 0, expires_s: None };
        Self { entry, at_work: None, notes: Notes::default() }
    }

    /// Of a token.
    #[cfg(test)]
    pub fn new(entry: Entry) -> Self {
        Self { entry, at_work: None, notes: Notes::default() }
    }

    /// The same, with nothing at work.
    pub fn at_rest(&self) -> Self {
        Self { entry: self.entry.clone(), at_work: None, notes: Notes::default() }
    }

    /// Who has part of what all share: an owner, whichever of his tokens he shows, or a token.
    pub fn payer(&self) -> String {
        match &self.entry.owner {
            Some(owner) => format!("owner {owner}"),
            None => format!("token {}", self.entry.id),
        }
    }

    /// How much of what all share he may have at once: others' requests shall find room, too.
    pub fn part(&self, all: usize) -> usize {
        if self.sees_all() { all / 2 } else { all / 4 }
    }

    /// Whether his token is still what it was when he asked.
    pub fn holds(&self, tokens: &Tokens) -> bool {
        tokens.all().is_ok_and(|all| self.entry.holds(now_s()) && all.contains(&self.entry))
    }

    /// What is noted of his request.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The token's id.
    pub fn id(&self) -> &str {
        &self.entry.id
    }

    /// Whether all is his to see.
    pub fn sees_all(&self) -> bool {
        self.entry.role != Role::Owner
    }

    /// Whether he may see a network of this owner's.
    pub fn sees(&self, owner: &str) -> bool {
        self.sees_all() || (!owner.is_empty() && self.entry.owner.as_deref() == Some(owner))
    }

    /// Whether all is his to change.
    pub fn is_operator(&self) -> bool {
        self.entry.role == Role::Operator
    }

    /// Only for operators.
    ///
    /// # Errors
    /// He is none.
    pub fn must_operate(&self, what: &str) -> Result<(), Problem> {
        match self.is_operator() {
            true => Ok(()),
            false => Err(Problem::forbidden(format!("{what} is an operator's: ask one"))),
        }
    }

    /// Only for those to whom all is visible.
    ///
    /// # Errors
    /// It is not.
    pub fn must_see_all(&self, what: &str) -> Result<(), Problem> {
        match self.sees_all() {
            true => Ok(()),
            false => Err(Problem::forbidden(format!("{what} is a reader's or an operator's"))),
        }
    }

    /// Whether he may make this of a network that he sees.
    ///
    /// # Errors
    /// Which key is not his to change.
    pub fn may_make(&self, before: &Network, after: &Network) -> Result<(), Problem> {
        match self.entry.role {
            Role::Operator => Ok(()),
            Role::Reader => Err(Problem::forbidden("a reader's token changes nothing")),
            Role::Owner => match differs(&granted(before), &granted(after)) {
                None => Ok(()),
                Some(key) => Err(Problem::forbidden(format!(
                    "{key}: is granted by an operator; an owner changes controllers, rules, \
                     programs without options, defaults, fail_mode and paths"
                ))),
            },
        }
    }
}

/// What an owner was granted: a network without what is his own to say.
fn granted(n: &Network) -> Network {
    let mut n = n.clone();
    n.controllers.clear();
    for v in &mut n.node {
        v.path = Default::default();
        // Options say how much memory it takes.
        v.program = v.program.take().filter(Program::has_options);
        v.default = None;
        v.rule.clear();
        if let Some(o) = &mut v.openflow {
            o.controllers.clear();
            o.fail_mode = None;
        }
        v.openflow = v.openflow.take().filter(|o| *o != Openflow::default());
    }
    n
}

/// The first key in which two networks differ.
fn differs(a: &Network, b: &Network) -> Option<String> {
    // Plain data: JSON has a form for all of it.
    let of = |n| serde_json::to_value(n).unwrap_or_default();
    first(&of(a), &of(b), String::new())
}

fn first(a: &Value, b: &Value, at: String) -> Option<String> {
    match (a, b) {
        _ if a == b => None,
        (Value::Object(x), Value::Object(y)) => {
            let keys = x.keys().chain(y.keys().filter(|k| !x.contains_key(*k)));
            keys.into_iter().find_map(|k| {
                let at = if at.is_empty() { k.clone() } else { format!("{at}.{k}") };
                first(x.get(k).unwrap_or(&Value::Null), y.get(k).unwrap_or(&Value::Null), at)
            })
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            x.iter().zip(y).enumerate().find_map(|(i, (x, y))| first(x, y, format!("{at}[{i}]")))
        }
        _ => Some(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Caller {
        let (id, hash) = (String::new(), String::new());
        let owner = Some("alice".to_owned());
        let (role, created_s, expires_s) = (Role::Owner, 0, None);
        Caller::new(Entry { id, hash, role, owner, created_s, expires_s })
    }

    fn network(text: &str) -> Network {
        toml::from_str(&format!("name = 'red'\nowner = 'alice'\n{text}")).unwrap()
    }

    #[test]
    fn an_owner_changes_what_costs_nobody_else() {
        let before = network("node = [{ name = 's', host = 'h', ports = ['p'] }]");
        for fine in [
            "controllers = ['tcp:1.2.3.4:6653']\nnode = [{ name = 's', host = 'h', ports = ['p'] }]",
            "node = [{ name = 's', host = 'h', ports = ['p'], path = 'slow', program = 'sink' }]",
            "node = [{ name = 's', host = 'h', ports = ['p'], rule = [{ actions = 'drop' }] }]",
            "node = [{ name = 's', host = 'h', ports = ['p'], openflow = { fail_mode = 'secure' } }]",
        ] {
            assert!(owner().may_make(&before, &network(fine)).is_ok(), "{fine}");
        }
        for (not, key) in [
            ("node = [{ name = 's', host = 'h', ports = ['p', 'q'] }]", "node[0].ports"),
            ("node = [{ name = 's', host = 'h', ports = ['q'] }]", "node[0].ports[0]"),
            ("node = [{ name = 's', host = 'g', ports = ['p'] }]", "node[0].host"),
            (
                "node = [{ name = 's', host = 'h', ports = ['p'], cpu_permille = 9 }]",
                "cpu_permille",
            ),
            (
                "node = [{ name = 's', host = 'h', ports = ['p'], openflow = { listen = ['ptcp:1'] } }]",
                "openflow",
            ),
            (
                "flow_space = ['ip']\nnode = [{ name = 's', host = 'h', ports = ['p'] }]",
                "flow_space",
            ),
            (
                "isolation = 'strong'\nnode = [{ name = 's', host = 'h', ports = ['p'] }]",
                "isolation",
            ),
            ("node = []", "node"),
            (
                "node = [{ name = 's', host = 'h', ports = ['p'], program = { name = 'learning', max_entries = 9 } }]",
                "node[0].program",
            ),
        ] {
            let e = owner().may_make(&before, &network(not)).unwrap_err();
            assert!(e.status == 403 && e.detail.contains(key), "{not}: {}", e.detail);
        }
    }
}
