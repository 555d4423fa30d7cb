//! The flows of the user's switch, in a file while a measurement has its table: gone when the switch has them again,
//! and named in the last line that is said where it may not have them.
//!
//! Room: files, and a list of those that are there, for whoever ends the program early. Labs are gone afterwards, and
//! need none of it.

use super::kept::{MOST, nth};
use crate::commands::say::note;
use crate::commands::style::Progress;
use anyhow::{Result, anyhow};
use std::fs::{OpenOptions, remove_file};
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
}

impl Keep for Flows {
    fn keep(&mut self, flows: &str) -> Result<(), String> {
        let dir = self.out.clone().unwrap_or_else(std::env::temp_dir);
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
        let path = dir.join(format!("{}.flows.txt", nth(stem, n)));
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
    fn where_there_is_no_room_that_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let mut flows = Flows::new(Some(dir.path().join("none")), "echo-a".to_owned());
        let why = flows.keep("x").unwrap_err();
        assert!(why.contains("none: "), "{why}");
    }
}
