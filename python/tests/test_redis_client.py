"""A redis.Redis as a store: we connect to the same place, and leave the client alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
from servers import RedisServer

from ratelimit_rs import InvalidStore, Limiter, Policy, Store, StoreUnavailable, TokenBucket

FIVE = Policy.token_bucket(5, 1, 3600)


@pytest.fixture(scope="module")
def guarded() -> Iterator[RedisServer]:
    """A server with a password, and with a user of another one."""
    server = RedisServer("--requirepass", "p:ss wörd", "--user", "limits", "on", ">secret", "~*", "+@all")
    yield server
    server.close()


def closing(clients: list[redis.Redis]) -> None:
    for client in clients:
        client.close()


def test_every_way_to_name_one_server_shares_one_budget(server: RedisServer) -> None:
    make_pool: Any = redis.BlockingConnectionPool
    pool = make_pool(host="127.0.0.1", port=server.port)
    clients = [
        redis.Redis(host="localhost", port=server.port, decode_responses=True),
        redis.Redis(host="127.0.0.1", port=str(server.port)),  # type: ignore[arg-type]
        redis.Redis.from_url(server.dsn),
        redis.Redis(connection_pool=pool),
        redis.Redis(unix_socket_path=server.socket),
    ]
    left = [Limiter(FIVE, client).allow("k").remaining for client in clients]
    assert left == [4, 3, 2, 1, 0]
    assert not Limiter(FIVE, Store.redis(server.dsn)).allow("k").allowed
    closing(clients)
    pool.disconnect()


def test_the_client_of_asyncio_names_a_place_as_well(server: RedisServer) -> None:
    client: Any = redis.asyncio.Redis(host="127.0.0.1", port=server.port)
    assert Limiter(FIVE, client).allow("k").remaining == 4


def test_the_database_is_the_clients(server: RedisServer) -> None:
    with server.client(db=3) as client:
        assert Limiter(FIVE, client).allow("k").remaining == 4
        assert client.dbsize() == 1
    with server.client() as client:
        assert client.dbsize() == 0
        assert Limiter(FIVE, client).allow("k").remaining == 4


def test_the_credentials_are_the_clients(guarded: RedisServer) -> None:
    provider = redis.UsernamePasswordCredentialProvider("limits", "secret")
    ways: list[dict[str, Any]] = [
        {"password": "p:ss wörd"},
        {"password": "p:ss wörd".encode()},
        {"username": "default", "password": "p:ss wörd"},
        {"username": "limits", "password": "secret"},
        {"credential_provider": provider},
    ]
    for left, way in zip([4, 3, 2, 1, 0], ways, strict=True):
        with guarded.client(**way) as client:
            assert Limiter(FIVE, client).allow("k").remaining == left
    for way in ({}, {"password": "wrong"}, {"username": "limits", "password": "wrong"}):
        with guarded.client(**way) as client, pytest.raises(StoreUnavailable) as caught:
            Limiter(FIVE, client).allow("k")
        assert caught.value.kind == "noperm"
        assert "wrong" not in str(caught.value).replace("WRONGPASS", "")


class Changing(redis.CredentialProvider):
    def get_credentials(self) -> tuple[str]:
        return ("secret",)


def test_a_place_that_we_cannot_connect_to_is_refused() -> None:
    clients: list[tuple[Any, str]] = [
        (redis.Redis(credential_provider=Changing()), "has a credential provider whose credentials may change"),
        (redis.Redis(port=70000), "has a port that cannot be used: 70000"),
        (redis.Redis(db="x"), "has a db that cannot be used: 'x'"),  # type: ignore[arg-type]
    ]
    for client, text in clients:
        for argument, make in (("store", lambda client: Limiter(FIVE, client)), ("redis_client", TokenBucket)):
            with pytest.raises(InvalidStore) as caught:
                make(client)
            assert str(caught.value) == f"{argument} {text}"


def test_building_a_limiter_connects_nowhere(server: RedisServer) -> None:
    with server.client() as client:
        before = client.info("stats")["total_connections_received"]
        for _ in range(10):
            TokenBucket(client)
            Limiter(FIVE, client)
        assert client.info("stats")["total_connections_received"] == before
