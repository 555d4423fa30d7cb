//! Which processor a thread runs on.
//!
//! Room: wiring; asks and tells the kernel about threads of this process (sched_setaffinity(2)).
//! Called by `weir run` for a worker that is given a processor of its own.

use crate::fault::bad_input;
use anyhow::{Context, Result, anyhow};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A processor that a thread is to have to itself.
#[derive(Clone, Copy)]
pub struct Own(CpuSet);

/// Where all other threads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// On processors that nobody has to himself.
    Elsewhere,
    /// On the last of those that were to be somebody's: there are no more.
    WithTheLast,
}

/// Where this process may run, if a processor is among that.
///
/// # Errors
///
/// It is not; names those that are.
pub fn check(cpu: usize) -> Result<CpuSet> {
    let allowed = sched_getaffinity(None).context("asking where this process may run")?;
    if cpu >= CpuSet::MAX_CPU || !allowed.is_set(cpu) {
        let may: Vec<String> =
            (0..CpuSet::MAX_CPU).filter(|n| allowed.is_set(*n)).map(|n| n.to_string()).collect();
        return Err(bad_input(anyhow!(
            "[dataplane] cpu = {cpu}: weir may not run there; give it one of {}",
            may.join(", ")
        )));
    }
    Ok(allowed)
}

/// Keeps the calling thread, and those that it starts from now on, off a processor. Where this
/// process has no other, they share it.
///
/// # Errors
///
/// When this process may not run there, which names those where it may.
pub fn set_aside(cpu: usize) -> Result<Own> {
    Ok(set_all_aside(cpu, 1)?.0.remove(0))
}

/// The same for so many processors from this one on. Where this process has no others, its other threads share the
/// last one.
///
/// # Errors
///
/// As [`set_aside`].
pub fn set_all_aside(first: usize, count: usize) -> Result<(Vec<Own>, Others)> {
    let mut others = check_all(first, count)?;
    let mut all = Vec::new();
    for cpu in first..first + count {
        let mut own = CpuSet::new();
        own.set(cpu);
        all.push(Own(own));
        others.unset(cpu);
    }
    let mut shared = Others::Elsewhere;
    if let (0, Some(Own(last))) = (others.count(), all.last()) {
        (others, shared) = (*last, Others::WithTheLast);
    }
    sched_setaffinity(None, &others).context("leaving a processor to the worker")?;
    Ok((all, shared))
}

/// As [`check`], for so many processors from this one on.
///
/// # Errors
///
/// One of them is not there; names those that are.
pub fn check_all(first: usize, count: usize) -> Result<CpuSet> {
    let allowed = check(first)?;
    let last = first.saturating_add(count.saturating_sub(1));
    let may = |n: usize| n < CpuSet::MAX_CPU && allowed.is_set(n);
    if let Some(not) = (first..=last).find(|n| !may(*n)) {
        return Err(bad_input(anyhow!(
            "[dataplane] cpu = {first}: {count} workers have a processor each, {first} to {last}, and weir may not run on {not}: \
             choose another first one, fewer workers, or leave 'cpu' out"
        )));
    }
    Ok(allowed)
}

impl Own {
    /// Moves the calling thread there.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn take(self) -> Result<()> {
        let Own(cpus) = self;
        sched_setaffinity(None, &cpus).context("giving the worker a processor to itself")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mine() -> CpuSet {
        sched_getaffinity(None).unwrap()
    }

    #[test]
    fn who_starts_threads_leaves_the_processor_and_who_takes_it_stays_there() {
        // In a thread of its own, since it is moved.
        std::thread::spawn(|| {
            let before = mine();
            let cpu = (0..CpuSet::MAX_CPU).rfind(|n| before.is_set(*n)).unwrap();
            let own = set_aside(cpu).unwrap();
            assert!(before.count() == 1 || !mine().is_set(cpu));
            std::thread::spawn(move || {
                own.take().unwrap();
                assert!(mine().count() == 1 && mine().is_set(cpu));
            })
            .join()
            .unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn where_all_processors_are_somebodys_the_other_threads_share_the_last() {
        // In a thread of its own, since it is moved.
        std::thread::spawn(|| {
            let before = mine();
            let there = |n: &usize| before.is_set(*n);
            let last = (0..CpuSet::MAX_CPU).rfind(there).unwrap();
            let first = (0..=last).rev().take_while(there).last().unwrap();
            let mut only = CpuSet::new();
            (first..=last).for_each(|n| only.set(n));
            sched_setaffinity(None, &only).unwrap();
            let (own, others) = set_all_aside(first, last - first + 1).unwrap();
            assert_eq!((own.len(), others), (last - first + 1, Others::WithTheLast));
            assert!(mine().count() == 1 && mine().is_set(last));
            sched_setaffinity(None, &only).unwrap();
            if first < last {
                let (_, others) = set_all_aside(first, last - first).unwrap();
                assert_eq!(others, Others::Elsewhere);
                assert!(mine().count() == 1 && mine().is_set(last));
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_processor_that_is_not_there_is_refused_with_those_that_are() {
        for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            let text = format!("{:#}", set_aside(cpu).err().unwrap());
            assert!(text.contains(&format!("cpu = {cpu}")) && text.contains("one of "), "{text}");
        }
        let last = (0..CpuSet::MAX_CPU).rfind(|n| mine().is_set(*n)).unwrap();
        let text = format!("{:#}", check_all(last, 2).err().unwrap());
        let wanted = [
            format!("cpu = {last}: 2 workers have a processor each, {last} to {}", last + 1),
            format!("may not run on {}", last + 1),
        ];
        assert!(wanted.iter().all(|w| text.contains(w)), "{text}");
    }
}
