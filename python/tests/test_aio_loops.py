"""Event loops of an awaited limiter: many tasks, many loops, forks, and the ends of all of them."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable

import pytest
import uvloop
from servers import RedisServer, SilentListener, eventually
from test_fork import run

import ratelimit_rs
from ratelimit_rs import Policy, Store, aio

MANY = Policy.token_bucket(10**6, 10**4, 3600)

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("new_loop", LOOPS, ids=["asyncio", "uvloop"])
def test_ten_thousand_tasks_are_answered_on_one_connection(
    server: RedisServer, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    limiter = aio.Limiter(Policy.token_bucket(9_000, 1, 3600), Store.redis(server.dsn, timeout=60, connect_timeout=60))

    async def main() -> None:
        # The script is told, and the thread of the connections is there.
        assert (await limiter.peek("k")).remaining == 9_000
        threads = len(os.listdir("/proc/self/task"))
        tasks = [asyncio.ensure_future(limiter.allow("k")) for _ in range(10_000)]
        decisions = await asyncio.gather(*tasks)
        left = sorted((decision.remaining for decision in decisions if decision.allowed), reverse=True)
        assert left == list(range(8_999, -1, -1))
        # Those of tests before may have ended meanwhile.
        assert len(os.listdir("/proc/self/task")) <= threads

    with server.client() as client:
        before = client.info("stats")["total_connections_received"]
        loop = new_loop()
        loop.run_until_complete(main())
        loop.close()
        # The loop's one, and that of the test.
        assert client.info("stats")["total_connections_received"] - before <= 2
    # One for each, one to look, one of which the script was not known.
    assert server.decisions() <= 10_002


@pytest.mark.parametrize("new_loop", LOOPS, ids=["asyncio", "uvloop"])
def test_a_loop_that_is_closed_leaves_no_descriptor_open(
    server: RedisServer, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    limiter = aio.Limiter(MANY, Store.redis(server.dsn, timeout=5, connect_timeout=5))

    def once() -> asyncio.AbstractEventLoop:
        loop = new_loop()
        loop.run_until_complete(limiter.allow("k"))
        loop.close()
        return loop

    once()
    gc.collect()
    before = descriptors()
    # That they are kept keeps nothing of ours.
    kept = [once() for _ in range(200)]
    gc.collect()
    assert descriptors() <= before
    assert len(kept) == 200


def test_a_loop_that_is_closed_with_calls_under_way_leaves_no_descriptor_open(silent: SilentListener) -> None:
    limiter = aio.Limiter(MANY, Store.redis(silent.dsn, timeout=0.2, connect_timeout=0.2), on_error="open")
    asyncio.run(limiter.allow("k"))
    gc.collect()
    before = descriptors()

    async def main() -> None:
        tasks = [asyncio.ensure_future(limiter.allow("k")) for _ in range(10)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)

    for _ in range(5):
        asyncio.run(main())
    gc.collect()
    # The time limit of the calls ends what is still under way.
    eventually("the end of the calls", lambda: descriptors() <= before)


def test_loops_in_several_threads_share_one_connection(server: RedisServer) -> None:
    limiter = aio.Limiter(MANY, Store.redis(server.dsn, timeout=60, connect_timeout=60))
    left: list[int] = []

    async def main() -> None:
        for _ in range(10):
            left.extend(one.remaining for one in await asyncio.gather(*(limiter.allow("k") for _ in range(50))))

    asyncio.run(limiter.reset("k"))
    with server.client() as client:
        before = client.info("stats")["total_connections_received"]
        threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert client.info("stats")["total_connections_received"] == before
    assert sorted(left, reverse=True) == [MANY.limit - number for number in range(1, 4001)]


def test_a_future_is_answered_in_its_own_loop_while_another_goes_on(store: Store) -> None:
    limiter = aio.Limiter(Policy.gcra(50, 1, 1), store)

    async def main() -> int:
        return sum([(await limiter.wait("k")).allowed for _ in range(5)])

    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(asyncio.run(main()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [5, 5, 5]


FAMILY = """
    import asyncio, os, sys, warnings
    from ratelimit_rs import Policy, Store, aio

    # Python 3.12 and later warn of every fork in a process with threads: that is what is tried here.
    warnings.simplefilter("ignore", DeprecationWarning)
    limiter = aio.Limiter(Policy.token_bucket(1000, 1, 3600), Store.redis(sys.argv[1], timeout=5, connect_timeout=5))

    async def sequence(key, start, count):
        left = [(await limiter.allow(key)).remaining for _ in range(count)]
        assert left == list(range(start, start - count, -1)), (key, left[:5])

    def child(work):
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)

    async def fork_inside():
        calls = [asyncio.ensure_future(limiter.allow("busy")) for _ in range(100)]
        await asyncio.sleep(0)
        pid = os.fork()
        if pid == 0:
            child(in_a_loop_of_its_own)
        await asyncio.gather(*calls)
        return pid

    def in_a_loop_of_its_own():
        loop = asyncio.new_event_loop()
        loop.run_until_complete(sequence(f"inside {os.getpid()}", 999, 100))
        loop.close()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(sequence("parent", 999, 10))
    children = []
    for number in range(3):
        pid = os.fork()
        if pid == 0:
            child(lambda: asyncio.run(sequence(f"child {number}", 999, 200)))
        children += [pid, loop.run_until_complete(fork_inside())]
    loop.run_until_complete(sequence("parent", 989, 100))
    for pid in children:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    loop.run_until_complete(sequence("parent", 889, 10))
    loop.close()
