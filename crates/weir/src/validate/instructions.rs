//! Instructions of a frame, counted by valgrind's callgrind.
//!
//! Room: this very program under valgrind, twice: the difference is what the frames cost. Where there is
//! no valgrind, there is no figure.

use super::{Case, FCS};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Frames of the shorter run, and of the longer.
const FRAMES: [u64; 2] = [8192, 40_960];

/// What was counted since this program began: studies ask for the same, and it takes seconds.
static COUNTED: Mutex<BTreeMap<(&'static str, u32, u32), f64>> = Mutex::new(BTreeMap::new());

/// Instructions of a frame. Nothing where valgrind is missing.
///
/// # Errors
/// valgrind is there and fails.
pub fn instructions(case: &Case) -> Result<Option<f64>> {
    let key = (case.function.name(), case.entries, case.frame);
    let counted = || COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = counted().get(&key) {
        return Ok(Some(*known));
    }
    let there = Command::new("valgrind").arg("--version").output();
    if !there.is_ok_and(|o| o.status.success()) {
        return Ok(None);
    }
    let [few, many] = FRAMES;
    let (a, b) = (run(case, few)?, run(case, many)?);
    let each = (b.0 - a.0) / (b.1 - a.1).max(1.0);
    counted().insert(key, each);
    Ok(Some(each))
}

/// Instructions, and frames.
fn run(case: &Case, frames: u64) -> Result<(f64, f64)> {
    let program = std::env::current_exe().context("where this program is")?;
    let done = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["bench", "callgrind", "--function", case.function.name()])
        .args(["--entries", &case.entries.to_string()])
        .args(["--length", &(case.frame as usize - FCS).to_string()])
        .args(["--frames", &frames.to_string()])
        .output()
        .context("valgrind")?;
    let (out, said) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let Some(counted) = collected(&said).filter(|_| done.status.success()) else {
        let last = said.lines().last().unwrap_or_default().to_owned();
        bail!("valgrind on {}: {last}", Path::new(case.function.name()).display());
    };
    let moved = out.split_whitespace().last().and_then(|n| n.parse().ok());
    Ok((counted, moved.context("frames were not told")?))
}

/// The instructions that callgrind says it collected.
fn collected(said: &str) -> Option<f64> {
    let line = said.lines().find(|l| l.contains("Collected :"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_callgrind_says_is_read() {
        let said = "==7== Callgrind\n==7== \n==7== Events    : Ir\n==7== Collected : 123456\n";
        assert_eq!(collected(said), Some(123_456.0));
        assert_eq!(collected("nothing"), None);
    }
}
