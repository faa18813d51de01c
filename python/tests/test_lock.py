"""Locks: one holder per key, on every store, whoever dies."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from servers import RedisServer, SilentListener, free_port
from test_fork import run
from test_threads import at_once

from ratelimit_rs import InvalidArgument, Lock, Store, StoreUnavailable, WaitTooLong

LONG = 600.0
"""Long enough for any test, in seconds."""


@pytest.fixture(params=["shared", "redis"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each store that processes share, empty."""
    if request.param == "shared":
        return f"shared:{tmp_path}/limits?size=4MiB&timeout=5"
    server: RedisServer = request.getfixturevalue("server")
    return f"{server.dsn}?timeout=5&connect_timeout=5"


def test_one_holds_a_lock_and_only_the_holder_extends_or_releases_it(store: Store) -> None:
    lock = Lock(store)
    holder = lock.acquire("report", LONG)
    assert holder is not None
    assert len(holder) == 32
    assert lock.acquire("report", LONG) is None
    assert lock.acquire(b"report", LONG, max_wait=0.02) is None
    assert lock.is_held("report")
    other = lock.acquire("another", LONG)
    assert other is not None
    for stranger in (other, "", "nobody"):
        assert not lock.extend("report", stranger, LONG)
        assert not lock.release("report", stranger)
    assert lock.extend("report", holder, LONG)
    assert lock.release("report", holder)
    assert not lock.release("report", holder)
    assert not lock.is_held("report")
    assert repr(lock).startswith("<ratelimit_rs.Lock on '")


def test_a_lock_ends_by_itself_unless_it_is_extended(store: Store) -> None:
    lock = Lock(store)
    short, kept = lock.acquire("short", 0.02), lock.acquire("kept", 0.02)
    assert short is not None
    assert kept is not None
    assert lock.extend("kept", kept, LONG)
    following = lock.acquire("short", LONG, max_wait=None)
    assert following is not None
    assert not lock.release("short", short)
    assert lock.is_held("kept")


def test_a_block_holds_the_lock_and_releases_it_however_it_ends(store: Store) -> None:
    lock = Lock(store)
    with lock.hold("report", LONG) as held:
        assert lock.is_held("report")
        assert held.holder is not None
        assert held.extend()
        assert held.extend(LONG)
    assert held.holder is None
    assert not held.extend()
    assert not held.release()
    assert not lock.is_held("report")
    with pytest.raises(KeyError), held:
        assert lock.is_held("report")
        raise KeyError
    assert not lock.is_held("report")
    with held:
        assert held.release()
        assert not lock.is_held("report")


def test_a_block_is_not_entered_where_somebody_else_holds_the_lock(store: Store) -> None:
    lock = Lock(store)
    holder = lock.acquire("secret name", LONG)
    assert holder is not None
    with pytest.raises(WaitTooLong) as caught, lock.hold("secret name", LONG, max_wait=0.02):
        pytest.fail("it was entered")
    assert str(caught.value) == "the lock is held by somebody else, and was for all of the 0.02 s to wait for it"
    assert lock.release("secret name", holder)


def test_a_hold_is_for_one_block_at_a_time() -> None:
    held = Lock(Store.memory()).hold("report", LONG)
    with held:
        with pytest.raises(RuntimeError, match="held already"), held:
            pytest.fail("it was entered twice")
        assert held.holder is not None


@pytest.mark.parametrize("ttl", [0, -1, 0.0009, float("nan"), float("inf"), True])
def test_a_time_that_is_none_is_refused_before_the_store_is_asked(ttl: float) -> None:
    lock = Lock(f"redis://127.0.0.1:{free_port()}")
    with pytest.raises(InvalidArgument, match=r"^ttl must be .*, got "):
        lock.acquire("k", ttl)
    with pytest.raises(InvalidArgument, match=r"^ttl must be .*, got "), lock.hold("k", ttl):
        pytest.fail("it was entered")


