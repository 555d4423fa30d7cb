//! What `ovs-appctl dpif-netdev/pmd-stats-show` prints: cycles and packets of Open vSwitch's threads.
//!
//! ```text
//! pmd thread numa_id 0 core_id 3:
//!   packets received: 1500
//!   packet recirculations: 0
//!   avg. datapath passes per packet: 1.00
//!   emc hits: 1400
//!   avg. cycles per packet: 245.83 (368745/1500)
//!   avg. processing cycles per packet: 211.00 (316500/1500)
//! ```
//!
//! Room: text that another program wrote; it may be anything. Names of counters differ between versions
//! (*packets received* was *emc hits* and *masks hit* once): what is known is taken, the rest passed over.

/// Longest text that is read, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Most threads that are taken.
const MAX_THREADS: usize = 4096;

/// One thread's counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thread {
    /// As it is called: `pmd thread numa_id 0 core_id 3`, or `main thread`.
    pub name: String,
    /// Packets received.
    pub packets: Option<u64>,
    /// Packets found in the exact-match cache.
    pub emc_hits: Option<u64>,
    /// Packets found in the megaflow cache.
    pub megaflow_hits: Option<u64>,
    /// Packets handed to the slow path.
    pub upcalls: Option<u64>,
    /// Cycles of processing, and the packets that they were spent on.
    pub processing: Option<(u64, u64)>,
}

impl Thread {
    /// Cycles of processing for a packet.
    pub fn cycles(&self) -> Option<f64> {
        let (cycles, packets) = self.processing?;
        (packets > 0 && cycles > 0).then(|| cycles as f64 / packets as f64)
    }
}

/// Reads it.
///
/// # Errors
/// A text that is too long or names no thread; a number that is none, with its line.
pub fn read(text: &str) -> Result<Vec<Thread>, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("{} bytes: at most {MAX_BYTES}", text.len()));
    }
    let mut threads: Vec<Thread> = Vec::new();
    for (line, i) in text.lines().zip(1..) {
        let line = line.trim();
        let header = line.strip_suffix(':').filter(|n| n.contains("thread"));
        if let Some(name) = header {
            if threads.len() == MAX_THREADS {
                return Err(format!("line {i}: more than {MAX_THREADS} threads"));
            }
            threads.push(Thread { name: name.chars().take(128).collect(), ..Thread::default() });
            continue;
        }
        let (Some(thread), Some((key, value))) = (threads.last_mut(), line.split_once(':')) else {
            continue;
        };
        let number = || -> Result<Option<u64>, String> {
            let digits = value.split_whitespace().next().unwrap_or_default();
            digits.parse().map(Some).map_err(|_| {
                let shown: String = digits.chars().take(32).collect();
                format!("line {i}: '{shown}': expected a whole number of {key}")
            })
        };
        match key.trim() {
            "packets received" => thread.packets = number()?,
            "emc hits" => thread.emc_hits = number()?,
            "megaflow hits" | "masks hit" => thread.megaflow_hits = number()?,
            "miss with success upcall" | "miss" => thread.upcalls = number()?,
            "avg. processing cycles per packet" | "avg processing cycles per packet" => {
                thread.processing = fraction(value, i)?;
            }
            _ => {}
        }
    }
    if threads.is_empty() {
        return Err(
            "no 'pmd thread' in it: expected the output of dpif-netdev/pmd-stats-show".into()
        );
    }
    Ok(threads)
}

/// `211.00 (316500/1500)`: what stands in brackets.
fn fraction(value: &str, line: usize) -> Result<Option<(u64, u64)>, String> {
    let Some((_, rest)) = value.split_once('(') else { return Ok(None) };
    let wrong = || format!("line {line}: expected (cycles/packets)");
    let (cycles, rest) = rest.split_once('/').ok_or_else(wrong)?;
    let packets = rest.split_once(')').ok_or_else(wrong)?.0;
    let number = |t: &str| t.trim().parse::<u64>().map_err(|_| wrong());
    Ok(Some((number(cycles)?, number(packets)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "pmd thread numa_id 0 core_id 3:\n  packets received: 1500\n  packet \
        recirculations: 0\n  avg. datapath passes per packet: 1.00\n  phwol hits: 0\n  emc hits: 1400\n  \
        smc hits: 0\n  megaflow hits: 98\n  avg. subtable lookups per megaflow hit: 1.00\n  miss with \
        success upcall: 2\n  miss with failed upcall: 0\n  avg. packets per output batch: 4.00\n  idle \
        cycles: 10 (0.10%)\n  processing cycles: 316500 (99.9%)\n  avg cycles per packet: 245.83 \
        (368745/1500)\n  avg processing cycles per packet: 211.00 (316500/1500)\nmain thread:\n  packets \
        received: 0\n";

    #[test]
    fn counters_are_read() {
        let all = read(TEXT).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].name, "pmd thread numa_id 0 core_id 3");
        assert_eq!((all[0].packets, all[0].emc_hits), (Some(1500), Some(1400)));
        assert_eq!((all[0].megaflow_hits, all[0].upcalls), (Some(98), Some(2)));
        assert_eq!(all[0].cycles(), Some(211.0));
        assert_eq!(all[1].cycles(), None);
    }

    #[test]
    fn what_is_none_is_refused() {
        assert!(read("").unwrap_err().contains("pmd thread"));
        let bad = "pmd thread x:\n packets received: many\n";
        assert!(read(bad).unwrap_err().starts_with("line 2: 'many'"));
        let bad = "pmd thread x:\n avg. processing cycles per packet: 3 (4)\n";
        assert!(read(bad).unwrap_err().starts_with("line 2"));
        assert!(read(&"x".repeat(MAX_BYTES + 1)).is_err());
    }
}
