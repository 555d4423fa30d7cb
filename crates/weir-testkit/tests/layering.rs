//! The house's arrows point one way, and `unsafe` stays where it is allowed: both read from the sources.
//!
//! Room: guards the workspace's structure. Touches only manifests and crate roots, as text. `ARROWS` is the
//! table of ARCHITECTURE.md; a new crate or a new arrow is added there first, with its reason.

use std::fs;
use std::path::{Path, PathBuf};

/// Each crate, and which of ours its code may depend on. Tests may use more: dev-dependencies are not arrows.
const ARROWS: &[(&str, &[&str])] = &[
    ("weir-wire", &[]),
    ("weir-packet", &[]),
    ("weir-classify", &[]),
    ("weir-dataplane", &["weir-wire", "weir-packet", "weir-classify"]),
    ("weir-openflow", &["weir-wire"]),
    ("weir-agent", &["weir-openflow", "weir-dataplane", "weir-classify", "weir-packet"]),
    ("weir-io", &["weir-packet"]),
    ("weir-measure", &["weir-wire", "weir-packet", "weir-openflow", "weir-io"]),
    ("weir-estimate", &[]),
    ("weir-calibrate", &["weir-estimate"]),
    ("weir-supervisor", &["weir-openflow", "weir-estimate"]),
    ("weir-testkit", &[ANY]),
    ("weir", &[ANY]),
];

const ANY: &str = "any of ours";

/// The tables of a manifest whose entries are arrows.
const TABLES: &[&str] = &["dependencies", "build-dependencies"];

/// For tests only: no crate's own code may depend on it.
const TESTS_ONLY: &str = "weir-testkit";

/// Where `allow(unsafe_code)` may stand: a crate, and a path below its `src` (empty: anywhere).
const UNSAFE_ROOMS: &[(&str, &str)] =
    &[("weir-io", ""), ("weir-packet", "region"), ("weir-classify", "simd")];

#[test]
fn arrows_point_one_way() {
    let mut wrong = Vec::new();
    for krate in crates() {
        let manifest = read(&krate.join("Cargo.toml"));
        wrong.extend(wrong_arrows(&name_of(&krate), &manifest));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_arrow_is_seen() {
    let up = "[dependencies]\nweir-dataplane.workspace = true\n";
    assert_eq!(
        wrong_arrows("weir-classify", up),
        ["weir-classify must not depend on weir-dataplane"]
    );
    let table = "[dependencies.weir-io]\npath = \"../weir-io\"\n";
    assert_eq!(wrong_arrows("weir-wire", table), ["weir-wire must not depend on weir-io"]);
    let target = "[target.'cfg(unix)'.dependencies]\nweir-io = { workspace = true }\n";
    assert_eq!(wrong_arrows("weir-packet", target), ["weir-packet must not depend on weir-io"]);
    let renamed = "[dependencies]\nio = { package = \"weir-io\", path = \"../weir-io\" }\n";
    assert_eq!(wrong_arrows("weir-wire", renamed), ["weir-wire must not depend on weir-io"]);
    let testkit = "[dependencies]\nweir-testkit.workspace = true\n";
    assert_eq!(wrong_arrows("weir", testkit), ["weir must not depend on weir-testkit"]);
    let unknown = "[dependencies]\n";
    assert_eq!(wrong_arrows("weir-else", unknown), ["weir-else has no row in the table of arrows"]);

    let dev = "[dev-dependencies]\nweir-testkit.workspace = true\nweir-io.workspace = true\n";
    assert!(wrong_arrows("weir-wire", dev).is_empty());
    let right = "[dependencies]\nweir-packet.workspace = true # ports\nthiserror = \"2\"\n";
    assert!(wrong_arrows("weir-io", right).is_empty());
}

#[test]
fn unsafe_code_has_its_rooms() {
    let mut wrong = Vec::new();
    for krate in crates() {
        let name = name_of(&krate);
        let room = UNSAFE_ROOMS.iter().find(|(owner, _)| *owner == name).map(|(_, path)| *path);
        let source = krate.join("src");
        let root = ["lib.rs", "main.rs"].map(|file| source.join(file));
        let root = root.iter().find(|path| path.exists()).expect("a crate has a root");
        let lint = if room.is_some() { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
        if !read(root).lines().any(|line| line == lint) {
            wrong.push(format!("{} lacks {lint}", root.display()));
        }
        for file in rust_files(&source) {
            let below = file.strip_prefix(&source).expect("found below it").with_extension("");
            if read(&file).contains("allow(unsafe_code)")
                && !room.is_some_and(|room| below.starts_with(room))
            {
                wrong.push(format!("{} is no place for unsafe code", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One sentence for each dependency that the table does not allow.
fn wrong_arrows(name: &str, manifest: &str) -> Vec<String> {
    let Some((_, allowed)) = ARROWS.iter().find(|(krate, _)| *krate == name) else {
        return vec![format!("{name} has no row in the table of arrows")];
    };
    dependencies(manifest)
        .into_iter()
        .filter(|on| on == "weir" || on.starts_with("weir-"))
        .filter(|on| {
            on == TESTS_ONLY || !(allowed.contains(&ANY) || allowed.contains(&on.as_str()))
        })
        .map(|on| format!("{name} must not depend on {on}"))
        .collect()
}

/// Package names in every `dependencies` and `build-dependencies` table of a manifest, dev-dependencies left out.
/// Reads the forms that this workspace uses, line by line; that is all of TOML it needs.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.split(']').next().unwrap_or_default();
            let mut parts = header.rsplit('.');
            let last = parts.next().unwrap_or_default();
            inside = TABLES.contains(&last);
            if parts.next().is_some_and(|part| TABLES.contains(&part)) {
                found.push(last.trim_matches('"').to_owned());
            }
        } else if inside && !line.starts_with('#') {
            if let Some((_, renamed)) = line.split_once("package = \"") {
                found.extend(renamed.split('"').next().map(str::to_owned));
            } else if let Some(key) =
                line.split(['=', '.', ' ']).next().filter(|key| !key.is_empty())
            {
                found.push(key.trim_matches('"').to_owned());
            }
        }
    }
    found
}

fn crates() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/");
    let entries = fs::read_dir(all).expect("crates/ is readable");
    let found: Vec<_> = entries
        .map(|entry| entry.expect("an entry of crates/").path())
        .filter(|path| path.join("Cargo.toml").exists())
        .collect();
    assert!(found.len() >= 7, "found only {} crates in {}", found.len(), all.display());
    found
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn name_of(krate: &Path) -> String {
    krate.file_name().expect("a crate's directory").to_string_lossy().into_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
