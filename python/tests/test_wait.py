"""Waiting until a call passes: how long, for whom, and what ends it early."""

from __future__ import annotations

import math
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import pytest
from servers import RedisServer, SilentListener

from ratelimit_rs import Limiter, ManualClock, Policy, RateLimitError, Store, StoreUnavailable, WaitTooLong

# Policies of two units that last ten seconds each, or both together.
EVERY_ALGORITHM = [
    Policy.token_bucket(2, 1, 10),
    Policy.token_bucket(2, 1, 10, continuous=True),
    Policy.leaky_bucket(2, 0.1),
    Policy.gcra(1, 10, 2),
    Policy.fixed_window(2, 10),
    Policy.fixed_window(2, 10, aligned=True),
    Policy.sliding_window_log(2, 10),
    Policy.sliding_window_counter(2, 10),
]


def needed_wait(limiter: Limiter) -> float:
    """How long the next call has to wait, by what a look says."""
    decision = limiter.peek("k")
    # In a queue a call starts when all before it have left.
    return decision.reset_after if "leaky" in repr(limiter) else decision.retry_after


@pytest.mark.parametrize("policy", EVERY_ALGORITHM, ids=str)
def test_a_wait_lasts_as_long_as_it_must_on_a_clock_moved_by_hand(store: Store, policy: Policy) -> None:
    clock = ManualClock()
    limiter = Limiter(policy, store, clock=clock)
    started = time.monotonic()
    limiter.allow("k", 2)
    needed = needed_wait(limiter)
    before = clock.now()
    decision = limiter.wait("k")
    assert decision.allowed
    # The clock moved, and nobody slept.
    assert clock.now() - before == pytest.approx(needed, abs=1e-6)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("policy", EVERY_ALGORITHM, ids=str)
def test_what_can_never_pass_fails_at_once_and_takes_nothing(store: Store, policy: Policy) -> None:
    limiter = Limiter(policy, store)
    for longest in (None, math.inf, 1, 0):
        started = time.monotonic()
        with pytest.raises(WaitTooLong, match="the cost 3 is above the limit 2"):
            limiter.wait("k", 3, longest)
        assert time.monotonic() - started < 1
    assert limiter.allow("k", 2).allowed


@pytest.mark.parametrize("policy", EVERY_ALGORITHM, ids=str)
def test_a_wait_that_would_be_too_long_fails_at_once_and_takes_nothing(store: Store, policy: Policy) -> None:
    clock = ManualClock()
    limiter = Limiter(policy, store, clock=clock)
    limiter.allow("k", 2)
    before, needed = limiter.peek("k"), needed_wait(limiter)
    for longest in (0, needed - 1e-6):
        with pytest.raises(WaitTooLong, match='^policy "default" lets nothing pass in time: '):
            limiter.wait("k", max_wait=longest)
    assert limiter.peek("k") == before
    assert limiter.wait("k", max_wait=needed).allowed


def test_the_exception_is_one_of_the_packages_own_and_can_be_pickled() -> None:
    with pytest.raises(RateLimitError) as caught:
        Limiter(Policy.fixed_window(2, 10), Store.memory()).wait("k", 3)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is WaitTooLong
    assert str(copy) == str(caught.value)


def test_it_really_sleeps_where_the_clock_is_real(store: Store) -> None:
    for policy in (Policy.gcra(1, 0.2, name="slots"), Policy.fixed_window(1, 0.2, name="window")):
        limiter = Limiter(policy, store)
        limiter.allow("k")
        started = time.monotonic()
        assert limiter.wait("k", max_wait=5).allowed
        took = time.monotonic() - started
        assert 0.15 < took < 1.5, f"{policy}: {took:.3f} s"


def test_all_of_several_policies_are_waited_for(store: Store) -> None:
    clock = ManualClock()
    policies = [Policy.fixed_window(1, 30, name="window"), Policy.token_bucket(1, 1, 10, name="bucket")]
    limiter = Limiter(policies, store, clock=clock)
    limiter.allow("k")
    before = clock.now()
    assert limiter.wait("k").allowed
    assert clock.now() - before == 30.0


class Ticking:
    """A clock in Python that goes on whenever it is looked at."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def now(self) -> float:
        self.seconds += 0.01
        return self.seconds


def test_a_clock_in_python_is_asked_anew_at_each_step(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    clock = Ticking()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.seconds += seconds

    monkeypatch.setattr(time, "sleep", sleep)
    window = Limiter(Policy.fixed_window(1, 30), store, clock=clock)
    window.allow("k")
    assert window.wait("k").allowed
    assert slept == [pytest.approx(29.99, abs=1e-5)]


def test_a_server_that_is_away_ends_the_wait_as_the_rule_says(silent: SilentListener) -> None:
    store = Store.redis(silent.dsn, timeout=0.05, connect_timeout=0.05)
    policy = Policy.fixed_window(2, 10)
    with pytest.raises(StoreUnavailable):
        Limiter(policy, store).wait("k")
    assert Limiter(policy, store, on_error="open").wait("k").degraded
    with pytest.raises(WaitTooLong):
        Limiter(policy, store, on_error="closed").wait("k", max_wait=0.5)


@pytest.mark.parametrize("policy", [Policy.gcra(1, 1), Policy.fixed_window(1, 1)], ids=str)
def test_other_threads_go_on_during_a_wait(store: Store, policy: Policy) -> None:
    limiter = Limiter(policy, store)
    limiter.allow("k")
    waiting = threading.Thread(target=limiter.wait, args=("k",))
    waiting.start()
    longest_pause, last = 0.0, time.monotonic()
    while waiting.is_alive():
        now = time.monotonic()
        longest_pause, last = max(longest_pause, now - last), now
    # The wait lasts a second; a thread that held the interpreter's lock would stop this one for as long.
    assert longest_pause < 0.7


def test_many_that_wait_pass_one_after_the_other(store: Store) -> None:
    limiter = Limiter(Policy.gcra(20, 1, 1), store)
    passed: list[float] = []

    def work() -> None:
        limiter.wait("k")
        passed.append(time.monotonic())

    started = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(passed) == 8
    for place, instant in enumerate(sorted(passed)):
        assert instant - started >= place * 0.05 - 0.005


INTERRUPTED = """
    import sys, time
    from ratelimit_rs import Limiter, Policy, Store

    store = Store.memory() if sys.argv[1] == "memory" else Store.redis(sys.argv[1], timeout=5)
    limiter = Limiter(Policy.parse(sys.argv[2]), store)
    limiter.allow("k")
    print("waiting", flush=True)
    started = time.monotonic()
    try:
        limiter.wait("k")
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - started < 20, flush=True)
"""


@pytest.mark.parametrize("text", ["1/h", "1/h gcra"])
@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_ctrl_c_ends_a_wait(server: RedisServer, kind: str, text: str) -> None:
    argument = "memory" if kind == "memory" else server.dsn
    command = [sys.executable, "-c", textwrap.dedent(INTERRUPTED), argument, text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "interrupted True\n")


def test_a_signal_handler_that_returns_does_not_end_a_wait(store: Store) -> None:
    limiter = Limiter(Policy.gcra(2, 1, 1), store)
    limiter.allow("k")
    seen: list[Any] = []
    before = signal.signal(signal.SIGALRM, lambda *arguments: seen.append(arguments))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        started = time.monotonic()
        assert limiter.wait("k").allowed
        assert time.monotonic() - started > 0.4
        assert len(seen) == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
