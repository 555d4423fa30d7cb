//! `weir dut` for tests: started, and where it listens.

use crate::run_daemon::weir;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// A device of this profile, with further arguments, and the address that its controllers reach it at.
pub fn device(profile: &str, more: &[&str]) -> (Child, String) {
    let mut child = weir()
        .args(["dut", "--profile", profile, "--listen", "127.0.0.1:0"])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    let mut lines = said.lines().map_while(Result::ok);
    let line = lines.find_map(|l| Some(l.strip_prefix("listening at ")?.to_owned())).unwrap();
    let at = line.split(';').next().unwrap().to_owned();
    (child, at)
}
