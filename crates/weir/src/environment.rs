//! Where a result comes from: machine, kernel, commit, command. Stands in everything that is
//! published, so that it can be repeated.

use serde::Serialize;

/// Version and commit.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WEIR_COMMIT"), ")");

/// Version of the JSON that results are written in.
pub const SCHEMA: u32 = 1;

/// A result and where it comes from.
#[derive(Debug, Serialize)]
pub struct Envelope<T> {
    /// Version of the JSON.
    pub schema: u32,
    /// What kind of result.
    pub kind: &'static str,
    /// Where it comes from.
    pub environment: Environment,
    /// The result.
    pub result: T,
}

impl<T> Envelope<T> {
    /// Wraps a result.
    pub fn new(kind: &'static str, result: T) -> Self {
        Self { schema: SCHEMA, kind, environment: Environment::here(), result }
    }
}

/// The machine and the program.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// CPU model.
    pub cpu: String,
    /// Cores.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Commit of the program.
    pub commit: &'static str,
    /// How it was called.
    pub command: String,
    /// Load of the machine over the last minute, when the result was written.
    pub load: f64,
}

impl Environment {
    /// This machine, this program, this call.
    pub fn here() -> Self {
        let read = |p: &str| std::fs::read_to_string(p).unwrap_or_default();
        let field = |text: &str, name: &str| {
            text.lines()
                .find(|l| l.starts_with(name))
                .and_then(|l| l.split(':').nth(1))
                .map(|v| v.trim().to_owned())
                .unwrap_or_default()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kib: u64 = memory.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kib * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            commit: env!("WEIR_COMMIT"),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            load: read("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or(0.0),
        }
    }
}
