//! Pktgen's files: a directory with a control file, one for each of its threads, one for each interface.

use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// Where they are, in the calling thread's network namespace.
pub const PROC: &str = "/proc/thread-self/net/pktgen";
/// The longest answer read, in bytes; the kernel's are below a page.
const LONGEST: u64 = 1 << 16;

/// A directory that behaves as pktgen's does.
pub trait Files: Send + Sync {
    /// What to call it.
    fn place(&self) -> String;
    /// The files that there are.
    ///
    /// # Errors
    /// It is not there, or not for us.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Writes a command.
    ///
    /// # Errors
    /// No such file, no rights, not a command.
    fn write(&self, file: &str, line: &str) -> io::Result<()>;
    /// Reads what it says.
    ///
    /// # Errors
    /// No such file, no rights.
    fn read(&self, file: &str) -> io::Result<String>;
}

/// The kernel's, or one laid out like it.
#[derive(Clone, Debug)]
pub struct Proc {
    /// As it is called, and where it is.
    called: PathBuf,
    real: PathBuf,
}

impl Proc {
    /// Those in that directory; [`PROC`] is the kernel's. It is the directory that counts which is there now:
    /// threads of other namespaces that use this later use the same.
    pub fn new(place: impl Into<PathBuf>) -> Self {
        let called = place.into();
        // 'thread-self' means another thread in another thread.
        let link = PathBuf::from("/proc/thread-self");
        let real = called.strip_prefix(&link).ok().zip(fs::canonicalize(&link).ok());
        let real = real.map_or_else(|| called.clone(), |(rest, this)| this.join(rest));
        Self { called, real }
    }
}

impl Files for Proc {
    fn place(&self) -> String {
        self.called.display().to_string()
    }
    fn names(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.real)?
            .map(|e| Ok(e?.file_name().to_string_lossy().into_owned()))
            .collect()
    }
    fn write(&self, file: &str, line: &str) -> io::Result<()> {
        // One write for a whole command, with the end of line that the kernel cuts off.
        let mut to = fs::OpenOptions::new().write(true).open(self.real.join(file))?;
        to.write_all(format!("{line}\n").as_bytes())
    }
    fn read(&self, file: &str) -> io::Result<String> {
        let mut text = Vec::new();
        fs::File::open(self.real.join(file))?.take(LONGEST).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}
