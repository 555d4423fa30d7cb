//! `[vdp.openflow]` and `[[vdp.queue]]`: a VDP as an OpenFlow switch, and its ports' queues.
//!
//! Room: from sections to plans, checked as far as text and files allow. Called by `read.rs`; the
//! switches themselves are made from [`OpenflowPlan`] by `crate::openflow`.

use super::error::{ConfigError, Source, one_of};
use super::read::{Read, port_name, read_file};
use super::schema::{OpenflowSection, QueueSection, TlsSection, VdpSection};
use crate::openflow::address::{Controller, Listener, Security};
use crate::openflow::tls::{Files, Identity, Part, PeerName, Pem};
use std::path::Path;
use std::time::Duration;
use tokio_rustls::rustls::pki_types::ServerName;
use toml::Spanned;
use weir_agent::Limits;
use weir_dataplane::{PortNo, Vid};
use weir_openflow::channel::Versions;
use weir_openflow::model::Version;
use weir_supervisor::section::digest;

/// A VDP as an OpenFlow switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenflowPlan {
    /// What it is; fixed while it runs.
    pub nature: Nature,
    /// Controllers that it connects to.
    pub controllers: Vec<Controller>,
    /// Where controllers may connect.
    pub listen: Vec<Listener>,
    /// How connections are made from now on.
    pub connections: ConnectionsPlan,
    /// Its identity, for ssl and pssl.
    pub tls: Option<Identity>,
}

/// What a switch is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nature {
    /// Its datapath id.
    pub datapath_id: u64,
    /// What happens without a controller.
    pub fail_mode: FailMode,
    /// Tables.
    pub tables: u8,
    /// Where flows go for which the TCAM has no room.
    pub spill: Spill,
    /// Bytes of a missed frame that a controller gets unless it says otherwise.
    pub miss_send_len: u16,
    /// Frames kept for controllers.
    pub buffers: u16,
    /// What it may have.
    pub limits: Limits,
}

/// What happens to frames while no controller is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailMode {
    /// Flows stay and act, the rest is dropped.
    Secure,
    /// As by a switch without OpenFlow.
    Standalone,
}

/// What becomes of a flow for which the TCAM has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spill {
    /// It is refused: TABLE_FULL.
    Refuse,
    /// It lives on the slow path.
    SlowPath,
}

/// How connections are made and bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionsPlan {
    /// Versions that are offered.
    pub versions: Versions,
    /// Silence after which a controller is asked for a sign of life; zero: never.
    pub echo_interval: Duration,
    /// Longest time between two attempts to connect.
    pub backoff_max: Duration,
    /// Messages a second, of all connections together.
    pub messages_per_s: Option<u32>,
    /// Of them flow_mods.
    pub flow_mods_per_s: Option<u32>,
    /// Bytes that may wait for a connection.
    pub queue_bytes: usize,
    /// Connections at once that came by listeners.
    pub connections: usize,
}

impl OpenflowPlan {
    /// Whether so many workers can be this switch.
    ///
    /// # Errors
    /// What can't be, and how to mend it.
    pub fn fits(&self, workers: usize) -> Result<(), String> {
        if workers > 1 && self.nature.fail_mode == FailMode::Standalone {
            return Err(format!(
                "fail_mode = \"standalone\" takes one worker, and there are {workers}: each would learn a part of the \
                 addresses; take it away, pin the VDP to one of them ('worker = K'), or run the data plane with one worker"
            ));
        }
        Ok(())
    }
}

impl Default for ConnectionsPlan {
    fn default() -> Self {
        Self {
            versions: Versions::ALL,
            echo_interval: Duration::from_secs(5),
            backoff_max: Duration::from_secs(8),
            messages_per_s: None,
            flow_mods_per_s: None,
            queue_bytes: 1 << 20,
            connections: 64,
        }
    }
}

/// A queue's rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePlan {
    /// Guaranteed.
    pub min_bps: u64,
    /// Ceiling.
    pub max_bps: Option<u64>,
}

