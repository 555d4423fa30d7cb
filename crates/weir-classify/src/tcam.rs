//! The TCAM as a budget: entries, given to VDPs in slices, and the blocks that a lookup wakes.
//!
//! Room: control side; no rule passes here, only their numbers. Source: paper 004 §4.3 (two parts,
//! slices, a supervisor that knows every slice's owner, and blocks that need not be woken) and
//! §4.4 (two sets of API). A ternary rule costs one entry.
//!
//! - *Logical*, for a tenant, in entries of its own: [`Tcam::reserve`], [`Tcam::guarantee`],
//!   [`Tcam::grow`], [`Tcam::borrow_slice`], [`Tcam::shrink`], [`Tcam::release`], [`Tcam::add`],
//!   [`Tcam::remove`], [`Tcam::give_back_idle`], [`Tcam::usage`].
//! - *Physical*, for the supervisor, in slices: [`Tcam::slices`], [`Tcam::assign`],
//!   [`Tcam::free`], [`Tcam::blocks_woken`], [`Tcam::activation`].
//!
//! A refused call changes nothing. Slices for a VDP are chosen so that they lie in few blocks: in
//! the blocks it has already, then in the fullest block that takes all the rest, or, if none does,
//! in the emptiest ones.

use crate::tcam_error::TcamError;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// The two parts of the TCAM (004 §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Rules that map a frame to its VDP.
    Mapping,
    /// Rules that map a VDP's frame to an action result.
    Action,
}

impl Part {
    /// Both.
    pub const ALL: [Part; 2] = [Part::Mapping, Part::Action];
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Mapping => "mapping",
            Part::Action => "action",
        })
    }
}

/// Whose a slice is: a VDP, by its VID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(pub u32);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VDP {}", self.0)
    }
}

/// The shape of a TCAM, in numbers of entries and slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Entries of the mapping part; a multiple of `slice_entries`.
    pub mapping_entries: u32,
    /// Entries of the action part; a multiple of `slice_entries`.
    pub action_entries: u32,
    /// Entries of a slice, the unit in which they are given.
    pub slice_entries: u32,
    /// Slices of a block, the unit in which a lookup wakes the TCAM.
    pub block_slices: u32,
}

/// What a VDP has of a part, in entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Entries that rules use.
    pub used: u32,
    /// Entries in its slices.
    pub allowed: u32,
    /// Its slices.
    pub slices: u32,
    /// Entries in those slices that stay its own; the others go back when they are idle.
    pub reserved: u32,
}

/// Blocks that one lookup wakes, beside those of the whole TCAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Blocks of the mapping part that hold any VDP's slices: all of them must be asked, since the
    /// VDP is not known before.
    pub mapping: u32,
    /// Blocks of the action part that hold this VDP's slices.
    pub action: u32,
    /// All blocks of both parts, which a TCAM without slices wakes.
    pub whole: u32,
}

impl Activation {
    /// The part of the TCAM that is woken, 0 to 1: what remains of its power per lookup if blocks
    /// at rest draw none.
    pub fn share(&self) -> f64 {
        if self.whole == 0 {
            return 0.0;
        }
        f64::from(self.mapping + self.action) / f64::from(self.whole)
    }
}

/// Entries that a part may have, so that the map of its slices stays small.
const MOST_ENTRIES: u32 = 1 << 26;

#[derive(Clone, Debug, Default)]
struct Share {
    /// Which they are, the area says.
    slices: u32,
    /// How many of them each block has that has any, by its number.
    blocks: Vec<(u32, u32)>,
    /// How many of them stay, whether used or not; the others are borrowed.
    reserved: u32,
    used: u32,
}

impl Share {
    fn gain(&mut self, block: u32) {
        self.slices += 1;
        match self.blocks.binary_search_by_key(&block, |b| b.0) {
            Ok(at) => self.blocks.get_mut(at).into_iter().for_each(|b| b.1 += 1),
            Err(at) => {
                // Most have one.
                if self.blocks.is_empty() {
                    self.blocks.reserve_exact(1);
                }
                self.blocks.insert(at, (block, 1));
            }
        }
    }
    fn lose(&mut self, block: u32) {
        let Ok(at) = self.blocks.binary_search_by_key(&block, |b| b.0) else { return };
        self.slices -= 1;
        match self.blocks.get_mut(at) {
            Some((_, n)) if *n > 1 => *n -= 1,
            _ => _ = self.blocks.remove(at),
        }
    }
}

