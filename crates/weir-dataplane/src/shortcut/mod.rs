//! Frames that ports' devices forward by themselves, as the data plane would ([`weir_packet::Shortcut`]).
//!
//! Room: called by control before anything changes that ways are derived from ([`DataPlane::shorten_not`]),
//! by the loop to start ways and to count, and by the runner to count before anything is asked. While a
//! way is on, what it does is what the data plane would do; so whatever could make a difference stops
//! it first, and a change is answered afterwards. What a device forwarded is counted as received by the
//! port, taken by the rule and sent by the other port, all at once.

mod derive;

pub use derive::WhyNot;

use crate::action::Vid;
use crate::counters::Tally;
use crate::plane::{DataPlane, Port};
use derive::{Derived, Exit, Exits, Whose, derive};
use weir_packet::{Nanos, PortId, Shortcut, Taken};

/// How long nothing must have changed before ways are derived: rules come in rows.
const SETTLED: Nanos = Nanos(10_000_000);
/// How often what was forwarded is counted while nobody asks.
const COUNTED: Nanos = Nanos(10_000_000);

/// Ways that are on at a port.
#[derive(Debug)]
struct On {
    port: PortId,
    whose: Vec<Whose>,
    /// What has been counted under each number.
    seen: Vec<Taken>,
    why_not: Option<WhyNot>,
    /// Addresses told apart.
    macs: usize,
}

/// Whether the ways are those of the state.
#[derive(Clone, Copy, Debug, Default)]
enum Derivation {
    /// They are, or there is no device that could take any.
    #[default]
    Done,
    /// Not since then.
    Due(Nanos),
}

/// The ways of a data plane.
#[derive(Debug, Default)]
pub(crate) struct Shortcuts {
    on: Vec<On>,
    off: Vec<(PortId, String)>,
    derivation: Derivation,
    counted: Nanos,
}

/// Whose ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ways {
    /// All.
    All,
    /// Those that a VDP's frames go.
    Of(Vid),
}

/// What a port's device does by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ShortcutView {
    /// It offers nothing of the kind.
    #[default]
    NotOffered,
    /// It forwards frames.
    On {
        /// Of these VDPs, in order.
        vids: Vec<Vid>,
        /// By so many destinations; zero: whatever comes in.
        macs: usize,
        /// Why not all that it could be asked for.
        why_not: Option<String>,
    },
    /// It hands every frame over.
    Off(String),
}

/// Ports as they are now.
struct Now<'a>(&'a [Option<Box<Port>>]);

impl Exits for Now<'_> {
    fn exit(&self, id: PortId) -> Result<Exit, WhyNot> {
        let p = self.0.get(usize::from(id.0)).and_then(Option::as_deref).ok_or(WhyNot::Exit)?;
        let number = p.tx.device.exit().filter(|_| p.tx.is_up()).ok_or(WhyNot::Exit)?;
        if !p.tx.is_undivided() {
            return Err(WhyNot::Shares);
        }
        Ok(Exit { number, max_frame_bytes: p.tx.device.caps().max_frame_bytes })
    }
}

/// Ports as if these could be left so.
struct Offered<'a> {
    ports: &'a [Option<Box<Port>>],
    offered: &'a [PortId],
}

impl Exits for Offered<'_> {
    fn exit(&self, id: PortId) -> Result<Exit, WhyNot> {
        let p = self.ports.get(usize::from(id.0)).and_then(Option::as_deref);
        let p = p.filter(|p| p.tx.is_up() && self.offered.contains(&id)).ok_or(WhyNot::Exit)?;
        if !p.tx.is_undivided() {
            return Err(WhyNot::Shares);
        }
        let max_frame_bytes = p.tx.device.caps().max_frame_bytes;
        Ok(Exit { number: id.0.into(), max_frame_bytes })
    }
}

fn device(ports: &mut [Option<Box<Port>>], id: PortId) -> Option<&mut dyn Shortcut> {
    ports.get_mut(usize::from(id.0))?.as_mut()?.tx.device.shortcut()
}

impl DataPlane {
    /// Stops ways, and counts what went them: something is about to change.
    pub(crate) fn shorten_not(&mut self, which: Ways) {
        self.shortcuts.derivation = Derivation::Due(self.now);
        if self.shortcuts.on.is_empty() {
            return;
        }
        let (stay, mut go): (Vec<On>, Vec<On>) =
            std::mem::take(&mut self.shortcuts.on).into_iter().partition(|on| match which {
                Ways::All => false,
                Ways::Of(vid) => on.whose.iter().all(|w| w.vid != vid),
            });
        self.shortcuts.on = stay;
        for on in &mut go {
            if let Some(d) = device(&mut self.ports, on.port) {
                d.stop();
            }
            self.count_ways(on);
        }
    }

