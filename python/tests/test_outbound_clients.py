"""httpx, requests and aiohttp under a governor, against real servers on loopback."""

from __future__ import annotations

import asyncio
import io
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
import requests
from api_server import Answer, ApiServer, Leaky, Script, Windows
from servers import RedisServer

from ratelimit_rs import InvalidArgument, ManualClock, Store
from ratelimit_rs.aiohttp import RateLimitMiddleware
from ratelimit_rs.httpx import AsyncRateLimitTransport, RateLimitTransport
from ratelimit_rs.outbound import (
    Delayed,
    DelayExceeded,
    Exceeded,
    Governor,
    RateLimitExceeded,
    RecordingSleeper,
    RetryScheduled,
    Updated,
    request_options,
)
from ratelimit_rs.requests import RateLimitAdapter

FINE: Answer = (200, {"Content-Type": "text/plain"}, b"fine")
REFUSED: Answer = (429, {"Retry-After": "7"}, b"slow down")

# Sends one request: (method, url, body) with a governor, a sleeper and an event handler; gives status and body.
Send = Callable[..., tuple[int, bytes]]


def by_httpx(one: Governor, sleeper: Any, events: Any, method: str, url: str, content: Any = None) -> tuple[int, bytes]:
    with httpx.Client(transport=RateLimitTransport(one, sleeper=sleeper, events=events)) as client:
        response = client.request(method, url, content=content)
        return response.status_code, response.content


def by_async_httpx(one: Governor, sleeper: Any, events: Any, method: str, url: str, content: Any = None) -> tuple[int, bytes]:
    async def send() -> tuple[int, bytes]:
        transport = AsyncRateLimitTransport(one, sleeper=sleeper, events=events)
        async with httpx.AsyncClient(transport=transport) as client:
            response = await client.request(method, url, content=content)
            return response.status_code, response.content

    return asyncio.run(send())


def by_requests(one: Governor, sleeper: Any, events: Any, method: str, url: str, content: Any = None) -> tuple[int, bytes]:
    with requests.Session() as session:
        session.mount("http://", RateLimitAdapter(one, sleeper=sleeper, events=events))
        response = session.request(method, url, data=content)
        return response.status_code, response.content


def by_aiohttp(one: Governor, sleeper: Any, events: Any, method: str, url: str, content: Any = None) -> tuple[int, bytes]:
    async def send() -> tuple[int, bytes]:
        middleware = RateLimitMiddleware(one, sleeper=sleeper, events=events)
        async with aiohttp.ClientSession(middlewares=(middleware,)) as session:
            async with session.request(method, url, data=content) as response:
                return response.status, await response.read()

    return asyncio.run(send())


@pytest.fixture(params=[by_httpx, by_async_httpx, by_requests, by_aiohttp], ids=lambda it: it.__name__)
def send(request: pytest.FixtureRequest) -> Send:
    sender: Send = request.param
    return sender


