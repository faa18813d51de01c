//! Who is at work on a key: leases that end by themselves, at most so many at a time. A lock is a lease of which there is
//! one.

use super::Result;

/// Who holds a lease: a number nobody else has.
pub(crate) type Holder = u128;

/// One lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) holder: Holder,
    /// The instant from which it is over; 0 where a place is free.
    pub(crate) until_us: u64,
}

/// Where the leases of a key are kept, each at a place.
pub(crate) trait Places {
    /// Places there are.
    fn len(&self) -> usize;

    /// The lease at a place below [`len`](Self::len).
    fn lease(&self, place: usize) -> Lease;

    /// Sets when the lease at a place is over.
    fn end(&mut self, place: usize, until_us: u64);

    /// Puts a lease at a place whose own is over, or at a new one behind all others.
    fn put(&mut self, place: usize, lease: Lease) -> Result<()>;
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Only look.
    Count = 0,
    /// Take a lease if there is one; who has one already has it anew.
    Acquire = 1,
    /// Make one that is held last from now on.
    Extend = 2,
    /// End one that is held.
    Release = 3,
}

/// One question about the leases of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) act: Act,
    /// Nobody, whose number is 0, where it is only a look.
    pub(crate) holder: Holder,
    /// How many there may be.
    pub(crate) limit: u64,
    /// How long one lasts.
    pub(crate) ttl_us: u64,
    /// Whether every lease lasts as long, so that none can end later than one that is taken now.
    pub(crate) same_ttl: bool,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Whether it was done. A look is done where a lease is left.
    pub(crate) done: bool,
    /// Leases that are held now.
    pub(crate) in_flight: u64,
    /// Where a lease was refused, how long it is at most until one is over; else 0.
    pub(crate) wait_us: u64,
}

impl Request {
    /// Answers, and changes the leases accordingly. Also says when the last of them is over.
    pub(crate) fn decide(&self, places: &mut impl Places, now_us: u64) -> Result<(Held, u64)> {
        // Of the others: how many, and when the first and the last of them is over.
        let (mut others, mut first_us, mut last_us) = (0, u64::MAX, 0);
        let (mut own, mut free) = (None, None);
        for place in 0..places.len() {
            let mut lease = places.lease(place);
            if lease.until_us <= now_us {
                if lease.until_us > 0 && self.act != Act::Count {
                    // What is over stays over, also where the clock steps back.
                    places.end(place, 0);
                }
                free = free.or(Some(place));
                continue;
            }
            if self.same_ttl && lease.until_us > now_us + self.ttl_us {
                // From before the clock stepped back, or the lifetime was shortened.
                lease.until_us = now_us + self.ttl_us;
                if self.act != Act::Count {
                    places.end(place, lease.until_us);
                }
            }
            if lease.holder == self.holder {
                own = Some((place, lease.until_us));
            } else {
                others += 1;
                first_us = first_us.min(lease.until_us);
                last_us = last_us.max(lease.until_us);
            }
        }
        let until_us = now_us + self.ttl_us;
        // Whether it is done, and until when the holder has a lease from now on.
        let (done, own_us) = match (self.act, own) {
            (Act::Count, _) => (others < self.limit, None),
            (Act::Acquire, None) if others < self.limit => {
                places.put(free.unwrap_or(places.len()), Lease { holder: self.holder, until_us })?;
                (true, Some(until_us))
            }
            (Act::Acquire | Act::Extend, Some((place, _))) => {
                places.end(place, until_us);
                (true, Some(until_us))
            }
            (Act::Release, Some((place, _))) => {
                places.end(place, 0);
                (true, None)
            }
            (Act::Acquire | Act::Extend | Act::Release, None) => (false, None),
        };
        let refused = !done && matches!(self.act, Act::Acquire | Act::Count);
        let wait_us = if refused { first_us - now_us } else { 0 };
        let held = Held { done, in_flight: others + u64::from(own_us.is_some()), wait_us };
        Ok((held, last_us.max(own_us.unwrap_or(0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct List(Vec<Lease>);

    impl Places for List {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn lease(&self, place: usize) -> Lease {
            self.0[place]
        }

        fn end(&mut self, place: usize, until_us: u64) {
            self.0[place].until_us = until_us;
        }

        fn put(&mut self, place: usize, lease: Lease) -> Result<()> {
            self.0.truncate(self.0.len().max(place));
            if place == self.0.len() {
                self.0.push(lease);
            } else {
                self.0[place] = lease;
            }
            Ok(())
        }
    }

    fn ask(list: &mut List, act: Act, holder: Holder, now_us: u64) -> (bool, u64, u64) {
        let request = Request { act, holder, limit: 2, ttl_us: 100, same_ttl: true };
        let (Held { done, in_flight, wait_us }, _) = request.decide(list, now_us).expect("an answer");
        (done, in_flight, wait_us)
    }

    #[test]
    fn as_many_as_the_limit_are_held_and_the_wait_is_until_the_first_is_over() {
        let mut list = List::default();
        assert_eq!(ask(&mut list, Act::Acquire, 1, 1000), (true, 1, 0));
        assert_eq!(ask(&mut list, Act::Acquire, 2, 1030), (true, 2, 0));
        assert_eq!(ask(&mut list, Act::Acquire, 3, 1040), (false, 2, 60));
        assert_eq!(ask(&mut list, Act::Count, 0, 1040), (false, 2, 60));
        assert_eq!(ask(&mut list, Act::Acquire, 3, 1099), (false, 2, 1));
        assert_eq!(ask(&mut list, Act::Acquire, 3, 1100), (true, 2, 0));
        assert_eq!(list.0.len(), 2, "a place is used again");
    }

    #[test]
    fn only_its_holder_extends_or_ends_a_lease_and_only_while_it_lasts() {
        let mut list = List::default();
        assert_eq!(ask(&mut list, Act::Acquire, 1, 1000), (true, 1, 0));
        assert_eq!(ask(&mut list, Act::Extend, 2, 1010), (false, 1, 0));
        assert_eq!(ask(&mut list, Act::Release, 2, 1010), (false, 1, 0));
        assert_eq!(ask(&mut list, Act::Extend, 1, 1050), (true, 1, 0));
        assert_eq!(ask(&mut list, Act::Count, 0, 1149), (true, 1, 0));
        assert_eq!(ask(&mut list, Act::Extend, 1, 1150), (false, 0, 0));
        assert_eq!(ask(&mut list, Act::Release, 1, 1150), (false, 0, 0));
        assert_eq!(ask(&mut list, Act::Acquire, 1, 1150), (true, 1, 0));
        assert_eq!(ask(&mut list, Act::Release, 1, 1160), (true, 0, 0));
        assert_eq!(ask(&mut list, Act::Release, 1, 1160), (false, 0, 0));
    }

    #[test]
    fn after_a_step_back_of_the_clock_a_lease_lasts_no_longer_than_a_new_one() {
        let mut list = List::default();
        assert_eq!(ask(&mut list, Act::Acquire, 1, 9000), (true, 1, 0));
        assert_eq!(ask(&mut list, Act::Acquire, 2, 9000), (true, 2, 0));
        assert_eq!(ask(&mut list, Act::Acquire, 3, 1000), (false, 2, 100));
        assert_eq!(ask(&mut list, Act::Acquire, 3, 1100), (true, 1, 0));
    }
}
