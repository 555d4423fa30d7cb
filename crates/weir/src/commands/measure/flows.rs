//! The flows of the user's switch, in a file while a measurement has its table: gone when the switch has them again,
//! and named in the last line that is said where it may not have them.
//!
//! Room: files, and a list of those that are there, for whoever ends the program early. Labs are gone afterwards, and
//! need none of it.

use super::kept::{MOST, nth};
use crate::commands::say::note;
use crate::commands::style::Progress;
use anyhow::{Result, anyhow};
use std::fs::{OpenOptions, read_dir, remove_file};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_io::file::trouble;
use weir_measure::engine::keeping::Keep;

/// Files with flows that switches may not have.
static ALL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<PathBuf>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How their names end.
const ENDING: &str = ".flows.txt";

/// Those of one measurement.
pub struct Flows {
    out: Option<PathBuf>,
    stem: String,
    path: Option<PathBuf>,
}

impl Flows {
    /// In the directory of results. Without one they are where temporary files are, which is said, since nobody would
    /// look for them there.
    pub fn new(out: Option<PathBuf>, stem: String) -> Self {
        Self { out, stem, path: None }
    }

    /// Says where flows are that an earlier run was to put back and did not: who killed it was told nothing.
    pub fn tell_of_earlier(&self) {
        let own = all().clone();
        let mut earlier = earlier(&self.dir(), &self.stem);
        earlier.retain(|path| !own.contains(path));
        earlier.iter().for_each(|path| Progress::past(said_of_earlier(path)));
    }

    fn dir(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Files with flows of runs that have this name.
fn earlier(dir: &Path, stem: &str) -> Vec<PathBuf> {
    let is_one = |name: &str| {
        let rest = name.strip_suffix(ENDING).and_then(|name| name.strip_prefix(stem));
        rest.is_some_and(|rest| {
            let number = rest.strip_prefix('-').and_then(|n| n.parse::<usize>().ok());
            rest.is_empty() || number.is_some()
        })
    };
    let entries = read_dir(dir).into_iter().flatten().flatten();
    let mut all: Vec<_> =
        entries.filter(|e| e.file_name().to_str().is_some_and(is_one)).map(|e| e.path()).collect();
    all.sort_unstable();
    all
}

fn said_of_earlier(path: &Path) -> String {
    let path = path.display();
    format!(
        "Flows of a switch from an earlier run that did not end are still in {path}. Once this one is over, 'ovs-ofctl -O VERSION add-flows SWITCH {path}' puts them back; the version is in its first line."
    )
}

impl Keep for Flows {
    fn keep(&mut self, flows: &str) -> Result<(), String> {
        let dir = self.dir();
        let written = write(&dir, &self.stem, flows);
        let path = written.map_err(|e| format!("{}: {}", dir.display(), trouble(&e)))?;
        all().push(path.clone());
        if self.out.is_none() {
            let path = path.display();
            Progress::past(format_args!(
                "Until they are put back, the switch's flows are in {path}"
            ));
        }
        self.path = Some(path);
        Ok(())
    }

    fn restored(&mut self) {
        let Some(path) = self.path.take() else { return };
        all().retain(|p| *p != path);
        if let Err(e) = remove_file(&path)
            && e.kind() != ErrorKind::NotFound
        {
            let (path, why) = (path.display(), trouble(&e));
            Progress::past(format_args!("{path} is not needed any more, and stays: {why}"));
        }
    }

    fn left(&mut self, flows: &str) -> String {
        match &self.path {
            Some(path) if path.exists() => said_of(path),
            // Somebody has taken it away.
            _ => {
                if let Some(path) = self.path.take() {
                    all().retain(|p| *p != path);
                }
                note(flows.trim_end());
                "The flows of before were printed on standard error, to be put back by hand."
                    .to_owned()
            }
        }
    }
}

fn said_of(path: &Path) -> String {
    format!("The flows of before are in {}, to be put back by hand.", path.display())
}

/// Where flows are that switches may not have, a line each; `None`: every switch has its own.
pub fn left() -> Option<String> {
    let lines: Vec<_> = all().iter().map(|p| said_of(p)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The same as the last lines of what a command came to: that is no success.
///
/// # Errors
/// Flows are left; or what the command came to.
pub fn told_last(done: Result<()>) -> Result<()> {
    let Some(left) = left() else { return done };
    Err(match done {
        Ok(()) => anyhow!("{left}"),
        Err(e) => {
            let why = format!("{e:#}");
            if why.ends_with(&left) { anyhow!("{why}") } else { anyhow!("{why}\n{left}") }
        }
    })
}

/// Writes a file that is nobody's yet, to the disk; says where.
fn write(dir: &Path, stem: &str, text: &str) -> io::Result<PathBuf> {
    for n in 1..MOST {
        let path = dir.join(nth(stem, n) + ENDING);
        // What a switch does is its owner's to tell.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut f) => {
                let done = f.write_all(text.as_bytes()).and_then(|()| f.sync_all());
                if done.is_err() {
                    // A part would look like all.
                    let _ = remove_file(&path);
                }
                return done.map(|()| path);
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_in_a_file_until_the_switch_has_them() {
        let dir = tempfile::tempdir().unwrap();
        let out = Some(dir.path().to_owned());
        let new = || Flows::new(out.clone(), "echo-a".to_owned());
        let (mut one, mut two) = (new(), new());
        one.keep("x").unwrap();
        // Nobody's is written over.
        two.keep("y").unwrap();
        let [first, second] =
            ["echo-a", "echo-a-2"].map(|n| dir.path().join(n.to_owned() + ".flows.txt"));
        assert_eq!(std::fs::read_to_string(&first).unwrap(), "x");
        assert_eq!(std::fs::read_to_string(&second).unwrap(), "y");
        one.restored();
        assert!(!first.exists() && second.exists());
        // The last line, once.
        let line = two.left("y");
        assert_eq!(line, said_of(&second));
        assert_eq!(told_last(Ok(())).unwrap_err().to_string(), line);
        for why in ["it failed".to_owned(), format!("it failed\n{line}")] {
            let e = told_last(Err(anyhow!(why))).unwrap_err();
            assert_eq!(e.to_string(), format!("it failed\n{line}"));
        }
        // Gone with its directory: they are printed instead.
        std::fs::remove_file(&second).unwrap();
        assert!(two.left("y").contains("printed on standard error"));
        assert!(told_last(Ok(())).is_ok());
    }

    #[test]
    fn files_of_earlier_runs_are_found_by_their_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["echo-a", "echo-a-2", "echo-a-b", "echo-ab", "other-echo-a", "echo"] {
            std::fs::write(path(&format!("{name}.flows.txt")), "x").unwrap();
        }
        std::fs::write(path("echo-a.json"), "x").unwrap();
        let want = [path("echo-a-2.flows.txt"), path("echo-a.flows.txt")];
        assert_eq!(earlier(dir.path(), "echo-a"), want);
        assert_eq!(earlier(&path("none"), "echo-a"), [""; 0].map(PathBuf::from));
        let said = said_of_earlier(&want[1]);
        assert!(said.contains(&format!("add-flows SWITCH {}'", want[1].display())), "{said}");
    }

    #[test]
    fn where_there_is_no_room_that_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let mut flows = Flows::new(Some(dir.path().join("none")), "echo-a".to_owned());
        let why = flows.keep("x").unwrap_err();
        assert!(why.contains("none: "), "{why}");
    }
}
