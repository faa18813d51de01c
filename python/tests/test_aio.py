"""The verbs that are awaited: the same answers as from those that block, and where a wait ends early."""

from __future__ import annotations

import asyncio
import gc
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from servers import RedisServer, eventually
from test_vectors import EPOCH, cases, numbers, policies

import ratelimit_rs
from ratelimit_rs import (
    Decision,
    InvalidCost,
    LimitExceeded,
    ManualClock,
    Policy,
    Store,
    StoreUnavailable,
    WaitTooLong,
    aio,
)

FIVE = Policy.token_bucket(5, 1, 3600)

# Those of one unit per hour in which a wait reserves its slot.
RESERVING = [Policy.token_bucket(1, 1, 3600), Policy.leaky_bucket(3, 1 / 3600), Policy.gcra(1, 3600)]


async def call(limiter: aio.Limiter, step: dict[str, Any]) -> Decision | None:
    key = step.get("keys", "k")
    if step["verb"] == "reset":
        await limiter.reset(key)
        return None
    if step["verb"] == "reserve":
        longest = step.get("max_wait_us")
        return await limiter.reserve(key, step["cost"], math.inf if longest is None else longest / 1e6)
    decided: Decision | None = await getattr(limiter, step["verb"])(key, step["cost"])
    return decided


@pytest.mark.parametrize("case", cases("policy") + cases("several"))
def test_every_call_is_decided_as_the_vectors_say(case: dict[str, Any], server: RedisServer) -> None:
    store = Store.redis(server.dsn, timeout=5, connect_timeout=5)

    async def main() -> None:
        clock, by, now_us = ManualClock(EPOCH), policies(case), 0
        for number, step in enumerate(case["steps"]):
            by = policies(step) or by
            assert by is not None
            clock.advance((step["at_us"] - now_us) / 1e6)
            now_us = step["at_us"]
            decision = await call(aio.Limiter(by, store, clock=clock), step)
            if step.get("expect") is None:
                assert decision is None
                continue
            assert decision is not None
            expected = {"delay_us": 0} | step["expect"]
            given = numbers(decision)
            if "each" in expected:
                expected["each"] = [{"delay_us": 0} | one for one in expected["each"]]
                given |= {"policy": decision.policy, "each": [numbers(one) for one in decision.each()]}
            assert given == expected, f"step {number} of {case['name']!r}"

    asyncio.run(main())


class Frozen:
    """A clock in Python that stands still, so that what a wait leaves can be compared exactly."""

    def now(self) -> float:
        return 1_700_000_000.0


@pytest.mark.parametrize("clock", [None, ManualClock(), Frozen()], ids=["store", "manual", "python"])
def test_each_verb_does_what_the_one_that_blocks_does(store: Store, clock: Any) -> None:
    options: dict[str, Any] = {"on_error": "throw", "hash_keys": True, "secret": "s", "clock": clock}
    blocking = ratelimit_rs.Limiter([Policy.gcra(5, 10, name="a"), FIVE], store, **options)
    awaited = aio.Limiter([Policy.gcra(5, 10, name="a"), FIVE], store, **options)
    pair: Any = {"a": "k", "default": b"k"}

    async def main() -> None:
        # One takes what the other sees; a token is known to both.
        assert (await awaited.allow("k", 2, token="t")).remaining == 3
        assert blocking.allow(pair, 2, token="t").remaining == 3
        assert (await awaited.peek(pair)).remaining == blocking.peek("k").remaining == 3
        await awaited.refund("k", 1, token=b"r")
        blocking.refund("k", 1, token=b"r")
        assert blocking.peek("k").remaining == 4
        assert [one.remaining for one in await awaited.allow_many(["k", (pair, 2), ("k", 9)])] == [3, 1, 1]
        assert (await awaited.reserve("k", 1)).delay == 0
        late = await awaited.reserve("k", 1, 0.5, token="late")
        assert (late.allowed, late.remaining) == (False, 0)
        with pytest.raises(WaitTooLong):
            await awaited.wait("k", max_wait=0.5)
        await awaited.reset("k")
        assert blocking.peek("k").remaining == 5
        assert (await awaited.wait(key="k", cost=5, max_wait=None, token="w")).remaining == 0

    asyncio.run(main())


