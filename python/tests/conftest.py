"""Servers for the tests; nothing here needs one that somebody else started."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import RedisServer, SilentListener

from ratelimit_rs import Store

# A run in the background of a shell has interrupts ignored, and so would the programs that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = itertools.count()


@pytest.fixture(autouse=True)
def _a_default_store_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATELIMIT_STORE", "memory:")


@pytest.fixture(scope="session")
def _shared_server() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture
def server(_shared_server: RedisServer) -> RedisServer:
    """A Redis server that is empty, knows no script and has counted nothing."""
    with _shared_server.client() as client:
        client.flushall()
        client.script_flush()
        client.config_resetstat()
    # A server without a password takes any. A DSN that none had before is a store that remembers no refusals of another
    # test, of which that store would hear nothing when the server forgets them.
    _shared_server.credentials = f"default:{next(TESTS)}@"
    return _shared_server


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A Redis server that the test may stop."""
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture
def silent() -> Iterator[SilentListener]:
    """A listener that never answers."""
    listener = SilentListener()
    yield listener
    listener.close()


@pytest.fixture(params=["memory", "shared", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Each store in turn, empty."""
    if request.param == "memory":
        return Store.memory()
    if request.param == "shared":
        return Store.shared(tmp_path / "limits", bytes=4 << 20)
    server: RedisServer = request.getfixturevalue("server")
    # The deadline is generous where the test is not about time: the machine may be busy. And the server is asked every
    # time, since two threads may learn in another order what they gave back than the server did it.
    return Store.redis(server.dsn + "?deny_cache=0", timeout=5, connect_timeout=5)
