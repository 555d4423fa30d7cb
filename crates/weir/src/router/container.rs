//! A VDP's slow path in a router's namespace (004 §4.4): what comes by the VDP's channel is received there by
//! an interface of the port's name, and what is sent there leaves by that port.
//!
//! Room: a slow-path program over TAP devices, which [`super::wires`] has made. Called by the software stage.
//! A system call a frame; what comes from the namespace is looked for once a millisecond.

use std::fmt;
use std::sync::Arc;
use weir_dataplane::{PortNo, Program, ProgramCx, ProgramPort, SlowFrame};
use weir_io::tap::Outlet;
use weir_packet::{DropReason, Frame, LinkState, Nanos};

/// Interfaces of a namespace, by the VDP's ports, and the VLAN tag that their frames have outside.
#[derive(Clone)]
pub struct Taps(Arc<Inside>);

struct Inside {
    of: Vec<(PortNo, Outlet)>,
    vlan: Option<u16>,
}

impl Taps {
    /// Of these ports.
    pub fn new(of: Vec<(PortNo, Outlet)>, vlan: Option<u16>) -> Self {
        Self(Arc::new(Inside { of, vlan }))
    }
    /// The program.
    pub fn program(&self) -> Box<dyn Program> {
        Box::new(Container { taps: self.clone(), carriers: Vec::new(), up: 0, down: 0, lost: 0 })
    }
}

impl fmt::Debug for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Taps({})", self.0.of.len())
    }
}

impl PartialEq for Taps {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for Taps {}

struct Container {
    taps: Taps,
    /// What each interface was told of its port.
    carriers: Vec<LinkState>,
    up: u64,
    down: u64,
    lost: u64,
}

/// Most frames of one interface at a time.
const BATCH: usize = 64;
const TAG: usize = 4;
const ADDRESSES: usize = 12;
/// An interface that was told nothing yet.
const UNTOLD: LinkState = LinkState::Gone;

/// Takes a frame's outer tag away; false where it has none.
fn untag(f: &mut Frame) -> bool {
    let b = f.bytes_mut();
    if b.get(ADDRESSES..ADDRESSES + 2) != Some(&[0x81, 0x00]) || b.len() < ADDRESSES + TAG + 2 {
        return false;
    }
    b.copy_within(..ADDRESSES, TAG);
    f.pull_front(TAG).is_ok()
}

/// Gives a frame a tag; false where there is no room.
fn tag(f: &mut Frame, vlan: u16) -> bool {
    if f.push_front(TAG).is_err() {
        return false;
    }
    let b = f.bytes_mut();
    b.copy_within(TAG..TAG + ADDRESSES, 0);
    let [hi, lo] = vlan.to_be_bytes();
    if let Some(to) = b.get_mut(ADDRESSES..ADDRESSES + TAG) {
        to.copy_from_slice(&[0x81, 0x00, hi, lo]);
    }
    true
}

impl Container {
    /// An interface has a carrier while its port is up.
    fn tell_carriers(&mut self, ports: &[ProgramPort]) {
        let Inside { of: taps, .. } = &*self.taps.0;
        self.carriers.resize(taps.len(), UNTOLD);
        for ((no, tap), told) in taps.iter().zip(&mut self.carriers) {
            let is_up = ports.iter().any(|p| p.no == *no && p.up);
            let now = is_up.into();
            if now != *told {
                *told = now;
                // Where the kernel can't be told, programs inside have timers of their own.
                let _ = tap.set_carrier(now);
            }
        }
    }
}

impl Program for Container {
    fn name(&self) -> &'static str {
        "container"
    }

    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        let Inside { of: taps, vlan } = &*self.taps.0;
        let Some((_, tap)) = taps.iter().find(|(no, _)| *no == rx.in_port) else {
            return cx.drop(rx.frame, DropReason::NoSuchPort);
        };
        let mut frame = rx.frame;
        if vlan.is_some() && !untag(&mut frame) {
            return cx.drop(frame, DropReason::Miss);
        }
        if tap.send(frame.bytes()).is_err() {
            self.lost += 1;
            return cx.drop(frame, DropReason::PortDown);
        }
        self.up += 1;
        cx.consume(frame);
    }

    fn tick(&mut self, cx: &mut ProgramCx<'_>) {
        self.tell_carriers(cx.ports());
        let Inside { of: taps, vlan } = &*self.taps.0;
        for (no, tap) in taps {
            for _ in 0..BATCH {
                let Some(mut frame) = cx.alloc() else { return };
                let room = frame.set_len(0).map_or(0, |()| frame.tailroom());
                let got = match frame.set_len(room) {
                    Ok(()) => tap.receive(frame.bytes_mut()),
                    Err(_) => None,
                };
                let Some(n) = got else {
                    cx.unused(frame);
                    break;
                };
                let fits = n >= ADDRESSES + 2 && n < room && frame.set_len(n).is_ok();
                if !fits || vlan.is_some_and(|v| !tag(&mut frame, v)) {
                    self.lost += 1;
                    cx.unused(frame);
                    continue;
                }
                self.down += 1;
                cx.emit(frame, *no);
            }
        }
    }

    fn patience(&self) -> Nanos {
        Nanos::from_millis(1)
    }

    fn status(&self) -> Vec<(String, String)> {
        [("up", self.up), ("down", self.down), ("lost", self.lost)]
            .map(|(k, n)| (k.to_owned(), n.to_string()))
            .to_vec()
    }
}
