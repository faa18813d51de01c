"""Processes: what a child of `os.fork()` shares with its parent (nothing), and the end of an interpreter."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from servers import RedisServer, SilentListener


def run(script: str, *arguments: str) -> str:
    """Runs a script in a process of its own, which must end well and say nothing on its standard error."""
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


FAMILY = """
    import os, sys
    from ratelimit_rs import Limiter, Policy, Store

    def sequence(limiter, key, start, count):
        left = [limiter.allow(key).remaining for _ in range(count)]
        assert left == list(range(start, start - count, -1)), (key, left[:5])

    store = Store.memory() if sys.argv[1] == "memory" else Store.redis(sys.argv[1], timeout=5, connect_timeout=5)
    limiter = Limiter(Policy.token_bucket(1000, 1, 3600), store)
    sequence(limiter, "parent", 999, 1)
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            try:
                sequence(limiter, f"child {number}", 999, 250)
            except BaseException as error:
                print(error, file=sys.stderr)
                os._exit(1)
            os._exit(0)
        children.append(child)
    sequence(limiter, "parent", 998, 250)
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sequence(limiter, "parent", 748, 10)
"""


def test_four_children_and_their_parent_never_read_each_others_replies(server: RedisServer) -> None:
    with server.client() as client:
        before = client.info("stats")["total_connections_received"]
        run(FAMILY, server.dsn)
        # One connection for each of the five, and one for asking.
        assert client.info("stats")["total_connections_received"] - before <= 6
        keys = {key.decode().split("{")[1] for key in client.scan_iter()}
        assert len(keys) == 5


def test_four_children_go_on_with_a_copy_of_the_memory() -> None:
    run(FAMILY, "memory")


FORK_AMONG_THREADS = """
    import os, sys, threading, time, warnings
    from ratelimit_rs import Limiter, Policy, Store

    # Python 3.12 and later warn of every fork in a process with threads: that is what is tried here.
    warnings.simplefilter("ignore", DeprecationWarning)
    store = Store.memory() if sys.argv[1] == "memory" else Store.redis(sys.argv[1], timeout=5, connect_timeout=5)
    policies = [Policy.token_bucket(10**9, 1, 1), Policy.fixed_window(10**9, 3600)][: int(sys.argv[3])]
    limiter = Limiter(policies, store, on_error=sys.argv[2])
    done = threading.Event()

    def work(key):
        while not done.is_set():
            assert limiter.allow(key).allowed
            if not store_is_away:
                assert limiter.allow(key, token=key).allowed

    store_is_away = sys.argv[2] == "local"
    threads = [threading.Thread(target=work, args=(f"thread {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(int(sys.argv[4])):
        child = os.fork()
        if child == 0:
            answered = all(limiter.allow(key).allowed for key in ("child", "thread 0", "thread 1"))
            os._exit(0 if answered else 1)
        deadline = time.monotonic() + 20
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                os.kill(child, 9)
                done.set()
                raise SystemExit(f"child {turn} hangs")
            time.sleep(0.0005)
        assert os.waitstatus_to_exitcode(status) == 0, turn
    done.set()
    for thread in threads:
        thread.join()
"""


@pytest.mark.parametrize("policies", ["1", "2"])
def test_a_fork_in_the_middle_of_other_threads_calls_leaves_the_child_usable(
    server: RedisServer, policies: str
) -> None:
    run(FORK_AMONG_THREADS, server.dsn, "throw", policies, "50")


@pytest.mark.parametrize("policies", ["1", "2"])
def test_a_fork_in_the_middle_of_other_threads_calls_in_memory(policies: str) -> None:
    run(FORK_AMONG_THREADS, "memory", "throw", policies, "100")


@pytest.mark.parametrize("policies", ["1", "2"])
def test_a_fork_while_the_memory_stands_in_for_a_server_that_is_away(policies: str) -> None:
    # The threads decide in memory without the interpreter's lock, so that a fork finds them anywhere. Nobody listens on
    # the first port, and no client is given it, which would connect it to itself sooner or later.
    run(FORK_AMONG_THREADS, "redis://127.0.0.1:1", "local", policies, "200")


def test_a_child_forked_during_a_wait_decides_for_itself(server: RedisServer) -> None:
    script = """
        import os, sys, threading, time, warnings
        from ratelimit_rs import Limiter, Policy, Store

        warnings.simplefilter("ignore", DeprecationWarning)
        for store in (Store.memory(), Store.redis(sys.argv[1], timeout=5)):
            limiter = Limiter(Policy.fixed_window(1, 1), store)
            limiter.allow("k")
            waiting = threading.Thread(target=limiter.wait, args=("k",))
            waiting.start()
            time.sleep(0.1)
            child = os.fork()
            if child == 0:
                os._exit(0 if limiter.allow("child") and not limiter.allow("k") else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            waiting.join()
            assert not limiter.allow("k")
    """
    run(script, server.dsn)


def test_the_end_of_the_interpreter_is_calm(server: RedisServer, silent: SilentListener) -> None:
    script = """
        import atexit, sys, threading
        from ratelimit_rs import Limiter, ManualClock, Policy, Store

        policy = Policy.token_bucket(2**31 - 1, 1)
        limiters = [Limiter(policy, Store.redis(sys.argv[1], timeout=5)), Limiter(policy, Store.memory())]
        stalled = Limiter(policy, Store.redis(sys.argv[2], timeout=0.3), on_error="open")

        class Late:
            def __del__(self):
                assert limiters[1].allow("late").allowed

        def work(limiter):
            while True:
                limiter.allow("k")

        # These threads are still inside a call when the interpreter goes.
        for limiter in [*limiters, stalled, stalled]:
            threading.Thread(target=work, args=(limiter,), daemon=True).start()
        atexit.register(lambda: print(limiters[0].allow("exit").allowed))
        late = Late()
        print(limiters[0].allow("main").allowed)
    """
    for _ in range(5):
        assert run(script, server.dsn, silent.dsn) == "True\nTrue\n"


def test_processes_that_are_spawned_share_one_budget(server: RedisServer) -> None:
    script = """
        import sys
        from ratelimit_rs import TokenBucket
        bucket = TokenBucket(sys.argv[1], 5, 1, 3600)
        print(sum(bucket.allow("k")[0] for _ in range(2)))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), server.dsn + "?timeout=5"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert sum(int(process.communicate(timeout=60)[0]) for process in processes) == 5
