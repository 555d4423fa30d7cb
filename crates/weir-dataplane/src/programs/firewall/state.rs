//! What a packet does to a connection: the firewall's judgement, without its table. Touches values
//! only. Called by `mod.rs`, once for each packet.
//!
//! TCP after RFC 9293 §3.3.2, as far as flags tell: sequence numbers are not followed, but a reset from outside of an open connection has to
//! have one that its sender can have (`connection/reset`).

use weir_wire::tcp::Flags;

/// A side of the firewall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Side {
    /// What is protected.
    #[default]
    Inside,
    /// The rest.
    Outside,
}

impl Side {
    /// The other one.
    pub(super) const fn other(self) -> Self {
        match self {
            Side::Inside => Side::Outside,
            Side::Outside => Side::Inside,
        }
    }
}

/// Who has said FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fins {
    None,
    Inside,
    Outside,
    Both,
}

impl Fins {
    #[inline]
    fn and(self, from: Side) -> Self {
        match (self, from) {
            (Fins::None | Fins::Inside, Side::Inside) => Fins::Inside,
            (Fins::None | Fins::Outside, Side::Outside) => Fins::Outside,
            _ => Fins::Both,
        }
    }
}

/// How far a connection is. `by`: who began it. Two bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// TCP: SYN seen.
    Opening { by: Side },
    /// TCP: both sides have sent a SYN of their own, and nobody has acknowledged one (RFC 9293 §3.5).
    Crossed,
    /// TCP: SYN and ACK came back. `by`: who has yet to acknowledge.
    Answered { by: Side },
    /// The same, and who answered has said FIN.
    AnsweredFin { by: Side },
    /// TCP: a segment seen that is not its first, and nothing of the other side.
    Midst { by: Side },
    /// The same, and who sent that has said FIN.
    MidstFin { by: Side },
    /// TCP: both sides have spoken; who has said FIN.
    Open(Fins),
    /// TCP: reset. What is still on its way passes, until its time is over.
    #[default]
    Reset,
    /// UDP: one side alone has spoken.
    OneWay { by: Side },
    /// UDP: both have.
    BothWays,
    /// An ICMP query.
    Query { by: Side },
}

/// How a connection's time is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    TcpOpening,
    TcpOpen,
    TcpClosing,
    UdpOneWay,
    UdpBothWays,
    Query,
}

impl Phase {
    pub const COUNT: usize = 6;
    /// In the order of their numbers.
    pub const ALL: [Phase; Phase::COUNT] = [
        Phase::TcpOpening,
        Phase::TcpOpen,
        Phase::TcpClosing,
        Phase::UdpOneWay,
        Phase::UdpBothWays,
        Phase::Query,
    ];
}

impl State {
    #[inline]
    pub fn phase(self) -> Phase {
        match self {
            State::Opening { .. }
            | State::Crossed
            | State::Answered { .. }
            | State::AnsweredFin { .. }
            | State::Midst { .. }
            | State::MidstFin { .. } => Phase::TcpOpening,
            State::Reset | State::Open(Fins::Both) => Phase::TcpClosing,
            State::Open(_) => Phase::TcpOpen,
            State::OneWay { .. } => Phase::UdpOneWay,
            State::BothWays => Phase::UdpBothWays,
            State::Query { .. } => Phase::Query,
        }
    }
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Pass; the connection is so now, and its time begins again.
    Pass(State),
    /// Pass; nothing changes.
    Let,
    /// Pass; if it is believed, it is a [`State::Reset`] now.
    Reset,
    /// It would begin a connection, if its side may.
    Begin(State),
    /// It would belong to one that began unseen.
    Midstream(State),
    /// It belongs to nothing.
    Invalid,
}

fn has(flags: Flags, one: Flags) -> bool {
    flags.contains(one)
}

