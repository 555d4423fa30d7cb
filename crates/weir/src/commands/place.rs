//! `weir place`: which host takes which network function, with how many cores.
//!
//! Room: arguments, files, output; the arithmetic is `weir_estimate::place`'s.

use super::columns::Columns;
use super::estimate::{Files, shelf};
use super::say::put;
use crate::environment::Envelope;
use crate::fault::bad_input;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use weir_estimate::place::growth::growth;
use weir_estimate::place::{Answer, Objective, Plan, RESOURCES, Request, openstack, place};

/// Which host takes which network function, with how many cores
#[derive(Debug, clap::Args)]
#[command(after_help = "A request names hosts and functions:\n\n  \
    objective = \"fewest-hosts\"\n\n  [[host]]\n  name = \"rack\"\n  count = 3\n  \
    profile = \"xeon-e5-2690v2\"\n\n  [[function]]\n  name = \"gateway\"\n  function = \"bng\"\n  \
    rate = \"4 Mpps\"\n\n\
    A function without 'burst' is taken to process 32 frames together, as weir does; 'weir estimate' \
    takes one without '--burst'.\n\n\
    Examples:\n  \
    weir place request.toml\n  \
    weir place request.toml --objective most-headroom --json")]
pub struct Args {
    /// What is asked for: a TOML file
    #[arg(value_name = "REQUEST.toml")]
    request: PathBuf,
    /// What is sought, whatever the file says: fewest-hosts, most-headroom or least-energy
    #[arg(long, value_name = "WHAT", value_parser = objective)]
    objective: Option<Objective>,
    /// Live counters, [{"function": NAME, "seconds": S, "mpps": M}, …]: which function outgrows its
    /// place, and when
    #[arg(long, value_name = "FILE")]
    counters: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: Files,
}

fn objective(text: &str) -> Result<Objective, String> {
    shelf::word(text, Objective::NAMES)
}

