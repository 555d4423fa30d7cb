//! The words of a match and the names of ports.
//!
//! Room: names to meanings, nothing else. What [`Field`] already names is not repeated here.

use super::error::{FlowErrorKind, nearest};
use super::value::number;
use super::{FlowFlags, Names};
use crate::action::PortNo;
use weir_classify::Field;

/// What a word in front of `actions=` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Term {
    Actions,
    Table,
    Priority,
    Cookie,
    IdleTimeout,
    HardTimeout,
    Flag(FlowFlags),
    /// What `ovs-ofctl dump-flows` prints and `add-flows` skips.
    Statistic,
    Refused(&'static str, &'static str),
    /// `tcp` and the like: EtherType and IP protocol.
    Keyword(u16, Option<u8>),
    DlVlan,
    VlanPcp,
    NwTos,
    NwProto,
    Fragment,
    TcpFlags,
    InPort,
    /// A port or ICMP field by a name that tells the protocol.
    Of(Field, u8),
    Plain(Field),
    /// A VDP's own field: which one, and its width.
    User(Field, u32),
}

/// Every word that is not a field's name as [`Field`] has it.
pub(super) const WORDS: &[(&str, Term)] = &[
    ("actions", Term::Actions),
    ("action", Term::Actions),
    ("table", Term::Table),
    ("priority", Term::Priority),
    ("cookie", Term::Cookie),
    ("idle_timeout", Term::IdleTimeout),
    ("hard_timeout", Term::HardTimeout),
    ("send_flow_rem", Term::Flag(FlowFlags::SEND_FLOW_REM)),
    ("check_overlap", Term::Flag(FlowFlags::CHECK_OVERLAP)),
    ("reset_counts", Term::Flag(FlowFlags::RESET_COUNTS)),
    ("no_packet_counts", Term::Flag(FlowFlags::NO_PACKET_COUNTS)),
    ("no_byte_counts", Term::Flag(FlowFlags::NO_BYTE_COUNTS)),
    ("duration", Term::Statistic),
    ("n_packets", Term::Statistic),
    ("n_bytes", Term::Statistic),
    ("idle_age", Term::Statistic),
    ("hard_age", Term::Statistic),
    ("importance", Term::Refused("importance is OpenFlow 1.4's", "leave it out")),
    ("out_port", Term::Refused("only deletions and queries look at out_port", "leave it out")),
    ("out_group", Term::Refused("only deletions and queries look at out_group", "leave it out")),
    ("add", Term::Refused("commands are not read in front of a flow", VERB)),
    ("delete", Term::Refused("commands are not read in front of a flow", VERB)),
    ("delete_strict", Term::Refused("commands are not read in front of a flow", VERB)),
    ("modify", Term::Refused("commands are not read in front of a flow", VERB)),
    ("modify_strict", Term::Refused("commands are not read in front of a flow", VERB)),
    ("ip", Term::Keyword(0x0800, None)),
    ("ipv6", Term::Keyword(0x86dd, None)),
    ("tcp", Term::Keyword(0x0800, Some(6))),
    ("udp", Term::Keyword(0x0800, Some(17))),
    ("icmp", Term::Keyword(0x0800, Some(1))),
    ("sctp", Term::Keyword(0x0800, Some(132))),
    ("tcp6", Term::Keyword(0x86dd, Some(6))),
    ("udp6", Term::Keyword(0x86dd, Some(17))),
    ("icmp6", Term::Keyword(0x86dd, Some(58))),
    ("sctp6", Term::Keyword(0x86dd, Some(132))),
    ("arp", Term::Keyword(0x0806, None)),
    ("rarp", Term::Keyword(0x8035, None)),
    ("mpls", Term::Keyword(0x8847, None)),
    ("mplsm", Term::Keyword(0x8848, None)),
    ("dl_vlan", Term::DlVlan),
    ("dl_vlan_pcp", Term::VlanPcp),
    ("vlan_pcp", Term::VlanPcp),
    ("nw_tos", Term::NwTos),
    ("ip_tos", Term::NwTos),
    ("nw_proto", Term::NwProto),
    ("ip_proto", Term::NwProto),
    ("ip_frag", Term::Fragment),
    ("nw_frag", Term::Fragment),
    ("tcp_flags", Term::TcpFlags),
    ("in_port", Term::InPort),
    ("tcp_src", Term::Of(Field::TpSrc, 6)),
    ("tcp_dst", Term::Of(Field::TpDst, 6)),
    ("udp_src", Term::Of(Field::TpSrc, 17)),
    ("udp_dst", Term::Of(Field::TpDst, 17)),
    ("sctp_src", Term::Of(Field::TpSrc, 132)),
    ("sctp_dst", Term::Of(Field::TpDst, 132)),
    ("icmpv4_type", Term::Of(Field::IcmpType, 1)),
    ("icmpv4_code", Term::Of(Field::IcmpCode, 1)),
    ("icmpv6_type", Term::Of(Field::IcmpType, 58)),
    ("icmpv6_code", Term::Of(Field::IcmpCode, 58)),
];

