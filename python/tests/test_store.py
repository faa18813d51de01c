"""Stores: how they are named, what is refused, who shares what."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from servers import RedisServer, SilentListener, free_port

from ratelimit_rs import InvalidStore, Limiter, Policy, RateLimitError, Store, StoreUnavailable, metrics

FIVE = Policy.token_bucket(5, 1, 3600)


def test_a_memory_store_is_its_owners_alone() -> None:
    first, second = Store.memory(), Store.memory(max_keys=10)
    assert first.kind == "memory"
    assert Limiter(FIVE, first).allow("k").remaining == 4
    assert Limiter(FIVE, first).allow("k").remaining == 3
    assert Limiter(FIVE, second).allow("k").remaining == 4
    assert first.ping() == 0.0


def test_one_dsn_is_one_store() -> None:
    dsn = "memory:?max_keys=12345"
    assert Limiter(FIVE, dsn).allow("one dsn").remaining == 4
    assert Limiter(FIVE, Store.open(dsn)).allow("one dsn").remaining == 3
    assert Limiter(FIVE, "memory:?max_keys=54321").allow("one dsn").remaining == 4


def test_the_default_store_is_named_by_the_environment(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "'memory'" in repr(Limiter(FIVE))
    monkeypatch.setenv("RATELIMIT_STORE", server.dsn + "?timeout=5")
    limiter = Limiter(FIVE)
    assert "'redis'" in repr(limiter)
    assert limiter.allow("k").remaining == 4
    assert Limiter(FIVE, Store.redis(server.dsn)).allow("k").remaining == 3


def test_a_redis_store_answers_a_ping(server: RedisServer) -> None:
    store = Store.redis(server.dsn, timeout=5)
    assert store.kind == "redis"
    assert 0 < store.ping() < 5
    assert server.calls("ping") == 1


def test_options_come_from_the_arguments_and_else_from_the_dsn(server: RedisServer) -> None:
    Limiter(FIVE, Store.redis(server.dsn + "?prefix=dsn:&timeout=5")).allow("k")
    Limiter(FIVE, Store.redis(server.dsn + "?prefix=dsn:", prefix="argument:", timeout=5)).allow("k")
    Limiter(FIVE, Store.redis(server.dsn, timeout=5)).allow("k")
    with server.client() as client:
        assert sorted(key.split(b":")[0] for key in client.scan_iter()) == [b"argument", b"dsn", b"rl"]


def test_a_store_on_a_socket_and_in_another_database(server: RedisServer) -> None:
    assert Limiter(FIVE, f"redis+unix://{server.socket}?timeout=5").allow("k").remaining == 4
    assert Limiter(FIVE, Store.redis(f"redis+unix://{server.socket}?db=3", timeout=5)).allow("k").remaining == 4
    assert Limiter(FIVE, f"{server.dsn}/3").allow("k").remaining == 3


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Store.open("nonsense"), "the store must be named by a DSN such as memory:"),
        (lambda: Store.open("http://x"), "the store's scheme must be memory, shared, redis, "),
        (lambda: Store.open("redis://h?tiemout=1"), 'the DSN has an unknown option "tiemout"'),
        (lambda: Store.open("redis://h/x"), "database must be a number"),
        (lambda: Limiter(FIVE, ""), "the store must be named by a DSN such as memory:"),
        (lambda: Store.redis("memory:"), "url must name Redis servers, such as redis://host:6379"),
        (lambda: Store.redis(timeout=0), "timeout must be above 0 and at most 3600 seconds, got 0"),
        (lambda: Store.redis(timeout=float("nan")), "timeout must be above 0 and at most 3600 seconds, got NaN"),
        (lambda: Store.redis(connect_timeout=-1), "connect_timeout must be above 0"),
        (lambda: Store.redis(prefix="a{b"), "prefix must be printable ASCII"),
        (lambda: Store.memory(0), f"max_keys must be an integer between 1 and {2 * sys.maxsize + 1}, got 0"),
        (lambda: Store.memory(2.5), f"max_keys must be an integer between 1 and {2 * sys.maxsize + 1}, got 2.5"),  # type: ignore[arg-type]
    ],
)
def test_a_store_that_cannot_be_is_refused_by_name(make: Any, text: str) -> None:
    with pytest.raises(InvalidStore) as caught:
        make()
    assert str(caught.value).startswith(text)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, RateLimitError)


def test_no_error_repeats_a_password() -> None:
    for dsn in ("redis://u:hunter2@h/x", "redis://u:hunter2@:1", "redis://:hunter2@h?x=1"):
        with pytest.raises(InvalidStore) as caught:
            Store.open(dsn)
        assert "hunter2" not in str(caught.value)
    store = Store.redis(f"redis://u:hunter2@127.0.0.1:{free_port()}")
    assert "hunter2" not in repr(store)
    with pytest.raises(StoreUnavailable) as unavailable:
        store.ping()
    assert "hunter2" not in str(unavailable.value)


@pytest.mark.parametrize("store", [5, b"memory:", object(), [], {}])
def test_what_names_no_store_is_a_type_error(store: Any) -> None:
    text = f"^store must be None, a DSN, a Store or a redis.Redis, got {type(store).__name__}$"
    with pytest.raises(TypeError, match=text):
        Limiter(FIVE, store)
    for make in (Store.open, Store.redis):
        with pytest.raises(TypeError):
            make(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^timeout must be a number, got NoneType$"):
        Store.redis(timeout=None)  # type: ignore[arg-type]


def test_a_shared_store_is_one_for_all_who_name_its_file(tmp_path: Path) -> None:
    path = tmp_path / "limits"
    first, second = Store.shared(path, bytes=1 << 20), Store.open(f"shared:{path}?size=1MiB")
    assert (first.kind, first.breaker) == ("shared", "closed")
    assert [Limiter(FIVE, store).allow("k").remaining for store in (first, second, first)] == [4, 3, 2]
    assert path.stat().st_size == 1 << 20
    assert path.stat().st_mode & 0o777 == 0o600
    for wrong, text in ((1023, "bytes must be between 1 MiB"), (2.5, "bytes must be an integer")):
        with pytest.raises(InvalidStore, match=text):
            Store.shared(tmp_path / "other", bytes=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidStore, match="limits"):
        Store.shared(path, bytes=2 << 20)


def test_how_full_a_store_is(tmp_path: Path, server: RedisServer) -> None:
    for store in (Store.memory(1000), Store.shared(tmp_path / "limits", bytes=1 << 20)):
        limiter = Limiter(FIVE, store)
        for number in range(20):
            limiter.allow(f"key {number}")
        info = store.info()
        assert info is not None
        assert (info.used, info.expired, info.evicted) == (20, 0, 0)
        assert info.slots >= 1000
        assert info.bytes >= 1 << 16
        assert repr(info).startswith(f"StoreInfo(slots={info.slots}, used=20, ")
        with pytest.raises(AttributeError):
            info.used = 5  # type: ignore[misc]
    assert Store.open(server.dsn).info() is None


def test_a_store_says_when_it_is_left_alone(silent: SilentListener) -> None:
    store = Store.open(f"redis://127.0.0.1:{silent.port}?timeout=0.05&connect_timeout=0.05")
    limiter = Limiter(FIVE, store, on_error="open")
    assert store.breaker == "closed"
    for _ in range(5):
        assert limiter.allow("k").degraded
    assert store.breaker == "open"
    assert "rate_limiter_breakers_open" in metrics()
