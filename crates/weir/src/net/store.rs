//! The store on disk: redb, with the state, the change under way and what held before, as JSON.
//!
//! Room: one file, locked as long as it is open. See docs/decisions/0021-store.md.

use anyhow::{Context, Result};
use redb::{Database, DatabaseError, ReadOnlyDatabase, ReadableDatabase, TableDefinition};
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_supervisor::store::{Saved, State, Store, StoreError};

/// What holds now, by name.
const NOW: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("now");
/// What held at each revision.
const PAST: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("past");
/// Revisions that are kept.
const KEPT: u64 = 32;
/// How long another that has the file open is waited for.
const WAIT: Duration = Duration::from_secs(10);
/// The form of what is written; another is refused.
const FORMAT: &[u8] = b"1";

/// What a look at a store, without opening it for changes, finds.
#[derive(Debug)]
pub enum Peek {
    /// What it holds; boxed, since it is large.
    Holds(Box<Saved>),
    /// There is none yet.
    Nothing,
    /// Somebody changes it just now.
    Busy,
    /// Whoever changed it last was killed: it must be opened to be read.
    Torn,
}

/// An open store.
#[derive(Debug)]
pub struct Redb {
    /// Gone when it is dropped alone.
    db: Option<Database>,
    shown: String,
}

/// Where networks are kept when no store is named: `$XDG_STATE_HOME/weir/net.redb`, else
/// `~/.local/state/weir/net.redb`, else `/var/lib/weir/net.redb`.
pub fn default_path() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|d| !d.is_empty()).map(PathBuf::from);
    let home = || set("HOME").map(|h| h.join(".local/state"));
    set("XDG_STATE_HOME").or_else(home).unwrap_or_else(|| "/var/lib".into()).join("weir/net.redb")
}

impl Redb {
    /// Opens a store, or makes it. Waits for another that has it open, for a while.
    ///
    /// # Errors
    /// Still in use; no store of this program; the system's.
    pub fn open(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("{}: can't be made: name a --store", folder.display()))?;
        }
        let until = Instant::now() + WAIT;
        is_whole(path, &shown)?;
        let db = loop {
            match unbroken(&shown, || Database::create(path))? {
                Ok(db) => break db,
                Err(DatabaseError::DatabaseAlreadyOpen) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(DatabaseError::DatabaseAlreadyOpen) => {
                    return Err(StoreError::InUse(shown).into());
                }
                Err(e) => {
                    return Err(e).with_context(|| {
                        format!("{shown}: store of networks; name another by --store")
                    });
                }
            }
        };
        let s = Self { db: Some(db), shown };
        s.found()?;
        Ok(s)
    }

    /// Looks at a store without waiting and without changing a byte of it.
    ///
    /// # Errors
    /// It is no store of this program; the system's.
    pub fn peek(path: &Path) -> Result<Peek> {
        let shown = path.display().to_string();
        is_whole(path, &shown)?;
        let db = match unbroken(&shown, || ReadOnlyDatabase::open(path))? {
            Ok(db) => db,
            Err(DatabaseError::DatabaseAlreadyOpen) => return Ok(Peek::Busy),
            Err(DatabaseError::RepairAborted) => return Ok(Peek::Torn),
            Err(DatabaseError::Storage(redb::StorageError::Io(e)))
                if e.kind() == std::io::ErrorKind::NotFound =>
            {
                return Ok(Peek::Nothing);
            }
            Err(e) => return Err(e).with_context(|| format!("{shown}: store of networks")),
        };
        match get(&db, &shown, "format")? {
            Some(f) if f == FORMAT => Ok(Peek::Holds(Box::new(saved(&db, &shown)?))),
            // Its maker has not come further, or is another version: opening it tells.
            _ => Ok(Peek::Torn),
        }
    }

    /// Gives a new file its number; looks whether an old one is ours.
    fn found(&self) -> Result<(), StoreError> {
        match self.get("format")? {
            Some(f) if f == FORMAT => return Ok(()),
            Some(_) => {
                let text = "made by another version of weir: use that one, or name another --store";
                return Err(StoreError::Broken(format!("{}: {text}", self.shown)));
            }
            None => {}
        }
        // Drawn by the system for hash maps; zero would be no number.
        let id = RandomState::new().build_hasher().finish() | 1;
        self.write(|t| {
            t.open_table(NOW)?.insert("format", FORMAT)?;
            t.open_table(NOW)?.insert("id", id.to_be_bytes().as_slice())?;
            t.open_table(PAST)?;
            Ok(())
        })
    }

    fn system(&self, e: impl std::fmt::Display) -> StoreError {
        system(&self.shown, e)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        get(self.db()?, &self.shown, key)
    }

    fn write(
        &self,
        f: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        let db = self.db()?;
        let all = || -> Result<(), redb::Error> {
            let t = db.begin_write()?;
            f(&t)?;
            t.commit()?;
            Ok(())
        };
        unbroken(&self.shown, all)?.map_err(|e| self.system(e))
    }

    fn db(&self) -> Result<&Database, StoreError> {
        self.db.as_ref().ok_or_else(|| self.system("closed"))
    }
}

