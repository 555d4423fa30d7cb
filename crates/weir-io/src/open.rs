//! Ports by name: `veth0`, `xdp:veth0`, `pcap:in.pcap`…
//!
//! Room: ports. Called by whoever reads a configuration or a command line.

use crate::af_packet::AfPacket;
use crate::af_xdp::{AfXdp, IfBusy, Mode, Offer, Options, Program, Umem};
use crate::capture_file::{PcapIn, PcapOut};
use crate::memory::{Memory, MemoryPeer, WireSize};
use crate::patience::{Again, patiently};
use crate::replay::{Arena, Null, Passes, Replay};
use crate::sys::netdev::Control;
use crate::tap::{Lifetime, Tap};
use crate::vxlan::{self, Vxlan};
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;
use weir_packet::{Device, DeviceError, Pool};

/// What a port is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// An interface: AF_XDP, else AF_PACKET.
    Interface,
    /// `af_packet:IF`
    AfPacket,
    /// `xdp:IF`: native, else generic.
    Xdp,
    /// `xdp-native:IF`
    XdpNative,
    /// `xdp-generic:IF`
    XdpGeneric,
    /// `xdp-shortcut:IF`: generic, and the kernel forwards by itself what it can.
    XdpShortcut,
    /// `tap:NAME`
    Tap,
    /// `pcap:FILE`: received once.
    Pcap,
    /// `replay:FILE`: received from memory, again and again.
    Replay,
    /// `pcap-out:FILE`
    PcapOut,
    /// `memory` or `memory:NAME`
    Memory,
    /// `null`
    Null,
    /// `vxlan:VNI,remote=ADDRESS`: see [`vxlan::Settings`].
    Vxlan,
}

/// Name, kind, and whether something must follow the colon.
const KINDS: [(&str, Kind, Target); 12] = [
    ("af_packet", Kind::AfPacket, Target::Interface),
    ("xdp", Kind::Xdp, Target::Interface),
    ("xdp-native", Kind::XdpNative, Target::Interface),
    ("xdp-generic", Kind::XdpGeneric, Target::Interface),
    ("xdp-shortcut", Kind::XdpShortcut, Target::Interface),
    ("tap", Kind::Tap, Target::Interface),
    ("pcap", Kind::Pcap, Target::File),
    ("replay", Kind::Replay, Target::File),
    ("pcap-out", Kind::PcapOut, Target::File),
    ("memory", Kind::Memory, Target::Optional),
    ("null", Kind::Null, Target::Optional),
    ("vxlan", Kind::Vxlan, Target::Tunnel),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Interface,
    File,
    Optional,
    Tunnel,
}

/// A port specification that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Nothing was given.
    #[error("an empty port: give an interface, or KIND:NAME such as 'pcap:in.pcap'")]
    Empty,
    /// The word before the colon is no kind.
    #[error("port '{spec}': '{kind}' is no kind of port; did you mean '{nearest}'?")]
    UnknownKind {
        /// What was given.
        spec: String,
        /// The word before the colon.
        kind: String,
        /// The known kind that is most like it.
        nearest: &'static str,
    },
    /// Nothing follows the kind.
    #[error("port '{spec}': {what} must follow, as in '{kind}:{example}'")]
    NoTarget {
        /// What was given.
        spec: String,
        /// Its kind.
        kind: &'static str,
        /// What is missing.
        what: &'static str,
        /// What it might be.
        example: &'static str,
    },
    /// A tunnel that can't be.
    #[error("port '{spec}': {problem}")]
    Tunnel {
        /// What was given.
        spec: String,
        /// What is wrong, and how to mend it.
        problem: String,
    },
}

/// Which port to open. Made from text by [`str::parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// What it is made of.
    pub kind: Kind,
    /// The interface or the file; may be empty for `memory` and `null`.
    pub target: String,
}

impl Kind {
    /// Whether it is by AF_XDP where that can be.
    pub fn is_by_af_xdp(self) -> bool {
        match self {
            Self::Interface
            | Self::Xdp
            | Self::XdpNative
            | Self::XdpGeneric
            | Self::XdpShortcut => true,
            Self::AfPacket | Self::Tap | Self::Vxlan => false,
            Self::Pcap | Self::PcapOut | Self::Replay | Self::Memory | Self::Null => false,
        }
    }
}

