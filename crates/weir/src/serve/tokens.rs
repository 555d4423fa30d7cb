//! Tokens: who may ask, as what, and until when. Only their hashes are kept.
//!
//! Room: one file of mode 0600, read again when it has changed, written whole and put in its place at
//! once. Called by `weir token` and, for every request, by [`super::caller`].
//!
//! A token is 256 bits drawn by the system behind an id: nothing that could be guessed, so its hash is
//! plain SHA-256, and looking at one costs a microsecond.

use crate::commands::say::complain;
use crate::config::error::Source;
use crate::config::read::read_file;
use crate::fault::bad_input;
use crate::socket::protocol::to_hex;
use anyhow::{Context, Result, anyhow};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::fs::{Metadata, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Most tokens in a file.
const MOST: usize = 10_000;
/// Bytes of a token's secret.
const SECRET_BYTES: usize = 32;
/// Bytes of its id.
const ID_BYTES: usize = 4;

/// What a token lets its bearer do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Everything.
    Operator,
    /// Looking at everything.
    Reader,
    /// Looking at the networks of one owner, and changing what is theirs to change.
    Owner,
}

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name, in it and everywhere.
    pub id: String,
    /// SHA-256 of all of it, in hexadecimal digits.
    pub hash: String,
    /// What it is for.
    pub role: Role,
    /// Whose networks, for an owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// When it was made: seconds since 1970.
    pub created_s: u64,
    /// Until when it holds; for ever without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_s: Option<u64>,
}

