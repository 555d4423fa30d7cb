//! Quantities with their unit, as they stand in files: "3.6 GHz", "32 KiB", "53 ns".
//!
//! Room: text to numbers in base units. Called by the readers of profiles, models and requests, so
//! that a unit is never guessed.

use std::fmt;

/// What a quantity measures; the base unit in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Size (bytes).
    Size,
    /// Frequency (Hz).
    Frequency,
    /// Time (seconds).
    Time,
    /// Data rate of a link (bits per second).
    BitRate,
    /// Data rate of a memory or a bus (bytes per second).
    ByteRate,
    /// Rate of transfers (per second).
    TransferRate,
    /// Rate of frames (per second).
    FrameRate,
    /// Power (watts).
    Power,
}

use Dimension::{BitRate, ByteRate, FrameRate, Frequency, Power, Size, Time, TransferRate};

/// Every unit: how it is written, what it measures, and how many base units it is.
const UNITS: &[(&str, Dimension, f64)] = &[
    ("B", Size, 1.0),
    ("KB", Size, 1e3),
    ("MB", Size, 1e6),
    ("GB", Size, 1e9),
    ("TB", Size, 1e12),
    ("KiB", Size, 1024.0),
    ("MiB", Size, 1_048_576.0),
    ("GiB", Size, 1_073_741_824.0),
    ("TiB", Size, 1_099_511_627_776.0),
    ("bit", Size, 0.125),
    ("Hz", Frequency, 1.0),
    ("kHz", Frequency, 1e3),
    ("MHz", Frequency, 1e6),
    ("GHz", Frequency, 1e9),
    ("s", Time, 1.0),
    ("ms", Time, 1e-3),
    ("us", Time, 1e-6),
    ("µs", Time, 1e-6),
    ("ns", Time, 1e-9),
    ("bit/s", BitRate, 1.0),
    ("kbit/s", BitRate, 1e3),
    ("Mbit/s", BitRate, 1e6),
    ("Gbit/s", BitRate, 1e9),
    ("bps", BitRate, 1.0),
    ("kbps", BitRate, 1e3),
    ("Mbps", BitRate, 1e6),
    ("Gbps", BitRate, 1e9),
    ("B/s", ByteRate, 1.0),
    ("MB/s", ByteRate, 1e6),
    ("GB/s", ByteRate, 1e9),
    ("GiB/s", ByteRate, 1_073_741_824.0),
    ("MT/s", TransferRate, 1e6),
    ("GT/s", TransferRate, 1e9),
    ("pps", FrameRate, 1.0),
    ("kpps", FrameRate, 1e3),
    ("Mpps", FrameRate, 1e6),
    ("W", Power, 1.0),
];

/// Most digits behind a point.
const MOST_DIGITS: usize = 9;

/// Two numbers that are compared, with so many digits that they differ as written, and that neither is 0 which is not.
pub(crate) fn apart(pair: [f64; 2], least_digits: usize) -> [String; 2] {
    let written = |digits: usize| pair.map(|v| format!("{v:.digits$}"));
    let nothing = |text: &str| text.chars().all(|c| matches!(c, '0' | '.' | '-'));
    let tells = |texts: &[String; 2]| {
        texts[0] != texts[1] && texts.iter().zip(pair).all(|(t, v)| v == 0.0 || !nothing(t))
    };
    (least_digits..MOST_DIGITS).map(written).find(tells).unwrap_or_else(|| written(MOST_DIGITS))
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Size => "a size",
            Frequency => "a frequency",
            Time => "a time",
            BitRate => "a link's rate",
            ByteRate => "a rate in bytes",
            TransferRate => "a rate of transfers",
            FrameRate => "a rate of frames",
            Power => "a power",
        })
    }
}

impl Dimension {
    /// The units that measure it.
    pub fn units(self) -> impl Iterator<Item = &'static str> {
        UNITS.iter().filter(move |u| u.1 == self).map(|u| u.0)
    }

    /// How many base units one of its units is, and the text before it, where a text ends with one.
    pub fn ending(self, text: &str) -> Option<(&str, f64)> {
        let mine = UNITS.iter().filter(|u| u.1 == self);
        let longest = mine.filter(|u| text.ends_with(u.0)).max_by_key(|u| u.0.len())?;
        Some((text.strip_suffix(longest.0)?, longest.2))
    }

    /// Reads a quantity of this dimension, in base units: finite and above zero.
    ///
    /// # Errors
    /// What was expected, for a text without a number, without a unit, with a unit that measures
    /// something else, or with a number that is not above zero.
    pub fn read(self, text: &str) -> Result<f64, String> {
        let shown: String = text.chars().take(64).collect();
        let expected = || {
            let units: Vec<_> = self.units().collect();
            format!("expected {self} in {}", units.join(", "))
        };
        let text = text.trim();
        let end = text
            .char_indices()
            .find(|(_, c)| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
            .map_or(text.len(), |(i, _)| i);
        let (number, unit) = text.split_at(end);
        let unit = unit.trim();
        let Ok(number) = number.replace('_', "").parse::<f64>() else {
            return Err(format!("'{shown}' is not a number with its unit: {}", expected()));
        };
        let Some((_, dimension, factor)) = UNITS.iter().find(|u| u.0 == unit) else {
            let what = if unit.is_empty() { "has no unit" } else { "has a unit that is not known" };
            return Err(format!("'{shown}' {what}: {}", expected()));
        };
        if *dimension != self {
            return Err(format!("'{shown}' is {dimension}: {}", expected()));
        }
        let value = number * factor;
        if !(value.is_finite() && value > 0.0 && value < 1e18) {
            return Err(format!("'{shown}' must be above zero and below 1e18 base units"));
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!(Size.read("32 KiB"), Ok(32768.0));
        assert_eq!(Frequency.read("3.6GHz"), Ok(3.6e9));
        assert_eq!(Time.read("53 ns").map(|t| (t * 1e9).round()), Ok(53.0));
        assert_eq!(BitRate.read("10 Gbps"), BitRate.read("10 Gbit/s"));
        assert_eq!(BitRate.ending("10 Gbit/s"), Some(("10 ", 1e9)));
        assert_eq!(FrameRate.ending("20Mpps"), Some(("20", 1e6)));
        assert_eq!(FrameRate.ending("20Gbps"), None);
        assert_eq!((Size.read("1.5 TB"), Size.read("2 TiB")), (Ok(1.5e12), Ok(2f64.powi(41))));
    }

    #[test]
    fn numbers_that_are_compared_differ_as_they_are_written() {
        assert_eq!(apart([20.0001, 20.0], 2), ["20.0001", "20.0000"]);
        assert_eq!(apart([34.0, 0.001], 1), ["34.000", "0.001"]);
        assert_eq!(apart([3.0, 0.0], 2), ["3.00", "0.00"]);
        assert_eq!(apart([1.0, 1.0], 0), ["1.000000000", "1.000000000"]);
        assert_eq!(apart([f64::INFINITY, 1.0], 0), ["inf", "1"]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let e = Frequency.read("3 GB").unwrap_err();
        assert_eq!(e, "'3 GB' is a size: expected a frequency in Hz, kHz, MHz, GHz");
        assert!(Frequency.read("3").unwrap_err().contains("has no unit"));
        assert!(Frequency.read("-3 GHz").unwrap_err().contains("above zero"));
        assert!(Size.read("1e3 B").unwrap_err().contains("not known"));
        assert!(Size.read("").unwrap_err().contains("not a number"));
    }
}
