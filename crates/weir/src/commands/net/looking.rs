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

/// How long silent hosts are left alone at least.
const AGAIN: Duration = Duration::from_secs(5);
/// And how many times as long as the last was waited for: one that hangs keeps up a look, and shall not keep up all.
const TIMES: u32 = 20;

/// Hosts that are looked at.
#[derive(Debug)]
pub(super) struct Looking {
    lab: Lab,
    nodes: Nodes,
    /// Those that do not answer, and why.
    silent: BTreeMap<String, String>,
    /// When one of them is asked again, and which was the last.
    again: Instant,
    last: String,
}

impl Looking {
    /// Connects to the hosts of a lab, as many as answer, and tells of the others.
    ///
    /// # Errors
    /// One refuses, or an identity can't be used.
    pub(super) fn at(lab: &Lab) -> Result<Self> {
        let lab = Lab { tls: lab.tls.clone(), host: lab.host.clone(), ..Lab::default() };
        let (nodes, silent, again) = (Nodes::default(), BTreeMap::new(), Instant::now() + AGAIN);
        let mut looking = Self { lab, nodes, silent, again, last: String::new() };
        for h in looking.lab.host.clone() {
            looking.asked(&h.name, |nodes, lab| nodes.add(&h, lab.tls.as_ref()))?;
        }
        Ok(looking)
    }

    /// Why a host does not answer, if it does not.
    pub(super) fn why_silent(&self, host: &str) -> Option<&str> {
        self.silent.get(host).map(String::as_str)
    }

    /// Whether the hosts of a lab are these, reached the same way.
    pub(super) fn is_at(&self, lab: &Lab) -> bool {
        (&self.lab.host, &self.lab.tls) == (&lab.host, &lab.tls)
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
        match what(&mut self.nodes, &self.lab) {
            Ok(answer) => {
                if self.silent.remove(host).is_some() {
                    note(format_args!("weir: host '{host}' answers again"));
                }
                Ok(Some(answer))
            }
            Err(e) if e.downcast_ref::<NoAnswer>().is_some() => {
                self.silence(host, &e);
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn silence(&mut self, host: &str, e: &Error) {
        self.nodes.remove(host);
        let why = format!("{e:#}");
        if self.silent.insert(host.to_owned(), why.clone()).is_none() {
            note(format_args!("weir: {why}; what is there is not known"));
        }
    }

    /// The counters of all that answer, at one moment as nearly as can be: those that were there before one was found to be silent
    /// are asked anew. Then a silent one is asked once more, if that is due.
    ///
    /// # Errors
    /// One refuses.
    pub(super) fn stats(&mut self) -> Result<BTreeMap<String, Stats>> {
        let mut all = loop {
            let (mut all, before) = (BTreeMap::new(), self.silent.len());
            for h in self.lab.host.clone() {
                let stats = self.ask(&h.name, |nodes| nodes.stats(&h.name))?;
                all.extend(stats.map(|s| (h.name, s)));
            }
            if self.silent.len() == before {
                break all;
            }
        };
        if self.again <= Instant::now() {
            all.extend(self.ask_again()?);
        }
        Ok(all)
    }

    /// Asks the next of the silent hosts.
    fn ask_again(&mut self) -> Result<Option<(String, Stats)>> {
        let after = |h: &&String| **h > self.last;
        let next = self.silent.keys().find(after).or_else(|| self.silent.keys().next()).cloned();
        let Some(next) = next else { return Ok(None) };
        let Some(h) = self.lab.host.iter().find(|h| h.name == next).cloned() else {
            return Ok(None);
        };
        let began = Instant::now();
        let stats = self.asked(&next, |nodes, lab| {
            nodes.add(&h, lab.tls.as_ref())?;
            nodes.stats(&h.name)
        })?;
        self.again = Instant::now() + AGAIN.max(began.elapsed() * TIMES);
        self.last.clone_from(&next);
        Ok(stats.map(|s| (next, s)))
    }
}
