"""A program with types, for the type checker: it must find nothing wrong here."""

from __future__ import annotations

import asyncio

from ratelimit_rs import (
    Concurrency,
    Decision,
    InvalidStore,
    LimitExceeded,
    Limiter,
    Lock,
    ManualClock,
    Policy,
    RateLimitError,
    Store,
    StoreUnavailable,
    TokenBucket,
    WaitTooLong,
    aio,
)
from ratelimit_rs.http import ClientIp, Key, unidentified
from ratelimit_rs.wsgi import RateLimitMiddleware


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
    try:
        many: list[Decision] = limiter.allow_many(["a", (b"b", 2), ({"default": "c"}, 1)])
    except StoreUnavailable as error:
        many = [decision for decision in error.decisions if decision is not None]
    print(len(many), limiter.allow_many(f"user:{number}" for number in range(3))[0].remaining)
    seconds: float = decision.retry_after + decision.reset_after + decision.delay
    parts: list[Decision] = decision.each()
    print(seconds, parts[0].remaining + 1, decision.policy.upper(), decision.source.upper())
    return decision.headers("x-ratelimit")


def answered(limiter: Limiter, peer: str) -> tuple[int, dict[str, str], bytes]:
    key = ClientIp(["10.0.0.0/8"], ipv6_prefix=56, header="forwarded").resolve(peer, forwarded=["for=192.0.2.1"])
    if key is None:
        rejected = unidentified("json")
        return rejected.status, rejected.headers, rejected.body.encode()
    decision = limiter.allow(key)
    refusal = decision.refusal("draft-7", "problem", "abnormal-usage-detected", quota_unit="tokens")
    problem = decision.problem()
    if refusal is None or problem is None:
        return 200, decision.headers("x-ratelimit-epoch", partition_key=b"k"), b""
    print(problem["detail"].upper())
    return refusal.status, refusal.headers, refusal.body.encode()


def middleware(limiter: Limiter) -> RateLimitMiddleware:
    def cost(environ: dict[str, str]) -> int:
        return 2 if environ["REQUEST_METHOD"] == "POST" else 1

    key = Key.first(Key.user(), ClientIp())
    return RateLimitMiddleware(lambda environ, start: [b""], limiter, key, cost=cost, headers="draft-3", body="none")


def several(clock: ManualClock) -> list[str]:
    limiter = Limiter((Policy.gcra(10, 1, 20, name="a"), Policy.parse("100/h sliding", name="b")), clock=clock)
    keys = {"a": "ada", "b": "site"}
    mixed: dict[str, str | bytes] = {"a": b"ada", "b": "site"}
    decision = limiter.allow(keys, token="t")
    limiter.refund(mixed, 1)
    limiter.refund(mixed, token=b"t")
    try:
        decision = limiter.wait(mixed, max_wait=1.5, token=b"t")
    except WaitTooLong as late:
        print(str(late).upper())
    slots: float = Limiter(Policy.leaky_bucket(5, 2), "memory:").reserve("k", 1, None).delay
    print(slots)

    @limiter.limit(key=lambda user: f"user:{user}", wait=True)
    def work(user: int) -> str:
        return str(user)

    @limiter.limit(key={"a": "x", "b": "y"})
    async def later(user: int) -> int:
        return user

    async def both() -> str:
        return work(await later(42))

    return [one.policy for one in decision.each()] + [asyncio.run(both())]


async def awaited(limiter: Limiter) -> float:
    sundial = aio.Limiter([Policy.parse("9/h", name="a")], Store.memory(), on_error="open", secret=b"s", clock=Sundial())
    later: list[aio.Limiter] = [aio.Limiter.of(limiter), sundial]
    for one in later:
        decision: Decision = await one.allow("k", 2, token="t")
        decisions: list[Decision] = await one.allow_many(["k", (b"k", 1), {"a": "k"}]) if one is sundial else []
        print(decision.remaining, len(decisions), (await one.peek(b"k")).allowed, (await one.wait("k", max_wait=1)).delay)
        await one.refund("k", token=b"t")
        await one.reset("k")

    @sundial.limit(key=lambda user: f"user:{user}", wait=True)
    async def work(user: int) -> int:
        return user

    allowed, remaining = await aio.TokenBucket("memory:", capacity=10).allow(b"key")
    return await aio.ping(Store.memory()) + await work(42) + remaining + allowed


def held(clock: ManualClock) -> str:
    lock, uploads = Lock(Store.memory()), Concurrency(2, 60, "memory:", name="uploads", clock=clock)
    holder: str | None = lock.acquire("k", 30, max_wait=None)
    taken = uploads.acquire(b"k", 0.5)
    with lock.hold("another", 30) as hold, uploads.lease("k") as lease:
        print(hold.holder, hold.extend(5), lease.extend(), uploads.peek("k").remaining, lease.release())
    assert holder is not None
    assert taken is not None
    return f"{lock.extend('k', holder, 5)} {lock.release('k', holder)} {lock.is_held('k')} {uploads.release('k', taken)}"


async def held_later() -> bool:
    lock, uploads = aio.Lock.of(Lock(Store.memory())), aio.Concurrency(2, 60, "memory:", name="later")
    async with lock.hold("k", 30, max_wait=1) as hold, uploads.lease("k", max_wait=1) as lease:
        text: str | None = hold.holder
        print(text, await hold.extend(), await lease.extend(), (await uploads.peek("k")).allowed)
        return await lock.is_held("k") and await lock.acquire("k", 1) is None


def main() -> None:
    print(held(ManualClock()), asyncio.run(held_later()))
    print(asyncio.run(awaited(Limiter(Policy.gcra(9, 1), "memory:"))))
    print("".join(several(ManualClock())))
    windows = [Policy.fixed_window(5, 60, aligned=True), Policy.sliding_window_log(5, 60.0)]
    print(str(windows[0]) + repr(Policy.sliding_window_counter(5, 60)))
    policy = Policy.token_bucket(10, 0.5, refill_interval=60, continuous=True, name="login")
    stores: list[Store] = [Store.memory(1000), Store.open("memory:"), Store.redis(timeout=1, prefix="app:")]
    for clock in (ManualClock(), Sundial(), None):
        guarded(Limiter([policy], stores[0], on_error="local", share=4, secret=[b"s", "t"], clock=clock), 42)
    print(answered(Limiter(policy), "10.0.0.1"), middleware(Limiter(policy)))
    allowed, remaining = TokenBucket(None, capacity=10).allow(b"key")
    print(not allowed, remaining / 2, {policy: policy.limit})
    try:
        Store.open("nonsense")
    except InvalidStore as invalid:
        fault: ValueError = invalid
        print(fault, isinstance(fault, RateLimitError))


if __name__ == "__main__":
    main()
