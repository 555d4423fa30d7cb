//! The truth about a profile: each fault by a stable name, with a sentence and a figure, for judging
//! what a measurement found without being told.
//!
//! Room: pure; part of `profile`. Printed by `weir dut --print-truth`.

use super::{BarrierReply, IdleFrom, Past, Profile, Speaks};
use serde::Serialize;

/// One fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault {
    /// Its name: the profile's key, or the key and the word that is its value.
    pub id: String,
    /// What happens, in words.
    pub what: String,
    /// How much, where there is a measure.
    pub value: Option<f64>,
    /// In which unit.
    pub unit: &'static str,
}

struct List(Vec<Fault>);

impl List {
    fn word(&mut self, id: &str, what: String) {
        self.0.push(Fault { id: id.to_owned(), what, value: None, unit: "" });
    }
    /// One whose absence is 0.
    fn figure(&mut self, id: &str, what: &str, value: f64, unit: &'static str) {
        if value != 0.0 {
            self.given(id, what, value, unit);
        }
    }
    /// One that is there whatever its value: a table without room for any entry of a kind is a fault, too.
    fn given(&mut self, id: &str, what: &str, value: f64, unit: &'static str) {
        let what = what.to_owned();
        self.0.push(Fault { id: id.to_owned(), what, value: Some(value), unit });
    }
}

impl Profile {
    /// All faults; none for an honest switch.
    pub fn faults(&self) -> Vec<Fault> {
        let mut f = List(Vec::new());
        self.of_table(&mut f);
        self.of_updates(&mut f);
        self.of_actions(&mut f);
        self.of_frames(&mut f);
        self.of_control(&mut f);
        f.0
    }

    fn of_table(&self, f: &mut List) {
        let t = &self.table;
        let honest = super::Table::default();
        if t.entries != honest.entries {
            f.figure("table.entries", "the table holds so many", t.entries as f64, "entries");
        }
        for (id, n) in [
            ("table.exact_entries", t.exact_entries),
            ("table.wildcard_entries", t.wildcard_entries),
        ] {
            if let Some(n) = n {
                f.given(id, "the table holds so many of the kind", n as f64, "entries");
            }
        }
        if t.past == Past::Lost {
            f.word("table.past.lost", "entries past that are lost without an error".to_owned());
        }
    }

    fn of_updates(&self, f: &mut List) {
        let u = &self.update;
        f.figure(
            "update.start_us",
            "changes begin so late after a pause",
            u.start_us.micros(),
            "µs",
        );
        f.figure("update.insert_us", "an insertion takes so long", u.insert_us.micros(), "µs");
        f.figure("update.modify_us", "a modification takes so long", u.modify_us.micros(), "µs");
        f.figure("update.delete_us", "a deletion takes so long", u.delete_us.micros(), "µs");
        f.figure(
            "update.modify_gap_us",
            "while an entry is modified it is missing for so long",
            u.modify_gap_us.micros(),
            "µs",
        );
        for (id, what, before, past) in [
            ("update.insert_past", "insertion", u.insert_us, u.insert_past),
            ("update.modify_past", "modification", u.modify_us, u.modify_past),
        ] {
            // No time at all is a change where each took some before.
            if let Some(p) = past.filter(|p| p.us != before) {
                let what = format!("from {} entries on, {what} takes so long", p.entries);
                f.given(id, &what, p.us.micros(), "µs");
            }
        }
        if let Some(s) = u.shift {
            let what = format!("inserted in {:?} priorities, each entry that moves costs", s.dear);
            f.figure("update.shift", &what.to_lowercase(), s.us.micros(), "µs");
        }
        if u.reorder_window > 1 {
            let n = u.reorder_window as f64;
            f.figure("update.reorder_window", "changes are made in any order among", n, "changes");
        }
        let word = match self.barrier.reply {
            BarrierReply::Honest => None,
            BarrierReply::Early => {
                Some(("barrier.reply.early", "barriers are answered before frames meet the rules"))
            }
            BarrierReply::Unsupported => {
                Some(("barrier.reply.unsupported", "barriers are answered by an error"))
            }
            BarrierReply::Never => Some(("barrier.reply.never", "barriers are not answered")),
        };
        if let Some((id, what)) = word {
            f.word(id, what.to_owned());
        }
        let delay = self.barrier.delay_us.micros();
        f.figure("barrier.delay_us", "barriers are answered so late", delay, "µs");
    }

    fn of_actions(&self, f: &mut List) {
        let a = &self.actions;
        for (id, what, kinds) in [
            ("actions.discards", "frames of flows with it vanish", &a.discards),
            ("actions.ignores", "it is not done", &a.ignores),
            ("actions.refuses", "flows with it are refused", &a.refuses),
            ("actions.writes_wrong", "it writes a wrong value", &a.writes_wrong),
            ("actions.wrong_checksum", "it leaves checksums wrong", &a.wrong_checksum),
        ] {
            for kind in kinds {
                f.word(&format!("{id}.{}", kind.word()), what.to_owned());
            }
        }
        let Some(cpu) = &a.cpu else { return };
        for kind in &cpu.does {
            let what = "it is done by a slow processor".to_owned();
            f.word(&format!("actions.cpu.{}", kind.word()), what);
        }
        let loss = cpu.loss_percent.percent();
        f.figure("actions.cpu.loss_percent", "the processor loses so many", loss, "%");
        let rate = cpu.per_second.into();
        f.figure("actions.cpu.per_second", "the processor does so many", rate, "frames/s");
        let delay = cpu.delay_us.micros();
        f.figure("actions.cpu.delay_us", "the processor's median delay", delay, "µs");
        let sd = cpu.sd_us.micros();
        f.figure("actions.cpu.sd_us", "the delay's standard deviation", sd, "µs");
    }