#[derive(Clone, Debug)]
struct Area {
    part: Part,
    owners: Vec<Option<Owner>>,
    /// Free slices of each block.
    free: Vec<u32>,
    /// And of all.
    free_slices: u32,
    shares: BTreeMap<Owner, Share>,
}

/// Who has which entries; see the head of this file.
#[derive(Clone, Debug)]
pub struct Tcam {
    slice_entries: u32,
    block_slices: u32,
    mapping: Area,
    action: Area,
}

impl Area {
    fn new(part: Part, slices: u32, block_slices: u32) -> Self {
        let blocks = slices.div_ceil(block_slices);
        let free = (0..blocks).map(|b| (slices - b * block_slices).min(block_slices)).collect();
        Self {
            part,
            owners: vec![None; slices as usize],
            free,
            free_slices: slices,
            shares: BTreeMap::new(),
        }
    }
    fn share(&self, owner: Owner) -> Result<&Share, TcamError> {
        self.shares.get(&owner).ok_or(TcamError::NoShare { part: self.part, owner })
    }
    fn share_mut(&mut self, owner: Owner) -> Result<&mut Share, TcamError> {
        self.shares.get_mut(&owner).ok_or(TcamError::NoShare { part: self.part, owner })
    }
    fn slice(&self, slice: u32) -> Result<Option<Owner>, TcamError> {
        let slices = self.owners.len() as u32;
        let none = TcamError::NoSlice { part: self.part, slice, slices };
        self.owners.get(slice as usize).copied().ok_or(none)
    }
    /// Those of a block, which may be said to be larger than all that there is.
    fn slices_of(&self, block: u32, block_slices: u32) -> Range<u32> {
        let first = block * block_slices;
        first..first.saturating_add(block_slices).min(self.owners.len() as u32)
    }
    /// Changes the owner of a slice that is free before or after.
    fn set(&mut self, slice: u32, owner: Option<Owner>, block_slices: u32) {
        let Some(place) = self.owners.get_mut(slice as usize) else { return };
        let before = std::mem::replace(place, owner);
        let block = slice / block_slices;
        let (freed, taken) = (u32::from(owner.is_none()), u32::from(before.is_none()));
        if let Some(free) = self.free.get_mut(block as usize) {
            *free = *free + freed - taken;
        }
        self.free_slices = self.free_slices + freed - taken;
        if let Some(share) = before.and_then(|o| self.shares.get_mut(&o)) {
            share.lose(block);
        }
        if let Some(share) = owner.and_then(|o| self.shares.get_mut(&o)) {
            share.gain(block);
        }
    }
    /// The block to take slices from when `owner` still needs `count`.
    fn best_block(&self, owner: Owner, count: u32) -> Option<u32> {
        let free = |b: &u32| self.free.get(*b as usize).copied().unwrap_or(0);
        // From the last: a share that grows has room there, if anywhere.
        let mut mine = self.shares.get(&owner)?.blocks.iter().rev().map(|b| b.0);
        if let Some(block) = mine.find(|b| free(b) > 0) {
            return Some(block);
        }
        let blocks = || (0u32..).zip(&self.free).filter(|&(_, &free)| free > 0);
        blocks()
            .filter(|&(_, &free)| free >= count)
            .min_by_key(|&(_, &free)| free)
            .or_else(|| blocks().max_by_key(|&(b, &free)| (free, Reverse(b))))
            .map(|(b, _)| b)
    }
    /// Gives `count` slices to `owner`, who has a share; there are enough.
    fn take(&mut self, owner: Owner, mut count: u32, block_slices: u32) {
        while count > 0 {
            let Some(block) = self.best_block(owner, count) else { return };
            let free: Vec<u32> = self
                .slices_of(block, block_slices)
                .filter(|&s| matches!(self.slice(s), Ok(None)))
                .take(count as usize)
                .collect();
            count -= free.len() as u32;
            free.iter().for_each(|&s| self.set(s, Some(owner), block_slices));
        }
    }
    /// Takes `count` slices from `owner`, those first whose block it leaves soonest.
    fn give_back(&mut self, owner: Owner, count: u32, block_slices: u32) {
        let Some(share) = self.shares.get(&owner) else { return };
        let mut blocks: Vec<(u32, u32)> = share.blocks.iter().map(|&(b, n)| (n, b)).collect();
        blocks.sort_unstable();
        let of = |b: u32| {
            let all = self.slices_of(b, block_slices);
            all.filter(|&s| matches!(self.slice(s), Ok(Some(whose)) if whose == owner))
        };
        let gone: Vec<u32> = blocks.iter().flat_map(|&(_, b)| of(b)).take(count as usize).collect();
        gone.iter().for_each(|&s| self.set(s, None, block_slices));
    }
}

