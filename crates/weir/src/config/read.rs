//! From a file's sections to a [`Plan`]: names are resolved, rules read, contradictions found.
//!
//! Room: text and the files that it names; no device is opened here. Called by `weir run`, on reload,
//! and by the control socket for VDPs that are described in the same language.

use super::error::{ConfigError, Place, Source, one_of};
use super::openflow::{identity, read_openflow, read_queues};
use super::plan::{
    ApiPlan, Fixed, FixedPlaces, MappingPlan, Plan, PlaneNames, PortPlan, VdpNames, VdpPlan,
};
use super::program::{self, ProgramPlan};
use super::rules::{flow_error, read_group, read_meter, read_rules};
use super::schema::{
    ApiSection, DataplaneSection, FieldSection, File, PortSection, ShareSection, TcamSection,
    VdpSection,
};
use super::tunnels;
use super::words::{self, PortRef, TextOr};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use toml::Spanned;
use weir_classify::{Geometry, Match};
use weir_dataplane::flowtext::{DEFAULT_PRIORITY, is_reserved_port, parse_actions, parse_match};
use weir_dataplane::{
    Action, Config, Isolation, PortNo, PortShare, Serving, UserField, UserFields, Vid, WhenIdle,
};
use weir_io::file::trouble;
use weir_io::open::{Kind, PortSpec};
use weir_packet::{Nanos, PortId};

/// Longest configuration or rules file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 256 << 20;

pub(super) type Read<T> = Result<T, ConfigError>;

/// Reads a configuration file.
///
/// # Errors
/// [`ConfigError`].
pub fn load(path: &Path) -> Read<Plan> {
    let text = read_file(path)?;
    let base = path.parent().unwrap_or(Path::new(""));
    read_all(&text, &path.display().to_string(), base)
}

/// Reads a configuration from a text, which errors call `name`.
///
/// # Errors
/// [`ConfigError`].
pub fn from_text(text: &str, name: &str) -> Read<Plan> {
    read_all(text, name, Path::new(""))
}

fn read_all(text: &str, name: &str, base: &Path) -> Read<Plan> {
    let source = Source::new(name, text);
    let file: File = toml::from_str(text).map_err(|e| source.toml(&e))?;
    let mut plan = Plan::empty(fixed(&source, file.section(), base)?);
    plan.fixed.api = file.api.as_ref().map(|a| read_api(&source, a, base)).transpose()?;
    plan.places = places(&source, &file);
    for p in &file.port {
        let port = read_port(&source, p, base)?;
        if let Some(other) = plan.ports.iter().find(|o| o.name == port.name) {
            let at = other.place.as_ref().map(|p| format!(" in line {}", p.line));
            let text = format!("port '{}' is there already{}", port.name, at.unwrap_or_default());
            return Err(source.error(&p.name.span(), format!("{text}: choose another name")));
        }
        let twice = |text| source.error(&p.device.span(), format!("port '{}': {text}", port.name));
        plan.check_device(&port.spec).map_err(twice)?;
        plan.ports.push(port);
    }
    if file.section().frames.is_none() {
        let rings = plan.ports.iter().filter(|p| p.spec.kind.is_by_af_xdp()).count();
        plan.fixed.rings = entries_for(rings);
        plan.fixed.config.frames = frames_for(rings, plan.fixed.rings);
    }
    let known: Vec<String> = plan.ports.iter().map(|p| p.name.clone()).collect();
    for v in &file.vdp {
        let vdp = read_vdp(&source, v, &known, base, None)?;
        insert(&source, v, &mut plan, vdp)?;
    }
    Ok(plan)
}

/// Reads one `[[vdp]]` section from a text of its own, for a data plane with these ports. `file` is
/// what errors call the text; a text without a file is nothing that its user has seen, so they name
/// no place in it. What the section leaves out stays as in `old`, where that is given.
///
/// # Errors
/// [`ConfigError`].
pub fn vdp_from(
    text: &str,
    file: Option<&str>,
    known: &[String],
    old: Option<&VdpPlan>,
) -> Read<VdpPlan> {
    let read = one_vdp(&Source::new(file.unwrap_or_default(), text), text, known, old);
    let seen = |p: &Place| !p.file.is_empty();
    match read {
        Ok(mut v) => {
            v.rules.values_mut().for_each(|r| r.place = r.place.take().filter(seen));
            Ok(v)
        }
        Err(e) => Err(ConfigError { place: e.place.filter(seen), ..e }),
    }
}

