//! What slices have at each switch, kept in a file as it changes: for a slicer that comes back, or a switch that does.
//!
//! Room: one file. Facts come from the sliced switch ([`Fact`]) by its desk, which has them written before any message
//! that comes of them is sent; so whatever moment the slicer is killed at, what the switch has was kept, whole.
//!
//! The file is a line that says what it is, then records, all integers big endian: length of the rest (4 bytes), its
//! FNV-1a hash (4), datapath id (8), kind (1; 1 meter, 2 group, 3 flow), number (8), and, unless it is gone: version
//! of OpenFlow (1), length of the slice's name (1), the name, and the OpenFlow message that asks for it. The last record
//! about a number holds. A record that is not whole ends the file: it was being written. When most of the file does
//! not hold any more it is written anew beside, and renamed.
//!
//! A file that can't be written is not true any more: nothing is left in it but the line, until all that holds
//! has room in a new one, which is tried with each change and every now and then ([`Journal::again`]).

use crate::fault::file as unusable;
use anyhow::{Context, Result, bail};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_io::file::trouble;
use weir_openflow::codec::{decode, encode};
use weir_openflow::model::{Msg, Version};
use weir_supervisor::slicer::space::SliceId;
use weir_supervisor::slicer::{Fact, Key};

const HEAD: &[u8] = b"weir slicer, what slices have, 1\n";
/// An OpenFlow message and what is before it.
const LONGEST: usize = 66_000;
/// So much may be in the file that does not hold, beside as much as holds.
const SLACK: u64 = 1 << 20;
/// How long a file is waited for that another still has.
const LETTING_GO: Duration = Duration::from_secs(1);
/// How long at least a file that could not be written anew is left alone.
pub const REST: Duration = Duration::from_secs(1);
/// One part in so many of the time may go into writing files anew that can't be.
const PART: u32 = 16;

/// Who writes about a switch: the last connection that took it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    datapath: u64,
    number: u64,
    version: Version,
}

/// The file.
#[derive(Debug)]
pub struct Journal(RefCell<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    file: File,
    /// Held as long as nobody else may have the file.
    _alone: UnixListener,
    /// What holds, as in the file.
    live: BTreeMap<(u64, Key), Vec<u8>>,
    live_bytes: u64,
    file_bytes: u64,
    /// Not written yet.
    pending: Vec<u8>,
    state: State,
    /// Not before then is it written anew.
    rest_until: Option<Instant>,
    turns: BTreeMap<u64, u64>,
}

/// Whether what is in the file is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    True,
    /// Something could not be written.
    Lost,
}

