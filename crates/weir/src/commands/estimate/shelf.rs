//! The models and profiles that come along, and those in files.
//!
//! Room: files. Called by every verb that estimates or places.

use super::Files;
use crate::fault::bad_input;
use anyhow::Result;
use std::path::Path;
use weir_estimate::fault::{nearest, unknown};
use weir_estimate::{Library, Operations, Profile};
use weir_measure::document::file;

/// A file that comes along: its name in errors, and its text.
type Shipped = (&'static str, &'static str);

macro_rules! shipped {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../../", $file)))),*]
    };
}

const OPERATIONS: Shipped =
    ("models/operations.toml", include_str!("../../../../../models/operations.toml"));

/// Every model in `models/`.
const MODELS: &[Shipped] = shipped![
    "models/acl.toml",
    "models/bng.toml",
    "models/bng-access.toml",
    "models/bng-access-plain.toml",
    "models/bng-core.toml",
    "models/bng-plain.toml",
    "models/channel-receive.toml",
    "models/channel-send.toml",
    "models/firewall.toml",
    "models/ipv4-router.toml",
    "models/ipv6-router.toml",
    "models/l2-basic.toml",
    "models/l2-learning.toml",
    "models/link.toml",
    "models/load-balancer.toml",
    "models/mpls-switch.toml",
    "models/nat44.toml",
    "models/ovs-learning.toml",
    "models/ovs-rules.toml",
    "models/policer.toml",
    "models/vdp-program.toml",
    "models/vdp-rules.toml",
    "models/vxlan-decap.toml",
    "models/vxlan-encap.toml",
    "models/vxlan-gateway.toml",
];

/// Every profile in `profiles/`.
const PROFILES: &[Shipped] = shipped![
    "profiles/pearl-card.toml",
    "profiles/virtual-epyc.toml",
    "profiles/virtual-xeon.toml",
    "profiles/xeon-e5-2690v2.toml"
];

/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The name of the profile or model in a shipped file.
fn stem(file: &str) -> &str {
    file.rsplit('/').next().and_then(|f| f.strip_suffix(".toml")).unwrap_or(file)
}

/// Whether a name means a file.
fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

/// Reads a file of the user's.
///
/// # Errors
/// What can't be read is bad input.
pub fn read(path: &Path) -> Result<String> {
    // A device has no size, and no end.
    file::read(path, MAX_FILE_BYTES).map_err(bad_input)
}

/// Refuses an output that is one of the files that are read.
///
/// # Errors
/// It is one of them, by whatever name.
pub fn spare<'p>(
    output: &Path,
    option: &str,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<()> {
    match inputs.into_iter().find(|i| weir_io::is_one_file(i, output)) {
        Some(input) => Err(bad_input(format!(
            "{option} {}: {} is read, and would be lost: write elsewhere",
            output.display(),
            input.display()
        ))),
        None => Ok(()),
    }
}

/// The file that a name means, where it means one.
pub fn named(name: &str) -> Option<&Path> {
    is_path(name).then(|| Path::new(name))
}

/// Everything that comes along, and the files that are named.
///
/// # Errors
/// A file that can't be read or is wrong.
pub fn library(files: &Files) -> Result<Library> {
    let mut operations = Operations::read(OPERATIONS.0, OPERATIONS.1).map_err(bad_input)?;
    if let Some(path) = &files.operations {
        operations.add(&path.display().to_string(), &read(path)?).map_err(bad_input)?;
    }
    let mut library = Library::new(operations);
    for (file, text) in MODELS {
        library.add(file, text).map_err(bad_input)?;
    }
    for path in &files.models {
        library.add(&path.display().to_string(), &read(path)?).map_err(bad_input)?;
    }
    Ok(library)
}

/// The name of a network function: one that is known, or one in a file, which then is known, too.
///
/// # Errors
/// A file that can't be read or is wrong; a name that is not known.
pub fn function(library: &mut Library, name: &str) -> Result<String> {
    if is_path(name) {
        let added = library.add(name, &read(Path::new(name))?).map_err(bad_input)?;
        return Ok(added.to_string());
    }
    if library.get(name).is_none() {
        return Err(bad_input(unknown("network function", name, library.names())));
    }
    Ok(name.to_owned())
}

/// A profile by its name, or from a file.
///
/// # Errors
/// A file that can't be read or is wrong; a name that is not known.
pub fn profile(library: &Library, name: &str) -> Result<Profile> {
    let (file, text) = profile_text(name)?;
    Profile::read(&file, &text, library.operations()).map_err(bad_input)
}

/// What errors call a profile, and its text.
///
/// # Errors
/// A file that can't be read; a name that is not known.
pub fn profile_text(name: &str) -> Result<(String, String)> {
    if is_path(name) {
        return Ok((name.to_owned(), read(Path::new(name))?));
    }
    let Some((file, text)) = PROFILES.iter().find(|p| stem(p.0) == name) else {
        let known = PROFILES.iter().map(|p| stem(p.0));
        let text = unknown("profile", name, known);
        return Err(bad_input(format!("{text}. A file's name has a '/' or ends with '.toml'")));
    };
    Ok(((*file).to_owned(), (*text).to_owned()))
}

/// The profiles that come along.
///
/// # Errors
/// None in what is shipped: a test reads them all.
pub fn profiles(library: &Library) -> Result<Vec<Profile>> {
    PROFILES.iter().map(|p| profile(library, stem(p.0))).collect()
}

/// One of a few words, for arguments of the command line.
///
/// # Errors
/// The words there are, and the nearest.
pub fn word<T: Copy>(given: &str, words: &[(&str, T)]) -> Result<T, String> {
    words.iter().find(|w| w.0 == given).map(|w| w.1).ok_or_else(|| {
        let near = nearest(given, words.iter().map(|w| w.0));
        let near = near.map(|n| format!("did you mean '{n}'? ")).unwrap_or_default();
        let list: Vec<&str> = words.iter().map(|w| w.0).collect();
        format!("{near}It is one of {}", list.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(directory: &str) -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut all: Vec<String> = std::fs::read_dir(root.join(directory))
            .expect(directory)
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter(|n| n.ends_with(".toml"))
            .map(|n| format!("{directory}/{n}"))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn everything_there_comes_along_and_is_right() {
        let mut models: Vec<&str> = MODELS.iter().map(|m| m.0).collect();
        models.push(OPERATIONS.0);
        models.sort_unstable();
        assert_eq!(models, here("models"));
        let mut profiles: Vec<&str> = PROFILES.iter().map(|p| p.0).collect();
        profiles.sort_unstable();
        assert_eq!(profiles, here("profiles"));
        let library = library(&Files::default()).expect("the library");
        for (file, _) in MODELS {
            library.model(stem(file)).expect(file);
        }
        for p in super::profiles(&library).expect("the profiles") {
            assert_eq!(&*p.name, stem(&p.file));
        }
    }
}
