//! Documents kept together: one module on several devices, a paper's values beside them.
//!
//! Touches the files that it is asked to, as [`super::file`] does and by the same rules.

use super::file::{DocumentError, LONGEST, of_kind, read, within};
use super::whole::Whole;
use super::{Document, SCHEMA};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What stands in `kind`.
pub const KIND: &str = "comparison";

/// Documents that are read together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`KIND`].
    pub kind: String,
    /// [`SCHEMA`] of the program that wrote it.
    pub schema: u32,
    /// The module's or study's id.
    pub id: String,
    /// What it asks.
    pub title: String,
    /// The documents, in the order in which a reader wants them.
    pub documents: Vec<Document>,
}

impl Comparison {
    /// Of these documents.
    pub fn new(id: &str, title: &str, documents: Vec<Document>) -> Self {
        let (id, title) = (id.to_owned(), title.to_owned());
        Self { kind: KIND.to_owned(), schema: SCHEMA, id, title, documents }
    }

    /// As JSON on one line, with a line end.
    ///
    /// # Errors
    /// [`DocumentError::Value`]: a document would not be read back.
    pub fn to_json(&self) -> Result<String, DocumentError> {
        self.documents.iter().try_for_each(Document::check)?;
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// From JSON; distributions come without their samples, see [`Self::load`].
    ///
    /// # Errors
    /// Not a comparison, of a newer schema, or with values that make no sense.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        let all: Self = of_kind(text, KIND)?;
        all.documents.iter().try_for_each(Document::check)?;
        Ok(all)
    }

    /// Writes `STEM.json` and, for each distribution with samples, `STEM.N.ID.samples.txt` into `dir`,
    /// which must exist; `N` counts the documents from 1.
    ///
    /// # Errors
    /// A file can't be written, or a document would not be read back.
    pub fn save(&mut self, dir: &Path, stem: &str) -> Result<PathBuf, DocumentError> {
        for (n, d) in self.documents.iter_mut().enumerate() {
            d.name_samples(&format!("{stem}.{}", n + 1));
        }
        let json = self.to_json()?;
        let mut files = Whole::default();
        self.documents.iter().try_for_each(|d| d.write_samples(dir, &mut files))?;
        let path = dir.join(format!("{stem}.json"));
        files.write(&path, &json)?;
        files.finish()?;
        Ok(path)
    }

    /// Reads a comparison, and the samples beside it that are there.
    ///
    /// # Errors
    /// As [`Document::load`].
    pub fn load(path: &Path) -> Result<Self, DocumentError> {
        let text = read(path, LONGEST)?;
        let mut all = Self::from_json(&text).map_err(|e| within(path, e))?;
        let dir = path.parent().unwrap_or(Path::new(""));
        all.documents.iter_mut().try_for_each(|d| d.read_samples(dir))?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Dut, Samples};
    use crate::environment::Environment;

    fn one(name: &str) -> Document {
        let dut = Dut { name: name.to_owned(), ..Dut::default() };
        let mut d = Document::new("echo", "how long", dut, Environment::nowhere());
        let mut samples = Samples::new("ms");
        [1.0, 2.0].iter().for_each(|&v| samples.record(v));
        d.distribution("rtt", "round trip", samples);
        d
    }

    #[test]
    fn what_is_written_is_read_with_everybodys_samples() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = Comparison::new("echo", "how long", vec![one("a"), one("b")]);
        let path = all.save(dir.path(), "echo").unwrap();
        let back = Comparison::load(&path).unwrap();
        assert_eq!(back, all);
        assert_eq!(back.documents[1].distributions[0].raw, [1.0, 2.0]);
    }

    #[test]
    fn what_is_none_is_refused() {
        let d = one("a").to_json().unwrap();
        for (text, why) in [
            (d.as_str(), "\"kind\" is \"measurement\""),
            ("{}", "\"kind\" is missing"),
            ("{\"kind\":\"comparison\",\"schema\":99}", "newer weir"),
            ("{\"kind\":\"comparison\",\"schema\":1}", "missing field"),
        ] {
            let e = Comparison::from_json(text).unwrap_err().to_string();
            assert!(e.contains(why) && e.lines().count() == 1, "{e}");
        }
    }
}
