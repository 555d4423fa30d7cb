//! A router's control groups: what its programs may use of processors and memory, and what they use.
//!
//! Room: files below the machine's cgroup mounts; version 1 and 2, whichever has the controller. A group is
//! the same name in every hierarchy. Called by [`super::node`]. Source: the kernel's
//! admin-guide/cgroup-v1 and cgroup-v2.

use anyhow::{Context, Result, bail};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The period in which processor time is dealt out, in microseconds.
const PERIOD_US: u64 = 100_000;
/// How long the kernel may take to see that a group is empty.
const EMPTYING: Duration = Duration::from_secs(2);

/// What programs may use. Nothing said: as much as there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Thousandths of one processor's time.
    pub cpu_permille: Option<u32>,
    /// Processors, as the kernel lists them.
    pub cpus: Option<String>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A hierarchy that has one of the controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    root: PathBuf,
    controllers: Vec<String>,
}

/// A group in every hierarchy that has a controller of use.
#[derive(Clone, Debug)]
pub struct Group {
    name: String,
    of: Vec<Hierarchy>,
}

const CONTROLLERS: [&str; 4] = ["cpu", "cpuacct", "cpuset", "memory"];

/// Mounts of cgroups in the words of /proc/self/mounts.
fn hierarchies(mounts: &str, v2_has: impl Fn(&Path) -> String) -> Vec<Hierarchy> {
    let mut all: Vec<Hierarchy> = Vec::new();
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(_), Some(at), Some(kind), Some(options)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let root = PathBuf::from(at);
        let (version, has): (_, Vec<String>) = match kind {
            "cgroup" => (Version::One, options.split(',').map(str::to_owned).collect()),
            "cgroup2" => {
                (Version::Two, v2_has(&root).split_whitespace().map(str::to_owned).collect())
            }
            _ => continue,
        };
        let taken = |c: &String| all.iter().any(|h| h.controllers.contains(c));
        let controllers: Vec<String> =
            has.into_iter().filter(|c| CONTROLLERS.contains(&c.as_str()) && !taken(c)).collect();
        if !controllers.is_empty() {
            all.push(Hierarchy { version, root, controllers });
        }
    }
    all
}

fn machine() -> Vec<Hierarchy> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    hierarchies(&mounts, |root| {
        fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default()
    })
}

/// Processors that groups may have, as the kernel lists them; none where it does not say.
pub fn processors() -> Option<String> {
    processors_of(&machine())
}

fn processors_of(all: &[Hierarchy]) -> Option<String> {
    let h = all.iter().find(|h| h.controllers.iter().any(|c| c == "cpuset"))?;
    let file = match h.version {
        Version::One => "cpuset.cpus",
        Version::Two => "cpuset.cpus.effective",
    };
    let text = fs::read_to_string(h.root.join(file)).ok()?.trim().to_owned();
    Some(text).filter(|t| !t.is_empty())
}

fn put(path: &Path, value: &str) -> Result<()> {
    fs::write(path, value).with_context(|| format!("writing '{value}' to {}", path.display()))
}

impl Group {
    /// Makes a group. On a machine without cgroups it is there in name only, and takes no limits.
    ///
    /// # Errors
    /// No rights.
    pub fn make(name: &str) -> Result<Self> {
        let group = Self { name: name.to_owned(), of: machine() };
        for h in &group.of {
            let made = group.make_in(h);
            if made.is_err() {
                group.remove();
            }
            made?;
        }
        Ok(group)
    }

