//! What the machine says of itself: its processor, caches and memory.
//!
//! Room: `/proc` and `/sys`, handed in as a function so that tests have machines of their own. Called
//! when a calibration begins, and by whoever asks whether a profile was calibrated here.

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The processor's name.
    pub model: String,
    /// Which machine this is, as well as it can be told: the name alone is 'Intel Xeon Processor' on
    /// every host of some clouds. What `calibrated_on` says in a profile.
    pub fingerprint: String,
    /// CPUs.
    pub cpus: u32,
    /// Hz at which the time stamp counter runs, where the kernel tells it by its 'bogomips'.
    pub counter_hz: Option<f64>,
    /// Caches for data, nearest first.
    pub caches: Vec<Cache>,
    /// Bytes of memory.
    pub memory_bytes: f64,
    /// Bytes of it that are free to use.
    pub available_bytes: f64,
    /// Whether it is a virtual machine.
    pub is_virtual: bool,
}

/// A cache for data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cache {
    /// 1 for the nearest.
    pub level: u32,
    /// Bytes.
    pub bytes: f64,
    /// Lines of a set.
    pub ways: u32,
    /// Bytes of a line.
    pub line_bytes: f64,
    /// CPUs that share it.
    pub sharers: u32,
}

/// Most levels that are looked for.
const MOST_CACHES: usize = 8;

impl Machine {
    /// This one.
    pub fn here() -> Self {
        Self::read(&|path| std::fs::read_to_string(path).ok())
    }

    /// One whose files `file` reads.
    pub fn read(file: &dyn Fn(&str) -> Option<String>) -> Self {
        let cpu = file("/proc/cpuinfo").unwrap_or_default();
        let memory = file("/proc/meminfo").unwrap_or_default();
        let model = field(&cpu, "model name").unwrap_or("unknown").to_owned();
        let cpus = cpu.lines().filter(|l| name_of(l) == "processor").count().max(1) as u32;
        let caches = caches(file);
        let mut fingerprint = model.clone();
        for key in ["cpu family", "model", "stepping"] {
            if let Some(v) = field(&cpu, key) {
                fingerprint += &format!(", {key} {v}");
            }
        }
        fingerprint += &format!(", {cpus} CPUs");
        for c in &caches {
            fingerprint += &format!(", L{} {} KiB", c.level, c.bytes / 1024.0);
        }
        let kib = |name| field(&memory, name).and_then(|v| v.strip_suffix(" kB")?.parse().ok());
        let memory_bytes = kib("MemTotal").unwrap_or(0.0) * 1024.0;
        let flags = field(&cpu, "flags").unwrap_or_default();
        // Loops of the delay routine count the counter's ticks twice, where the clock is constant.
        let constant = flags.split(' ').any(|f| f == "constant_tsc");
        let bogomips: Option<f64> = field(&cpu, "bogomips").and_then(|b| b.parse().ok());
        Self {
            model,
            fingerprint,
            cpus,
            counter_hz: bogomips.filter(|b| constant && *b > 0.0).map(|b| b * 1e6 / 2.0),
            caches,
            memory_bytes,
            available_bytes: kib("MemAvailable").unwrap_or(0.0) * 1024.0,
            is_virtual: flags.split(' ').any(|f| f == "hypervisor"),
        }
    }

    /// Bytes of a cache line: 64 where nobody says.
    pub fn line_bytes(&self) -> f64 {
        self.caches.first().map_or(64.0, |c| c.line_bytes)
    }
}

fn name_of(line: &str) -> &str {
    line.split(':').next().unwrap_or_default().trim()
}

/// The value behind `name:` in the first line that has it.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|l| name_of(l) == name)?;
    Some(line.split_once(':')?.1.trim())
}

fn caches(file: &dyn Fn(&str) -> Option<String>) -> Vec<Cache> {
    let mut all = Vec::new();
    for i in 0..MOST_CACHES {
        let of = |name: &str| {
            let text = file(&format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{name}"))?;
            Some(text.trim().to_owned())
        };
        let Some(kind) = of("type") else { break };
        let number = |name: &str| of(name).and_then(|t| t.parse::<u32>().ok());
        let size = of("size").and_then(|t| bytes(&t));
        let (Some(level), Some(bytes)) = (number("level"), size) else { continue };
        if kind == "Instruction" {
            continue;
        }
        all.push(Cache {
            level,
            bytes,
            ways: number("ways_of_associativity").filter(|w| *w > 0).unwrap_or(16),
            line_bytes: number("coherency_line_size").filter(|l| *l > 0).unwrap_or(64).into(),
            sharers: of("shared_cpu_list").map_or(1, |l| count(&l)),
        });
    }
    all.sort_by_key(|c| c.level);
    all.dedup_by_key(|c| c.level);
    all
}

/// `48K`, `2048K`, `32M`.
fn bytes(text: &str) -> Option<f64> {
    let (number, unit) = match text.strip_suffix(['K', 'k']) {
        Some(n) => (n, 1024.0),
        None => (text.strip_suffix('M')?, 1024.0 * 1024.0),
    };
    number.parse::<f64>().ok().filter(|n| *n > 0.0).map(|n| n * unit)
}

/// CPUs of a list: `0-1`, `0,4-7`.
fn count(list: &str) -> u32 {
    let one = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.trim().parse::<u32>().ok()?, to.trim().parse::<u32>().ok()?);
        to.checked_sub(from)?.checked_add(1)
    };
    list.split(',').filter_map(one).fold(0u32, u32::saturating_add).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read() {
        let file = |path: &str| {
            let text = match path {
                "/proc/cpuinfo" => {
                    "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 106\nmodel name\t: A Processor\n\
                     stepping\t: 6\nflags\t\t: fpu constant_tsc hypervisor\nbogomips\t: 5200.00\n\n\
                     processor\t: 1\nmodel name\t: A Processor\n"
                }
                "/proc/meminfo" => "MemTotal: 1024 kB\nMemAvailable:   512 kB\n",
                p => match p.strip_prefix("/sys/devices/system/cpu/cpu0/cache/")? {
                    "index0/level" => "1\n",
                    "index0/type" => "Data",
                    "index0/size" => "48K",
                    "index0/ways_of_associativity" => "12",
                    "index0/coherency_line_size" => "64",
                    "index0/shared_cpu_list" => "0",
                    "index1/type" => "Instruction",
                    "index1/level" => "1",
                    "index1/size" => "64K",
                    "index2/type" => "Unified",
                    "index2/level" => "3",
                    "index2/size" => "32M",
                    "index2/shared_cpu_list" => "0-1,4",
                    _ => return None,
                },
            };
            Some(text.to_owned())
        };
        let m = Machine::read(&file);
        assert_eq!((m.cpus, m.counter_hz, m.is_virtual), (2, Some(2.6e9), true));
        assert_eq!((m.memory_bytes, m.available_bytes), (1048576.0, 524288.0));
        let levels: Vec<_> =
            m.caches.iter().map(|c| (c.level, c.bytes, c.ways, c.sharers)).collect();
        assert_eq!(levels, [(1, 49152.0, 12, 1), (3, 33554432.0, 16, 3)]);
        let expected = "A Processor, cpu family 6, model 106, stepping 6, 2 CPUs, L1 48 KiB, \
                        L3 32768 KiB";
        assert_eq!(m.fingerprint, expected);
    }

    #[test]
    fn a_machine_that_tells_nothing_is_one_too() {
        let m = Machine::read(&|_| None);
        assert_eq!((m.cpus, m.caches.len(), m.counter_hz), (1, 0, None));
        assert_eq!(m.line_bytes(), 64.0);
    }
}