impl Drop for Redb {
    /// Closing it writes, of what may be damaged.
    fn drop(&mut self) {
        let db = self.db.take();
        let _ = unbroken(&self.shown, || drop(db));
    }
}

fn system(shown: &str, e: impl std::fmt::Display) -> StoreError {
    StoreError::System(format!("{shown}: {e}"))
}

fn get(db: &impl ReadableDatabase, shown: &str, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let read = || -> Result<Option<Vec<u8>>, redb::Error> {
        let t = db.begin_read()?;
        match t.open_table(NOW) {
            Ok(table) => Ok(table.get(key)?.map(|v| v.value().to_vec())),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(e) => Err(e.into()),
        }
    };
    unbroken(shown, read)?.map_err(|e| system(shown, e))
}

fn state(shown: &str, bytes: &[u8]) -> Result<State, StoreError> {
    serde_json::from_slice(bytes)
        .map_err(|e| StoreError::Broken(format!("{shown}: not weir's: {e}")))
}

fn saved(db: &impl ReadableDatabase, shown: &str) -> Result<Saved, StoreError> {
    let id = get(db, shown, "id")?.and_then(|b| b.try_into().ok()).map_or(0, u64::from_be_bytes);
    let one = |key| get(db, shown, key)?.map(|b| state(shown, &b)).transpose();
    Ok(Saved { id, state: one("state")?.unwrap_or_default(), under_way: one("under way")? })
}

/// What to do with one that can't be read.
const RESTORE: &str = "restore a copy of it; or name another by --store, once what this one kept is gone from the hosts (start their 'weir run' anew)";

/// Whether a file of redb's is as long as its head says, whose form is in redb's `header.rs`: shorter ones it takes for impossible.
fn is_whole(path: &Path, shown: &str) -> Result<(), StoreError> {
    // Whoever opens it says what is wrong with others, and with what is no file.
    let Ok(mut file) = File::open(path) else { return Ok(()) };
    // One that shrinks has the smaller head first, and one that grows the larger length.
    let before = file.metadata().map_or(0, |m| m.len());
    let mut head = [0; 32];
    if file.read_exact(&mut head).is_err() || !head.starts_with(b"redb\x1a\x0a\xa9\x0d\x0a") {
        return Ok(());
    }
    let word = |at: usize| -> u64 {
        let bytes = head.get(at..at + 4).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes).into()
    };
    let [page, heads, most, full, rest] = [12, 16, 20, 24, 28].map(word);
    let last = if rest > 0 { heads + rest } else { 0 };
    let pages = (heads + most).saturating_mul(full).saturating_add(last + 1);
    let wanted = pages.saturating_mul(page);
    match file.metadata().map(|m| m.len().max(before)) {
        Ok(len) if len < wanted => Err(StoreError::Broken(format!(
            "{shown}: {len} bytes of {wanted} are there, the rest was cut off: {RESTORE}"
        ))),
        _ => Ok(()),
    }
}

/// What `f` comes to; redb panics on some files that can't be its own.
fn unbroken<T>(shown: &str, f: impl FnOnce() -> T) -> Result<T, StoreError> {
    // What it was about to read is not read again.
    catch_unwind(AssertUnwindSafe(f))
        .map_err(|_| StoreError::Broken(format!("{shown}: damaged: {RESTORE}")))
}

impl Store for Redb {
    fn load(&self) -> Result<Saved, StoreError> {
        saved(self.db()?, &self.shown)
    }

