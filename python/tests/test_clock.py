"""Clocks: one that is moved by hand, and any object that tells the time."""

from __future__ import annotations

import gc
import math
import threading
import time
import weakref
from typing import Any

import pytest

from ratelimit_rs import InvalidArgument, Limiter, ManualClock, Policy, Store


class Callback:
    """A clock in Python that lets other threads run in the middle of a call."""

    def __init__(self) -> None:
        self.seconds: Any = 1_700_000_000.0
        self.calls = 0
        self.lock = threading.Lock()

    def now(self) -> Any:
        with self.lock:
            self.calls += 1
            time.sleep(0)
            return self.seconds


def test_a_manual_clock_stands_until_it_is_moved() -> None:
    clock = ManualClock()
    assert clock.now() == 1_700_000_000.0
    clock.advance(1.5)
    assert clock.now() == 1_700_000_001.5
    clock.advance(-2)
    assert clock.now() == 1_699_999_999.5
    assert repr(ManualClock(5)) == "ManualClock(5.0)"


@pytest.mark.parametrize("now", [math.nan, math.inf, -1, 1e12])
def test_an_instant_out_of_range_is_refused(now: float) -> None:
    with pytest.raises(InvalidArgument, match="^now must be seconds since 1970"):
        ManualClock(now)


def test_a_step_that_is_no_number_is_refused() -> None:
    clock: Any = ManualClock()
    for step in (math.nan, math.inf):
        with pytest.raises(InvalidArgument, match="^seconds must be a finite number"):
            clock.advance(step)
    for wrong in (None, "1"):
        with pytest.raises(TypeError, match="^seconds must be a number"):
            clock.advance(wrong)
    with pytest.raises(TypeError, match="^now must be a number"):
        ManualClock(None)  # type: ignore[arg-type]
    assert clock.now() == 1_700_000_000.0


@pytest.mark.parametrize("make", [ManualClock, Callback])
def test_a_limiter_goes_by_the_clock_it_was_given(make: Any, store: Store) -> None:
    clock = make()
    limiter = Limiter(Policy.token_bucket(1, 1, 10), store, clock=clock)
    assert limiter.allow("k").allowed
    assert limiter.allow("k").retry_after == 10.0
    if isinstance(clock, ManualClock):
        clock.advance(9.5)
    else:
        clock.seconds += 9.5
    assert limiter.peek("k").retry_after == 0.5
    if isinstance(clock, ManualClock):
        clock.advance(0.5)
    else:
        clock.seconds += 0.5
    assert limiter.allow("k").allowed


def test_a_clock_set_back_locks_nobody_out(store: Store) -> None:
    clock = ManualClock(1000)
    limiter = Limiter(Policy.token_bucket(2, 1, 1), store, clock=clock)
    limiter.allow("k", 2)
    clock.advance(-600)
    assert limiter.allow("k").retry_after <= 1.0
    clock.advance(1)
    assert limiter.allow("k").allowed


class Failing:
    def now(self) -> float:
        raise LookupError("no time like the present")


def test_an_exception_in_the_clock_reaches_the_caller_and_harms_nothing(store: Store) -> None:
    policy = Policy.token_bucket(5, 1, 10)
    failing = Limiter(policy, store, clock=Failing())
    for verb in (failing.allow, failing.peek):
        with pytest.raises(LookupError, match="no time like the present"):
            verb("k")
    clock = Callback()
    limiter = Limiter(policy, store, clock=clock)
    assert limiter.allow("k").remaining == 4
    clock.seconds = "noon"
    with pytest.raises(TypeError, match=r"^clock.now\(\) must be a number, got str$"):
        limiter.allow("k")
    for wrong in (math.nan, math.inf, -1.0):
        clock.seconds = wrong
        with pytest.raises(InvalidArgument, match=r"^clock.now\(\) must be seconds since 1970"):
            limiter.allow("k")
    clock.seconds = 1_700_000_000
    assert limiter.allow("k").remaining == 3


def test_time_may_begin_at_zero(store: Store) -> None:
    clock = Callback()
    clock.seconds = 0
    limiter = Limiter(Policy.token_bucket(1, 1, 10), store, clock=clock)
    assert limiter.allow("k").allowed
    assert limiter.allow("k").retry_after == 10.0


def test_threads_that_call_a_python_clock_do_not_block_each_other(store: Store) -> None:
    clock = Callback()
    limiter = Limiter(Policy.token_bucket(500, 1, 3600), store, clock=clock)
    passed: list[int] = []

    def work() -> None:
        passed.append(sum(limiter.allow("k").allowed for _ in range(100)))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "a call hangs"
    assert sum(passed) == 500
    assert clock.calls == 800


def test_a_clock_that_refers_to_its_limiter_is_collected() -> None:
    clock: Any = Callback()
    limiter = Limiter(Policy.token_bucket(5, 1), Store.memory(), clock=clock)
    clock.limiter = limiter
    gone = weakref.ref(clock)
    del clock, limiter
    gc.collect()
    assert gone() is None
