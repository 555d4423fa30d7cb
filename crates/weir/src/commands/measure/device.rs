//! The switches that the arguments speak of: one that is there, or some that are made here. Each can be
//! measured as often as one likes.

use super::SwitchArgs;
use super::claim::Claims;
use super::lab::{Kind, Lab};
use super::target::{self, Target};
use super::{given, wires};
use crate::fault::bad_input;
use anyhow::{Result, bail};
use std::str::FromStr;
use std::time::Duration;
use weir_measure::module::traffic::Traffic;
use weir_measure::module::{About, On};
use weir_openflow::channel::Versions;
use weir_openflow::model::Version;

/// A switch that was asked for, and is not there yet.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// By its address.
    Given,
    /// To be made.
    Lab(Kind),
    /// No switch: wires, for what measures the instrument itself.
    Wires,
}

/// A switch that is there.
pub enum Device<'a> {
    /// By its address.
    Given {
        /// How it is reached.
        args: &'a SwitchArgs,
        /// Nobody else measures it until this is dropped.
        _claims: Claims,
    },
    /// Made here; gone when this is dropped.
    Made {
        /// Where it is.
        lab: Box<Lab>,
        /// Another name than its own.
        name: Option<&'a str>,
        /// Of the user's interfaces.
        _claims: Claims,
    },
    /// Wires that are made for each measurement.
    Wires,
}

/// How to speak to a switch.
#[derive(Clone, Debug)]
pub struct Manner {
    /// Versions offered.
    pub versions: Versions,
    /// How long an answer may take.
    pub patience: Duration,
    /// The switch's ports behind the channels, to be checked.
    pub of_ports: Option<Vec<u32>>,
    /// Interfaces wired to each other.
    pub wire: Vec<String>,
    /// What data traffic is like.
    pub traffic: Option<Traffic>,
}

impl Manner {
    /// Whether a module can be measured so.
    ///
    /// # Errors
    /// Its loads can't be as the description of traffic says.
    pub fn suits(&self, about: &About) -> Result<()> {
        let said = self.traffic.as_ref().map_or(Ok(()), |t| t.suits(about));
        said.map_err(|e| bad_input(format!("--{e}")))
    }
}

impl SwitchArgs {
    /// The switches, at least one.
    ///
    /// # Errors
    /// A lab that is none.
    pub fn wanted(&self) -> Result<Vec<Wanted>> {
        if self.lab.is_empty() {
            return Ok(vec![Wanted::Given]);
        }
        if self.name.is_some() && self.lab.len() > 1 {
            return Err(bad_input("--name: several labs are called what they are"));
        }
        self.lab.iter().map(|text| text.parse()).collect()
    }

    /// How to speak to them.
    ///
    /// # Errors
    /// A version or a time that can't be.
    pub fn manner(&self) -> Result<Manner> {
        let versions = match self.openflow.as_str() {
            "1.0" => Versions::only(Version::V10),
            "1.3" => Versions::only(Version::V13),
            "any" => Versions::ALL,
            other => return Err(bad_input(format!("--openflow {other}: give 1.0, 1.3 or any"))),
        };
        if !(0.1..=3600.0).contains(&self.patience) {
            return Err(bad_input("--patience must be 0.1 to 3600 seconds"));
        }
        let patience = Duration::from_secs_f64(self.patience);
        let of_ports = Some(self.of_ports.clone()).filter(|p| !p.is_empty());
        let traffic = self.traffic.as_deref().map(given::traffic).transpose()?;
        Ok(Manner { versions, patience, of_ports, wire: self.wire.clone(), traffic })
    }

    /// Whether there is what a module needs; said before anything is opened.
    ///
    /// # Errors
    /// No switch, or too few interfaces to it, or one twice.
    pub fn suits(&self, about: &About) -> Result<()> {
        once("--ports", &self.ports)?;
        once("--wire", &self.wire)?;
        if !self.lab.is_empty() || about.on == On::Wire {
            return Ok(());
        }
        if self.switch.is_none() {
            return Err(bad_input("no switch to measure: give --switch and --ports, or --lab"));
        }
        let (need, there) = (about.channels, self.ports.len());
        if there < need {
            return Err(bad_input(format!(
                "--ports: {} needs {need} interfaces that are wired to the switch, and {there} are given: --ports IF,IF",
                about.name
            )));
        }
        Ok(())
    }

