//! The router as a listener of IPv6 groups (RFC 3810 §6): it says by MLD which groups it is in, so that switches which
//! snoop let neighbour discovery through to it (RFC 4861 §7.2.1, RFC 8504 §5.10). Touches messages of
//! its own. Told of queries by `ipv6.rs`, of links and time by `mod.rs`.
//!
//! Its groups are those of all routers and the solicited nodes' of its addresses; all nodes' is told to nobody
//! (RFC 3810 §6). They are the same as long as it lives, so there is nothing to leave. It says so by itself when a link comes up,
//! and when it is asked: in version 1 where somebody has asked so within the last minutes (§8.2.1). One answer goes for all
//! queries that came before it, at most ten a second by a link, so that a flood of queries makes none of answers. Asked
//! about certain sources it names the whole group, of which it takes all.

use super::config::is_link_local;
use super::ndisc::{ALL_ROUTERS, group_mac, solicited_node};
use super::{Arrival, Iface, IfaceId, Router, packet_mut};
use crate::program::{Origin, ProgramCx};
use crate::programs::hash::fold;
use std::net::Ipv6Addr;
use weir_packet::{LinkState, Nanos};
use weir_wire::icmpv6::Message;
use weir_wire::ipv6::HEADER_LEN as IP6;
use weir_wire::ipv6_ext::GenericRepr;
use weir_wire::ipv6_option::{Ipv6Option, emit_all};
use weir_wire::mld::{ALL_V2_ROUTERS, Query, RECORD_LEN, REPORT_HEAD, RecordKind, Version};
use weir_wire::{
    EtherType, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet, Ipv6Repr, MacAddr, mld,
};

/// Reports by itself: the robustness variable (§9.1).
const UNSOLICITED: u8 = 2;
/// Between these, at most (§9.11).
const APART: Nanos = Nanos::from_secs(1);
/// Between two answers by a link, at least; and before what could not be sent is tried again.
const REST: Nanos = Nanos::from_millis(100);
/// How long version 1 is spoken after a query of its (§9.12, with the defaults there).
const OLDER_QUERIER: Nanos = Nanos::from_secs(260);
/// What goes into one report of 1280 bytes, which every link takes.
const MOST_RECORDS: usize = 60;
/// Bytes of a router alert and padding behind a header's first two.
const ALERT_LEN: usize = 6;
const NEVER: Nanos = Nanos(u64::MAX);

/// A group that it is in on a link.
#[derive(Debug)]
struct Group {
    addr: Ipv6Addr,
    /// Whether the next message of a report names it, by [`Report`].
    waits: [bool; 2],
}

/// What is reported by a link, and when.
#[derive(Debug)]
pub(super) struct Listener {
    groups: Vec<Group>,
    /// Reports by itself that are to be sent, and when the next is.
    unsolicited: u8,
    unsolicited_at: Nanos,
    /// When queries are answered.
    answer_at: Nanos,
    /// No answer before this.
    rest_until: Nanos,
    v1_until: Nanos,
    /// So that routers of one link answer at different times.
    seed: u64,
}

/// A report that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    /// Of all groups, by itself.
    Unsolicited,
    /// Of those asked about.
    Answer,
}

impl Listener {
    /// On a link with these addresses; none of them: it is in no group.
    pub fn new(mac: MacAddr, addresses: impl Iterator<Item = Ipv6Addr>) -> Self {
        let mut all: Vec<Ipv6Addr> = addresses.map(solicited_node).collect();
        if !all.is_empty() {
            all.push(ALL_ROUTERS);
        }
        all.sort_unstable();
        all.dedup();
        let [a, b, c, d, e, f] = mac.octets();
        Self {
            unsolicited: if all.is_empty() { 0 } else { UNSOLICITED },
            groups: all.into_iter().map(|addr| Group { addr, waits: [true, false] }).collect(),
            unsolicited_at: Nanos(0),
            answer_at: NEVER,
            rest_until: Nanos(0),
            v1_until: Nanos(0),
            seed: u64::from_be_bytes([0, 0, a, b, c, d, e, f]),
        }
    }

    /// The link is up, or another one than before.
    pub fn begin(&mut self, now: Nanos) {
        if !self.groups.is_empty() {
            (self.unsolicited, self.unsolicited_at) = (UNSOLICITED, now);
        }
        self.groups.iter_mut().for_each(|g| g.waits = [true, false]);
        (self.answer_at, self.v1_until) = (NEVER, Nanos(0));
    }

