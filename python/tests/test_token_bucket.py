"""The drop-in for the class of redis.io's guide."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import redis
from servers import RedisServer

from ratelimit_rs import InvalidPolicy, Limiter, Policy, Store, TokenBucket


def test_the_guides_calls_work_as_they_stand(server: RedisServer) -> None:
    r = redis.Redis(host="localhost", port=server.port, decode_responses=True)
    limiter = TokenBucket(redis_client=r, capacity=10, refill_rate=1, refill_interval=1.0)

    allowed, remaining = limiter.allow("user:123")
    assert allowed is True
    assert remaining == 9.0
    assert f"{remaining} tokens remaining" == "9.0 tokens remaining"

    # The guide's response headers.
    headers = {
        "X-RateLimit-Limit": str(limiter.capacity),
        "X-RateLimit-Remaining": str(int(remaining)),
        "X-RateLimit-Reset": str(int(time.time() + limiter.refill_interval)),
        "Retry-After": str(int(limiter.refill_interval)),
    }
    assert (headers["X-RateLimit-Limit"], headers["X-RateLimit-Remaining"], headers["Retry-After"]) == ("10", "9", "1")
    r.close()


def test_the_guides_demo_server_works_as_it_stands(server: RedisServer) -> None:
    r = redis.Redis(host="localhost", port=server.port, decode_responses=True)
    config: dict[str, Any] = {"capacity": 3, "refill_rate": 1, "refill_interval": 3600.0}
    limiter = TokenBucket(redis_client=r, **config)
    answers = []
    for _ in range(4):
        allowed, remaining = limiter.allow("demo:request")
        answers.append(json.loads(json.dumps({"allowed": allowed, "remaining": remaining, "config": config})))
    assert [answer["allowed"] for answer in answers] == [True, True, True, False]
    assert [answer["remaining"] for answer in answers] == [2.0, 1.0, 0.0, 0.0]

    # Its form makes another limiter on the first one's client, and shows a ValueError.
    limiter = TokenBucket(redis_client=limiter.redis, capacity=5, refill_rate=2, refill_interval=3600.0)
    assert limiter.redis is r
    # A larger bucket is no gift.
    assert limiter.allow("demo:request") == (False, 0.0)
    with pytest.raises(ValueError, match="^capacity must be between 1 and 2147483647, got 0$"):
        TokenBucket(redis_client=limiter.redis, capacity=0, refill_rate=2, refill_interval=1.0)
    r.close()


def test_arguments_may_go_by_place_and_have_the_guides_defaults() -> None:
    bucket = TokenBucket(Store.memory())
    assert (bucket.capacity, bucket.refill_rate, bucket.refill_interval) == (10, 1, 1.0)
    assert [bucket.allow("k") for _ in range(2)] == [(True, 9.0), (True, 8.0)]
    bucket = TokenBucket(Store.memory(), 3.0, 0.5, 60)
    assert (bucket.capacity, bucket.refill_rate, bucket.refill_interval) == (3, 0.5, 60.0)
    assert repr(bucket) == "<ratelimit_rs.TokenBucket capacity=3, refill_rate=0.5, refill_interval=60.0 on 'memory'>"


@pytest.mark.parametrize("way", ["dsn", "store", "default"])
def test_its_client_may_be_a_dsn_a_store_or_nothing(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("RATELIMIT_STORE", server.dsn)
    clients: dict[str, Any] = {"dsn": server.dsn, "store": Store.redis(server.dsn, timeout=5), "default": None}
    client = clients[way]
    bucket = TokenBucket(client, refill_interval=3600)
    assert bucket.allow(b"k") == (True, 9.0)
    # What it says its client is, makes another one on the same store.
    assert TokenBucket(bucket.redis, refill_interval=3600).allow("k") == (True, 8.0)
    assert isinstance(bucket.redis, Store) or bucket.redis is client


def test_it_shares_its_budget_with_a_limiter_of_the_same_policy(store: Store) -> None:
    bucket = TokenBucket(store, 5, 1, 3600)
    limiter = Limiter(Policy.token_bucket(5, 1, 3600), store)
    assert bucket.allow("k") == (True, 4.0)
    assert limiter.allow("k").remaining == 3
    assert bucket.allow("k") == (True, 2.0)


def test_wrong_arguments_are_refused_before_the_server_is_asked(server: RedisServer) -> None:
    wrong: Any
    for wrong in ({"capacity": 0}, {"refill_rate": float("inf")}, {"refill_interval": 0}, {"capacity": float("nan")}):
        with pytest.raises(InvalidPolicy):
            TokenBucket(server.dsn, **wrong)
    bucket = TokenBucket(server.dsn)
    for wrong in (None, 5, object()):
        with pytest.raises(TypeError, match="^key must be str or bytes"):
            bucket.allow(wrong)
    with pytest.raises(TypeError, match="^redis_client must be None, a DSN, a Store or a redis.Redis, got int$"):
        TokenBucket(5)  # type: ignore[arg-type]
    assert server.decisions() == 0
