//! The log of what runs on: a thread of its own writes it, so that nobody else waits for whoever reads.
//!
//! Room: printing. Started by `weir run`, `slicer`, `serve` and `dut`; `say` puts lines in, from any thread. A reader that
//! stands still (`| less`, a journal that is stuck) holds up the writer alone: lines are kept while there is room, then left
//! out and counted, and where there is room again the log says how many are missing. Standard output and standard error
//! share the one writer, so that their lines keep their order, and one that is stuck holds up both.

use crate::date;
use anyhow::{Context, Result};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes of lines that wait to be written; one line always may.
const ROOM_BYTES: usize = 1 << 20;
/// How long whoever has lines to say waits for room, until all has been written once: a reader who is slower than a
/// reload of many rules misses none of it, and one who has stopped holds up no reload for long.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the last lines may take at the end.
const LEAVING: Duration = Duration::from_secs(2);

/// Where a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// How lines begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// As they are
    #[default]
    Plain,
    /// With the time (UTC, RFC 3339), and info, or what goes wrong: warning
    Time,
    /// With the level as systemd's journal reads it (sd-daemon(3)); the journal knows the time
    Journal,
}

impl Form {
    /// What `text` is written as: with an end, and each of its lines with what this form has before it.
    fn of(self, stream: Stream, text: &str, since_1970: Duration) -> String {
        let before = match (self, stream) {
            (Self::Plain, _) => return format!("{text}\n"),
            (Self::Time, Stream::Output) => format!("{} info    ", date::moment(since_1970)),
            (Self::Time, Stream::Error) => format!("{} warning ", date::moment(since_1970)),
            // LOG_INFO and LOG_WARNING of syslog(3).
            (Self::Journal, Stream::Output) => "<6>".to_owned(),
            (Self::Journal, Stream::Error) => "<4>".to_owned(),
        };
        text.split('\n').fold(String::new(), |all, line| all + &before + line + "\n")
    }
}

/// Arguments of what runs on.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Log {
    /// How lines of the log begin
    #[arg(long = "log", value_name = "FORM", value_enum, default_value_t)]
    form: Form,
}

/// This process's, if it has one.
static OURS: OnceLock<Arc<LogWriter>> = OnceLock::new();

/// Has a thread write the lines of this process from now on. It runs where the calling thread may.
///
/// # Errors
/// What the system says of the thread, or of its outputs.
pub fn start(log: Log) -> Result<()> {
    let open = |fd: BorrowedFd| fd.try_clone_to_owned().map(File::from);
    let failed = "starting the log";
    // Descriptors of its own: no lock is held while a write stands still.
    let output = open(io::stdout().as_fd()).context(failed)?;
    let error = open(io::stderr().as_fd()).context(failed)?;
    let log = LogWriter::start(log.form, output, error).context(failed)?;
    // A second one would have nothing to do.
    let _ = OURS.set(log);
    Ok(())
}

/// This process's, if it was started.
pub fn ours() -> Option<&'static LogWriter> {
    OURS.get().map(Arc::as_ref)
}

/// Waits a little for what this process still has to say.
pub fn rest() {
    if let Some(log) = ours() {
        log.rest(LEAVING);
    }
}

/// Lines that were left out since the start of this process.
pub fn left_out() -> u64 {
    ours().map_or(0, LogWriter::left_out)
}

/// Since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Lines on their way to a writer.
#[derive(Debug, Default)]
pub struct LogWriter {
    form: Form,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug)]
struct Queue {
    lines: VecDeque<(Stream, String)>,
    /// Of `lines`, and of the one that is being written.
    bytes: usize,
    /// How long whoever finds no room still waits.
    patience: Duration,
    left_out: u64,
    /// Of these, those of which the log does not tell yet.
    untold: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Self { lines: VecDeque::new(), bytes: 0, patience: PATIENCE, left_out: 0, untold: 0 }
    }
}

impl Queue {
    fn has_room(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= ROOM_BYTES
    }
    fn push(&mut self, stream: Stream, line: String) {
        self.bytes += line.len();
        self.lines.push_back((stream, line));
    }
    /// Where lines are missing, says how many.
    fn tell_missing(&mut self, form: Form) {
        match std::mem::take(&mut self.untold) {
            0 => (),
            n => {
                let lines = if n == 1 { "line was" } else { "lines were" };
                let told = format!("weir: log: {n} {lines} left out here: nobody read them");
                self.push(Stream::Error, form.of(Stream::Error, &told, now()));
            }
        }
    }
}

impl LogWriter {
    fn start(
        form: Form,
        output: impl Write + Send + 'static,
        error: impl Write + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let log = Arc::new(Self { form, ..Self::default() });
        let its = Arc::clone(&log);
        let run = move || its.write(output, error);
        thread::Builder::new().name("weir-log".to_owned()).spawn(run)?;
        Ok(log)
    }

