//! One UDP socket for all tunnels' ends of a worker at one local address, and which datagram is whose.
//!
//! Room: ports. The port that was opened first reads the socket, once a round, and leaves others' frames
//! in their boxes, so that a thousand ends cost one system call a round. A worker owns all of them: the
//! lock is taken once a burst and nobody else waits for it.

use super::header::{HEADER_BYTES, identifier};
use super::liveness::{Probe, Theirs};
use super::quality::{Echo, Quality, Told};
use super::settings::Way;
use crate::offload::checksum::complete_if_partial;
use crate::sys::udp::{RxBatch, Socket, TxBatch};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;
use weir_packet::{BURST, Burst, Frame, LinkState, Nanos, Pool};

/// What the kernel may queue for the socket, in bytes of its accounting.
const RX_BUFFER: i32 = 16 << 20;
/// What it may have of the socket that is not sent yet; it takes twice the figure. Of what is sent to a neighbour that does not answer it keeps 212,992
/// bytes for seconds (`unres_qlen_bytes`), which is all that a socket has by default: nothing would leave for the other ends either. Much
/// more would take away that a way that is too slow is felt here, where networks' parts of it are kept.
const TX_BUFFER: i32 = 1 << 20;
/// Frames that may wait for a port, beyond which they are its loss and nobody else's.
const BOX_FRAMES: usize = 2 * BURST;
/// Batches that are read in a round.
const ROUND_BATCHES: usize = 4;

/// Sockets of this process, by the region of the worker's frames and the local address.
static ALL: Mutex<BTreeMap<(usize, SocketAddr), Weak<Endpoint>>> = Mutex::new(BTreeMap::new());

/// A socket and the ports behind it.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) socket: Socket,
    state: Mutex<State>,
}

/// What belongs to the ports.
#[derive(Debug)]
pub(super) struct State {
    by_vni: HashMap<u32, (usize, usize)>,
    seats: Vec<Option<Seat>>,
    /// Empty frames for the next datagrams, and those that are kept of the last call.
    empty: Vec<Frame>,
    kept: Vec<Frame>,
    rx: RxBatch,
    pub(super) tx: TxBatch,
    frame_bytes: usize,
}

/// A port's place.
#[derive(Debug)]
struct Seat {
    ways: Vec<Way>,
    /// What its probes carry, if it has any.
    key: Option<u64>,
    /// Who it is in its own probes.
    me: u64,
    waiting: VecDeque<Frame>,
    /// By way: whether a probe came since it was last asked, and whether that one says that we are heard.
    heard: Vec<Option<bool>>,
    theirs: Theirs,
    /// By way.
    quality: Vec<Quality>,
    counts: Counts,
}

/// What is counted for a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Frames that found its box full.
    pub(super) missed: u64,
    /// Frames longer than a chunk takes.
    pub(super) too_long: u64,
    /// Frames whose checksum a kernel had left unfinished.
    pub(super) completed: u64,
    /// Told by the port that reads: of no network here, or from a stranger. Told by its own: of probes' look and no
    /// probe of its other end.
    pub(super) unknown: u64,
    /// Told by the port that reads: no VXLAN.
    pub(super) malformed: u64,
}

/// Who sits down.
#[derive(Debug)]
pub(super) struct Guest<'g> {
    pub(super) ways: &'g [Way],
    pub(super) key: Option<u64>,
    pub(super) me: u64,
}

/// Time since this process first asked, and a moment, so that nothing is sent at 0: one for all ports, so that
/// a probe that a port sent before it was opened anew is of the same clock.
pub(super) fn clock() -> Nanos {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let since = BEGAN.get_or_init(Instant::now).elapsed().as_nanos();
    Nanos(u64::try_from(since).unwrap_or(u64::MAX).saturating_add(1))
}

