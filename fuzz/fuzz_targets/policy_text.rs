//! Texts that may be policies. What is one reads back from what it is written as, and decides.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use ratelimit_core::{ErrorKind, Limiter, ManualClock, Policy, store};

fuzz_target!(|text: &str| {
    let policy = match Policy::parse(text) {
        Ok(policy) => policy,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidPolicy);
            assert!(error.argument().is_some(), "{error}");
            return;
        }
    };
    let written = policy.to_string();
    let again = Policy::parse(&written).unwrap_or_else(|error| panic!("{written:?} cannot be read again: {error}"));
    assert_eq!(again, policy, "{written:?} reads as another policy");

    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let store = store::memory(1_000).expect("a store");
    let limiter = Limiter::builder(policy).store(store).clock(clock.clone()).build().expect("a limiter");
    let limit = limiter.policies()[0].limit();
    let allow = |cost| limiter.allow("key", cost).expect("a decision");
    assert!(allow(1).allowed(), "the first of {limit} passes");
    let all = i64::try_from(limit).expect("limits are below 2^31");
    let denied = if limit == 1 { allow(1) } else { allow(all) };
    assert!(!denied.allowed());
    let wait_us = i64::try_from(denied.retry_after_us()).expect("waits are below 2^53");
    assert!(wait_us > 0);
    clock.advance_us(wait_us - 1);
    assert!(!allow(all).allowed(), "a microsecond is missing of {wait_us}");
    clock.advance_us(1);
    assert!(allow(all).allowed(), "the wait of {wait_us} is enough");
});
