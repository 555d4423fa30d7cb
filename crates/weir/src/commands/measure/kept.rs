//! Where results go: names in the directory of `--out` that destroy no other device's.
//!
//! Room: files that are there already, and names. What is written is `weir_measure::document`'s.

use anyhow::{Result, anyhow};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use weir_measure::document::{Document, Dut, file, whole};
use weir_measure::report;

/// Names that are tried.
pub const MOST: usize = 10_000;

/// Whose results a file of a document or of several has.
#[derive(Deserialize)]
struct Head {
    dut: Option<Dut>,
    #[serde(default)]
    documents: Vec<Head>,
}

impl Head {
    fn names(&self) -> Vec<&str> {
        let inner = self.documents.iter().flat_map(Head::names);
        self.dut.iter().map(|d| d.name.as_str()).chain(inner).collect()
    }
}

/// A stem for results of these devices, `stem` if that is free or has been theirs: a device that is measured again
/// has its newest result there, and nobody else's is lost.
pub fn free(dir: &Path, stem: &str, devices: &[&str]) -> String {
    let free = |s: &String| is_theirs(&dir.join(format!("{s}.json")), devices);
    (1..MOST).map(|n| nth(stem, n)).find(free).unwrap_or_else(|| nth(stem, MOST))
}

/// The stem that is tried as the `n`th, from 1 on.
pub fn nth(stem: &str, n: usize) -> String {
    if n == 1 { stem.to_owned() } else { format!("{stem}-{n}") }
}

/// Whether a file is not there, or has results of these devices alone.
fn is_theirs(path: &Path, devices: &[&str]) -> bool {
    if !path.exists() {
        return true;
    }
    let text = file::read(path, file::LONGEST).unwrap_or_default();
    let Ok(head) = serde_json::from_str::<Head>(&text) else { return false };
    let names = head.names();
    !names.is_empty() && names.iter().all(|n| devices.contains(n))
}

/// Writes one result; says where.
///
/// # Errors
/// It can't be written. What was there before is as it was.
pub fn save(document: &mut Document, dir: &Path, stem: &str) -> Result<PathBuf> {
    let stem = free(dir, stem, &[&document.dut.name]);
    document.save(dir, &stem).map_err(|e| anyhow!("the result could not be saved: {e}"))
}

/// Writes the report.
///
/// # Errors
/// The file can't be written.
pub fn write_page(path: &Path, documents: &[Document]) -> Result<()> {
    let written = whole::write(path, &report::html(documents));
    written.map_err(|e| anyhow!("the report could not be saved: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_elses_result_is_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let named =
            |name: &str| serde_json::json!({ "dut": Dut { name: name.into(), ..Dut::default() } });
        assert_eq!(free(dir.path(), "echo-a", &["a"]), "echo-a");
        write("echo-a.json", &named("a").to_string());
        assert_eq!(free(dir.path(), "echo-a", &["a"]), "echo-a");
        assert_eq!(free(dir.path(), "echo-a", &["A"]), "echo-a-2");
        write(
            "echo.json",
            &serde_json::json!({ "documents": [named("a"), named("b")] }).to_string(),
        );
        assert_eq!(free(dir.path(), "echo", &["b", "a"]), "echo");
        assert_eq!(free(dir.path(), "echo", &["b", "c"]), "echo-2");
        // What can't be read may be anybody's.
        write("echo-2.json", "{");
        assert_eq!(free(dir.path(), "echo", &["b", "c"]), "echo-3");
    }
}
