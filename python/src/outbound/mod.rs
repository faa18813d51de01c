//! The outbound half: keeps one's own calls to somebody's API under that API's limits.

mod answer;

mod governor;

mod limit;

mod observation;

mod options;

mod state;

pub(crate) use answer::{Fail, Go, Refuse, Retry, Return, Ticket, Wait};
pub(crate) use governor::Governor;
pub(crate) use limit::{GlobalLimit, InvalidRequestLimit, Limit};
pub(crate) use observation::{Observation, Quota, parse_headers};
pub(crate) use state::BucketState;
