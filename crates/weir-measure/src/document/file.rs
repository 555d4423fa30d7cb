//! Documents as JSON, and their samples in files beside it.
//!
//! Touches the files that it is asked to. What it reads may come from anywhere: sizes are bounded,
//! names of files can't leave the document's directory, and every error is one line.

use super::distribution::{Distribution, SampleFile};
use super::whole::Whole;
use super::{Document, KIND, SCHEMA};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use thiserror::Error;
use weir_io::file::trouble;

/// The longest document that is read, in bytes.
pub const LONGEST: u64 = 64 << 20;

/// The longest file of samples that is read, in bytes.
pub const LONGEST_SAMPLES: u64 = 256 << 20;

/// What is wrong with a document.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// Not to be read or written.
    #[error("{}: {}", path.display(), trouble(error))]
    File {
        /// Which file.
        path: PathBuf,
        /// The system's word.
        error: std::io::Error,
    },
    /// Beyond [`LONGEST`] or [`LONGEST_SAMPLES`].
    #[error("{}: longer than the {} MB that are read of one file", path.display(), limit >> 20)]
    Long {
        /// Which file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// Not JSON, or not a document's.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// JSON of something else.
    #[error("not the result of a measurement: \"kind\" is {found}, not \"measurement\"")]
    Kind {
        /// What stands there.
        found: String,
    },
    /// Of a weir to come.
    #[error("schema {found}, and this weir reads up to {SCHEMA}: read it with a newer weir")]
    Newer {
        /// Its version.
        found: u32,
    },
    /// A value that makes no sense.
    #[error("{what}")]
    Value {
        /// What, and where.
        what: String,
    },
    /// The same, and in which file.
    #[error("{}: {error}", path.display())]
    In {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<DocumentError>,
    },
}

#[derive(Deserialize)]
struct Head {
    kind: Option<String>,
    schema: Option<u32>,
}

/// Reads what says that it is a `kind`, of no newer schema.
pub(super) fn of_kind<T: DeserializeOwned>(text: &str, kind: &str) -> Result<T, DocumentError> {
    let head: Head = serde_json::from_str(text)?;
    if head.kind.as_deref() != Some(kind) {
        let found = head.kind.map_or_else(|| "missing".to_owned(), |k| format!("{k:?}"));
        return Err(DocumentError::Kind { found });
    }
    if let Some(found) = head.schema.filter(|s| *s > SCHEMA) {
        return Err(DocumentError::Newer { found });
    }
    Ok(serde_json::from_str(text)?)
}

impl Document {
    /// As JSON on one line, with a line end.
    ///
    /// # Errors
    /// [`DocumentError::Value`]: it would not be read back.
    pub fn to_json(&self) -> Result<String, DocumentError> {
        self.check()?;
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// From JSON. Distributions come without their samples; see [`Self::load`].
    ///
    /// # Errors
    /// Not a document, of a newer schema, or with values that make no sense.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        let document: Self = of_kind(text, KIND)?;
        document.check()?;
        Ok(document)
    }

    /// Writes `STEM.json` and, for each distribution with samples, `STEM.ID.samples.txt` into `dir`,
    /// which must exist. None has its name before all are written, and the document comes last, so that one that is
    /// there has its samples.
    ///
    /// # Errors
    /// A file can't be written, or the document would not be read back.
    pub fn save(&mut self, dir: &Path, stem: &str) -> Result<PathBuf, DocumentError> {
        self.name_samples(stem);
        let json = self.to_json()?;
        let mut files = Whole::default();
        self.write_samples(dir, &mut files)?;
        let path = dir.join(format!("{stem}.json"));
        files.write(&path, &json)?;
        files.finish()?;
        Ok(path)
    }

    /// Names the files of samples after `stem`.
    pub(super) fn name_samples(&mut self, stem: &str) {
        for d in self.distributions.iter_mut().filter(|d| !d.raw.is_empty()) {
            let file = format!("{stem}.{}.samples.txt", d.id);
            d.samples = Some(SampleFile { file, count: d.raw.len() as u64 });
        }
    }

    /// Writes those files into `dir`.
    pub(super) fn write_samples(&self, dir: &Path, files: &mut Whole) -> Result<(), DocumentError> {
        for d in &self.distributions {
            if let Some(s) = d.samples.as_ref().filter(|_| !d.raw.is_empty()) {
                files.write(&dir.join(&s.file), &sample_text(d))?;
            }
        }
        Ok(())
    }

