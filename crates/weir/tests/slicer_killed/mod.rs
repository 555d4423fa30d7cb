//! A `weir slicer` that is killed at any moment: what its slices asked for is at the switch as before or after each
//! request, never between; and what was there stays while nobody is.
//!
//! The switch and the controller are this test's: two listeners to which each slicer connects.

use super::run_daemon::{LIMIT, weir};
use super::slicer_rig::{Line, Slicer, features, port};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_openflow::model::*;

type Rule = (u8, u16, Match);

/// A switch's flows, and those that this connection told it to delete.
#[derive(Default)]
struct Flows {
    rules: BTreeMap<String, (Rule, u64, Vec<Instruction>)>,
    deleted: BTreeSet<String>,
}

impl Flows {
    fn hear(&mut self, f: &FlowMod) {
        let key = format!("{:?}", (f.table, f.priority, &f.matcher));
        match f.command {
            FlowCommand::Add => {
                let rule = (f.table, f.priority, f.matcher.clone());
                self.rules.insert(key, (rule, f.cookie, f.instructions.clone()));
            }
            FlowCommand::ModifyStrict => {
                if let Some(r) = self.rules.get_mut(&key) {
                    r.2.clone_from(&f.instructions);
                }
            }
            FlowCommand::DeleteStrict => {
                self.rules.remove(&key);
                self.deleted.insert(key);
            }
            _ => {
                self.deleted.extend(std::mem::take(&mut self.rules).into_keys());
            }
        }
    }

    fn told(&self) -> StatsReply {
        let one = |((table, priority, matcher), cookie, instructions): &(_, _, _)| FlowStats {
            table: *table,
            duration_sec: 1,
            duration_nsec: 0,
            priority: *priority,
            idle_timeout: 0,
            hard_timeout: 0,
            flags: FlowFlags(0),
            cookie: *cookie,
            packets: 0,
            bytes: 0,
            matcher: Match::clone(matcher),
            instructions: Vec::clone(instructions),
        };
        StatsReply::Flow(self.rules.values().map(one).collect())
    }

