"""Several policies in one limiter: all are charged, or none is."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from servers import RedisServer

from ratelimit_rs import InvalidArgument, Limiter, ManualClock, Policy, Store

MINUTE = Policy.fixed_window(3, 60, name="minute")
BUCKET = Policy.token_bucket(5, 1, 10, name="bucket")
RATE = Policy.gcra(10, 100, 4, name="rate")


@pytest.fixture
def limiter(store: Store) -> Limiter:
    return Limiter([MINUTE, BUCKET, RATE], store, clock=ManualClock())


def test_every_policy_is_charged_and_the_one_with_least_left_rules(limiter: Limiter) -> None:
    decision = limiter.allow("k")
    assert (decision.policy, decision.limit, decision.remaining) == ("minute", 3, 2)
    each = decision.each()
    assert [one.policy for one in each] == ["minute", "bucket", "rate"]
    assert [one.limit for one in each] == [3, 5, 4]
    assert [one.remaining for one in each] == [2, 4, 3]
    assert all(one.allowed for one in each)
    # A part is a decision of its own.
    assert each[1].each() == [each[1]]
    assert each[1].headers()["RateLimit-Policy"] == '"bucket";q=5;w=50'
    assert decision.headers()["RateLimit-Policy"] == '"minute";q=3;w=60, "bucket";q=5;w=50, "rate";q=4;w=40'


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_what_one_refuses_costs_the_others_nothing(store: Store, order: list[int]) -> None:
    policies = [[MINUTE, BUCKET, RATE][place] for place in order]
    limiter = Limiter(policies, store, clock=ManualClock())
    assert limiter.allow("k", 3).allowed
    for _ in range(3):
        decision = limiter.allow("k")
        assert not decision
        assert (decision.policy, decision.retry_after) == ("minute", 60.0)
    left = {one.policy: one.remaining for one in limiter.peek("k").each()}
    assert left == {"minute": 0, "bucket": 2, "rate": 1}


def test_the_longest_wait_rules_and_never_is_the_longest(store: Store) -> None:
    limiter = Limiter([BUCKET, RATE], store, clock=ManualClock())
    assert limiter.allow("k", 4).allowed
    decision = limiter.allow("k", 2)
    assert (decision.policy, decision.retry_after) == ("rate", 20.0)
    assert [one.retry_after for one in decision.each()] == [10.0, 20.0]
    decision = limiter.allow("k", 5)
    assert (decision.policy, decision.retry_after) == ("rate", math.inf)
    assert "Retry-After" not in decision.headers()


def test_each_policy_may_have_a_key_of_its_own(store: Store) -> None:
    limiter = Limiter([MINUTE, BUCKET], store, clock=ManualClock())
    keys: list[Any] = [{"minute": "ada", "bucket": b"site"}, {"bucket": "site", "minute": "bob"}]
    for number, key in enumerate(keys):
        assert [one.remaining for one in limiter.allow(key).each()] == [2, 4 - number]
    assert [one.remaining for one in limiter.peek({"minute": "ada", "bucket": "site"}).each()] == [2, 3]
    limiter.refund(keys[0])
    assert [one.remaining for one in limiter.peek(keys[0]).each()] == [3, 4]
    limiter.reset(keys[1])
    assert [one.remaining for one in limiter.peek(keys[1]).each()] == [3, 5]


def test_a_dict_of_keys_is_read_when_the_call_begins() -> None:
    class Meddler(dict[str, str]):
        """Not what is asked: the pairs of the dict are taken as they are."""

        def __getitem__(self, name: str) -> str:
            raise LookupError(name)

    limiter = Limiter([MINUTE, BUCKET], Store.memory())
    assert limiter.allow(Meddler(minute="a", bucket="b")).allowed


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        ({}, InvalidArgument, 'key has no entry for policy "minute"'),
        ({"minute": "k"}, InvalidArgument, 'key has no entry for policy "bucket"'),
        ({"minute": "k", "bucket": "k", "hour": "k"}, InvalidArgument, 'key names a policy "hour" that the limiter'),
        ({"minute": "k", "bucket": 5}, TypeError, "key of policy 'bucket' must be str or bytes, got int"),
        ({"minute": "k", "bucket": None}, TypeError, "key of policy 'bucket' must be str or bytes, got NoneType"),
        ({"minute": "k", "bucket": {}}, TypeError, "key of policy 'bucket' must be str or bytes, got dict"),
        ({"minute": "k", b"bucket": "k"}, TypeError, "key must name its policies by str, got bytes"),
    ],
)
def test_keys_that_do_not_go_with_the_policies_are_refused(key: Any, error: type[Exception], text: str) -> None:
    limiter = Limiter([MINUTE, BUCKET], Store.memory())
    for verb in (limiter.allow, limiter.peek, limiter.wait, limiter.refund, limiter.reset):
        with pytest.raises(error) as caught:
            verb(key)
        assert str(caught.value).startswith(text)
    assert limiter.allow("k").remaining == 2


def test_one_decision_over_several_policies_is_one_command(server: RedisServer) -> None:
    limiter = Limiter([MINUTE, BUCKET, RATE], Store.redis(server.dsn, timeout=5))
    limiter.allow("k")
    before = server.calls("evalsha")
    limiter.allow("k")
    limiter.peek({"minute": "a", "bucket": "a", "rate": "a"})
    assert server.calls("evalsha") - before == 2
    assert server.calls("eval") == 1


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_decision_over_several_policies_can_be_pickled(limiter: Limiter, protocol: int) -> None:
    limiter.allow("k", 3)
    for decision in (limiter.peek("other"), limiter.allow("k"), limiter.allow("k", 9)):
        for one in (decision, *decision.each()):
            copy = pickle.loads(pickle.dumps(one, protocol))
            assert copy == one
            assert hash(copy) == hash(one)
            assert repr(copy) == repr(one)
            assert copy.each() == one.each()
            assert copy.headers("draft-7") == one.headers("draft-7")


def test_decisions_that_differ_in_a_part_differ(store: Store) -> None:
    clock = ManualClock()
    bucket = Policy.token_bucket(100, 1, 10, name="bucket")
    limiter = Limiter([MINUTE, bucket], store, clock=clock)
    bucket_alone = Limiter(bucket, store, clock=clock)
    first, second = limiter.allow("a"), limiter.allow("b")
    assert first == second
    bucket_alone.allow("c")
    third = limiter.allow("c")
    # The minute rules in both; the buckets differ.
    assert (third.policy, third.remaining, third.limit) == (first.policy, first.remaining, first.limit)
    assert third != first


def test_failure_rules_answer_for_each_policy(own_server: RedisServer) -> None:
    store = Store.redis(own_server.dsn, timeout=5)
    own_server.stop()
    rules: list[tuple[Any, bool, str]] = [
        ("open", True, "fail_open"),
        ("closed", False, "fail_closed"),
        ("local", True, "local"),
    ]
    for rule, allowed, source in rules:
        decision = Limiter([MINUTE, BUCKET], store, on_error=rule).allow("failure rules")
        assert (decision.allowed, decision.source, decision.degraded) == (allowed, source, True)
        assert [one.source for one in decision.each()] == [source, source]
