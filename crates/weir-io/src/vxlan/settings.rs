//! What a tunnel's end is told, as text: `100,remote=192.0.2.2,local=192.0.2.1`.
//!
//! Room: text. Read when a port's name is read, so that a slip is told before anything is opened.

use super::header::MAX_VNI;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

/// The port that IANA has given VXLAN (RFC 7348 section 5).
pub const UDP_PORT: u16 = 4789;
/// Most ways of one end.
pub const MAX_WAYS: usize = 8;
/// How often ways are probed where nothing is said, and how often they may be.
const PROBE_MS: u64 = 100;
const PROBE_MS_RANGE: std::ops::RangeInclusive<u64> = 10..=10_000;
/// Smallest and largest IP packet of the network below, in bytes.
const MTU_RANGE: std::ops::RangeInclusive<usize> = 576..=65_535;

/// One way to the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its network identifier, 24 bits.
    pub vni: u32,
    /// Where its datagrams go; whatever comes with this identifier must come from that address.
    pub remote: SocketAddr,
}

/// A tunnel's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where it listens, and what it sends from.
    pub local: SocketAddr,
    /// Its ways, the one that is preferred first. At least one.
    pub ways: Vec<Way>,
    /// The longest IP packet of the network below, in bytes, where the kernel shall not be asked.
    pub mtu: Option<usize>,
    /// How often each way is probed, if at all.
    pub probe: Option<Duration>,
    /// What both ends know, and probes carry. Where it is said and ways are not probed, ends tell each other no more than the links that
    /// they stand for.
    pub key: Option<u64>,
    /// The port here whose link the other end is told.
    pub link: Option<String>,
}

fn number<T: FromStr + PartialOrd + fmt::Display>(
    what: &str,
    text: &str,
    range: &std::ops::RangeInclusive<T>,
) -> Result<T, String> {
    let parsed = text.parse().ok().filter(|n| range.contains(n));
    parsed.ok_or_else(|| format!("{what} '{text}': {} to {}", range.start(), range.end()))
}

fn address(text: &str, port: u16) -> Result<SocketAddr, String> {
    let whole = text.parse::<SocketAddr>();
    let whole = whole.or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port)));
    match whole {
        Ok(a) if a.port() == 0 => Err(format!("address '{text}': port 0 is none")),
        Ok(a) if a.ip().is_unspecified() => {
            Err(format!("address '{text}': one address of this or the other machine, not all"))
        }
        Ok(a) if a.ip().is_multicast() => {
            Err(format!("address '{text}': multicast is not spoken; name the other end"))
        }
        Ok(a) => Ok(a),
        Err(_) => Err(format!("'{text}' is no address: ADDRESS or ADDRESS:PORT, as in 192.0.2.2")),
    }
}

