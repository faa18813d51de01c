"""Threads: one budget, and an interpreter that goes on while a server is waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from servers import SilentListener

from ratelimit_rs import Decision, Limiter, Policy, Store, StoreUnavailable


def at_once(count: int, work: Callable[[], object]) -> None:
    """Runs `work` in so many threads that start together."""
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def run() -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a thread hangs"
    assert errors == []


@pytest.mark.parametrize(
    "policies",
    [
        [Policy.token_bucket(5, 1, 3600)],
        [Policy.leaky_bucket(5, 1 / 3600)],
        [Policy.gcra(5, 86400)],
        [Policy.fixed_window(5, 3600)],
        [Policy.sliding_window_log(5, 3600)],
        [Policy.sliding_window_counter(5, 86400)],
        [Policy.token_bucket(5, 1, 3600), Policy.fixed_window(9, 3600)],
    ],
    ids=lambda policies: " and ".join(map(str, policies)),
)
def test_of_fifty_threads_on_a_cold_key_exactly_five_pass(store: Store, policies: list[Policy]) -> None:
    limiter = Limiter(policies, store)
    for turn in range(20):
        decisions: list[Decision] = []
        at_once(50, lambda: decisions.append(limiter.allow(f"cold:{turn}")))  # noqa: B023
        passed = sorted(decision.remaining for decision in decisions if decision.allowed)
        assert passed == [0, 1, 2, 3, 4]
        assert len(decisions) == 50


def test_slow_calls_wait_side_by_side(silent: SilentListener) -> None:
    limiter = Limiter(Policy.token_bucket(5, 1), Store.redis(silent.dsn, timeout=0.5, connect_timeout=0.5))

    def slow() -> None:
        try:
            limiter.allow("k")
        except StoreUnavailable as error:
            assert error.kind == "timeout"

    started = time.monotonic()
    at_once(8, slow)
    took = time.monotonic() - started
    assert 0.45 < took < 1.2, f"eight time-outs of 0.5 s took {took:.2f} s"


def test_other_threads_go_on_while_a_server_is_waited_for(silent: SilentListener) -> None:
    limiter = Limiter(
        Policy.token_bucket(5, 1), Store.redis(silent.dsn, timeout=0.5, connect_timeout=0.5), on_error="closed"
    )

    def counted(seconds: float) -> int:
        """How far this thread counts in so much time."""
        count = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            count += 1
        return count

    paces = []
    # The machine may be busy with something else in one of the turns, but hardly in all of them.
    for _ in range(5):
        alone = counted(0.2)
        waiting = threading.Thread(target=limiter.allow, args=("k",))
        waiting.start()
        beside = counted(0.2)
        assert waiting.is_alive(), "the call should still wait"
        waiting.join()
        paces.append(beside / alone)
        if paces[-1] >= 0.5:
            return
    raise AssertionError(f"while a call waited, another thread kept only these parts of its pace: {paces}")