    fn begin(&mut self, target: &State) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec(target).map_err(|e| self.system(e))?;
        self.write(|t| {
            t.open_table(NOW)?.insert("under way", bytes.as_slice())?;
            Ok(())
        })
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        let Some(bytes) = self.get("under way")? else { return Ok(()) };
        let revision = state(&self.shown, &bytes)?.revision;
        self.write(|t| {
            let mut now = t.open_table(NOW)?;
            now.insert("state", bytes.as_slice())?;
            now.remove("under way")?;
            let mut past = t.open_table(PAST)?;
            past.insert(revision, bytes.as_slice())?;
            past.retain(|n, _| n + KEPT > revision)?;
            Ok(())
        })
    }

    fn abandon(&mut self) -> Result<(), StoreError> {
        self.write(|t| {
            t.open_table(NOW)?.remove("under way")?;
            Ok(())
        })
    }

    fn revision(&self, number: u64) -> Result<Option<State>, StoreError> {
        let db = self.db()?;
        let read = || -> Result<Option<Vec<u8>>, redb::Error> {
            let t = db.begin_read()?;
            Ok(t.open_table(PAST)?.get(number)?.map(|v| v.value().to_vec()))
        };
        let found = unbroken(&self.shown, read)?.map_err(|e| self.system(e))?;
        found.map(|b| state(&self.shown, &b)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_found_after_reopening_and_a_change_is_whole_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/net.redb");
        let mut s = Redb::open(&path).unwrap();
        let id = s.load().unwrap().id;
        assert_ne!(id, 0);
        let target = State { revision: 1, ..State::default() };
        s.begin(&target).unwrap();
        drop(s);
        let mut s = Redb::open(&path).unwrap();
        assert_eq!(s.load().unwrap().under_way, Some(target.clone()));
        assert_eq!(s.load().unwrap().state, State::default());
        s.finish().unwrap();
        for revision in 2..=40 {
            s.begin(&State { revision, ..State::default() }).unwrap();
            s.finish().unwrap();
        }
        s.begin(&State { revision: 41, ..State::default() }).unwrap();
        s.abandon().unwrap();
        drop(s);
        let s = Redb::open(&path).unwrap();
        let saved = s.load().unwrap();
        assert_eq!((saved.id, saved.state.revision, saved.under_way), (id, 40, None));
        assert_eq!(s.revision(8).unwrap(), None);
        assert_eq!(s.revision(9).unwrap().map(|s| s.revision), Some(9));
    }

    #[test]
    fn a_look_waits_for_nobody_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("net.redb");
        assert!(matches!(Redb::peek(&path).unwrap(), Peek::Nothing));
        let mut s = Redb::open(&path).unwrap();
        assert!(matches!(Redb::peek(&path).unwrap(), Peek::Busy));
        s.begin(&State { revision: 1, ..State::default() }).unwrap();
        s.finish().unwrap();
        drop(s);
        let before = std::fs::read(&path).unwrap();
        match Redb::peek(&path).unwrap() {
            Peek::Holds(saved) => assert_eq!(saved.state.revision, 1),
            other => panic!("{other:?}"),
        }
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_store_that_was_cut_off_or_changed_is_told_and_ends_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("net.redb");
        let mut s = Redb::open(&path).unwrap();
        for revision in 1..20 {
            s.begin(&State { revision, ..State::default() }).unwrap();
            s.finish().unwrap();
        }
        drop(s);
        let whole = std::fs::read(&path).unwrap();
        let broken = dir.path().join("broken.redb");
        for len in [33, 320, 4096, 5000, 10_000, 50_000, whole.len() - 1] {
            std::fs::write(&broken, &whole[..len]).unwrap();
            let said = format!("{:#}", Redb::open(&broken).unwrap_err());
            assert!(said.contains("cut off") && said.contains("restore"), "{len}: {said}");
            assert!(Redb::peek(&broken).is_err(), "{len}");
            assert_eq!(
                std::fs::read(&broken).unwrap(),
                whole[..len],
                "not a byte of it is changed"
            );
        }
        // Anything may be read or refused where bytes differ, and nothing panics.
        for at in (0..whole.len()).step_by(997) {
            let mut other = whole.clone();
            other[at] ^= 0x55;
            std::fs::write(&broken, &other).unwrap();
            let _ = Redb::peek(&broken);
            let _ = Redb::open(&broken).and_then(|s| Ok(s.load()?));
        }
    }

    #[test]
    fn a_file_that_is_no_store_is_said_to_be_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "[[network]]\n").unwrap();
        let e = format!("{:#}", Redb::open(&path).unwrap_err());
        assert!(e.contains("store of networks"), "{e}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[[network]]\n");
    }
}