impl PortSpec {
    /// What no other port can have at the same time: an interface, or a file that is written.
    pub fn owns(&self) -> Option<(Owned, &str)> {
        let what = match self.kind {
            Kind::Interface | Kind::AfPacket | Kind::Tap => Owned::Interface,
            Kind::Xdp | Kind::XdpNative | Kind::XdpGeneric | Kind::XdpShortcut => Owned::Interface,
            Kind::PcapOut => Owned::File,
            Kind::Pcap | Kind::Replay | Kind::Memory | Kind::Null | Kind::Vxlan => return None,
        };
        Some((what, &self.target))
    }

    /// The capture that it reads or writes, and whether it writes it.
    fn capture(&self) -> Option<(&Path, Touch)> {
        let touch = match self.kind {
            Kind::PcapOut => Touch::Writes,
            Kind::Pcap | Kind::Replay => Touch::Reads,
            _ => return None,
        };
        Some((Path::new(&self.target), touch))
    }

    /// Whether the two are of one file, by whatever names, which one of them at least writes.
    pub fn spoils(&self, other: &Self) -> bool {
        let (Some((a, how)), Some((b, other))) = (self.capture(), other.capture()) else {
            return false;
        };
        (how, other) != (Touch::Reads, Touch::Reads) && is_one_file(a, b)
    }

    /// Whether the two can't be open at the same time, as far as their names tell: the same target, or
    /// ends of tunnels that share a network identifier at one address.
    pub fn meets(&self, other: &Self) -> bool {
        let tunnel = |s: &Self| {
            (s.kind == Kind::Vxlan).then(|| s.target.parse::<vxlan::Settings>().ok()).flatten()
        };
        match (tunnel(self), tunnel(other)) {
            (Some(a), Some(b)) => {
                let shared = |w: &vxlan::Way| b.ways.iter().any(|o| o.vni == w.vni);
                a.local == b.local && a.ways.iter().any(shared)
            }
            _ => self.target == other.target,
        }
    }
}

/// What a port does with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touch {
    Reads,
    Writes,
}

/// What a file has whatever it is called, links followed: its device's number and its own on it. None where none is there.
pub fn file_id(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// Whether two names are one file's: what lies there now, links followed, or what would be made there.
pub fn is_one_file(a: &Path, b: &Path) -> bool {
    // Of a file that is not there yet, its directory and its name in it.
    let to_be = |p: &Path| {
        let directory = p.parent().filter(|d| !d.as_os_str().is_empty());
        let directory = fs::canonicalize(directory.unwrap_or(Path::new("."))).ok()?;
        Some((directory, p.file_name()?.to_owned()))
    };
    match (file_id(a), file_id(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a == b || to_be(a).is_some_and(|a| Some(a) == to_be(b)),
        _ => false,
    }
}

/// A thing outside the process that one port has to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owned {
    /// An interface of this namespace.
    Interface,
    /// A file that is written.
    File,
}

impl FromStr for PortSpec {
    type Err = SpecError;
    fn from_str(spec: &str) -> Result<Self, SpecError> {
        let (word, target) = match spec.split_once(':') {
            Some((word, target)) => (word, target),
            None => (spec, ""),
        };
        let known = KINDS.iter().find(|(name, ..)| *name == word);
        match known {
            Some((name, kind, needs)) if target.is_empty() && *needs != Target::Optional => {
                let (what, example) = match (needs, kind) {
                    (Target::File, _) => ("a file", "in.pcap"),
                    (Target::Tunnel, _) => {
                        ("a network identifier and the other end", "100,remote=192.0.2.2")
                    }
                    (_, Kind::Tap) => ("a name", "weir0"),
                    _ => ("an interface", "veth0"),
                };
                let spec = spec.to_owned();
                // An interface may be called like a kind: say which of both with 'xdp:tap'.
                Err(SpecError::NoTarget { spec, kind: name, what, example })
            }
            Some((_, kind, needs)) => {
                let settings =
                    (*needs == Target::Tunnel).then(|| target.parse::<vxlan::Settings>());
                if let Some(Err(problem)) = settings {
                    return Err(SpecError::Tunnel { spec: spec.to_owned(), problem });
                }
                Ok(Self { kind: *kind, target: target.to_owned() })
            }
            None if spec.is_empty() => Err(SpecError::Empty),
            None if spec.contains(':') => Err(SpecError::UnknownKind {
                spec: spec.to_owned(),
                kind: word.to_owned(),
                nearest: nearest(word),
            }),
            None => Ok(Self { kind: Kind::Interface, target: spec.to_owned() }),
        }
    }
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match KINDS.iter().find(|(_, kind, _)| *kind == self.kind) {
            Some((name, ..)) if self.target.is_empty() => f.write_str(name),
            Some((name, ..)) => write!(f, "{name}:{}", self.target),
            None => f.write_str(&self.target),
        }
    }
}