def test_wrong_arguments_are_named() -> None:
    lock = Lock(Store.memory())
    with pytest.raises(TypeError, match="^key must be str or bytes, got int$"):
        lock.acquire(5, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^ttl must be a number, got str$"):
        lock.hold("k", "1")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="^max_wait must be seconds, 0 or more, got -1$"):
        lock.acquire("k", 1, -1)
    with pytest.raises(TypeError, match="store must be None, a DSN, a Store or a redis.Redis, got int"):
        Lock(5)  # type: ignore[arg-type]


def test_it_is_the_same_lock_by_a_dsn_and_by_a_client(server: RedisServer) -> None:
    with server.client() as client:
        locks = [Lock(server.dsn), Lock(client), Lock(Store.redis(server.dsn))]
        for at, lock in enumerate(locks):
            holder = lock.acquire("report", LONG)
            assert holder is not None
            assert client.get("rl:lock:{report}") == holder.encode()
            assert locks[(at + 1) % 3].acquire("report", LONG) is None
            assert locks[(at + 2) % 3].release("report", holder)


def test_a_store_that_goes_during_the_block_takes_nothing_from_it(own_server: RedisServer) -> None:
    lock = Lock(own_server.dsn)
    with lock.hold("report", LONG):
        own_server.stop()
    with pytest.raises(StoreUnavailable), lock.hold("report", LONG):
        pytest.fail("it was entered")
    with pytest.raises(ZeroDivisionError):
        own_server.restart()
        with lock.hold("report", LONG):
            own_server.stop()
            raise ZeroDivisionError


def test_other_threads_go_on_while_a_server_is_waited_for(silent: SilentListener) -> None:
    lock = Lock(Store.redis(silent.dsn, timeout=0.5, connect_timeout=0.5))
    started, counted = threading.Event(), 0

    def acquire() -> None:
        started.set()
        with pytest.raises(StoreUnavailable):
            lock.acquire("k", LONG)

    thread = threading.Thread(target=acquire)
    thread.start()
    started.wait()
    while thread.is_alive():
        counted += 1
        time.sleep(0.001)
    assert counted > 20


def test_threads_that_count_under_a_lock_count_right(store: Store) -> None:
    lock, counted = Lock(store), [0]

    def count() -> None:
        for _ in range(25):
            with lock.hold("counter", LONG):
                seen = counted[0]
                time.sleep(0)
                counted[0] = seen + 1

    at_once(6, count)
    assert counted == [150]


COUNTING = """
    import os, sys
    from pathlib import Path
    from ratelimit_rs import Lock

    file, lock = Path(sys.argv[2]), Lock(sys.argv[1])
    def count():
        with lock.hold("file", 600):
            file.write_text(str(int(file.read_text()) + 1))

    count()
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            for _ in range(100):
                count()
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    count()
"""


def test_children_that_count_under_a_lock_count_right(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "count"
    file.write_text("0")
    run(COUNTING, dsn, str(file))
    assert file.read_text() == "402"


def killed(script: str, *arguments: str) -> str:
    """What a process printed that killed itself at once."""
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGKILL, "")
    return ended.stdout


def test_who_is_killed_holds_a_lock_no_longer_than_its_time(dsn: str) -> None:
    script = """
        import os, signal, sys
        from ratelimit_rs import Lock
        print(Lock(sys.argv[1]).acquire("k", 1.0), end="", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    holder = killed(script, dsn)
    assert len(holder) == 32
    lock = Lock(dsn)
    assert lock.acquire("k", LONG, max_wait=30) is not None
    assert not lock.release("k", holder)


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_ctrl_c_ends_a_wait_and_nothing_is_held_then(server: RedisServer, kind: str) -> None:
    script = """
        import sys
        from ratelimit_rs import Lock, Store
        lock = Lock(Store.memory() if sys.argv[1] == "memory" else sys.argv[1])
        holder = lock.acquire("k", 600)
        print("waiting", flush=True)
        try:
            with lock.hold("k", 600):
                print("entered")
        except KeyboardInterrupt:
            print("interrupted", lock.release("k", holder), lock.is_held("k"), flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), "memory" if kind == "memory" else f"{server.dsn}?timeout=5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "interrupted True False\n")