    /// By station: at which ports what is done.
    fn stations(&self) -> BTreeMap<u32, BTreeMap<u32, u16>> {
        let mut all: BTreeMap<u32, BTreeMap<u32, u16>> = BTreeMap::new();
        for ((_, _, m), _, instructions) in self.rules.values() {
            let field = |f| m.get(f).unwrap_or_else(|| panic!("{m:?}")).value as u32;
            let what = match instructions.as_slice() {
                [Instruction::Apply(a)] => match a.as_slice() {
                    [Action::Output { max_len, .. }] => *max_len,
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            };
            all.entry(field(Field::EthSrc)).or_default().insert(field(Field::InPort), what);
        }
        all
    }
}

/// Serves one slicer after the other, as a switch that keeps its flows.
fn switch(listener: TcpListener, flows: Arc<Mutex<Flows>>) {
    std::thread::spawn(move || {
        for tcp in listener.incoming() {
            let mut line = Line::new(tcp.unwrap());
            flows.lock().unwrap().deleted.clear();
            while let Some(m) = line.next() {
                let last = |body| Message::StatsReply { more: Part::Last, body };
                let body = match m.body {
                    Message::FlowMod(f) => {
                        flows.lock().unwrap().hear(&f);
                        continue;
                    }
                    Message::BarrierRequest => Message::BarrierReply,
                    Message::FeaturesRequest => features(),
                    Message::StatsRequest { body, .. } => last(match body {
                        StatsRequest::PortDesc => StatsReply::PortDesc((1..=3).map(port).collect()),
                        StatsRequest::GroupDesc => StatsReply::GroupDesc(Vec::new()),
                        StatsRequest::MeterConfig(_) => StatsReply::MeterConfig(Vec::new()),
                        StatsRequest::Flow(_) => flows.lock().unwrap().told(),
                        other => panic!("{other:?}"),
                    }),
                    _ => continue,
                };
                if !line.send(m.xid, body) {
                    break;
                }
            }
        }
    });
}

fn start(dir: &Path) -> Slicer {
    let mut c = weir();
    Slicer(c.arg("slicer").arg(dir.join("slices.toml")).stdout(Stdio::null()).spawn().unwrap())
}

/// A request about one of forty stations: what is to be done with its frames from now on, or nothing any more.
fn request(at: u32, what: Option<u16>, known: bool) -> Message {
    let matcher = Match::default().with(Field::EthSrc, at.into());
    let command = match (what, known) {
        (None, _) => FlowCommand::DeleteStrict,
        (Some(n), true) if n % 2 == 0 => FlowCommand::ModifyStrict,
        _ => FlowCommand::Add,
    };
    let actions = what.map(|max_len| vec![Action::Output { port: Port::CONTROLLER, max_len }]);
    let instructions = actions.map(Instruction::Apply).into_iter().collect();
    Message::FlowMod(FlowMod { matcher, instructions, priority: 9, ..FlowMod::new(command) })
}

#[test]
fn soak_a_killed_slicer_leaves_each_request_done_or_not() {
    let runs: u32 = if std::env::var_os("WEIR_SOAK").is_some() { 200 } else { 6 };
    let dir = tempfile::tempdir().unwrap();
    let (at_switch, at_controller) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let config = format!(
        "connect = ['tcp:{}']\nremember = 'kept'\nbackoff_max_s = 1\n\
         [[slice]]\nname = 'red'\ncontrollers = ['tcp:{}']\n\
         [[flowspace]]\nmatch = 'dl_vlan=10'\nports = [1, 2, 3]\nwrite = 'red'\n",
        at_switch.local_addr().unwrap(),
        at_controller.local_addr().unwrap()
    );
    std::fs::write(dir.path().join("slices.toml"), config).unwrap();
    let flows = Arc::new(Mutex::new(Flows::default()));
    switch(at_switch, Arc::clone(&flows));
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut pick = |n: u32| random.next_u32() % n;
    // What each station's frames meet: as it was when all that was acknowledged had been done, and after each
    // request since.
    let mut states = vec![BTreeMap::<u32, u16>::new()];
    let (mut asked, mut under_way, mut kept) = (0, 0, 0);
    let mut slicer = start(dir.path());
    for run in 0..=runs {
        let (tcp, _) = at_controller.accept().unwrap();
        tcp.set_read_timeout(Some(LIMIT)).unwrap();
        let mut line = Line::new(tcp);
        // All that the slicer had to do about the switch has been done.
        assert!(line.send(1, Message::BarrierRequest));
        while line.next().expect("the slicer has ended").body != Message::BarrierReply {}
        {
            let f = flows.lock().unwrap();
            let now = f.stations();
            let whole = |s: &BTreeMap<u32, u16>| -> BTreeMap<u32, BTreeMap<u32, u16>> {
                s.iter().map(|(at, n)| (*at, (1..=3).map(|p| (p, *n)).collect())).collect()
            };
            let one_of = states.iter().rposition(|s| whole(s) == now);
            let Some(one_of) = one_of else {
                panic!("run {run}: {now:?} is none of {states:?}");
            };
            under_way += u32::from(states.len() > 1);
            kept += u32::from(one_of > 0);
            // What stands now was not away for a moment.
            let away: Vec<_> = f.deleted.iter().filter(|k| f.rules.contains_key(*k)).collect();
            assert!(away.is_empty(), "run {run}: {away:?}");
            states = vec![states.swap_remove(one_of)];
        }
        if run == runs {
            break;
        }
        // It is killed while requests come, before the first or after some hundred.
        let kill_at = Instant::now() + Duration::from_micros(u64::from(pick(12_000)));
        let pid = Pid::from_raw(slicer.0.id().cast_signed()).unwrap();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(kill_at.saturating_duration_since(Instant::now()));
            kill_process(pid, Signal::KILL).unwrap();
        });
        let mut acknowledged = 0;
        let mut open = 0;
        'asking: loop {
            while open < 8 {
                let last = states.last().unwrap();
                let (at, what) = (pick(40), (pick(5) > 0).then(|| 200 + pick(1000) as u16));
                let mut next = last.clone();
                match what {
                    Some(n) => drop(next.insert(at, n)),
                    None => drop(next.remove(&at)),
                }
                let body = request(at, what, last.contains_key(&at));
                states.push(next);
                asked += 1;
                if !line.send(10, body) || !line.send(11, Message::BarrierRequest) {
                    break 'asking;
                }
                open += 1;
            }
            match line.next() {
                Some(Msg { body: Message::BarrierReply, .. }) => {
                    acknowledged += 1;
                    open -= 1;
                }
                Some(other) => panic!("{other:?}"),
                None => break,
            }
        }
        killer.join().unwrap();
        slicer.0.wait().unwrap();
        states.drain(..acknowledged);
        // What goes from here on goes while the next one takes up.
        slicer = start(dir.path());
    }
    println!(
        "soak: {runs} times killed, {under_way} of them with requests under way, of which some were done in {kept}; {asked} requests"
    );
}