impl Journal {
    /// Opens a file, or makes one.
    ///
    /// # Errors
    /// It can't be read or written, is another's, or is no such file.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display();
        let mut o = OpenOptions::new();
        let file = o.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|e| unusable(format_args!("remember: {name}"), &e))?;
        let Ok(alone) = alone_with(path) else {
            bail!("remember: {name}: another slicer has it open: give each a file of its own");
        };
        let mut i = Inner {
            path: path.to_owned(),
            file,
            _alone: alone,
            live: BTreeMap::new(),
            live_bytes: 0,
            file_bytes: 0,
            pending: Vec::new(),
            state: State::True,
            rest_until: None,
            turns: BTreeMap::new(),
        };
        i.read().with_context(|| format!("remember: {name}"))?;
        Ok(Self(RefCell::new(i)))
    }

    /// Whether a file could be opened, as far as can be seen without making one or asking who has it.
    ///
    /// # Errors
    /// As of [`Journal::open`].
    pub fn check(path: &Path) -> Result<()> {
        let name = path.display();
        let looked = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => return begun(&file).map(drop).with_context(|| format!("remember: {name}")),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let beside = path.parent().filter(|p| !p.as_os_str().is_empty());
                std::fs::read_dir(beside.unwrap_or(Path::new("."))).map(drop)
            }
            Err(e) => Err(e),
        };
        looked.map_err(|e| unusable(format_args!("remember: {name}"), &e))
    }

    /// What slices have at a switch that is there now, by their names; what is kept of slices that are no more
    /// is forgotten. Whoever wrote about this switch before is not listened to any more.
    pub fn take_up(
        &self,
        datapath: u64,
        version: Version,
        number_of: impl Fn(&str) -> Option<SliceId>,
    ) -> (Turn, Vec<Fact>) {
        let i = &mut *self.0.borrow_mut();
        let number = i.turns.entry(datapath).or_default();
        *number += 1;
        let turn = Turn { datapath, number: *number, version };
        let (mut facts, mut gone) = (Vec::new(), Vec::new());
        let range = (datapath, Key::Meter(0))..=(datapath, Key::Flow(u64::MAX));
        for ((_, key), record) in i.live.range(range) {
            let read = Record::of(record).filter(|r| r.version == version);
            let known = read.and_then(|r| Some((number_of(r.slice)?, r.message)));
            match known {
                Some((slice, m)) => facts.push(Fact { key: *key, held: Some((slice, m.body)) }),
                None => gone.push(*key),
            }
        }
        for key in gone {
            i.note(datapath, key, None);
        }
        (turn, facts)
    }

    /// Something has changed; `slice` is what whoever has it is called.
    pub fn note(&self, turn: Turn, fact: Fact, slice: &str) {
        let i = &mut *self.0.borrow_mut();
        if i.turns.get(&turn.datapath) != Some(&turn.number) {
            return;
        }
        let record = fact.held.and_then(|(_, body)| {
            let mut bytes = vec![turn.version as u8, u8::try_from(slice.len()).ok()?];
            bytes.extend(slice.as_bytes());
            encode(turn.version, &Msg { xid: 0, body }, &mut bytes).ok()?;
            Some(bytes)
        });
        i.note(turn.datapath, fact.key, record);
    }

    /// Writes what was noted. What is to be said: that the file can't be written, once, or that it is whole again. One that can't is
    /// emptied, if that can be, since it is not true any more.
    pub fn flush(&self) -> Option<String> {
        let i = &mut *self.0.borrow_mut();
        i.says(Inner::flush)
    }

    /// Writes all that holds where it could not be written before, though nothing has changed: to be called every [`REST`] or so. What is
    /// to be said, as of [`flush`](Self::flush).
    pub fn again(&self) -> Option<String> {
        let i = &mut *self.0.borrow_mut();
        match i.state {
            State::True => None,
            State::Lost => i.says(Inner::mend),
        }
    }
}

impl Inner {
    /// Does something to the file, and says what has become of that.
    fn says(&mut self, write: impl FnOnce(&mut Self) -> std::io::Result<()>) -> Option<String> {
        let before = self.state;
        let done = write(self);
        let name = self.path.display();
        match (before, done) {
            (State::True, Err(e)) => {
                let why = trouble(&e);
                let text = format!("remember: {name}: {why}; nothing is kept until that can be");
                self.empty();
                Some(text)
            }
            (State::Lost, _) if self.state == State::True => {
                Some(format!("remember: {name}: all that slices have is kept again"))
            }
            _ => None,
        }
    }

    fn read(&mut self) -> Result<()> {
        let begun = begun(&self.file)?;
        let all = self.file.metadata()?.len();
        let mut from = BufReader::new(&self.file);
        let mut at = HEAD.len() as u64;
        let (mut live, mut live_bytes) = (BTreeMap::new(), 0);
        while let Some((size, record)) = next(&mut from)? {
            at += size;
            let Some((datapath, key, held)) = about(&record) else { continue };
            let old: Option<Vec<u8>> = match held.is_empty() {
                true => live.remove(&(datapath, key)),
                false => live.insert((datapath, key), held.to_vec()),
            };
            live_bytes -= old.map_or(0, |o| size_of(&o));
            if !held.is_empty() {
                live_bytes += size_of(held);
            }
        }
        (self.live, self.live_bytes) = (live, live_bytes);
        if begun < HEAD.len() {
            self.begin()?;
        } else if at < all {
            // What was being written when its slicer ended.
            self.file.set_len(at)?;
        }
        self.file_bytes = at;
        self.file.seek(SeekFrom::End(0))?;
        Ok(())
    }

    fn note(&mut self, datapath: u64, key: Key, held: Option<Vec<u8>>) {
        let record = framed(datapath, key, held.as_deref().unwrap_or_default());
        let size = held.as_ref().map(|h| size_of(h));
        let old = match held {
            Some(h) => self.live.insert((datapath, key), h),
            // What came and went between two looks was never written.
            None => match self.live.remove(&(datapath, key)) {
                Some(old) => Some(old),
                None => return,
            },
        };
        self.live_bytes = self.live_bytes + size.unwrap_or(0) - old.map_or(0, |o| size_of(&o));
        self.pending.extend(record);
    }

