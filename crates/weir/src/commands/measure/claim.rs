//! What a measurement has for itself while it runs: the switch by its address, and each interface. A second one would
//! falsify the first, and take its rules for the flows that the switch had.
//!
//! Room: names of abstract sockets. They end with the process, however that ends; each network namespace has its own, as it
//! has its own interfaces; and nobody needs rights for them. Who has one can be asked who it is. Labs are in namespaces that
//! nobody else has, and need none of it.

use crate::openflow::address::Controller;
use anyhow::{Result, anyhow};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Before the process that has a name, in a second name beside it: all names can be read.
const BY: &str = " by process ";
/// A name has room for 107 bytes.
const ROOM: usize = 80;

/// Claimed until this is dropped.
#[derive(Debug, Default)]
pub struct Claims(Vec<(String, UnixListener)>);

impl Claims {
    /// Claims an interface, however it is opened. `option`: the argument that names it.
    ///
    /// # Errors
    /// Another measurement has it.
    pub fn interface(&mut self, option: &str, port: &str) -> Result<()> {
        let name = port.split_once(':').map_or(port, |(_, name)| name);
        self.claim(&format!("port {name}"), option, port)
    }

    /// Claims the switch at an address to connect to. One that is waited for has its port claimed by listening.
    ///
    /// # Errors
    /// Another measurement has it.
    pub fn switch(&mut self, address: &str) -> Result<()> {
        // What is no address is told by who connects.
        let Ok(c) = Controller::parse(address) else { return Ok(()) };
        // By whichever name it is called.
        let found = (c.host.as_str(), c.port).to_socket_addrs();
        let mut all: BTreeSet<_> = found.into_iter().flatten().map(|at| at.to_string()).collect();
        if all.is_empty() {
            all.insert(format!("{}:{}", c.host, c.port));
        }
        all.iter().try_for_each(|at| self.claim(&format!("switch {at}"), "--switch", address))
    }

    fn claim(&mut self, what: &str, option: &str, given: &str) -> Result<()> {
        let name: String = format!("weir measure: {what}").chars().take(ROOM).collect();
        // An interface may be asked for twice.
        if self.0.iter().any(|(own, _)| *own == name) {
            return Ok(());
        }
        match listen(&name) {
            Ok(listener) => {
                let by = format!("{name}{BY}{}", std::process::id());
                self.0.extend(listen(&by).map(|l| (by, l)));
                self.0.push((name, listener));
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::AddrInUse => Err(anyhow!(
                "{option} {given}: another measurement has it ({}): wait until that has ended, or stop it by SIGINT, so that it puts the switch's flows back",
                who(&name)
            )),
            // Where the system has no such names, nothing is known of others.
            Err(_) => Ok(()),
        }
    }
}

fn listen(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// The process that has a name.
fn who(name: &str) -> String {
    let all = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let named = |line: &str| Some(line.split_once(&format!("@{name}{BY}"))?.1.trim().to_owned());
    match all.lines().find_map(named) {
        Some(pid) => format!("process {pid}"),
        None => "a process that is just beginning or ending".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_claimed_is_nobody_elses_until_it_is_let_go() {
        let mut first = Claims::default();
        first.interface("--ports", "weir-test-a").unwrap();
        first.interface("--ports", "xdp:weir-test-b").unwrap();
        first.switch("tcp:127.0.0.1:7001").unwrap();
        first.interface("--wire", "weir-test-a").unwrap();
        let mut second = Claims::default();
        let refused = |claimed: Result<()>| {
            let e = claimed.unwrap_err();
            let who = format!("another measurement has it (process {})", std::process::id());
            assert!(e.to_string().contains(&who), "{e}");
        };
        refused(second.interface("--ports", "pktgen:weir-test-a"));
        refused(second.interface("--wire", "weir-test-b"));
        // By another name, and by TLS.
        refused(second.switch("tls:localhost:7001"));
        refused(second.switch("tcp:127.0.0.1:7001"));
        second.interface("--ports", "weir-test-c").unwrap();
        second.switch("tcp:127.0.0.1:7002").unwrap();
        drop(first);
        second.interface("--ports", "weir-test-a").unwrap();
        second.switch("tcp:127.0.0.1:7001").unwrap();
        // Two may wait for different switches; a port that is taken is told by listening.
        second.switch("ptcp:6653").unwrap();
        second.switch("ptcp:6653").unwrap();
    }
}
