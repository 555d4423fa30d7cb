//! The switch: who is connected, who gets which message, and when gathered changes are carried out.
//!
//! Room: the crate's centre; holds all state, decides nothing that another file decides. Called by
//! whoever owns the connections, the data plane's handle and the clock.

use crate::apply::{self, Event, Job, Setting};
use crate::buffers::Buffers;
use crate::config::Config;
use crate::dp;
use crate::fail::{Alone, Miss};
use crate::flows::Flows;
use crate::outbox::{ConnId, Outbox};
use crate::packet_in::Rate;
use crate::plane::{Plane, PlaneGone};
use crate::ports::first;
use crate::request::{Asker, Cx, Stop};
use crate::roles::{Conn, Conns, Listens, Purpose, changes};
use crate::state::State;
use crate::stats::{Walk, has_number_for};
use std::collections::BTreeMap;
use weir_dataplane::{Absent, DataPlane, InvalidTtl};
use weir_openflow::model::{
    Capabilities, ErrorCode, Features, Fragments, Message, Msg, Port, Role, SwitchConfig,
    TABLE_ALL, TABLE_MAX, Version,
};
use weir_packet::Nanos;

/// Changes gathered before they are carried out.
const GATHERED: usize = 256;

/// One VDP as an OpenFlow switch, for any number of connections.
#[derive(Debug)]
pub struct Switch {
    pub(crate) config: Config,
    pub(crate) conns: Conns,
    pub(crate) flows: Box<Flows>,
    pub(crate) state: State,
    pub(crate) pending: Vec<Job>,
    /// Answers that are not complete.
    pub(crate) walks: Vec<Walk>,
    pub(crate) buffers: Buffers,
    pub(crate) packet_ins: Option<Rate>,
    pub(crate) packets_kept_back: u64,
    /// Packet-outs that found no free frame.
    packet_outs_lost: u64,
    pub(crate) fragments: Fragments,
    /// Configuration of each table that was given one.
    pub(crate) table_config: Vec<u32>,
    /// What frames without a flow get now; `None`: not set yet.
    pub(crate) miss: Option<Miss>,
    /// Whether it was told to forward by itself; what is carried elsewhere is not yet.
    pub(crate) alone: Alone,
    /// What frames whose TTL can't be decremented get now.
    pub(crate) invalid_ttl: InvalidTtl,
    /// Addresses and names by which ports are known from where the switch was before.
    pub(crate) faces: BTreeMap<Port, ([u8; 6], String)>,
    /// Since when there is no controller.
    pub(crate) alone_since: Option<Nanos>,
}

impl Switch {
    /// A switch without connections and flows. [`Switch::tick`] sets its VDP up.
    pub fn new(config: Config, now: Nanos) -> Self {
        let tables = config.tables.clamp(1, TABLE_MAX);
        let ports = config.ports.iter().cloned().map(|p| (p.no, first(p)));
        let state = State {
            tables,
            ports: ports.collect(),
            since: config.ports.iter().map(|p| (p.no, now)).collect(),
            queues: config.queues.clone(),
            ..State::default()
        };
        Self {
            conns: Conns::default(),
            flows: Box::default(),
            state,
            pending: Vec::new(),
            walks: Vec::new(),
            buffers: Buffers::new(config.buffers),
            packet_ins: config.limits.packet_ins.map(Rate::new),
            packets_kept_back: 0,
            packet_outs_lost: 0,
            fragments: Fragments::Normal,
            table_config: vec![0; usize::from(tables)],
            miss: None,
            alone: Alone::No,
            invalid_ttl: InvalidTtl::Drop,
            faces: BTreeMap::new(),
            alone_since: Some(now),
            config,
        }
    }

    /// How it was made.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A connection has agreed on a version.
    ///
    /// # Errors
    /// [`PlaneGone`].
    pub fn connected<P: Plane>(
        &mut self,
        conn: ConnId,
        version: Version,
        purpose: Purpose,
        now: Nanos,
        plane: &mut P,
        out: &mut Outbox,
    ) -> Result<(), PlaneGone> {
        let miss_send_len = self.config.miss_send_len;
        self.conns.all.insert(conn, Conn { miss_send_len, ..Conn::new(version, purpose) });
        settled(self.settle_miss(&mut Cx { now, plane, out }))
    }

