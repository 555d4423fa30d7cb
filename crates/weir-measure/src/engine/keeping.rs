//! Before the switch's table is emptied: its flows, put where they outlive this program. Who kills it, or ends it by
//! a second Ctrl-C, must not lose them.
//!
//! Sans-I/O: a part of [`Core`], which waits for [`Input::Kept`](super::Input::Kept) before it touches anything; and
//! what whoever drives it calls, [`Keep`].

use super::by_hand;
use super::core::Core;
use super::terms::{Command, Keeps, Phase};
use weir_packet::Nanos;

/// Keeps the flows of a switch while a measurement has its table.
pub trait Keep {
    /// Puts flows where they outlive the program, as text for `ovs-ofctl`.
    ///
    /// # Errors
    /// Why that can't be: the table is not touched then.
    fn keep(&mut self, flows: &str) -> Result<(), String>;

    /// The switch has them again, or still.
    fn restored(&mut self);

    /// It may not have them, though all has been tried: says where they are.
    fn left(&mut self, flows: &str) -> String;
}

impl Core {
    /// Has the flows kept, where there are any and somebody can; says whether that is waited for.
    pub(super) fn keeps_flows(&mut self) -> bool {
        let is_asked = self.settings.keeps == Keeps::ByCommand && !self.before.is_empty();
        let Some(version) = self.bench.version.filter(|_| is_asked) else { return false };
        self.out.push_back(Command::Keep(by_hand::text(&self.before, version)));
        true
    }

    /// They are kept, or not.
    pub(super) fn kept(&mut self, now: Nanos, done: Result<(), String>) {
        if self.phase != Phase::Calibrate || !self.setup.waits_for_keeping() {
            return;
        }
        match done {
            Ok(()) => self.empty_first(now),
            Err(why) => {
                let n = self.before.len();
                let why = format!(
                    "the {n} flows that the switch has can't be kept, and so its table is not emptied: {why}"
                );
                self.fail(now, why);
            }
        }
    }

    /// The flows of before that the switch may not have again, once it is over, as `ovs-ofctl` reads them.
    pub fn flows_by_hand(&self) -> Option<String> {
        let version = self.bench.version.filter(|_| self.touched && !self.before.is_empty())?;
        Some(by_hand::text(&self.before, version))
    }
}

#[cfg(test)]
mod tests {
    use super::super::terms::{Input, Settings};
    use super::*;
    use crate::document::{Document, Dut};
    use crate::environment::Environment;
    use crate::module::{Depth, Params};
    use weir_openflow::model::*;

    const NOW: Nanos = Nanos::from_millis(1);

    fn core() -> Core {
        let entry = crate::modules::find("flow-insert").unwrap();
        let params = Params::defaults(&entry.about, Depth::Quick).unwrap();
        let document = Document::new("t", "", Dut::default(), Environment::nowhere());
        let names = ["a", "b"].map(str::to_owned).to_vec();
        let settings = Settings { keeps: Keeps::ByCommand, ..Settings::new(names) };
        Core::new(settings, (entry.make)(&params), params, document, NOW)
    }

    fn flow(priority: u16) -> FlowStats {
        FlowStats {
            table: 0,
            duration_sec: 1,
            duration_nsec: 0,
            priority,
            idle_timeout: 0,
            hard_timeout: 0,
            flags: FlowFlags(0),
            cookie: 0,
            packets: 0,
            bytes: 0,
            matcher: Match::default(),
            instructions: Vec::new(),
        }
    }

    fn features() -> Features {
        Features {
            datapath_id: 1,
            buffers: 0,
            tables: 1,
            auxiliary_id: 0,
            capabilities: Capabilities(0),
            actions: 0,
            ports: Vec::new(),
        }
    }

    fn commands(core: &mut Core) -> Vec<Command> {
        std::iter::from_fn(|| core.next_command()).collect()
    }

