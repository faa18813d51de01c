"""A web application on php-fpm, under load, while its Redis fails in every way: what its callers get, and how fast.

In the normal run each failure meets one rule and each rule one failure at least. With RATELIMIT_OUTAGES=all each rule meets
each failure, for longer, and with pytest's -s the figures are printed as a table.
"""

import os
import socket
import statistics
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from itertools import product

import pytest
from fpm import Load, WebServer
from servers import RedisServer, Relay, eventually

ALL = os.environ.get("RATELIMIT_OUTAGES") == "all"
RULES = ["throw", "open", "closed", "local"]
FAILURES = ["stopped", "blackholed", "paused", "slow", "readonly"]
ONE_EACH = [("stopped", "throw"), ("blackholed", "open"), ("paused", "closed"), ("slow", "local"), ("readonly", "open")]
PAIRS = list(product(FAILURES, RULES)) if ALL else ONE_EACH

TIMEOUT = CONNECT_TIMEOUT = 0.1
# What a call may take, and what a busy machine may take on top of it.
DEADLINE, MARGIN = TIMEOUT + CONNECT_TIMEOUT, 0.5
# A knock is made every 0.1 s, and its answer is seen by the next call. One that was swallowed is given up after a second.
KNOCK, SWALLOWED = 0.1, 1.0
# Failures that keep callers waiting, so that the breaker opens.
SILENT = {"blackholed", "paused", "slow"}
CONNECTIONS = 4
SECONDS = 3.0 if ALL else 1.0

ROWS: list[str] = []


