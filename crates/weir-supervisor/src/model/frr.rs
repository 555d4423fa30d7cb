//! Which of FRR's daemons a configuration is for, as far as its sections say: what none of a router's daemons reads would do nothing, and
//! FRR does not say so.
//!
//! Room: text. Called by [`super::router`]. Source: FRR 8.4, vtysh/extract.pl, which says what each daemon reads.

/// The daemon of static routes, which FRR's own service starts with zebra.
pub(super) const STATICD: &str = "staticd";

/// What begins a section, and whose it is.
const SECTIONS: [(&[&str], &str); 15] = [
    (&["router", "babel"], "babeld"),
    (&["bfd"], "bfdd"),
    (&["router", "bgp"], "bgpd"),
    (&["router", "eigrp"], "eigrpd"),
    (&["router", "isis"], "isisd"),
    (&["mpls", "ldp"], "ldpd"),
    (&["router", "openfabric"], "fabricd"),
    (&["router", "ospf"], "ospfd"),
    (&["router", "ospf6"], "ospf6d"),
    (&["ip", "pim"], "pimd"),
    (&["ip", "igmp"], "pimd"),
    (&["router", "rip"], "ripd"),
    (&["router", "ripng"], "ripngd"),
    (&["ip", "route"], STATICD),
    (&["ipv6", "route"], STATICD),
];

/// A line that is one daemon's alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section<'t> {
    /// Its number, from 1.
    pub line: usize,
    /// The line.
    pub text: &'t str,
    /// Whose it is.
    pub daemon: &'static str,
}

/// All such lines.
pub(super) fn sections(text: &str) -> impl Iterator<Item = Section<'_>> {
    text.lines().zip(1..).filter_map(|(text, line)| {
        let text = text.trim();
        // Words of sections are two at most.
        let words: Vec<&str> = text.split_ascii_whitespace().take(2).collect();
        // Of `bfd` it is the word alone: with more behind it, it is said within another's.
        let begins =
            |begin: &[&str]| words.starts_with(begin) && (*begin != ["bfd"] || words.len() == 1);
        let (_, daemon) = SECTIONS.iter().find(|(begin, _)| begins(begin))?;
        Some(Section { line, text, daemon })
    })
}
