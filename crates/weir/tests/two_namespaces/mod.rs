//! Two namespaces beside the test's own, a veth from each: what `weir run` is asked to forward between. Needs root and `ip`.

use std::process::{Command, Stdio};

/// What a command of the shell says.
pub fn sh(command: &str) -> String {
    let o = Command::new("sh").args(["-ec", command]).output().unwrap();
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    assert!(o.status.success(), "{command}\n{}{}", text(&o.stdout), text(&o.stderr));
    text(&o.stdout)
}

/// Ends of veths: the namespace's letter, the last number of its addresses, the letter of the end that is here.
pub type End = (char, u8, char);
pub const ENDS: [End; 2] = [('x', 1, 'a'), ('y', 2, 'b')];

/// The namespaces `{0}x` and `{0}y`, gone when it is dropped.
pub struct Lab(pub String);

impl Lab {
    /// None where namespaces can't be made. `prefix` is the test's own; `many` says of both ends of the veths how many
    /// queues they have, as `ip link add` does, or nothing.
    pub fn new(prefix: &str, many: &str) -> Option<Self> {
        let lab = Self(format!("{prefix}{}", std::process::id() % 1_000_000));
        let n = &lab.0;
        let made = Command::new("ip").args(["netns", "add", &format!("{n}x")]).status().unwrap();
        if !made.success() {
            return None;
        }
        sh(&format!("ip netns add {n}y"));
        ENDS.into_iter().for_each(|e| lab.wire(e, many));
        Some(lab)
    }
    /// Makes one of the veths.
    pub fn wire(&self, (side, last, here): End, many: &str) {
        let n = &self.0;
        sh(&format!(
            "ip link add {n}{here} {many} type veth peer name e0 {many} netns {n}{side}
             sysctl -qw net.ipv6.conf.{n}{here}.disable_ipv6=1
             ip netns exec {n}{side} sysctl -qw net.ipv6.conf.e0.disable_ipv6=1
             ip -n {n}{side} link set e0 address 02:00:00:00:00:0{last} up
             ip -n {n}{side} addr add 10.9.0.{last}/24 dev e0
             ip link set {n}{here} up"
        ));
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for c in ["netns del {}x", "netns del {}y", "link del {}a", "link del {}b"] {
            let words = c.replace("{}", &self.0);
            let _ = Command::new("ip").args(words.split(' ')).stderr(Stdio::null()).status();
        }
    }
}
