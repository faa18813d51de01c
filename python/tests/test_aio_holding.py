"""Locks and concurrency limits that are awaited, and waits for them that are given up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
from servers import Relay, RedisServer, eventually

import ratelimit_rs
from ratelimit_rs import InvalidArgument, LimitExceeded, ManualClock, Store, WaitTooLong, aio

LONG = 600.0
"""Long enough for any test, in seconds."""


@pytest.fixture
def relay(server: RedisServer) -> Iterator[Relay]:
    relay = Relay(server.port)
    yield relay
    relay.close()


def test_one_holds_a_lock_and_only_the_holder_extends_or_releases_it(store: Store) -> None:
    async def main() -> None:
        lock = aio.Lock(store)
        holder = await lock.acquire("report", LONG)
        assert holder is not None
        assert await lock.acquire("report", LONG) is None
        assert await lock.acquire(b"report", LONG, max_wait=0.02) is None
        assert await lock.is_held("report")
        assert not await lock.extend("report", "nobody", LONG)
        assert not await lock.release("report", "nobody")
        assert await lock.extend("report", holder, LONG)
        waiting = asyncio.ensure_future(lock.acquire("report", LONG, max_wait=None))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        # The blocking lock is the same lock.
        assert ratelimit_rs.Lock(store).release("report", holder)
        assert await waiting is not None
        assert repr(lock) == f"<ratelimit_rs.aio.Lock on '{store.kind}'>"

    asyncio.run(main())


def test_a_block_holds_the_lock_and_releases_it_however_it_ends(store: Store) -> None:
    async def main() -> None:
        lock = aio.Lock.of(ratelimit_rs.Lock(store))
        async with lock.hold("report", LONG) as held:
            assert held.holder is not None
            assert await held.extend()
            assert await held.extend(LONG)
            with pytest.raises(WaitTooLong, match="held by somebody else"):
                async with lock.hold("report", LONG, max_wait=0.02):
                    pytest.fail("it was entered")
            with pytest.raises(RuntimeError, match="held already"):
                async with held:
                    pytest.fail("it was entered twice")
        assert not await held.extend()
        assert not await held.release()
        assert not await lock.is_held("report")
        with pytest.raises(KeyError):
            async with held:
                raise KeyError
        assert not await lock.is_held("report")
        with pytest.raises(InvalidArgument, match="^ttl must be between"):
            async with lock.hold("report", 0):
                pytest.fail("it was entered")
        with pytest.raises(TypeError, match="^ttl must be a number, got str$"):
            lock.hold("report", "1")  # type: ignore[arg-type]

    asyncio.run(main())


def test_a_block_holds_a_lease_and_gives_it_back_however_it_ends(store: Store) -> None:
    async def main() -> None:
        uploads = aio.Concurrency(1, 60, store, name="uploads", clock=ManualClock())
        async with uploads.lease("k") as lease:
            assert (await uploads.peek("k")).remaining == 0
            assert await lease.extend()
            with pytest.raises(LimitExceeded) as caught:
                async with uploads.lease("k"):
                    pytest.fail("it was entered")
            assert caught.value.decision.policy == "uploads"
            assert caught.value.decision.retry_after == 60.0
        assert (await uploads.peek("k")).remaining == 1
        with pytest.raises(KeyError):
            async with lease:
                raise KeyError
        taken = await uploads.acquire("k")
        assert taken is not None
        # The clock is moved instead of sleeping, until the lease is over.
        again = await uploads.acquire("k", max_wait=100)
        assert again is not None
        assert not await uploads.extend("k", taken)
        assert await uploads.release("k", again)

    asyncio.run(main())


def test_tasks_that_count_under_a_lock_count_right(store: Store) -> None:
    counted = [0]

    async def count(lock: aio.Lock) -> None:
        for _ in range(10):
            async with lock.hold("counter", LONG):
                seen = counted[0]
                await asyncio.sleep(0)
                counted[0] = seen + 1

    async def main() -> None:
        lock = aio.Lock(store)
        await asyncio.gather(*(count(lock) for _ in range(10)))

    asyncio.run(main())
    assert counted == [100]


def test_of_many_tasks_never_more_than_the_limit_are_inside(store: Store) -> None:
    inside, most = [0], [0]

    async def work(uploads: aio.Concurrency) -> None:
        async with uploads.lease("k", max_wait=None):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            await asyncio.sleep(0.001)
            inside[0] -= 1

    async def main() -> None:
        uploads = aio.Concurrency(3, 60, store)
        await asyncio.gather(*(work(uploads) for _ in range(20)))
        assert (await uploads.peek("k")).remaining == 3

    asyncio.run(main())
    assert most == [3]


def test_a_task_that_is_cancelled_while_it_waits_leaves_nothing_held(store: Store) -> None:
    async def main() -> None:
        lock = aio.Lock(store)
        holder = await lock.acquire("report", LONG)
        assert holder is not None
        waiting = [asyncio.ensure_future(lock.acquire("report", LONG, max_wait=None)) for _ in range(10)]
        await asyncio.sleep(0.02)
        for task in waiting:
            task.cancel()
        await lock.release("report", holder)
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in ended] == [asyncio.CancelledError] * 10
        assert not await lock.is_held("report")

    asyncio.run(main())


@pytest.mark.parametrize("what", ["lock", "lease"])
def test_what_is_being_taken_at_the_cancellation_is_given_back(server: RedisServer, relay: Relay, what: str) -> None:
    store, direct = Store.redis(relay.dsn, timeout=5, connect_timeout=5), Store.redis(server.dsn, timeout=5)
    lock, uploads = ratelimit_rs.Lock(direct), ratelimit_rs.Concurrency(1, 60, direct)

    def taken() -> bool:
        return lock.is_held("k") if what == "lock" else uploads.peek("k").remaining == 0

    async def main() -> None:
        awaited_lock, awaited_uploads = aio.Lock(store), aio.Concurrency(1, 60, store)
        assert not await awaited_lock.is_held("k")
        relay.delay = 0.3
        acquire = awaited_lock.acquire("k", LONG) if what == "lock" else awaited_uploads.acquire("k")
        task = asyncio.ensure_future(acquire)
        # The server has given it, and its answer is on the way.
        while not taken():
            await asyncio.sleep(0.01)
        for _ in range(3):
            # A further cancellation does not keep it either.
            task.cancel()
            await asyncio.sleep(0.05)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not taken()


def test_a_block_that_is_cancelled_releases_in_the_background_if_need_be(server: RedisServer, relay: Relay) -> None:
    store = Store.redis(relay.dsn, timeout=5, connect_timeout=5)
    direct = ratelimit_rs.Lock(Store.redis(server.dsn, timeout=5))

    async def main() -> None:
        entered = asyncio.Event()

        async def work() -> None:
            async with aio.Lock(store).hold("k", LONG):
                entered.set()
                await asyncio.sleep(LONG)

        task = asyncio.ensure_future(work())
        await entered.wait()
        assert direct.is_held("k")
        relay.delay = 0.2
        task.cancel()
        await asyncio.sleep(0.02)
        # Cancelled once more while the release is on its way.
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    eventually("the release", lambda: not direct.is_held("k"))


def test_a_loop_that_goes_with_its_tasks_leaves_nothing_held(store: Store) -> None:
    lock = ratelimit_rs.Lock(store)
    holder = lock.acquire("waited for", LONG)
    assert holder is not None
    loop = asyncio.new_event_loop()

    async def inside() -> None:
        async with aio.Lock(store).hold("held", LONG):
            await asyncio.sleep(LONG)

    tasks = [loop.create_task(inside()), loop.create_task(aio.Lock(store).acquire("waited for", LONG, max_wait=None))]
    loop.run_until_complete(asyncio.sleep(0.05))
    assert lock.is_held("held")
    loop.close()
    for task in tasks:
        # What the garbage collector does to the coroutine of a task whose loop is gone.
        task.get_coro().close()  # type: ignore[union-attr]
        with contextlib.suppress(AttributeError):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
    eventually("the release", lambda: not lock.is_held("held"))
    assert lock.release("waited for", holder)
    assert not lock.is_held("waited for")


def test_only_their_own_kind_is_taken_over() -> None:
    with pytest.raises(TypeError, match="lock must be a ratelimit_rs.Lock, got str"):
        aio.Lock.of("redis://localhost")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="concurrency must be a ratelimit_rs.Concurrency, got Lock"):
        aio.Concurrency.of(ratelimit_rs.Lock(Store.memory()))  # type: ignore[arg-type]