    /// Reads those of them that are in `dir`.
    pub(super) fn read_samples(&mut self, dir: &Path) -> Result<(), DocumentError> {
        for d in &mut self.distributions {
            let Some(s) = &d.samples else { continue };
            let path = dir.join(&s.file);
            if path.exists() {
                let text = read(&path, LONGEST_SAMPLES)?;
                d.raw = parse_samples(&text, s.count).map_err(|e| within(&path, e))?;
            }
        }
        Ok(())
    }

    /// Reads a document, and the samples beside it that are there.
    ///
    /// # Errors
    /// [`DocumentError`], with the file's name. A file of samples that is missing is no error; one that
    /// is not what the document says is.
    pub fn load(path: &Path) -> Result<Self, DocumentError> {
        let text = read(path, LONGEST)?;
        let mut document = Self::from_json(&text).map_err(|e| within(path, e))?;
        document.read_samples(path.parent().unwrap_or(Path::new("")))?;
        Ok(document)
    }

    /// Whether it would be read back, and makes sense.
    ///
    /// # Errors
    /// [`DocumentError::Value`].
    pub fn check(&self) -> Result<(), DocumentError> {
        let wrong = |what: String| Err(DocumentError::Value { what });
        if self.id.is_empty() {
            return wrong("the document's id is empty".into());
        }
        for f in &self.figures {
            for s in &f.series {
                if let Some(i) = s.points.iter().position(|p| !p.x.is_finite()) {
                    let n = i + 1;
                    return wrong(format!(
                        "figure {:?}, series {:?}: point {n} has no x",
                        f.id, s.name
                    ));
                }
            }
        }
        for t in &self.tables {
            let width = t.columns.len();
            if let Some(i) = t.rows.iter().position(|r| r.len() != width) {
                let (n, cells) = (i + 1, t.rows.get(i).map_or(0, Vec::len));
                return wrong(format!(
                    "table {:?}: row {n} has {cells} cells for {width} columns",
                    t.id
                ));
            }
        }
        for d in &self.distributions {
            let id = &d.id;
            if !is_plain(id) {
                return wrong(format!("distribution {id:?}: {PLAIN}"));
            }
            if !d.percentiles.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1) {
                return wrong(format!("distribution {id:?}: the percentiles don't rise"));
            }
            if let Some(s) = d.samples.as_ref().filter(|s| !bare(&s.file)) {
                let file = &s.file;
                return wrong(format!("distribution {id:?}: {file:?} is not a file's bare name"));
            }
        }
        Ok(())
    }
}

pub(super) fn within(path: &Path, error: DocumentError) -> DocumentError {
    DocumentError::In { path: path.to_owned(), error: Box::new(error) }
}

/// What [`is_plain`] asks for, in words.
pub const PLAIN: &str = "an id has letters, digits, '-' and '_'";

/// Whether a distribution may have this id: files are called after it.
pub fn is_plain(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !id.is_empty() && id.chars().all(plain)
}

/// Whether a name stays in its directory.
fn bare(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

/// A distribution's samples as [`SampleFile`] has them.
pub fn sample_text(d: &Distribution) -> String {
    let unit = d.unit.replace(['\n', '\r'], " ");
    let mut text = format!("# {unit}\n");
    for v in &d.raw {
        // Shortest digits that read back as the same number. Writing to a string can't fail.
        let _ = match v.abs() {
            a if a != 0.0 && !(1e-5..1e16).contains(&a) => writeln!(text, "{v:e}"),
            _ => writeln!(text, "{v}"),
        };
    }
    text
}

fn parse_samples(text: &str, count: u64) -> Result<Vec<f64>, DocumentError> {
    let mut values = Vec::new();
    let numbers = text.lines().enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
    for (i, line) in numbers {
        match line.parse::<f64>() {
            Ok(v) if v.is_finite() => values.push(v),
            _ => {
                let word: String = line.chars().take(40).collect();
                let what = format!("line {}: {word:?} is not a number", i + 1);
                return Err(DocumentError::Value { what });
            }
        }
    }
    if values.len() as u64 != count {
        let what = format!("{} samples, and the document says {count}", values.len());
        return Err(DocumentError::Value { what });
    }
    Ok(values)
}

/// The text of a file, if it is not longer than `limit` bytes.
///
/// # Errors
/// [`DocumentError::File`], [`DocumentError::Long`].
pub fn read(path: &Path, limit: u64) -> Result<String, DocumentError> {
    let failed = |error| DocumentError::File { path: path.to_owned(), error };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(limit + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > limit {
        return Err(DocumentError::Long { path: path.to_owned(), limit });
    }
    Ok(text)
}