fn one_vdp(
    source: &Source<'_>,
    text: &str,
    known: &[String],
    old: Option<&VdpPlan>,
) -> Read<VdpPlan> {
    let parsed: File = toml::from_str(text).map_err(|e| source.toml(&e))?;
    let [vdp] = parsed.vdp.as_slice() else {
        let what = format!("{} [[vdp]] sections: exactly one is needed", parsed.vdp.len());
        return Err(source.error(&(0..0), what));
    };
    if !parsed.port.is_empty() {
        return Err(source.error(&(0..0), "a [[port]] here: add ports with 'weir port add'"));
    }
    if vdp.vid.get_ref().0 == 0 && old.is_none() {
        return Err(source.error(&vdp.vid.span(), "the default VDP, 0, is there already"));
    }
    read_vdp(source, vdp, known, Path::new(""), old)
}

/// Reads a text file that the user names.
///
/// # Errors
/// [`ConfigError`].
pub fn read_file(path: &Path) -> Read<String> {
    let fail = |text: String| ConfigError { place: None, text };
    let shown = path.display();
    let wrong = |e: std::io::Error| fail(format!("{shown}: {}", trouble(&e)));
    let mut bytes = Vec::new();
    // A device has no size, and no end.
    let file = std::fs::File::open(path).map_err(wrong)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(wrong)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let text = format!("{shown}: longer than the {MAX_FILE_BYTES} bytes that are read at most");
        return Err(fail(text));
    }
    String::from_utf8(bytes).map_err(|_| fail(format!("{shown}: not a text file (UTF-8)")))
}

/// Entries that AF_XDP ports' rings have together, where the file says nothing and ports are many. The kernel has 128 bytes of each frame of
/// the region for each port, so that with whole rings its memory grew by the square of their number (150: 5.9 GB).
const ALL_RINGS: usize = 65_536;
/// No ring is shorter.
const LEAST_RING: u32 = 256;

/// Entries of each of so many AF_XDP ports' rings: a power of two.
fn entries_for(ports: usize) -> u32 {
    let whole = weir_io::af_xdp::Options::default().ring;
    let half = |r: &u32| (*r > LEAST_RING).then(|| r / 2);
    let fits = |r: &u32| *r as usize * ports <= ALL_RINGS;
    std::iter::successors(Some(whole), half).find(fits).unwrap_or(LEAST_RING)
}

/// Frames for so many rings, if the file says nothing: each has its whole ring, and beside that there are as many as for one.
fn frames_for(rings: usize, entries: u32) -> usize {
    let least = Config::default().frames;
    (rings * entries as usize + least / 2).max(least)
}

fn fixed(source: &Source<'_>, d: &DataplaneSection, base: &Path) -> Read<Fixed> {
    let c = Config::default();
    let g = c.tcam;
    let none = TcamSection::default();
    let tcam = d.tcam.as_ref().map_or(&none, Spanned::get_ref);
    let given =
        |v: &Option<Spanned<usize>>, otherwise| v.as_ref().map_or(otherwise, |v| *v.get_ref());
    let config = Config {
        frames: given(&d.frames, c.frames),
        chunk_bytes: given(&d.chunk_bytes, c.chunk_bytes),
        channels: given(&d.channels, c.channels),
        channel_frames: given(&d.channel_frames, c.channel_frames),
        queue_frames: d.queue_frames.unwrap_or(c.queue_frames),
        tcam: Geometry {
            mapping_entries: tcam.mapping_entries.unwrap_or(g.mapping_entries),
            action_entries: tcam.action_entries.unwrap_or(g.action_entries),
            slice_entries: tcam.slice_entries.unwrap_or(g.slice_entries),
            block_slices: tcam.block_slices.unwrap_or(g.block_slices),
        },
        drain_limit: d.drain_limit_ms.map_or(c.drain_limit, Nanos::from_millis),
        workers: given(&d.workers, c.workers),
        flow_caching: c.flow_caching,
    };
    let serving = match d.serving.as_ref().map(Spanned::get_ref) {
        None | Some(words::Serving::Worker) => Serving::Worker,
        Some(words::Serving::Threads(n)) => Serving::Threads(*n),
    };
    let idle = match &d.idle {
        None => WhenIdle::Rest,
        Some(w) => {
            one_of(source, w, "idle", &[("spin", WhenIdle::Spin), ("rest", WhenIdle::Rest)])?
        }
    };
    let cpu = d.cpu.as_ref().map(|c| *c.get_ref());
    let socket = d.socket.as_ref().map(|s| base.join(s));
    let rings = weir_io::af_xdp::Options::default().ring;
    Ok(Fixed { config, rings, serving, idle, cpu, socket, api: None })
}