    /// A connection has ended.
    ///
    /// # Errors
    /// [`PlaneGone`].
    pub fn disconnected<P: Plane>(
        &mut self,
        conn: ConnId,
        now: Nanos,
        plane: &mut P,
        out: &mut Outbox,
    ) -> Result<(), PlaneGone> {
        let mut cx = Cx { now, plane, out };
        settled(self.flush(&mut cx))?;
        self.conns.all.remove(&conn);
        self.walks.retain(|w| w.who.conn != conn);
        settled(self.settle_miss(&mut cx))
    }

    /// A message has come; `raw` is how it stood on the wire, for errors. Changes may be gathered:
    /// [`Switch::settle`] when there is nothing more to read.
    ///
    /// # Errors
    /// [`PlaneGone`].
    #[allow(clippy::too_many_arguments, reason = "each is a thing of its own")]
    pub fn handle<P: Plane>(
        &mut self,
        conn: ConnId,
        msg: Msg,
        raw: &[u8],
        now: Nanos,
        plane: &mut P,
        out: &mut Outbox,
    ) -> Result<(), PlaneGone> {
        let Some(c) = self.conns.all.get(&conn) else { return Ok(()) };
        let who = Asker::new(conn, c.version, msg.xid, raw);
        let mut cx = Cx { now, plane, out };
        let slave = c.role == Role::Slave;
        if self.owes(conn) {
            settled(self.tell_rest(conn, &mut cx))?;
        }
        let done = match slave && changes(&msg.body) {
            true => Err(ErrorCode::IsSlave.into()),
            false => self.dispatch(&who, msg.body, &mut cx),
        };
        match done {
            Ok(()) => Ok(()),
            Err(Stop::Gone) => Err(PlaneGone),
            Err(Stop::Refused(code)) => {
                who.refuse(code, cx.out);
                Ok(())
            }
        }
    }

    /// Carries out what was gathered.
    ///
    /// # Errors
    /// [`PlaneGone`].
    pub fn settle<P: Plane>(
        &mut self,
        now: Nanos,
        plane: &mut P,
        out: &mut Outbox,
    ) -> Result<(), PlaneGone> {
        settled(self.flush(&mut Cx { now, plane, out }))
    }

    /// Does what is due. To be called at [`Switch::next_deadline`] or a little later, and once in
    /// the beginning.
    ///
    /// # Errors
    /// [`PlaneGone`].
    pub fn tick<P: Plane>(
        &mut self,
        now: Nanos,
        plane: &mut P,
        out: &mut Outbox,
    ) -> Result<(), PlaneGone> {
        let mut cx = Cx { now, plane, out };
        settled(self.flush(&mut cx))?;
        settled(self.expire(&mut cx))?;
        settled(self.settle_miss(&mut cx))
    }

    /// Whether an answer of many flows to this connection is not complete.
    pub fn owes(&self, conn: ConnId) -> bool {
        self.walks.iter().any(|w| w.who.conn == conn)
    }

    /// Tells a connection the next part of what it is owed. To be called while it has room for it,
    /// before its next message is handled (which would have all of the rest told at once).
    ///
    /// # Errors
    /// [`PlaneGone`].
    pub fn tell_part_to<P: Plane>(
        &mut self,
        conn: ConnId,
        now: Nanos,
        plane: &mut P,
        out: &mut Outbox,
    ) -> Result<(), PlaneGone> {
        settled(self.tell_part_of(conn, &mut Cx { now, plane, out }))
    }

