"""A program with types, for the type checker: it must find nothing wrong here."""

from __future__ import annotations

from ratelimit_rs import (
    Decision,
    InvalidStore,
    LimitExceeded,
    Limiter,
    ManualClock,
    Policy,
    RateLimitError,
    Store,
    StoreUnavailable,
    TokenBucket,
)


class Sundial:
    def now(self) -> float:
        return 1_700_000_000.0


def guarded(limiter: Limiter, user: int) -> dict[str, str]:
    try:
        decision: Decision = limiter.allow(f"user:{user}", cost=2)
    except StoreUnavailable as error:
        print(error.kind.upper(), error.errno)
        return {}
    if not decision:
        raise LimitExceeded(decision)
    seconds: float = decision.retry_after + decision.reset_after + decision.delay
    parts: list[Decision] = decision.each()
    print(seconds, parts[0].remaining + 1, decision.policy.upper(), decision.source.upper())
    return decision.headers("x-ratelimit")


def main() -> None:
    policy = Policy.token_bucket(10, 0.5, refill_interval=60, continuous=True, name="login")
    stores: list[Store] = [Store.memory(1000), Store.open("memory:"), Store.redis(timeout=1, prefix="app:")]
    for clock in (ManualClock(), Sundial(), None):
        guarded(Limiter([policy], stores[0], on_error="local", share=4, secret=b"s", clock=clock), 42)
    allowed, remaining = TokenBucket(None, capacity=10).allow(b"key")
    print(not allowed, remaining / 2, {policy: policy.limit})
    try:
        Store.open("nonsense")
    except InvalidStore as invalid:
        fault: ValueError = invalid
        print(fault, isinstance(fault, RateLimitError))


if __name__ == "__main__":
    main()