/// A segment from `from` of a connection in `state`, if there is one.
#[inline]
pub(super) fn tcp(state: Option<State>, from: Side, flags: Flags) -> Verdict {
    let (syn, ack) = (has(flags, Flags::SYN), has(flags, Flags::ACK));
    let (fin, rst) = (has(flags, Flags::FIN), has(flags, Flags::RST));
    if syn && (fin || rst) || !(syn || ack || rst) {
        return Verdict::Invalid;
    }
    let begins = syn && !ack;
    let begin = Verdict::Begin(State::Opening { by: from });
    let open = |fins: Fins| Verdict::Pass(State::Open(if fin { fins.and(from) } else { fins }));
    let midst = |by| if fin { State::MidstFin { by } } else { State::Midst { by } };
    match state {
        None if begins => begin,
        None if ack && !syn && !rst => Verdict::Midstream(midst(from)),
        None => Verdict::Invalid,
        Some(State::Reset) if begins => begin,
        Some(State::Reset) => Verdict::Let,
        Some(State::Open(_)) if rst => Verdict::Reset,
        Some(_) if rst => Verdict::Pass(State::Reset),
        Some(s @ State::Opening { by }) => match from == by {
            true if begins => Verdict::Pass(s),
            // Of the same four: who began has asked this very peer.
            false if begins => Verdict::Pass(State::Crossed),
            false if syn && ack => Verdict::Pass(State::Answered { by }),
            // Who has an older connection of these ports still asks whether it is meant, and is told by a reset (RFC 5961 §4.2).
            false if ack && !fin => Verdict::Let,
            _ => Verdict::Invalid,
        },
        Some(s @ State::Crossed) if begins => Verdict::Pass(s),
        Some(State::Crossed) if syn => Verdict::Pass(State::Answered { by: from.other() }),
        // As above.
        Some(State::Crossed) if !fin => Verdict::Let,
        Some(State::Crossed) => Verdict::Invalid,
        // Who began may acknowledge by SYN and ACK: both do where their SYNs have met.
        Some(s @ State::Answered { by }) => match from == by {
            true if begins => Verdict::Pass(s),
            true => open(Fins::None),
            // What comes with or right behind the answer, before the first side's ACK (RFC 7413 §4.2.1).
            false if ack && fin => Verdict::Pass(State::AnsweredFin { by }),
            false if ack => Verdict::Pass(s),
            _ => Verdict::Invalid,
        },
        Some(s @ State::AnsweredFin { by }) => match from == by {
            true if begins => Verdict::Pass(s),
            true => open(Fins::None.and(by.other())),
            false if ack => Verdict::Pass(s),
            _ => Verdict::Invalid,
        },
        Some(State::Midst { .. } | State::MidstFin { .. }) if begins => begin,
        Some(State::Midst { .. } | State::MidstFin { .. }) if syn => Verdict::Let,
        Some(State::Midst { by }) => match from == by {
            true => Verdict::Pass(midst(by)),
            false => open(Fins::None),
        },
        Some(s @ State::MidstFin { by }) => match from == by {
            true => Verdict::Pass(s),
            false => open(Fins::None.and(by)),
        },
        Some(State::Open(Fins::Both)) if begins => begin,
        // The peer answers a SYN in the midst of a connection by an ACK (RFC 5961 §4).
        Some(State::Open(_)) if syn => Verdict::Let,
        Some(State::Open(fins)) => open(fins),
        Some(State::OneWay { .. } | State::BothWays | State::Query { .. }) => Verdict::Invalid,
    }
}

/// A datagram.
#[inline]
pub(super) fn udp(state: Option<State>, from: Side) -> Verdict {
    match state {
        Some(State::OneWay { by }) if by != from => Verdict::Pass(State::BothWays),
        Some(s) => Verdict::Pass(s),
        None => Verdict::Begin(State::OneWay { by: from }),
    }
}

/// An ICMP query, or the answer to one.
#[inline]
pub(super) fn query(state: Option<State>, from: Side, asks: bool) -> Verdict {
    match state {
        Some(s @ State::Query { by }) if (by == from) == asks => Verdict::Pass(s),
        None if asks => Verdict::Begin(State::Query { by: from }),
        _ => Verdict::Invalid,
    }
}