    /// Up to where all is known that is asked of a switch with these flows.
    fn asked(core: &mut Core, flows: &[FlowStats]) -> Vec<Command> {
        commands(core);
        core.input(NOW, NOW, Input::Up(Version::V10));
        for command in commands(core) {
            let Command::Send(Msg { xid, body }) = command else { panic!("{command:?}") };
            let body = match body {
                Message::FeaturesRequest => Message::FeaturesReply(features()),
                Message::GetConfigRequest => Message::GetConfigReply(SwitchConfig {
                    fragments: Fragments::Normal,
                    miss_send_len: 128,
                }),
                Message::StatsRequest { body: StatsRequest::Flow(_), .. } => {
                    Message::StatsReply { more: Part::Last, body: StatsReply::Flow(flows.to_vec()) }
                }
                // It need not say who it is.
                _ => Message::Error(ErrorMsg { code: ErrorCode::FlowTableFull, data: Vec::new() }),
            };
            core.input(NOW, NOW, Input::Message(Msg { xid, body }));
        }
        commands(core)
    }

    fn empties(commands: &[Command]) -> bool {
        commands.iter().any(|c| matches!(c, Command::Send(Msg { body: Message::FlowMod(_), .. })))
    }

    #[test]
    fn the_table_is_emptied_when_its_flows_are_kept_and_not_before() {
        let mut core = core();
        let before = asked(&mut core, &[flow(7)]);
        assert!(
            matches!(&before[..], [Command::Keep(text)] if text.contains("priority=7")),
            "{before:?}"
        );
        core.input(NOW, NOW, Input::Kept(Ok(())));
        assert!(empties(&commands(&mut core)));
        // Until it has them again.
        assert!(core.flows_by_hand().is_some());
    }

    #[test]
    fn what_can_not_be_kept_is_not_taken_away() {
        let mut core = core();
        asked(&mut core, &[flow(7), flow(8)]);
        core.input(NOW, NOW, Input::Kept(Err("/results: no room".to_owned())));
        assert!(!empties(&commands(&mut core)));
        assert_eq!(core.flows_by_hand(), None);
        assert_eq!(
            core.result().unwrap_err(),
            "the 2 flows that the switch has can't be kept, and so its table is not emptied: /results: no room"
        );
    }

    #[test]
    fn of_an_empty_table_nothing_is_kept() {
        let commands = asked(&mut core(), &[]);
        assert!(empties(&commands) && !commands.iter().any(|c| matches!(c, Command::Keep(_))));
    }

    /// Nobody who interrupts meanwhile has to wait for it.
    #[test]
    fn an_interruption_before_it_is_kept_touches_nothing() {
        let mut core = core();
        asked(&mut core, &[flow(7)]);
        core.input(NOW, NOW, Input::Interrupted("interrupted".to_owned()));
        core.input(NOW, NOW, Input::Kept(Ok(())));
        assert!(!empties(&commands(&mut core)));
        assert_eq!((core.status().phase, core.flows_by_hand()), (Phase::Done, None));
    }

    /// A flow that the switch does not take back is not there again.
    #[test]
    fn a_flow_that_is_refused_when_it_is_put_back_stays_kept() {
        for refused in [false, true] {
            let mut core = core();
            asked(&mut core, &[flow(7)]);
            core.input(NOW, NOW, Input::Kept(Ok(())));
            commands(&mut core);
            core.input(NOW, NOW, Input::Interrupted("interrupted".to_owned()));
            for command in commands(&mut core) {
                let Command::Send(Msg { xid, body }) = command else { continue };
                let body = match body {
                    Message::FlowMod(f) if refused && f.priority == 7 => {
                        let code = ErrorCode::FlowTableFull;
                        Message::Error(ErrorMsg { code, data: Vec::new() })
                    }
                    Message::BarrierRequest => Message::BarrierReply,
                    _ => continue,
                };
                core.input(NOW, NOW, Input::Message(Msg { xid, body }));
            }
            assert_eq!(core.status().phase, Phase::Done);
            assert_eq!(core.flows_by_hand().is_some(), refused);
        }
    }
}
