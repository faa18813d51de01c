"""Decisions that are awaited: so many tasks that begin together and share the calls.

awaited.py WAY PORT TASKS    reads a number of calls per line, makes so many, prints the nanoseconds they took
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

KEY = "user:42"
CAPACITY = 1_000_000
# A task each would have a connection each, which no server would take.
CONNECTIONS = 50

Call = Callable[[], Awaitable[bool]]


def pool(port: int):
    from redis.asyncio import BlockingConnectionPool

    return BlockingConnectionPool(host="127.0.0.1", port=port, max_connections=CONNECTIONS, timeout=None)


def limiter(port: int) -> Call:
    from ratelimit_rs import Policy, Store, aio

    # A burst of 10 000 calls takes a while on any server.
    store = Store.redis(f"redis://127.0.0.1:{port}", timeout=60)
    allow = aio.Limiter(Policy.token_bucket(CAPACITY, 1.0, 1.0), store).allow

    async def call() -> bool:
        return (await allow(KEY)).allowed

    return call


def redis_py(port: int) -> Call:
    """The command that our own library sends, word by word."""
    from redis.asyncio import Redis

    *_, sha, keys, key, argument = Path(os.environ["COMMAND"]).read_bytes().split(b"\0", 4)
    evalsha = Redis(connection_pool=pool(port)).evalsha

    async def call() -> bool:
        return await evalsha(sha.decode(), int(keys), key, argument) is not None

    return call


def limits(port: int) -> Call:
    from limits import RateLimitItemPerHour
    from limits.aio.strategies import FixedWindowRateLimiter
    from limits.storage import storage_from_string

    uri = f"async+redis://127.0.0.1:{port}"
    storage = storage_from_string(uri, implementation="redispy", connection_pool=pool(port))
    hit = FixedWindowRateLimiter(storage).hit
    item = RateLimitItemPerHour(CAPACITY)
    return lambda: hit(item, KEY)


WAYS = {"limiter": limiter, "redis_py": redis_py, "limits": limits}


async def some(call: Call, count: int) -> None:
    for _ in range(count):
        if not await call():
            raise SystemExit("a call did not pass")


async def main(way: str, port: int, tasks: int) -> None:
    call = WAYS[way](port)
    await some(call, 1)
    # Nothing else runs in this loop, so that it may be stopped while a line is waited for.
    for line in sys.stdin:
        calls = int(line)
        started = time.perf_counter_ns()
        await asyncio.gather(*(some(call, calls // tasks) for _ in range(tasks)))
        print(time.perf_counter_ns() - started, flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
