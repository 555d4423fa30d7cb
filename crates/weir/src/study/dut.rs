//! weir as the device under test over veth, and the tester's ports.

use super::lab::{Kind, Lab};
use super::load::{self, Kinds, PORTS};
use anyhow::{Context, Result, anyhow};
use weir_dataplane::{Config, DataPlane, Path, Runner, Serving, WhenIdle};
use weir_io::af_packet::AfPacket;
use weir_io::af_xdp::{AfXdp, Mode, Offer, Options, OtherEnd, Umem};
use weir_measure::port::Port;
use weir_packet::{Device, Pool, PortId};

/// weir in a lab. While it runs on a thread of its own it is not `here`.
pub struct Weir {
    here: Option<DataPlane>,
}

impl Weir {
    /// Opens the lab's four ports by AF_XDP with a shared umem; `None` where the kernel forwards.
    ///
    /// # Errors
    /// A port can't be opened.
    pub fn of(lab: &Lab) -> Result<Option<Self>> {
        let (path, kinds) = match lab.kind {
            Kind::Fast => (Path::Fast, Kinds::Ipv4),
            Kind::Shortcut => (Path::Fast, Kinds::All),
            Kind::Slow => (Path::Slow, Kinds::Ipv4),
            Kind::Wire | Kind::Bare | Kind::Bridge | Kind::Router => return Ok(None),
        };
        Self::with(lab, |plane, ports| load::vdps(plane, ports, path, kinds)).map(Some)
    }

    /// Opens the lab's four ports so, and makes whatever VDPs `set_up` does.
    ///
    /// # Errors
    /// A port can't be opened; that of `set_up`.
    pub fn with(
        lab: &Lab,
        set_up: impl FnOnce(&mut DataPlane, &[PortId]) -> Result<()> + Send,
    ) -> Result<Self> {
        let plane = lab.at_device(|| {
            let mut plane = DataPlane::new(Config::default())?;
            let umem = Umem::new();
            let mut ports = Vec::new();
            for n in 1..=PORTS {
                let name = format!("p{n}");
                let (mode, shortcut) = match lab.kind {
                    Kind::Shortcut => (Mode::Generic, Offer::Yes),
                    _ => (Mode::Native, Offer::No),
                };
                let options = Options { mode, shortcut, ..Options::default() };
                let device = AfXdp::open(&name, options, &umem, plane.pool_mut())?;
                ports.push(plane.add_port(&name, Box::new(device))?);
            }
            set_up(&mut plane, &ports)?;
            Ok(plane)
        })?;
        Ok(Self { here: Some(plane) })
    }

    /// The data plane, to be polled by the caller.
    pub fn plane(&mut self) -> Option<&mut DataPlane> {
        self.here.as_mut()
    }

    /// Runs it on a thread of its own while `work` lasts.
    ///
    /// # Errors
    /// That of the work; frames that do not add up afterwards.
    pub fn while_running<T>(
        &mut self,
        idle: WhenIdle,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let plane = self.here.take().ok_or_else(|| anyhow!("the data plane has gone"))?;
        let runner = Runner::start(plane, Serving::Worker, idle).context("a worker's thread")?;
        let done = work();
        let plane = runner.stop()?;
        plane.snapshot().check()?;
        self.here = Some(plane);
        done
    }
}

/// Runs `work` with weir on a thread of its own, where weir is the device.
///
/// # Errors
/// That of the work.
pub fn serving<T>(
    weir: &mut Option<Weir>,
    idle: WhenIdle,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    match weir {
        Some(w) => w.while_running(idle, work),
        None => work(),
    }
}

/// Opens the tester's four ports by AF_PACKET: no program is attached to the wires, so no device
/// under test is helped or hindered by how it is tested.
///
/// # Errors
/// A port can't be opened.
pub fn tester(lab: &Lab) -> Result<Vec<Port>> {
    lab.at_tester(|| {
        (1..=PORTS)
            .map(|n| {
                let pool = Pool::new(4096, 2048)?;
                let device: Box<dyn Device> = Box::new(AfPacket::open(&format!("e{n}"), &pool)?);
                Ok(Port { device, pool })
            })
            .collect()
    })
}

/// Opens the tester's first port by AF_XDP: the cheapest sender.
///
/// # Errors
/// It can't be opened.
pub fn sender(lab: &Lab) -> Result<Port> {
    lab.at_tester(|| {
        let mut pool = Pool::new(4096, 2048)?;
        let options = Options { other_end: OtherEnd::Leave, ..Options::default() };
        let device = AfXdp::open("e1", options, &Umem::new(), &mut pool)?;
        Ok(Port { device: Box::new(device), pool })
    })
}

/// Lets go of a port's device.
pub fn close(port: &mut Port) {
    port.device.close(&mut port.pool);
}
