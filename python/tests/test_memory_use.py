"""Calls leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from servers import RedisServer

SCRIPT = """
    import pickle, sys
    from ratelimit_rs import InvalidCost, InvalidPolicy, Limiter, Policy, Store, TokenBucket, WaitTooLong

    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096

    class Clock:
        now = staticmethod(lambda: 1_700_000_000.0)

    store = Store.memory() if sys.argv[1] == "memory" else Store.redis(sys.argv[1], timeout=5)
    policy = Policy.token_bucket(100, 1, 3600)
    limiters = [Limiter(policy, store), Limiter(policy, store, clock=Clock())]
    bucket = TokenBucket(store)
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

    count = int(sys.argv[2])
    calls(count // 10)
    before = resident()
    calls(count)
    print(resident() - before)
"""


def growth(store: str, count: int) -> int:
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), store, str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return int(ended.stdout)


def test_a_million_calls_in_memory_leave_memory_flat() -> None:
    assert growth("memory", 1_000_000) < 2 << 20


def test_a_hundred_thousand_calls_to_a_server_leave_memory_flat(server: RedisServer) -> None:
    assert growth(server.dsn, 100_000) < 2 << 20