impl FromStr for Settings {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let vni = number("network identifier", parts.next().unwrap_or_default(), &(0..=MAX_VNI))?;
        let (mut remote, mut local, mut mtu, mut probe, mut key) = (None, None, None, None, None);
        let (mut link, mut backups) = (None, Vec::new());
        for part in parts {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("'{part}': NAME=VALUE, as in remote=192.0.2.2"))?;
            let twice = match name {
                "remote" => remote.replace(address(value, UDP_PORT)?).is_some(),
                "local" => local.replace(address(value, UDP_PORT)?).is_some(),
                "mtu" => mtu.replace(number("mtu", value, &MTU_RANGE)?).is_some(),
                "probe_ms" => probe.replace(number("probe_ms", value, &PROBE_MS_RANGE)?).is_some(),
                "key" => {
                    let read = u64::from_str_radix(value, 16);
                    key.replace(read.map_err(|_| format!("key '{value}': 16 hexadecimal digits"))?)
                        .is_some()
                }
                "link" => link.replace(value.to_owned()).is_some(),
                "backup" => {
                    let (vni, to) = value
                        .split_once('@')
                        .ok_or_else(|| format!("backup '{value}': VNI@ADDRESS"))?;
                    let vni = number("network identifier", vni, &(0..=MAX_VNI))?;
                    backups.push(Way { vni, remote: address(to, UDP_PORT)? });
                    false
                }
                _ => {
                    let known = "remote, local, mtu, backup, probe_ms, key and link";
                    return Err(format!("'{name}' is nothing a tunnel knows: {known}"));
                }
            };
            if twice {
                return Err(format!("'{name}' is said twice"));
            }
        }
        let remote = remote.ok_or("remote=ADDRESS is missing: where the other end is")?;
        let loopback = match remote {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        let local = local.unwrap_or(SocketAddr::new(loopback, UDP_PORT));
        let mut ways = vec![Way { vni, remote }];
        ways.append(&mut backups);
        if ways.len() > MAX_WAYS {
            return Err(format!("{} ways: at most {MAX_WAYS}", ways.len()));
        }
        for (i, w) in ways.iter().enumerate() {
            if ways.iter().take(i).any(|o| o.vni == w.vni) {
                return Err(format!("two ways of network identifier {}: give another", w.vni));
            }
            if w.remote.is_ipv4() != local.is_ipv4() {
                return Err("one end has an IPv4 address and the other an IPv6 one".to_owned());
            }
            if w.remote == local {
                return Err(format!("{local} is both ends: give each an address of its own"));
            }
        }
        let wanted = probe.or((ways.len() > 1).then_some(PROBE_MS));
        let probe = wanted.map(Duration::from_millis);
        Ok(Self { local, ways, mtu, probe, key, link })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let s: Settings = "7,remote=192.0.2.2".parse().unwrap();
        assert_eq!(s.local, "127.0.0.1:4789".parse().unwrap());
        assert_eq!(s.ways, [Way { vni: 7, remote: "192.0.2.2:4789".parse().unwrap() }]);
        assert_eq!((s.mtu, s.probe, s.key), (None, None, None));
        let all = "1,remote=[fd00::2]:9,local=fd00::1,mtu=1500,probe_ms=20,key=ff,backup=2@fd00::3";
        let s: Settings = all.parse().unwrap();
        assert_eq!(
            (s.mtu, s.probe, s.key),
            (Some(1500), Some(Duration::from_millis(20)), Some(255))
        );
        assert_eq!(s.ways[1], Way { vni: 2, remote: "[fd00::3]:4789".parse().unwrap() });
        let s: Settings = "1,remote=127.0.0.2,backup=2@127.0.0.2".parse().unwrap();
        assert_eq!(s.probe, Some(Duration::from_millis(PROBE_MS)));
    }

    #[test]
    fn slips_are_told() {
        for (text, told) in [
            ("", "network identifier ''"),
            ("16777216,remote=127.0.0.2", "0 to 16777215"),
            ("1", "remote=ADDRESS is missing"),
            ("1,remote", "NAME=VALUE"),
            ("1,remote=host", "no address"),
            ("1,remote=0.0.0.0", "not all"),
            ("1,remote=239.1.1.1", "multicast"),
            ("1,remote=127.0.0.2:0", "port 0"),
            ("1,remote=127.0.0.1", "both ends"),
            ("1,remote=::2,local=127.0.0.1", "IPv6"),
            ("1,remote=127.0.0.2,remote=127.0.0.3", "said twice"),
            ("1,remote=127.0.0.2,mtu=20", "576 to 65535"),
            ("1,remote=127.0.0.2,probe_ms=1", "10 to 10000"),
            ("1,remote=127.0.0.2,key=xyz", "hexadecimal"),
            ("1,remote=127.0.0.2,backup=1@127.0.0.3", "two ways"),
            ("1,remote=127.0.0.2,backup=1", "VNI@ADDRESS"),
            ("1,remote=127.0.0.2,ttl=1", "'ttl' is nothing"),
        ] {
            let e = text.parse::<Settings>().unwrap_err();
            assert!(e.contains(told) && e.lines().count() == 1, "{text}: {e}");
        }
    }
}
