//! `weir net create`, `delete`, `set` and `migrate`: changes of the networks that are kept.
//!
//! Room: arguments; each is a change of the lab that the store holds, made like `weir apply`'s.

use super::{Kept, report};
use crate::commands::say::{note, put, say};
use crate::config::error::{Source, nearest};
use crate::environment::Envelope;
use crate::fault::bad_input;
use crate::net::change::{Keeper, Verify, prepare};
use crate::net::lab::LabFile;
use crate::net::moving::Moved;
use crate::socket::protocol::Became;
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::PathBuf;
use weir_supervisor::model::{Lab, Network, Node};
use weir_supervisor::store::Saved;

/// Instantiate the networks of a file beside those there are
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  weir net create guest.toml\n\n\
                             The file has [[network]] sections; where it has hosts and links, too, \
                             they are added to those that are known.")]
pub struct Create {
    /// A file with `[[network]]` sections
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    #[command(flatten)]
    how: How,
}

/// Delete networks, with all that they have
#[derive(Debug, clap::Args)]
pub struct Delete {
    /// Which
    #[arg(required = true, value_name = "NETWORK")]
    networks: Vec<String>,
    #[command(flatten)]
    how: How,
}

/// Set resources of a running node
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  \
                             weir net set red s1 cpu_permille=200\n  \
                             weir net set red s1 'share=[{ port = \"e1\", ceiling_bps = 10_000_000 }]'\n  \
                             weir net set red s1 openflow.messages_per_s=1000 tcam_limit_entries=\n\n\
                             A key is one of [[network.node]]; nothing behind '=' takes it away. What \
                             is not named stays as it is.")]
pub struct Set {
    /// The network
    network: String,
    /// Its node
    node: String,
    /// What shall be: KEY=VALUE, values as in TOML
    #[arg(required = true, value_name = "KEY=VALUE")]
    values: Vec<String>,
    #[command(flatten)]
    how: How,
}

/// Move a node to another path or another host, or make it one of the other kind, frames flowing
#[derive(Debug, clap::Args)]
#[command(
    group(clap::ArgGroup::new("where").required(true).multiple(true).args(["path", "kind", "to"])),
    after_long_help = "Examples:\n  \
                             weir net migrate red s1 --path slow\n  \
                             weir net migrate red s1 --kind router\n  \
                             weir net migrate red s1 --to west\n  \
                             weir net migrate red s1 --to west -o json\n\n\
                             A node keeps the ports of its host, which hands frames on to the other by \
                             tunnels (both hosts need a 'tunnel' address). --to its own host brings it \
                             back. Nothing is lost, duplicated or reordered; rules, counters and \
                             controllers' connections go along. -o json prints the proof.\n\n\
                             A node says what it is as the other kind in the LAB file: a VDP has \
                             [network.node.router], a router what VDPs have."
)]
pub struct Migrate {
    /// The network
    network: String,
    /// Its node
    node: String,
    /// fast or slow
    #[arg(long, value_parser = ["fast", "slow"])]
    path: Option<String>,
    /// What it becomes: vdp or router
    #[arg(long, value_parser = ["vdp", "router"])]
    kind: Option<String>,
    /// The host that shall process its frames
    #[arg(long, value_name = "HOST")]
    to: Option<String>,
    /// Print how it was moved as this
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t = Form::Text)]
    output: Form,
    #[command(flatten)]
    how: How,
}

/// How what was done is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// In words.
    Text,
    /// For programs.
    Json,
}

/// How a change is made.
#[derive(Debug, clap::Args)]
struct How {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    kept: Kept,
}

/// Makes what a file describes.
pub fn create(args: &Create) -> Result<()> {
    let mut file = LabFile::load(&args.file)?;
    if file.lab.network.is_empty() {
        let text = "has no [[network]]: nothing to create";
        return Err(bad_input(format_args!("{}: {text}", args.file.display())));
    }
    change(&args.how, |lab| {
        file.add_to(lab)?;
        Ok(Some(file))
    })
}

