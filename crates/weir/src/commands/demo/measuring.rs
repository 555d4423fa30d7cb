//! Two OpenFlow switches measured side by side by weir's own instrument: the embedded data plane, and a device
//! with configured faults, of which nothing is told to the instrument.
//!
//! Both forward frames in this process, between the instrument's memory ports; both are controlled by
//! OpenFlow 1.0 over TCP on loopback. Stamps are the program's. A short form of `actions` (001 table 2) and
//! `flow-insert` (figure 3).

use super::report::{Judged, Measured, Measuring};
use crate::commands::measure::one;
use crate::commands::style::Progress;
use crate::config::apply::{self, Devices, Model};
use crate::config::diff::diff;
use crate::config::read;
use crate::router::node::Routers;
use crate::socket::live::Live;
use anyhow::{Context, Result, anyhow, bail};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use weir_dataplane::{DataPlane, Runner, Serving, WhenIdle};
use weir_io::memory::Memory;
use weir_measure::control;
use weir_measure::document::{Document, Dut as Name};
use weir_measure::dut::Dut;
use weir_measure::dut::profile::Profile;
use weir_measure::dut::serve::{self, Control, Doors};
use weir_measure::engine::run::{Rig, run as measure};
use weir_measure::engine::wire::{self, Channel, unix_now};
use weir_measure::engine::{Core, Departures, Settings};
use weir_measure::module::{Depth, Params};
use weir_measure::modules;
use weir_measure::port::Port;
use weir_openflow::channel::Versions;
use weir_openflow::model::Version;
use weir_packet::{Nanos, Pool};

/// What the other device does wrong: of the kinds that 001 saw in hardware.
const FAULTY: &str = "
name = \"a device with faults\"
about = \"answers barriers at once while insertions take 5 ms; drops flows that write MAC addresses\"
[update]
insert_us = 5000
[barrier]
reply = \"early\"
[actions]
discards = [\"mac\"]
";

/// Verdicts that must fail on it, and no others: the instrument is judged by that.
const FAULTS: [&str; 2] = ["modifications-complete", "barrier-truthful"];

/// Verdicts of the embedded data plane that do not depend on how busy the machine is.
const PROMISED: [&str; 3] = ["modifications-right", "entries-work", "barrier-truthful"];

/// A module's parameters, by how much time there is.
type Short = (&'static str, [&'static [(&'static str, &'static str)]; 2]);

/// What is asked, usually and with `--quick`.
const ASKED: [Short; 2] = [
    ("actions", [&[("duration", "0.2"), ("rate", "2")], &[("duration", "0.05"), ("rate", "2")]]),
    (
        "flow-insert",
        [
            &[("entries", "1,5,20"), ("repetitions", "5")],
            &[("entries", "10,20"), ("repetitions", "2")],
        ],
    ),
];

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// As the tour has it.
    Usual,
    /// With `--quick`.
    Quick,
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Frames of a port's pool.
const FRAMES: usize = 1024;
const CHANNELS: [&str; 2] = ["m1", "m2"];

/// Measures both; the documents are for the page.
pub fn run(length: Length, progress: &mut Progress) -> Result<(Measuring, Vec<Document>)> {
    let begin = Instant::now();
    let mut documents = Vec::new();
    for (module, params) in &ASKED {
        let params = match length {
            Length::Usual => params[0],
            Length::Quick => params[1],
        };
        documents.push(embedded(module, params, progress)?);
        documents.push(faulty(module, params, progress)?);
    }
    let mut measuring = Measuring {
        embedded: documents.first().map_or_else(String::new, |d| d.dut.name.clone()),
        seconds: begin.elapsed().as_secs_f64(),
        ..Measuring::default()
    };
    measuring.all = documents.iter().map(summary).collect();
    for d in &documents {
        let own = d.dut.name == measuring.embedded;
        for v in &d.verdicts {
            use weir_measure::document::Outcome::{Fails, Holds};
            let fault = !own && FAULTS.contains(&v.id.as_str());
            match v.outcome {
                Fails if fault => measuring.named += 1,
                Holds if fault => measuring.missed.push(v.id.clone()),
                Fails if own && PROMISED.contains(&v.id.as_str()) => {
                    measuring.broken.push(format!("{}: {}", v.id, v.sentence));
                }
                _ => {}
            }
        }
        if let Some(why) = &d.partial {
            measuring.broken.push(format!("{} on {} ended early: {why}", d.id, d.dut.name));
        }
    }
    measuring.faults = FAULTS.len();
    Ok((measuring, documents))
}

fn summary(d: &Document) -> Measured {
    let judged = |v: &weir_measure::document::Verdict| Judged {
        verdict: v.id.clone(),
        outcome: v.outcome.word(),
        sentence: v.sentence.clone(),
    };
    Measured {
        module: d.id.clone(),
        device: d.dut.name.clone(),
        seconds: d.duration_s,
        verdicts: d.verdicts.iter().map(judged).collect(),
    }
}

