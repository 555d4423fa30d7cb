//! What verification says: leaks, each with the frames that show it, and what it could not decide.
//!
//! Room: plain data.

use super::plane::Match;

/// A way from one network to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// Whose frames: the network that sends them or, where another's rules take them, the one that
    /// they are taken from.
    pub from: usize,
    /// Whom they reach. `None`: a part of a shared port that is nobody's.
    pub to: Option<usize>,
    /// What of that network's.
    pub reaches: Reaches,
    /// The VDP whose rules do it, by place.
    pub vdp: usize,
    /// Which of them.
    pub by: By,
    /// The port that the frames come in by, by place.
    pub in_port: usize,
    /// Frames as they come in: every one of them shows it.
    pub frames: Match,
    /// The same as they leave, where they leave.
    pub leaves: Option<Match>,
    /// How sure it is.
    pub sure: Sure,
}

/// What is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reaches {
    /// A port, by place.
    Port(usize),
    /// Rules with their counters: frames are taken that are another's.
    Rules,
    /// Frames that two networks claim with equal priority: which of them has them is chance.
    Claimed,
    /// A controller, by place.
    Controller(usize),
    /// A group with its counters.
    Group(u32),
}

/// What does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum By {
    /// A mapping rule, by place.
    Mapping(usize),
    /// A share that was declared, by place.
    Share(usize),
    /// A rule of a table: its table, and its place there.
    Rule(u8, usize),
    /// The VDP's default.
    Default,
    /// What the VDP does while its controllers are away.
    Alone,
    /// The VDP's program, of its own accord.
    Program,
}

/// How sure a leak is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sure {
    /// Each of the frames shows it, by its header alone.
    Frame,
    /// Some do: it hangs on bytes behind the header too.
    Content,
    /// It hangs on what is not followed, such as a program.
    May,
}

/// Everything that is said of a plane.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Leaks, no more than asked for.
    pub leaks: Vec<Leak>,
    /// Leaks beyond those.
    pub more: usize,
    /// VDPs, by place, whose rules took more work than was allowed.
    pub undecided: Vec<usize>,
    /// Rules that were looked at.
    pub rules: usize,
}

impl Report {
    /// Whether isolation is proved.
    pub fn isolated(&self) -> bool {
        self.leaks.is_empty() && self.more == 0 && self.undecided.is_empty()
    }
}