    /// Nothing is in the file but the line that says what it is.
    fn begin(&mut self) -> std::io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(HEAD)?;
        self.file_bytes = HEAD.len() as u64;
        Ok(())
    }

    /// What is in the file is not so any more.
    fn empty(&mut self) {
        self.state = State::Lost;
        // It may be the same that fails: a file that is cut off anywhere can be read.
        let _ = self.begin();
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        if self.state == State::True {
            self.file.write_all(&pending)?;
            self.file_bytes += pending.len() as u64;
            if self.file_bytes <= 2 * self.live_bytes + SLACK {
                return Ok(());
            }
        }
        self.mend()
    }

    /// Writes the file anew, unless that could not be done a moment ago.
    fn mend(&mut self) -> std::io::Result<()> {
        let begun = Instant::now();
        if self.rest_until.is_some_and(|t| begun < t) {
            return Ok(());
        }
        match self.rewrite() {
            Ok(()) => self.state = State::True,
            Err(e) => {
                self.rest_until = Some(begun + REST + PART * begun.elapsed());
                // The old file still is so, only longer than it need be.
                return if self.state == State::True { Ok(()) } else { Err(e) };
            }
        }
        Ok(())
    }

    /// Only what holds, in a new file that takes the old one's place.
    fn rewrite(&mut self) -> std::io::Result<()> {
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let mut bytes = HEAD.to_vec();
        for ((datapath, key), held) in &self.live {
            bytes.extend(framed(*datapath, *key, held));
        }
        let write = || {
            let mut o = OpenOptions::new();
            let mut new = o.read(true).write(true).create(true).truncate(true).open(&beside)?;
            new.write_all(&bytes)?;
            std::fs::rename(&beside, &self.path)?;
            Ok(new)
        };
        self.file = write().inspect_err(|_: &std::io::Error| {
            // What was written of it takes room that is wanted.
            let _ = std::fs::remove_file(&beside);
        })?;
        self.file_bytes = bytes.len() as u64;
        Ok(())
    }
}

/// How much of the line that says what it is a file begins with; its position is behind that.
fn begun(mut file: &File) -> Result<usize> {
    if !file.metadata()?.is_file() {
        bail!("this is no file: name one, or one that is not there yet");
    }
    let mut head = Vec::new();
    file.rewind()?;
    file.take(HEAD.len() as u64).read_to_end(&mut head)?;
    if HEAD.starts_with(&head) {
        return Ok(head.len());
    }
    if head.iter().all(|b| *b == 0) {
        bail!(
            "its beginning is lost, and with it all that is in it: delete it; what slices had is deleted at \
             switches as they connect"
        );
    }
    bail!("this is another kind of file: name one that is not there yet");
}

/// A claim to a file that ends with the process, whatever ends that: a name in the kernel (unix(7), abstract), made of the
/// file's path. A child between its fork and its exec still holds what its parent has let go, and a slicer that is being
/// ended holds it until it has ended: whoever is refused asks again for a moment.
fn alone_with(path: &Path) -> std::io::Result<UnixListener> {
    let mut hasher = DefaultHasher::new();
    path.canonicalize()?.hash(&mut hasher);
    let name = format!("weir-slicer-remembers-{:016x}", hasher.finish());
    let at = SocketAddr::from_abstract_name(name)?;
    let until = Instant::now() + LETTING_GO;
    loop {
        match UnixListener::bind_addr(&at) {
            Err(_) if Instant::now() < until => std::thread::sleep(LETTING_GO / 50),
            done => return done,
        }
    }
}

/// A record's bytes in the file.
fn framed(datapath: u64, key: Key, held: &[u8]) -> Vec<u8> {
    let (kind, number) = match key {
        Key::Meter(n) => (1, n.into()),
        Key::Group(n) => (2, n.into()),
        Key::Flow(n) => (3, n),
    };
    let mut rest = datapath.to_be_bytes().to_vec();
    rest.push(kind);
    rest.extend(u64::to_be_bytes(number));
    rest.extend(held);
    let mut all = (rest.len() as u32).to_be_bytes().to_vec();
    all.extend(hash(&rest).to_be_bytes());
    all.extend(rest);
    all
}

/// Bytes of a record in the file, by what it holds.
fn size_of(held: &[u8]) -> u64 {
    25 + held.len() as u64
}

/// FNV-1a, 32 bits (draft-eastlake-fnv).
fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193))
}