/// Where a datapath id is not given: a locally administered MAC address in the lower 48 bits, as
/// the specification wants it (1.3 §7.3.1), with the VID at its end.
pub const fn default_datapath_id(vid: Vid) -> u64 {
    0x0277_6569_0000 | vid.0 as u64
}

/// Most controllers of a VDP, and most listeners: each takes a descriptor of those that all VDPs of the process share.
const MOST_ENDPOINTS: usize = 16;

fn few_enough(source: &Source<'_>, all: &[Spanned<String>], what: &str) -> Read<()> {
    let Some(beyond) = all.get(MOST_ENDPOINTS) else { return Ok(()) };
    let text = format!("{} {what}: a VDP has {MOST_ENDPOINTS} at most", all.len());
    Err(source.error(&beyond.span(), text))
}

/// Reads `[vdp.openflow]`.
pub(super) fn read_openflow(
    source: &Source<'_>,
    given: &Spanned<OpenflowSection>,
    vid: Vid,
    base: &Path,
) -> Read<OpenflowPlan> {
    let s = given.get_ref();
    few_enough(source, &s.controllers, "controllers")?;
    few_enough(source, &s.listen, "listeners")?;
    let tls = s.tls.as_ref().map(|t| identity(source, t, base)).transpose()?;
    let mut controllers = Vec::new();
    for c in &s.controllers {
        let new = Controller::parse(c.get_ref())
            .map_err(|e| source.error(&c.span(), format!("controller {e}")))?;
        needs_tls(source, c, new.security, tls.is_some())?;
        if controllers.contains(&new) {
            return Err(source.error(&c.span(), format!("{new} is there already")));
        }
        controllers.push(new);
    }
    let mut listen: Vec<Listener> = Vec::new();
    for l in &s.listen {
        let new = Listener::parse(l.get_ref())
            .map_err(|e| source.error(&l.span(), format!("listen {e}")))?;
        needs_tls(source, l, new.security, tls.is_some())?;
        if new.is_open() && !s.insecure {
            let text = format!(
                "{new}: whoever reaches this address could change every flow; listen with TLS \
                 (pssl:), on 127.0.0.1, or say insecure = true"
            );
            return Err(source.error(&l.span(), text));
        }
        if new.at.port() != 0 && listen.iter().any(|o| o.at == new.at) {
            return Err(source.error(&l.span(), format!("{} is there already", new.at)));
        }
        listen.push(new);
    }
    Ok(OpenflowPlan {
        nature: nature(source, s, vid)?,
        controllers,
        listen,
        connections: connections(source, s)?,
        tls,
    })
}

fn nature(source: &Source<'_>, s: &OpenflowSection, vid: Vid) -> Read<Nature> {
    let modes = [("secure", FailMode::Secure), ("standalone", FailMode::Standalone)];
    let fail_mode = match &s.fail_mode {
        Some(m) => one_of(source, m, "fail_mode", &modes)?,
        None => FailMode::Secure,
    };
    let ways = [("refuse", Spill::Refuse), ("slow-path", Spill::SlowPath)];
    let spill = match &s.spill {
        Some(w) => one_of(source, w, "spill", &ways)?,
        None => Spill::Refuse,
    };
    let id = s.datapath_id.as_ref();
    Ok(Nature {
        datapath_id: id.map_or(default_datapath_id(vid), |d| d.get_ref().0),
        fail_mode,
        tables: within(source, s.tables.as_ref(), "tables", 1, 254)?.unwrap_or(254),
        spill,
        miss_send_len: s.miss_send_len.unwrap_or(128),
        buffers: within(source, s.buffers.as_ref(), "buffers", 0, 4096)?.unwrap_or(256),
        limits: limits(source, s)?,
    })
}

/// Most flows, groups or meters that may be allowed: numbers of 28 bits, some hundred bytes each.
const MOST: u32 = 1 << 28;

