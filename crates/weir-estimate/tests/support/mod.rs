//! The data that weir ships, read from where it stands in the repository.

// Each test uses its part of this.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use weir_estimate::{Estimate, Library, Operations, Profile, Question, estimate};

/// A directory at the repository's root.
pub fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// The files of a directory, by name.
pub fn files(name: &str) -> Vec<(String, String)> {
    let mut all: Vec<_> = fs::read_dir(root(name))
        .expect(name)
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .map(|p| (p.display().to_string(), fs::read_to_string(&p).expect("a text")))
        .collect();
    all.sort();
    all
}

/// All operations and models.
pub fn library() -> Library {
    let all = files("models");
    let catalogue = |f: &&(String, String)| f.0.ends_with("/operations.toml");
    let (file, text) = all.iter().find(catalogue).expect("the catalogue");
    let mut library = Library::new(Operations::read(file, text).unwrap_or_else(|e| panic!("{e}")));
    for (file, text) in all.iter().filter(|f| !catalogue(f)) {
        library.add(file, text).unwrap_or_else(|e| panic!("{e}"));
    }
    library
}

/// A profile by its name.
pub fn profile(library: &Library, name: &str) -> Profile {
    let file = root("profiles").join(format!("{name}.toml"));
    let text = fs::read_to_string(&file).expect(name);
    Profile::read(&file.display().to_string(), &text, library.operations())
        .unwrap_or_else(|e| panic!("{e}"))
}

/// An answer.
pub fn ask(library: &Library, name: &str, profile: &Profile, question: &Question) -> Estimate {
    estimate(library, name, profile, question).unwrap_or_else(|e| panic!("{e}"))
}
