"""Awaited calls while a server is slow, silent or gone, and calls that are given up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from deployments import Certificates, Cluster, Sentinels
from servers import Relay, RedisServer, SilentListener, free_port

import ratelimit_rs
from ratelimit_rs import Decision, Policy, Store, StoreUnavailable, WaitTooLong, aio

THOUSAND = Policy.token_bucket(1000, 1, 3600)


@pytest.fixture
def relay(server: RedisServer) -> Iterator[Relay]:
    relay = Relay(server.port)
    yield relay
    relay.close()


def test_a_call_that_is_cancelled_leaves_the_others_their_answers(server: RedisServer, relay: Relay) -> None:
    limiter = aio.Limiter(THOUSAND, Store.redis(relay.dsn, timeout=5, connect_timeout=5))

    async def allow(number: int) -> int:
        # A cost of its own for each, so that an answer that went astray would show.
        key = f"k{number}"
        return (await limiter.allow(key, number)).remaining

    async def main() -> None:
        await allow(1)
        for turn in range(5):
            relay.delay = 0.05
            tasks = [asyncio.ensure_future(allow(1 + turn * 100 + number)) for number in range(100)]
            await asyncio.sleep(0.01 * turn)
            for task in tasks[::2]:
                task.cancel()
            relay.delay = 0.0
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            for number, outcome in enumerate(outcomes):
                if number % 2 == 0:
                    assert isinstance(outcome, asyncio.CancelledError)
                else:
                    assert outcome == 1000 - (1 + turn * 100 + number)
        assert relay.connections == 1

    asyncio.run(main())
    # Whatever was sent has been counted once at most.
    with server.client() as client:
        assert client.info("commandstats")["cmdstat_evalsha"]["calls"] <= 502


def test_a_late_answer_is_never_the_next_calls(relay: Relay) -> None:
    limiter = aio.Limiter(THOUSAND, Store.redis(relay.dsn, timeout=5, connect_timeout=5))

    async def main() -> None:
        await limiter.allow("k")
        relay.delay = 0.2
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(limiter.allow("slow", 100), 0.05)
        assert (await limiter.allow("fast", 7)).remaining == 993
        assert (await limiter.allow("slow", 1)).remaining == 899
        assert relay.connections == 1

    asyncio.run(main())


def test_a_group_of_tasks_that_ends_early_ends_at_once(relay: Relay) -> None:
    limiter = aio.Limiter(THOUSAND, Store.redis(relay.dsn, timeout=5, connect_timeout=5))

    async def main() -> None:
        await limiter.allow("k")
        relay.delay = 1.0
        tasks = [asyncio.ensure_future(limiter.allow(f"k{number}")) for number in range(50)]
        started = time.monotonic()
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in ended] == [asyncio.CancelledError] * 50
        assert time.monotonic() - started < 0.9

    asyncio.run(main())


def test_a_slot_that_is_being_reserved_at_the_cancellation_is_given_back(server: RedisServer, relay: Relay) -> None:
    policy = Policy.gcra(1, 3600)
    limiter = aio.Limiter(policy, Store.redis(relay.dsn, timeout=5, connect_timeout=5))
    direct = ratelimit_rs.Limiter(policy, Store.redis(server.dsn + "?deny_cache=0", timeout=5))
    direct.allow("k")
    before = direct.peek("k").reset_after

    async def main() -> None:
        await limiter.peek("k")
        relay.delay = 0.3
        task = asyncio.ensure_future(limiter.wait("k"))
        # The server has reserved the slot, and its answer is on the way.
        while direct.peek("k").reset_after <= before:
            await asyncio.sleep(0.01)
        for _ in range(3):
            # A further cancellation does not keep the slot either.
            task.cancel()
            await asyncio.sleep(0.05)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert direct.peek("k").reset_after <= before


def test_a_cancellation_is_one_also_when_the_server_has_gone(own_server: RedisServer) -> None:
    limiter = aio.Limiter(Policy.gcra(1, 3600), Store.redis(own_server.dsn, timeout=1))

    async def main() -> None:
        await limiter.allow("k")
        task = asyncio.ensure_future(limiter.wait("k"))
        await asyncio.sleep(0.2)
        own_server.stop()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_silent_server_ends_every_call_at_its_deadline(silent: SilentListener) -> None:
    limiter = aio.Limiter(THOUSAND, Store.redis(silent.dsn, timeout=0.5, connect_timeout=0.5))
    opened = aio.Limiter(THOUSAND, Store.redis(silent.dsn, timeout=0.5, connect_timeout=0.5), on_error="open")

    async def failing() -> str:
        with pytest.raises(StoreUnavailable) as caught:
            await limiter.allow("k")
        return caught.value.kind

    async def main() -> None:
        started = time.monotonic()
        calls = asyncio.gather(*(failing() for _ in range(100)), *(opened.allow("k") for _ in range(100)))
        longest, last = 0.0, time.monotonic()
        while not calls.done():
            await asyncio.sleep(0.001)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
        answers = await calls
        took = time.monotonic() - started
        assert answers[:100] == ["timeout"] * 100
        assert all(isinstance(answer, Decision) and answer.degraded for answer in answers[100:])
        # All at once, and meanwhile the loop has gone on.
        assert 0.45 < took < 1.4, took
        assert longest < 0.4, longest
        with pytest.raises(StoreUnavailable):
            await limiter.wait("k")
        with pytest.raises(StoreUnavailable):
            await aio.ping(Store.redis(silent.dsn, timeout=0.05, connect_timeout=0.05))

    asyncio.run(main())


def test_a_frozen_server_is_used_again_when_it_answers(own_server: RedisServer) -> None:
    limiter = aio.Limiter(THOUSAND, Store.redis(own_server.dsn, timeout=0.2, connect_timeout=0.2))
    closed = aio.Limiter(THOUSAND, Store.redis(own_server.dsn, timeout=0.2, connect_timeout=0.2), on_error="closed")

    async def main() -> None:
        assert (await limiter.allow("k")).remaining == 999
        with own_server.frozen():
            with pytest.raises(StoreUnavailable):
                await limiter.peek("k")
            with pytest.raises(WaitTooLong):
                await closed.wait("k", max_wait=0)
        patient = aio.Limiter(THOUSAND, Store.redis(own_server.dsn, timeout=5, connect_timeout=5))
        # What was sent in vain may have been counted.
        assert (await patient.peek("k")).remaining in (999, 998)
        own_server.restart()
        # It has forgotten everything; what is sent after the connection broke is told at the first or second call.
        for _ in range(2):
            try:
                assert (await patient.allow("k")).remaining == 999
                break
            except StoreUnavailable as error:
                assert error.kind == "closed"

    asyncio.run(main())


def test_many_calls_at_once_keep_the_decisions_that_were_made(own_server: RedisServer) -> None:
    limiter = aio.Limiter(THOUSAND, Store.redis(own_server.dsn, timeout=0.2, connect_timeout=0.2))

    async def main() -> None:
        own_server.stop()
        with pytest.raises(StoreUnavailable, match="^3 of 3 calls have no decision: ") as caught:
            await limiter.allow_many(["a", "b", "c"])
        assert caught.value.decisions == [None, None, None]

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["cluster", "sentinel", "tls"])
def test_every_deployment_can_be_awaited(kind: str) -> None:
    options = "timeout=5&connect_timeout=5"
    if kind == "cluster":
        cluster = Cluster()
        dsn, close = f"{cluster.dsn}?{options}", [cluster.close]
    elif kind == "sentinel":
        sentinels = Sentinels()
        dsn, close = f"{sentinels.dsn}?{options}", [sentinels.close]
    else:
        certificates, port = Certificates(), free_port()
        server = RedisServer(*certificates.options(port))
        dsn, close = f"rediss://localhost:{port}?{options}&ca={certificates.ca}", [server.close, certificates.close]
    try:

        async def main() -> list[int]:
            limiter = aio.Limiter(THOUSAND, dsn)
            assert await aio.ping(Store.open(dsn)) > 0
            alone = await asyncio.gather(*(limiter.allow(f"user:{number % 20}") for number in range(100)))
            together = await limiter.allow_many([f"user:{number}" for number in range(20)])
            return sorted(decision.remaining for decision in [*alone, *together])

        assert asyncio.run(main()) == sorted(1000 - taken for taken in range(1, 7) for _ in range(20))
        assert ratelimit_rs.Limiter(THOUSAND, dsn).peek("user:0").remaining == 994
    finally:
        for end in close:
            end()


def test_an_awaited_call_may_have_a_failure_rule_of_its_own(own_server: RedisServer) -> None:
    limiter = aio.Limiter(THOUSAND, Store.redis(own_server.dsn, timeout=5, connect_timeout=5))

    async def main() -> None:
        assert (await limiter.allow("k", on_error="closed")).source == "store"
        own_server.stop()
        with pytest.raises(StoreUnavailable):
            await limiter.allow("k")
        decisions = [
            await limiter.allow("k", on_error="open"),
            await limiter.peek("k", on_error="open"),
            await limiter.reserve("k", on_error="open"),
            await limiter.wait("k", on_error="open"),
            *await limiter.allow_many(["k", ("k", 2)], on_error="open"),
        ]
        assert [it.source for it in decisions] == ["fail_open"] * 6
        await limiter.refund("k", on_error="closed")
        with pytest.raises(StoreUnavailable):
            await limiter.refund("k")

    asyncio.run(main())