fn nearest(word: &str) -> &'static str {
    let word: String = word.chars().take(32).collect();
    let names = KINDS.iter().map(|(name, ..)| *name);
    names.min_by_key(|name| strsim::levenshtein(&word, name)).unwrap_or("null")
}

/// An open port, and what there is to say about it.
pub struct Opened {
    /// The port.
    pub device: Box<dyn Device>,
    /// Fallbacks and settings that a person should know of, one line each.
    pub notes: Vec<String>,
    /// The program's end of a memory port.
    pub peer: Option<MemoryPeer>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("device", &self.device.name())
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}

impl Opened {
    fn plain(device: impl Device + 'static) -> Self {
        Self { device: Box::new(device), notes: Vec::new(), peer: None }
    }
}

/// Opens a port for the worker that owns `pool`; `umem` is the handle that its AF_XDP ports share. Nobody waits here for an
/// interface that another has, since a worker that opens a port may have frames to forward.
///
/// # Errors
/// [`DeviceError`].
pub fn open(
    spec: &PortSpec,
    pool: &mut Pool,
    umem: &Umem,
    again: Again,
) -> Result<Opened, DeviceError> {
    let target = spec.target.as_str();
    let path = Path::new(target);
    let mut offering = |mode, shortcut| {
        let ring = umem.ring();
        let options = Options { mode, shortcut, ring, if_busy: IfBusy::Say, ..Options::default() };
        let port = AfXdp::open(target, options, umem, pool)?;
        let notes = port.notes();
        Ok(Opened { notes, ..Opened::plain(port) })
    };
    if spec.kind == Kind::XdpShortcut {
        return offering(Mode::Generic, Offer::Yes);
    }
    let mut xdp = |mode| offering(mode, Offer::No);
    match spec.kind {
        Kind::Interface => match xdp(Mode::NativeElseGeneric) {
            Ok(opened) => Ok(opened),
            Err(e @ (DeviceError::NoInterface(_) | DeviceError::InterfaceDown(_))) => Err(e),
            Err(e @ DeviceError::Busy { .. }) if again == Again::Later => Err(e),
            Err(reason) => {
                let port = AfPacket::open(target, pool)?;
                let note = format!("{target}: AF_PACKET, because AF_XDP failed: {reason}");
                Ok(Opened { notes: vec![note], ..Opened::plain(port) })
            }
        },
        Kind::AfPacket => AfPacket::open(target, pool).map(Opened::plain),
        Kind::Xdp => xdp(Mode::NativeElseGeneric),
        Kind::XdpNative => xdp(Mode::Native),
        Kind::XdpGeneric | Kind::XdpShortcut => xdp(Mode::Generic),
        Kind::Tap => Tap::open(target, Lifetime::Port, pool).map(Opened::plain),
        Kind::Pcap => PcapIn::open(path).map(Opened::plain),
        Kind::Replay => {
            let arena = Arc::new(Arena::load(path)?);
            let notes = arena.caveat().map(|c| format!("{target}: {c}")).into_iter().collect();
            Ok(Opened { notes, ..Opened::plain(Replay::new(target, arena, Passes::Forever)) })
        }
        Kind::PcapOut => PcapOut::create(path).map(Opened::plain),
        Kind::Memory => {
            let name = if target.is_empty() { "memory" } else { target };
            let (port, peer) = Memory::with_peer(name, WireSize::default());
            Ok(Opened { peer: Some(peer), ..Opened::plain(port) })
        }
        Kind::Vxlan => {
            let name = spec.to_string();
            let settings = target
                .parse()
                .map_err(|problem| DeviceError::Setting { name: name.clone(), problem })?;
            Vxlan::open(&name, settings, pool).map(Opened::plain)
        }
        Kind::Null => Ok(Opened::plain(Null::new(if target.is_empty() { "null" } else { target }))),
    }
}

/// The same for who has nothing else to do: an interface that is just being given back is waited for.
///
/// # Errors
/// [`DeviceError`].
pub fn open_patiently(
    spec: &PortSpec,
    pool: &mut Pool,
    umem: &Umem,
) -> Result<Opened, DeviceError> {
    patiently(DeviceError::is_busy, |again| open(spec, pool, umem, again))
}