def test_wrong_arguments_raise_what_they_raise_otherwise_and_take_nothing(store: Store) -> None:
    limiter: Any = aio.Limiter(FIVE, store)

    async def main() -> None:
        for cost in (0, -1, 2**31, 1.5, True):
            for verb in (limiter.allow, limiter.peek, limiter.reserve, limiter.refund, limiter.wait):
                with pytest.raises(InvalidCost, match=f"got {cost}$"):
                    await verb("k", cost)
        for verb in (limiter.allow, limiter.peek, limiter.reserve, limiter.refund, limiter.wait, limiter.reset):
            with pytest.raises(TypeError, match="^key must be str, bytes or dict, got int$"):
                await verb(5)
        with pytest.raises(TypeError, match="^token must be str or bytes, got int$"):
            await limiter.allow("k", token=5)
        with pytest.raises(ratelimit_rs.InvalidArgument, match="^token must not be empty$"):
            await limiter.allow("k", token="")
        with pytest.raises(ratelimit_rs.InvalidArgument, match="policy"):
            await limiter.allow({"other": "k"})
        with pytest.raises(ratelimit_rs.InvalidArgument, match="^max_wait must be seconds"):
            await limiter.wait("k", max_wait=-1)
        with pytest.raises(InvalidCost, match="at index 1$"):
            await limiter.allow_many(["k", ("k", 0)])
        assert (await limiter.peek("k")).remaining == 5

    asyncio.run(main())
    with pytest.raises(TypeError, match="^limiter must be a ratelimit_rs.Limiter, got Limiter$"):
        aio.Limiter.of(limiter)
    assert repr(limiter).startswith("<ratelimit_rs.aio.Limiter [Policy.token_bucket(5")


def test_a_limiter_can_be_had_of_one_that_blocks(store: Store) -> None:
    blocking = ratelimit_rs.Limiter(FIVE, store)
    assert asyncio.run(aio.Limiter.of(blocking).allow("k")).remaining == 4
    assert blocking.allow("k").remaining == 3


def test_the_token_bucket_answers_as_the_class_in_the_guide(store: Store) -> None:
    bucket = aio.TokenBucket(store, 2, 0.5, refill_interval=3600)
    assert (bucket.capacity, bucket.refill_rate, bucket.refill_interval, bucket.redis) == (2, 0.5, 3600.0, store)
    assert repr(bucket).startswith("<ratelimit_rs.aio.TokenBucket capacity=2")

    async def main() -> list[tuple[bool, float]]:
        with pytest.raises(TypeError, match="^key must be str or bytes, got dict$"):
            await bucket.allow({"default": "k"})  # type: ignore[arg-type]
        return [await bucket.allow(key) for key in ("k", b"k", "k")]

    assert asyncio.run(main()) == [(True, 1.0), (True, 0.0), (False, 0.0)]
    assert ratelimit_rs.TokenBucket(store, 2, 0.5, 3600).allow("k") == (False, 0.0)


def test_a_round_trip_can_be_timed(store: Store) -> None:
    assert 0 <= asyncio.run(aio.ping(store)) < 5


def test_a_decorated_coroutine_function_is_one_still(store: Store) -> None:
    limiter = aio.Limiter(Policy.token_bucket(2, 1, 10, name="api"), store, clock=ManualClock())

    @limiter.limit(key=lambda user: f"user:{user}", cost=2)
    async def greet(user: str) -> str:
        """Greets."""
        return f"Hello, {user}!"

    async def main() -> None:
        assert await greet("Ada") == "Hello, Ada!"
        with pytest.raises(LimitExceeded) as caught:
            await greet("Ada")
        assert caught.value.decision.retry_after == 20.0

    asyncio.run(main())
    assert (inspect.iscoroutinefunction(greet), greet.__doc__) == (True, "Greets.")
    with pytest.raises(TypeError, match="^limit decorates a coroutine function .*, got bare$"):

        @limiter.limit(key="k")  # type: ignore[type-var]
        def bare() -> None: ...

    with pytest.raises(InvalidCost):
        limiter.limit(key="k", cost=0)


@pytest.mark.parametrize("policy", [Policy.gcra(10, 1, 1), Policy.fixed_window(1, 0.1), Policy.leaky_bucket(2, 10)])
def test_a_wait_sleeps_in_its_event_loop(store: Store, policy: Policy) -> None:
    limiter = aio.Limiter(policy, store)

    async def main() -> None:
        started = time.monotonic()
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.001)
                turns += 1

        async def wait() -> float:
            await limiter.wait("k")
            return time.monotonic() - started

        beside = asyncio.ensure_future(others())
        passed = sorted(await asyncio.gather(*(wait() for _ in range(4))))
        beside.cancel()
        assert turns > 20
        # A window begins with its first hit, so that one is never late.
        assert 0.29 <= passed[-1] < 5

    asyncio.run(main())