    /// A line to be written, or left out where too many wait.
    pub fn put(&self, stream: Stream, line: &str) {
        let line = self.form.of(stream, line, now());
        let mut q = self.lock();
        while !q.has_room(line.len()) && !q.patience.is_zero() {
            let from = Instant::now();
            let patience = q.patience;
            q = self.wait(q, patience);
            q.patience = q.patience.saturating_sub(from.elapsed());
        }
        if q.has_room(line.len()) {
            q.tell_missing(self.form);
            q.push(stream, line);
        } else {
            q.left_out += 1;
            q.untold += 1;
        }
        drop(q);
        self.changed.notify_all();
    }

    /// Lines that were left out.
    fn left_out(&self) -> u64 {
        self.lock().left_out
    }

    /// Waits until all is written, but no longer than this.
    fn rest(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut q = self.lock();
        q.tell_missing(self.form);
        self.changed.notify_all();
        while q.bytes > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            q = self.wait(q, left);
        }
    }

    /// The writer's thread; ends with the process.
    fn write(&self, mut output: impl Write, mut error: impl Write) {
        let mut q = self.lock();
        loop {
            let Some((stream, line)) = q.lines.pop_front() else {
                q = self.changed.wait(q).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(q);
            // What can't be written has no reader: whoever runs on goes on.
            let _ = match stream {
                Stream::Output => output.write_all(line.as_bytes()),
                Stream::Error => error.write_all(line.as_bytes()),
            };
            q = self.lock();
            q.bytes -= line.len();
            if q.bytes == 0 {
                q.patience = PATIENCE;
            }
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn wait<'q>(&self, q: MutexGuard<'q, Queue>, at_most: Duration) -> MutexGuard<'q, Queue> {
        self.changed.wait_timeout(q, at_most).unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A writer that writes when it is told to, or freely when nobody can tell it any more.
    struct Slow {
        may: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Either way it goes on.
            let _ = self.may.recv();
            let _ = self.written.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (Arc<LogWriter>, Sender<()>, Receiver<String>) {
        let ((go, may), (written, lines)) = (channel(), channel());
        let (held, never) = channel();
        drop(held);
        let error = Slow { may: never, written: written.clone() };
        (LogWriter::start(Form::Plain, Slow { may, written }, error).unwrap(), go, lines)
    }

    #[test]
    fn lines_that_nobody_reads_are_left_out_and_counted_where_they_are_missing() {
        let (log, go, lines) = slow();
        let from = Instant::now();
        let line = "x".repeat(1023);
        (0..1100).for_each(|_| log.put(Stream::Output, &line));
        let took = from.elapsed();
        assert!(took >= PATIENCE && took < PATIENCE * 20, "{took:?}");
        assert_eq!(log.left_out(), 1100 - 1024);
        // Nobody waits again, at the end neither.
        let from = Instant::now();
        log.put(Stream::Output, &line);
        log.rest(Duration::from_millis(10));
        assert!(from.elapsed() < PATIENCE);
        drop(go);
        log.rest(Duration::from_secs(60));
        log.put(Stream::Output, "again");
        log.rest(Duration::from_secs(60));
        let all: Vec<String> = lines.try_iter().collect();
        assert_eq!(all.len(), 1026);
        assert_eq!(all[1024], "weir: log: 77 lines were left out here: nobody read them\n");
        assert_eq!(all[1025], "again\n");
        assert_eq!(log.left_out(), 77);
    }

    #[test]
    fn a_reader_that_is_only_slow_misses_nothing() {
        let (log, go, lines) = slow();
        let reads = thread::spawn(move || while go.send(()).is_ok() && lines.recv().is_ok() {});
        let line = "x".repeat(1023);
        (0..5000).for_each(|_| log.put(Stream::Output, &line));
        log.rest(Duration::from_secs(60));
        assert_eq!((log.left_out(), log.lock().bytes), (0, 0));
        drop(reads);
    }

    #[test]
    fn each_line_says_when_it_was_and_how_grave_it_is() {
        let (at, text) = (Duration::from_millis(1_764_590_701_250), "two\nlines");
        let of = |form: Form, stream| form.of(stream, text, at);
        assert_eq!(of(Form::Plain, Stream::Error), "two\nlines\n");
        let time = "2025-12-01T12:05:01.250Z";
        let expected = format!("{time} info    two\n{time} info    lines\n");
        assert_eq!(of(Form::Time, Stream::Output), expected);
        assert_eq!(of(Form::Time, Stream::Error), expected.replace("info   ", "warning"));
        assert_eq!(of(Form::Journal, Stream::Output), "<6>two\n<6>lines\n");
        assert_eq!(of(Form::Journal, Stream::Error), "<4>two\n<4>lines\n");
    }

    #[test]
    fn a_line_that_is_longer_than_all_room_is_written() {
        let (log, go, lines) = slow();
        drop(go);
        log.put(Stream::Output, &"x".repeat(2 * ROOM_BYTES));
        log.rest(Duration::from_secs(60));
        assert_eq!(lines.recv().unwrap().len(), 2 * ROOM_BYTES + 1);
    }
}
