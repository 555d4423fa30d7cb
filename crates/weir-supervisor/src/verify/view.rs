//! How a frame's header reads after changes, in terms of what came in.
//!
//! Each bit of the header is a bit that came in, one that was further behind in the frame, one that
//! is not followed, or a constant. So the headers that match a rule after changes are a cube of what
//! came in, and nothing is lost by looking back through them.
//!
//! Room: called by `walk`. Pure.

use super::cube::{Cube, Spent};
use super::plane::{Bits, Edit, FieldAt, Match, WORDS};
use std::rc::Rc;

/// Words of what a frame is: its header as it came in, and bits that come to light later.
pub const VARIABLES: usize = 2 * WORDS;
/// A set of frames.
pub type Region = Cube<VARIABLES>;

/// Some of them.
pub type Variables = [u64; VARIABLES];

/// Whether what bits become is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follow {
    Yes,
    No,
}

const BITS: usize = WORDS * 64;
/// Stands for a constant 0; the next for 1.
const ZERO: u16 = 2 * BITS as u16;

/// A header in terms of what came in.
#[derive(Clone, Debug, Default)]
pub struct View {
    changed: Option<Rc<Changed>>,
}

#[derive(Clone, Debug)]
struct Changed {
    /// Where each bit comes from: a variable, or a constant.
    from: [u16; BITS],
    /// Variables that are in use.
    used: u16,
    /// Variables that stand for something that is not followed.
    unfollowed: Variables,
}

impl Changed {
    fn new() -> Self {
        Self {
            from: std::array::from_fn(|i| i as u16),
            used: BITS as u16,
            unfollowed: [0; VARIABLES],
        }
    }
    fn read(&self, f: FieldAt) -> impl Iterator<Item = u16> {
        let first = f.word * 64 + f.shift as usize;
        self.from.iter().skip(first).take(f.width as usize).copied()
    }
    /// Gives these bits variables of their own, which are taken from `fresh`.
    fn renew(
        &mut self,
        bits: &Bits,
        follow: Follow,
        mut fresh: impl Iterator<Item = u16>,
    ) -> Result<(), Spent> {
        for at in each(bits) {
            let variable = fresh.next().ok_or(Spent)?;
            if let Some(f) = self.from.get_mut(at) {
                *f = variable;
            }
            let (word, bit) = (usize::from(variable) / 64, 1 << (variable % 64));
            if let Some(w) = self.unfollowed.get_mut(word) {
                *w = if follow == Follow::No { *w | bit } else { *w & !bit };
            }
            self.used = self.used.max(variable + 1);
        }
        Ok(())
    }
    /// Variables that nobody has had, and where those are all given away, ones that had been given to
    /// bits which are `renewed` now, or gone, and of which nobody speaks.
    fn fresh(&self, renewed: &Bits, spoken: Option<&Variables>) -> Vec<u16> {
        let mut out: Vec<u16> = (self.used..ZERO).collect();
        let Some(spoken) = spoken else { return out };
        let mut taken = *spoken;
        for (at, &from) in self.from.iter().enumerate() {
            let stays = renewed.get(at / 64).is_some_and(|w| w >> (at % 64) & 1 == 0);
            if let Some(w) = taken.get_mut(usize::from(from) / 64).filter(|_| stays) {
                *w |= 1 << (from % 64);
            }
        }
        let free =
            |v: &u16| taken.get(usize::from(*v) / 64).is_some_and(|w| w >> (v % 64) & 1 == 0);
        out.extend((BITS as u16..self.used).filter(free));
        out
    }
}

/// The places of the bits that are set.
fn each(bits: &Bits) -> impl Iterator<Item = usize> {
    bits.iter().enumerate().flat_map(|(w, &word)| {
        let mut left = word;
        std::iter::from_fn(move || {
            let at = left.trailing_zeros() as usize;
            left &= left.checked_sub(1)?;
            Some(w * 64 + at)
        })
    })
}

/// A header's cube as a region: where nothing has changed yet.
fn same(m: &Match) -> Region {
    let mut r = Region::any();
    r.mask.iter_mut().zip(m.mask).for_each(|(to, from)| *to = from);
    r.value.iter_mut().zip(m.value).for_each(|(to, from)| *to = from);
    r
}

