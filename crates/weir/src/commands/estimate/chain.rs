//! `weir estimate chain`: virtual functions one after the other on one machine.
//!
//! Room: arguments and output; the arithmetic is `weir_estimate::chain`'s.

use super::ask::{QuestionArgs, warn_of_stranger};
use super::say::number;
use super::shelf;
use crate::commands::columns::Columns;
use crate::commands::say::put;
use crate::environment::Envelope;
use crate::fault::bad_input;
use anyhow::Result;
use serde::Serialize;
use weir_estimate::chain::{Chain, Cores, Joined, join};
use weir_estimate::series::{Hop, series};
use weir_estimate::{Library, Profile, Question};

/// The model of the way from one VDP to the next.
const LINK: &str = "link";

/// Which functions, and how they are joined.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    weir estimate chain l2-basic,mpls-switch --profile xeon-e5-2690v2 --shared --cores 2\n  \
    weir estimate chain firewall,l2-learning --profile here.toml --through vdp-program --burst 64\n\n\
    With '--through' there is no switch: each function is in a VDP of its own, one after the other on one core.")]
pub struct Args {
    /// The functions, in order: names or models' files
    #[arg(value_name = "NF,NF…", value_delimiter = ',', required = true)]
    functions: Vec<String>,
    /// What switches between them: a model
    #[arg(long, value_name = "NF", default_value = "l2-basic", conflicts_with = "through")]
    switch: String,
    /// Switch and functions share '--cores' cores; else each has as many of its own
    #[arg(long, conflicts_with = "through")]
    shared: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    question: QuestionArgs,
}