"""


def test_a_forked_child_has_a_connection_and_answers_of_its_own(server: RedisServer) -> None:
    run(FAMILY, server.dsn)


def test_a_forked_child_may_go_on_with_a_loop_of_its_parents(server: RedisServer) -> None:
    script = """
        import asyncio, os, sys, warnings
        from ratelimit_rs import Policy, Store, aio

        warnings.simplefilter("ignore", DeprecationWarning)
        limiter = aio.Limiter(Policy.token_bucket(1000, 1, 3600), Store.redis(sys.argv[1], timeout=5))
        loop = asyncio.new_event_loop()
        first = loop.run_until_complete(limiter.allow("k")).remaining
        if os.fork() == 0:
            # The parent sleeps meanwhile: two processes cannot both use one loop.
            print(first, loop.run_until_complete(limiter.allow("k")).remaining, flush=True)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
    """
    assert run(script, server.dsn) == "999 998\n"


EXITS = {
    "calls are under way": "tasks = [asyncio.ensure_future(limiter.allow('k')) for _ in range(100)]; await asyncio.sleep(0)",
    "calls have no answer": "tasks = [asyncio.ensure_future(stalled.allow('k')) for _ in range(100)]; await asyncio.sleep(0.05)",
    "waits sleep": "await limiter.allow('w', 10**6); tasks = [asyncio.ensure_future(limiter.wait('w')) for _ in range(9)]; "
    "await asyncio.sleep(0.1)",
    "all is done": "print((await limiter.allow('k')).allowed)",
}


@pytest.mark.parametrize("end", ["asyncio.run(main())", "loop.run_until_complete(main())", "thread.start()"])
@pytest.mark.parametrize("state", EXITS)
def test_the_end_of_the_interpreter_is_calm(server: RedisServer, silent: SilentListener, state: str, end: str) -> None:
    script = f"""
        import asyncio, sys, threading
        from ratelimit_rs import Policy, Store, aio

        policy = Policy.token_bucket(10**6, 1)
        limiter = aio.Limiter(policy, Store.redis(sys.argv[1], timeout=5))
        stalled = aio.Limiter(policy, Store.redis(sys.argv[2], timeout=0.3), on_error="open")
        ready = threading.Event()

        async def main():
            {EXITS[state]}
            ready.set()

        async def for_ever():
            await main()
            await asyncio.sleep(60)

        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=lambda: loop.run_until_complete(for_ever()), daemon=True)
        {end}
        ready.wait()
        # What is said of tasks that nobody has waited for is asyncio's affair.
        loop.set_exception_handler(lambda *_: None)
    """
    for _ in range(3):
        assert run(script, server.dsn, silent.dsn) == ("True\n" if state == "all is done" else "")


def test_calls_leave_no_memory_behind(server: RedisServer) -> None:
    limiter = aio.Limiter(MANY, Store.redis(server.dsn, timeout=60, connect_timeout=60))

    def resident() -> int:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096

    async def calls(count: int) -> None:
        for _ in range(count // 100):
            tasks = [asyncio.ensure_future(limiter.allow("k")) for _ in range(100)]
            await asyncio.sleep(0)
            for task in tasks[::10]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await limiter.allow_many([f"k{number}" for number in range(10)])

    async def main() -> int:
        await calls(20_000)
        gc.collect()
        before = resident()
        await calls(60_000)
        gc.collect()
        return resident() - before

    assert asyncio.run(main()) < 4 << 20


def test_both_kinds_decide_at_the_same_time(server: RedisServer) -> None:
    store = Store.redis(server.dsn, timeout=60, connect_timeout=60)
    policy = Policy.token_bucket(1000, 1, 3600)
    blocking, awaited = ratelimit_rs.Limiter(policy, store), aio.Limiter(policy, store)
    admitted: list[bool] = []

    def work() -> None:
        admitted.extend(blocking.allow("k").allowed for _ in range(400))

    async def main() -> None:
        admitted.extend(one.allowed for one in await asyncio.gather(*(awaited.allow("k") for _ in range(800))))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    asyncio.run(main())
    for thread in threads:
        thread.join(60)
    assert (len(admitted), sum(admitted)) == (1600, 1000)