fn limits(source: &Source<'_>, s: &OpenflowSection) -> Read<Limits> {
    let (l, d) = (&s.limits, Limits::default());
    Ok(Limits {
        flows: within(source, l.flows.as_ref(), "flows", 1, MOST)?.unwrap_or(d.flows),
        groups: within(source, l.groups.as_ref(), "groups", 0, MOST)?.unwrap_or(d.groups),
        meters: within(source, l.meters.as_ref(), "meters", 0, MOST)?.unwrap_or(d.meters),
        packet_ins: rate(source, l.packet_ins_per_s.as_ref(), "packet_ins_per_s")?,
    })
}

fn connections(source: &Source<'_>, s: &OpenflowSection) -> Read<ConnectionsPlan> {
    let d = ConnectionsPlan::default();
    let l = &s.limits;
    let seconds = |n: Option<u32>| n.map(|n| Duration::from_secs(n.into()));
    let echo = within(source, s.echo_interval_s.as_ref(), "echo_interval_s", 0, 3600)?;
    let backoff = within(source, s.backoff_max_s.as_ref(), "backoff_max_s", 1, 3600)?;
    let queue = within(source, l.queue_bytes.as_ref(), "queue_bytes", 65_536, 1 << 30)?;
    let connections = within(source, l.connections.as_ref(), "connections", 1, 65_536)?;
    Ok(ConnectionsPlan {
        versions: versions(source, s)?,
        echo_interval: seconds(echo).unwrap_or(d.echo_interval),
        backoff_max: seconds(backoff).unwrap_or(d.backoff_max),
        messages_per_s: rate(source, l.messages_per_s.as_ref(), "messages_per_s")?,
        flow_mods_per_s: rate(source, l.flow_mods_per_s.as_ref(), "flow_mods_per_s")?,
        queue_bytes: queue.unwrap_or(d.queue_bytes),
        connections: connections.unwrap_or(d.connections),
    })
}

fn versions(source: &Source<'_>, s: &OpenflowSection) -> Read<Versions> {
    let Some(given) = &s.versions else { return Ok(Versions::ALL) };
    let known = [("1.0", Version::V10), ("1.3", Version::V13)];
    let mut all: Vec<Version> = Vec::new();
    for v in given.get_ref() {
        let v = one_of(source, v, "version", &known)?;
        if !all.contains(&v) {
            all.push(v);
        }
    }
    match all[..] {
        [] => Err(source.error(&given.span(), "versions = []: \"1.0\", \"1.3\" or both")),
        [one] => Ok(Versions::only(one)),
        _ => Ok(Versions::ALL),
    }
}

pub(super) fn within<T: Copy + PartialOrd + std::fmt::Display>(
    source: &Source<'_>,
    given: Option<&Spanned<T>>,
    key: &str,
    least: T,
    most: T,
) -> Read<Option<T>> {
    let Some(s) = given else { return Ok(None) };
    let n = *s.get_ref();
    if n < least || n > most {
        return Err(source.error(&s.span(), format!("{key} = {n}: {least} to {most}")));
    }
    Ok(Some(n))
}

fn rate(source: &Source<'_>, given: Option<&Spanned<u32>>, key: &str) -> Read<Option<u32>> {
    within(source, given, key, 1, u32::MAX)
}

pub(super) fn needs_tls(
    source: &Source<'_>,
    at: &Spanned<String>,
    s: Security,
    has: bool,
) -> Read<()> {
    if s == Security::Plain || has {
        return Ok(());
    }
    let text = "needs an identity: tls = { certificate = \"…\", key = \"…\", ca = \"…\" }";
    Err(source.error(&at.span(), format!("'{}' {text}", at.get_ref())))
}

