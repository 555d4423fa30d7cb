//! Who answers at a controller's address, however that is written: `tcp:localhost:6653`, `tcp:127.0.0.1` and
//! `ssl:[::1]:6653` are one.
//!
//! Room: text only; names are not looked up. Called by `model::datapaths` and by who proves isolation.

use std::net::{IpAddr, Ipv4Addr};

/// IANA's port of OpenFlow, where none is given (OpenFlow 1.3.5 §6.3.1).
const DEFAULT_PORT: u16 = 6653;

/// Who answers: a host and its TCP port. Whether TLS is spoken there does not tell one from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Party {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// The machine that asks.
    Here,
    /// The one with this address.
    At(IpAddr),
    /// Whichever has this name: nobody has looked.
    Named(String),
}

impl Party {
    /// Of `tcp:HOST[:PORT]` or `ssl:HOST[:PORT]`. What can't be read is a name.
    pub fn of(controller: &str) -> Self {
        let rest = controller.split_once(':').map_or(controller, |(_, rest)| rest);
        let (host, port) = match rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
            Some((host, after)) => (host, after.strip_prefix(':')),
            // Many colons without brackets: an IPv6 address, whole.
            None => match rest.split_once(':') {
                Some((_, port)) if port.contains(':') => (rest, None),
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let port = port.map_or(Some(DEFAULT_PORT), |p| p.parse().ok());
        match port {
            Some(port) => Self { host: Host::of(host), port },
            None => Self { host: Host::of(rest), port: 0 },
        }
    }
}

impl Host {
    fn of(text: &str) -> Self {
        let name = text.trim_end_matches('.').to_ascii_lowercase();
        let read = name.parse().ok().or_else(|| old_writing(&name).map(IpAddr::V4));
        match read.map(|ip: IpAddr| ip.to_canonical()) {
            // A connection to no address at all is one to this machine.
            Some(ip) if ip.is_unspecified() || is_usual_loopback(ip) => Self::Here,
            Some(ip) => Self::At(ip),
            None if name == "localhost" => Self::Here,
            None => Self::Named(name),
        }
    }
}

/// Others of 127.0.0.0/8 may be listened at by programs of their own.
fn is_usual_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip == Ipv4Addr::LOCALHOST,
        IpAddr::V6(ip) => ip.is_loopback(),
    }
}

/// What resolvers take for an IPv4 address, too (inet_aton(3)): one to four numbers, decimal, octal or hexadecimal, the last
/// of which fills what is left.
fn old_writing(text: &str) -> Option<Ipv4Addr> {
    let number = |part: &str| {
        let (digits, radix) = match part.strip_prefix("0x") {
            Some(hex) => (hex, 16),
            None if part.len() > 1 && part.starts_with('0') => (part, 8),
            None => (part, 10),
        };
        // Rust's reader takes a plus sign; resolvers don't.
        let all = digits.bytes().all(|b| b.is_ascii_hexdigit());
        u32::from_str_radix(digits, radix).ok().filter(|_| all)
    };
    let parts: Vec<u32> = text.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = parts.split_last().filter(|(_, first)| first.len() <= 3)?;
    let bits = 32 - 8 * first.len() as u32;
    let fits = first.iter().all(|p| *p < 256) && u64::from(*last) < 1 << bits;
    let front = first.iter().enumerate().map(|(i, p)| p << (24 - 8 * i));
    fits.then(|| Ipv4Addr::from(front.fold(*last, |all, p| all | p)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_party_has_many_writings() {
        let same = [
            &[
                "tcp:localhost:6653",
                "tcp:LocalHost",
                "tcp:localhost.:6653",
                "tcp:127.0.0.1",
                "ssl:127.0.0.1:6653",
                "tcp:127.1:6653",
                "tcp:0x7f000001",
                "tcp:[::1]",
                "tcp:::1",
                "tcp:[0:0:0:0:0:0:0:1]:6653",
                "tcp:[::ffff:127.0.0.1]:6653",
                "tcp:0.0.0.0",
            ][..],
            &["tcp:10.0.0.1:6653", "tls:10.0.0.1", "tcp:[::ffff:10.0.0.1]", "tcp:012.0.0.1"],
            &["tcp:[2001:db8::7]:6653", "tcp:[2001:0DB8:0::0007]", "ssl:2001:db8::7"],
            &["tcp:ctl.example.org", "ssl:CTL.example.org.:6653"],
            &["tcp:127.0.0.2"],
            &["tcp:localhost:6633", "tcp:127.0.0.1:6633"],
        ];
        let of = |t: &&str| Party::of(t);
        for (i, all) in same.iter().enumerate() {
            let first = of(&all[0]);
            for t in *all {
                assert_eq!(of(t), first, "{t}");
            }
            for other in same.iter().skip(i + 1) {
                assert_ne!(of(&other[0]), first);
            }
        }
    }

    #[test]
    fn what_is_no_address_is_a_name() {
        for name in ["1.2.3.4.5", "256.1.1.1", "0x1ffffffff", "08.0.0.1", "+1.0.0.1", "a"] {
            let host = Party::of(&format!("tcp:{name}")).host;
            assert_eq!(host, Host::Named(name.to_owned()));
        }
        assert_eq!(Party::of("").host, Host::Named(String::new()));
        assert_eq!(Party::of("tcp:h:x"), Party { host: Host::Named("h:x".to_owned()), port: 0 });
    }
}
