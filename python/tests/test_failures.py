"""A server that forgets, restarts, stops, hangs, or answers late; and what the failure rules make of it."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from servers import Relay, RedisServer, SilentListener, free_port

from ratelimit_rs import InvalidArgument, Limiter, Policy, RateLimitError, Store, StoreUnavailable

TEN = Policy.token_bucket(10, 1, 3600)
DEADLINE = 0.2


def failure(call: Callable[[], object]) -> tuple[str, float]:
    """The kind of a failure, and how long it took."""
    started = time.monotonic()
    with pytest.raises(StoreUnavailable) as caught:
        call()
    took = time.monotonic() - started
    assert isinstance(caught.value, ConnectionError)
    assert isinstance(caught.value, RateLimitError)
    assert caught.value.args == (str(caught.value),)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.kind) == (str(caught.value), caught.value.kind)
    return caught.value.kind, took


def test_a_flushed_script_costs_nobody_a_unit(server: RedisServer) -> None:
    limiter = Limiter(TEN, Store.redis(server.dsn, timeout=5))
    left = [limiter.allow("k").remaining for _ in range(3)]
    with server.client() as client:
        client.script_flush()
    left += [limiter.allow("k").remaining for _ in range(3)]
    assert left == [9, 8, 7, 6, 5, 4]


def test_scripts_flushed_again_and_again_under_many_threads(server: RedisServer) -> None:
    limiter = Limiter(Policy.token_bucket(1000, 1, 3600), Store.redis(server.dsn, timeout=5, connect_timeout=5))
    left: list[int] = []
    done = threading.Event()

    def flush() -> None:
        with server.client() as client:
            while not done.is_set():
                client.script_flush()

    def work() -> None:
        left.extend(limiter.allow("k").remaining for _ in range(20))

    flusher = threading.Thread(target=flush)
    flusher.start()
    threads = [threading.Thread(target=work) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    flusher.join()
    assert sorted(left) == list(range(1000))


def test_a_restarted_server_is_found_again(own_server: RedisServer) -> None:
    limiter = Limiter(TEN, Store.redis(own_server.dsn, timeout=5, connect_timeout=5))
    assert [limiter.allow("k").remaining for _ in range(3)] == [9, 8, 7]
    own_server.restart()
    # It has forgotten everything, and every call counts once.
    assert [limiter.allow("k").remaining for _ in range(3)] == [9, 8, 7]


def test_a_stopped_server_is_refused_and_found_again(own_server: RedisServer) -> None:
    store = Store.redis(own_server.dsn, timeout=5, connect_timeout=5)
    limiter = Limiter(TEN, store)
    limiter.allow("k")
    own_server.stop()
    for call in (lambda: limiter.allow("k"), lambda: limiter.peek("k"), lambda: limiter.reset("k"), store.ping):
        kind, took = failure(call)
        assert kind in ("refused", "closed")
        assert took < 1
    own_server.start()
    assert limiter.allow("k").remaining == 9


def test_a_listener_that_never_answers_costs_one_deadline(silent: SilentListener) -> None:
    store = Store.redis(silent.dsn, timeout=DEADLINE, connect_timeout=DEADLINE)
    limiter = Limiter(TEN, store)
    for call in (lambda: limiter.allow("k"), lambda: limiter.reset("k"), store.ping):
        kind, took = failure(call)
        assert kind == "timeout"
        assert DEADLINE * 0.9 < took < DEADLINE * 3


def test_a_frozen_server_costs_one_deadline_and_is_found_again(own_server: RedisServer) -> None:
    limiter = Limiter(TEN, Store.redis(own_server.dsn, timeout=DEADLINE, connect_timeout=DEADLINE))
    assert limiter.allow("k").remaining == 9
    with own_server.frozen():
        kind, took = failure(lambda: limiter.peek("k"))
        assert kind == "timeout"
        assert took < DEADLINE * 3
    # A look takes nothing, whenever the server gets to it.
    patient = Limiter(TEN, Store.redis(own_server.dsn, timeout=5, connect_timeout=5))
    assert patient.peek("k").remaining == 9


def test_nobody_listening_is_refused() -> None:
    limiter = Limiter(TEN, Store.redis(f"redis://127.0.0.1:{free_port()}"))
    kind, took = failure(lambda: limiter.allow("k"))
    assert kind == "refused"
    assert took < 1


def test_a_late_reply_is_never_given_to_the_next_call(server: RedisServer) -> None:
    direct = Limiter(TEN, Store.redis(server.dsn, timeout=5))
    direct.allow("slow-user", 10)
    direct.allow("fast-user", 2)
    relay = Relay(server.port)
    try:
        limiter = Limiter(TEN, Store.redis(relay.dsn + "?deny_cache=0", timeout=0.3, connect_timeout=5))
        limiter.peek("slow-user")
        assert relay.connections == 1
        relay.delay = 0.9
        kind, took = failure(lambda: limiter.allow("slow-user"))
        assert kind == "timeout"
        assert took < 0.8
        relay.delay = 0
        # The late reply (denied, none left) is still on its way.
        decision = limiter.allow("fast-user")
        assert (decision.allowed, decision.remaining) == (True, 7)
        time.sleep(0.7)
        decision = limiter.allow("fast-user")
        assert (decision.allowed, decision.remaining) == (True, 6)
        # The connection that timed out was not used again.
        assert relay.connections == 2
    finally:
        relay.close()


@pytest.mark.parametrize(
    ("rule", "allowed", "source"), [("open", True, "fail_open"), ("closed", False, "fail_closed")]
)
def test_open_and_closed_answer_in_place_of_the_store(
    silent: SilentListener, rule: Any, allowed: bool, source: str
) -> None:
    limiter = Limiter(TEN, Store.redis(silent.dsn, timeout=0.05, connect_timeout=0.05), on_error=rule)
    for verb in (limiter.allow, limiter.peek):
        started = time.monotonic()
        decision = verb("k")
        assert time.monotonic() - started < 1
        assert (decision.allowed, decision.source, decision.degraded) == (allowed, source, True)
        assert (decision.limit, decision.remaining) == (10, 0)
        assert (decision.retry_after > 0) == (not allowed)
        assert pickle.loads(pickle.dumps(decision)) == decision


@pytest.mark.parametrize(("rule", "source"), [("open", "fail_open"), ("closed", "fail_closed")])
def test_a_frozen_server_gets_the_rules_answer_in_time_and_the_second_call_after_it_is_real(
    own_server: RedisServer, rule: Any, source: str
) -> None:
    store = Store.redis(own_server.dsn, timeout=DEADLINE, connect_timeout=DEADLINE)
    limiter = Limiter(Policy.token_bucket(1000, 1, 3600), store, on_error=rule)
    assert limiter.allow("k").source == "store"
    with own_server.frozen():
        for _ in range(10):
            started = time.monotonic()
            assert limiter.allow("k").source == source
            assert time.monotonic() - started < DEADLINE * 3
    assert own_server.answers()
    limiter.allow("k")
    assert [limiter.allow("k").source for _ in range(10)] == ["store"] * 10


def test_local_answers_by_a_share_of_the_limit_until_the_server_is_back(own_server: RedisServer) -> None:
    store = Store.redis(own_server.dsn, timeout=5, connect_timeout=5)
    limiter = Limiter(TEN, store, on_error="local", share=5)
    assert limiter.allow("local").source == "store"
    own_server.stop()
    decisions = [limiter.allow("local") for _ in range(3)]
    assert [decision.allowed for decision in decisions] == [True, True, False]
    assert all(decision.degraded and decision.source == "local" for decision in decisions)
    assert decisions[0].limit == 2
    own_server.start()
    decision = limiter.allow("local")
    assert (decision.source, decision.degraded, decision.remaining) == ("store", False, 9)


def test_a_wrong_argument_is_an_error_under_every_rule(silent: SilentListener) -> None:
    rules: list[Any] = ["throw", "open", "closed", "local"]
    for rule in rules:
        limiter = Limiter(TEN, Store.redis(silent.dsn), on_error=rule)
        started = time.monotonic()
        with pytest.raises(ValueError, match="^cost must be"):
            limiter.allow("k", 0)
        assert time.monotonic() - started < 0.1


def test_a_key_that_holds_something_else_lets_nobody_pass_for_free(server: RedisServer) -> None:
    limiter = Limiter(TEN, Store.redis(server.dsn + "?deny_cache=0", timeout=5))
    limiter.allow("k")
    with server.client() as client:
        [key] = client.scan_iter()
        # A text that is no state of ours is a budget never used.
        for text in ("hello", "", "x" * 32, "\xff" * 32):
            client.set(key, text)
            assert [limiter.allow("k").allowed for _ in range(15)] == [True] * 10 + [False] * 5
        # Whatever is no text is an error.
        puts: list[Callable[[], object]] = [lambda: client.rpush(key, "x"), lambda: client.hset(key, "tokens", "abc")]
        for put in puts:
            client.delete(key)
            put()
            kind, _ = failure(lambda: limiter.allow("k"))
            assert kind == "wrongtype"
        client.delete(key)
    assert limiter.allow("k").remaining == 9


def test_a_user_without_rights_is_told_so(own_server: RedisServer) -> None:
    with own_server.client() as client:
        client.acl_setuser("weak", enabled=True, passwords=["+pw"], keys=["*"], commands=["+ping"])
    limiter = Limiter(TEN, Store.redis(f"redis://weak:pw@127.0.0.1:{own_server.port}", timeout=5))
    kind, _ = failure(lambda: limiter.allow("k"))
    assert kind == "noperm"


def test_a_call_may_have_a_failure_rule_of_its_own(own_server: RedisServer) -> None:
    limiter = Limiter(TEN, Store.redis(own_server.dsn, timeout=5, connect_timeout=5))
    # As long as the server answers there is nothing to rule.
    assert limiter.allow("k", on_error="closed").source == "store"
    own_server.stop()
    assert failure(lambda: limiter.allow("k"))[0] in ("refused", "closed")
    assert failure(lambda: limiter.allow("k", on_error="throw"))[0] == "refused"
    for rule, allowed, source in (("open", True, "fail_open"), ("closed", False, "fail_closed"), ("local", True, "local")):
        decisions = [
            limiter.allow("own-rule", on_error=rule),
            limiter.peek("own-rule", on_error=rule),
            limiter.reserve("own-rule", on_error=rule),
            *limiter.allow_many(["own-rule", ("own-rule", 2)], on_error=rule),
        ]
        assert [(it.allowed, it.source, it.degraded) for it in decisions] == [(allowed, source, True)] * 5
    assert limiter.wait("own-rule", on_error="open").source == "fail_open"
    limiter.refund("own-rule", on_error="open")
    failure(lambda: limiter.refund("own-rule"))
    lenient = Limiter(TEN, Store.redis(own_server.dsn, timeout=5, connect_timeout=5), on_error="open")
    assert failure(lambda: lenient.allow("k", on_error="throw"))[0] == "refused"


def test_a_failure_rule_that_is_none_is_refused_before_anything_is_asked() -> None:
    limiter = Limiter(TEN, Store.memory())
    with pytest.raises(InvalidArgument, match="on_error must be throw, open, closed or local, got \"perhaps\""):
        limiter.allow("k", on_error="perhaps")  # type: ignore[arg-type]
    assert limiter.peek("k").remaining == 10