/// Deletes networks.
pub fn delete(args: &Delete) -> Result<()> {
    change(&args.how, |lab| {
        for name in &args.networks {
            find(lab, name)?;
        }
        lab.network.retain(|n| !args.networks.contains(&n.name));
        Ok(None)
    })
}

/// Sets what a node has.
pub fn set(args: &Set) -> Result<()> {
    change(&args.how, |lab| {
        let node = node(lab, &args.network, &args.node)?;
        let as_it_is = toml::Table::try_from(&*node)?;
        let mut table = as_it_is.clone();
        let mut keys = BTreeSet::new();
        for v in &args.values {
            let key = set_one(&mut table, v)?;
            if !keys.insert(key) {
                return Err(bad_input(format_args!("'{key}' is given twice: say it once")));
            }
        }
        let name = node.name.clone();
        *node = read_node(table).map_err(|why| blamed(&as_it_is, &args.values, &why))?;
        if node.name != name {
            return Err(bad_input("name: a node keeps its name; delete it and make another"));
        }
        Ok(None)
    })
}

fn read_node(table: toml::Table) -> Result<Node, String> {
    let read = toml::Value::Table(table).try_into();
    read.map_err(|e: toml::de::Error| Source::new("", "").toml(&e).to_string())
}

/// Why a node can't be so, with the value that is wrong by itself, if one is.
fn blamed(as_it_is: &toml::Table, values: &[String], why: &str) -> anyhow::Error {
    let alone = values.iter().find_map(|v| {
        let mut table = as_it_is.clone();
        set_one(&mut table, v).ok()?;
        Some((v, read_node(table).err()?))
    });
    match alone {
        Some((value, why)) => bad_input(format_args!("{value}: {why}")),
        None => bad_input(why),
    }
}

/// `a.b=VALUE`, into a node as a table. The key.
fn set_one<'t>(table: &mut toml::Table, text: &'t str) -> Result<&'t str> {
    let (whole, value) = text
        .split_once('=')
        .ok_or_else(|| bad_input(format_args!("'{text}': KEY=VALUE, as in cpu_permille=200")))?;
    let (whole, value) = (whole.trim(), value.trim());
    let (inner, key) = match whole.split_once('.') {
        Some((outer, key)) => {
            let new = || toml::Value::Table(toml::Table::new());
            let at = table.entry(outer).or_insert_with(new);
            // What may be a name alone is one with options from now on.
            if let ("program", toml::Value::String(_)) = (outer, &*at) {
                let name = std::mem::replace(at, new());
                at.as_table_mut()
                    .into_iter()
                    .for_each(|t| _ = t.insert("name".into(), name.clone()));
            }
            let Some(t) = at.as_table_mut() else {
                return Err(bad_input(format_args!("'{outer}' has no keys of its own")));
            };
            (t, key)
        }
        None => (table, whole),
    };
    if value.is_empty() {
        inner.remove(key);
        return Ok(whole);
    }
    // A word without quotes is a text.
    let read = format!("v = {value}").parse::<toml::Table>().ok();
    let plain = || toml::Value::String(value.to_owned());
    let value = read.and_then(|mut t| t.remove("v")).unwrap_or_else(plain);
    inner.insert(key.to_owned(), value);
    Ok(whole)
}