#[derive(Serialize)]
struct Shown {
    functions: Vec<String>,
    profile: String,
    passes: u32,
    crossings: u32,
    cycles: f64,
    mpps: f64,
    gbps: f64,
    bottleneck: String,
    interval_mpps: [f64; 2],
    contention: f64,
    turn_us: f64,
    tasks: Vec<ShownTask>,
    limits: Vec<ShownLimit>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct ShownTask {
    name: String,
    own_cycles: f64,
    channel_cycles: f64,
}

#[derive(Serialize)]
struct ShownLimit {
    name: String,
    mpps: f64,
    about: String,
}

/// Answers.
pub fn run(a: &Args) -> Result<()> {
    if a.question.target.is_some() {
        return Err(bad_input(
            "--target: a chain says what its cores sustain, not how many it takes: leave it out, and try '--cores'",
        ));
    }
    let mut library = shelf::library(&a.question.files)?;
    let names: Result<Vec<String>> =
        a.functions.iter().map(|n| shelf::function(&mut library, n)).collect();
    let chain = Chain {
        functions: names?,
        switch: shelf::function(&mut library, &a.switch)?,
        channel: ("channel-send".into(), "channel-receive".into()),
        cores: if a.shared {
            Cores::Shared(a.question.cores)
        } else {
            Cores::Own(a.question.cores)
        },
    };
    let profile = a.question.profile(&library)?;
    warn_of_stranger(&profile);
    let question = a.question.question(&library, &profile)?;
    if question.through.is_some() {
        return in_series(a, &library, &chain.functions, &profile, &question);
    }
    let joined = join(&library, &chain, &profile, &question).map_err(bad_input)?;
    if a.json {
        let shown = shown(&chain, &profile.name, &joined);
        return put(&(serde_json::to_string(&Envelope::new("chain", shown))? + "\n"));
    }
    let mut text = format!(
        "{} on {}: {} passes through {}, {} crossings of channels\n\n\
         rate      {} Mpps, {} Gbps on the wire; from {} to {} Mpps\n\
         bound by  {}\n\
         a frame   {} cycles in all",
        chain.functions.join(" → "),
        profile.name,
        joined.passes,
        chain.switch,
        joined.crossings,
        number(joined.mpps),
        number(joined.gbps),
        number(joined.interval_mpps.0),
        number(joined.interval_mpps.1),
        joined.bottleneck,
        number(joined.cycles),
    );
    if joined.turn_s > 0.0 {
        text += &format!(
            "; it waits up to {} ms for its turn at the cores",
            number(joined.turn_s * 1e3)
        );
    }
    text += "\n\n";
    let mut tasks = Columns::new(&["task", "own cycles", "at channels"]);
    for t in &joined.tasks {
        tasks.row(vec![t.name.clone(), number(t.own_cycles), number(t.channel_cycles)]);
    }
    text += &tasks.text();
    text.push('\n');
    let mut limits = Columns::new(&["limit", "Mpps", "how"]);
    for l in &joined.limits {
        limits.row(vec![l.name.clone(), number(l.mpps), l.about.clone()]);
    }
    text += &limits.text();
    for note in &joined.notes {
        text += &format!("\nnote: {note}\n");
    }
    put(&text)
}

/// Each in a VDP of its own, all on one core.
fn in_series(
    a: &Args,
    library: &Library,
    functions: &[String],
    profile: &Profile,
    question: &Question,
) -> Result<()> {
    let hop = |f: &String| Hop { function: f.clone(), question: question.clone() };
    let hops: Vec<Hop> = functions.iter().map(hop).collect();
    let s = series(library, &hops, LINK, profile).map_err(bad_input)?;
    if a.json {
        let shown = ShownSeries {
            functions: functions.to_vec(),
            profile: profile.name.to_string(),
            through: question.through.as_deref().unwrap_or_default().to_owned(),
            cycles: s.cycles,
            interval_cycles: s.interval.into(),
            mpps: s.mpps,
            link_cycles: s.link_cycles,
            hop_cycles: s.hops.iter().map(|e| e.cycles).collect(),
        };
        return put(&(serde_json::to_string(&Envelope::new("series", shown))? + "\n"));
    }
    let text = format!(
        "{} on {}, each behind {}, on one core\n\n\
         rate      {} Mpps\n\
         a frame   {} cycles in all; from {} to {}\n\n",
        functions.join(" → "),
        profile.name,
        question.through.as_deref().unwrap_or_default(),
        number(s.mpps),
        number(s.cycles),
        number(s.interval.0),
        number(s.interval.1),
    );
    let mut hops = Columns::new(&["function", "cycles", "of these waits"]);
    for e in &s.hops {
        hops.row(vec![e.model.to_string(), number(e.cycles), number(e.wait_cycles)]);
    }
    if s.link_cycles > 0.0 {
        let links = s.hops.len() - 1;
        let name = if links == 1 { "1 link".to_owned() } else { format!("{links} links") };
        let cycles = s.link_cycles * links as f64;
        hops.row(vec![name, number(cycles), String::new()]);
    }
    put(&(text + &hops.text()))
}

#[derive(Serialize)]
struct ShownSeries {
    functions: Vec<String>,
    profile: String,
    through: String,
    cycles: f64,
    interval_cycles: [f64; 2],
    mpps: f64,
    link_cycles: f64,
    hop_cycles: Vec<f64>,
}

fn shown(chain: &Chain, profile: &str, j: &Joined) -> Shown {
    Shown {
        functions: chain.functions.clone(),
        profile: profile.to_owned(),
        passes: j.passes,
        crossings: j.crossings,
        cycles: j.cycles,
        mpps: j.mpps,
        gbps: j.gbps,
        bottleneck: j.bottleneck.clone(),
        interval_mpps: j.interval_mpps.into(),
        contention: j.contention,
        turn_us: j.turn_s * 1e6,
        tasks: j
            .tasks
            .iter()
            .map(|t| ShownTask {
                name: t.name.clone(),
                own_cycles: t.own_cycles,
                channel_cycles: t.channel_cycles,
            })
            .collect(),
        limits: j
            .limits
            .iter()
            .map(|l| ShownLimit { name: l.name.clone(), mpps: l.mpps, about: l.about.clone() })
            .collect(),
        notes: j.notes.clone(),
    }
}