#[derive(Serialize)]
struct Shown {
    objective: &'static str,
    value: f64,
    bound: f64,
    optimal: bool,
    places: Vec<ShownPlace>,
    hosts: Vec<ShownHost>,
    openstack: Option<String>,
    growth: Vec<ShownGrowth>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct ShownPlace {
    function: String,
    host: String,
    cores: f64,
    busy: f64,
    latency_us: f64,
}

#[derive(Serialize)]
struct ShownHost {
    host: String,
    profile: String,
    headroom: f64,
    resources: BTreeMap<&'static str, ShownUse>,
}

#[derive(Serialize)]
struct ShownUse {
    used: f64,
    /// Nothing where there is no limit.
    whole: Option<f64>,
    unit: &'static str,
}

#[derive(Serialize)]
struct ShownGrowth {
    function: String,
    host: String,
    now_mpps: f64,
    sustains_mpps: f64,
    per_day_mpps: f64,
    full_in_s: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    function: String,
    seconds: f64,
    mpps: f64,
}

/// Places.
pub fn run(a: &Args) -> Result<()> {
    let library = shelf::library(&a.files)?;
    let file = a.request.display().to_string();
    let mut request = Request::read(&file, &shelf::read(&a.request)?).map_err(bad_input)?;
    request.objective = a.objective.unwrap_or(request.objective);
    let mut profiles = BTreeMap::new();
    for name in request.hosts.iter().map(|h| &h.profile).collect::<BTreeSet<_>>() {
        profiles.insert(name.clone(), shelf::profile(&library, name)?);
    }
    let answer = place(&library, &profiles, &request).map_err(bad_input)?;
    let plan = match answer {
        Answer::Placed(plan) => plan,
        Answer::Infeasible(r) => {
            let text =
                format!("{file}: infeasible: {}. Enough would be: {}", r.constraint, r.enough);
            return Err(bad_input(text));
        }
    };
    let line = openstack::line(&library, &profiles, &request).map_err(bad_input)?;
    let growth = match &a.counters {
        Some(path) => grown(path, &request, &plan)?,
        None => Vec::new(),
    };
    let shown = shown(&request, &plan, line, growth);
    if a.json {
        return put(&(serde_json::to_string(&Envelope::new("placement", shown))? + "\n"));
    }
    put(text(&shown))
}

/// What counters say of each function that was placed.
fn grown(path: &std::path::Path, request: &Request, plan: &Plan) -> Result<Vec<ShownGrowth>> {
    let wrong = |e: String| bad_input(format!("{}: {e}", path.display()));
    let samples: Vec<Sample> =
        serde_json::from_str(&shelf::read(path)?).map_err(|e| wrong(e.to_string()))?;
    let mut by_name: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for s in &samples {
        if !request.demands.iter().any(|d| d.name == s.function) {
            let known: Vec<&str> = request.demands.iter().map(|d| d.name.as_str()).collect();
            let text = weir_estimate::fault::unknown("function", &s.function, known.into_iter());
            return Err(wrong(text));
        }
        by_name.entry(&s.function).or_default().push((s.seconds, s.mpps));
    }
    let mut all = Vec::new();
    for (name, samples) in by_name {
        let Some(p) = plan.places.iter().find(|p| p.name == name) else { continue };
        let Some(d) = request.demands.iter().find(|d| d.name == name) else { continue };
        let asked = match d.rate {
            weir_estimate::estimate::Target::Mpps(m) => m,
            weir_estimate::estimate::Target::Gbps(g) => {
                g / weir_estimate::estimate::gbps(1.0, d.frame, 1000.0)
            }
        };
        // Its cores are busy for this part of their time at the rate that was asked for.
        let sustains = asked / p.need.busy.max(1e-9);
        let g = growth(&samples, sustains).map_err(|e| wrong(format!("'{name}': {e}")))?;
        all.push(ShownGrowth {
            function: name.to_owned(),
            host: p.host.clone(),
            now_mpps: g.now_mpps,
            sustains_mpps: sustains,
            per_day_mpps: g.per_day_mpps,
            full_in_s: g.full_in_s,
        });
    }
    // Who must move first stands first.
    let when = |g: &ShownGrowth| g.full_in_s.unwrap_or(f64::INFINITY);
    all.sort_by(|a, b| when(a).total_cmp(&when(b)));
    Ok(all)
}

fn shown(
    request: &Request,
    plan: &Plan,
    openstack: Option<String>,
    growth: Vec<ShownGrowth>,
) -> Shown {
    let host = |h: &weir_estimate::place::HostUse| ShownHost {
        host: h.name.clone(),
        profile: h.profile.clone(),
        headroom: h.headroom(),
        resources: RESOURCES
            .iter()
            .zip(h.used.iter().zip(&h.whole))
            .map(|((name, unit), (used, whole))| {
                let whole = whole.is_finite().then_some(*whole);
                (*name, ShownUse { used: *used, whole, unit })
            })
            .collect(),
    };
    Shown {
        objective: request.objective.name(),
        value: request.objective.told(plan.objective),
        bound: request.objective.told(plan.bound),
        optimal: plan.optimal,
        places: plan
            .places
            .iter()
            .map(|p| ShownPlace {
                function: p.name.clone(),
                host: p.host.clone(),
                cores: p.need.takes.first().copied().unwrap_or(0.0),
                busy: p.need.busy,
                latency_us: p.need.latency_s * 1e6,
            })
            .collect(),
        hosts: plan.hosts.iter().map(host).collect(),
        openstack,
        growth,
        notes: plan.notes.clone(),
    }
}

fn text(s: &Shown) -> String {
    let mut out = format!(
        "{}: {:.2}; nothing can be better than {:.2}{}\n\n",
        s.objective,
        s.value,
        s.bound,
        if s.optimal { ", and this is the best" } else { "" }
    );
    let mut places = Columns::new(&["function", "host", "cores", "busy %", "latency us"]);
    for p in &s.places {
        places.row(vec![
            p.function.clone(),
            p.host.clone(),
            format!("{:.0}", p.cores),
            format!("{:.0}", p.busy * 100.0),
            format!("{:.1}", p.latency_us),
        ]);
    }
    out += &places.text();
    out.push('\n');
    let mut heads = vec!["host", "headroom %"];
    heads.extend(RESOURCES.iter().map(|r| r.0));
    let mut hosts = Columns::new(&heads);
    for h in &s.hosts {
        let mut cells = vec![h.host.clone(), format!("{:.0}", h.headroom * 100.0)];
        for (name, unit) in RESOURCES {
            let u = h.resources.get(name);
            cells.push(u.map_or_else(String::new, |u| {
                let of = u.whole.map_or_else(String::new, |w| format!(" of {w:.1}"));
                format!("{:.1}{of} {unit}", u.used).trim_end().to_owned()
            }));
        }
        hosts.row(cells);
    }
    out += &hosts.text();
    if !s.growth.is_empty() {
        let heads = ["function", "host", "Mpps now", "sustains", "a day", "full in"];
        let mut growth = Columns::new(&heads);
        for g in &s.growth {
            growth.row(vec![
                g.function.clone(),
                g.host.clone(),
                format!("{:.3}", g.now_mpps),
                format!("{:.3}", g.sustains_mpps),
                format!("{:+.3}", g.per_day_mpps),
                g.full_in_s.map_or_else(|| "never".into(), |t| format!("{:.1} h", t / 3600.0)),
            ]);
        }
        out += &format!("\n{}", growth.text());
    }
    if let Some(line) = &s.openstack {
        out += &format!("\n[ovs]\n{line}\n");
    }
    for note in &s.notes {
        out += &format!("\nnote: {note}\n");
    }
    out
}
