//! The file of `weir slicer`: where switches are, slices with their controllers and limits, the flow space.
//!
//! Room: from text to a [`SlicerPlan`], checked whole: a flow space that overlaps itself is refused here, before
//! anything is connected. `docs/guide/slicer.md` describes the keys.

mod matches;
#[cfg(test)]
mod tests;

use super::error::{Source, nearest, one_of};
use super::openflow::{identity, needs_tls, within};
use super::read::{Read, check_name, read_file};
use super::schema::TlsSection;
use super::words::DatapathId;
use crate::openflow::address::{Controller, Listener};
use crate::openflow::tls::Identity;
use crate::serve::plan::server;
use crate::serve::tokens::default_path;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::ServerConfig;
use toml::Spanned;
use weir_openflow::channel::{Rate, Versions};
use weir_openflow::model::{Field, Port, Version};
use weir_supervisor::slicer::space::{Right, SliceId};
use weir_supervisor::slicer::{
    self, Limits, Loss, PortRef, SlicePlan, SpaceRule, Switch, TagsRead,
};

/// All of it.
#[derive(Clone, Debug)]
pub struct SlicerPlan {
    /// Where switches connect.
    pub listen: Vec<Listener>,
    /// Switches that listen.
    pub connect: Vec<Controller>,
    /// Versions that switches may speak; each slice's controllers speak its switch's.
    pub versions: Versions,
    /// Silence after which a peer is asked for a sign of life; zero: never.
    pub echo: Duration,
    /// Longest time between two attempts to connect.
    pub backoff_max: Duration,
    /// Connections at once that came by listeners.
    pub connections: usize,
    /// Our identity, for ssl and pssl.
    pub tls: Option<Identity>,
    /// The slices.
    pub tenants: Vec<Tenant>,
    /// The flow space.
    pub rules: Vec<SpaceRule>,
    /// FlowVisor's names, where they are served.
    pub api: Option<ApiPlan>,
    /// Where what slices have is kept.
    pub remember: Option<PathBuf>,
}

/// Where FlowVisor's names are served.
#[derive(Clone, Debug)]
pub struct ApiPlan {
    /// Where.
    pub listen: SocketAddr,
    /// By TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// File of tokens.
    pub tokens: PathBuf,
    /// Where changes are kept.
    pub state: Option<PathBuf>,
}

/// A slice with its controllers.
#[derive(Clone, Debug, Default)]
pub struct Tenant {
    /// What it may have.
    pub plan: SlicePlan,
    /// Its controllers.
    pub controllers: Vec<Controller>,
    /// Where its controllers may connect.
    pub listen: Vec<Listener>,
    /// Messages of all its controllers.
    pub messages: Option<Rate>,
    /// Of them flow_mods.
    pub flow_mods: Option<Rate>,
    /// Its part of the slicer's time.
    pub cpu_permille: u32,
}

impl SlicerPlan {
    /// A switch of this version, sliced so.
    pub fn switch(&self, version: Version) -> Switch {
        let slices = self.tenants.iter().map(|t| t.plan.clone()).collect();
        Switch::new(version, slices, self.rules.clone())
    }
    /// Whether a controller of a slice's, or one that came by itself, has a place here.
    pub fn wants(&self, slice: SliceId, of: Option<&Controller>) -> bool {
        let tenant = self.tenants.get(usize::from(slice.0)).filter(|t| !t.is_gone());
        tenant.is_some_and(|t| of.is_none_or(|c| t.controllers.contains(c)))
    }
    /// The same with the numbers of another plan, in which some slices had theirs before: those that are no
    /// more are gone, and new ones come behind.
    #[must_use]
    pub fn numbered_after(self, before: &Self) -> Self {
        let mut tenants: Vec<Tenant> = before.tenants.iter().map(|_| Tenant::default()).collect();
        let mut numbers = Vec::with_capacity(self.tenants.len());
        for t in self.tenants {
            let old = before.tenants.iter().position(|b| b.plan.name == t.plan.name);
            let at = old.unwrap_or(tenants.len());
            match tenants.get_mut(at) {
                Some(place) => *place = t,
                None => tenants.push(t),
            }
            numbers.push(SliceId(u16::try_from(at).unwrap_or(u16::MAX)));
        }
        let number = |s: &SliceId| numbers.get(usize::from(s.0)).copied().unwrap_or(*s);
        let mut rules = self.rules;
        for r in &mut rules {
            r.grants.iter_mut().for_each(|(s, _)| *s = number(s));
            r.by = r.by.as_ref().map(number);
        }
        Self { tenants, rules, ..self }
    }
    /// A slice by its name.
    pub fn number_of(&self, name: &str) -> Option<SliceId> {
        let at = self.tenants.iter().position(|t| t.plan.name == name && !t.is_gone())?;
        u16::try_from(at).ok().map(SliceId)
    }
    /// What a slice is called.
    pub fn name_of(&self, slice: SliceId) -> &str {
        self.tenants.get(usize::from(slice.0)).map_or("?", |t| &t.plan.name)
    }
}

