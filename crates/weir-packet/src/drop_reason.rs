//! Every way in which a frame may end without leaving by a port, and the counters for them.
//!
//! A bad frame is traffic, not an error: it becomes one of these, counted once, with a label that
//! never changes.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// Why a frame was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum DropReason { $($(#[$doc])* $name,)* }

        impl DropReason {
            /// All reasons, in the order of their counters.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$name,)*];
            /// A stable name for tables, JSON and metrics.
            pub const fn label(self) -> &'static str {
                match self { $(DropReason::$name => $label,)* }
            }
        }
    };
}

reasons! {
    /// Shorter than an Ethernet header.
    Runt = "runt",
    /// A header says one length, the frame another, and an action needs that header.
    Malformed = "malformed",
    /// An explicit drop action, or a rule without output.
    Action = "action-drop",
    /// No rule matched and the VDP's default rule is to drop.
    Miss = "table-miss",
    /// More `goto` steps or nested groups than allowed.
    TooDeep = "too-deep",
    /// TTL or hop limit reached zero.
    TtlExpired = "ttl-expired",
    /// An action needs a header that the frame has not.
    NoSuchHeader = "no-such-header",
    /// No headroom or tailroom left for a push or an encapsulation.
    NoRoom = "no-room",
    /// A meter's band said drop.
    Meter = "meter",
    /// A group without a usable bucket.
    GroupEmpty = "group-empty",
    /// Output to a port that does not exist (any more), or that the VDP may not use.
    NoSuchPort = "no-such-port",
    /// The output port is down or its device is gone.
    PortDown = "port-down",
    /// Longer than the output port takes.
    FrameTooLong = "frame-too-long",
    /// The VDP's queue at the output port was full.
    QueueFull = "queue-full",
    /// The channel to the software stage was full.
    ChannelFull = "channel-full",
    /// The VDP had used up its share of the worker's cycles.
    CpuShare = "cpu-share",
    /// The VDP is isolated: nothing comes in, nothing leaves.
    Isolated = "isolated",
    /// No free frame for a copy or a packet-out.
    NoFrame = "no-frame",
    /// The slow-path program dropped it.
    Program = "program-drop",
    /// A router found no route, or no neighbour answered.
    Unreachable = "unreachable",
    /// The VDP was deleted while the frame was on its way.
    VdpGone = "vdp-gone",
    /// Held for a migration that could not be finished in time and room.
    HoldFull = "hold-full",
    /// The fault injector dropped it, as configured.
    Injected = "injected",
    /// The VDP's configuration of the port says that nothing passes.
    PortConfig = "port-config",
    /// The fragment handling of the VDP says drop.
    Fragment = "fragment",
    /// Handed on to another data plane, and neither came back nor is known to have ended there.
    LostElsewhere = "lost-elsewhere",
    /// A tunnel's outer header marks congestion, and the packet inside can't carry that on (RFC 6040 §4.2).
    Congestion = "congestion",
}

/// One counter per [`DropReason`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCounts {
    counts: [u64; DropReason::ALL.len()],
}

impl Default for DropCounts {
    fn default() -> Self {
        Self { counts: [0; DropReason::ALL.len()] }
    }
}

impl DropCounts {
    /// Counts one frame.
    #[inline]
    pub fn add(&mut self, why: DropReason) {
        self.counts[why as usize] += 1;
    }
    /// Counts `n` frames.
    #[inline]
    pub fn add_n(&mut self, why: DropReason, n: u64) {
        self.counts[why as usize] += n;
    }
    /// Frames dropped for `why`.
    #[inline]
    pub fn get(&self, why: DropReason) -> u64 {
        self.counts[why as usize]
    }
    /// Frames dropped in all.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&r| (r, self.get(r))).filter(|&(_, n)| n > 0)
    }
    /// Adds another set of counters to this one.
    pub fn merge(&mut self, other: &DropCounts) {
        for (a, b) in self.counts.iter_mut().zip(other.counts) {
            *a += b;
        }
    }
}
