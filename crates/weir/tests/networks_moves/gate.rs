//! A door in front of a node's control socket, at which a supervisor is killed, or refused, at a certain request.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};

/// What happens at a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Who asks is killed, and the node hears nothing of it.
    KillBefore,
    /// Who asks is killed, and the node does it all the same.
    KillAfter,
    /// The node says no.
    Refuse,
}

/// Doors of several nodes, by which one supervisor goes.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    passed: usize,
    /// At how many further requests what happens.
    armed: Option<(usize, What)>,
    /// Who is killed then.
    whom: Option<u32>,
}

impl Gate {
    /// Opens a door to a node's control socket.
    pub fn door(&self, path: &Path, node: PathBuf) {
        let listener = UnixListener::bind(path).unwrap();
        let gate = self.clone();
        std::thread::spawn(move || {
            for from in listener.incoming().map_while(Result::ok) {
                let (gate, to) = (gate.clone(), UnixStream::connect(&node).unwrap());
                std::thread::spawn(move || gate.serve(&from, &to));
            }
        });
    }

    /// Requests that have come so far.
    pub fn passed(&self) -> usize {
        self.0.0.lock().unwrap().passed
    }

    /// Runs a command, at whose `n`th request from now on something happens. Whether it succeeded.
    pub fn run(&self, mut command: Command, n: usize, what: What) -> bool {
        let (state, told) = &*self.0;
        *state.lock().unwrap() = State { armed: Some((n, what)), ..State::default() };
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        state.lock().unwrap().whom = Some(child.id());
        told.notify_all();
        let whole = child.wait().unwrap().success();
        *state.lock().unwrap() = State::default();
        whole
    }

    /// What happens at this request.
    fn next(&self) -> Option<What> {
        let mut s = self.0.0.lock().unwrap();
        s.passed += 1;
        let (left, what) = s.armed.as_mut()?;
        *left -= 1;
        if *left > 0 {
            return None;
        }
        let what = *what;
        s.armed = None;
        Some(what)
    }

    fn kill(&self) {
        let (state, told) = &*self.0;
        let s = told.wait_while(state.lock().unwrap(), |s| s.whom.is_none()).unwrap();
        let pid = Pid::from_raw(s.whom.unwrap().cast_signed()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }

    /// Requests from one side, answers from the other, until one of both ends.
    fn serve(&self, from: &UnixStream, mut to: &UnixStream) -> Option<()> {
        let mut answers = BufReader::new(to);
        for request in BufReader::new(from).lines() {
            let what = self.next();
            match what {
                Some(What::KillBefore) => {
                    self.kill();
                    return None;
                }
                Some(What::Refuse) => {
                    let refusal = "{\"error\":{\"fault\":\"work\",\"text\":\"no\"}}\n";
                    (&*from).write_all(refusal.as_bytes()).ok()?;
                    continue;
                }
                Some(What::KillAfter) | None => {}
            }
            to.write_all(format!("{}\n", request.ok()?).as_bytes()).ok()?;
            if what.is_some() {
                self.kill();
            }
            loop {
                let mut line = String::new();
                if answers.read_line(&mut line).ok()? == 0 {
                    return None;
                }
                (&*from).write_all(line.as_bytes()).ok()?;
                if !line.starts_with("{\"item\"") {
                    break;
                }
            }
        }
        None
    }
}
