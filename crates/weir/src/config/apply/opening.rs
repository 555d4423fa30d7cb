//! Opens ports' devices, with the frames of the workers that will have them.
//!
//! Room: as `apply`. Nothing of the data plane has been changed when a device can't be opened.

use super::{Devices, Model};
use crate::config::failed::{Failed, Reason};
use crate::config::plan::PortPlan;
use std::collections::BTreeMap;
use weir_dataplane::DataPlane;
use weir_io::af_xdp::Program;
use weir_io::memory::{Memory, WireSize};
use weir_io::open::{self, Kind, Opened};
use weir_io::patience::Again;
use weir_io::replay::Null;
use weir_packet::{Device, DeviceError, Pool};

/// What a port has: its device, and which worker's frames that has; or a device for each worker's.
pub(super) enum Ready {
    AtHome(Box<dyn Device>, usize),
    Queues(Vec<Box<dyn Device>>),
}

/// Devices that became no ports.
pub(super) fn close(plane: &mut DataPlane, opened: BTreeMap<String, Ready>) {
    for ready in opened.into_values() {
        match ready {
            Ready::AtHome(mut d, home) => _ = plane.at_home(home, move |pool| d.close(pool)),
            Ready::Queues(all) => close_queues(plane, all),
        }
    }
}

fn close_queues(plane: &mut DataPlane, devices: Vec<Box<dyn Device>>) {
    for (worker, mut d) in devices.into_iter().enumerate() {
        plane.at_home(worker, move |pool| d.close(pool));
    }
}

pub(super) fn open_device(
    plane: &mut DataPlane,
    model: &mut Model,
    p: &PortPlan,
    again: Again,
) -> Result<Ready, Failed> {
    if let Some(all) = open_queues(plane, model, p, again)? {
        return Ok(Ready::Queues(all));
    }
    let home = model.homes.of(p, plane.workers());
    Ok(Ready::AtHome(open_at(plane, model, p, home, again)?, home))
}

/// A queue for each worker, where the interface has as many, and none of them shall have all. `None`: it is opened as a whole.
fn open_queues(
    plane: &mut DataPlane,
    model: &mut Model,
    p: &PortPlan,
    again: Again,
) -> Result<Option<Vec<Box<dyn Device>>>, Failed> {
    let workers = plane.workers();
    let whole = workers == 1 || model.devices == Devices::Scratch || model.homes.is_pinned(p);
    if whole || model.supplied.contains_key(&p.name) || open::queues(&p.spec) != Some(workers) {
        return Ok(None);
    }
    let (mut all, program, told) = (Vec::new(), Program::default(), model.notes.len());
    for worker in 0..workers {
        let umem = model.umem(worker);
        let (spec, program) = (p.spec.clone(), program.clone());
        let open = move |pool: &mut Pool| open::open_queue(&spec, worker, pool, &umem, &program);
        match open_with(plane, model, p, worker, open) {
            Ok(device) => all.push(device),
            Err(e) => {
                close_queues(plane, all);
                model.notes.truncate(told);
                if e.is_busy() && again == Again::Later {
                    return Err(e);
                }
                // What else the interface can be opened by is tried as a whole.
                return if p.spec.kind == Kind::Interface { Ok(None) } else { Err(e) };
            }
        }
    }
    model.notes.push(format!("port {}: a queue for each of {workers} workers", p.name));
    Ok(Some(all))
}

fn open_at(
    plane: &mut DataPlane,
    model: &mut Model,
    p: &PortPlan,
    home: usize,
    again: Again,
) -> Result<Box<dyn Device>, Failed> {
    if p.spec.kind == Kind::XdpShortcut && plane.workers() > 1 {
        let why = "a shortcut in the kernel takes one worker, and there are several: give it \
                   'xdp:IF', or run the data plane with one worker";
        return Err(failed(p, Reason::Config(why.to_owned())));
    }
    if let Some(device) = model.supplied.remove(&p.name) {
        return Ok(Box::new(device));
    }
    if model.devices == Devices::Scratch {
        return Ok(Box::new(Null::new(&p.name)));
    }
    if p.spec.kind == Kind::Memory && !p.spec.target.is_empty() {
        // One whose near end has gone meanwhile is no wire any more.
        let far = model.wires.remove(&p.spec.target);
        if let Some(far) = far.filter(|f| !f.is_abandoned()) {
            return Ok(Box::new(far));
        }
        let size =
            WireSize { max_frame_bytes: plane.pool_mut().max_frame_bytes(), ..WireSize::default() };
        // Those of ports that took their time to go.
        model.wires.retain(|_, far| !far.is_abandoned());
        let (near, far) = Memory::inside([&p.spec.target, &p.spec.target], size);
        model.wires.insert(p.spec.target.clone(), far);
        return Ok(Box::new(near));
    }
    let (spec, umem) = (p.spec.clone(), model.umem(home));
    open_with(plane, model, p, home, move |pool| open::open(&spec, pool, &umem, again))
}

/// Opens a device with a worker's frames, and keeps what is to be told of it.
fn open_with(
    plane: &mut DataPlane,
    model: &mut Model,
    p: &PortPlan,
    worker: usize,
    open: impl FnOnce(&mut Pool) -> Result<Opened, DeviceError> + Send + 'static,
) -> Result<Box<dyn Device>, Failed> {
    match plane.at_home(worker, open) {
        Some(Ok(Opened { device, notes, .. })) => {
            model.notes.extend(notes.into_iter().map(|n| format!("port {}: {n}", p.name)));
            Ok(device)
        }
        Some(Err(e)) => Err(failed(p, Reason::Device(e))),
        None => Err(failed(p, Reason::Config(format!("worker {worker} has ended")))),
    }
}

fn failed(p: &PortPlan, reason: Reason) -> Failed {
    Failed { place: p.place.clone(), whose: format!("port '{}'", p.name), reason, after: 0 }
}
