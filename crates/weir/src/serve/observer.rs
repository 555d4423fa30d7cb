//! Hosts, asked what they count, for everybody.
//!
//! Room: one question at a time to each host, each in a thread of its own, so that one that does not
//! answer keeps nobody from another's answer. Whoever wants it waits for it for a moment, and holds
//! nothing meanwhile; one that has not answered is let alone for a while.

use crate::commands::stats::Stats;
use crate::net::nodes::Nodes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::timeout_at;
use weir_supervisor::model::{Host, Lab, Tls};

/// How long an answer is waited for.
const WAIT: Duration = Duration::from_secs(3);
/// How long one that has not answered is not asked again.
const REST: Duration = Duration::from_secs(5);

/// What hosts have answered; nothing of one that has not.
pub type Seen = BTreeMap<String, Option<Arc<Stats>>>;

/// Asks hosts for everybody.
#[derive(Debug)]
pub struct Observer {
    wait: Duration,
    hosts: Mutex<BTreeMap<String, Arc<Asked>>>,
}

/// A host, and what is known of it.
#[derive(Debug)]
struct Asked {
    host: Host,
    tls: Option<Tls>,
    /// How long its answer is waited for.
    wait: Duration,
    known: watch::Sender<Known>,
    /// The connection, while it is not in use.
    kept: Mutex<Option<Nodes>>,
}

#[derive(Debug, Default)]
struct Known {
    /// How many questions have come to their end.
    ends: u64,
    /// When the last one did.
    at: Option<Instant>,
    /// What it was answered, if it was.
    stats: Option<Arc<Stats>>,
    /// Since when it is asked.
    since: Option<Instant>,
}

/// What is to be waited for.
struct Question {
    /// Ends before its own.
    ends: u64,
    since: Instant,
}

impl Default for Observer {
    fn default() -> Self {
        Self { wait: WAIT, hosts: Mutex::default() }
    }
}

impl Observer {
    /// What these hosts of a lab count now, or did less than `fresh` ago.
    pub async fn look(&self, lab: &Lab, wanted: &BTreeSet<String>, fresh: Duration) -> Seen {
        let asked = self.asked(lab, wanted);
        // All are asked before one is waited for.
        let asked: Vec<_> = asked.into_iter().map(|a| (a.begin(fresh), a)).collect();
        let mut seen = Seen::new();
        for (question, a) in asked {
            seen.insert(a.host.name.clone(), a.answer(question).await);
        }
        seen
    }

    fn asked(&self, lab: &Lab, wanted: &BTreeSet<String>) -> Vec<Arc<Asked>> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.retain(|name, _| lab.find_host(name).is_some());
        let wanted = lab.host.iter().filter(|h| wanted.contains(&h.name));
        wanted
            .map(|h| {
                let same = |a: &&Arc<Asked>| a.host == *h && a.tls == lab.tls;
                // One that is reached another way now is another.
                let old = hosts.get(&h.name).filter(same).cloned();
                let asked = old.unwrap_or_else(|| Arc::new(Asked::new(h, lab, self.wait)));
                hosts.insert(h.name.clone(), Arc::clone(&asked));
                asked
            })
            .collect()
    }
}

impl Asked {
    fn new(host: &Host, lab: &Lab, wait: Duration) -> Self {
        let (known, _) = watch::channel(Known::default());
        Self { host: host.clone(), tls: lab.tls.clone(), wait, known, kept: Mutex::default() }
    }

    /// Asks it, unless what is known will do; the question that is to be waited for, if there is one.
    fn begin(self: &Arc<Self>, fresh: Duration) -> Option<Question> {
        let (mut question, mut asks) = (None, false);
        self.known.send_if_modified(|k| {
            let rest = if k.stats.is_some() { fresh } else { REST };
            if k.since.is_none() && k.at.is_none_or(|at| at.elapsed() >= rest) {
                (k.since, asks) = (Some(Instant::now()), true);
            }
            question = k.since.map(|since| Question { ends: k.ends, since });
            // Nobody waits for a question.
            false
        });
        if asks {
            let mut end = End { of: Arc::clone(self), stats: None };
            let thread = std::thread::Builder::new().name("weir-look".to_owned());
            // Without a thread it ends at once, unanswered.
            drop(thread.spawn(move || {
                end.stats = end.of.ask().map(Arc::new);
                drop(end);
            }));
        }
        question
    }