    /// A time up to `most`, that others don't choose.
    fn within(&self, most: Nanos, now: Nanos) -> Nanos {
        let part = u128::from(fold(now.0, self.seed)) * u128::from(most.0);
        Nanos((part >> 64) as u64)
    }

    /// Notes a query (§6.2, but that all groups wait together).
    fn ask(&mut self, q: &Query, now: Nanos) {
        if q.version == Version::V1 {
            self.v1_until = now + OLDER_QUERIER;
        }
        let mut any = false;
        for g in &mut self.groups {
            let meant = q.group.is_unspecified() || q.group == g.addr;
            g.waits[Report::Answer as usize] |= meant;
            any |= meant;
        }
        if any {
            // A tick may come late.
            let most = Nanos::from_millis(u64::from(q.max_delay_ms)).0 / 8 * 7;
            let at = (now + self.within(Nanos(most), now)).max(self.rest_until);
            self.answer_at = self.answer_at.min(at);
        }
    }

    fn next(&self) -> Nanos {
        let unsolicited = if self.unsolicited > 0 { self.unsolicited_at } else { NEVER };
        unsolicited.min(self.answer_at)
    }

    fn due(&self, now: Nanos) -> Option<Report> {
        if self.unsolicited > 0 && self.unsolicited_at <= now {
            return Some(Report::Unsolicited);
        }
        (self.answer_at <= now).then_some(Report::Answer)
    }

    /// So many of the groups that a report names have been told. What could not be sent goes on behind them: where a report takes more
    /// frames than there are at once, it would have no end otherwise.
    fn told(&mut self, report: Report, groups: usize) {
        let waits = self.groups.iter_mut().map(|g| &mut g.waits[report as usize]);
        waits.filter(|waits| **waits).take(groups).for_each(|waits| *waits = false);
    }

    /// What became of a report.
    fn done(&mut self, report: Report, sent: Sent, now: Nanos) {
        match (report, sent) {
            (Report::Unsolicited, Sent::Whole) => {
                self.unsolicited -= 1;
                self.groups.iter_mut().for_each(|g| g.waits[report as usize] = true);
                self.unsolicited_at = now + self.within(APART, now);
            }
            (Report::Unsolicited, Sent::NotAll) => self.unsolicited_at = now + REST,
            (Report::Answer, Sent::Whole) => {
                (self.answer_at, self.rest_until) = (NEVER, now + REST);
            }
            (Report::Answer, Sent::NotAll) => {
                (self.answer_at, self.rest_until) = (now + REST, now + REST);
            }
        }
    }

    /// The groups that a report names, and that have not been told.
    fn named(&self, report: Report) -> impl Iterator<Item = Ipv6Addr> {
        self.groups.iter().filter(move |g| g.waits[report as usize]).map(|g| g.addr)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Whole,
    /// A frame was missing, or the port.
    NotAll,
}

impl Iface {
    /// What it reports when its addresses are these.
    pub(super) fn listen(&mut self) {
        let own = self.v6.iter().map(|a| a.0).chain(self.link_local);
        self.listener = Listener::new(self.mac, own);
    }
}

impl Router {
    /// A query with a good checksum; `alert`: with the option that it must have (§6.2).
    #[inline(never)]
    pub(super) fn mld_query(
        &mut self,
        body: &[u8],
        ip: &Ipv6Repr,
        alert: Option<u16>,
        from: Arrival,
        now: Nanos,
    ) {
        if !is_link_local(ip.src) || ip.hop_limit != 1 || alert.is_none() {
            return;
        }
        let Ok(query) = Query::parse(body) else {
            self.counters.malformed += 1;
            return;
        };
        let Some(i) = self.ifaces.get_mut(usize::from(from.iface)) else { return };
        i.listener.ask(&query, now);
        self.report_at = self.report_at.min(i.listener.next());
    }

