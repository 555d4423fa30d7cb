//! Which backends a balancer's services have, and what becomes of connections where these change. Touches tables only. Called
//! by `mod.rs` at the beginning, and whoever changes a service.

use super::*;

/// Of a connection's key, the service's.
const SERVICE: u64 = (1 << 56) - 1;

impl Balancer {
    /// Gives a service other backends. Connections of those that stay, stay.
    ///
    /// # Errors
    /// [`BalancerError`]; nothing has changed then.
    pub fn set_backends(&mut self, service: &Service) -> Result<(), BalancerError> {
        config::check_service(service, self.mac)?;
        let key = service_key(service.at, service.protocol);
        let Some(i) = self.services.get(&key).map(|i| *i as usize) else {
            return Err(BalancerError::NoSuchService(service.at));
        };
        let mut given = self.given.clone();
        if let Some(g) = given.get_mut(i) {
            g.clone_from(&service.backends);
        }
        self.adopt(given)
    }

    /// Numbers backends, makes every service's table, and has connections follow.
    pub(super) fn adopt(&mut self, given: Vec<Vec<Backend>>) -> Result<(), BalancerError> {
        let mut numbers = BTreeMap::<&str, u16>::new();
        let mut backends = Vec::new();
        for b in given.iter().flatten() {
            let hop = Hop { port: b.port, mac: b.mac };
            let new = u16::try_from(backends.len());
            let new =
                new.map_err(|_| BalancerError::TooManyBackends(given.iter().flatten().count()))?;
            let at = *numbers.entry(&b.name).or_insert(new);
            match backends.get(usize::from(at)) {
                None => backends.push(hop),
                Some(Hop { port, mac }) if (*port, *mac) == (hop.port, hop.mac) => {}
                Some(_) => return Err(BalancerError::BackendDiffers(b.name.clone())),
            }
        }
        let moved = self.moved(&given, &self.numbers(), &numbers);
        let orphaned = self.connections.sweep(self.connections.buckets(), |k, c| {
            !moved.contains_key(&(*k as u64 & SERVICE, c.backend))
        });
        let keys: Vec<u128> = self.connections.iter().map(|(k, _)| *k).collect();
        for k in keys {
            if let Some(c) = self.connections.get_mut(&k)
                && let Some(n) = moved.get(&(k as u64 & SERVICE, c.backend))
            {
                c.backend = *n;
            }
        }
        self.counters.orphaned += orphaned as u64;
        for (pool, now) in self.pools.iter_mut().zip(&given) {
            // By name, so that the order in which backends are given has no part in it.
            let mut names: Vec<&str> = now.iter().map(|b| &*b.name).collect();
            names.sort_unstable();
            let of = |i: u16| names.get(usize::from(i)).and_then(|n| numbers.get(n)).copied();
            pool.places = maglev::table(&names).into_iter().filter_map(of).collect();
        }
        self.backends = backends;
        self.given = given;
        Ok(())
    }

    /// Each backend's number, as `adopt` gave it.
    fn numbers(&self) -> BTreeMap<&str, u16> {
        let mut numbers = BTreeMap::new();
        for b in self.given.iter().flatten() {
            let new = numbers.len() as u16;
            numbers.entry(b.name.as_str()).or_insert(new);
        }
        numbers
    }

    /// From old number to new one, for each service that is given a backend which there was.
    fn moved(
        &self,
        given: &[Vec<Backend>],
        old: &BTreeMap<&str, u16>,
        new: &BTreeMap<&str, u16>,
    ) -> BTreeMap<(u64, u16), u16> {
        let mut moved = BTreeMap::new();
        for (pool, now) in self.pools.iter().zip(given) {
            for b in now {
                if let (Some(o), Some(n)) = (old.get(&*b.name), new.get(&*b.name)) {
                    moved.insert((service_key(pool.at, pool.protocol), *o), *n);
                }
            }
        }
        moved
    }

    /// Makes the connections of `before` its own whose service it has, with their backend by name.
    pub(super) fn succeed(&mut self, before: Self) {
        let old = before.numbers();
        let moved = self.moved(&self.given, &old, &self.numbers());
        (self.counters, self.swept) = (before.counters, before.swept);
        let stay = before.pools.iter().zip(&before.given).all(|(pool, given)| {
            let key = service_key(pool.at, pool.protocol);
            let mut numbers = given.iter().filter_map(|b| old.get(&*b.name));
            numbers.all(|n| moved.get(&(key, *n)) == Some(n))
        });
        if stay && before.connections.capacity() == self.connections.capacity() {
            self.connections = before.connections;
            return;
        }
        let orphaned = self.connections.take_over(&before.connections, |k, c| {
            moved.get(&(*k as u64 & SERVICE, c.backend)).is_some_and(|n| {
                c.backend = *n;
                true
            })
        });
        self.counters.orphaned += orphaned as u64;
    }
}
