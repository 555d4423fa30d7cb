//! What IPv4 and IPv6 share: the protocol numbers. Touches nothing.

use crate::view::open_enum;

open_enum! {
    /// What follows an IP header (IANA, protocol-numbers).
    Protocol: u8 {
        /// IPv6 hop-by-hop options (RFC 8200 §4.3).
        HopByHop = 0,
        /// RFC 792.
        Icmp = 1,
        /// RFC 3376.
        Igmp = 2,
        /// IPv4 in IP (RFC 2003).
        Ipv4 = 4,
        /// RFC 9293.
        Tcp = 6,
        /// RFC 768.
        Udp = 17,
        /// IPv6 in IP (RFC 2473).
        Ipv6 = 41,
        /// IPv6 routing header (RFC 8200 §4.4).
        Routing = 43,
        /// IPv6 fragment header (RFC 8200 §4.5).
        Fragment = 44,
        /// RFC 2784.
        Gre = 47,
        /// Encapsulating security payload (RFC 4303).
        Esp = 50,
        /// Authentication header (RFC 4302).
        Ah = 51,
        /// RFC 4443.
        Icmpv6 = 58,
        /// Nothing follows (RFC 8200 §4.7).
        NoNext = 59,
        /// IPv6 destination options (RFC 8200 §4.6).
        Destination = 60,
        /// RFC 9260.
        Sctp = 132,
        /// RFC 4023.
        Mpls = 137,
    }
}

impl Protocol {
    /// An IPv6 extension header that can be walked over, or ESP, which cannot.
    pub const fn is_ipv6_extension(self) -> bool {
        matches!(
            self,
            Protocol::HopByHop
                | Protocol::Routing
                | Protocol::Fragment
                | Protocol::Esp
                | Protocol::Ah
                | Protocol::Destination
        )
    }
}