fn read_api(source: &Source<'_>, a: &Spanned<ApiSection>, base: &Path) -> Read<ApiPlan> {
    let a = a.get_ref();
    let listen = a.listen.get_ref().parse().map_err(|_| {
        let shown: String = a.listen.get_ref().chars().take(64).collect();
        let text = format!("listen '{shown}': an address and a port, as in \"127.0.0.1:6680\"");
        source.error(&a.listen.span(), text)
    })?;
    Ok(ApiPlan { listen, tls: identity(source, &a.tls, base)? })
}

/// Where the section stands, and those of its keys that can be wrong together with others.
fn places(source: &Source<'_>, file: &File) -> FixedPlaces {
    let d = file.section();
    let numbers = [
        ("frames", &d.frames),
        ("chunk_bytes", &d.chunk_bytes),
        ("channels", &d.channels),
        ("channel_frames", &d.channel_frames),
        ("cpu", &d.cpu),
        ("workers", &d.workers),
    ];
    let numbers = numbers.into_iter().filter_map(|(k, v)| Some((k, v.as_ref()?.span())));
    let tcam = d.tcam.iter().map(|t| ("tcam", t.span()));
    let api = file.api.iter().map(|a| ("api", a.get_ref().listen.span()));
    let keys = numbers.chain(tcam).chain(api).map(|(k, span)| (k, source.place(span.start)));
    let section = file.dataplane.as_ref().map(|s| source.place(s.span().start));
    FixedPlaces { section, keys: keys.collect() }
}

/// Whether a port or a VDP may be called so: the flow syntax must be able to read it, and it must
/// not look like a number.
pub fn check_name(what: &str, name: &str) -> Result<(), String> {
    let ok = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if begins && name.len() <= 32 && name.bytes().all(ok) {
        return Ok(());
    }
    let name: String = name.chars().take(64).collect();
    Err(format!(
        "{what} name '{name}': 1 to 32 letters, digits, '_', '-' and '.', with a letter in front"
    ))
}

/// Whether a port may be called so: rules that name it must mean it.
pub fn check_port_name(name: &str) -> Result<(), String> {
    check_name("port", name)?;
    match is_reserved_port(name) {
        true => Err(format!(
            "port name '{name}': rules mean one of OpenFlow's reserved ports by it (in_port, all, flood, normal, \
             controller, local): choose another"
        )),
        false => Ok(()),
    }
}

fn read_port(source: &Source<'_>, p: &PortSection, base: &Path) -> Read<PortPlan> {
    let name = p.name.get_ref().clone();
    check_port_name(&name).map_err(|e| source.error(&p.name.span(), e))?;
    let mut spec: PortSpec =
        p.device.get_ref().parse().map_err(|e| source.error(&p.device.span(), e))?;
    beside(&mut spec, base);
    let place = Some(source.place(p.name.span().start));
    Ok(PortPlan { name, spec, label: None, place })
}

/// Files are looked for beside the configuration that names them.
pub fn beside(spec: &mut PortSpec, base: &Path) {
    if matches!(spec.kind, Kind::Pcap | Kind::Replay | Kind::PcapOut) {
        spec.target = base.join(&spec.target).display().to_string();
    }
}