const VERB: &str = "write the match and actions alone; every line adds a flow";

/// What `word` means.
#[inline]
pub(super) fn term(word: &str, names: &dyn Names) -> Option<Term> {
    if let Some((_, t)) = WORDS.iter().find(|(w, _)| *w == word) {
        return Some(*t);
    }
    if let Some(f) = Field::by_name(word) {
        return Some(Term::Plain(f));
    }
    names.user_fields().by_name(word).map(|(f, u)| Term::User(f, u32::from(u.width_bits())))
}

#[cold]
pub(super) fn unknown(word: &str) -> FlowErrorKind {
    if word.starts_with("reg") || word.starts_with("xreg") || word.starts_with("xxreg") {
        let (what, instead) = ("weir has no registers", "carry state between tables in metadata");
        return FlowErrorKind::Refused { what, instead };
    }
    if word.starts_with("ct_") {
        let (what, instead) = (
            "flows track no connections",
            "match on tcp_flags, or have a VDP with program = \"firewall\" or \"nat\" do it",
        );
        return FlowErrorKind::Refused { what, instead };
    }
    if word.starts_with("tun_") {
        let (what, instead) = ("of a tunnel weir keeps the id alone", "match on tunnel_id");
        return FlowErrorKind::Refused { what, instead };
    }
    if word == "pkt_mark" {
        let (what, instead) = ("weir marks no frames", "carry state between tables in metadata");
        return FlowErrorKind::Refused { what, instead };
    }
    let fields = Field::ALL.iter().map(|f| f.info());
    let all = WORDS
        .iter()
        .filter(|(_, t)| !matches!(t, Term::Refused(..)))
        .map(|(w, _)| w)
        .chain(fields.flat_map(|i| std::iter::once(&i.name).chain(i.aliases)));
    FlowErrorKind::UnknownField { nearest: nearest(word, all) }
}

/// A port as a text names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserved {
    No(PortNo),
    InPort,
    All,
    Flood,
    Normal,
    Controller,
    Local,
}

/// A port: its number, its name (quoted or not), or one of OpenFlow's reserved names.
pub(super) fn port(text: &str, names: &dyn Names) -> Result<Reserved, FlowErrorKind> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let n = number(text, 0xffff_ff00)? as u32;
        // OpenFlow 1.0's reserved numbers: readers of 1.0 and 1.3 would disagree about them.
        return match n {
            0 | 0xff00..=0xffff => Err(FlowErrorKind::BadPort),
            _ => Ok(Reserved::No(PortNo(n))),
        };
    }
    if let Some(quoted) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        return names.port(quoted).map(Reserved::No).ok_or(FlowErrorKind::UnknownPort);
    }
    if let Some(r) = reserved(text) {
        return Ok(r);
    }
    names.port(text).map(Reserved::No).ok_or(FlowErrorKind::UnknownPort)
}

/// Whether a word is one of OpenFlow's reserved ports, so that a port of that name would only be meant where it is quoted.
pub fn is_reserved_port(text: &str) -> bool {
    reserved(text).is_some()
}

/// OpenFlow's reserved ports by name, in any case.
pub(super) fn reserved(text: &str) -> Option<Reserved> {
    const ALL: [(&str, Reserved); 6] = [
        ("in_port", Reserved::InPort),
        ("all", Reserved::All),
        ("flood", Reserved::Flood),
        ("normal", Reserved::Normal),
        ("controller", Reserved::Controller),
        ("local", Reserved::Local),
    ];
    ALL.iter().find(|(n, _)| n.eq_ignore_ascii_case(text)).map(|(_, r)| *r)
}