impl Tcam {
    /// A TCAM whose slices are all free.
    ///
    /// # Errors
    /// [`TcamError::Geometry`].
    pub fn new(g: Geometry) -> Result<Self, TcamError> {
        let area = |part, entries: u32| {
            if g.slice_entries == 0
                || g.block_slices == 0
                || !entries.is_multiple_of(g.slice_entries)
                || entries > MOST_ENTRIES
            {
                let Geometry { slice_entries, block_slices, .. } = g;
                return Err(TcamError::Geometry { entries, slice_entries, block_slices });
            }
            Ok(Area::new(part, entries / g.slice_entries, g.block_slices))
        };
        Ok(Self {
            slice_entries: g.slice_entries,
            block_slices: g.block_slices,
            mapping: area(Part::Mapping, g.mapping_entries)?,
            action: area(Part::Action, g.action_entries)?,
        })
    }

    fn area(&self, part: Part) -> &Area {
        match part {
            Part::Mapping => &self.mapping,
            Part::Action => &self.action,
        }
    }
    fn area_mut(&mut self, part: Part) -> &mut Area {
        match part {
            Part::Mapping => &mut self.mapping,
            Part::Action => &mut self.action,
        }
    }
    fn allowed(&self, share: &Share) -> u32 {
        share.slices * self.slice_entries
    }
    /// The slices that `entries` take, if so many are free.
    fn fitting(&self, part: Part, entries: u32) -> Result<u32, TcamError> {
        let slices = entries.div_ceil(self.slice_entries);
        if slices > self.area(part).free_slices {
            let asked = u64::from(slices) * u64::from(self.slice_entries);
            return Err(TcamError::Full { part, asked, free: self.free_entries(part) });
        }
        Ok(slices)
    }

    // The logical side.

    /// Gives `owner` its first share of a part: at least `entries`, in whole slices. Returns how
    /// many it got. Zero is a share, too.
    ///
    /// # Errors
    /// [`TcamError::HasShare`], [`TcamError::Full`].
    pub fn reserve(&mut self, part: Part, owner: Owner, entries: u32) -> Result<u32, TcamError> {
        if let Ok(share) = self.area(part).share(owner) {
            let allowed = self.allowed(share);
            return Err(TcamError::HasShare { part, owner, allowed });
        }
        let slices = self.fitting(part, entries)?;
        let block_slices = self.block_slices;
        let area = self.area_mut(part);
        area.shares.insert(owner, Share { reserved: slices, ..Share::default() });
        area.take(owner, slices, block_slices);
        Ok(slices * self.slice_entries)
    }

    /// Adds at least `entries` to `owner`'s share, in whole slices, while it forwards. Returns how
    /// many it has now.
    ///
    /// # Errors
    /// [`TcamError::NoShare`], [`TcamError::Full`].
    pub fn grow(&mut self, part: Part, owner: Owner, entries: u32) -> Result<u32, TcamError> {
        self.area(part).share(owner)?;
        let slices = self.fitting(part, entries)?;
        let block_slices = self.block_slices;
        let area = self.area_mut(part);
        area.take(owner, slices, block_slices);
        area.share_mut(owner)?.reserved += slices;
        Ok(self.usage(part, owner).allowed)
    }