/// The next whole record, and how many bytes it takes with what is before it.
fn next(from: &mut impl Read) -> std::io::Result<Option<(u64, Vec<u8>)>> {
    let mut head = Vec::new();
    from.take(8).read_to_end(&mut head)?;
    let Ok([a, b, c, d, e, f, g, h]) = <[u8; 8]>::try_from(head) else { return Ok(None) };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length > LONGEST {
        return Ok(None);
    }
    let mut record = Vec::new();
    from.take(length as u64).read_to_end(&mut record)?;
    let whole = record.len() == length && hash(&record) == u32::from_be_bytes([e, f, g, h]);
    Ok(whole.then(|| (8 + length as u64, record)))
}

/// What a record is about, and what it says: nothing where that is gone.
fn about(record: &[u8]) -> Option<(u64, Key, &[u8])> {
    let (datapath, rest) = record.split_first_chunk()?;
    let (kind, rest) = rest.split_first()?;
    let (number, held) = rest.split_first_chunk()?;
    let number = u64::from_be_bytes(*number);
    let key = match kind {
        1 => Key::Meter(u32::try_from(number).ok()?),
        2 => Key::Group(u32::try_from(number).ok()?),
        3 => Key::Flow(number),
        _ => return None,
    };
    Some((u64::from_be_bytes(*datapath), key, held))
}

/// What a record holds.
struct Record<'r> {
    version: Version,
    slice: &'r str,
    message: Msg,
}