impl Tenant {
    /// Whether it was a slice once, and its number is nobody's now.
    pub fn is_gone(&self) -> bool {
        self.plan.name.is_empty()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    listen: Vec<Spanned<String>>,
    #[serde(default)]
    connect: Vec<Spanned<String>>,
    #[serde(default)]
    insecure: bool,
    version: Option<Spanned<String>>,
    echo_interval_s: Option<Spanned<u32>>,
    backoff_max_s: Option<Spanned<u32>>,
    connections: Option<Spanned<usize>>,
    vlan_limit: Option<Spanned<u32>>,
    tls: Option<Spanned<TlsSection>>,
    #[serde(default)]
    slice: Vec<Spanned<SliceSection>>,
    #[serde(default)]
    flowspace: Vec<Spanned<SpaceSection>>,
    api: Option<Spanned<ApiSection>>,
    remember: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApiSection {
    listen: Option<Spanned<SocketAddr>>,
    tls: Option<ApiTls>,
    tokens: Option<PathBuf>,
    state: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApiTls {
    certificate: PathBuf,
    key: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SliceSection {
    name: Spanned<String>,
    #[serde(default)]
    controllers: Vec<Spanned<String>>,
    #[serde(default)]
    listen: Vec<Spanned<String>>,
    #[serde(default)]
    queues: BTreeSet<u32>,
    on_loss: Option<Spanned<String>>,
    drop_s: Option<Spanned<u16>>,
    #[serde(default)]
    limits: LimitsSection,
    /// What FlowVisor knows of it beside.
    #[serde(default, rename = "fv")]
    _fv: Option<toml::Table>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsSection {
    rules: Option<Spanned<usize>>,
    rules_per_flow: Option<Spanned<usize>>,
    tables: Option<Spanned<u8>>,
    groups: Option<Spanned<usize>>,
    meters: Option<Spanned<usize>>,
    messages_per_s: Option<Spanned<u32>>,
    flow_mods_per_s: Option<Spanned<u32>>,
    packet_ins_per_s: Option<Spanned<u32>>,
    cpu_permille: Option<Spanned<u32>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpaceSection {
    #[serde(rename = "match", default)]
    matcher: Option<Spanned<String>>,
    #[serde(default)]
    ports: Vec<Spanned<PortWord>>,
    priority: Option<Spanned<u32>>,
    #[serde(default)]
    read: Vec<Spanned<String>>,
    write: Option<Spanned<String>>,
    delegate: Option<Spanned<String>>,
    by: Option<Spanned<String>>,
    datapath: Option<Spanned<DatapathId>>,
    /// What FlowVisor knows of it beside.
    fv: Option<toml::Table>,
}

impl SpaceSection {
    /// What it is called where it was made by FlowVisor's names.
    fn called(&self) -> Option<String> {
        let name = self.fv.as_ref()?.get("name")?.as_str()?;
        Some(name.chars().filter(|c| !c.is_control()).take(64).collect())
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "ports: each by its number, or in quotes by the switch's name for it"
)]
enum PortWord {
    Number(i64),
    Name(String),
}

/// Reads a file.
///
/// # Errors
/// Where it is wrong, and how to mend it.
pub fn load(path: &Path) -> Read<SlicerPlan> {
    let text = read_file(path)?;
    let base = path.parent().unwrap_or(Path::new(""));
    from_text(&text, &path.display().to_string(), base)
}

/// Reads a text, which errors call `name`; files that it names are looked for in `base`.
///
/// # Errors
/// Where it is wrong, and how to mend it.
pub fn from_text(text: &str, name: &str, base: &Path) -> Read<SlicerPlan> {
    let source = Source::new(name, text);
    let f: File = toml::from_str(text).map_err(|e| source.toml(&e))?;
    let tls = f.tls.as_ref().map(|t| identity(&source, t, base)).transpose()?;
    let doors = Doors { source: &source, tls: tls.is_some(), insecure: f.insecure };
    let (listen, connect) = (doors.listeners(&f.listen)?, doors.controllers(&f.connect)?);
    if listen.is_empty() && connect.is_empty() {
        let text = "no switch can come: give listen = [\"ptcp:6633\"] or connect = [\"tcp:HOST\"]";
        return Err(source.error(&(0..0), text));
    }
    // As Open vSwitch calls it; it has 1 without a word, and 0 or 2 are what is taken for granted here.
    let tags = match within(&source, f.vlan_limit.as_ref(), "vlan_limit", 0, 2)? {
        Some(1) => TagsRead::One,
        _ => TagsRead::Any,
    };
    let mut tenants: Vec<Tenant> = Vec::new();
    for s in &f.slice {
        let mut new = tenant(&source, s.get_ref(), &doors)?;
        new.plan.tags = tags;
        if tenants.iter().any(|t| t.plan.name == new.plan.name) {
            let text = format!("slice '{}' is there already", new.plan.name);
            return Err(source.error(&s.get_ref().name.span(), text));
        }
        tenants.push(new);
    }
    if tenants.len() > usize::from(u16::MAX) - 1 {
        return Err(source.error(&(0..0), "more than 65534 slices"));
    }
    let mut rules = Vec::new();
    for r in &f.flowspace {
        rules.push(rule(&source, r, &tenants)?);
    }
    // Those that are delegated are looked at after those that are there to be delegated from.
    let at = |i: usize| f.flowspace.get(i).map_or(0..0, Spanned::span);
    slicer::check(&rules).map_err(|(i, other, e)| {
        // Whoever made entries by requests knows them by their names, and nothing of lines.
        let with = other.map(|o| match f.flowspace.get(o).and_then(|r| r.get_ref().called()) {
            Some(name) => format!(" (it is called '{name}')"),
            None => format!(" (in line {})", source.place(at(o).start).line),
        });
        let e = called(&e.to_string(), &tenants);
        source.error(&at(i), format!("{e}{}", with.unwrap_or_default()))
    })?;
    let versions = match &f.version {
        None => Versions::ALL,
        Some(v) => {
            let known = [("1.0", Version::V10), ("1.3", Version::V13)];
            Versions::only(one_of(&source, v, "version", &known)?)
        }
    };
    let seconds = |n: Option<u32>, or: u64| {
        n.map_or(Duration::from_secs(or), |n| Duration::from_secs(n.into()))
    };
    let echo = within(&source, f.echo_interval_s.as_ref(), "echo_interval_s", 0, 3600)?;
    let backoff = within(&source, f.backoff_max_s.as_ref(), "backoff_max_s", 1, 3600)?;
    let connections = within(&source, f.connections.as_ref(), "connections", 1, 65_536)?;
    Ok(SlicerPlan {
        listen,
        connect,
        versions,
        echo: seconds(echo, 5),
        backoff_max: seconds(backoff, 8),
        connections: connections.unwrap_or(1024),
        tls,
        tenants,
        rules,
        api: f.api.as_ref().map(|a| api(&source, a, base)).transpose()?,
        remember: f.remember.as_ref().map(|p| base.join(p)),
    })
}

/// Where FlowVisor's API is, without a word of it.
const FLOWVISOR: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8081);

fn api(source: &Source<'_>, given: &Spanned<ApiSection>, base: &Path) -> Read<ApiPlan> {
    let a = given.get_ref();
    let listen = a.listen.as_ref().map_or(FLOWVISOR, |l| *l.get_ref());
    let beside = |p: &PathBuf| base.join(p);
    let tls = a.tls.as_ref().map(|t| server(&beside(&t.certificate), &beside(&t.key))).transpose();
    let tls = tls.map_err(|e| source.error(&given.span(), format!("api.tls: {e:#}")))?;
    if tls.is_none() && !listen.ip().is_loopback() {
        let span = a.listen.as_ref().map_or(given.span(), Spanned::span);
        let text = "everybody could read tokens there: give tls, or listen on 127.0.0.1";
        return Err(source.error(&span, format!("api.listen: {text}")));
    }
    let tokens = a.tokens.as_ref().map_or_else(default_path, beside);
    Ok(ApiPlan { listen, tls, tokens, state: a.state.as_ref().map(beside) })
}

/// Whether a text is a match of the flow space.
#[cfg(test)]
pub fn readable(text: &str) -> Result<(), String> {
    matches::read(text).map(|_| ())
}

/// Slices by name in an error of the flow space.
fn called(text: &str, tenants: &[Tenant]) -> String {
    let mut text = text.to_owned();
    for (i, t) in tenants.iter().enumerate() {
        text = text.replace(&format!("SliceId({i})"), &format!("'{}'", t.plan.name));
    }
    text
}

/// Addresses, and what they need.
struct Doors<'a> {
    source: &'a Source<'a>,
    tls: bool,
    insecure: bool,
}

impl Doors<'_> {
    fn listeners(&self, given: &[Spanned<String>]) -> Read<Vec<Listener>> {
        let one = |l: &Spanned<String>| {
            let new = Listener::parse(l.get_ref())
                .map_err(|e| self.source.error(&l.span(), format!("listen {e}")))?;
            needs_tls(self.source, l, new.security, self.tls)?;
            if new.is_open() && !self.insecure {
                let text = format!(
                    "{new}: whoever reaches this address could change every flow; listen with \
                     TLS (pssl:), on 127.0.0.1, or say insecure = true"
                );
                return Err(self.source.error(&l.span(), text));
            }
            Ok(new)
        };
        given.iter().map(one).collect()
    }

    fn controllers(&self, given: &[Spanned<String>]) -> Read<Vec<Controller>> {
        let one = |c: &Spanned<String>| {
            let new = Controller::parse(c.get_ref())
                .map_err(|e| self.source.error(&c.span(), format!("address {e}")))?;
            needs_tls(self.source, c, new.security, self.tls)?;
            Ok(new)
        };
        given.iter().map(one).collect()
    }
}

/// Most rules, groups or meters that may be allowed.
pub const MOST_RULES: usize = 1 << 24;

fn tenant(source: &Source<'_>, s: &SliceSection, doors: &Doors<'_>) -> Read<Tenant> {
    check_name("slice", s.name.get_ref()).map_err(|e| source.error(&s.name.span(), e))?;
    let l = &s.limits;
    let d = Limits::default();
    // A tenth of a second's worth at once.
    let rate = |given: &Option<Spanned<u32>>, key| {
        let n = within(source, given.as_ref(), key, 1, u32::MAX)?;
        Ok(n.map(|n| Rate { per_second: n, burst: (n / 10).max(1) }))
    };
    let limits = Limits {
        rules: within(source, l.rules.as_ref(), "rules", 0, MOST_RULES)?.unwrap_or(d.rules),
        tables: within(source, l.tables.as_ref(), "tables", 1, 254)?.unwrap_or(d.tables),
        groups: within(source, l.groups.as_ref(), "groups", 0, MOST_RULES)?.unwrap_or(d.groups),
        meters: within(source, l.meters.as_ref(), "meters", 0, MOST_RULES)?.unwrap_or(d.meters),
        packet_ins: rate(&l.packet_ins_per_s, "packet_ins_per_s")?,
        pieces: within(source, l.rules_per_flow.as_ref(), "rules_per_flow", 1, 4096)?
            .unwrap_or(d.pieces),
    };
    let seconds = within(source, s.drop_s.as_ref(), "drop_s", 1, 3600)?.unwrap_or(5);
    let ways = [("keep", Loss::Keep), ("delete", Loss::Delete), ("drop", Loss::Drop { seconds })];
    let loss = match &s.on_loss {
        Some(w) => one_of(source, w, "on_loss", &ways)?,
        None => Loss::Keep,
    };
    let cpu = within(source, l.cpu_permille.as_ref(), "cpu_permille", 1, 1000)?;
    let name = s.name.get_ref().clone();
    Ok(Tenant {
        plan: SlicePlan { name, queues: s.queues.clone(), limits, loss, ..SlicePlan::default() },
        controllers: doors.controllers(&s.controllers)?,
        listen: doors.listeners(&s.listen)?,
        messages: rate(&l.messages_per_s, "messages_per_s")?,
        flow_mods: rate(&l.flow_mods_per_s, "flow_mods_per_s")?,
        cpu_permille: cpu.unwrap_or(1000),
    })
}

/// The usual priority of a rule of the flow space.
const PRIORITY: u32 = 100;

fn rule(source: &Source<'_>, given: &Spanned<SpaceSection>, all: &[Tenant]) -> Read<SpaceRule> {
    let s = given.get_ref();
    let slice = |n: &Spanned<String>| {
        let known = all.iter().position(|t| t.plan.name == *n.get_ref());
        let known = known.and_then(|i| u16::try_from(i).ok()).map(SliceId);
        known.ok_or_else(|| {
            let near = nearest(n.get_ref(), all.iter().map(|t| t.plan.name.as_str()));
            let near = near.map(|n| format!(": did you mean '{n}'?")).unwrap_or_default();
            let name: String = n.get_ref().chars().take(64).collect();
            source.error(&n.span(), format!("there is no slice '{name}'{near}"))
        })
    };
    let mut grants = Vec::new();
    for n in &s.read {
        grants.push((slice(n)?, Right::Read));
    }
    for (n, right) in [(&s.write, Right::Write), (&s.delegate, Right::Delegate)] {
        if let Some(n) = n {
            grants.push((slice(n)?, right));
        }
    }
    if s.write.is_some() && s.delegate.is_some() {
        let text = "'delegate' holds 'write': give one of them";
        return Err(source.error(&given.span(), text));
    }
    let (text, span) = match &s.matcher {
        Some(m) => (m.get_ref().as_str(), m.span()),
        None => ("any", given.span()),
    };
    let matchers = matches::read(text).map_err(|e| source.error(&span, format!("match: {e}")))?;
    let port = |p: &Spanned<PortWord>| {
        Ok(match p.get_ref() {
            PortWord::Name(n) => PortRef::Name(n.clone()),
            PortWord::Number(n) => {
                let no = u32::try_from(*n).ok().map(Port).filter(|p| p.is_physical());
                PortRef::Number(no.ok_or_else(|| {
                    let text = format!("{n} is no port's number: 1 to {}", Port::MAX.0);
                    source.error(&p.span(), text)
                })?)
            }
        })
    };
    let ports: Vec<PortRef> = s.ports.iter().map(port).collect::<Read<_>>()?;
    if !ports.is_empty() && matchers.iter().any(|m| m.get(Field::InPort).is_some()) {
        return Err(source.error(&span, "in_port is what 'ports' says: give one of them"));
    }
    Ok(SpaceRule {
        priority: s.priority.as_ref().map_or(PRIORITY, |p| *p.get_ref()),
        ports,
        matchers,
        grants,
        by: s.by.as_ref().map(&slice).transpose()?,
        datapath: s.datapath.as_ref().map(|d| d.get_ref().0),
    })
}