/// Two of the instrument's channels, and the ports that they are wired to.
fn wires() -> (Vec<Channel>, Vec<Memory>) {
    CHANNELS.iter().map(|name| wire::memory(name)).unzip()
}

fn embedded(module: &str, set: &[(&str, &str)], progress: &mut Progress) -> Result<Document> {
    crate::openflow::log::hush();
    // A port that is free now; nobody else on this machine is expected to take it at once.
    let at = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let mut text = "[dataplane]\nserving = { threads = 1 }\n".to_owned();
    for name in CHANNELS {
        text += &format!("[[port]]\nname = \"{name}\"\ndevice = \"memory\"\n");
    }
    text += &format!(
        "[[vdp]]\nvid = 1\nname = \"measured\"\nports = [\"m1\", \"m2\"]\n\
         mapping = [\"in_port=m1\", \"in_port=m2\"]\n\
         [vdp.openflow]\nversions = [\"1.0\"]\nlisten = [\"ptcp:{}:{}\"]\n",
        at.port(),
        at.ip()
    );
    let plan = read::from_text(&text, "the demo's switch").map_err(|e| anyhow!("{e}"))?;
    let mut plane = DataPlane::new(plan.fixed.config.clone())?;
    let mut model = Model::new(&plan, Devices::Real);
    let (channels, ports) = wires();
    for (name, device) in CHANNELS.iter().zip(ports) {
        model.supplied.insert((*name).to_owned(), device);
    }
    let steps = diff(&model.plan, &plan).map_err(|e| anyhow!("{e}"))?;
    apply::run_here(&mut plane, &mut model, steps).map_err(|e| anyhow!("{e}"))?;
    let runner = Runner::start(plane, Serving::Threads(1), WhenIdle::Rest)?;
    let live = Live::new(runner.handle(), model, Routers::none())?;
    if let Some(why) = live.follow()?.into_iter().next() {
        bail!(why);
    }
    let name = format!("weir {}", env!("CARGO_PKG_VERSION"));
    let done = ask(module, set, &name, at, channels, progress);
    live.switches().stop();
    let mut end = runner.stop()?;
    for p in end.snapshot().ports {
        // The port was just listed; the snapshot's line for removed ports has none.
        let _ = end.remove_port(p.id);
    }
    done
}

fn faulty(module: &str, set: &[(&str, &str)], progress: &mut Progress) -> Result<Document> {
    let profile = Profile::read("the demo's profile", FAULTY)?;
    let name = profile.name.clone();
    let (channels, ports) = wires();
    let port = |device: Memory| {
        let pool = Pool::new(FRAMES, 2048).context("memory for frames")?;
        Ok(Port { device: Box::new(device), pool })
    };
    let ports = ports.into_iter().map(port).collect::<Result<Vec<_>>>()?;
    let listen = Control::Listen((Ipv4Addr::LOCALHOST, 0).into());
    let dut = Dut::new(profile, &CHANNELS, Nanos(0));
    let doors = Doors { control: listen, snmp: None };
    let running = serve::start(dut, doors, ports, |_| ()).context("starting the device")?;
    let at = running.listens_at().context("the device does not listen")?;
    let done = ask(module, set, &name, at, channels, progress);
    running.stop();
    done
}

fn ask(
    module: &str,
    set: &[(&str, &str)],
    name: &str,
    at: SocketAddr,
    channels: Vec<Channel>,
    progress: &mut Progress,
) -> Result<Document> {
    let entry = modules::find(module).with_context(|| format!("no module '{module}'"))?;
    let mut params = Params::defaults(&entry.about, Depth::Quick)?;
    set.iter().try_for_each(|(k, v)| params.set(k, v))?;
    let dut = Name {
        name: name.to_owned(),
        control: format!("tcp:{at}"),
        ports: CHANNELS.map(str::to_owned).to_vec(),
        ..Name::default()
    };
    let document = one::blank(&entry, Depth::Quick, dut);
    let mut settings = Settings::new(CHANNELS.map(str::to_owned).to_vec());
    settings.departures = Departures::Program;
    let core = Core::new(settings, (entry.make)(&params), params, document, unix_now());
    let dial: control::Dial =
        Box::new(move |at_most| Ok(Box::new(TcpStream::connect_timeout(&at, at_most)?)));
    let versions = Versions::only(Version::V10);
    let control = control::Settings {
        dial,
        comes: control::Comes::Us,
        versions,
        patience: PATIENCE,
        pcap: None,
    };
    let rig = Rig { channels, control, sampler: None, reset: None, keep: None };
    let begin = Instant::now();
    let title = format!("{module} on {name}");
    let mut watch = |s| progress.tick(one::told(&title, s, begin));
    measure(core, rig, &mut watch, &AtomicBool::new(false))
        .map_err(|why| anyhow!("{module} on {name}: {why}"))
}