    /// Counts what devices forwarded by themselves until now. What is asked through a
    /// [`crate::Handle`] finds it counted; who owns the data plane himself and reads counters
    /// between two rounds calls this before.
    pub fn count_shortcuts(&mut self) {
        self.shortcuts.counted = self.now;
        let mut all = std::mem::take(&mut self.shortcuts.on);
        for on in &mut all {
            self.count_ways(on);
        }
        self.shortcuts.on = all;
    }

    fn count_ways(&mut self, on: &mut On) {
        let now = self.now;
        for (i, (whose, seen)) in on.whose.iter().zip(&mut on.seen).enumerate() {
            let Some(d) = device(&mut self.ports, on.port) else { return };
            let taken = d.taken(i as u32);
            let frames = taken.frames.wrapping_sub(seen.frames);
            if frames == 0 {
                continue;
            }
            let what = Tally { frames, bytes: taken.bytes.wrapping_sub(seen.bytes) };
            *seen = taken;
            let v = self.vdps.get_mut(usize::from(whose.vid.0)).and_then(Option::as_deref_mut);
            // Nothing of a way goes before the way is stopped.
            let Some(v) = v else { continue };
            v.edge.received_at(on.port, what);
            v.fast.tables.first_mut().hits(whose.slot, what, now);
            v.edge.sent(whose.out, what);
            if let Some(Some(p)) = self.ports.get_mut(usize::from(on.port.0)) {
                p.counters.rx.merge(what);
            }
            if let Some(Some(p)) = self.ports.get_mut(usize::from(whose.out.0)) {
                p.counters.tx.merge(what);
            }
        }
    }

    /// Once an interval: counts, and starts ways when nothing has changed for a while.
    pub(crate) fn tend_shortcuts(&mut self) {
        if !self.shortcuts.on.is_empty() && self.now.since(self.shortcuts.counted) >= COUNTED {
            self.count_shortcuts();
        }
        if let Derivation::Due(since) = self.shortcuts.derivation
            && self.now.since(since) >= SETTLED
        {
            self.shorten();
        }
    }

    /// Looks again at ports that have no ways: what stood against them may have gone.
    pub(crate) fn reconsider_shortcuts(&mut self) {
        if !self.shortcuts.off.is_empty() && matches!(self.shortcuts.derivation, Derivation::Done) {
            self.shorten();
        }
    }

    /// Starts ways at every port that can have some and has none.
    fn shorten(&mut self) {
        self.shortcuts.derivation = Derivation::Done;
        self.shortcuts.off.clear();
        for i in 0..self.polled.len() {
            let Some(&port) = self.polled.get(i) else { break };
            if self.shortcuts.on.iter().any(|on| on.port == port)
                || device(&mut self.ports, port).is_none()
            {
                continue;
            }
            match self.start_ways(port) {
                Ok(on) => self.shortcuts.on.push(on),
                Err(why) => self.shortcuts.off.push((port, why)),
            }
        }
    }

    fn start_ways(&mut self, port: PortId) -> Result<On, String> {
        if self.taps.any() {
            return Err(WhyNot::Tapped.to_string());
        }
        let Derived { ways, whose, why_not } =
            derive(port, &self.mapping, &self.vdps, &Now(&self.ports))
                .map_err(|why| why.to_string())?;
        let Some(d) = device(&mut self.ports, port) else { return Err(String::new()) };
        let seen = (0..whose.len()).map(|i| d.taken(i as u32)).collect();
        d.start(&ways)?;
        let macs = ways.by_mac.len();
        Ok(On { port, whose, seen, why_not, macs })
    }

    /// By which port a frame would leave by the shortcut of the port where it comes in, if those of
    /// `offered` had one; `None`: it would be handed over.
    ///
    /// # Errors
    /// Why no frame of that port would be forwarded so.
    pub fn shortcut_of(
        &self,
        in_port: PortId,
        frame: &[u8],
        offered: &[PortId],
    ) -> Result<Option<PortId>, WhyNot> {
        let exits = Offered { ports: &self.ports, offered };
        let d = derive(in_port, &self.mapping, &self.vdps, &exits)?;
        let whose = d.ways.of(frame).and_then(|w| d.whose.get(w.counter as usize));
        Ok(whose.map(|w| w.out))
    }

    /// What a port's device does by itself.
    pub(crate) fn shortcut_view(&self, port: &Port) -> ShortcutView {
        let s = &self.shortcuts;
        if let Some(on) = s.on.iter().find(|on| on.port == port.id) {
            let mut vids: Vec<Vid> = on.whose.iter().map(|w| w.vid).collect();
            vids.sort_unstable();
            vids.dedup();
            let why_not = on.why_not.map(|w| w.to_string());
            return ShortcutView::On { vids, macs: on.macs, why_not };
        }
        match s.off.iter().find(|(id, _)| *id == port.id) {
            Some((_, why)) => ShortcutView::Off(why.clone()),
            None if port.tx.device.offers_shortcut() => {
                ShortcutView::Off("something has just changed".to_owned())
            }
            None => ShortcutView::NotOffered,
        }
    }
}
