//! What labs, wires and studies have made, found by its names, which have the process in them: taken away where nobody
//! drops it. Of a process that was killed, the next lab does that; of this one, who ends it at once.
//!
//! Room: namespaces, the processes inside, folders among the temporary files. Called by `commands::measure` and `study`.

use crate::namespace;
use crate::router::programs::{end, inside};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What a lab's namespaces are made for, as their names begin.
pub const LAB: &str = "weir-lab";
/// What those of wires are made for.
pub const WIRE: &str = "weir-wire";
/// What those of studies are made for.
pub const STUDY: &str = "weir-study";

/// Takes away what processes that are gone have left.
pub fn sweep() {
    // One that has ended and was not asked how is in no namespace any more.
    take_away(|pid| !Path::new(&format!("/proc/{pid}/ns/net")).exists());
}

/// Takes away all that this process has made.
pub fn take_own_away() {
    take_away(|pid| pid == std::process::id());
}

fn take_away(whose: impl Fn(u32) -> bool) {
    let found = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|e| e.path()).filter(|p| maker(p).is_some_and(&whose)).collect()
    };
    for path in found(Path::new("/run/netns")) {
        let opened = File::open(&path);
        // Its name first: then nothing more is started inside.
        if let Some(name) = path.file_name().and_then(|n| n.to_str()) {
            namespace::delete(name);
        }
        if let Ok(file) = opened {
            end(|| inside(&file));
        }
    }
    for path in found(&std::env::temp_dir()) {
        // What can't be taken away is in nobody's way: the next lab's name is another.
        let _ = fs::remove_dir_all(path);
    }
}

/// The process that has made it, if its name is one that [`namespace::Namespace::new`] gives.
fn maker(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let (pid, rest) = [LAB, WIRE, STUDY]
        .iter()
        .find_map(|p| name.strip_prefix(p)?.strip_prefix('-')?.split_once('-'))?;
    let number = rest.strip_suffix(|c: char| c.is_ascii_lowercase())?;
    number.parse::<u32>().ok()?;
    pid.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_they_are_called_is_theirs() {
        for (name, pid) in [
            ("weir-lab-17-1d", Some(17)),
            ("weir-wire-4000000-12w", Some(4_000_000)),
            ("weir-lab-17", None),
            ("weir-lab-17-", None),
            ("weir-lab-17-d", None),
            ("weir-lab-17-1d.old", None),
            ("weir-lab-notes-1d", None),
            ("weir-study-17-1d", Some(17)),
            ("weir-run-17-1d", None),
        ] {
            assert_eq!(maker(Path::new("/tmp").join(name).as_path()), pid, "{name}");
        }
    }
}