/// Moves a node.
pub fn migrate(args: &Migrate) -> Result<()> {
    let done = changed(&args.how, args.output, |lab| {
        let hosts: Vec<String> = lab.host.iter().map(|h| h.name.clone()).collect();
        let node = node(lab, &args.network, &args.node)?;
        match args.path.as_deref() {
            Some("slow") => node.path = weir_supervisor::model::Path::Slow,
            Some(_) => node.path = weir_supervisor::model::Path::Fast,
            None => {}
        }
        match args.kind.as_deref() {
            Some("router") => node.kind = weir_supervisor::model::Kind::Router,
            Some(_) => node.kind = weir_supervisor::model::Kind::Vdp,
            None => {}
        }
        if let Some(to) = &args.to {
            if !hosts.contains(to) {
                return Err(missing("host", to, hosts.iter()));
            }
            node.away = (*to != node.host).then(|| to.clone());
        }
        Ok(None)
    })?;
    let Some(done) = done.filter(|_| args.output == Form::Json) else { return Ok(()) };
    let Done { moved, became, saved } = done;
    let all = Moves { revision: saved.state.revision, moved, became };
    put(format!("{}\n", serde_json::to_string_pretty(&Envelope::new("net-migrate", all))?))
}

/// How nodes were moved.
#[derive(Debug, serde::Serialize)]
struct Moves {
    revision: u64,
    moved: Vec<Moved>,
    became: Vec<Became>,
}

/// Makes a change of the lab that is kept, and says so; with the file that it is from, if it is from one.
fn change(how: &How, edit: impl FnOnce(&mut Lab) -> Result<Option<LabFile>>) -> Result<()> {
    changed(how, Form::Text, edit).map(drop)
}

/// What holds then, and how nodes got there.
#[derive(Debug, Default)]
struct Done {
    saved: Saved,
    moved: Vec<Moved>,
    became: Vec<Became>,
}

/// The same, in a form; what was done then, if anything.
fn changed(
    how: &How,
    form: Form,
    edit: impl FnOnce(&mut Lab) -> Result<Option<LabFile>>,
) -> Result<Option<Done>> {
    let tell = |text: std::fmt::Arguments<'_>| match form {
        Form::Text => say(text),
        Form::Json => Ok(()),
    };
    let mut keeper = how.kept.open()?;
    recovered(&mut keeper, how.dry_run)?;
    let saved = keeper.saved.clone();
    // Who only wants to know keeps nobody from changing something meanwhile.
    let keeper = (!how.dry_run).then_some(keeper);
    let mut lab = saved.state.lab.clone();
    let file = edit(&mut lab)?;
    let prepared = prepare(&saved, lab, file.as_ref(), Verify::AsTheLabSays)?;
    match form {
        Form::Text => report(&prepared)?,
        Form::Json => {
            prepared.missed.iter().for_each(|m| note(format_args!("weir: {m}")));
            let lines = prepared.idle.iter().chain(&prepared.already);
            lines.for_each(|g| note(format_args!("weir: {g}")));
        }
    }
    if prepared.is_done(&saved) {
        let n = saved.state.revision;
        tell(format_args!("nothing differs; revision {n} holds"))?;
        return Ok(Some(Done { saved, ..Done::default() }));
    }
    let Some(mut keeper) = keeper else {
        tell(format_args!("nothing was touched"))?;
        return Ok(None);
    };
    keeper.make(prepared)?;
    for b in &keeper.became {
        let (pause, lost) = (b.longest_pause_ns / 1000, b.lost);
        let text = match b.kind.as_str() {
            "fast" | "slow" => {
                format!("{} frames held, for {pause} us at most; {lost} lost", b.buffered)
            }
            _ => format!("{lost} frames lost, none taken for {pause} us at most"),
        };
        tell(format_args!("> {}: {} now; {text}", b.name, b.kind))?;
    }
    for m in &keeper.moved {
        let pause = m.longest_pause_ns / 1000;
        let held = format!("{} frames held, for {pause} us at most", m.buffered);
        tell(format_args!("{}: {held}; {} lost", m.node, m.lost))?;
    }
    tell(format_args!("done; revision {} holds", keeper.saved.state.revision))?;
    let Keeper { saved, moved, became, .. } = keeper;
    Ok(Some(Done { saved, moved, became }))
}

