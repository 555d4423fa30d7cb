//! FRR inside a router: its files, its daemons, and how they get their configuration.
//!
//! Room: files in the router's folder, FRR's own programs. Called by [`super::node`] and by what watches
//! programs. Source: FRR 8.4's zebra(8), vtysh(1).
//!
//! The text is read by `vtysh -C` before anything starts. All daemons start without a word and are configured by `vtysh -b`,
//! which tells each what is its own of the one text, and says what that refuses.

use super::programs::{Place, Program};
use anyhow::{Context, Result, anyhow, bail};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// FRR in one router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frr {
    daemons: Vec<String>,
    folder: PathBuf,
}

/// Where distributions put the daemons.
const FOLDERS: [&str; 3] = ["/usr/lib/frr", "/usr/libexec/frr", "/usr/sbin"];
/// How long daemons may take until they listen.
const STARTING: Duration = Duration::from_secs(20);
/// How often it is looked whether they do.
const PAUSE: Duration = Duration::from_millis(10);
/// The daemon that all others ask, and where, in the router's folder.
const ZEBRA: &str = "zebra";
const ZEBRAS: &str = "zserv.api";

/// The text, until it is understood: daemons that run may ask for the one before meanwhile.
const NEW: &str = "frr.conf.new";
/// What tells the daemons, and reads for them.
const VTYSH: &str = "/usr/bin/vtysh";
/// What ends it where it does not come to an end by itself, and after how many seconds.
const TIMEOUT: [&str; 3] = ["/usr/bin/timeout", "--kill-after=1", "30"];
/// How that tells of it, also where it had to kill.
const LATE: [i32; 2] = [124, 137];

/// Where FRR's daemons are.
fn home() -> Result<&'static str> {
    FOLDERS.into_iter().find(|f| Path::new(f).join("zebra").exists()).ok_or_else(|| {
        anyhow!("FRR is not installed: 'apt-get install frr', or take frr and daemons away")
    })
}

/// The user that FRR's daemons become.
fn user() -> (&'static str, Option<(u32, u32)>) {
    let all = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = all.lines().find_map(|l| {
        let mut words = l.split(':');
        let uid = (words.next()? == "frr").then(|| words.nth(1)?.parse().ok())??;
        Some((uid, words.next()?.parse().ok()?))
    });
    (if found.is_some() { "frr" } else { "root" }, found)
}

