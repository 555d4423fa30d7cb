//! Which objects tell a device's CPU and counters, by vendor: data (`vendors.toml`), checked when read.
//!
//! Pure. Another file of the same form can take its place.

use super::client::{SnmpError, oid};
use serde::Deserialize;
use thiserror::Error;

const OURS: &str = include_str!("vendors.toml");

/// What is wrong with a table of vendors.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("table of SNMP objects: {0}")]
pub struct BadVendors(String);

/// The table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vendors {
    /// Columns of interface counters, for all vendors.
    pub interfaces: Interfaces,
    /// The vendors.
    pub vendor: Vec<Vendor>,
}

/// Columns indexed by interface. What is in several is summed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interfaces {
    /// Names.
    pub name: String,
    /// Bytes received.
    pub rx_bytes: Vec<String>,
    /// Frames received.
    pub rx_frames: Vec<String>,
    /// Bytes sent.
    pub tx_bytes: Vec<String>,
    /// Frames sent.
    pub tx_frames: Vec<String>,
    /// Discards and errors.
    pub dropped: Vec<String>,
}

/// A vendor.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vendor {
    /// Its name, for people.
    pub name: String,
    /// What its devices' sysObjectID begins with; without, it takes what no other does.
    pub enterprise: Option<String>,
    /// How CPU time is told.
    pub cpu: Cpu,
}

/// How CPU time is told.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "cpu is `percent` (with or without `rows`), or `idle` and `busy`"
)]
pub enum Cpu {
    /// By a gauge of 0 to 100.
    Percent {
        /// The object, or the column.
        percent: String,
        /// Whether it is a column.
        #[serde(default)]
        rows: Rows,
    },
    /// By counters of ticks.
    Ticks {
        /// With nothing to do.
        idle: Vec<String>,
        /// At work.
        busy: Vec<String>,
    },
}

/// Which rows of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rows {
    /// It is no column.
    #[default]
    None,
    /// The mean over all.
    All,
}

impl Vendors {
    /// The table that comes along.
    ///
    /// # Errors
    /// None: a test reads it.
    pub fn ours() -> Result<Self, BadVendors> {
        Self::from_toml(OURS)
    }

    /// Reads a table.
    ///
    /// # Errors
    /// [`BadVendors`], in one line.
    pub fn from_toml(text: &str) -> Result<Self, BadVendors> {
        let table: Self = toml::from_str(text).map_err(|e| {
            let line =
                e.span().map_or(0, |s| text.get(..s.start).map_or(0, |t| t.matches('\n').count()));
            BadVendors(format!("line {}: {}", line + 1, e.message().replace('\n', " ")))
        })?;
        let i = &table.interfaces;
        let columns = [&i.rx_bytes, &i.rx_frames, &i.tx_bytes, &i.tx_frames, &i.dropped];
        let mut all: Vec<&String> = columns.into_iter().flatten().chain([&i.name]).collect();
        for v in &table.vendor {
            all.extend(&v.enterprise);
            match &v.cpu {
                Cpu::Percent { percent, .. } => all.push(percent),
                Cpu::Ticks { idle, busy } => all.extend(idle.iter().chain(busy)),
            }
        }
        let wrong = |e: SnmpError| BadVendors(e.to_string());
        all.into_iter().try_for_each(|o| oid(o).map(|_| ()).map_err(wrong))?;
        Ok(table)
    }

    /// The vendor of a device with that sysObjectID.
    pub fn of(&self, device: &str) -> Option<&Vendor> {
        let begins = |e: &str| {
            device.strip_prefix(e).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let length = |v: &&Vendor| v.enterprise.as_ref().map_or(0, String::len);
        self.vendor
            .iter()
            .filter(|v| v.enterprise.as_ref().is_none_or(|e| begins(e)))
            .max_by_key(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_that_comes_along() {
        let v = Vendors::ours().unwrap();
        let of = |device| v.of(device).map(|v| v.name.as_str());
        assert_eq!(of("1.3.6.1.4.1.8072.3.2.10"), Some("net-snmp"));
        assert_eq!(of("1.3.6.1.4.1.9.1.516"), Some("Cisco"));
        assert_eq!(of("1.3.6.1.4.1.99.1"), Some("any"), "99 does not begin with 9");
        assert_eq!(of(""), Some("any"));
    }

    #[test]
    fn what_is_refused() {
        for (from, to, why) in [
            ("percent = \"1.3.6.1.2.1.25", "percent = \"1.3.x", "is not an object identifier"),
            ("name = \"any\"", "nam = \"any\"", "unknown field `nam`"),
            ("percent = \"1.3.6.1.2.1.25", "percents = \"1.3.6.1.2.1.25", "cpu is `percent`"),
            ("rows = \"all\"", "rows = \"most\"", "line "),
            ("[[vendor]]", "[[vendor", "line "),
        ] {
            // The last one: the head's comment has some of these words, too.
            let at = OURS.rfind(from).unwrap();
            let text = format!("{}{to}{}", &OURS[..at], &OURS[at + from.len()..]);
            let e = Vendors::from_toml(&text).unwrap_err().to_string();
            assert!(e.contains(why) && !e.contains('\n'), "{to}: {e}");
        }
    }
}