/// What of a region is said of the header as it came in.
pub fn came_in(r: &Region) -> Match {
    let (mut mask, mut value) = ([0; WORDS], [0; WORDS]);
    mask.iter_mut().zip(r.mask).for_each(|(to, from)| *to = from);
    value.iter_mut().zip(r.value).for_each(|(to, from)| *to = from);
    Match { mask, value }
}

/// Whether a region says anything of what comes to light later.
pub fn looks_behind(r: &Region) -> bool {
    r.mask.iter().skip(WORDS).any(|m| *m != 0)
}

impl View {
    /// After one more change.
    ///
    /// # Errors
    /// More has come to light than there is room for: [`View::after_again`] has more.
    pub fn after(&self, edit: &Edit) -> Result<View, Spent> {
        self.changed_by(edit, None)
    }
    /// The same, where variables serve again that stand for nothing any more and of which nobody speaks:
    /// neither the set of frames that this is the view of, nor what is kept from them.
    ///
    /// # Errors
    /// There is no room even so.
    pub fn after_again(&self, edit: &Edit, spoken: &Variables) -> Result<View, Spent> {
        self.changed_by(edit, Some(spoken))
    }
    /// Where these bits come from.
    pub fn origins(&self, bits: &Bits) -> Variables {
        let mut out = [0; VARIABLES];
        let Some(c) = &self.changed else { return out };
        for at in each(bits) {
            let from = usize::from(c.from.get(at).copied().unwrap_or(ZERO));
            if let Some(w) = out.get_mut(from / 64) {
                *w |= 1 << (from % 64);
            }
        }
        out
    }
    fn changed_by(&self, edit: &Edit, spoken: Option<&Variables>) -> Result<View, Spent> {
        let mut c = match &self.changed {
            Some(c) => Changed::clone(c),
            None => Changed::new(),
        };
        match edit {
            Edit::Set(m) => {
                for at in each(&m.mask) {
                    if let Some(f) = c.from.get_mut(at) {
                        *f = ZERO + u16::from(m.bit(at) == Some(true));
                    }
                }
            }
            Edit::Copy(from, to) => {
                let source: Vec<u16> = c.read(*from).collect();
                let first = to.word * 64 + to.shift as usize;
                let target = c.from.iter_mut().skip(first).take(to.width as usize);
                target.zip(source).for_each(|(t, s)| *t = s);
            }
            Edit::Reveal(bits) => {
                let fresh = c.fresh(bits, spoken);
                c.renew(bits, Follow::Yes, fresh.into_iter())?;
            }
            Edit::Unknown(bits) => {
                let fresh = c.fresh(bits, spoken);
                c.renew(bits, Follow::No, fresh.into_iter())?;
            }
        }
        Ok(View { changed: Some(Rc::new(c)) })
    }
    /// The frames whose header is in `m` now.
    pub fn back(&self, m: &Match) -> Option<Region> {
        let Some(c) = &self.changed else { return Some(same(m)) };
        let mut r = Region::any();
        for at in each(&m.mask) {
            let (from, want) = (c.from.get(at).copied().unwrap_or(ZERO), m.bit(at) == Some(true));
            if from >= ZERO {
                if (from > ZERO) != want {
                    return None;
                }
                continue;
            }
            match r.bit(from.into()) {
                Some(is) if is != want => return None,
                _ => r.demand(from.into(), want),
            }
        }
        Some(r)
    }
    /// The smallest cube with all headers that frames of `r` have now.
    pub fn now(&self, r: &Region) -> Match {
        let Some(c) = &self.changed else { return came_in(r) };
        let mut m = Match::any();
        for (at, &from) in c.from.iter().enumerate() {
            let is = if from >= ZERO { Some(from > ZERO) } else { r.bit(from.into()) };
            if let Some(is) = is {
                m.demand(at, is);
            }
        }
        m
    }
    /// Whether `r` says anything of what is not followed.
    pub fn guesses(&self, r: &Region) -> bool {
        let Some(c) = &self.changed else { return false };
        r.mask.iter().zip(c.unfollowed).any(|(m, u)| m & u != 0)
    }
}
