//! `used/limit` in one field: Shopify's leaky bucket.

use super::reader::{Draft, Reader};
use super::value::{self, Moment};
use crate::outbound::observation::Quota;

/// Every plan's bucket leaks empty in this time: 40 at 2 per second, 80 at 4, 400 at 20.
const EMPTY_IN_SECONDS: f64 = 20.0;

/// `X-Shopify-Shop-Api-Call-Limit: 32/40`.
pub(super) fn read(reader: &Reader<'_>, draft: &mut Draft) {
    let field = reader.get("x-shopify-shop-api-call-limit");
    let Some((used, limit)) = field.and_then(|text| text.split_once('/')) else { return };
    let (Some(used), Some(limit)) = (value::count(used), value::count(limit)) else { return };
    if limit < 1.0 {
        return;
    }
    let used = used.min(limit);
    let us = |units: f64| crate::clock::seconds_to_us(units * EMPTY_IN_SECONDS / limit);
    let mut quota = Quota {
        limit: Some(limit),
        remaining: Some(limit - used),
        refill_us: Some(us(1.0)).filter(|us| *us > 0),
        ..Quota::default()
    };
    reader.reset(&mut quota, Some(Moment::After(us(used))));
    draft.quotas.push(quota);
    draft.bucket = Some("shop".into());
}