    /// Sends the reports that are due.
    #[inline(never)]
    pub(super) fn report(&mut self, cx: &mut ProgramCx<'_>) {
        let now = cx.now();
        self.report_at = NEVER;
        for id in 0..self.ifaces.len() {
            let up = |i: &&Iface| i.link == LinkState::Up;
            let Some(i) = self.ifaces.get(id).filter(up) else { continue };
            if let Some(report) = i.listener.due(now) {
                let sent = match now < i.listener.v1_until {
                    true => self.report_v1(id as IfaceId, report, cx),
                    false => self.report_v2(id as IfaceId, report, cx),
                };
                if let Some(i) = self.ifaces.get_mut(id) {
                    i.listener.done(report, sent, now);
                }
            }
            let next = self.ifaces.get(id).map_or(NEVER, |i| i.listener.next());
            self.report_at = self.report_at.min(next);
        }
    }

    fn report_v2(&mut self, id: IfaceId, report: Report, cx: &mut ProgramCx<'_>) -> Sent {
        let kind = match report {
            Report::Unsolicited => RecordKind::ToExclude,
            Report::Answer => RecordKind::IsExclude,
        };
        let mut body = [0; REPORT_HEAD + MOST_RECORDS * RECORD_LEN];
        loop {
            let Some(i) = self.iface(id) else { return Sent::NotAll };
            let named = i.listener.named(report).take(MOST_RECORDS);
            let body = match mld::emit_report(kind, named, &mut body) {
                Ok(len) if len > REPORT_HEAD => body.get(..len).unwrap_or(&[]),
                _ => return Sent::Whole,
            };
            let groups = (body.len() - REPORT_HEAD) / RECORD_LEN;
            let m = Icmpv6Repr::Other { message: Message::Mldv2Report, code: 0, body };
            if self.send_mld(id, ALL_V2_ROUTERS, m, cx) == Sent::NotAll {
                return Sent::NotAll;
            }
            let Some(i) = self.ifaces.get_mut(usize::from(id)) else { return Sent::NotAll };
            i.listener.told(report, groups);
        }
    }

    /// A message for each group, to itself (RFC 2710 §3.7).
    fn report_v1(&mut self, id: IfaceId, report: Report, cx: &mut ProgramCx<'_>) -> Sent {
        let mut body = [0; mld::V1_LEN];
        loop {
            let group = self.iface(id).and_then(|i| i.listener.named(report).next());
            let Some(group) = group else { return Sent::Whole };
            let written = mld::emit_v1(group, &mut body);
            debug_assert!(written.is_ok(), "{written:?}");
            let m = Icmpv6Repr::Other { message: Message::MldReport, code: 0, body: &body };
            if self.send_mld(id, group, m, cx) == Sent::NotAll {
                return Sent::NotAll;
            }
            let Some(i) = self.ifaces.get_mut(usize::from(id)) else { return Sent::NotAll };
            i.listener.told(report, 1);
        }
    }

    fn send_mld(
        &mut self,
        iface: IfaceId,
        dst: Ipv6Addr,
        m: Icmpv6Repr<'_>,
        cx: &mut ProgramCx<'_>,
    ) -> Sent {
        let mut options = [0; ALERT_LEN];
        let mut written = emit_all(&[Ipv6Option::RouterAlert(0)], &mut options).map(drop);
        let alert = GenericRepr { next_header: IpProtocol::Icmpv6, body: &options };
        let payload_len = alert.buffer_len() + m.buffer_len();
        let len = IP6 + payload_len;
        let Some(src) = self.iface(iface).and_then(|i| i.link_local) else { return Sent::NotAll };
        if self.mtu(iface, cx).is_none_or(|mtu| len > mtu) {
            return Sent::NotAll;
        }
        let Some(mut frame) = self.fresh(EtherType::Ipv6, len, cx) else { return Sent::NotAll };
        let ip =
            Ipv6Repr { hop_limit: 1, ..Ipv6Repr::new(src, dst, IpProtocol::HopByHop, payload_len) };
        let mut packet = Ipv6Packet::new_unchecked(packet_mut(&mut frame));
        written = written.and(ip.emit(&mut packet));
        if let Some((options, icmp)) = packet.payload_mut().split_at_mut_checked(alert.buffer_len())
        {
            written = written.and(alert.emit(options));
            let mut icmp = Icmpv6Packet::new_unchecked(icmp);
            written = written.and(m.emit(&mut icmp));
            icmp.fill_checksum(&ip.pseudo_header());
        }
        debug_assert!(written.is_ok(), "{written:?}");
        self.counters.reports += 1;
        self.send(frame, Origin::Generated, iface, group_mac(dst), cx);
        Sent::Whole
    }
}