    /// When [`Switch::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Nanos> {
        [self.flows.timers.next(), self.alone_at()].into_iter().flatten().min()
    }

    /// Flows in all tables.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Packet-outs so far that ended since the data plane had no free frame for them. No error of
    /// OpenFlow says so; the VDP counts them as dropped.
    pub fn packet_outs_lost(&self) -> u64 {
        self.packet_outs_lost
    }

    fn dispatch<P: Plane>(
        &mut self,
        who: &Asker,
        body: Message,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        match body {
            Message::FlowMod(m) => self.flow_mod(who, m, cx),
            Message::PacketOut(m) => self.packet_out(who, m, cx),
            Message::GroupMod(m) => self.group_mod(m, Absent::Refused, cx),
            Message::MeterMod(m) => self.meter_mod(m, cx),
            Message::PortMod(m) => self.port_mod(who, m, cx),
            Message::TableMod { table, config } => Ok(self.table_mod(table, config)?),
            Message::BarrierRequest => {
                self.flush(cx)?;
                who.reply(Message::BarrierReply, cx.out);
                Ok(())
            }
            Message::StatsRequest { more, body } => self.stats(who, more, body, cx),
            Message::EchoRequest(data) => {
                who.reply(Message::EchoReply(data), cx.out);
                Ok(())
            }
            Message::FeaturesRequest => {
                who.reply(Message::FeaturesReply(self.features(who.version)), cx.out);
                Ok(())
            }
            Message::SetConfig(c) => self.set_config(who, c, cx),
            Message::GetConfigRequest => {
                let miss_send_len = self.conn(who)?.miss_send_len;
                let config = SwitchConfig { fragments: self.fragments, miss_send_len };
                who.reply(Message::GetConfigReply(config), cx.out);
                Ok(())
            }
            Message::RoleRequest(m) => {
                self.flush(cx)?;
                let now = self.conns.request(who.conn, m)?;
                who.reply(Message::RoleReply(now), cx.out);
                self.settle_miss(cx)
            }
            Message::GetAsyncRequest => {
                let wants = self.conn(who)?.wants;
                who.reply(Message::GetAsyncReply(wants), cx.out);
                Ok(())
            }
            Message::SetAsync(wants) => {
                self.flush(cx)?;
                let c = self.conn(who)?;
                (c.wants, c.listens) = (wants, Listens::Yes);
                self.settle_miss(cx)
            }
            Message::QueueConfigRequest(port) => {
                let queues = self.queues_of(port)?;
                who.reply(Message::QueueConfigReply { port, queues }, cx.out);
                Ok(())
            }
            Message::Experimenter { .. } => Err(ErrorCode::BadExperimenter.into()),
            // A greeting again, an answer, a complaint: nothing to do.
            Message::Hello { .. } | Message::EchoReply(_) | Message::Error(_) => Ok(()),
            _ => Err(ErrorCode::BadType.into()),
        }
    }

    fn conn(&mut self, who: &Asker) -> Result<&mut Conn, Stop> {
        Ok(self.conns.all.get_mut(&who.conn).ok_or(ErrorCode::RequestEperm)?)
    }

    fn features(&self, version: Version) -> Features {
        let ports = self.state.ports.values().filter(|p| has_number_for(version, p.no));
        Features {
            datapath_id: self.config.datapath_id,
            buffers: self.buffers.most(),
            tables: self.state.tables,
            auxiliary_id: 0,
            capabilities: Capabilities::FLOW_STATS
                | Capabilities::TABLE_STATS
                | Capabilities::PORT_STATS
                | Capabilities::GROUP_STATS
                | Capabilities::QUEUE_STATS
                | Capabilities::ARP_MATCH_IP,
            // 1.0's twelve: output to enqueue.
            actions: 0xfff,
            ports: ports.cloned().collect(),
        }
    }

    fn set_config<P: Plane>(
        &mut self,
        who: &Asker,
        c: SwitchConfig,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        self.flush(cx)?;
        match c.fragments {
            Fragments::Normal | Fragments::Drop => {}
            // It is not among the capabilities (1.3 §7.3.2, IP_REASM).
            _ => return Err(ErrorCode::ConfigBadFlags.into()),
        }
        let conn = self.conn(who)?;
        conn.miss_send_len = c.miss_send_len;
        // Lengths between OFPCML_MAX and OFPCML_NO_BUFFER (1.3.5 §7.3.7) are longer than any packet and
        // taken as that: `ovs-ofctl monitor` asks for whole packets by 65534 in every version.
        // A tool that wants packets says how much of them.
        if c.miss_send_len != 0 {
            conn.listens = Listens::Yes;
        }
        // Fragments are the switch's, which a slave does not change: what is its own is set (as Open
        // vSwitch does; 1.3 §6.3.4 does not list this message).
        if conn.role != Role::Slave && c.fragments != self.fragments {
            let (vid, fragments) = (self.config.vid, c.fragments);
            cx.plane.with(move |plane| dp::set_fragments(plane, vid, fragments))?;
            self.fragments = c.fragments;
        }
        self.settle_miss(cx)
    }

    fn table_mod(&mut self, table: u8, config: u32) -> Result<(), ErrorCode> {
        if table >= self.state.tables && table != TABLE_ALL {
            return Err(ErrorCode::TableBadTable);
        }
        // OFPTC_DEPRECATED_MASK: may be set, means nothing (1.3 §7.3.3).
        if config & !3 != 0 {
            return Err(ErrorCode::TableBadConfig);
        }
        for (n, c) in self.table_config.iter_mut().enumerate() {
            if table == TABLE_ALL || n == usize::from(table) {
                *c = config;
            }
        }
        Ok(())
    }

    /// Carries out what was gathered when it is much.
    pub(crate) fn flush_when_full<P: Plane>(&mut self, cx: &mut Cx<'_, P>) -> Result<(), Stop> {
        if self.pending.len() >= GATHERED { self.flush(cx) } else { Ok(()) }
    }

    /// Carries out what was gathered, and tells what came of it.
    pub(crate) fn flush<P: Plane>(&mut self, cx: &mut Cx<'_, P>) -> Result<(), Stop> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut jobs = std::mem::take(&mut self.pending);
        self.pending = self.with_flows(cx, move |dp, flows, set, events| {
            apply::run(dp, set, flows, &mut jobs, events);
            jobs
        })?;
        Ok(())
    }

    /// Runs `f` on the data plane with the book of flows along.
    pub(crate) fn with_flows<P: Plane, R: Send + 'static>(
        &mut self,
        cx: &mut Cx<'_, P>,
        f: impl FnOnce(&mut DataPlane, &mut Flows, Setting, &mut Vec<Event>) -> R + Send + 'static,
    ) -> Result<R, Stop> {
        let mut flows = std::mem::take(&mut self.flows);
        let set = Setting {
            vid: self.config.vid,
            placement: self.config.placement,
            max_flows: self.config.limits.flows,
            now: cx.now,
        };
        let (flows, events, answer) = cx.plane.with(move |dp| {
            let mut events = Vec::new();
            let answer = f(dp, &mut flows, set, &mut events);
            (flows, events, answer)
        })?;
        self.flows = flows;
        for e in events {
            match e {
                Event::Refused(who, code) => {
                    if self.conns.all.contains_key(&who.conn) {
                        who.refuse(code, cx.out);
                    }
                }
                Event::Spent(id) => self.buffers.spend(id),
                Event::Back(lent) => self.buffers.give_back(*lent),
                Event::Lost => self.packet_outs_lost += 1,
                Event::Removed(m) => {
                    let reason = m.reason;
                    for (id, _) in self.conns.all.iter().filter(|(_, c)| c.wants_removed(reason)) {
                        cx.out.tell(*id, Message::FlowRemoved((*m).clone()));
                    }
                }
            }
        }
        Ok(answer)
    }
}

/// Nothing refuses what nobody asked for.
fn settled(done: Result<(), Stop>) -> Result<(), PlaneGone> {
    match done {
        Err(Stop::Gone) => Err(PlaneGone),
        Ok(()) | Err(Stop::Refused(_)) => Ok(()),
    }
}
