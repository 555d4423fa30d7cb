//! Connections that have not shown who they are yet: how many there may be, and who goes when there is no room.
//!
//! Room: numbers and sockets, for [`super::api`] and for the slicer. Of the address that has most of them the one that has been there longest
//! goes for one that comes: connections that are only held open keep nobody out, least of all somebody from elsewhere.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All of them.
#[derive(Debug)]
pub struct Pending {
    most: usize,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    next: u64,
    /// In the order in which they came.
    all: BTreeMap<u64, (IpAddr, TcpStream)>,
}

/// One's place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    of: Arc<Pending>,
    id: u64,
}

impl Pending {
    /// For so many.
    pub fn new(most: usize) -> Self {
        Self { most, inside: Mutex::default() }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one who comes from there.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn enter(self: &Arc<Self>, from: IpAddr, tcp: &impl AsFd) -> io::Result<Place> {
        let tcp = TcpStream::from(tcp.as_fd().try_clone_to_owned()?);
        let mut inside = self.inside();
        if inside.all.len() >= self.most {
            inside.let_one_go();
        }
        let id = inside.next;
        inside.next += 1;
        inside.all.insert(id, (from, tcp));
        Ok(Place { of: Arc::clone(self), id })
    }
}

impl Inside {
    fn let_one_go(&mut self) {
        let mut of: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
        for (id, (from, _)) in self.all.iter().rev() {
            let (count, oldest) = of.entry(*from).or_default();
            (*count, *oldest) = (*count + 1, *id);
        }
        let most = of.into_values().max_by_key(|(count, oldest)| (*count, u64::MAX - oldest));
        if let Some((_, tcp)) = most.and_then(|(_, id)| self.all.remove(&id)) {
            // Whoever reads there sees the end of it; one that has gone by itself needs none.
            let _ = tcp.shutdown(Shutdown::Both);
        }
    }
}

impl Place {
    /// Whether it was given to another.
    pub fn is_lost(&self) -> bool {
        !self.of.inside().all.contains_key(&self.id)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.inside().all.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn who_has_most_places_loses_the_oldest() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let pair = || (TcpStream::connect(at).unwrap(), listener.accept().unwrap().0);
        let pending = Arc::new(Pending::new(3));
        let [a, b]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|t| t.parse().unwrap());
        let (mut ends, mut places) = (Vec::new(), Vec::new());
        for from in [b, a, a, b, a] {
            let (near, far) = pair();
            places.push(pending.enter(from, &far).unwrap());
            ends.push((near, far));
        }
        // The first for the fourth, of whom there was one only, did not go; the second and the third did.
        let lost: Vec<bool> = places.iter().map(Place::is_lost).collect();
        assert_eq!(lost, [true, true, false, false, false]);
        let mut buf = [0];
        assert_eq!(ends[1].0.read(&mut buf).unwrap(), 0);
        ends[2].0.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        assert!(ends[2].0.read(&mut buf).is_err());
        // Places of those who went are not taken from those who came.
        places.drain(..2);
        assert_eq!(pending.inside().all.len(), 3);
    }
}
