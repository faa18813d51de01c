"""Functions with a limit: `@limiter.limit(key=…)`."""

from __future__ import annotations

import asyncio
import inspect
import math
import pickle
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from servers import Relay, RedisServer, SilentListener

from ratelimit_rs import LimitExceeded, Limiter, ManualClock, Policy, Store, StoreUnavailable, WaitTooLong
from ratelimit_rs._native import _Waiting


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def limiter(store: Store, clock: ManualClock) -> Limiter:
    return Limiter(Policy.token_bucket(2, 1, 10, name="api"), store, clock=clock)


def test_a_function_passes_until_the_limit_is_used_up(limiter: Limiter, clock: ManualClock) -> None:
    calls = []

    @limiter.limit(key="global")
    def work(first: int, *, second: int = 2) -> int:
        """Adds."""
        calls.append((first, second))
        return first + second

    assert (work(1), work(1, second=3)) == (3, 4)
    with pytest.raises(LimitExceeded) as caught:
        work(5)
    assert calls == [(1, 2), (1, 3)]
    assert caught.value.decision.retry_after == 10.0
    assert limiter.peek("global").remaining == 0
    clock.advance(10)
    assert work(1) == 3
    assert (work.__name__, work.__doc__) == ("work", "Adds.")
    assert list(inspect.signature(work).parameters) == ["first", "second"]


def test_the_key_may_be_made_of_the_arguments(limiter: Limiter) -> None:
    class Service:
        @limiter.limit(key=lambda self, user, **options: f"user:{user}:{options}", cost=2)
        def serve(self, user: str, **options: int) -> str:
            return user

    service = Service()
    assert [service.serve("ada"), service.serve("bob"), service.serve("bob", size=1)] == ["ada", "bob", "bob"]
    with pytest.raises(LimitExceeded):
        service.serve("bob", size=1)


def test_keys_are_whatever_the_verbs_take(store: Store) -> None:
    limiter = Limiter([Policy.gcra(1, 60, 2, name="a"), Policy.gcra(1, 60, 9, name="b")], store, clock=ManualClock())

    @limiter.limit(key=b"bytes")
    def one() -> None: ...

    @limiter.limit(key={"a": "x", "b": "y"})
    def two() -> None: ...

    @limiter.limit(key=lambda: {"a": "x", "b": "z"})
    def three() -> None: ...

    one(), two(), three()
    with pytest.raises(LimitExceeded):
        two()
    assert [one.remaining for one in limiter.peek({"a": "bytes", "b": "y"}).each()] == [1, 8]


def test_with_wait_it_waits_its_turn(limiter: Limiter, clock: ManualClock) -> None:
    @limiter.limit(key="k", wait=True)
    def work() -> float:
        return clock.now()

    start = clock.now()
    assert [work() - start for _ in range(4)] == [0.0, 0.0, 10.0, 20.0]

    @limiter.limit(key="k", cost=3, wait=True)
    def never() -> None: ...

    with pytest.raises(WaitTooLong):
        never()


def test_a_coroutine_function_is_one_still(limiter: Limiter, clock: ManualClock) -> None:
    @limiter.limit(key=lambda user: user)
    async def work(user: str) -> str:
        return user.upper()

    @limiter.limit(key="k", wait=True)
    async def patient() -> float:
        return clock.now()

    async def main() -> None:
        assert [await work("ada"), await work("ada"), await work("bob")] == ["ADA", "ADA", "BOB"]
        with pytest.raises(LimitExceeded):
            await work("ada")
        start = clock.now()
        assert [await patient() - start for _ in range(4)] == [0.0, 0.0, 10.0, 20.0]
        with pytest.raises(WaitTooLong):
            await limiter.limit(key="k", cost=3, wait=True)(work)("ada")

    assert inspect.iscoroutinefunction(work)
    assert inspect.iscoroutinefunction(patient)
    asyncio.run(main())


@pytest.mark.parametrize("policy", [Policy.gcra(10, 1, 1), Policy.fixed_window(1, 0.1), Policy.leaky_bucket(2, 10)])
def test_a_coroutine_sleeps_in_its_event_loop(store: Store, policy: Policy) -> None:
    limiter = Limiter(policy, store)

    @limiter.limit(key="k", wait=True)
    async def work() -> float:
        return time.monotonic()

    async def main() -> None:
        started = time.monotonic()
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.001)
                turns += 1

        beside = asyncio.ensure_future(others())
        instants = sorted(await asyncio.gather(*(work() for _ in range(4))))
        beside.cancel()
        assert turns > 20
        # A window begins with its first hit, so that one is never late.
        assert instants[-1] - started >= 0.29
        assert instants[-1] - started < 5

    asyncio.run(main())


class Frozen:
    """A clock in Python that stands still, so that what a wait leaves can be compared exactly."""

    def now(self) -> float:
        return 1_700_000_000.0


def waiter(limiter: Limiter) -> Callable[[], Coroutine[Any, Any, None]]:
    """A coroutine function that waits for its turn, which does not come in the tests."""

    @limiter.limit(key="k", wait=True)
    async def work() -> None:
        raise AssertionError("not reached")

    return work


