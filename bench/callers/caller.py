"""One decision after another from Python.

    caller.py WAY PORT CALLS     makes so many calls and ends: to be counted
    caller.py WAY PORT           reads a number per line, makes so many calls, prints the nanoseconds they took
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

KEY = "user:42"
CAPACITY = 1_000_000

Call = Callable[[], bool]


def limiter(store: str) -> Call:
    from ratelimit_rs import Limiter, Policy

    allow = Limiter(Policy.token_bucket(CAPACITY, 1.0, 1.0), store).allow
    return lambda: allow(KEY).allowed


def limiter_redis(port: int) -> Call:
    return limiter(f"redis://127.0.0.1:{port}")


def limiter_memory(_port: int) -> Call:
    return limiter("memory:")


def redis_py(port: int) -> Call:
    import redis

    text = (Path(__file__).parent.parent / "redis" / "token_bucket.lua").read_text()
    script = redis.Redis("127.0.0.1", port).register_script(text)
    return lambda: script([KEY], [CAPACITY, 1.0, 1.0, time.time()])[0] == 1


def limits(uri: str) -> Call:
    from limits import RateLimitItemPerHour
    from limits.storage import storage_from_string
    from limits.strategies import FixedWindowRateLimiter

    hit = FixedWindowRateLimiter(storage_from_string(uri)).hit
    item = RateLimitItemPerHour(CAPACITY)
    return lambda: hit(item, KEY)


def limits_redis(port: int) -> Call:
    return limits(f"redis://127.0.0.1:{port}")


def limits_memory(_port: int) -> Call:
    return limits("memory://")


WAYS = {
    "limiter": limiter_redis,
    "redis_py": redis_py,
    "limits": limits_redis,
    "limiter_memory": limiter_memory,
    "limits_memory": limits_memory,
}


def run(call: Call, calls: int) -> None:
    for _ in range(calls):
        if not call():
            raise SystemExit("a call did not pass")


call = WAYS[sys.argv[1]](int(sys.argv[2]))
run(call, 1)
if len(sys.argv) > 3:
    run(call, int(sys.argv[3]))
    # `limits` keeps a timer thread, which would be waited for.
    sys.stdout.flush()
else:
    for line in sys.stdin:
        started = time.perf_counter_ns()
        run(call, int(line))
        print(time.perf_counter_ns() - started, flush=True)
