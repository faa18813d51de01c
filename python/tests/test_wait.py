"""Waiting until a call passes: how long, for whom, and what ends it early."""

from __future__ import annotations

import contextlib
import math
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from servers import Relay, RedisServer, SilentListener

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


# Those of one unit per hour in which a wait reserves its slot.
RESERVING = [Policy.token_bucket(1, 1, 3600), Policy.leaky_bucket(3, 1 / 3600), Policy.gcra(1, 3600)]


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
        # The machine may be busy with something else in one of the turns, but hardly in all of them.
        turns = []
        for _ in range(3):
            started = time.monotonic()
            with pytest.raises(WaitTooLong, match="the cost 3 is above the limit 2"):
                limiter.wait("k", 3, longest)
            turns.append(time.monotonic() - started)
        assert min(turns) < 0.05, turns
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


class Frozen:
    """A clock in Python that stands still, so that a wait really sleeps and what it leaves can be compared exactly."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails_at = 0

    def now(self) -> float:
        self.asked += 1
        if self.asked == self.fails_at:
            raise LookupError("no time like the present")
        return 1_700_000_000.0


class Ended(Exception):
    pass


@contextlib.contextmanager
def alarm(seconds: float, handler: Callable[..., Any]) -> Iterator[None]:
    """A signal after so many seconds."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def end(*_: Any) -> None:
    raise Ended


@pytest.mark.parametrize("token", [None, "t"])
@pytest.mark.parametrize("policy", [*RESERVING, Policy.fixed_window(1, 3600)], ids=str)
def test_a_wait_that_a_signal_handler_ends_gives_its_slot_back(store: Store, policy: Policy, token: str | None) -> None:
    limiter = Limiter(policy, store, clock=Frozen())
    limiter.allow("k")
    before = limiter.peek("k")
    during = []

    def look_and_end(*_: Any) -> None:
        during.append(limiter.peek("k"))
        raise Ended

    with alarm(0.1, look_and_end), pytest.raises(Ended):
        limiter.wait("k", token=token)
    assert limiter.peek("k") == before
    # A slot had been taken, but of a window.
    assert (during == [before]) == (policy not in RESERVING)


def test_all_of_several_policies_get_their_slots_back(store: Store) -> None:
    limiter = Limiter([Policy.gcra(1, 3600, name="a"), Policy.token_bucket(5, 1, 60, name="b")], store, clock=Frozen())
    keys: Any = {"a": "x", "b": "y"}
    limiter.allow(keys)
    before = limiter.peek(keys)
    with alarm(0.1, end), pytest.raises(Ended):
        limiter.wait(keys)
    assert limiter.peek(keys) == before


def test_a_wait_that_its_clock_ends_gives_its_slot_back(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    clock = Frozen()
    limiter = Limiter(Policy.gcra(1, 3600), store, clock=clock)
    limiter.allow("k")
    before = limiter.peek("k")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    # It is asked for the reservation, and once more after the sleep.
    clock.fails_at = clock.asked + 2
    with pytest.raises(LookupError):
        limiter.wait("k")
    assert limiter.peek("k") == before


def test_a_slot_that_cannot_be_given_back_hides_nothing(own_server: RedisServer) -> None:
    limiter = Limiter(Policy.gcra(1, 3600), Store.redis(own_server.dsn, timeout=5))
    limiter.allow("k")

    def stop_and_end(*_: Any) -> None:
        own_server.stop()
        raise Ended

    with alarm(0.2, stop_and_end), pytest.raises(Ended):
        limiter.wait("k")


def test_a_signal_that_comes_while_the_store_is_asked_ends_the_wait(server: RedisServer) -> None:
    direct = Limiter(Policy.gcra(1, 3600), Store.redis(server.dsn, timeout=5))
    relay = Relay(server.port)
    try:
        limiter = Limiter(Policy.gcra(1, 3600), Store.redis(relay.dsn, timeout=5, connect_timeout=5))
        limiter.allow("k")
        relay.delay = 0.5
        started = time.monotonic()
        with alarm(0.1, end), pytest.raises(Ended):
            limiter.wait("k")
        assert time.monotonic() - started < 20
        assert direct.peek("k").reset_after <= 3600
    finally:
        relay.close()


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
        print("interrupted", time.monotonic() - started < 20, limiter.peek("k").reset_after <= 3600, flush=True)
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
    assert (process.returncode, output) == (0, "interrupted True True\n")


def test_a_signal_handler_that_returns_does_not_end_a_wait(store: Store) -> None:
    limiter = Limiter(Policy.gcra(2, 1, 1), store)
    limiter.allow("k")
    seen: list[Any] = []
    with alarm(0.05, lambda *arguments: seen.append(arguments)):
        started = time.monotonic()
        assert limiter.wait("k").allowed
        assert time.monotonic() - started > 0.4
    assert len(seen) == 1
