"""Concurrency limits: at most so many under way at a time, on every store, whoever dies."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
from servers import RedisServer
from test_fork import run
from test_lock import dsn, killed  # noqa: F401
from test_threads import at_once

from ratelimit_rs import Concurrency, InvalidPolicy, LimitExceeded, ManualClock, Store


def test_as_many_as_the_limit_are_under_way_and_each_ends_by_itself(store: Store) -> None:
    clock = ManualClock()
    uploads = Concurrency(2, 60, store, clock=clock)
    first = uploads.acquire("k")
    assert first is not None
    assert len(first) == 32
    clock.advance(20)
    second = uploads.acquire("k")
    assert second is not None
    assert uploads.acquire(b"k") is None
    assert uploads.acquire("other") is not None
    peeked = uploads.peek("k")
    assert (peeked.allowed, peeked.limit, peeked.remaining, peeked.retry_after) == (False, 2, 0, 40.0)
    clock.advance(40)
    assert not uploads.release("k", first)
    assert not uploads.extend("k", first)
    assert uploads.extend("k", second)
    clock.advance(59)
    assert uploads.peek("k").remaining == 1
    assert uploads.release("k", second)
    assert not uploads.release("k", "nobody")
    peeked = uploads.peek("k")
    assert (peeked.allowed, peeked.remaining, peeked.retry_after) == (True, 2, 0.0)


def test_a_manual_clock_is_moved_instead_of_sleeping(store: Store) -> None:
    clock = ManualClock()
    uploads = Concurrency(1, 60, store, clock=clock)
    uploads.acquire("k")
    assert uploads.acquire("k", max_wait=59) is None
    assert clock.now() == pytest.approx(1_700_000_059)
    assert uploads.acquire("k", max_wait=None) is not None
    assert clock.now() == pytest.approx(1_700_000_060)


def test_names_share_no_leases(store: Store) -> None:
    one, other = Concurrency(1, 60, store, name="one"), Concurrency(1, 60, store, name="other")
    assert one.acquire("k") is not None
    assert other.acquire("k") is not None
    assert one.acquire("k") is None
    assert repr(one) == f"<ratelimit_rs.Concurrency \"one\" of 1 on '{store.kind}'>"


def test_a_block_holds_a_lease_and_gives_it_back_however_it_ends(store: Store) -> None:
    uploads = Concurrency(1, 60, store)
    with uploads.lease("k") as lease:
        assert uploads.peek("k").remaining == 0
        assert lease.holder is not None
        assert lease.extend()
    assert lease.holder is None
    assert uploads.peek("k").remaining == 1
    with pytest.raises(KeyError), lease:
        raise KeyError
    assert uploads.peek("k").remaining == 1
    with lease:
        assert lease.release()
        assert uploads.peek("k").remaining == 1


def test_a_refusal_carries_the_decision(store: Store) -> None:
    uploads = Concurrency(1, 60, store, name="uploads", clock=ManualClock())
    with uploads.lease("k"):
        with pytest.raises(LimitExceeded) as caught, uploads.lease("k"):
            pytest.fail("it was entered")
        decision = caught.value.decision
        assert (decision.allowed, decision.retry_after, decision.policy) == (False, 60.0, "uploads")
        headers = decision.headers(quota_unit="concurrent-requests")
        assert headers["RateLimit-Policy"] == '"uploads";q=1;qu="concurrent-requests";w=60'
        assert headers["Retry-After"] == "60"


def test_a_clock_in_python_is_asked_and_what_it_raises_reaches_the_caller() -> None:
    class Clock:
        now_is: float | None = 1_700_000_000.0

        def now(self) -> float:
            if self.now_is is None:
                raise ArithmeticError("stopped")
            return self.now_is

    clock = Clock()
    uploads = Concurrency(1, 60, Store.memory(), clock=clock)
    uploads.acquire("k")
    clock.now_is = 1_700_000_060.0
    with uploads.lease("k"):
        # Given back at the end of the block all the same.
        clock.now_is = None
    clock.now_is = 1_700_000_060.0
    assert uploads.peek("k").remaining == 1
    clock.now_is = None
    with pytest.raises(ArithmeticError, match="stopped"):
        uploads.acquire("k")


def test_a_clock_that_knows_its_limit_is_collected() -> None:
    class Clock:
        uploads: object = None

        def now(self) -> float:
            return 1_700_000_000.0

    clock = Clock()
    uploads = Concurrency(1, 60, Store.memory(), clock=clock)
    clock.uploads = [uploads, uploads.lease("k")]
    gone = weakref.ref(clock)
    del clock, uploads
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"limit": 0}, "limit must be between 1 and 2147483647, got 0"),
        ({"limit": 1.5}, "limit must be an integer between 1 and 2147483647, got 1.5"),
        ({"lease_ttl": 0}, "lease_ttl must be between 0.001 and "),
        ({"lease_ttl": float("nan")}, "lease_ttl must be between 0.001 and "),
        ({"name": ""}, "name must be 1 to 100 printable ASCII characters"),
    ],
)
def test_numbers_and_names_that_are_none_are_refused(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        Concurrency(**{"limit": 1, "lease_ttl": 1, "store": Store.memory(), **arguments})  # type: ignore[arg-type]
    assert str(caught.value).startswith(sentence)


def test_it_is_the_same_limit_by_a_dsn_and_by_a_client(server: RedisServer) -> None:
    with server.client() as client:
        one, other = Concurrency(1, 60, server.dsn), Concurrency(1, 60, client)
        lease = one.acquire("k")
        assert lease is not None
        assert other.acquire("k") is None
        assert other.release("k", lease)


def test_of_many_threads_never_more_than_the_limit_are_inside(store: Store) -> None:
    uploads = Concurrency(3, 600, store)
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(10):
            with uploads.lease("k", max_wait=None):
                # The interpreter's lock makes each of these a step of its own.
                inside.append(1)
                most.append(sum(inside))
                inside.append(-1)

    at_once(8, work)
    assert max(most) <= 3
    assert uploads.peek("k").remaining == 3


INSIDE = """
    import os, sys
    from pathlib import Path
    from ratelimit_rs import Concurrency

    folder, uploads = Path(sys.argv[2]), Concurrency(2, 600, sys.argv[1], name="processes")
    children = []
    for number in range(5):
        child = os.fork()
        if child == 0:
            most = 0
            for _ in range(40):
                with uploads.lease("k", max_wait=None):
                    mine = folder / str(number)
                    mine.touch()
                    most = max(most, len(list(folder.iterdir())))
                    mine.unlink()
            os._exit(most)
        children.append(child)
    most = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert all(1 <= one <= 2 for one in most), most
    assert uploads.peek("k").remaining == 2
"""


def test_of_many_processes_never_more_than_the_limit_are_inside(dsn: str, tmp_path: Path) -> None:  # noqa: F811
    folder = tmp_path / "inside"
    folder.mkdir()
    run(INSIDE, dsn, str(folder))


def test_who_is_killed_holds_a_lease_no_longer_than_its_time(dsn: str) -> None:  # noqa: F811
    script = """
        import os, signal, sys
        from ratelimit_rs import Concurrency
        print(Concurrency(1, 1.0, sys.argv[1]).acquire("k"), end="", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    lease = killed(script, dsn)
    assert len(lease) == 32
    uploads = Concurrency(1, 1.0, dsn)
    assert uploads.acquire("k", max_wait=30) is not None
    assert not uploads.release("k", lease)