/// Makes a change of the lab that a guard asks for: no proof keeps it up. Says which revision holds then.
pub fn guarded(kept: &Kept, edit: impl FnOnce(&mut Lab)) -> Result<u64> {
    let mut keeper = kept.open()?;
    keeper.finish_earlier()?;
    let mut lab = keeper.saved.state.lab.clone();
    edit(&mut lab);
    let prepared = keeper.prepare(lab, None, Verify::Never)?;
    if !keeper.is_done(&prepared) {
        keeper.make(prepared)?;
    }
    Ok(keeper.saved.state.revision)
}

/// What was interrupted is finished first: a change is one of what holds.
fn recovered(keeper: &mut Keeper, dry_run: bool) -> Result<()> {
    if keeper.saved.under_way.is_none() {
        return Ok(());
    }
    if dry_run {
        return Err(bad_input("a change was interrupted: 'weir net recover' finishes it"));
    }
    keeper.finish_earlier()?.iter().try_for_each(say)?;
    say(format_args!("a change that was interrupted is finished"))
}

/// The network of this name.
pub fn find<'l>(lab: &'l Lab, name: &str) -> Result<&'l Network> {
    lab.network(name).ok_or_else(|| missing("network", name, lab.network.iter().map(|n| &n.name)))
}

fn node<'l>(lab: &'l mut Lab, network: &str, name: &str) -> Result<&'l mut Node> {
    find(lab, network)?;
    let all = lab.network.iter_mut().find(|n| n.name == network);
    let all = all.map(|n| n.node.as_mut_slice()).unwrap_or_default();
    match all.iter().position(|v| v.name == name) {
        Some(i) => all.get_mut(i).ok_or_else(|| bad_input("no such node")),
        None => Err(missing("node", name, all.iter().map(|v| &v.name))),
    }
}

fn missing<'n>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'n String> + Clone,
) -> anyhow::Error {
    let shown: String = name.chars().take(64).collect();
    let near = nearest(&shown, known.clone().map(String::as_str));
    let near = near.map(|n| format!("did you mean '{n}'? ")).unwrap_or_default();
    let list: Vec<&str> = known.map(String::as_str).take(16).collect();
    let list = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    bad_input(format_args!("no {what} '{shown}': {near}There are: {list}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_supervisor::model::Program;

    #[test]
    fn the_value_that_is_wrong_is_named() {
        let node = Node { name: "s1".to_owned(), host: "h".to_owned(), ..Node::default() };
        let as_it_is = toml::Table::try_from(&node).unwrap();
        let told = |values: &[&str]| {
            let values: Vec<String> = values.iter().map(|v| (*v).to_owned()).collect();
            let mut table = as_it_is.clone();
            assert!(values.iter().all(|v| set_one(&mut table, v).is_ok()));
            let why = read_node(table).unwrap_err();
            blamed(&as_it_is, &values, &why).to_string()
        };
        let says = "cpu_permille=20%: invalid type: string \"20%\"";
        assert!(
            told(&["path=slow", "cpu_permille=20%"]).starts_with(says),
            "{}",
            told(&["cpu_permille=20%"])
        );
        let says = "openflow.listen=5: ";
        assert!(told(&["openflow.listen=5", "path=slow"]).starts_with(says));
        assert!(told(&["colour=1"]).starts_with("colour=1: unknown key 'colour'"));
    }

    #[test]
    fn a_program_gets_options() {
        let node = Node {
            name: "s1".to_owned(),
            host: "h".to_owned(),
            program: Some(Program::named("learning")),
            ..Node::default()
        };
        let mut table = toml::Table::try_from(&node).unwrap();
        set_one(&mut table, "program.ageing_s=60").unwrap();
        let program = read_node(table.clone()).unwrap().program.unwrap();
        assert!(program.name() == "learning" && program.has_options());
        set_one(&mut table, "program.ageing_s=").unwrap();
        assert_eq!(read_node(table).unwrap(), node);
    }
}
