//! Where a figure comes from: machine, kernel, program, command, date. Stands beside every result,
//! so that it can be repeated.
//!
//! Touches `/proc`, `/sys` and the clock, once. What can't be learnt is [`UNKNOWN`], never an error:
//! a result without it is better than none. The library does not know which commit it was built
//! from; the binary does, and says so.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// What stands where something could not be learnt.
pub const UNKNOWN: &str = "unknown";

/// A moment, in whole seconds of the Unix epoch; shown as RFC 3339 has it, in UTC. JSON has the number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Date(pub u64);

impl Date {
    /// Now.
    pub fn now() -> Self {
        Self(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        // The Gregorian calendar repeats every 400 years, which are 146,097 days. Years begin in
        // March here, so that the leap day is their last; day 0 is 1 March of year 0.
        let day = days + 719_468;
        let (era, day) = (day / 146_097, day % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // Months from March have 31, 30, 31, 30, 31 days, over and over: 153 in five.
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = era * 400 + year + next;
        let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}Z")
    }
}

/// The program that measures, as only its binary knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its version.
    pub version: &'static str,
    /// The commit that it was built from, if that is known.
    pub commit: Option<&'static str>,
}

/// The machine, the program, and how it was called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The machine's product name, as its firmware has it.
    pub machine: String,
    /// CPU model.
    pub cpu_model: String,
    /// Whether the CPU says that it belongs to a virtual machine.
    pub virtualised: bool,
    /// CPUs that the program may use.
    pub cores: usize,
    /// Memory in bytes; 0 when that is unknown.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Processor architecture.
    pub architecture: String,
    /// The program's version.
    pub version: String,
    /// The commit that the program was built from.
    pub commit: String,
    /// The command line, words separated by spaces.
    pub command: String,
    /// When this was noted, in seconds of the Unix epoch.
    pub date: Date,
    /// Mean number of threads that ran or wanted to, over the last minute; above 0.1 or so the
    /// machine was not idle when the measurement began.
    pub load_1min: Option<f64>,
}

impl Environment {
    /// Of what was not measured by any program: everything unknown.
    pub fn nowhere() -> Self {
        let unknown = || UNKNOWN.to_owned();
        Self {
            machine: unknown(),
            cpu_model: unknown(),
            virtualised: false,
            cores: 0,
            memory_bytes: 0,
            kernel: unknown(),
            architecture: unknown(),
            version: unknown(),
            commit: unknown(),
            command: unknown(),
            date: Date(0),
            load_1min: None,
        }
    }

    /// This machine, this program, this call.
    pub fn here(program: Program) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let command = std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ");
        let cpuinfo = read("/proc/cpuinfo");
        let flags = field(&cpuinfo, "flags").unwrap_or_default();
        Self {
            machine: line(&read("/sys/class/dmi/id/product_name")),
            // ARM names no model here; the implementer's and the part's number are all there is.
            cpu_model: line(field(&cpuinfo, "model name").unwrap_or_default()),
            virtualised: flags.split(' ').any(|flag| flag == "hypervisor"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: field(&read("/proc/meminfo"), "MemTotal")
                .and_then(|v| v.strip_suffix(" kB")?.parse::<u64>().ok())
                .map_or(0, |kib| kib.saturating_mul(1024)),
            kernel: line(&read("/proc/sys/kernel/osrelease")),
            architecture: std::env::consts::ARCH.to_owned(),
            version: program.version.to_owned(),
            commit: program.commit.unwrap_or(UNKNOWN).to_owned(),
            command,
            date: Date::now(),
            load_1min: read("/proc/loadavg").split(' ').next().and_then(|n| n.parse().ok()),
        }
    }
}

/// The value behind `name:` in the first line that has it.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|l| l.split_once(':'))
        .find(|(n, _)| n.trim_end() == name)
        .map(|(_, value)| value.trim())
}

/// The text without its line end, or [`UNKNOWN`].
fn line(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { UNKNOWN.to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        // By GNU date -u -d @N.
        for (n, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Date(n).to_string(), text);
        }
        // A year never has a day too many: each day is one later than the one before.
        let days: Vec<_> = (0..160_000).map(|d| Date(d * 86_400).to_string()).collect();
        assert!(days.is_sorted_by(|a, b| a < b));
        let _ = Date(u64::MAX).to_string();
    }

    #[test]
    fn fields_of_proc() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2.60GHz\nmodel\t\t: 85\n";
        assert_eq!(field(text, "model name"), Some("Some CPU @ 2.60GHz"));
        assert_eq!(field(text, "model"), Some("85"));
        assert_eq!(field(text, "flags"), None);
        assert_eq!(line(" 6.1.0\n"), "6.1.0");
        assert_eq!(line("\n"), UNKNOWN);
    }

    #[test]
    fn this_machine() {
        let here = Environment::here(Program { version: "0.1.0", commit: None });
        assert_eq!(here.commit, "unknown");
        assert!(here.cores > 0 && !here.command.is_empty() && here.date > Date(1_700_000_000));
        if cfg!(target_os = "linux") {
            assert_ne!(here.kernel, UNKNOWN);
            assert!(here.memory_bytes > 0);
        }
    }
}