class Swallowing(Relay):
    """A relay that can stop passing anything on, as a firewall does."""

    swallows = False

    def _pump(self, source: socket.socket, sink: socket.socket, replies: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if replies and self.delay:
                    time.sleep(self.delay)
                if not self.swallows:
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def failing(redis, relay, failure):
    """Lets the server fail in that way for as long as this lasts."""
    if failure == "stopped":
        redis.stop()
    elif failure == "blackholed":
        relay.swallows = True
    elif failure == "paused":
        redis.freeze()
    elif failure == "slow":
        relay.delay = DEADLINE * 2
    else:
        with redis.client() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", "1")
    yield
    if failure == "stopped":
        redis.start()
    elif failure == "blackholed":
        relay.swallows = False
    elif failure == "paused":
        redis.thaw()
    elif failure == "slow":
        relay.delay = 0.0
    else:
        with redis.client() as client:
            client.execute_command("REPLICAOF", "NO", "ONE")


@pytest.fixture(scope="module")
def web():
    server = WebServer(CONNECTIONS)
    yield server
    server.close()
    heading = ["failure", "rule", "calls", "p50", "p99", "max", "open: p50", "open: p99", "back after"]
    print("\n\n| " + " | ".join(heading) + " |\n|" + "---|" * len(heading))
    print("\n".join(ROWS))


def has_opened(calls, began) -> bool:
    workers = {call.worker for call in calls if call.began >= began}
    opened = Counter(call.worker for call in calls if call.breaker == "open")
    return len(workers) == CONNECTIONS and all(opened[worker] >= 20 for worker in workers)


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def shown(us: float) -> str:
    return f"{us / 1000:.2f} ms"


def share_of(calls, part):
    took = sorted(call.took for call in calls)
    return took[min(int(len(took) * part), len(took) - 1)]


@pytest.mark.parametrize(("failure", "rule"), PAIRS)
def test_callers_get_the_rules_answer_in_time_and_are_counted(web, failure, rule):
    redis = RedisServer()
    relay = Swallowing(redis.port)
    policy = f"{failure}-{rule}"
    before = web.metrics()
    store = f"{relay.dsn if failure in ('blackholed', 'slow') else redis.dsn}?timeout={TIMEOUT}&connect_timeout={CONNECT_TIMEOUT}"
    try:
        load = Load(web, CONNECTIONS, store=store, rule=rule, policy=policy, limit="300")
        eventually("a refusal by the policy", lambda: any(call.status == 429 for call in load.calls()))
        began = now()
        with failing(redis, relay, failure):
            time.sleep(SECONDS)
            if failure in SILENT:
                eventually("an open breaker in each worker", lambda: has_opened(load.calls(), began))
            failed_until = now()
        back_at = now()

        def is_back() -> bool:
            latest = [call for call in load.calls() if call.began > back_at][-3 * CONNECTIONS :]
            return len(latest) == 3 * CONNECTIONS and all(it.source in ("store", "deny_cache") for it in latest)

        eventually("the recovery", is_back)
        calls = load.end()
    finally:
        relay.close()
        redis.close()

    check_answers(rule, failure, [call for call in calls if call.began + call.took < began], [])
    # A call that began shortly before is still answered by the server, or just not.
    outage = [call for call in calls if began + DEADLINE * 1e6 < call.began and call.began + call.took < failed_until]
    check_answers(rule, failure, [], [call for call in outage if call.source != "deny_cache"])
    everything = [call for call in calls if began <= call.began < failed_until]
    assert max(call.took for call in everything) <= (DEADLINE + MARGIN) * 1e6
    opened = [call for call in everything if call.breaker == "open"]
    if failure in SILENT:
        assert statistics.median(call.took for call in opened) < 1000, "the breaker answers at once"
    else:
        assert not opened, "a server that refuses at once keeps nobody waiting"
        assert statistics.median(call.took for call in outage) < DEADLINE * 1e6 / 2
    # One probe: a worker that finds the server well goes on with it.
    late = [call for call in calls if call.began > back_at and call.source not in ("store", "deny_cache")]
    recovered = (max((call.began for call in late), default=back_at) - back_at) / 1e6
    probe = SWALLOWED if failure == "blackholed" else KNOCK
    assert recovered <= probe + DEADLINE + MARGIN, f"{recovered} s"
    check_metrics(web.metrics() - before, policy, calls)

    figures = [shown(share_of(everything, part)) for part in (0.5, 0.99, 1)]
    figures += [shown(share_of(opened, part)) for part in (0.5, 0.99)] if opened else ["-", "-"]
    ROWS.append("| " + " | ".join([failure, rule, str(len(everything)), *figures, f"{recovered * 1000:.0f} ms"]) + " |")


def check_answers(rule, failure, healthy, failing):
    kinds = {"stopped": {"refused", "closed"}, "readonly": {"readonly"}}.get(failure, {"timeout"})
    expected = {
        "throw": {(500, kind) for kind in kinds},
        "open": {(200, "fail_open")},
        "closed": {(503, "fail_closed")},
        "local": {(200, "local"), (429, "local")},
    }[rule]
    if failure == "readonly":
        # What is used up can be told without writing.
        expected.add((429, "store"))
    assert {(call.status, call.source) for call in failing} <= expected
    well = {(200, "store"), (429, "store"), (429, "deny_cache")}
    assert {(call.status, call.source) for call in healthy} <= well


def check_metrics(counted, policy, calls):
    """What the workers have counted together is what the clients saw, to the last call."""
    seen = Counter()
    for call in calls:
        if call.status == 500:
            seen[f'rate_limiter_redis_errors_total{{kind="{call.source}"}}'] += 1
            continue
        allowed = "allowed" if call.status == 200 else "denied"
        seen[f'rate_limiter_{allowed}_total{{policy="{policy}",source="{call.source}"}}'] += 1
        if call.source == "fail_open":
            seen[f'rate_limiter_fail_open_total{{policy="{policy}"}}'] += 1
        if call.source == "local":
            seen[f'rate_limiter_fallback_total{{policy="{policy}"}}'] += 1
    of_errors = {name for name in counted if name.startswith("rate_limiter_redis_errors_total")}
    names = {name for name in counted if f'policy="{policy}"' in name}
    assert {name: counted[name] for name in names} == {name: seen[name] for name in seen.keys() - of_errors}
    unanswered = sum(call.source not in ("store", "deny_cache") for call in calls)
    assert sum(counted[name] for name in of_errors) == unanswered
    if any(call.status == 500 for call in calls):
        assert {name: counted[name] for name in of_errors} == {name: seen[name] for name in seen if name in of_errors}