/// How many queues the port's interface has, if they can be opened one by one: as many for reception as for sending.
pub fn queues(spec: &PortSpec) -> Option<usize> {
    by_queue(spec.kind)?;
    let (rx, tx) = Control::new().ok()?.queues(&spec.target).ok()?;
    (rx == tx).then(|| usize::try_from(rx).ok()).flatten()
}

fn by_queue(kind: Kind) -> Option<Mode> {
    match kind {
        Kind::Interface | Kind::Xdp => Some(Mode::NativeElseGeneric),
        Kind::XdpNative => Some(Mode::Native),
        Kind::XdpGeneric => Some(Mode::Generic),
        _ => None,
    }
}

/// Opens one of [`queues`] for the worker that owns `pool`; `program` is what all of the interface's share.
///
/// # Errors
/// [`DeviceError`].
pub fn open_queue(
    spec: &PortSpec,
    queue: usize,
    pool: &mut Pool,
    umem: &Umem,
    program: &Program,
) -> Result<Opened, DeviceError> {
    let (Some(mode), Some(all), Ok(queue)) =
        (by_queue(spec.kind), queues(spec), u32::try_from(queue))
    else {
        let problem = "it has no queues that could be opened one by one".to_owned();
        return Err(DeviceError::Setting { name: spec.to_string(), problem });
    };
    let queues = u32::try_from(all).unwrap_or(u32::MAX);
    let ring = umem.ring();
    let options = Options { mode, queue, queues, ring, if_busy: IfBusy::Say, ..Options::default() };
    let port = AfXdp::open_queue(&spec.target, options, umem, pool, program)?;
    let notes = port.notes();
    Ok(Opened { notes, ..Opened::plain(port) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_read_and_shown() {
        for (text, kind, target) in [
            ("veth0", Kind::Interface, "veth0"),
            ("af_packet:veth0", Kind::AfPacket, "veth0"),
            ("xdp:veth0", Kind::Xdp, "veth0"),
            ("xdp-generic:veth0", Kind::XdpGeneric, "veth0"),
            ("xdp-shortcut:veth0", Kind::XdpShortcut, "veth0"),
            ("tap:weir0", Kind::Tap, "weir0"),
            ("pcap:/tmp/a:b.pcap", Kind::Pcap, "/tmp/a:b.pcap"),
            ("pcap-out:out.pcapng", Kind::PcapOut, "out.pcapng"),
            ("memory", Kind::Memory, ""),
            ("null", Kind::Null, ""),
            ("vxlan:7,remote=127.0.0.2", Kind::Vxlan, "7,remote=127.0.0.2"),
        ] {
            let spec: PortSpec = text.parse().unwrap();
            assert_eq!((spec.kind, spec.target.as_str()), (kind, target));
            assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn a_typo_is_answered_with_the_nearest_kind() {
        for (text, nearest) in [
            ("afpacket:x", "af_packet"),
            ("xpd:x", "xdp"),
            ("pcapout:x", "pcap-out"),
            (":x", "xdp"),
        ] {
            let e = text.parse::<PortSpec>().unwrap_err();
            assert!(e.to_string().contains(&format!("did you mean '{nearest}'")), "{e}");
        }
        let e = "pcap:".parse::<PortSpec>().unwrap_err();
        assert!(e.to_string().contains("as in 'pcap:in.pcap'"), "{e}");
        let e = "vxlan:7".parse::<PortSpec>().unwrap_err();
        assert!(e.to_string().contains("remote=ADDRESS is missing"), "{e}");
        let e = "vxlan".parse::<PortSpec>().unwrap_err();
        assert!(e.to_string().contains("as in 'vxlan:100,remote=192.0.2.2'"), "{e}");
        assert_eq!("".parse::<PortSpec>(), Err(SpecError::Empty));
    }

    #[test]
    fn what_needs_no_privilege_opens() {
        let (mut pool, umem) = (Pool::new(4, 2048).unwrap(), Umem::new());
        let mut open = |s: &str| open_patiently(&s.parse().unwrap(), &mut pool, &umem);
        assert!(open("memory").unwrap().peer.is_some());
        assert_eq!(open("null").unwrap().device.name(), "null");
        assert!(matches!(open("pcap:/nonexistent"), Err(DeviceError::File { .. })));
        for s in ["nosuchif0", "af_packet:nosuchif0", "xdp:nosuchif0", "a-name-that-is-too-long"] {
            let e = open(s).unwrap_err();
            assert!(matches!(e, DeviceError::NoInterface(_)), "{e}");
        }
    }
}
