//! Rules, groups and meters of a VDP: from a configuration's sections, and from files in Open vSwitch's
//! flow syntax.
//!
//! Room: text and the files that it names. Called by `read.rs`, and by the control socket for rules that
//! come one by one.

use super::error::{ConfigError, Place, Source, one_of};
use super::openflow::within;
use super::plan::{BucketPlan, GroupPlan, MeterPlan, RulePlan, VdpPlan};
use super::read::{Read, port_name, read_file};
use super::schema::{BandSection, GroupSection, MeterSection, RuleSection, VdpSection};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;
use weir_classify::Match;
use weir_dataplane::flowtext::{
    DEFAULT_PRIORITY, FlowError, FlowFlags, FlowSpec, Names, parse_actions, parse_bucket,
    parse_flows, parse_match,
};
use weir_dataplane::{Band, BandKind, GroupKind, MAX_TABLES, Placement, RuleSpec, Unit};

/// The last table that a frame can come to.
const LAST_TABLE: u8 = MAX_TABLES as u8 - 1;
/// `OFPM_MAX`.
const MAX_METER: u32 = 0xffff_0000;

/// OpenFlow 1.3 §A.3.4.4 (`ofp_meter`): numbers from 1 to `OFPM_MAX`, those behind have meanings of their own; §5.7.1:
/// one band or more.
pub(super) fn read_meter(source: &Source<'_>, m: &Spanned<MeterSection>) -> Read<MeterPlan> {
    let s = m.get_ref();
    let id = s.id.get_ref();
    if !(1..=MAX_METER).contains(id) {
        let text = format!("id = {id}: a meter's number is 1 to {MAX_METER}");
        return Err(source.error(&s.id.span(), text));
    }
    let unit =
        one_of(source, &s.unit, "unit", &[("kbps", Unit::Kilobits), ("pktps", Unit::Packets)])?;
    if s.band.get_ref().is_empty() {
        let text = format!(
            "meter {id} has no band and would hold nothing back: give it one, as in [{{ rate = 1000 }}]"
        );
        return Err(source.error(&s.band.span(), text));
    }
    let band = |b: &BandSection| Band {
        kind: b.dscp_remark.map_or(BandKind::Drop, BandKind::DscpRemark),
        rate: b.rate,
        burst: b.burst.unwrap_or(0),
    };
    let plan =
        MeterPlan { unit, bands: s.band.get_ref().iter().map(|b| band(b.get_ref())).collect() };
    plan.build().map_err(|e| source.error(&m.span(), format!("meter {id}: {e}")))?;
    Ok(plan)
}

pub(super) fn read_group(
    source: &Source<'_>,
    g: &Spanned<GroupSection>,
    vdp: &VdpPlan,
) -> Read<GroupPlan> {
    let s = g.get_ref();
    let kinds = [
        ("all", GroupKind::All),
        ("select", GroupKind::Select),
        ("indirect", GroupKind::Indirect),
        ("fast_failover", GroupKind::FastFailover),
    ];
    let kind = one_of(source, &s.kind, "type", &kinds)?;
    let mut buckets = Vec::new();
    for b in &s.bucket {
        let b = b.get_ref();
        let actions = parse_bucket(&b.actions.get_ref().0, &vdp.names())
            .map_err(|e| source.error(&b.actions.span(), flow_error("actions", &e)))?;
        let watch_port = match &b.watch_port {
            Some(r) => Some(port_name(source, r, &vdp.ports)?),
            None => None,
        };
        buckets.push(BucketPlan { weight: b.weight.unwrap_or(1), watch_port, actions });
    }
    let plan = GroupPlan { kind, buckets };
    let group = plan.build(&BTreeMap::new());
    group.map_err(|e| source.error(&g.span(), format!("group {}: {e}", s.id)))?;
    Ok(plan)
}

const PLACEMENTS: [(&str, Placement); 3] =
    [("fast", Placement::Fast), ("slow", Placement::Slow), ("spill", Placement::Spill)];

pub(super) fn read_rules(
    source: &Source<'_>,
    v: &VdpSection,
    base: &Path,
    plan: &mut VdpPlan,
) -> Read<()> {
    let placement = match &v.placement {
        Some(p) => one_of(source, p, "placement", &PLACEMENTS)?,
        None => Placement::Fast,
    };
    for r in &v.rule {
        let rule = read_rule(source, r, placement, plan)?;
        add_rule(plan, rule)?;
    }
    let Some(file) = &v.rules_file else { return Ok(()) };
    let path = base.join(file.get_ref());
    let text =
        read_file(&path).map_err(|e| source.error(&file.span(), format!("rules_file {e}")))?;
    let name: Arc<str> = path.display().to_string().into();
    for rule in rules_from(&text, &name, placement, plan)? {
        add_rule(plan, rule)?;
    }
    Ok(())
}

