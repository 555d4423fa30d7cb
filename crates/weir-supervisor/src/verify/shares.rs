//! Whose frame it is that passes a port: the parts of ports that networks have.
//!
//! Room: an index over shares and ports' holders. Called by `walk` and the verifier.

use super::plane::{Bits, FieldAt, Match, Plane, WORDS};

/// A network's part of ports' frames, its ports set apart.
#[derive(Clone, Debug)]
pub struct Part {
    /// Whose.
    pub network: usize,
    /// The frames, whatever the port.
    pub matcher: Match,
    /// The ports: those whose number has this value under this mask.
    pub ports: (u64, u64),
    /// Larger wins.
    pub priority: i64,
    /// Whether it has all of that.
    pub whole: bool,
    /// Parts of others that may win over it, by place.
    rivals: Vec<u32>,
}

impl Part {
    /// Whether it has frames at a port with this number.
    pub fn is_at(&self, port: u32) -> bool {
        u64::from(port) & self.ports.0 == self.ports.1
    }
    /// Whether it has any of these headers, whatever the port.
    pub fn meets_match(&self, m: &Match) -> bool {
        self.matcher.meets(m)
    }
    /// Whether a frame at a port can be in both, as far as their cubes say.
    pub fn meets(&self, o: &Part) -> bool {
        let (m, n) = (self.ports, o.ports);
        m.0 & n.0 & (m.1 ^ n.1) == 0 && self.matcher.meets(&o.matcher)
    }
}

/// The parts of all networks.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    parts: Vec<Option<Part>>,
    /// By network.
    of: Vec<Vec<u32>>,
    /// By port: the networks that have it, and how many of their VDPs do.
    holders: Vec<Vec<(usize, usize)>>,
    in_port: Bits,
}

/// Splits a match into what it says of the port and the rest.
fn split(m: &Match, at: FieldAt) -> ((u64, u64), Match) {
    let word = |bits: &Bits| bits.get(at.word).copied().unwrap_or(0);
    let part = |bits: &Bits| (word(bits) & at.mask()) >> at.shift;
    ((part(&m.mask), part(&m.value)), m.freed(&at.bits()))
}

impl Shares {
    /// Of a plane.
    pub fn of(plane: &Plane) -> Self {
        let mut s = Self {
            parts: Vec::new(),
            of: vec![Vec::new(); plane.networks.len()],
            holders: vec![Vec::new(); plane.ports.len()],
            in_port: plane.layout.in_port.bits(),
        };
        let at = plane.layout.in_port;
        for v in &plane.vdps {
            s.hold(v.network, &v.ports);
        }
        match &plane.shares {
            Some(shares) => {
                for x in shares {
                    s.add(x.network, &x.matcher, x.priority, true, at);
                }
            }
            None => {
                for r in &plane.mapping {
                    let Some(v) = plane.vdps.get(r.vdp) else { continue };
                    let whole = r.takes == super::Takes::All;
                    s.add(v.network, &r.matcher, r.priority, whole, at);
                }
            }
        }
        s
    }
    /// A VDP of a network has these ports.
    pub fn hold(&mut self, network: usize, ports: &[(u32, usize)]) {
        for (_, p) in ports {
            let Some(h) = self.holders.get_mut(*p) else { continue };
            match h.iter_mut().find(|(n, _)| *n == network) {
                Some((_, count)) => *count += 1,
                None => h.push((network, 1)),
            }
        }
    }
    /// A VDP of a network has these ports no longer.
    pub fn release(&mut self, network: usize, ports: &[(u32, usize)]) {
        for (_, p) in ports {
            let Some(h) = self.holders.get_mut(*p) else { continue };
            if let Some((_, count)) = h.iter_mut().find(|(n, _)| *n == network) {
                *count = count.saturating_sub(1);
            }
            h.retain(|(_, count)| *count > 0);
        }
    }
    /// Adds a part; says at which place.
    pub fn add(
        &mut self,
        network: usize,
        matcher: &Match,
        priority: i64,
        whole: bool,
        at: FieldAt,
    ) -> usize {
        let (ports, matcher) = split(matcher, at);
        let place = self.parts.len() as u32;
        let mut part = Part { network, matcher, ports, priority, whole, rivals: Vec::new() };
        for (i, o) in self.parts.iter_mut().enumerate() {
            let Some(o) = o else { continue };
            if o.network == network || !o.meets(&part) {
                continue;
            }
            if o.priority >= priority {
                part.rivals.push(i as u32);
            }
            if priority >= o.priority {
                o.rivals.push(place);
            }
        }
        self.parts.push(Some(part));
        if let Some(of) = self.of.get_mut(network) {
            of.push(place);
        }
        place as usize
    }
    /// Takes a part away, and says what it was.
    pub fn remove(&mut self, place: usize) -> Option<Part> {
        let part = self.parts.get_mut(place)?.take()?;
        for o in self.parts.iter_mut().flatten() {
            o.rivals.retain(|r| *r as usize != place);
        }
        if let Some(of) = self.of.get_mut(part.network) {
            of.retain(|p| *p as usize != place);
        }
        Some(part)
    }
    /// The parts, with their places.
    pub fn parts(&self) -> impl Iterator<Item = (usize, &Part)> {
        self.parts.iter().enumerate().filter_map(|(i, p)| Some((i, p.as_ref()?)))
    }
    /// A part.
    pub fn part(&self, place: usize) -> Option<&Part> {
        self.parts.get(place)?.as_ref()
    }
    /// Networks that have parts which meet this one, its own among them.
    pub fn touched(&self, part: &Part) -> Vec<usize> {
        let met = self.parts.iter().flatten().filter(|o| o.meets(part)).map(|o| o.network);
        let mut all: Vec<usize> = met.chain([part.network]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
    /// The networks that have a port.
    pub fn holders(&self, port: usize) -> impl Iterator<Item = usize> {
        self.holders.get(port).into_iter().flatten().map(|(n, _)| *n)
    }
    /// Whether a port concerns others than `network`.
    pub fn is_shared(&self, network: usize, port: usize) -> bool {
        self.holders(port).any(|n| n != network)
    }
    /// Whether all headers of `m` are plainly the network's at a port with this number. That they
    /// are not plainly so says nothing.
    pub fn plainly(&self, network: usize, number: u32, m: &Match) -> bool {
        let m = m.freed(&self.in_port);
        let own = self.of.get(network).into_iter().flatten();
        own.filter_map(|i| self.part(*i as usize)).any(|p| {
            let rival = |i: &u32| {
                let r = self.part(*i as usize);
                r.is_some_and(|r| r.is_at(number) && r.matcher.meets(&m))
            };
            p.whole && p.is_at(number) && p.matcher.covers(&m) && !p.rivals.iter().any(rival)
        })
    }
}

/// No bits.
pub const NONE: Bits = [0; WORDS];