impl Endpoint {
    /// The endpoint at `local` for the worker of `pool`, bound if there is none yet.
    pub(super) fn at(local: SocketAddr, pool: &Pool) -> io::Result<Arc<Self>> {
        let key = (pool.region().0.as_ptr() as usize, local);
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, e| e.strong_count() > 0);
        if let Some(e) = all.get(&key).and_then(Weak::upgrade) {
            return Ok(e);
        }
        let state = State {
            by_vni: HashMap::new(),
            seats: Vec::new(),
            empty: Vec::with_capacity(BURST),
            kept: Vec::with_capacity(BURST),
            rx: RxBatch::new(BURST),
            tx: TxBatch::new(BURST),
            frame_bytes: pool.max_frame_bytes(),
        };
        let socket = Socket::bind(local, RX_BUFFER, TX_BUFFER)?;
        let e = Arc::new(Self { socket, state: Mutex::new(state) });
        all.insert(key, Arc::downgrade(&e));
        Ok(e)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives a port a seat.
    ///
    /// # Errors
    /// A network identifier that another has.
    pub(super) fn sit(&mut self, g: &Guest<'_>) -> Result<usize, u32> {
        if let Some(w) = g.ways.iter().find(|w| self.by_vni.contains_key(&w.vni)) {
            return Err(w.vni);
        }
        let seat = Seat {
            ways: g.ways.to_vec(),
            key: g.key,
            me: g.me,
            waiting: VecDeque::with_capacity(BOX_FRAMES),
            heard: vec![None; g.ways.len()],
            theirs: Theirs::unsaid(),
            quality: vec![Quality::default(); g.ways.len()],
            counts: Counts::default(),
        };
        let free = self.seats.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() - 1
        });
        self.by_vni.extend(g.ways.iter().enumerate().map(|(i, w)| (w.vni, (at, i))));
        self.seats[at] = Some(seat);
        Ok(at)
    }

    /// Takes a port's seat away; who was last gives back everything.
    pub(super) fn leave(&mut self, at: usize, pool: &mut Pool) {
        let Some(seat) = self.seats.get_mut(at).and_then(Option::take) else { return };
        for w in &seat.ways {
            self.by_vni.remove(&w.vni);
        }
        seat.waiting.into_iter().for_each(|f| pool.free(f));
        if self.is_empty() {
            self.empty.drain(..).for_each(|f| pool.free(f));
        }
    }

    /// Whether no port has a seat.
    pub(super) fn is_empty(&self) -> bool {
        self.seats.iter().all(Option::is_none)
    }

    /// Whether this is the port that reads the socket.
    pub(super) fn reads(&self, at: usize) -> bool {
        self.seats.iter().position(Option::is_some) == Some(at)
    }

    /// Chunks that a port keeps.
    pub(super) fn held(&self, at: usize) -> usize {
        let own = self.waiting(at);
        if self.reads(at) { own + self.empty.len() } else { own }
    }

    /// Frames that wait for a port.
    pub(super) fn waiting(&self, at: usize) -> usize {
        self.seats.get(at).and_then(Option::as_ref).map_or(0, |s| s.waiting.len())
    }

    pub(super) fn counts(&self, at: usize) -> Counts {
        self.seats.get(at).and_then(Option::as_ref).map(|s| s.counts).unwrap_or_default()
    }

    /// Which ways have brought probes since it was asked last, and whether these say that we are heard.
    pub(super) fn heard(&mut self, at: usize, mut tell: impl FnMut(usize, bool)) {
        let seat = self.seats.get_mut(at).and_then(Option::as_mut);
        for (i, h) in seat.into_iter().flat_map(|s| s.heard.iter_mut().enumerate()) {
            if let Some(hears) = h.take() {
                tell(i, hears);
            }
        }
    }

    /// The link of what a port's other end stands for.
    pub(super) fn theirs(&self, at: usize) -> LinkState {
        let seat = self.seats.get(at).and_then(Option::as_ref);
        seat.map_or(LinkState::Up, |s| s.theirs.link())
    }

    /// What a probe on a way of a port says of those that it has heard.
    pub(super) fn echo(&self, at: usize, way: usize, now: Nanos) -> Echo {
        let seat = self.seats.get(at).and_then(Option::as_ref);
        seat.and_then(|s| s.quality.get(way)).map(|q| q.echo(now)).unwrap_or_default()
    }

    /// What probes tell of a way of a port.
    pub(super) fn quality(&self, at: usize, way: usize) -> Told {
        let seat = self.seats.get(at).and_then(Option::as_ref);
        seat.and_then(|s| s.quality.get(way)).map(Quality::told).unwrap_or_default()
    }

    /// Moves what waits for a port into a burst, as far as there is room. Says how many.
    pub(super) fn take(&mut self, at: usize, burst: &mut Burst) -> usize {
        let Some(seat) = self.seats.get_mut(at).and_then(Option::as_mut) else { return 0 };
        let n = seat.waiting.len().min(burst.room());
        for f in seat.waiting.drain(..n) {
            // There is room: it was asked for.
            let _ = burst.push(f);
        }
        n
    }

    /// Reads the socket, and puts every frame into its port's box. `reader` is who counts what is nobody's.
    pub(super) fn receive(&mut self, socket: &Socket, reader: usize, pool: &mut Pool) {
        for _ in 0..ROUND_BATCHES {
            while self.empty.len() < BURST {
                let Some(mut f) = pool.alloc() else { break };
                // The header goes where headroom is, so that the frame begins where frames begin.
                if f.set_len(self.frame_bytes).is_err() || f.push_front(HEADER_BYTES).is_err() {
                    pool.free(f);
                    break;
                }
                self.empty.push(f);
            }
            // An error is a datagram of ours that was sent back, which says nothing of what came.
            let got = self.rx.receive(socket, &mut self.empty).unwrap_or(0);
            let mut frames = std::mem::take(&mut self.empty);
            for (i, f) in frames.drain(..).enumerate() {
                let back = if i < got { self.sort(i, f, reader) } else { Some(f) };
                self.kept.extend(back);
            }
            self.empty = std::mem::replace(&mut self.kept, frames);
            // A port takes a burst a round: what finds no box is better off in the socket's queue. A port
            // that nobody polls costs the others no more than the further batches.
            let full = |s: &Seat| s.waiting.len() >= BURST;
            if got < BURST || self.seats.iter().flatten().any(full) {
                return;
            }
        }
    }

    /// Puts datagram `i` into its port's box; gives back a frame whose datagram was none of a port's.
    fn sort(&mut self, i: usize, mut f: Frame, reader: usize) -> Option<Frame> {
        let came = self.rx.came(i);
        let datagram = f.bytes().get(..came.len).unwrap_or_default();
        let read = identifier(datagram);
        let whose = read.ok().and_then(|vni| self.by_vni.get(&vni)).copied();
        let from_peer = |(at, way): &(usize, usize)| {
            let seat = self.seats.get(*at).and_then(Option::as_ref);
            seat.and_then(|s| s.ways.get(*way)).is_some_and(|w| came.from == Some(w.remote.ip()))
        };
        let whose = whose.filter(from_peer);
        let Some((at, way)) = whose else {
            if let Some(Some(s)) = self.seats.get_mut(reader) {
                match read {
                    Ok(_) => s.counts.unknown += 1,
                    Err(_) => s.counts.malformed += 1,
                }
            }
            return Some(f);
        };
        let Some(Some(seat)) = self.seats.get_mut(at) else { return Some(f) };
        if came.cut {
            seat.counts.too_long += 1;
            return Some(f);
        }
        let inner = datagram.get(HEADER_BYTES..).unwrap_or_default();
        // Without a key it may be a relay's, which carries probes of the two ends beyond.
        if let Some(key) = seat.key.filter(|_| Probe::looks(inner)) {
            match Probe::read(inner, key) {
                Some(p) if p.sender != seat.me => {
                    seat.heard.get_mut(way).into_iter().for_each(|h| *h = Some(p.says.hears));
                    seat.theirs.heard(&p);
                    let now = clock();
                    seat.quality.get_mut(way).into_iter().for_each(|q| q.heard(&p, now));
                }
                Some(_) => {}
                // The other end may have a newer key for a while: a tenant is not to hear of it.
                None => seat.counts.unknown += 1,
            }
            return Some(f);
        }
        if seat.waiting.len() >= BOX_FRAMES {
            seat.counts.missed += 1;
            return Some(f);
        }
        let cut = f.set_len(came.len).and_then(|()| f.pull_front(HEADER_BYTES));
        if cut.is_err() {
            return Some(f);
        }
        // A kernel of this machine leaves checksums inside to an adapter, which its datagrams never meet.
        seat.counts.completed += u64::from(complete_if_partial(f.bytes_mut()));
        seat.waiting.push_back(f);
        None
    }
}