fn add_rule(plan: &mut VdpPlan, mut rule: RulePlan) -> Read<()> {
    rule.order = plan.rules.len();
    if let Some(other) = plan.rules.get(&rule.key()) {
        let at = other.place.as_ref().map(|p| format!(" at {p}")).unwrap_or_default();
        let text = format!(
            "VDP {} has a rule with the same match and priority already{at}: change either",
            plan.vid
        );
        return Err(ConfigError { place: rule.place, text });
    }
    plan.rules.insert(rule.key(), rule);
    Ok(())
}

fn read_rule(
    source: &Source<'_>,
    r: &Spanned<RuleSection>,
    placement: Placement,
    plan: &VdpPlan,
) -> Read<RulePlan> {
    let s = r.get_ref();
    let names = plan.names();
    let table = within(source, s.table.as_ref(), "table", 0, LAST_TABLE)?.unwrap_or(0);
    let matcher = match &s.matcher {
        Some(m) => parse_match(&m.get_ref().0, &names)
            .map_err(|e| source.error(&m.span(), flow_error("match", &e)))?,
        None => Match::any(),
    };
    let actions = parse_actions(&s.actions.get_ref().0, &names, table, &matcher)
        .map_err(|e| source.error(&s.actions.span(), flow_error("actions", &e)))?;
    let placement = match &s.placement {
        Some(p) => one_of(source, p, "placement", &PLACEMENTS)?,
        None => placement,
    };
    let spec = RuleSpec {
        matcher,
        priority: s.priority.unwrap_or(DEFAULT_PRIORITY).into(),
        cookie: s.cookie.unwrap_or(0),
        actions: actions.into(),
    };
    let place = Some(source.place(s.actions.span().start));
    Ok(RulePlan { table, spec, placement, order: 0, place })
}

/// Reads rules in Open vSwitch's flow syntax for a VDP.
///
/// # Errors
/// [`ConfigError`] with the line.
pub fn rules_from(
    text: &str,
    file: &Arc<str>,
    placement: Placement,
    plan: &VdpPlan,
) -> Read<Vec<RulePlan>> {
    let flows = flows_from(text, file, &plan.names())?.into_iter();
    Ok(flows.map(|(f, place)| rule_of(f, placement, Some(place))).collect())
}

/// Reads flows in Open vSwitch's flow syntax, each with its place. What only controllers can have is
/// refused.
///
/// # Errors
/// [`ConfigError`] with the line.
pub fn flows_from(text: &str, file: &Arc<str>, names: &impl Names) -> Read<Vec<(FlowSpec, Place)>> {
    let place = |line, column| Place { file: Arc::clone(file), line, column };
    let flows = parse_flows(text, names).map_err(|e| ConfigError {
        place: Some(place(e.line, e.column)),
        text: format!("'{}': {}", e.token, e.kind),
    })?;
    // One flow for every line that is neither blank nor a comment, in order.
    let lines = text.lines().zip(1..).filter(|(l, _)| {
        let l = l.trim_ascii_start();
        !l.is_empty() && !l.starts_with('#')
    });
    flows
        .into_iter()
        .zip(lines)
        .map(|(f, (_, line))| {
            let place = place(line, 1);
            match lasting(&f) {
                Ok(()) => Ok((f, place)),
                Err(text) => Err(ConfigError { place: Some(place), text: text.to_owned() }),
            }
        })
        .collect()
}

/// Refuses what a rule without a controller can't have.
fn lasting(f: &FlowSpec) -> Result<(), &'static str> {
    if f.idle_timeout != 0 || f.hard_timeout != 0 {
        return Err("rules of a file stay: take the timeouts away");
    }
    if f.flags != FlowFlags::default() {
        return Err("flags are for controllers: take them away");
    }
    Ok(())
}

/// A rule from a flow.
fn rule_of(f: FlowSpec, placement: Placement, place: Option<Place>) -> RulePlan {
    let spec = RuleSpec {
        matcher: f.matcher,
        priority: f.priority.into(),
        cookie: f.cookie,
        actions: f.actions.into(),
    };
    RulePlan { table: f.table, spec, placement, order: 0, place }
}

/// A flow's error inside a text of the configuration: the column is the text's own.
pub fn flow_error(what: &str, e: &FlowError) -> String {
    format!("{what}: '{}' (column {} of the text): {}", e.token, e.column, e.kind)
}