    fn make_in(&self, h: &Hierarchy) -> Result<()> {
        let at = h.root.join(&self.name);
        if h.version == Version::Two {
            let given = fs::read_to_string(h.root.join("cgroup.subtree_control"));
            let given = given.unwrap_or_default();
            let given: Vec<&str> = given.split_whitespace().collect();
            // Without it the files of a controller are missing in groups below.
            for c in
                h.controllers.iter().filter(|c| *c != "cpuacct" && !given.contains(&c.as_str()))
            {
                put(&h.root.join("cgroup.subtree_control"), &format!("+{c}"))?;
            }
        }
        match fs::create_dir(&at) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                return Err(e).with_context(|| format!("making {}", at.display()));
            }
            _ => {}
        }
        if h.version == Version::One && h.controllers.iter().any(|c| c == "cpuset") {
            // A new cpuset has neither, and no program may enter it so.
            for f in ["cpuset.cpus", "cpuset.mems"] {
                let all = fs::read_to_string(h.root.join(f)).unwrap_or_default();
                put(&at.join(f), all.trim())?;
            }
        }
        Ok(())
    }

    /// Another name's group, as far as it is there: for whoever takes away what was left.
    pub fn left(name: &str) -> Self {
        Self { name: name.to_owned(), of: machine() }
    }

    /// Names of groups that begin with `prefix`.
    pub fn beginning(prefix: &str) -> Vec<String> {
        let mut all: Vec<String> = machine()
            .iter()
            .filter_map(|h| fs::read_dir(&h.root).ok())
            .flat_map(|d| d.flatten())
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|n| n.starts_with(prefix))
            .collect();
        all.sort();
        all.dedup();
        all
    }

    fn with(&self, controller: &str) -> Option<(Version, PathBuf)> {
        let h = self.of.iter().find(|h| h.controllers.iter().any(|c| c == controller))?;
        Some((h.version, h.root.join(&self.name)))
    }

    /// Sets what its programs may use; what is not said is as much as there is.
    ///
    /// # Errors
    /// The machine lacks the controller, or the kernel refuses.
    pub fn limit(&self, to: &Limits) -> Result<()> {
        match (self.with("cpu"), to.cpu_permille) {
            (None, None) => {}
            (None, Some(_)) => bail!("{}", lacking("cpu", "cpu_quota_permille")),
            (Some((version, at)), quota) => {
                let quota = quota.map(|p| u64::from(p) * PERIOD_US / 1000);
                match version {
                    Version::One => {
                        put(&at.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
                        let quota = quota.map_or("-1".to_owned(), |q| q.to_string());
                        put(&at.join("cpu.cfs_quota_us"), &quota)?;
                    }
                    Version::Two => {
                        let quota = quota.map_or("max".to_owned(), |q| q.to_string());
                        put(&at.join("cpu.max"), &format!("{quota} {PERIOD_US}"))?;
                    }
                }
            }
        }
        match (self.with("cpuset"), &to.cpus) {
            (None, None) => {}
            (None, Some(_)) => bail!("{}", lacking("cpuset", "cpus")),
            (Some((version, at)), cpus) => {
                let all = || match version {
                    Version::One => {
                        at.parent().map(|p| p.join("cpuset.cpus")).map_or_else(String::new, |p| {
                            fs::read_to_string(p).unwrap_or_default().trim().to_owned()
                        })
                    }
                    Version::Two => String::new(),
                };
                let cpus = cpus.clone().unwrap_or_else(all);
                put(&at.join("cpuset.cpus"), &format!("{cpus}\n"))?;
            }
        }
        match (self.with("memory"), to.memory_bytes) {
            (None, None) => Ok(()),
            (None, Some(_)) => bail!("{}", lacking("memory", "memory_bytes")),
            (Some((Version::One, at)), n) => {
                let n = n.map_or("-1".to_owned(), |n| n.to_string());
                put(&at.join("memory.limit_in_bytes"), &n)
            }
            (Some((Version::Two, at)), n) => {
                let n = n.map_or("max".to_owned(), |n| n.to_string());
                put(&at.join("memory.max"), &n)
            }
        }
    }

    /// The files to which a process writes its number to come in.
    pub fn doors(&self) -> Vec<PathBuf> {
        self.of.iter().map(|h| h.root.join(&self.name).join("cgroup.procs")).collect()
    }

    /// Processes in it.
    pub fn processes(&self) -> Vec<i32> {
        let mut all: Vec<i32> = self
            .doors()
            .iter()
            .filter_map(|d| fs::read_to_string(d).ok())
            .flat_map(|t| t.lines().filter_map(|l| l.parse().ok()).collect::<Vec<i32>>())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Processor time that its programs have used, in microseconds, where that is counted.
    pub fn cpu_us(&self) -> Option<u64> {
        if let Some((Version::One, at)) = self.with("cpuacct") {
            let ns: u64 = fs::read_to_string(at.join("cpuacct.usage")).ok()?.trim().parse().ok()?;
            return Some(ns / 1000);
        }
        let (_, at) = self.with("cpu")?;
        let stat = fs::read_to_string(at.join("cpu.stat")).ok()?;
        stat.lines().find_map(|l| l.strip_prefix("usage_usec ")?.parse().ok())
    }

    /// Memory that its programs use, in bytes, where that is counted.
    pub fn memory_bytes(&self) -> Option<u64> {
        let (version, at) = self.with("memory")?;
        let file = match version {
            Version::One => "memory.usage_in_bytes",
            Version::Two => "memory.current",
        };
        fs::read_to_string(at.join(file)).ok()?.trim().parse().ok()
    }

    /// Takes it away. Its programs must have ended.
    pub fn remove(&self) {
        for h in &self.of {
            let at = h.root.join(&self.name);
            let until = Instant::now() + EMPTYING;
            // A program that has just ended may be seen for a moment yet.
            while fs::remove_dir(&at).is_err_and(|e| e.kind() != ErrorKind::NotFound) {
                if Instant::now() > until {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn lacking(controller: &str, key: &str) -> String {
    format!(
        "{key}: this machine mounts no cgroup controller '{controller}', of version 1 or 2; take it away"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n\
                      proc /proc proc rw 0 0\n";
        let v1 = hierarchies(mounts, |_| String::new());
        assert_eq!(v1.len(), 2);
        assert!(v1.iter().all(|h| h.version == Version::One));
        let v2 =
            hierarchies("none /sys/fs/cgroup cgroup2 rw 0 0\n", |_| "cpuset cpu io memory".into());
        assert_eq!(v2[0].controllers, ["cpuset", "cpu", "memory"]);
        // A controller that version 1 has is not asked for in version 2.
        let both = hierarchies(mounts, |_| "cpu cpuset".into());
        assert_eq!(both[2].controllers, ["cpuset"]);
    }

    /// A group in a hierarchy that is a folder with the files that the kernel's would have.
    fn group(version: Version, root: &Path, files: &[(&str, &str)]) -> Group {
        let has = CONTROLLERS.iter().filter(|c| version == Version::One || **c != "cpuacct");
        let controllers = has.map(|c| (*c).to_owned()).collect();
        for (name, text) in files {
            fs::write(root.join(name), text).unwrap();
        }
        let h = Hierarchy { version, root: root.to_owned(), controllers };
        Group { name: "g".to_owned(), of: vec![h] }
    }

    #[test]
    fn processors_are_what_the_kernel_lists() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        for (version, file) in
            [(Version::One, "cpuset.cpus"), (Version::Two, "cpuset.cpus.effective")]
        {
            let all =
                [Hierarchy { version, root: root.clone(), controllers: vec!["cpuset".into()] }];
            assert_eq!(processors_of(&all), None);
            fs::write(root.join(file), "0-1\n").unwrap();
            assert_eq!(processors_of(&all), Some("0-1".to_owned()));
        }
        assert_eq!(processors_of(&[]), None);
    }

    fn quarter_of(cpus: &str) -> Limits {
        let (cpu_permille, cpus) = (Some(250), Some(cpus.to_owned()));
        Limits { cpu_permille, cpus, memory_bytes: Some(64_000_000) }
    }

    #[test]
    fn version_2_is_told_in_its_own_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let g = group(Version::Two, root, &[("cgroup.subtree_control", "cpu memory")]);
        g.make_in(&g.of[0]).unwrap();
        // Only what groups below don't have yet is asked for.
        assert_eq!(fs::read_to_string(root.join("cgroup.subtree_control")).unwrap(), "+cpuset");
        let read = |f: &str| fs::read_to_string(root.join("g").join(f)).unwrap();
        let files = ["cpu.max", "cpuset.cpus", "memory.max"];
        g.limit(&quarter_of("1")).unwrap();
        assert_eq!(files.map(read), ["25000 100000", "1\n", "64000000"]);
        g.limit(&Limits::default()).unwrap();
        assert_eq!(files.map(read), ["max 100000", "\n", "max"]);
        assert_eq!(g.doors(), [root.join("g/cgroup.procs")]);
        for (f, text) in [
            ("cgroup.procs", "12\n7\n"),
            ("cpu.stat", "user_usec 5\nusage_usec 1234\n"),
            ("memory.current", "4096\n"),
        ] {
            fs::write(root.join("g").join(f), text).unwrap();
        }
        assert_eq!(g.processes(), [7, 12]);
        assert_eq!((g.cpu_us(), g.memory_bytes()), (Some(1234), Some(4096)));
    }

    #[test]
    fn version_1_is_told_in_its_own_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let g = group(Version::One, root, &[("cpuset.cpus", "0-3\n"), ("cpuset.mems", "0\n")]);
        g.make_in(&g.of[0]).unwrap();
        let read = |f: &str| fs::read_to_string(root.join("g").join(f)).unwrap();
        assert_eq!(["cpuset.cpus", "cpuset.mems"].map(read), ["0-3", "0"]);
        let files =
            ["cpu.cfs_period_us", "cpu.cfs_quota_us", "cpuset.cpus", "memory.limit_in_bytes"];
        g.limit(&quarter_of("2")).unwrap();
        assert_eq!(files.map(read), ["100000", "25000", "2\n", "64000000"]);
        g.limit(&Limits::default()).unwrap();
        assert_eq!(files.map(read), ["100000", "-1", "0-3\n", "-1"]);
        for (f, text) in [("cpuacct.usage", "1234567\n"), ("memory.usage_in_bytes", "8192\n")] {
            fs::write(root.join("g").join(f), text).unwrap();
        }
        assert_eq!((g.cpu_us(), g.memory_bytes()), (Some(1234), Some(8192)));
        // Without a controller, a limit is refused rather than forgotten.
        let none = Group { name: "g".to_owned(), of: Vec::new() };
        let why = none.limit(&quarter_of("0")).unwrap_err().to_string();
        assert!(why.contains("cpu_quota_permille"), "{why}");
        assert!(none.limit(&Limits::default()).is_ok());
    }
}