    fn of_frames(&self, f: &mut List) {
        let w = &self.forwarding;
        f.figure("forwarding.delay_us", "frames take so long", w.delay_us.micros(), "µs");
        f.figure("forwarding.lose_percent", "frames are lost", w.lose_percent.percent(), "%");
        let twice = w.duplicate_percent.percent();
        f.figure("forwarding.duplicate_percent", "frames are sent twice", twice, "%");
        let swapped = w.swap_percent.percent();
        f.figure(
            "forwarding.swap_percent",
            "frames are overtaken by their successor",
            swapped,
            "%",
        );
        let p = &self.packet_in;
        f.figure("packet_in.per_second", "packet-ins a second", p.per_second.into(), "1/s");
        f.figure("packet_in.delay_us", "packet-ins are so late", p.delay_us.micros(), "µs");
        let twice = p.duplicate_percent.percent();
        f.figure("packet_in.duplicate_percent", "packet-ins come twice", twice, "%");
        let p = &self.packet_out;
        f.figure("packet_out.delay_us", "packet-outs are so late", p.delay_us.micros(), "µs");
        let lost = p.lose_percent.percent();
        f.figure("packet_out.lose_percent", "packet-outs are lost", lost, "%");
    }

    fn of_control(&self, f: &mut List) {
        let s = &self.statistics;
        f.figure("statistics.delay_us", "a request takes so long", s.delay_us.micros(), "µs");
        let each = s.per_flow_us.micros();
        f.figure("statistics.per_flow_us", "and so much for each flow", each, "µs");
        let load = s.slows_updates_percent.percent();
        f.figure("statistics.slows_updates_percent", "of which updates lose", load, "%");
        f.figure("statistics.stale_us", "counters are as old as", s.stale_us.micros(), "µs");
        let part = s.flows_per_part as f64;
        f.figure("statistics.flows_per_part", "a message has so many flows", part, "flows");
        f.figure("statistics.pace_us", "messages are so far apart", s.pace_us.micros(), "µs");
        let soon = s.whole_within_us.micros();
        f.figure("statistics.whole_within_us", "but not if asked again within", soon, "µs");
        let off = self.counters.off_percent.percent();
        f.figure("counters.off_percent", "counters of flows differ by", off, "%");
        let off = self.counters.port_off_percent.percent();
        f.figure("counters.port_off_percent", "counters of ports differ by", off, "%");
        let off = self.counters.table_off_percent.percent();
        f.figure("counters.table_off_percent", "counters of the table differ by", off, "%");
        if self.timeouts.idle_from == IdleFrom::Insertion {
            let what = "idle time-outs count from insertion, though frames come".to_owned();
            f.word("timeouts.idle_from.insertion", what);
        }
        let late = self.timeouts.late_us.micros();
        f.figure("timeouts.late_us", "flows outlive their time-outs by", late, "µs");
        let echo = self.echo.delay_us.micros();
        f.figure("echo.delay_us", "echo requests are answered so late", echo, "µs");
        let c = &self.connection;
        let word = match c.speaks {
            Speaks::Both => None,
            Speaks::Only10 => Some(("connection.speaks.only10", "it speaks 1.0 alone")),
            Speaks::Only13 => Some(("connection.speaks.only13", "it speaks 1.3 alone")),
            Speaks::Only14 => Some(("connection.speaks.only14", "it speaks 1.4 alone")),
            Speaks::Nothing => Some(("connection.speaks.nothing", "it says nothing")),
        };
        if let Some((id, what)) = word {
            f.word(id, what.to_owned());
        }
        let close = c.close_after_us.micros();
        f.figure("connection.close_after_us", "connections end after", close, "µs");
        let close = c.close_after_messages as f64;
        f.figure("connection.close_after_messages", "connections end after", close, "messages");
        let garbage = c.garbage_every as f64;
        f.figure("connection.garbage_every", "garbage comes once in", garbage, "messages");
        if self.snmp.silent {
            f.word("snmp.silent", "it answers nothing by SNMP".to_owned());
        }
        let idle = self.snmp.idle_percent.percent();
        f.figure("snmp.idle_percent", "its processor is so busy without work", idle, "%");
    }
}

impl super::ActionKind {
    /// Its word in profiles.
    pub fn word(self) -> &'static str {
        use super::ActionKind::*;
        match self {
            Forward => "forward",
            Mac => "mac",
            Ip => "ip",
            Tos => "tos",
            L4Port => "l4-port",
            VlanPcp => "vlan-pcp",
            VlanId => "vlan-id",
            VlanStrip => "vlan-strip",
            VlanPush => "vlan-push",
            Ttl => "ttl",
            Mpls => "mpls",
            Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `weir dut --print-truth` says of a profile.
    fn faults(text: &str) -> Vec<(String, Option<f64>)> {
        let text = format!("name = 'x'\nabout = 'y'\n{text}");
        let faults = Profile::read("x.toml", &text).unwrap().faults();
        faults.into_iter().map(|f| (f.id, f.value)).collect()
    }

    #[test]
    fn a_fault_whose_figure_is_0_is_told() {
        let one = |id: &str| vec![(id.to_owned(), Some(0.0))];
        for key in ["exact_entries", "wildcard_entries"] {
            assert_eq!(faults(&format!("[table]\n{key} = 0")), one(&format!("table.{key}")));
        }
        let past = "insert_past = { entries = 9, us = 0 }";
        let costly = faults(&format!("[update]\ninsert_us = 5\n{past}"));
        assert_eq!(costly[1..], one("update.insert_past"));
        assert_eq!(faults(&format!("[update]\n{past}")), []);
        assert_eq!(faults("[forwarding]\nlose_percent = 0\n[packet_in]\nper_second = 0"), []);
    }
}
