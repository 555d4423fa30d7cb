//! Tables: typed columns with units; cells that are a number, a text, or not stated.
//!
//! Plain data. Filled by modules; shown by the report.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is shown for [`Cell::NotStated`].
pub const NOT_STATED: &str = "not stated";

/// What stands for a number that is none: nothing could be measured.
const NONE: &str = "none";

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Names it in its document. Tables of two documents with the same are side by side.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// What it holds.
    pub name: String,
    /// Its unit, empty for plain numbers and words.
    #[serde(default)]
    pub unit: String,
    /// How it is aligned and sorted. Words may stand in a column of numbers all the same.
    #[serde(default)]
    pub kind: ColumnKind,
}

/// What a column's cells are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnKind {
    /// Words.
    #[default]
    Text,
    /// Numbers.
    Number,
}

/// A cell; in JSON a number, a string, or `null` for [`Cell::NotStated`].
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A number in the column's unit. One that is not finite is written as the word `none`.
    Number(f64),
    /// Words.
    Text(String),
    /// A paper's text and tables have no number here. Not for what we could not measure.
    NotStated,
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(n) if n.is_finite() => s.serialize_f64(*n),
            Self::Number(_) => s.serialize_str(NONE),
            Self::Text(t) => s.serialize_str(t),
            Self::NotStated => s.serialize_none(),
        }
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a number, a text or null")]
        enum Form {
            Number(f64),
            Text(String),
        }
        Ok(match Option::<Form>::deserialize(d)? {
            Some(Form::Number(n)) => Self::Number(n),
            Some(Form::Text(t)) => Self::Text(t),
            None => Self::NotStated,
        })
    }
}

impl From<f64> for Cell {
    fn from(n: f64) -> Self {
        Self::Number(n)
    }
}

impl From<u32> for Cell {
    fn from(n: u32) -> Self {
        Self::Number(f64::from(n))
    }
}

impl From<u64> for Cell {
    fn from(n: u64) -> Self {
        Self::Number(n as f64)
    }
}

impl From<&str> for Cell {
    fn from(t: &str) -> Self {
        Self::Text(t.to_owned())
    }
}

impl From<String> for Cell {
    fn from(t: String) -> Self {
        Self::Text(t)
    }
}

/// `None` is what could not be measured: the word `none`.
impl From<Option<f64>> for Cell {
    fn from(n: Option<f64>) -> Self {
        n.map_or_else(|| Self::Text(NONE.to_owned()), Self::Number)
    }
}

impl Column {
    /// Of words.
    pub fn text(name: &str) -> Self {
        Self { name: name.to_owned(), unit: String::new(), kind: ColumnKind::Text }
    }

    /// Of numbers in a unit, empty for plain ones.
    pub fn number(name: &str, unit: &str) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), kind: ColumnKind::Number }
    }
}

impl Table {
    /// Without rows yet.
    pub fn new(id: &str, title: &str, columns: Vec<Column>) -> Self {
        Self { id: id.to_owned(), title: title.to_owned(), columns, rows: Vec::new() }
    }

    /// Adds a row; cells that are missing at its end are [`Cell::NotStated`], those past the last
    /// column are left out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), Cell::NotStated);
        self.rows.push(row);
    }
}
