//! The outbound half: keeps one's own calls to somebody's API under that API's limits.

mod answer;

mod governor;

mod limit;

mod observation;

mod options;

mod resolver;

mod strategy;

pub(crate) use observation::with_functions;

use crate::class;

/// Registers the classes, while the module starts.
pub(crate) fn register() -> ext_php_rs::error::Result<()> {
    class::register::<observation::Observation>()?;
    class::register::<answer::BucketState>()?;
    class::register::<answer::Ticket>()?;
    class::register::<answer::Go>()?;
    class::register::<answer::Wait>()?;
    class::register::<answer::Refuse>()?;
    class::register::<answer::Returned>()?;
    class::register::<answer::Retry>()?;
    class::register::<answer::Fail>()?;
    class::register::<limit::Limit>()?;
    class::register::<limit::GlobalLimit>()?;
    class::register::<limit::InvalidRequestLimit>()?;
    class::register::<governor::Governor>()
}