    /// Lends `owner` one more slice, which goes back when it is idle
    /// ([`Tcam::give_back_idle`]).
    ///
    /// # Errors
    /// [`TcamError::NoShare`], [`TcamError::Full`].
    pub fn borrow_slice(&mut self, part: Part, owner: Owner) -> Result<(), TcamError> {
        self.area(part).share(owner)?;
        let slices = self.fitting(part, 1)?;
        let block_slices = self.block_slices;
        self.area_mut(part).take(owner, slices, block_slices);
        Ok(())
    }

    /// Takes back what `owner` borrowed and has no rules for, once that is a sixteenth of its slices,
    /// and except that half a slice stays free: a rule that comes and goes moves no slice. Returns
    /// how many entries became free.
    pub fn give_back_idle(&mut self, part: Part, owner: Owner) -> u32 {
        let Ok(share) = self.area(part).share(owner) else { return 0 };
        let (slices, used) = (share.slices, share.used);
        let kept = used.saturating_add(self.slice_entries / 2).div_ceil(self.slice_entries);
        let idle = slices.saturating_sub(kept.max(share.reserved));
        if idle == 0 || idle.saturating_mul(16) < slices {
            return 0;
        }
        let block_slices = self.block_slices;
        self.area_mut(part).give_back(owner, idle, block_slices);
        idle * self.slice_entries
    }

    /// Makes `owner`'s share at least `entries`, in whole slices that stay its own, and takes back
    /// what it has beyond them and does not use. Returns how many it has now.
    ///
    /// # Errors
    /// [`TcamError::NoShare`], [`TcamError::Full`].
    pub fn guarantee(&mut self, part: Part, owner: Owner, entries: u32) -> Result<u32, TcamError> {
        let share = self.area(part).share(owner)?;
        let (has, used) = (share.slices, share.used.div_ceil(self.slice_entries));
        let wanted = entries.div_ceil(self.slice_entries);
        let more = wanted.saturating_sub(has);
        self.fitting(part, more.saturating_mul(self.slice_entries))?;
        let block_slices = self.block_slices;
        let area = self.area_mut(part);
        area.take(owner, more, block_slices);
        area.give_back(owner, has.saturating_sub(wanted.max(used)), block_slices);
        area.share_mut(owner)?.reserved = wanted;
        Ok(self.usage(part, owner).allowed)
    }

    /// Takes up to `entries` from `owner`'s share, as many as make whole slices. Returns how many
    /// it has now.
    ///
    /// # Errors
    /// [`TcamError::NoShare`]; [`TcamError::InUse`] where its rules would not fit any more.
    pub fn shrink(&mut self, part: Part, owner: Owner, entries: u32) -> Result<u32, TcamError> {
        let share = self.area(part).share(owner)?;
        let slices = (entries / self.slice_entries).min(share.slices);
        let (used, left) = (share.used, self.allowed(share) - slices * self.slice_entries);
        if used > left {
            return Err(TcamError::InUse { part, owner, used, left });
        }
        let block_slices = self.block_slices;
        let area = self.area_mut(part);
        area.give_back(owner, slices, block_slices);
        let share = area.share_mut(owner)?;
        share.reserved = share.reserved.min(share.slices);
        Ok(left)
    }

    /// Ends `owner`'s shares of both parts, with whatever rules used them. Returns the entries
    /// that became free.
    pub fn release(&mut self, owner: Owner) -> u32 {
        let mut freed = 0;
        for part in Part::ALL {
            freed += self.usage(part, owner).allowed;
            let block_slices = self.block_slices;
            let area = self.area_mut(part);
            area.give_back(owner, u32::MAX, block_slices);
            area.shares.remove(&owner);
        }
        freed
    }

    /// Accounts for `entries` rules that `owner` adds.
    ///
    /// # Errors
    /// [`TcamError::NoShare`]; [`TcamError::Spent`] where its share does not hold them.
    pub fn add(&mut self, part: Part, owner: Owner, entries: u32) -> Result<(), TcamError> {
        let share = self.area(part).share(owner)?;
        let (used, allowed) = (share.used, self.allowed(share));
        if entries > allowed.saturating_sub(used) {
            return Err(TcamError::Spent { part, owner, asked: entries, used, allowed });
        }
        self.area_mut(part).share_mut(owner)?.used += entries;
        Ok(())
    }

