//! A switch's reset: by the user's command, or of a lab's data path, which is killed and started again.
//!
//! Room: processes. Called by the engine, on a thread of its own.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_measure::engine::run::Reset;

/// Between two looks whether a command has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A process that can be started anew.
pub struct Restarted {
    command: Command,
    child: Child,
}

impl Restarted {
    /// Starts it.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(mut command: Command) -> std::io::Result<Self> {
        let child = command.spawn()?;
        Ok(Self { command, child })
    }

    /// What runs now.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    fn again(&mut self) -> std::io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.child = self.command.spawn()?;
        Ok(())
    }
}

/// Of a process of this machine: killed, as a reset does, and started again.
pub fn of(process: Arc<Mutex<Restarted>>) -> Reset {
    Box::new(move |_| {
        let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
        process.again().map_err(|e| format!("the lab's switch: {e}"))
    })
}

/// By a command of the shell, which ends when the switch has been reset.
pub fn by_command(line: String) -> Reset {
    Box::new(move |over| run(&line, over).map_err(|e| format!("--reset-command {line}: {e}")))
}

fn run(line: &str, over: &AtomicBool) -> Result<(), String> {
    let mut command = Command::new("sh");
    // A group of its own, so that Ctrl-C is for the measurement.
    command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(status.to_string()),
            None if over.load(Ordering::Acquire) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err("it had not ended when the measurement did".to_owned());
            }
            None => std::thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_do_it_or_say_why_not() {
        let (never, over) = (AtomicBool::new(false), AtomicBool::new(true));
        assert_eq!(by_command("exit 0".to_owned())(&never), Ok(()));
        let e = by_command("exit 3".to_owned())(&never).unwrap_err();
        assert_eq!(e, "--reset-command exit 3: exit status: 3");
        let e = by_command("sleep 60".to_owned())(&over).unwrap_err();
        assert!(e.contains("had not ended"), "{e}");
    }

    #[test]
    fn a_process_is_another_afterwards() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let process = Arc::new(Mutex::new(Restarted::start(command).unwrap()));
        let before = process.lock().unwrap().child().id();
        of(Arc::clone(&process))(&AtomicBool::new(false)).unwrap();
        let mut process = process.lock().unwrap();
        assert_ne!(process.child().id(), before);
        assert!(process.child().try_wait().unwrap().is_none(), "it runs");
        process.child().kill().unwrap();
        process.child().wait().unwrap();
    }
}
