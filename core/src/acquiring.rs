//! Waiting for a lock or a lease, as steps that a host takes in its own way.

use crate::error::Result;
use crate::holder::Holder;
use crate::store::Held;

/// Between two tries; doubled from the shortest to the longest, since what is held is let go at any time.
const SHORTEST_PAUSE_US: u64 = 1_000;
const LONGEST_PAUSE_US: u64 = 50_000;

/// A wait for a lock or a lease that is under way: the host takes a step, sleeps as long as it is told, and takes the next.
///
/// Those who wait are in no queue: of several the one that tries first after a release is the next.
#[derive(Debug)]
pub struct Acquiring {
    holder: Holder,
    /// Whether a try was begun of which it is not known that it took nothing.
    may_hold: bool,
    left_us: u64,
    pause_us: u64,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcquireStep {
    /// It is held.
    Done(Holder),
    /// Somebody else holds it, and no time is left to wait.
    Refused,
    /// Sleep so long, then take the next step.
    Sleep {
        /// Microseconds.
        us: u64,
    },
}

impl Acquiring {
    /// A wait of at most `max_wait_us` microseconds; 0 is one try, `u64::MAX` as long as it takes.
    pub fn new(max_wait_us: u64) -> Result<Self> {
        Ok(Self { holder: Holder::draw()?, may_hold: false, left_us: max_wait_us, pause_us: SHORTEST_PAUSE_US })
    }

    /// Begins a try; whoever holds something afterwards is this.
    pub(crate) fn begin(&mut self) -> &str {
        self.may_hold = true;
        self.holder.as_str()
    }

    /// Who holds what the last try may have taken.
    pub(crate) fn may_hold(&self) -> Option<&Holder> {
        self.may_hold.then_some(&self.holder)
    }

    /// The step that the store's answer leads to.
    pub(crate) fn hear(&mut self, held: &Held) -> AcquireStep {
        if held.done {
            return AcquireStep::Done(self.holder.clone());
        }
        self.may_hold = false;
        if self.left_us == 0 {
            return AcquireStep::Refused;
        }
        // Drawn anew each time, so that those who wait do not all try at once.
        let pause_us = fastrand::u64(self.pause_us / 2..=self.pause_us);
        let us = pause_us.min(held.wait_us.max(1)).min(self.left_us);
        self.pause_us = (self.pause_us * 2).min(LONGEST_PAUSE_US);
        if self.left_us != u64::MAX {
            self.left_us -= us;
        }
        AcquireStep::Sleep { us }
    }
}