/// Reads a `tls` table and the files that it names.
pub(super) fn identity(
    source: &Source<'_>,
    t: &Spanned<TlsSection>,
    base: &Path,
) -> Read<Identity> {
    let s = t.get_ref();
    let name = match &s.peer_name {
        None => PeerName::Host,
        Some(n) if n.get_ref() == "*" => PeerName::Any,
        Some(n) => ServerName::try_from(n.get_ref().clone())
            .map(PeerName::Is)
            .map_err(|_| source.error(&n.span(), "peer_name: a host's name, or \"*\" for any"))?,
    };
    let of = |f: &Spanned<String>| base.join(f.get_ref());
    let files = Files { certificate: of(&s.certificate), key: of(&s.key), ca: of(&s.ca) };
    let read = read_texts(&files).and_then(|texts| identity_of(files, name, &texts));
    read.map_err(|(part, wrong)| {
        let (what, at) = match part {
            Part::Certificate => ("certificate", &s.certificate),
            Part::Key => ("key", &s.key),
            Part::Ca => ("ca", &s.ca),
        };
        let text = match wrong {
            Wrong::File(e) => format!("{what} {e}"),
            Wrong::Content(e) => format!("{what} {}: {e}", at.get_ref()),
        };
        source.error(&at.span(), text)
    })
}

/// What is wrong with a file of an identity.
enum Wrong {
    /// It can't be read; the text names it.
    File(ConfigError),
    /// What stands in it.
    Content(String),
}

/// What stands in the files, in their order.
fn read_texts(files: &Files) -> Result<[String; 3], (Part, Wrong)> {
    let read = |part| read_file(files.of(part)).map_err(|e| (part, Wrong::File(e)));
    Ok([read(Part::Certificate)?, read(Part::Key)?, read(Part::Ca)?])
}

fn identity_of(
    files: Files,
    name: PeerName,
    texts: &[String; 3],
) -> Result<Identity, (Part, Wrong)> {
    let [certificate, key, ca] = texts.each_ref().map(String::as_bytes);
    let read = Identity::new(&Pem { certificate, key, ca }, name);
    let read = read.map_err(|(part, e)| (part, Wrong::Content(e)))?;
    Ok(read.with_origin(files, digest(&texts.join("\0"))))
}

/// Reads the files of an identity again. `None`: it is of none, or they have what they had.
///
/// # Errors
/// What is wrong with one of them, and with which.
pub fn read_again(held: &Identity) -> Option<Result<Identity, String>> {
    let (files, name, was) = held.origin()?;
    let again = || {
        let texts = read_texts(files)?;
        match digest(&texts.join("\0")) == was {
            true => Ok(None),
            false => identity_of(files.clone(), name.clone(), &texts).map(Some),
        }
    };
    let told = |(part, wrong)| match wrong {
        Wrong::File(e) => e.text,
        Wrong::Content(e) => format!("{}: {e}", files.of(part).display()),
    };
    again().map_err(told).transpose()
}

/// Reads `[[vdp.queue]]`; what it leaves out stays.
pub(super) fn read_queues(
    source: &Source<'_>,
    v: &VdpSection,
    plan: &mut super::plan::VdpPlan,
) -> Read<()> {
    if v.queue.is_empty() {
        return Ok(());
    }
    plan.queues.clear();
    for q in &v.queue {
        let (key, rates) = read_queue(source, q, &plan.ports)?;
        if plan.queues.contains_key(&key) {
            let text = format!("queue {} of port '{}' is there already", key.1, key.0);
            return Err(source.error(&q.span(), text));
        }
        plan.queues.insert(key, rates);
    }
    Ok(())
}

fn read_queue(
    source: &Source<'_>,
    q: &Spanned<QueueSection>,
    ports: &[(String, PortNo)],
) -> Result<((String, u32), QueuePlan), ConfigError> {
    let s = q.get_ref();
    let port = port_name(source, &s.port, ports)?;
    let id = within(source, Some(&s.id), "id", 1, u32::MAX - 1)?.unwrap_or(1);
    if s.max_bps.is_some_and(|max| max == 0 || max < s.min_bps) {
        let text = format!("queue {id} of port '{port}': max_bps is 0 or below min_bps");
        return Err(source.error(&q.span(), text));
    }
    Ok(((port, id), QueuePlan { min_bps: s.min_bps, max_bps: s.max_bps }))
}
