//! Ports: numbers, descriptions, changes (1.0 §5.2.1, 1.3 §7.2.1).

/// A port number, as 1.3 counts them; 1.0's 16-bit reserved numbers stand for the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub u32);

impl Port {
    /// The highest number of a real port (OFPP_MAX).
    pub const MAX: Port = Port(0xffff_ff00);
    /// Back where it came from; must be asked for by name.
    pub const IN_PORT: Port = Port(0xffff_fff8);
    /// Through the flow tables (packet-out only).
    pub const TABLE: Port = Port(0xffff_fff9);
    /// As a switch without OpenFlow would.
    pub const NORMAL: Port = Port(0xffff_fffa);
    /// All ports that take part in flooding, but the ingress port.
    pub const FLOOD: Port = Port(0xffff_fffb);
    /// All ports but the ingress port.
    pub const ALL: Port = Port(0xffff_fffc);
    /// The controllers.
    pub const CONTROLLER: Port = Port(0xffff_fffd);
    /// The switch's own stack.
    pub const LOCAL: Port = Port(0xffff_fffe);
    /// No port in particular (1.0's NONE).
    pub const ANY: Port = Port(0xffff_ffff);

    /// Whether it is a real port's number.
    pub const fn is_physical(self) -> bool {
        self.0 > 0 && self.0 <= Port::MAX.0
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match *self {
            Port::IN_PORT => "IN_PORT",
            Port::TABLE => "TABLE",
            Port::NORMAL => "NORMAL",
            Port::FLOOD => "FLOOD",
            Port::ALL => "ALL",
            Port::CONTROLLER => "CONTROLLER",
            Port::LOCAL => "LOCAL",
            Port::ANY => "ANY",
            Port(n) => return n.fmt(f),
        })
    }
}

macro_rules! bits {
    ($(#[$m:meta])* $name:ident: $int:ty { $($(#[$d:meta])* $id:ident = $v:expr;)* }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $int);
        impl $name {
            $($(#[$d])* pub const $id: $name = $name($v);)*
            /// Every bit that has a name.
            pub const KNOWN: $name = $name(0 $(| $v)*);
            /// Whether all bits of `other` are set.
            pub const fn has(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }
        }
        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, o: Self) -> Self {
                Self(self.0 | o.0)
            }
        }
    };
}
pub(super) use bits;

bits! {
    /// What an administrator has said of a port, as 1.3 numbers the bits. NO_STP and NO_RECV_STP
    /// exist in 1.0 only.
    PortConfig: u32 {
        /// Administratively down.
        DOWN = 1 << 0;
        /// 1.0 only: no 802.1D spanning tree on this port.
        NO_STP = 1 << 1;
        /// Drop what is received.
        NO_RECV = 1 << 2;
        /// 1.0 only: drop received 802.1D packets.
        NO_RECV_STP = 1 << 3;
        /// 1.0 only: leave the port out when flooding.
        NO_FLOOD = 1 << 4;
        /// Drop what is sent.
        NO_FWD = 1 << 5;
        /// No packet-in for this port.
        NO_PACKET_IN = 1 << 6;
    }
}
bits! {
    /// What the port itself says, as 1.3 numbers the bits (1.0's STP states in bits 8 and 9).
    PortState: u32 {
        /// No physical link.
        LINK_DOWN = 1 << 0;
        /// 1.3 only: blocked.
        BLOCKED = 1 << 1;
        /// 1.3 only: live for fast failover.
        LIVE = 1 << 2;
    }
}
bits! {
    /// Rates, media and negotiation, as 1.3 numbers the bits.
    PortFeatures: u32 {
        /// 10 Mb/s half duplex.
        HD_10M = 1 << 0;
        /// 10 Mb/s full duplex.
        FD_10M = 1 << 1;
        /// 100 Mb/s half duplex.
        HD_100M = 1 << 2;
        /// 100 Mb/s full duplex.
        FD_100M = 1 << 3;
        /// 1 Gb/s half duplex.
        HD_1G = 1 << 4;
        /// 1 Gb/s full duplex.
        FD_1G = 1 << 5;
        /// 10 Gb/s full duplex.
        FD_10G = 1 << 6;
        /// 1.3 only: 40 Gb/s.
        FD_40G = 1 << 7;
        /// 1.3 only: 100 Gb/s.
        FD_100G = 1 << 8;
        /// 1.3 only: 1 Tb/s.
        FD_1T = 1 << 9;
        /// 1.3 only: another rate.
        OTHER = 1 << 10;
        /// Copper.
        COPPER = 1 << 11;
        /// Fibre.
        FIBER = 1 << 12;
        /// Auto-negotiation.
        AUTONEG = 1 << 13;
        /// Pause.
        PAUSE = 1 << 14;
        /// Asymmetric pause.
        PAUSE_ASYM = 1 << 15;
    }
}

/// A port as the switch describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortDesc {
    /// Its number.
    pub no: Port,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its name, at most 15 bytes on the wire.
    pub name: String,
    /// What was asked of it.
    pub config: PortConfig,
    /// How it is.
    pub state: PortState,
    /// Features in use.
    pub current: PortFeatures,
    /// Features advertised.
    pub advertised: PortFeatures,
    /// Features supported.
    pub supported: PortFeatures,
    /// Features the other end advertises.
    pub peer: PortFeatures,
    /// 1.3 only: current rate in kb/s.
    pub current_kbps: u32,
    /// 1.3 only: highest rate in kb/s.
    pub max_kbps: u32,
}

impl PortDesc {
    /// A port that is up, of which nothing else is said.
    pub fn new(no: Port, mac: [u8; 6], name: String) -> Self {
        Self {
            no,
            mac,
            name,
            config: PortConfig::default(),
            state: PortState::default(),
            current: PortFeatures::default(),
            advertised: PortFeatures::default(),
            supported: PortFeatures::default(),
            peer: PortFeatures::default(),
            current_kbps: 0,
            max_kbps: 0,
        }
    }
}

/// OFPT_PORT_MOD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMod {
    /// Which port.
    pub port: Port,
    /// Its MAC address, as a check.
    pub mac: [u8; 6],
    /// New values.
    pub config: PortConfig,
    /// Which of them count.
    pub mask: PortConfig,
    /// Features to advertise; zero: leave.
    pub advertise: PortFeatures,
}

/// Why a port status was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortReason {
    /// Added (0).
    Add,
    /// Removed (1).
    Delete,
    /// Some attribute changed (2).
    Modify,
}

/// OFPT_PORT_STATUS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// Why.
    pub reason: PortReason,
    /// The port.
    pub desc: PortDesc,
}