@pytest.fixture
def serve() -> Iterator[Callable[..., ApiServer]]:
    servers: list[ApiServer] = []

    def start(answer: Any) -> ApiServer:
        servers.append(ApiServer(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def story(**options: Any) -> tuple[Governor, RecordingSleeper, list[Any]]:
    clock = ManualClock()
    options.setdefault("preset", "default")
    return Governor(options.pop("preset"), store=Store.memory(), clock=clock, **options), RecordingSleeper(clock), []


def test_a_refusal_is_waited_out_and_the_body_is_sent_again(send: Send, serve: Callable[..., ApiServer]) -> None:
    server, (one, sleeper, events) = serve(Script(REFUSED, FINE)), story()
    assert send(one, sleeper, events.append, "POST", server.url + "/x/42", b"payload") == (200, b"fine")
    assert (server.statuses, server.bodies, sleeper.sleeps) == ([429, 200], [b"payload", b"payload"], [7.0])
    kinds = [type(event) for event in events]
    assert kinds[:2] == [Updated, RetryScheduled]
    host = server.url.removeprefix("http://")
    assert events[1] == RetryScheduled(f"POST {host} /x/:id", 7.0, 1, 429)


def test_the_error_has_the_response_and_its_body(send: Send, serve: Callable[..., ApiServer]) -> None:
    server, (one, sleeper, events) = serve(Script(REFUSED)), story(max_retries=1)
    with pytest.raises(RateLimitExceeded) as raised:
        send(one, sleeper, events.append, "GET", server.url)
    assert (raised.value.retry_after, raised.value.is_global) == (7.0, False)
    status = getattr(raised.value.response, "status_code", None) or raised.value.response.status
    assert (status, server.statuses) == (429, [429, 429])
    assert isinstance(events[-1], Exceeded)


def test_a_wait_that_is_too_long_is_an_error_and_nothing_is_sent(send: Send, serve: Callable[..., ApiServer]) -> None:
    server, (one, sleeper, events) = serve(Script((429, {"Retry-After": "86400"}, b""))), story(max_delay=60)
    for sent in (1, 1):
        with pytest.raises(DelayExceeded) as raised:
            send(one, sleeper, events.append, "GET", server.url)
        assert raised.value.retry_after == 86400.0
        assert (len(server.statuses), sleeper.sleeps) == (sent, [])


def test_what_is_left_is_spent_and_then_waited_for(send: Send, serve: Callable[..., ApiServer]) -> None:
    headers = {"X-RateLimit-Limit": "9", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "30"}
    server, (one, sleeper, events) = serve(Script((200, headers, b""))), story(safety_buffer=0)
    for _ in range(3):
        assert send(one, sleeper, events.append, "GET", server.url)[0] == 200
    assert sleeper.sleeps == [30.0]
    assert [event.reason for event in events if isinstance(event, Delayed)] == ["quota"]


def test_github_says_slow_down_with_403_and_the_caller_can_read_why_not(send: Send, serve: Callable[..., ApiServer]) -> None:
    slow = (403, {}, b'{"message": "You have exceeded a secondary rate limit."}')
    server, (one, sleeper, events) = serve(Script(slow, FINE)), story(preset="github")
    assert send(one, sleeper, events.append, "GET", server.url + "/user") == (200, b"fine")
    assert sleeper.sleeps == [60.0]
    denied = b'{"message": "Resource not accessible by integration"}'
    server, (one, sleeper, events) = serve(Script((403, {}, denied))), story(preset="github")
    assert send(one, sleeper, events.append, "GET", server.url + "/user") == (403, denied)
    assert (sleeper.sleeps, len(server.statuses)) == ([], 1)


def test_a_body_that_cannot_be_sent_twice_is_not(serve: Callable[..., ApiServer]) -> None:
    server, (one, sleeper, events) = serve(Script(REFUSED, FINE)), story()
    with pytest.raises(RateLimitExceeded):
        by_httpx(one, sleeper, events.append, "POST", server.url, iter([b"pay", b"load"]))
    assert (len(server.statuses), sleeper.sleeps) == (1, [])


def test_a_file_is_rewound(serve: Callable[..., ApiServer]) -> None:
    server, (one, sleeper, events) = serve(Script(REFUSED, FINE)), story()
    assert by_requests(one, sleeper, events.append, "POST", server.url, io.BytesIO(b"payload"))[0] == 200
    assert server.bodies == [b"payload", b"payload"]


def test_a_connection_that_fails_lets_the_next_request_go(send: Send) -> None:
    one, sleeper, events = story()
    for _ in range(2):
        with pytest.raises((httpx.ConnectError, requests.ConnectionError, aiohttp.ClientError)):
            send(one, sleeper, events.append, "GET", "http://127.0.0.1:1/")
    assert sleeper.sleeps == []


def test_options_of_some_requests(serve: Callable[..., ApiServer]) -> None:
    server, (one, sleeper, _) = serve(Script(REFUSED)), story()
    with httpx.Client(transport=RateLimitTransport(one, sleeper=sleeper)) as client:
        for options in ({"enabled": False}, {"max_retries": 0, "bucket": "other"}):
            try:
                client.get(server.url, extensions={"rate_limit": options})
            except RateLimitExceeded:
                assert options.get("bucket") == "other"
        with pytest.raises(InvalidArgument, match="rate_limit"):
            client.get(server.url, extensions={"rate_limit": {"retries": 1}})
        with pytest.raises(TypeError):
            client.get(server.url, extensions={"rate_limit": {"max_retries": "1"}})
    with request_options(enabled=False):
        assert by_requests(one, sleeper, None, "GET", server.url)[0] == 429
    assert (len(server.statuses), sleeper.sleeps) == (3, [])


def test_an_event_loop_goes_on_while_a_request_waits(serve: Callable[..., ApiServer]) -> None:
    server = serve(Script((429, {"Retry-After": "0.3"}, b""), FINE))
    one = Governor(store=Store.memory())

    async def both() -> int:
        turns = 0
        async with httpx.AsyncClient(transport=AsyncRateLimitTransport(one)) as client:
            task = asyncio.create_task(client.get(server.url))
            while not task.done():
                await asyncio.sleep(0.01)
                turns += 1
            assert task.result().status_code == 200
        return turns

    assert asyncio.run(both()) >= 5


def work(preset: str, dsn: str, url: str, count: int) -> None:
    one = Governor(preset, store=dsn, safety_buffer=0.05)
    with httpx.Client(transport=RateLimitTransport(one), timeout=30) as client:
        for _ in range(count):
            assert client.get(url).status_code == 200


# The API, and how many requests each of four processes sends.
APIS = {
    "github": (lambda: Windows(100, 1.0, "github"), "/user", 60),
    "discord": (lambda: Windows(25, 1.0, "discord"), "/channels/1/messages", 30),
    "ietf": (lambda: Windows(100, 2.0, "ietf"), "/things", 60),
    "shopify": (lambda: Leaky(40, 2.0, "shopify"), "/admin/products.json", 13),
    "openai": (lambda: Leaky(40, 50.0, "openai"), "/v1/chat", 60),
}


@pytest.mark.parametrize(
    ("preset", "kind"), [*((preset, "redis") for preset in APIS), ("github", "shared"), ("openai", "shared")]
)
def test_four_processes_share_what_they_learn_and_are_never_refused(
    preset: str, kind: str, server: RedisServer, serve: Callable[..., ApiServer], tmp_path: Path
) -> None:
    api, path, count = APIS[preset]
    remote = serve(api())
    context = multiprocessing.get_context("spawn")
    dsn = f"redis://127.0.0.1:{server.port}?timeout=5" if kind == "redis" else f"shared:{tmp_path}/limits?size=4MiB&timeout=5"
    arguments = (preset, dsn, remote.url + path, count)
    workers = [context.Process(target=work, args=arguments) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert (remote.statuses.count(200), remote.statuses.count(429)) == (4 * count, 0)