    /// Accounts for `entries` rules that `owner` removes.
    ///
    /// # Errors
    /// [`TcamError::NoShare`]; [`TcamError::NotThere`] where it uses fewer.
    pub fn remove(&mut self, part: Part, owner: Owner, entries: u32) -> Result<(), TcamError> {
        let share = self.area_mut(part).share_mut(owner)?;
        let Some(left) = share.used.checked_sub(entries) else {
            let used = share.used;
            return Err(TcamError::NotThere { part, owner, asked: entries, used });
        };
        share.used = left;
        Ok(())
    }

    /// What `owner` has of a part; nothing without a share.
    pub fn usage(&self, part: Part, owner: Owner) -> Usage {
        self.area(part).share(owner).map_or_else(
            |_| Usage::default(),
            |share| Usage {
                used: share.used,
                allowed: self.allowed(share),
                slices: share.slices,
                reserved: share.reserved * self.slice_entries,
            },
        )
    }

    // The physical side.

    /// Entries of a slice.
    pub fn slice_entries(&self) -> u32 {
        self.slice_entries
    }
    /// Slices of a block.
    pub fn block_slices(&self) -> u32 {
        self.block_slices
    }
    /// Entries of a part.
    pub fn entries(&self, part: Part) -> u32 {
        self.slices(part).len() as u32 * self.slice_entries
    }
    /// Entries of a part in free slices.
    pub fn free_entries(&self, part: Part) -> u32 {
        self.area(part).free_slices * self.slice_entries
    }
    /// Every slice of a part and whose it is.
    pub fn slices(&self, part: Part) -> &[Option<Owner>] {
        &self.area(part).owners
    }
    /// Who has a share of a part.
    pub fn owners(&self, part: Part) -> impl Iterator<Item = Owner> + '_ {
        self.area(part).shares.keys().copied()
    }

    /// Gives `owner` one certain slice, and a share if it has none.
    ///
    /// # Errors
    /// [`TcamError::NoSlice`], [`TcamError::Taken`].
    pub fn assign(&mut self, part: Part, slice: u32, owner: Owner) -> Result<(), TcamError> {
        let block_slices = self.block_slices;
        let area = self.area_mut(part);
        if let Some(owner) = area.slice(slice)? {
            return Err(TcamError::Taken { part, slice, owner });
        }
        area.shares.entry(owner).or_default().reserved += 1;
        area.set(slice, Some(owner), block_slices);
        Ok(())
    }

    /// Takes one certain slice from its owner, whose share stays.
    ///
    /// # Errors
    /// [`TcamError::NoSlice`], [`TcamError::Free`]; [`TcamError::InUse`] where the owner's rules
    /// would not fit any more.
    pub fn free(&mut self, part: Part, slice: u32) -> Result<(), TcamError> {
        let owner = self.area(part).slice(slice)?.ok_or(TcamError::Free { part, slice })?;
        let usage = self.usage(part, owner);
        let left = usage.allowed.saturating_sub(self.slice_entries);
        if usage.used > left {
            return Err(TcamError::InUse { part, owner, used: usage.used, left });
        }
        let block_slices = self.block_slices;
        let area = self.area_mut(part);
        area.set(slice, None, block_slices);
        let share = area.share_mut(owner)?;
        share.reserved = share.reserved.min(share.slices);
        Ok(())
    }

    /// Blocks of a part.
    pub fn blocks(&self, part: Part) -> u32 {
        self.area(part).free.len() as u32
    }
    /// Blocks of a part that hold any VDP's slices.
    pub fn blocks_in_use(&self, part: Part) -> u32 {
        let owners = self.area(part).owners.chunks(self.block_slices as usize);
        owners.filter(|b| b.iter().any(Option::is_some)).count() as u32
    }
    /// Blocks of a part that hold `owner`'s slices.
    pub fn blocks_woken(&self, part: Part, owner: Owner) -> u32 {
        self.area(part).share(owner).map_or(0, |share| share.blocks.len() as u32)
    }
    /// What one frame of `owner`'s wakes, mapping and matching together, beside the whole TCAM
    /// (004's power argument).
    pub fn activation(&self, owner: Owner) -> Activation {
        Activation {
            mapping: self.blocks_in_use(Part::Mapping),
            action: self.blocks_woken(Part::Action, owner),
            whole: self.blocks(Part::Mapping) + self.blocks(Part::Action),
        }
    }
}
