"""Calls leave nothing behind: no memory, no open files.

With `LONG` in the environment a server is called a million times, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from servers import RedisServer

SCRIPT = """
    import os, pickle, sys
    from ratelimit_rs import (
        InvalidCost, InvalidPolicy, Limiter, Policy, Store, StoreUnavailable, TokenBucket, WaitTooLong
    )

    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096

    def open_files():
        return len(os.listdir("/proc/self/fd"))

    class Clock:
        now = staticmethod(lambda: 1_700_000_000.0)

    store = Store.memory() if sys.argv[1] == "memory" else Store.redis(sys.argv[1], timeout=5)
    policy = Policy.token_bucket(100, 1, 3600)
    limiters = [Limiter(policy, store), Limiter(policy, store, clock=Clock())]
    bucket = TokenBucket(store)
    away = Limiter(policy, Store.redis("redis://127.0.0.1:1"))
    several = Limiter([Policy.gcra(10, 60, 100, name="a"), Policy.sliding_window_counter(100, 60, name="b")], store)

    def calls(count):
        for number in range(0, count, 10):
            key = f"k{number % 500}"
            for limiter in limiters:
                limiter.allow(key)
                limiter.peek(key.encode(), 200).headers()
                limiter.allow({"default": key}, token=key).each()
                limiter.refund(key)
                limiter.reserve(key, max_wait=0)
            bucket.allow(key)
            try:
                limiter.allow(key, 1.5)
            except InvalidCost:
                pass
            try:
                limiter.allow(None)
            except TypeError:
                pass
            try:
                Policy.parse("ten per fortnight")
            except InvalidPolicy:
                pass
            try:
                several.wait(key, 200)
            except WaitTooLong:
                pass
            pickle.loads(pickle.dumps(several.allow({"a": key, "b": key})))
            limiters[number % 2].allow_many([key, (key, 2), {"default": key}])
            try:
                limiters[0].allow_many([key, (key, 0)])
            except InvalidCost:
                pass
            if number % 1000 == 0:
                try:
                    away.allow_many([key, key])
                except StoreUnavailable as error:
                    pickle.loads(pickle.dumps(error))

    count = int(sys.argv[2])
    calls(count // 10)
    before = resident(), open_files()
    calls(count)
    print(resident() - before[0], open_files() - before[1])
"""


def growth(store: str, count: int) -> tuple[int, int]:
    """By how many bytes, and by how many open files."""
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), store, str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=True)
    memory, files = ended.stdout.split()
    return int(memory), int(files)


def test_a_million_calls_in_memory_leave_nothing_behind() -> None:
    memory, files = growth("memory", 1_000_000)
    assert memory < 2 << 20
    assert files == 0


def test_many_calls_to_a_server_leave_nothing_behind(server: RedisServer) -> None:
    memory, files = growth(server.dsn, 1_000_000 if os.environ.get("LONG") else 100_000)
    assert memory < 2 << 20
    assert files == 0