fn insert(source: &Source<'_>, v: &VdpSection, plan: &mut Plan, vdp: VdpPlan) -> Read<()> {
    let vid = vdp.vid.0;
    let twice = |text: String| Err(source.error(&v.vid.span(), text));
    match plan.vdps.get(&vid) {
        Some(VdpPlan { place: Some(p), .. }) => {
            return twice(format!(
                "VDP {vid} is there already in line {}: give another vid",
                p.line
            ));
        }
        Some(_) if vid != 0 => return twice(format!("VDP {vid} is there already")),
        _ => {}
    }
    plan.check_vdp_name(&vdp).or_else(twice)?;
    tunnels::check(plan, &vdp)?;
    plan.vdps.insert(vid, vdp);
    Ok(())
}

fn read_vdp(
    source: &Source<'_>,
    v: &VdpSection,
    known: &[String],
    base: &Path,
    old: Option<&VdpPlan>,
) -> Read<VdpPlan> {
    let vid = v.vid.get_ref().0;
    let mut plan = match (old, vid) {
        (Some(old), _) => old.clone(),
        (None, 0) => VdpPlan::default_vdp(),
        (None, _) => VdpPlan::new(Vid(vid), &format!("vdp{vid}")),
    };
    if let Some(n) = &v.name {
        check_name("VDP", n.get_ref()).map_err(|e| source.error(&n.span(), e))?;
        n.get_ref().clone_into(&mut plan.name);
    }
    // Whoever changes a VDP without naming the mark does not keep it.
    plan.label = v.label.as_ref().map(|l| read_label(source, l)).transpose()?;
    plan.place = Some(source.place(v.vid.span().start));
    if vid == 0 {
        only_default(source, v)?;
        plan.ports = known.iter().zip(1..).map(|(n, i)| (n.clone(), PortNo(i))).collect();
    }
    if !v.field.is_empty() {
        plan.fields = read_fields(source, &v.field)?;
    }
    read_ports(source, v, known, &mut plan)?;
    let mut numbers = BTreeMap::new();
    // Which number a port gets is seen when it is opened; here any will do.
    for (name, i) in known.iter().zip(1..) {
        numbers.insert(name.clone(), PortId(i));
    }
    if !v.mapping.is_empty() {
        plan.mapping.clear();
    }
    for m in &v.mapping {
        let (text, span, priority) = match m.get_ref() {
            TextOr::Short(t) => (t, m.span(), None),
            TextOr::Table(t) => (t.matcher.get_ref(), t.matcher.span(), t.priority),
        };
        let rule = MappingPlan {
            text: text.0.clone(),
            priority: priority.unwrap_or(DEFAULT_PRIORITY.into()),
        };
        let names = PlaneNames(&numbers, &plan.fields);
        parse_match(&rule.text, &names)
            .map_err(|e| source.error(&span, flow_error("mapping rule", &e)))?;
        plan.mapping.push(rule);
    }
    if let Some(p) = &v.program {
        let port = |r: &Spanned<PortRef>| port_number(source, r, &plan.ports);
        plan.program = Some(program::read(source, p, &port)?);
    }
    let names = VdpNames(&plan.ports, &plan.fields);
    match &v.default {
        Some(a) => {
            plan.default = parse_actions(&a.get_ref().0, &names, 0, &Match::any())
                .map_err(|e| source.error(&a.span(), flow_error("default", &e)))?;
        }
        // Without a program nobody waits at the other end of the channel.
        None if plan.program.is_some() && old.is_none() => plan.default = vec![Action::ToChannel],
        None => {}
    }
    let paths = [("fast", weir_dataplane::Path::Fast), ("slow", weir_dataplane::Path::Slow)];
    if let Some(p) = &v.path {
        plan.path = one_of(source, p, "path", &paths)?;
    }
    if let Some(c) = &v.channel {
        plan.channel = Some(*c.get_ref());
    }
    if let Some(w) = &v.worker {
        plan.worker = Some(*w.get_ref());
    }
    plan.tcam_entries = v.tcam_entries.unwrap_or(plan.tcam_entries);
    plan.tcam_limit = v.tcam_limit_entries.or(plan.tcam_limit);
    if let Some(limit) = plan.tcam_limit.filter(|l| (*l as usize) < plan.tcam_entries) {
        let text = format!(
            "tcam_limit_entries = {limit}: less than the {} of tcam_entries, which it has to itself: \
             raise the one or lower the other",
            plan.tcam_entries
        );
        return Err(source.error(&v.vid.span(), text));
    }
    if let Some(c) = &v.cpu_permille {
        plan.cpu_permille = *c.get_ref();
        if plan.cpu_permille > 1000 {
            let text = format!("cpu_permille = {}: at most 1000, a whole worker", c.get_ref());
            return Err(source.error(&c.span(), text));
        }
    }
    if let Some(isolated) = v.isolated {
        plan.isolation = if isolated { Isolation::CutOff } else { Isolation::Joined };
    }
    let mut shared = BTreeSet::new();
    for s in &v.share {
        let (port, share) = read_share(source, s, &plan.ports)?;
        if !shared.insert(port.clone()) {
            let text = "the share of a port that has one above: write one for each port";
            return Err(source.error(&s.span(), text));
        }
        match share == PortShare::default() {
            true => plan.shares.remove(&port),
            false => plan.shares.insert(port, share),
        };
    }
    for m in &v.meter {
        let (id, meter) = (*m.get_ref().id.get_ref(), read_meter(source, m)?);
        if plan.meters.insert(id, meter).is_some() {
            return Err(source.error(&m.span(), format!("meter {id} is there already")));
        }
    }
    for g in &v.group {
        let (id, group) = (g.get_ref().id, read_group(source, g, &plan)?);
        if plan.groups.insert(id, group).is_some() {
            return Err(source.error(&g.span(), format!("group {id} is there already")));
        }
    }
    read_rules(source, v, base, &mut plan)?;
    read_queues(source, v, &mut plan)?;
    if let Some(d) = v.default.as_ref().filter(|_| v.openflow.is_some() || plan.openflow.is_some())
    {
        let text = "'default' in an OpenFlow VDP: what frames without a flow get is for controllers \
                    and fail_mode to say; take it away";
        return Err(source.error(&d.span(), text));
    }
    if let Some(o) = &v.openflow {
        plan.openflow = Some(read_openflow(source, o, plan.vid, base)?);
        // A controller may say NORMAL, and what no flow takes may be for it some day.
        plan.program.get_or_insert(ProgramPlan::learning());
    }
    Ok(plan)
}

