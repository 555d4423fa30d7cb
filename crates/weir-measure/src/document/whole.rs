//! Files that are there whole or not at all: written beside their names, renamed once all of them are.
//!
//! Touches the files that it is asked to. A disk that is full leaves what was there before as it was. A link is
//! followed; what is no file, as `/dev/stdout`, is written to as it is, at once.

use super::file::DocumentError;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Files that are being written; those that were not renamed are removed when this is dropped.
#[derive(Debug, Default)]
pub struct Whole(Vec<(PathBuf, PathBuf)>);

impl Whole {
    /// Writes `text` beside `path`.
    ///
    /// # Errors
    /// [`DocumentError::File`].
    pub fn write(&mut self, path: &Path, text: &str) -> Result<(), DocumentError> {
        if path.metadata().is_ok_and(|m| !m.is_file()) {
            return std::fs::write(path, text).map_err(|e| at(path, e));
        }
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
        // Listed before it is there: what was begun is removed, too.
        self.0.push((beside.clone(), path.to_owned()));
        let written = File::create(&beside).and_then(|mut f| {
            f.write_all(text.as_bytes())?;
            // Some disks say only now that they are full.
            f.sync_all()
        });
        written.map_err(|e| at(path, e))
    }

    /// Gives all of them their names, in the order in which they were written.
    ///
    /// # Errors
    /// [`DocumentError::File`]; those before it have theirs.
    pub fn finish(mut self) -> Result<(), DocumentError> {
        let all = std::mem::take(&mut self.0);
        let mut all = all.into_iter();
        while let Some((beside, path)) = all.next() {
            if let Err(e) = std::fs::rename(&beside, &path) {
                self.0.push((beside, path.clone()));
                self.0.extend(all);
                return Err(at(&path, e));
            }
        }
        Ok(())
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        for (beside, _) in &self.0 {
            // It may never have been made.
            let _ = std::fs::remove_file(beside);
        }
    }
}

/// One file.
///
/// # Errors
/// [`DocumentError::File`].
pub fn write(path: &Path, text: &str) -> Result<(), DocumentError> {
    let mut file = Whole::default();
    file.write(path, text)?;
    file.finish()
}

fn at(path: &Path, error: io::Error) -> DocumentError {
    DocumentError::File { path: path.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let all = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            all.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_there_stays_until_all_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        write(&at("a"), "old").unwrap();
        let mut files = Whole::default();
        files.write(&at("a"), "new").unwrap();
        assert_eq!(std::fs::read_to_string(at("a")).unwrap(), "old");
        // The next can't be written: its directory is none.
        let e = files.write(&at("none/b"), "new").unwrap_err();
        assert!(matches!(&e, DocumentError::File { path, .. } if *path == at("none/b")), "{e}");
        drop(files);
        assert_eq!(std::fs::read_to_string(at("a")).unwrap(), "old");
        assert_eq!(names(dir.path()), ["a"]);
        let mut files = Whole::default();
        files.write(&at("a"), "new").unwrap();
        files.write(&at("b"), "new").unwrap();
        files.finish().unwrap();
        assert_eq!(std::fs::read_to_string(at("a")).unwrap(), "new");
        assert_eq!(names(dir.path()), ["a", "b"]);
    }

    #[test]
    fn links_are_followed_and_what_is_no_file_stays_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        write(&at("a"), "old").unwrap();
        std::os::unix::fs::symlink("a", at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/null", at("null")).unwrap();
        write(&at("link"), "new").unwrap();
        write(&at("null"), "new").unwrap();
        assert_eq!(std::fs::read_to_string(at("a")).unwrap(), "new");
        assert!(at("link").is_symlink() && at("null").is_symlink());
        assert_eq!(std::fs::read_to_string("/dev/null").unwrap(), "");
        assert_eq!(names(dir.path()), ["a", "link", "null"]);
        assert!(matches!(write(dir.path(), "new"), Err(DocumentError::File { .. })));
    }
}
