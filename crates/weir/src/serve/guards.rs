//! The lab's guards, watched by the daemon (003 §2.1, functionality 4): told, or done.
//!
//! Room: a task that looks once a second, at what blocks elsewhere. What applies is
//! `weir_supervisor::guard`'s; what is done goes by the desk like every change; the stream tells both.

use super::App;
use super::caller::Caller;
use super::desk::{About, Part};
use super::events::{Event, GuardItem};
use super::monitor::counters;
use super::observer::Seen;
use crate::commands::say::tell;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use weir_supervisor::guard::{self, Alarm, Counted, Watch};
use weir_supervisor::store::Saved;

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// What the daemon does with guards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guards {
    /// Nothing: it does not look.
    #[default]
    Off,
    /// It says what they would do.
    Tell,
    /// What they say.
    Act,
}

/// What nodes had counted, by network and name.
type Sums = BTreeMap<(String, String), Counted>;

/// What is known from look to look.
struct Looks {
    began: Instant,
    watch: Watch,
    before: Option<(u64, Sums)>,
}

/// Watches for ever.
pub async fn watch(app: Arc<App>, guards: Guards) {
    if guards == Guards::Off {
        return;
    }
    let mut looks = Looks { began: Instant::now(), watch: Watch::default(), before: None };
    loop {
        sleep(EVERY).await;
        // One look is over before the next; a store that can't be read now is read at the next.
        let Ok(saved) = app.desk(|d| Ok(d.look()?)).await else { continue };
        if saved.state.lab.guard.is_empty() {
            looks.before = None;
            continue;
        }
        let wanted = saved.state.lab.host.iter().map(|h| h.name.clone()).collect();
        let seen = app.observer.look(&saved.state.lab, &wanted, Duration::ZERO).await;
        let at = looks.began.elapsed();
        let a = Arc::clone(&app);
        let done = app.desk(move |_| {
            looks.look(&a, guards, &saved, &seen, at);
            Ok(looks)
        });
        looks = match done.await {
            Ok(l) => l,
            Err(_) => Looks { began: Instant::now(), watch: Watch::default(), before: None },
        };
    }
}

impl Looks {
    /// What hosts have answered, when `at` had passed.
    fn look(&mut self, app: &App, guards: Guards, saved: &Saved, seen: &Seen, at: Duration) {
        let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let mut now = Sums::new();
        for n in counters(&saved.state, seen, |_| true) {
            for v in n.nodes.into_iter().filter(|v| v.there) {
                let counted = Counted {
                    received_frames: v.received_frames,
                    received_bytes: v.received_bytes,
                    forwarded_frames: v.forwarded_frames,
                    dropped_frames: v.dropped_frames,
                    slow_frames: v.slow_frames,
                };
                now.insert((n.network.clone(), v.node), counted);
            }
        }
        if let Some((then, before)) = &self.before {
            let passed = at.saturating_sub(*then).max(1);
            let alarms = self.watch.look(&saved.state.lab, at, passed, &since(before, &now));
            for a in alarms {
                let owner = saved.state.lab.network(&a.network).map(|n| n.owner.clone());
                let outcome = match guards {
                    Guards::Act => act(app, &a),
                    Guards::Off | Guards::Tell => Ok("dry-run".to_owned()),
                };
                let outcome = outcome.unwrap_or_else(|why| {
                    self.watch.failed(&a);
                    why
                });
                told(app, a, owner.unwrap_or_default(), outcome);
            }
        }
        self.before = Some((at, now));
    }
}

/// What was counted between two looks, by nodes that were there at both.
fn since(before: &Sums, now: &Sums) -> Sums {
    let one = |(key, n): (&(String, String), &Counted)| {
        let b = before.get(key)?;
        let counted = Counted {
            received_frames: n.received_frames.saturating_sub(b.received_frames),
            received_bytes: n.received_bytes.saturating_sub(b.received_bytes),
            forwarded_frames: n.forwarded_frames.saturating_sub(b.forwarded_frames),
            dropped_frames: n.dropped_frames.saturating_sub(b.dropped_frames),
            slow_frames: n.slow_frames.saturating_sub(b.slow_frames),
        };
        Some((key.clone(), counted))
    };
    now.iter().filter_map(one).collect()
}

/// Does what a guard says; `Err` is why it could not be.
fn act(app: &App, a: &Alarm) -> Result<String, String> {
    let by = Caller::guard(&a.guard);
    let done = app.desk.guarded(&by, |lab| {
        guard::act(lab, a);
        Ok(())
    });
    done.map(|_| "done".to_owned()).map_err(|p| p.detail)
}

fn told(app: &App, a: Alarm, owner: String, outcome: String) {
    let (rate, act) = (a.rate.name(), a.act.name());
    tell(format_args!(
        "guard '{}': {}/{}: {} {rate}/s: {act}: {outcome}",
        a.guard, a.network, a.node, a.per_s
    ));
    let Ok(saved) = app.desk.look() else { return };
    let about = vec![About { network: a.network.clone(), owner, part: Part::Whole }];
    let guard = GuardItem {
        guard: a.guard,
        network: a.network,
        node: a.node,
        rate: rate.to_owned(),
        per_s: a.per_s,
        act: act.to_owned(),
        outcome,
    };
    let revision = saved.state.revision;
    app.events.tell(|at_s| Event {
        at_s,
        revision,
        by: None,
        about,
        steps: Vec::new(),
        guard: Some(guard),
    });
}