fn read_label(source: &Source<'_>, l: &Spanned<String>) -> Read<String> {
    check_label(l.get_ref()).map_err(|e| source.error(&l.span(), e))?;
    Ok(l.get_ref().clone())
}

/// Whether that can be somebody's mark.
pub fn check_label(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.len() > 128 || !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("label: 1 to 128 letters, digits and signs of ASCII, without blanks");
    }
    Ok(())
}

/// The default VDP has all ports and takes what nobody else does: most keys make no sense there.
fn only_default(source: &Source<'_>, v: &VdpSection) -> Read<()> {
    let given = [
        ("label", v.label.is_some()),
        ("ports", v.ports.is_some()),
        ("mapping", !v.mapping.is_empty()),
        ("channel", v.channel.is_some()),
        ("worker", v.worker.is_some()),
        ("path", v.path.is_some()),
        ("tcam_entries", v.tcam_entries.is_some()),
        ("tcam_limit_entries", v.tcam_limit_entries.is_some()),
        ("rules_file", v.rules_file.is_some()),
        ("field", !v.field.is_empty()),
        ("rule", !v.rule.is_empty()),
        ("queue", !v.queue.is_empty()),
        ("openflow", v.openflow.is_some()),
    ];
    match given.into_iter().find(|(_, is)| *is) {
        Some((key, _)) => {
            let text = format!(
                "'{key}' in VDP 0: the default VDP has every port, no rules, and stays on the slow \
                 path; it takes program, default, share and cpu_permille"
            );
            Err(source.error(&v.vid.span(), text))
        }
        None => Ok(()),
    }
}

