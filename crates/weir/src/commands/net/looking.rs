//! Physical nodes for looking at them: one that does not answer is told of and left out, and asked again after a while.
//!
//! Room: connections, for `show` and `monitor`. Changes have their own (`net/reach`).

use crate::commands::say::note;
use crate::commands::stats::Stats;
use crate::net::nodes::Nodes;
use crate::socket::client::NoAnswer;
use anyhow::{Error, Result};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_supervisor::model::Lab;

/// How long a host that does not answer is left alone at least.
const AGAIN: Duration = Duration::from_secs(5);
/// And how many times as long as it was waited for: one that hangs keeps up a look, and shall not keep up all.
const TIMES: u32 = 20;

/// A host that does not answer.
#[derive(Debug)]
struct Silent {
    why: String,
    again: Instant,
}

/// Hosts that are looked at.
#[derive(Debug)]
pub(super) struct Looking {
    lab: Lab,
    nodes: Nodes,
    silent: BTreeMap<String, Silent>,
}

impl Looking {
    /// Connects to the hosts of a lab, as many as answer, and tells of the others.
    ///
    /// # Errors
    /// One refuses, or an identity can't be used.
    pub(super) fn at(lab: &Lab) -> Result<Self> {
        let lab = Lab { tls: lab.tls.clone(), host: lab.host.clone(), ..Lab::default() };
        let mut looking = Self { lab, nodes: Nodes::default(), silent: BTreeMap::new() };
        for h in looking.lab.host.clone() {
            looking.asked(&h.name, |nodes, lab| nodes.add(&h, lab.tls.as_ref()))?;
        }
        Ok(looking)
    }

    /// Why a host does not answer, if it does not.
    pub(super) fn why_silent(&self, host: &str) -> Option<&str> {
        self.silent.get(host).map(|s| s.why.as_str())
    }

    /// Asks a host; nothing where it does not answer.
    ///
    /// # Errors
    /// What it says instead of an answer.
    pub(super) fn ask<T>(
        &mut self,
        host: &str,
        what: impl FnOnce(&mut Nodes) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.silent.contains_key(host) {
            true => Ok(None),
            false => self.asked(host, |nodes, _| what(nodes)),
        }
    }

    fn asked<T>(
        &mut self,
        host: &str,
        what: impl FnOnce(&mut Nodes, &Lab) -> Result<T>,
    ) -> Result<Option<T>> {
        let began = Instant::now();
        match what(&mut self.nodes, &self.lab) {
            Ok(answer) => {
                if self.silent.remove(host).is_some() {
                    note(format_args!("weir: host '{host}' answers again"));
                }
                Ok(Some(answer))
            }
            Err(e) if e.downcast_ref::<NoAnswer>().is_some() => {
                self.silence(host, &e, began);
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn silence(&mut self, host: &str, e: &Error, began: Instant) {
        self.nodes.remove(host);
        let (why, now) = (format!("{e:#}"), Instant::now());
        let again = now + AGAIN.max((now - began) * TIMES);
        if self.silent.insert(host.to_owned(), Silent { why: why.clone(), again }).is_none() {
            note(format_args!("weir: {why}; what is there is not known"));
        }
    }

    /// The counters of all that answer. Who has been left alone for long enough is asked once more.
    ///
    /// # Errors
    /// One refuses.
    pub(super) fn stats(&mut self) -> Result<BTreeMap<String, Stats>> {
        let mut all = BTreeMap::new();
        for h in self.lab.host.clone() {
            if self.silent.get(&h.name).is_some_and(|s| s.again > Instant::now()) {
                continue;
            }
            let tls = self.lab.tls.clone();
            let stats = self.asked(&h.name, |nodes, _| {
                if !nodes.answers(&h.name) {
                    nodes.add(&h, tls.as_ref())?;
                }
                nodes.stats(&h.name)
            })?;
            all.extend(stats.map(|s| (h.name, s)));
        }
        Ok(all)
    }
}