impl Entry {
    /// Whether it holds at this time, in seconds since 1970.
    pub fn holds(&self, now_s: u64) -> bool {
        self.expires_s.is_none_or(|end| now_s < end)
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<Entry>,
}

/// Which state of the file was read: which file, when it was written and changed, how long it is.
type Stamp = (u64, [i64; 4], u64);

/// What was read of it, or why it can't be.
type Found = Result<Arc<Vec<Entry>>, String>;

/// The tokens of a file.
#[derive(Debug)]
pub struct Tokens {
    path: PathBuf,
    read: Mutex<Option<(Stamp, Found)>>,
    /// What was said last of why it can't be read.
    told: Mutex<Option<(Option<Stamp>, String)>>,
}

fn stamp(m: &Metadata) -> Stamp {
    (m.ino(), [m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()], m.len())
}

/// Where tokens are kept when no file is named: beside the store.
pub fn default_path() -> PathBuf {
    crate::net::store::default_path().with_file_name("tokens.toml")
}

/// SHA-256 in hexadecimal digits.
pub fn hash(text: &str) -> String {
    to_hex(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Whether two texts are the same, in a time that hangs on their length alone.
pub fn same(a: &str, b: &str) -> bool {
    let differs = a.bytes().zip(b.bytes()).fold(0, |d, (x, y)| d | (x ^ y));
    a.len() == b.len() && differs == 0
}

impl Tokens {
    /// Those of a file, which may not be there yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: Mutex::new(None), told: Mutex::new(None) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All of them.
    ///
    /// # Errors
    /// The file can't be read, or others can read it.
    pub fn all(&self) -> Result<Arc<Vec<Entry>>> {
        let meta = match std::fs::metadata(&self.path) {
            Ok(m) => m,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Arc::default()),
            Err(e) => return Err(crate::fault::file(self.path.display(), &e)),
        };
        let stamp = stamp(&meta);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is wrong is not read for every request either.
        if let Some((_, found)) = read.as_ref().filter(|(of, _)| *of == stamp) {
            return found.clone().map_err(bad_input);
        }
        let mode = meta.mode() & 0o777;
        let found = match mode & 0o077 {
            0 => read_file(&self.path).map_err(|e| e.to_string()).and_then(|t| self.parsed(&t)),
            _ => {
                let shown = self.path.display();
                Err(format!("{shown}: mode {mode:04o} lets others read it: chmod 600 {shown}"))
            }
        };
        if found.is_ok() {
            *self.told.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        *read = Some((stamp, found.clone()));
        found.map_err(bad_input)
    }

    fn parsed(&self, text: &str) -> Found {
        let name = self.path.display().to_string();
        let file = toml::from_str::<File>(text);
        let file = file.map_err(|e| Source::new(&name, text).toml(&e).to_string())?;
        Ok(Arc::new(file.token))
    }

    /// Has the log say why requests are refused, once for each state of the file: it is not for whoever asks.
    pub fn say_unread(&self, e: &anyhow::Error) {
        let why = format!("{e:#}");
        if self.is_news(&why) {
            complain(format_args!("requests are refused, since tokens can't be read: {why}"));
        }
    }

    /// Whether it is news that the tokens can't be read: of each state of the file each reason is, once.
    fn is_news(&self, why: &str) -> bool {
        let now = (std::fs::metadata(&self.path).ok().as_ref().map(stamp), why.to_owned());
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.replace(now.clone()) != Some(now)
    }

    /// The entry of a token that is shown, if it is one that holds.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn who(&self, shown: &str, now_s: u64) -> Result<Option<Entry>> {
        let hash = hash(shown);
        let all = self.all()?;
        // Each is looked at, whichever it is.
        let mut found = None;
        for e in all.iter() {
            if same(&e.hash, &hash) && e.holds(now_s) {
                found = Some(e);
            }
        }
        Ok(found.cloned())
    }

    /// Makes a token. Its text is told once, here.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn add(
        &self,
        role: Role,
        owner: Option<String>,
        now_s: u64,
        expires_s: Option<u64>,
    ) -> Result<(Entry, String)> {
        let mut drawn = [0; ID_BYTES + SECRET_BYTES];
        SystemRandom::new()
            .fill(&mut drawn)
            .map_err(|_| anyhow!("the system has no random numbers to give"))?;
        let (id, secret) = drawn.split_at(ID_BYTES);
        let id = to_hex(id);
        let text = format!("weir_{id}_{}", to_hex(secret));
        let entry = Entry { id, hash: hash(&text), role, owner, created_s: now_s, expires_s };
        let added = entry.clone();
        self.edit(|all| {
            if all.len() >= MOST {
                let text = "tokens are there already: remove some";
                return Err(bad_input(format_args!("{MOST} {text}")));
            }
            all.push(added);
            Ok(())
        })?;
        Ok((entry, text))
    }

    /// Removes one.
    ///
    /// # Errors
    /// There is none of this id; the file can't be written.
    pub fn remove(&self, id: &str) -> Result<()> {
        self.edit(|all| {
            let before = all.len();
            all.retain(|e| e.id != id);
            if all.len() == before {
                let id: String = id.chars().take(64).collect();
                let text = format!("no token '{id}': 'weir token list' shows those there are");
                return Err(bad_input(text));
            }
            Ok(())
        })
    }

    /// Changes the file: a new one, beside it, takes its place. Who is changing it has the new one's name.
    fn edit(&self, f: impl FnOnce(&mut Vec<Entry>) -> Result<()>) -> Result<()> {
        let mut new = self.path.clone().into_os_string();
        new.push(".new");
        let new = PathBuf::from(new);
        let shown = new.display();
        if let Some(folder) = self.path.parent().filter(|p| !p.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("{}: can't be made", folder.display()))?;
        }
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
        let mut out = match opened {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(e).with_context(|| {
                format!("{shown}: if no other 'weir token' is at work, one was killed: remove it")
            }),
            other => other.with_context(|| format!("{shown}: can't be made")),
        }?;
        let done = self.all().and_then(|all| {
            let mut token = all.to_vec();
            f(&mut token)?;
            let text = toml::to_string(&File { token })?;
            let written = out.write_all(text.as_bytes()).and_then(|()| out.sync_all());
            written.with_context(|| format!("{shown}: can't be written"))?;
            let there = || format!("{}: can't be replaced", self.path.display());
            std::fs::rename(&new, &self.path).with_context(there)
        });
        if done.is_err() {
            // What went wrong has been said.
            let _ = std::fs::remove_file(&new);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_holds_until_it_ends_or_is_removed_and_only_its_hash_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/tokens.toml");
        let tokens = Tokens::new(path.clone());
        assert!(tokens.who("weir_1_2", 0).unwrap().is_none());
        let (a, text) = tokens.add(Role::Owner, Some("alice".to_owned()), 10, Some(20)).unwrap();
        let (b, other) = tokens.add(Role::Operator, None, 10, None).unwrap();
        assert_ne!(text, other);
        let kept = std::fs::read_to_string(&path).unwrap();
        let secret = text.rsplit('_').next().unwrap();
        assert!(!kept.contains(secret) && kept.contains(&a.hash));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(tokens.who(&text, 19).unwrap(), Some(a));
        assert_eq!(tokens.who(&text, 20).unwrap(), None);
        assert_eq!(tokens.who(&other, 1 << 40).unwrap(), Some(b.clone()));
        for wrong in ["", "weir", &text[..text.len() - 1], &format!("{text}0")] {
            assert_eq!(tokens.who(wrong, 0).unwrap(), None, "{wrong}");
        }
        tokens.remove(&b.id).unwrap();
        assert_eq!(tokens.who(&other, 0).unwrap(), None);
        assert!(tokens.remove(&b.id).unwrap_err().to_string().contains("no token"));
        assert!(!dir.path().join("deep/tokens.toml.new").exists());
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let mut o = OpenOptions::new();
        o.write(true).create(true).mode(0o644).open(&path).unwrap();
        let e = Tokens::new(path).who("x", 0).unwrap_err().to_string();
        assert!(e.contains("chmod 600"), "{e}");
    }

    #[test]
    fn a_file_that_is_wrong_is_told_of_once_for_each_of_its_states() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let tokens = Tokens::new(path.clone());
        let (_, text) = tokens.add(Role::Operator, None, 0, None).unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        for (wrong, news) in [("[[token", true), ("[[token", false), ("[[token\n", true)] {
            if news {
                std::fs::write(&path, wrong).unwrap();
            }
            let e = tokens.who(&text, 0).unwrap_err().to_string();
            assert!(e.contains("t:1:"), "{e}");
            assert_eq!(tokens.is_news(&e), news, "{wrong:?}");
        }
        std::fs::write(&path, good).unwrap();
        assert!(tokens.who(&text, 0).unwrap().is_some());
    }
}