impl Frr {
    /// Writes FRR's files into a router's folder, if the text is one that FRR understands; what is to be started.
    ///
    /// # Errors
    /// FRR is missing, does not understand the text, or the files can't be written.
    pub fn prepare(folder: &Path, daemons: &[String], text: &str) -> Result<(Self, Vec<Program>)> {
        let home = home()?;
        let (user, id) = user();
        let mut all = vec![ZEBRA.to_owned()];
        all.extend(daemons.iter().filter(|d| *d != ZEBRA).cloned());
        let mut files = vec![(NEW.to_owned(), text), ("vtysh.conf".to_owned(), "")];
        files.extend(all.iter().map(|d| (format!("{d}.conf"), "")));
        let owned = |path: &Path| -> Result<()> {
            if let Some((uid, gid)) = id {
                std::os::unix::fs::chown(path, Some(uid), Some(gid))
                    .with_context(|| format!("{}", path.display()))?;
            }
            Ok(())
        };
        owned(folder)?;
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("{}", path.display()))?;
            owned(&path)?;
        }
        understood(folder)?;
        let at = |name: &str| folder.join(name).display().to_string();
        let mut programs = Vec::new();
        for d in &all {
            let path = format!("{home}/{d}");
            if !Path::new(&path).exists() {
                bail!("{path} is not there: install FRR with it, or take '{d}' away");
            }
            let mut words = vec![path, "-f".to_owned(), at(&format!("{d}.conf"))];
            let more = [
                ("-i", at(&format!("{d}.pid"))),
                ("-z", at(ZEBRAS)),
                ("--vty_socket", folder.display().to_string()),
                ("-P", "0".to_owned()),
                ("-u", user.to_owned()),
                ("-g", user.to_owned()),
                ("--log", format!("file:{}", at(&format!("{d}.log")))),
            ];
            words.extend(more.into_iter().flat_map(|(k, v)| [k.to_owned(), v]));
            programs.push(Program { name: d.clone(), words });
        }
        Ok((Self { daemons: all, folder: folder.to_owned() }, programs))
    }

    /// Has what was prepared be what its daemons are told from now on. To be called when those of before are gone: who is started again
    /// has all others told anew.
    ///
    /// # Errors
    /// The system refuses.
    pub fn take_up(&self) -> Result<()> {
        let file = self.folder.join("frr.conf");
        std::fs::rename(self.folder.join(NEW), &file).with_context(|| file.display().to_string())
    }

    /// Whether a program is one of its daemons.
    pub fn has(&self, p: &Program) -> bool {
        self.daemons.contains(&p.name)
    }

    /// Whether a program is the one of them that all others ask.
    pub fn leads(&self, p: &Program) -> bool {
        self.has(p) && p.name == ZEBRA
    }

    /// Whether a program would find what it looks for when it starts: a daemon that does not find zebra then looks again ten seconds
    /// later.
    pub fn may_start(&self, p: &Program) -> bool {
        let asks = self.has(p) && p.name != ZEBRA;
        !asks || UnixStream::connect(self.folder.join(ZEBRAS)).is_ok()
    }

    /// Waits until it may start. `gone` says why one that was started before is not there any more.
    ///
    /// # Errors
    /// It has gone, or does not listen.
    pub fn wait_to_start(
        &self,
        p: &Program,
        gone: &mut dyn FnMut() -> Option<String>,
    ) -> Result<()> {
        let until = Instant::now() + STARTING;
        while !self.may_start(p) {
            self.go_on(until, ZEBRA, ZEBRAS, gone)?;
        }
        Ok(())
    }

    /// Gives a daemon that does not listen yet a moment.
    fn go_on(
        &self,
        until: Instant,
        daemon: &str,
        socket: &str,
        gone: &mut dyn FnMut() -> Option<String>,
    ) -> Result<()> {
        if let Some(why) = gone() {
            let who = why.split(' ').next().unwrap_or(daemon);
            bail!("{why}{}", self.last_word(who));
        }
        if Instant::now() > until {
            bail!("{daemon} does not listen at {}", self.folder.join(socket).display());
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }

    /// What a daemon's log ends with.
    fn last_word(&self, daemon: &str) -> String {
        let log = std::fs::read_to_string(self.folder.join(format!("{daemon}.log")));
        let log = log.unwrap_or_default();
        let line = log.lines().rev().find(|l| !l.trim().is_empty());
        line.map(|l| format!(": {}", l.chars().take(300).collect::<String>())).unwrap_or_default()
    }

    /// Waits until all daemons listen, then tells them their configuration. `gone` says why one of them is
    /// not there any more.
    ///
    /// # Errors
    /// One does not listen, or refuses its configuration.
    pub fn configure(&self, place: &Place, gone: &mut dyn FnMut() -> Option<String>) -> Result<()> {
        let until = Instant::now() + STARTING;
        for d in &self.daemons {
            let socket = format!("{d}.vty");
            while UnixStream::connect(self.folder.join(&socket)).is_err() {
                self.go_on(until, d, &socket, gone)?;
            }
        }
        let mut words = vtysh(&self.folder);
        words.push("-b".to_owned());
        judged(&place.run(&Program { name: "vtysh".to_owned(), words })?)
    }
}

/// Begins a call of vtysh for the router's daemons and configuration.
fn vtysh(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let places = ["--vty_socket", &folder, "--config_dir", &folder];
    TIMEOUT.into_iter().chain([VTYSH]).chain(places).map(str::to_owned).collect()
}

/// Whether FRR understands the new text in a router's folder; no daemon is asked.
fn understood(folder: &Path) -> Result<()> {
    let words = vtysh(folder);
    let mut c = Command::new(TIMEOUT[0]);
    c.args(&words[1..]).arg("-C").arg("-f").arg(folder.join(NEW)).stdin(Stdio::null());
    judged(&c.output().context(TIMEOUT[0])?)
}