impl<'r> Record<'r> {
    fn of(held: &'r [u8]) -> Option<Self> {
        let (version, rest) = held.split_first()?;
        let version = [Version::V10, Version::V13].into_iter().find(|v| *v as u8 == *version)?;
        let (length, rest) = rest.split_first()?;
        let (slice, bytes) = rest.split_at_checked(usize::from(*length))?;
        let slice = std::str::from_utf8(slice).ok()?;
        Some(Self { version, slice, message: decode(version, bytes).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_openflow::model::{FlowCommand, FlowMod, Message};

    fn flow(id: u64, cookie: u64) -> Fact {
        let m = FlowMod { cookie, ..FlowMod::new(FlowCommand::Add) };
        Fact { key: Key::Flow(id), held: Some((SliceId(0), Message::FlowMod(m))) }
    }
    fn gone(id: u64) -> Fact {
        Fact { key: Key::Flow(id), held: None }
    }
    /// Flows with their cookies, as a new slicer would have them.
    fn kept(path: &Path) -> Vec<(Key, u64)> {
        let j = Journal::open(path).unwrap();
        let (_, facts) = j.take_up(7, Version::V13, |n| (n == "red").then_some(SliceId(0)));
        let cookie = |f: &Fact| match &f.held {
            Some((_, Message::FlowMod(m))) => m.cookie,
            other => panic!("{other:?}"),
        };
        facts.iter().map(|f| (f.key, cookie(f))).collect()
    }

    #[test]
    fn what_was_noted_is_there_again_and_what_was_cut_off_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let j = Journal::open(&path).unwrap();
        assert!(Journal::open(&path).unwrap_err().to_string().contains("another slicer"));
        let (turn, none) = j.take_up(7, Version::V13, |_| Some(SliceId(0)));
        assert_eq!(none, []);
        for f in [flow(1, 10), flow(2, 20), flow(1, 11), flow(3, 30), gone(2), gone(9)] {
            j.note(turn, f, "red");
        }
        j.note(turn, flow(4, 40), "blue");
        assert_eq!(j.flush(), None);
        drop(j);
        // Blue is no slice any more.
        assert_eq!(kept(&path), [(Key::Flow(1), 11), (Key::Flow(3), 30)]);
        let all = std::fs::read(&path).unwrap();
        // Cut off anywhere, it holds what was whole: never a record that was not, and each of the states in turn.
        let mut states = Vec::new();
        for end in 0..=all.len() {
            std::fs::write(&path, &all[..end]).unwrap();
            let k = kept(&path);
            if states.last() != Some(&k) {
                states.push(k);
            }
        }
        let f = |id: u64, c: u64| (Key::Flow(id), c);
        let expected = [
            vec![],
            vec![f(1, 10)],
            vec![f(1, 10), f(2, 20)],
            vec![f(1, 11), f(2, 20)],
            vec![f(1, 11), f(2, 20), f(3, 30)],
            vec![f(1, 11), f(3, 30)],
        ];
        assert_eq!(states, expected);
        std::fs::write(&path, "[[slice]]\n").unwrap();
        assert!(
            format!("{:#}", Journal::open(&path).unwrap_err()).contains("another kind of file")
        );
    }

    #[test]
    fn whoever_had_the_switch_before_is_not_listened_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let j = Journal::open(&path).unwrap();
        let (first, _) = j.take_up(7, Version::V13, |_| Some(SliceId(0)));
        let (second, _) = j.take_up(7, Version::V13, |_| Some(SliceId(0)));
        j.note(first, flow(1, 1), "red");
        j.note(second, flow(2, 2), "red");
        assert_eq!(j.flush(), None);
        drop(j);
        assert_eq!(kept(&path), [(Key::Flow(2), 2)]);
    }

    #[test]
    fn a_file_of_what_is_past_is_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let j = Journal::open(&path).unwrap();
        let (turn, _) = j.take_up(7, Version::V13, |_| Some(SliceId(0)));
        for n in 0..40_000 {
            j.note(turn, flow(n % 5, n), "red");
            assert_eq!(j.flush(), None);
        }
        drop(j);
        assert!(std::fs::metadata(&path).unwrap().len() < 2 * SLACK);
        let last = |id: u64| (Key::Flow(id), 39_995 + id);
        assert_eq!(kept(&path), (0..5).map(last).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_for_which_there_was_no_room_is_whole_again_when_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let j = Journal::open(&path).unwrap();
        let (turn, _) = j.take_up(7, Version::V13, |_| Some(SliceId(0)));
        let write = |id| {
            j.note(turn, flow(id, 10 * id), "red");
            j.flush()
        };
        assert_eq!(write(1), None);
        // No file can be made beside, either.
        let beside = dir.path().join("journal.new");
        std::fs::create_dir(&beside).unwrap();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = std::mem::replace(&mut j.0.borrow_mut().file, full);
        let why = write(2).unwrap();
        assert!(why.contains("make room") && why.contains("nothing is kept until"), "{why}");
        // It is said once.
        assert_eq!(write(3), None);
        j.0.borrow_mut().file = file;
        j.0.borrow_mut().empty();
        assert_eq!(write(4), None);
        assert_eq!(std::fs::read(&path).unwrap(), HEAD);
        std::fs::remove_dir(&beside).unwrap();
        // There is room, and a change comes too early to be written: it is when the time is over, without another.
        assert!(j.0.borrow().rest_until.is_some());
        j.0.borrow_mut().rest_until = Some(Instant::now() + 600 * REST);
        assert_eq!((write(5), j.again()), (None, None));
        assert_eq!(std::fs::read(&path).unwrap(), HEAD);
        j.0.borrow_mut().rest_until = None;
        assert!(j.again().unwrap().contains("kept again"));
        assert_eq!((j.again(), write(6)), (None, None));
        drop(j);
        assert_eq!(kept(&path), (1..=6).map(|id| (Key::Flow(id), 10 * id)).collect::<Vec<_>>());
    }

    #[test]
    fn what_can_be_no_such_file_is_found_before_it_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let said = |path: &Path| Journal::check(path).map_err(|e| format!("{e:#}"));
        assert_eq!(said(&path), Ok(()));
        assert!(!path.exists());
        assert!(said(&path.join("x")).unwrap_err().contains("check the name"));
        assert!(said(dir.path()).unwrap_err().contains("name a file in it"));
        for (text, why) in [(&b"[[slice]]\n"[..], "another kind"), (&[0; 80], "delete it")] {
            std::fs::write(&path, text).unwrap();
            assert!(said(&path).unwrap_err().contains(why));
            assert!(format!("{:#}", Journal::open(&path).unwrap_err()).contains(why));
            assert_eq!(std::fs::read(&path).unwrap(), text);
        }
        std::fs::write(&path, HEAD).unwrap();
        assert_eq!(said(&path), Ok(()));
    }

    proptest! {
        /// Whatever is in the file: it is refused, or read as far as it is whole.
        #[test]
        fn any_file_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..200), head: bool) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("journal");
            let all = if head { [HEAD, &bytes].concat() } else { bytes };
            std::fs::write(&path, all).unwrap();
            if let Ok(j) = Journal::open(&path) {
                j.take_up(0, Version::V10, |_| Some(SliceId(0)));
            }
        }
    }
}