fn read_ports(
    source: &Source<'_>,
    v: &VdpSection,
    known: &[String],
    plan: &mut VdpPlan,
) -> Read<()> {
    let Some(ports) = &v.ports else { return Ok(()) };
    plan.ports.clear();
    let span = ports.span();
    for (name, no) in &ports.get_ref().0 {
        if !known.contains(name) {
            return Err(source.error(&span, no_port(name, known)));
        }
        if *no == 0 || *no > 0xffff_ff00 {
            let text = format!("port '{name}' as number {no}: 1 to 4294967040 (0xffffff00)");
            return Err(source.error(&span, text));
        }
        if plan.ports.iter().any(|(n, o)| n == name || o.0 == *no) {
            let text = format!("port '{name}' as number {no}: name and number must be unique");
            return Err(source.error(&span, text));
        }
        plan.ports.push((name.clone(), PortNo(*no)));
    }
    Ok(())
}

fn no_port(name: &str, known: &[String]) -> String {
    let near = super::error::nearest(name, known.iter().map(String::as_str))
        .map(|n| format!("did you mean '{n}'? "))
        .unwrap_or_default();
    let list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    format!("no port '{name}': {near}There are: {list}")
}

/// A VDP's number for a port that a section names.
fn port_number(
    source: &Source<'_>,
    given: &Spanned<PortRef>,
    ports: &[(String, PortNo)],
) -> Read<PortNo> {
    let found = match given.get_ref() {
        PortRef::Number(no) => ports.iter().find(|(_, n)| n.0 == *no),
        PortRef::Name(name) => ports.iter().find(|(n, _)| n == name),
    };
    found.map(|(_, no)| *no).ok_or_else(|| {
        let what = match given.get_ref() {
            PortRef::Number(no) => no.to_string(),
            PortRef::Name(name) => format!("'{name}'"),
        };
        let list: Vec<String> = ports.iter().map(|(n, no)| format!("{no} ({n})")).collect();
        let list = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
        source.error(&given.span(), format!("this VDP has no port {what}; it has {list}"))
    })
}

/// The name of a VDP's port.
pub(super) fn port_name(
    source: &Source<'_>,
    given: &Spanned<PortRef>,
    ports: &[(String, PortNo)],
) -> Read<String> {
    let no = port_number(source, given, ports)?;
    Ok(ports.iter().find(|(_, n)| *n == no).map(|(n, _)| n.clone()).unwrap_or_default())
}

fn read_fields(source: &Source<'_>, given: &[Spanned<FieldSection>]) -> Read<UserFields> {
    use weir_dataplane::Layer;
    let mut all = Vec::new();
    for f in given {
        let s = f.get_ref();
        let layers = [Layer::Ethernet, Layer::Network, Layer::Transport, Layer::Payload]
            .map(|l| (l.name(), l));
        let layer = one_of(source, &s.layer, "layer", &layers)?;
        let field =
            UserField::new(&s.name, layer, s.offset_bytes, s.skip_bits, s.width_bits, s.mask);
        all.push(field.map_err(|e| source.error(&f.span(), e))?);
    }
    let span = given.first().map_or(0..0, Spanned::span);
    UserFields::new(all).map_err(|e| source.error(&span, e))
}

fn read_share(
    source: &Source<'_>,
    s: &Spanned<ShareSection>,
    ports: &[(String, PortNo)],
) -> Read<(String, PortShare)> {
    let g = s.get_ref();
    let name = port_name(source, &g.port, ports)?;
    let d = PortShare::default();
    let share = PortShare {
        guarantee_bps: g.guarantee_bps,
        ceiling_bps: g.ceiling_bps,
        weight: g.weight.unwrap_or(d.weight),
        queue_frames: g.queue_frames.unwrap_or(d.queue_frames),
    };
    if let Some(why) = share.problem() {
        return Err(source.error(&s.span(), format!("share at port '{name}': {why}")));
    }
    let Some(us) = &g.max_delay_us else { return Ok((name, share)) };
    let within = share.within(Nanos(u64::from(*us.get_ref()) * 1000)).ok_or_else(|| {
        let text = format!(
            "max_delay_us = {}: a frame of 1518 bytes takes longer by guarantee_bps = {} alone: raise either",
            us.get_ref(),
            g.guarantee_bps
        );
        source.error(&us.span(), text)
    })?;
    Ok((name, within))
}