/// What vtysh says of a configuration: the first line that is not understood or refused, in FRR's words, with its number.
fn judged(o: &Output) -> Result<()> {
    let both = [&*o.stdout, &*o.stderr].concat();
    let said = String::from_utf8_lossy(&both);
    // It ends well also where it was not understood, and its last line then counts such lines only.
    let wrong = |l: &&str| l.contains("% ") || l.starts_with("line ");
    match said.lines().find(wrong) {
        Some(line) => {
            let words: Vec<&str> = line.split_whitespace().collect();
            bail!("frr: {}", words.join(" ").chars().take(300).collect::<String>())
        }
        None if o.status.success() => Ok(()),
        None if o.status.code().is_some_and(|c| LATE.contains(&c)) => {
            bail!("vtysh: it does not come to an end within {} s", TIMEOUT[2])
        }
        None => {
            let last = said.lines().rev().find(|l| !l.trim().is_empty());
            bail!("vtysh: {}", last.unwrap_or("it gives no reason"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn daemons_wait_for_zebra_and_nobody_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let daemons = [ZEBRA, "staticd"].map(str::to_owned).to_vec();
        let frr = Frr { daemons, folder: folder.path().to_owned() };
        let may = |name: &str| frr.may_start(&Program { name: name.to_owned(), words: Vec::new() });
        assert_eq!([ZEBRA, "staticd", "dnsmasq"].map(may), [true, false, true]);
        let zebra = UnixListener::bind(folder.path().join(ZEBRAS)).unwrap();
        assert_eq!([ZEBRA, "staticd", "dnsmasq"].map(may), [true, true, true]);
        // Its socket is left behind where it was killed.
        drop(zebra);
        assert_eq!([ZEBRA, "staticd", "dnsmasq"].map(may), [true, false, true]);
        let staticd = Program { name: "staticd".to_owned(), words: Vec::new() };
        let gone = || Some("zebra has ended by itself".to_owned());
        let why = frr.wait_to_start(&staticd, &mut { gone }).unwrap_err();
        assert_eq!(why.to_string(), "zebra has ended by itself");
    }

    #[test]
    fn what_is_not_understood_is_told_in_frrs_words_with_its_line() {
        let said = |code: i32, text: &str| Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: text.as_bytes().to_vec(),
            stderr: b"Configuration file processing failure: 2\n".to_vec(),
        };
        let text = "line 4: % Unknown command[17]:  ip adress 10.0.0.1/24\n\nline 6: % Unknown command[17]: x\n";
        for code in [0, 2] {
            let why = judged(&said(code, text)).unwrap_err().to_string();
            assert_eq!(why, "frr: line 4: % Unknown command[17]: ip adress 10.0.0.1/24");
        }
        let why = judged(&said(2, "")).unwrap_err().to_string();
        assert_eq!(why, "vtysh: Configuration file processing failure: 2");
        let why = judged(&said(LATE[0], "")).unwrap_err().to_string();
        assert_eq!(why, "vtysh: it does not come to an end within 30 s");
        assert!(judged(&said(0, "")).is_ok());
    }

    /// As FRR itself says it.
    #[test]
    #[allow(clippy::print_stderr, reason = "tests say what they skip")]
    fn frr_is_asked_before_anything_starts() {
        if !Path::new(VTYSH).exists() {
            return eprintln!("SKIPPED: frr is asked before anything starts: needs frr");
        }
        let folder = tempfile::tempdir().unwrap();
        let with = |text: &str| {
            std::fs::write(folder.path().join(NEW), text).unwrap();
            std::fs::write(folder.path().join("vtysh.conf"), "").unwrap();
            understood(folder.path())
        };
        with("hostname r\n!\nip route 10.0.0.0/8 10.1.0.1\n").unwrap();
        let why =
            with("hostname r\n!\ninterface e0\n ip adress 10.0.0.1/24\n").unwrap_err().to_string();
        assert!(why.starts_with("frr: line 4: % Unknown command"), "{why}");
        assert!(why.ends_with("ip adress 10.0.0.1/24"), "{why}");
    }
}