    /// What it has answered, if it has in time.
    async fn answer(&self, question: Option<Question>) -> Option<Arc<Stats>> {
        let mut known = self.known.subscribe();
        if let Some(q) = question {
            let until = (q.since + self.wait).into();
            let ended = timeout_at(until, known.wait_for(|k| k.ends != q.ends)).await;
            ended.ok()?.ok()?;
        }
        known.borrow().stats.clone()
    }

    /// Asks it. Blocks for as long as it takes.
    fn ask(&self) -> Option<Stats> {
        let begin = Instant::now();
        let mut take = |mut nodes: Nodes| {
            let stats = nodes.stats(&self.host.name).ok()?;
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(nodes);
            Some(stats)
        };
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(stats) = kept.and_then(&mut take) {
            return Some(stats);
        }
        // A connection may have ended with the host's process; one on which nothing came says enough.
        if begin.elapsed() >= self.wait {
            return None;
        }
        let host = vec![self.host.clone()];
        let alone = Lab { tls: self.tls.clone(), host, ..Lab::default() };
        Nodes::connect([&alone]).ok().and_then(take)
    }
}

/// The end of a question, whatever becomes of who asks it.
struct End {
    of: Arc<Asked>,
    stats: Option<Arc<Stats>>,
}

impl Drop for End {
    fn drop(&mut self) {
        let stats = self.stats.take();
        self.of.known.send_modify(|k| {
            *k = Known { ends: k.ends + 1, at: Some(Instant::now()), stats, since: None };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::protocol::{Done, Reply};
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A host at a socket that answers each line, or none.
    fn host(listener: UnixListener, answer: Option<String>, asked: Arc<AtomicUsize>) {
        std::thread::spawn(move || {
            for mut s in listener.incoming().map(Result::unwrap) {
                let lines = BufReader::new(s.try_clone().unwrap()).lines();
                for _ in lines.map_while(Result::ok) {
                    asked.fetch_add(1, Ordering::Relaxed);
                    answer.iter().for_each(|a| writeln!(s, "{a}").unwrap());
                }
            }
        });
    }

    #[test]
    fn a_host_that_hangs_costs_one_wait_and_others_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let done = serde_json::to_string(&Reply::Ok(Done::default())).unwrap();
        let mut counts = Vec::new();
        let mut lab = Lab::default();
        for (name, answer) in [("well", Some(done)), ("hung", None)] {
            let path = dir.path().join(name);
            counts.push(Arc::new(AtomicUsize::new(0)));
            host(UnixListener::bind(&path).unwrap(), answer, Arc::clone(counts.last().unwrap()));
            let text = format!("name = '{name}'\napi = 'unix:{}'", path.display());
            lab.host.push(toml::from_str(&text).unwrap());
        }
        let observer = Observer { wait: Duration::from_millis(300), ..Observer::default() };
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
        let (all, well, hung) = (set(&["well", "hung"]), set(&["well"]), set(&["hung"]));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let now = Duration::ZERO;
            let began = Instant::now();
            let (a, b) =
                tokio::join!(observer.look(&lab, &all, now), observer.look(&lab, &hung, now),);
            // What answers is told with what does not, and both have waited for one question.
            assert!(a["well"].is_some() && a["hung"].is_none() && b["hung"].is_none());
            assert!(began.elapsed() >= observer.wait);
            assert!(observer.look(&lab, &well, now).await["well"].is_some());
            // It is still asked, and nobody waits for it any more.
            let late = Instant::now();
            for _ in 0..100 {
                assert!(observer.look(&lab, &hung, now).await["hung"].is_none());
            }
            assert!(late.elapsed() < 50 * observer.wait);
            assert_eq!(counts[1].load(Ordering::Relaxed), 1);
            // What has been answered just now serves all who do not mind.
            let before = counts[0].load(Ordering::Relaxed);
            for _ in 0..10 {
                observer.look(&lab, &well, Duration::from_secs(60)).await;
            }
            assert_eq!(counts[0].load(Ordering::Relaxed), before);
        });
    }
}