    /// The switch and all interfaces, for as long as they are measured.
    fn claims(&self) -> Result<Claims> {
        let mut claims = Claims::default();
        self.switch.iter().try_for_each(|address| claims.switch(address))?;
        self.ports.iter().try_for_each(|port| claims.interface("--ports", port))?;
        self.wire.iter().try_for_each(|port| claims.interface("--wire", port))?;
        Ok(claims)
    }

    /// Makes the switch, if it is to be made.
    ///
    /// # Errors
    /// It can't be made here, or another measurement has it.
    pub fn device(&self, wanted: &Wanted) -> Result<Device<'_>> {
        match wanted {
            Wanted::Given => Ok(Device::Given { args: self, _claims: self.claims()? }),
            Wanted::Lab(kind) => {
                let (_claims, name) = (self.claims()?, self.name.as_deref());
                Ok(Device::Made { lab: Box::new(Lab::start(kind.clone())?), name, _claims })
            }
            Wanted::Wires => Ok(Device::Wires),
        }
    }
}

/// Refuses an interface that is there twice, however it is opened.
///
/// # Errors
/// Which.
pub fn once(option: &str, ports: &[String]) -> Result<()> {
    let interface = |p: &String| p.split_once(':').map_or(p.clone(), |(_, name)| name.to_owned());
    let all: Vec<String> = ports.iter().map(interface).collect();
    match all.iter().enumerate().find(|(n, name)| all.iter().take(*n).any(|o| o == *name)) {
        None => Ok(()),
        Some((_, name)) => Err(bad_input(format!(
            "{option}: '{name}' is there twice: give another interface for one of them"
        ))),
    }
}

impl FromStr for Wanted {
    type Err = anyhow::Error;
    /// A lab by its name.
    fn from_str(text: &str) -> Result<Self> {
        text.parse::<Kind>().map(Self::Lab).map_err(bad_input)
    }
}

/// Makes the switch of a lab.
///
/// # Errors
/// It can't be made here, or is not to be made.
pub fn make(wanted: &Wanted) -> Result<Device<'static>> {
    match wanted {
        Wanted::Given => bail!("a switch that is there is not made"),
        Wanted::Lab(kind) => {
            let lab = Box::new(Lab::start(kind.clone())?);
            Ok(Device::Made { lab, name: None, _claims: Claims::default() })
        }
        Wanted::Wires => Ok(Device::Wires),
    }
}

impl Wanted {
    /// What to call it as long as it is not there.
    pub fn name(&self) -> &str {
        match self {
            Self::Given => "the switch",
            Self::Wires => "wires",
            Self::Lab(Kind::Ovs) => "Open vSwitch",
            Self::Lab(Kind::Weir) => "weir",
            Self::Lab(Kind::Dut { name, .. }) => name,
        }
    }
}

impl Device<'_> {
    /// A way to it, for one measurement by this module; of one that measures the instrument itself, wires
    /// beside it.
    ///
    /// # Errors
    /// Its ports can't be opened.
    pub fn target(&self, about: &About) -> Result<Target> {
        match (self, about.on) {
            // Ports that are wired to a switch are no wire.
            (Self::Given { args, .. }, On::Wire) if args.switch.is_some() => {
                wires::target(&args.wire, None)
            }
            (Self::Given { args, .. }, On::Wire) => {
                wires::target(&args.ports, args.name.as_deref())
            }
            (Self::Made { .. } | Self::Wires, On::Wire) => wires::target(&[], None),
            (Self::Wires, On::Switch) => {
                bail!("{} needs a switch, and there are but wires", about.name)
            }
            (Self::Given { args, .. }, On::Switch) => target::given(args),
            (Self::Made { lab, name, .. }, On::Switch) => target::made(lab, *name),
        }
    }
}