HOURLY = [
    Policy.token_bucket(1, 1, 3600),
    Policy.leaky_bucket(3, 1 / 3600),
    Policy.gcra(1, 3600),
    Policy.fixed_window(1, 3600),
]


@pytest.mark.parametrize("policy", HOURLY, ids=str)
def test_a_coroutine_that_is_cancelled_gives_its_slot_back(store: Store, policy: Policy) -> None:
    limiter = Limiter(policy, store, clock=Frozen())
    limiter.allow("k")
    before = limiter.peek("k")

    async def main() -> None:
        tasks = [asyncio.ensure_future(waiter(limiter)()) for _ in range(2)]
        await asyncio.sleep(0.3)
        # Both have reserved, but for a window there is nothing to reserve.
        assert (limiter.peek("k") == before) == ("fixed_window" in repr(policy))
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
        assert limiter.peek("k") == before
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(waiter(limiter)(), 0.1)
        assert limiter.peek("k") == before

    asyncio.run(main())


def test_a_slot_that_is_being_reserved_at_the_cancellation_is_given_back(server: RedisServer) -> None:
    policy = Policy.gcra(1, 3600)
    # Of what is given back through the relay it would not hear.
    direct = Limiter(policy, Store.redis(server.dsn + "?deny_cache=0", timeout=5), clock=Frozen())
    relay = Relay(server.port)
    try:
        limiter = Limiter(policy, Store.redis(relay.dsn, timeout=5, connect_timeout=5), clock=Frozen())
        limiter.allow("k")
        before = direct.peek("k")
        relay.delay = 0.5

        async def main() -> None:
            task = asyncio.ensure_future(waiter(limiter)())
            # The server has reserved the slot, and its answer is on the way.
            while direct.peek("k") == before:
                await asyncio.sleep(0.01)
            task.cancel()
            # A second cancellation does not keep the slot either.
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert direct.peek("k") == before
    finally:
        relay.close()


def test_a_cancellation_is_one_also_when_the_server_has_gone(own_server: RedisServer) -> None:
    limiter = Limiter(Policy.gcra(1, 3600), Store.redis(own_server.dsn, timeout=5))
    limiter.allow("k")

    async def main() -> None:
        task = asyncio.ensure_future(waiter(limiter)())
        await asyncio.sleep(0.3)
        own_server.stop()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_wait_that_has_been_given_up_takes_nothing_afterwards(store: Store) -> None:
    limiter = Limiter(Policy.gcra(1, 3600), store, clock=Frozen())
    waiting = _Waiting(limiter, "k")
    waiting.cancel()
    with pytest.raises(RuntimeError, match="^the wait has been given up$"):
        waiting.step()
    waiting.cancel()
    assert limiter.peek("k").remaining == 1


def test_a_coroutine_that_can_never_pass_fails_at_once(store: Store) -> None:
    limiter = Limiter(Policy.token_bucket(5, 1), store)

    @limiter.limit(key="k", cost=6, wait=True)
    async def never() -> None: ...

    async def main() -> None:
        # The machine may be busy with something else in one of the turns, but hardly in all of them.
        turns = []
        for _ in range(3):
            started = time.monotonic()
            with pytest.raises(WaitTooLong):
                await never()
            turns.append(time.monotonic() - started)
        assert min(turns) < 0.05, turns

    asyncio.run(main())
    assert limiter.allow("k", 5).allowed


def test_a_server_that_does_not_answer_does_not_stop_the_event_loop(silent: SilentListener) -> None:
    limiter = Limiter(Policy.gcra(10, 1), Store.redis(silent.dsn, timeout=0.3, connect_timeout=0.3))

    @limiter.limit(key="k")
    async def work() -> None: ...

    async def main() -> None:
        call = asyncio.ensure_future(work())
        turns = 0
        while not call.done():
            await asyncio.sleep(0.001)
            turns += 1
        with pytest.raises(StoreUnavailable):
            await call
        assert turns > 20

    asyncio.run(main())


def test_wrong_arguments_are_refused_where_the_decorator_stands(limiter: Limiter) -> None:
    make: Any = limiter.limit
    with pytest.raises(TypeError):
        make()
    with pytest.raises(TypeError, match="^limit decorates a function"):
        limiter.limit(key="k")(5)  # type: ignore[type-var]

    def bare() -> None: ...

    # Without its arguments the decorator takes the function for the key.
    with pytest.raises(TypeError, match=r"^limit decorates a function, as in @limiter.limit\(key='…'\), got str$"):
        make(bare)("argument")


def test_what_the_key_function_raises_reaches_the_caller_and_takes_nothing(limiter: Limiter) -> None:
    @limiter.limit(key=lambda: {}["missing"])
    def work() -> None:
        raise AssertionError("not reached")

    with pytest.raises(KeyError):
        work()
    wrong: Any = limiter.limit(key=lambda: 5)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="^key must be str, bytes or dict, got int$"):
        wrong(work)()
    assert limiter.peek("k").remaining == 2


def test_the_exception_can_be_pickled(limiter: Limiter) -> None:
    @limiter.limit(key="k", cost=3)
    def work() -> None: ...

    with pytest.raises(LimitExceeded) as caught:
        work()
    assert math.isinf(pickle.loads(pickle.dumps(caught.value)).decision.retry_after)
