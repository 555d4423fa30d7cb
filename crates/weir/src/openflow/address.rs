//! Where controllers are, and where they may come: Open vSwitch's syntax (ovsdb(7), "Connection methods").
//!
//! Room: text only; names are resolved by whoever connects. Read by the configuration, shown by
//! `weir show`, used by `connect` and `listen`.
//!
//! - `tcp:HOST[:PORT]`, `ssl:HOST[:PORT]`: we connect. An IPv6 address stands in brackets.
//! - `ptcp:[PORT][:HOST]`, `pssl:[PORT][:HOST]`: we listen, on 127.0.0.1 where no host is given.
//! - `tls:` and `ptls:` are other names of `ssl:` and `pssl:`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// IANA's port of OpenFlow, where none is given.
pub const DEFAULT_PORT: u16 = 6653;

/// What protects a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Security {
    /// Nothing.
    Plain,
    /// TLS, both ends with a certificate.
    Tls,
}

/// A controller to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Controller {
    /// What protects the connection.
    pub security: Security,
    /// A name or an address, without brackets.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
}

/// A place to listen at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Listener {
    /// What protects its connections.
    pub security: Security,
    /// The local address and TCP port; port 0: any that is free.
    pub at: SocketAddr,
}

impl Controller {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, and what there can be.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (security, rest) = method(text, "tcp", "ssl")?;
        let (host, port) = host_and_port(rest)?;
        if !is_host(host) {
            return Err(format!("'{host}' is neither a host's name nor its address"));
        }
        let port = port.map_or(Ok(DEFAULT_PORT), tcp_port)?;
        if port == 0 {
            return Err("port 0: 1 to 65535".to_owned());
        }
        Ok(Self { security, host: host.to_owned(), port })
    }
}

impl Listener {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, and what there can be.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (security, rest) = method(text, "ptcp", "pssl")?;
        let (port, host) = rest.split_once(':').map_or((rest, ""), |(p, h)| (p, h));
        let port = if port.is_empty() { DEFAULT_PORT } else { tcp_port(port)? };
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let ip = match host {
            "" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            _ => host.parse().map_err(|_| format!("'{host}' is not an IP address to listen at"))?,
        };
        Ok(Self { security, at: SocketAddr::new(ip, port) })
    }

    /// Whether others than this machine's own programs can come there without a certificate.
    pub fn is_open(&self) -> bool {
        self.security == Security::Plain && !self.at.ip().to_canonical().is_loopback()
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = if self.security == Security::Tls { "ssl" } else { "tcp" };
        match self.host.contains(':') {
            true => write!(f, "{method}:[{}]:{}", self.host, self.port),
            false => write!(f, "{method}:{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = if self.security == Security::Tls { "pssl" } else { "ptcp" };
        match self.at.ip() {
            IpAddr::V4(ip) => write!(f, "{method}:{}:{ip}", self.at.port()),
            IpAddr::V6(ip) => write!(f, "{method}:{}:[{ip}]", self.at.port()),
        }
    }
}

fn method<'t>(text: &'t str, plain: &str, tls: &str) -> Result<(Security, &'t str), String> {
    match text.split_once(':') {
        Some((m, rest)) if m == plain => Ok((Security::Plain, rest)),
        Some((m, rest)) if m == tls || m == tls.replace("ssl", "tls") => Ok((Security::Tls, rest)),
        _ => {
            let form = if plain == "tcp" { "HOST:PORT" } else { "PORT:HOST" };
            Err(format!("'{}': it begins with {plain}: or {tls}:, as in {plain}:{form}", cut(text)))
        }
    }
}

fn host_and_port(text: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) =
            rest.split_once(']').ok_or_else(|| format!("'{}': a ']' is missing", cut(text)))?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(format!("'{}': ':PORT' or nothing may follow a ']'", cut(text))),
        };
    }
    // Many colons without brackets: an IPv6 address, whole.
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Ok((text, None)),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

fn is_host(text: &str) -> bool {
    let name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let is_name = !text.is_empty() && text.len() <= 253 && text.bytes().all(name);
    is_name || text.parse::<IpAddr>().is_ok()
}

fn tcp_port(text: &str) -> Result<u16, String> {
    // Rust's reader takes a plus sign; nobody else does.
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let port = text.parse().ok().filter(|_| digits);
    port.ok_or_else(|| format!("'{}' is not a TCP port", cut(text)))
}

fn cut(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_open_vswitch_takes_is_taken_and_shown_whole() {
        let controllers = [
            ("tcp:10.0.0.1", "tcp:10.0.0.1:6653"),
            ("tcp:10.0.0.1:6633", "tcp:10.0.0.1:6633"),
            ("ssl:ctl.example.org:1", "ssl:ctl.example.org:1"),
            ("tls:ctl.example.org:1", "ssl:ctl.example.org:1"),
            ("tcp:[::1]", "tcp:[::1]:6653"),
            ("tcp:[2001:db8::7]:99", "tcp:[2001:db8::7]:99"),
            ("tcp:fe80::1", "tcp:[fe80::1]:6653"),
        ];
        for (text, shown) in controllers {
            assert_eq!(Controller::parse(text).unwrap().to_string(), shown);
            assert_eq!(Controller::parse(shown), Controller::parse(text));
        }
        let listeners = [
            ("ptcp:", "ptcp:6653:127.0.0.1"),
            ("ptcp:0", "ptcp:0:127.0.0.1"),
            ("pssl:6640:0.0.0.0", "pssl:6640:0.0.0.0"),
            ("ptls:6640:0.0.0.0", "pssl:6640:0.0.0.0"),
            ("ptcp::[::1]", "ptcp:6653:[::1]"),
            ("ptcp:7:::1", "ptcp:7:[::1]"),
        ];
        for (text, shown) in listeners {
            assert_eq!(Listener::parse(text).unwrap().to_string(), shown);
            assert_eq!(Listener::parse(shown), Listener::parse(text));
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_there_can_be() {
        for (text, said) in [
            ("10.0.0.1:6653", "begins with tcp: or ssl:"),
            ("ptcp:6653", "begins with tcp: or ssl:"),
            ("tcp:", "neither"),
            ("tcp:a b", "neither"),
            ("tcp:h:0", "port 0"),
            ("tcp:h:+1", "not a TCP port"),
            ("tcp:h:65536", "not a TCP port"),
            ("tcp:[::1", "']' is missing"),
            ("tcp:[::1]1", "may follow"),
        ] {
            let e = Controller::parse(text).unwrap_err();
            assert!(e.contains(said), "{text}: {e}");
        }
        for (text, said) in [
            ("tcp:1", "begins with ptcp: or pssl:"),
            ("ptcp:x", "not a TCP port"),
            ("ptcp:1:h", "IP"),
        ] {
            let e = Listener::parse(text).unwrap_err();
            assert!(e.contains(said), "{text}: {e}");
        }
    }

    #[test]
    fn only_plain_listeners_off_this_machine_are_open() {
        let open = |t: &str| Listener::parse(t).unwrap().is_open();
        assert!(open("ptcp:1:0.0.0.0") && open("ptcp:1:[::]") && open("ptcp:1:192.0.2.1"));
        assert!(!open("ptcp:1") && !open("ptcp:1:[::1]") && !open("ptcp:1:[::ffff:127.0.0.1]"));
        assert!(!open("pssl:1:0.0.0.0"));
    }
}
