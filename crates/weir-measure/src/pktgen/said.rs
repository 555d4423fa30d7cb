//! What pktgen's files say. Pure; a kernel may say anything, or a file be something else.

/// How it took the last command, or what a load came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Well,
    /// Not, and why; in its words, one line.
    Refused(String),
}

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Of the last command or load.
    pub outcome: Outcome,
    /// Frames that the interface took; 0 in a thread's file.
    pub sent: u64,
    /// Frames that it did not take.
    pub errors: u64,
    /// When the load began and ended, in microseconds since the machine did.
    pub started_us: u64,
    /// See there.
    pub stopped_us: u64,
}

/// Longest reason kept, in characters.
const REASON: usize = 200;

/// Reads a file's text. `None`: it has no result.
pub fn read(text: &str) -> Option<Said> {
    let result = text.lines().find_map(|l| l.trim_start().strip_prefix("Result:"))?.trim();
    let outcome = match result {
        r if r.starts_with("OK") || ["Idle", "NA", ""].contains(&r) => Outcome::Well,
        r => {
            let reason = r.strip_prefix("ERROR:").unwrap_or(r).trim();
            Outcome::Refused(reason.chars().filter(|c| !c.is_control()).take(REASON).collect())
        }
    };
    // What stands before the result is of now; behind it the rates of a load that has ended.
    let before = text.split("Result:").next().unwrap_or_default();
    let number = |name: &str| {
        let rest = before.split(name).nth(1)?.trim_start();
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..digits)?.parse::<u64>().ok()
    };
    Some(Said {
        outcome,
        sent: number("pkts-sofar:").unwrap_or(0),
        errors: number("errors:").unwrap_or(0),
        started_us: number("started:").unwrap_or(0),
        stopped_us: number("stopped:").unwrap_or(0),
    })
}