@pytest.mark.parametrize("token", [None, "t"])
@pytest.mark.parametrize("policy", [*RESERVING, Policy.fixed_window(1, 3600)], ids=str)
def test_a_wait_that_ends_early_gives_its_slot_back(store: Store, policy: Policy, token: str | None) -> None:
    limiter = aio.Limiter(policy, store, clock=Frozen())

    async def main() -> None:
        await limiter.allow("k")
        before = await limiter.peek("k")
        task = asyncio.ensure_future(limiter.wait("k", token=token))
        # It has reserved, but for a window there is nothing to reserve.
        await (asyncio.sleep(0.2) if policy not in RESERVING else until_changed(limiter, before))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await limiter.peek("k") == before
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(limiter.wait("k", token=token), 0.1)
        assert await limiter.peek("k") == before

    asyncio.run(main())


async def until_changed(limiter: aio.Limiter, before: Decision) -> None:
    deadline = time.monotonic() + 10
    while await limiter.peek("k") == before:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def test_a_wait_whose_loop_goes_away_gives_its_slot_back(store: Store) -> None:
    limiter = aio.Limiter(Policy.gcra(1, 3600), store, clock=Frozen())
    blocking = ratelimit_rs.Limiter(Policy.gcra(1, 3600), store, clock=Frozen())
    blocking.allow("k")
    before = blocking.peek("k")
    loop = asyncio.new_event_loop()
    waiting = limiter.wait("k")
    task = loop.create_task(waiting)
    loop.run_until_complete(until_changed(limiter, before))
    loop.close()
    # What a collection does to a coroutine whose loop has gone.
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    waiting.close()
    del task
    gc.collect()
    eventually("the return of the slot", lambda: blocking.peek("k") == before)


def test_a_wait_that_its_clock_ends_gives_its_slot_back(store: Store) -> None:
    class Failing(Frozen):
        fails_at = -1

        def now(self) -> float:
            self.fails_at -= 1
            if self.fails_at == 0:
                raise LookupError("no time like the present")
            return super().now()

    clock = Failing()
    limiter = aio.Limiter(Policy.gcra(10, 1, 1), store, clock=clock)

    async def main() -> None:
        await limiter.allow("k")
        before = await limiter.peek("k")
        # It is asked for the reservation, and once more after the sleep.
        clock.fails_at = 2
        with pytest.raises(LookupError):
            await limiter.wait("k")
        assert await limiter.peek("k") == before

    asyncio.run(main())


def test_without_a_loop_of_asyncio_memory_answers_and_a_server_says_what_is_missing(server: RedisServer) -> None:
    def drive(coroutine: Coroutine[Any, Any, Decision]) -> Decision:
        with pytest.raises(StopIteration) as ended:
            coroutine.send(None)
        assert isinstance(ended.value.value, Decision)
        return ended.value.value

    assert drive(aio.Limiter(FIVE, Store.memory()).allow("k")).remaining == 4
    with pytest.raises(RuntimeError, match="no running event loop"):
        aio.Limiter(FIVE, server.dsn).allow("k").send(None)


@pytest.mark.parametrize("rule", ["throw", "open", "closed", "local"])
def test_failure_rules_are_those_of_the_one_that_blocks(rule: Any) -> None:
    # Nobody listens on the first port.
    store = Store.redis("redis://127.0.0.1:1")
    clock = ManualClock()
    awaited = aio.Limiter(FIVE, store, on_error=rule, share=2, clock=clock)
    blocking = ratelimit_rs.Limiter(FIVE, store, on_error=rule, share=2, clock=clock)

    async def main() -> None:
        verbs: list[tuple[Callable[..., Awaitable[object]], Callable[..., object]]] = [
            (awaited.peek, blocking.peek),
            (awaited.allow, blocking.allow),
            (awaited.reserve, blocking.reserve),
            (awaited.refund, blocking.refund),
            (awaited.reset, blocking.reset),
        ]
        for later, now in verbs:
            outcomes = [await outcome(later(f"{rule} later")), await outcome(later_of(now, f"{rule} now"))]
            assert outcomes[0] == outcomes[1], (later, outcomes)

    async def outcome(answer: Awaitable[object]) -> object:
        try:
            return await answer
        except StoreUnavailable as error:
            return type(error), error.kind

    async def later_of(verb: Callable[..., object], key: str) -> object:
        return verb(key)

    asyncio.run(main())
