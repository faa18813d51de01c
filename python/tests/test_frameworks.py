"""What each framework has of its own: WebSockets, streams, dependencies, settings, and one over real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import fastapi
import flask
import pytest
import stacks
import starlette.applications
import starlette.websockets
import uvicorn
from django.core.exceptions import ImproperlyConfigured
from django.test import Client, override_settings
from servers import RedisServer, eventually
from starlette.testclient import TestClient

import ratelimit_rs.asgi
import ratelimit_rs.django
import ratelimit_rs.fastapi
import ratelimit_rs.flask
import ratelimit_rs.wsgi
from ratelimit_rs import Limiter, ManualClock, Policy, Store, StoreUnavailable
from ratelimit_rs.http import ClientIp, Key

ANN = Key(lambda _: "ann")


@pytest.fixture
def limiter() -> Limiter:
    return Limiter(Policy.parse("2/m"), Store.memory(), clock=ManualClock())


class TestAsgi:
    @pytest.mark.parametrize("whole_answer", [True, False])
    def test_a_websocket_is_refused_before_it_is_accepted(self, limiter: Limiter, whole_answer: bool) -> None:
        async def echo(scope: Any, receive: Any, send: Any) -> None:
            websocket = starlette.websockets.WebSocket(scope, receive, send)
            await websocket.accept()
            await websocket.send_text("hello")
            await websocket.close()

        async def older(scope: Any, receive: Any, send: Any) -> None:
            if not whole_answer:
                scope.pop("extensions", None)
            await limited(scope, receive, send)

        limited = ratelimit_rs.asgi.RateLimitMiddleware(echo, limiter, ANN)
        client = TestClient(older)
        for remaining in (1, 0):
            with client.websocket_connect("/") as session:
                assert session.receive_text() == "hello"
                headers = dict(session.extra_headers)
                assert headers[b"ratelimit"] == f'"default";r={remaining};t=60'.encode()
        if whole_answer:
            with pytest.raises(starlette.testclient.WebSocketDenialResponse) as denied, client.websocket_connect("/"):
                pass
            assert (denied.value.status_code, denied.value.headers["retry-after"]) == (429, "60")
            assert json.loads(denied.value.text)["violated-policies"] == ["default"]
        else:
            with pytest.raises(starlette.websockets.WebSocketDisconnect) as closed, client.websocket_connect("/"):
                pass
            assert closed.value.code == 1008

    def test_what_is_no_request_passes(self, limiter: Limiter) -> None:
        started = []

        @contextlib.asynccontextmanager
        async def lifespan(app: Any) -> Any:
            started.append(app)
            yield

        app = starlette.applications.Starlette(lifespan=lifespan)
        app.add_middleware(ratelimit_rs.asgi.RateLimitMiddleware, limiter=limiter, key=ANN)
        with TestClient(app):
            assert started == [app]

    def test_of_two_limiters_the_inner_ones_headers_stay(self, limiter: Limiter) -> None:
        outer = Limiter(Policy.parse("9/m", name="outer"), Store.memory(), clock=ManualClock())
        stack = stacks.StarletteStack(limiter, ANN)
        stack.app.add_middleware(ratelimit_rs.asgi.RateLimitMiddleware, limiter=outer, key=ANN)
        assert stack.send().headers["RateLimit"] == '"default";r=1;t=60'
        assert outer.peek("ann").remaining == 8

    def test_a_server_that_is_slow_does_not_hold_up_the_event_loop(self, own_server: RedisServer) -> None:
        limiter = Limiter(Policy.parse("2/m"), f"{own_server.dsn}?timeout=0.5")

        async def app(scope: Any, receive: Any, send: Any) -> None:
            raise AssertionError("it is never reached")

        limited = ratelimit_rs.asgi.RateLimitMiddleware(app, limiter, ANN)
        scope = {"type": "http", "method": "GET", "path": "/", "headers": []}

        async def both() -> int:
            request = asyncio.ensure_future(limited(scope, None, None))  # type: ignore[arg-type]
            turns = 0
            while not request.done():
                await asyncio.sleep(0.01)
                turns += 1
            with pytest.raises(StoreUnavailable):
                request.result()
            return turns

        with own_server.frozen():
            assert asyncio.run(both()) > 2


class TestUvicorn:
    @pytest.fixture
    def address(self, server: RedisServer) -> Iterator[tuple[str, int]]:
        stack = stacks.FastApiStack(
            Limiter(Policy.parse("3/m"), f"{server.dsn}?timeout=5"),
            ClientIp(["127.0.0.1"], header="x-forwarded-for"),
        )
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(stack.app, log_level="error", proxy_headers=False, lifespan="off")
        running = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(running.serve([listener])))
        thread.start()
        eventually("the start of uvicorn", lambda: running.started)
        yield listener.getsockname()
        running.should_exit = True
        thread.join()

    def send(self, address: tuple[str, int], method: str, lines: list[tuple[str, str]]) -> tuple[int, Any, bytes]:
        connection = http.client.HTTPConnection(*address, timeout=10)
        connection.putrequest(method, "/")
        for name, value in lines:
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, response.headers, body

    def test_callers_are_told_apart_and_limited_over_real_http(self, address: tuple[str, int]) -> None:
        for caller in ("192.0.2.1", "192.0.2.2"):
            for remaining in (2, 1, 0):
                lines = [("X-Forwarded-For", f"6.6.6.{remaining}"), ("X-Forwarded-For", caller)]
                status, headers, body = self.send(address, "GET", lines)
                assert (status, headers["RateLimit"], body) == (200, f'"default";r={remaining};t=60', b"hello")
            lines = [("Forwarded", "for=6.6.6.6"), ("X-Forwarded-For", f"6.6.6.6, {caller}")]
            status, headers, body = self.send(address, "GET", lines)
            assert (status, headers["Content-Type"]) == (429, "application/problem+json")
            assert len(body) == int(headers["Content-Length"])
            assert 1 <= int(headers["Retry-After"]) <= 60
            status, headers, body = self.send(address, "HEAD", lines)
            assert (status, body) == (429, b"")

    def test_many_at_once_never_pass_the_limit(self, address: tuple[str, int]) -> None:
        statuses: list[int] = []

        def ask() -> None:
            statuses.append(self.send(address, "GET", [("X-Forwarded-For", "192.0.2.9")])[0])

        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200] * 3 + [429] * 17


class TestFastApi:
    def app(self, limit: ratelimit_rs.fastapi.RateLimit) -> fastapi.FastAPI:
        app = fastapi.FastAPI()

        @app.get("/", dependencies=[fastapi.Depends(limit)])
        def hello() -> str:
            return "hello"

        @app.get("/free")
        def free() -> str:
            return "free"

        return app

    def test_a_dependency_limits_its_route_alone(self, limiter: Limiter) -> None:
        client = TestClient(self.app(ratelimit_rs.fastapi.RateLimit(limiter, ANN)))
        for remaining in (1, 0):
            response = client.get("/")
            assert (response.status_code, response.headers["RateLimit"]) == (200, f'"default";r={remaining};t=60')
        refused = client.get("/")
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "60"
        assert refused.headers["RateLimit"] == '"default";r=0;t=60'
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert refused.json() == {"detail": "The rate limit of 2 is used up. Try again in 60 seconds."}
        assert client.get("/free").status_code == 200

    def test_an_application_may_answer_with_the_whole_problem(self, limiter: Limiter) -> None:
        limiter.allow("ann", 2)
        for body, expected in (("problem", "detail"), ("json", "retry_after"), ("none", None)):
            app = self.app(ratelimit_rs.fastapi.RateLimit(limiter, ANN, body=body))  # type: ignore[arg-type]
            ratelimit_rs.fastapi.install(app)
            refused = TestClient(app).get("/")
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "60")
            assert expected in refused.json() if expected else refused.content == b""
            assert int(refused.headers["Content-Length"]) == len(refused.content)

    @pytest.mark.parametrize("body", ["problem", "json", "none"])
    def test_a_caller_who_cannot_be_told_is_answered_with_403(self, limiter: Limiter, body: Any) -> None:
        limit = ratelimit_rs.fastapi.RateLimit(limiter, lambda request: None, body=body, logger=logging.getLogger("x"))
        assert TestClient(self.app(limit)).get("/").status_code == 403

    def test_a_route_may_say_what_its_request_has_cost(self, limiter: Limiter) -> None:
        app = fastapi.FastAPI()
        limit = ratelimit_rs.fastapi.RateLimit(limiter, lambda request: request.query_params.get("user"), on_missing_key="skip")

        @app.get("/")
        async def login(password: str, charge: ratelimit_rs.fastapi.Charge = fastapi.Depends(limit)) -> int:
            if password == "secret":
                await charge.settle(0)
            return -1 if charge.decision is None else charge.decision.remaining

        client = TestClient(app)
        for _ in range(5):
            response = client.get("/?user=ann&password=secret")
            assert (response.json(), response.headers["RateLimit"]) == (2, '"default";r=2;t=0')
        assert [client.get("/?user=ann&password=guess").status_code for _ in range(3)] == [200, 200, 429]
        unlimited = client.get("/?password=secret")
        assert (unlimited.json(), "RateLimit" in unlimited.headers) == (-1, False)

    def test_a_websocket_may_depend_on_it(self, limiter: Limiter) -> None:
        app = fastapi.FastAPI()

        @app.websocket("/", dependencies=[fastapi.Depends(ratelimit_rs.fastapi.RateLimit(limiter, ANN))])
        async def echo(websocket: fastapi.WebSocket) -> None:
            await websocket.accept()
            await websocket.close()

        client = TestClient(app)
        for _ in range(2):
            with client.websocket_connect("/"):
                pass
        with pytest.raises(starlette.testclient.WebSocketDenialResponse) as denied, client.websocket_connect("/"):
            pass
        assert denied.value.status_code == 429

    def test_there_is_no_after(self, limiter: Limiter) -> None:
        with pytest.raises(TypeError, match="settle the Charge in the route instead of after"):
            ratelimit_rs.fastapi.RateLimit(limiter, ANN, after=lambda response, request: 0)


class TestWsgi:
    def test_a_response_that_starts_late_or_twice_is_charged_once(self, limiter: Limiter) -> None:
        def app(environ: Any, start_response: Any) -> Any:
            yield b""
            start_response("200 OK", [])
            try:
                raise ValueError
            except ValueError:
                start_response("500 No", [("X", "y")], sys.exc_info())
            yield b"no"

        started: list[Any] = []
        limited = ratelimit_rs.wsgi.RateLimitMiddleware(app, limiter, ANN, after=lambda response, environ: 2)
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/"}
        assert b"".join(limited(environ, lambda *start: started.append(start))) == b"no"
        fields = [("RateLimit-Policy", '"default";q=2;w=60'), ("RateLimit", '"default";r=0;t=60')]
        assert started[0] == ("200 OK", fields)
        assert started[1][:2] == ("500 No", [("X", "y"), *fields])
        assert started[1][2][0] is ValueError

    def test_a_refusal_has_the_phrase_of_its_status(self, limiter: Limiter) -> None:
        limiter.allow("ann", 2)
        started: list[Any] = []
        limited = ratelimit_rs.wsgi.RateLimitMiddleware(lambda *_: [], limiter, ANN, headers="none", body="none")
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/"}
        assert list(limited(environ, lambda *start: started.append(start))) == [b""]
        headers = [("Retry-After", "60"), ("Cache-Control", "no-store"), ("Content-Length", "0")]
        assert started == [("429 Too Many Requests", headers)]


class TestFlask:
    def test_a_view_may_have_a_limit_of_its_own_or_none(self, limiter: Limiter) -> None:
        app = flask.Flask("test")
        limits = ratelimit_rs.flask.RateLimit(limiter, ClientIp(), headers="x-ratelimit")
        limits.init_app(app)
        seldom = Limiter(Policy.parse("1/m", name="seldom"), Store.memory(), clock=ManualClock())

        @app.get("/")
        def hello() -> str:
            return "hello"

        @app.get("/seldom")
        @limits.limit(seldom, lambda request: request.args["user"], body="json")
        def view() -> str:
            return "seldom"

        @app.get("/free")
        @limits.exempt
        def free() -> str:
            return "free"

        client = app.test_client()
        assert [client.get("/free").status_code for _ in range(5)] == [200] * 5
        response = client.get("/seldom?user=ann")
        # The inner limiter's numbers are told, and both are charged.
        assert (response.status_code, response.headers["X-RateLimit-Limit"]) == (200, "1")
        refused = client.get("/seldom?user=ann")
        assert (refused.status_code, refused.json["error"]) == (429, "Too many requests")
        assert refused.headers.getlist("X-RateLimit-Limit") == ["1"]
        assert client.get("/").status_code == 429
        assert client.get("/missing").status_code == 429

    def test_a_view_that_aborts_is_charged_by_its_response(self, limiter: Limiter) -> None:
        app = flask.Flask("test")
        limits = ratelimit_rs.flask.RateLimit(None, ANN)

        @app.get("/")
        @limits.limit(limiter, after=lambda response, request: 1 if response.status_code == 401 else 0)
        def login() -> str:
            if flask.request.args.get("password") != "secret":
                flask.abort(401)
            return "hello"

        client = app.test_client()
        assert [client.get("/?password=secret").status_code for _ in range(5)] == [200] * 5
        aborted = client.get("/")
        assert (aborted.status_code, aborted.headers["RateLimit"]) == (401, '"default";r=1;t=60')
        assert [client.get("/").status_code for _ in range(3)] == [401, 429, 429]

    def test_a_key_may_be_what_the_application_has_put_into_g(self, limiter: Limiter) -> None:
        app = flask.Flask("test")

        @app.before_request
        def identify() -> None:
            flask.g.user = flask.request.args.get("user")

        ratelimit_rs.flask.RateLimit(limiter, Key.user(), app=app)
        app.add_url_rule("/", view_func=lambda: "hello")
        client = app.test_client()
        for user in ("ann", "bob"):
            assert [client.get(f"/?user={user}").status_code for _ in range(3)] == [200, 200, 429]


def view_cost(request: Any) -> int:
    """For the settings of Django, by its path."""
    return 2


class TestDjango:
    def test_the_settings_may_name_what_is_to_be_imported(self, limiter: Limiter) -> None:
        stack = stacks.DjangoStack(limiter, ANN, cost=f"{__name__}.view_cost")
        assert stack.send().headers["RateLimit"] == '"default";r=0;t=60'

    @pytest.mark.parametrize("options", [None, {}, {"limiter": 5}, []], ids=repr)
    def test_settings_that_are_missing_are_told(self, options: Any) -> None:
        with (
            override_settings(MIDDLEWARE=["ratelimit_rs.django.RateLimitMiddleware"], RATELIMIT=options),
            pytest.raises(ImproperlyConfigured, match="RATELIMIT must be a dict with a limiter and a key"),
        ):
            Client().handler.load_middleware()

    def test_a_user_who_is_logged_in_is_the_key(self, limiter: Limiter) -> None:
        class User:
            def __init__(self, pk: int | None) -> None:
                self.pk, self.is_authenticated = pk, pk is not None

        class Request:
            def __init__(self, pk: int | None) -> None:
                self.user = User(pk)
                self.META = {"REMOTE_ADDR": "192.0.2.1"}
                self.headers: dict[str, str] = {}

        key = Key.first(Key.user(), ClientIp())
        assert key.of(ratelimit_rs.django.DjangoRequest(Request(7))) == "0:7"
        assert key.of(ratelimit_rs.django.DjangoRequest(Request(None))) == "1:192.0.2.1"


@pytest.mark.parametrize(("module", "missing"), [("fastapi", "fastapi"), ("flask", "flask"), ("django", "django")])
def test_a_framework_that_is_not_there_is_told_with_what_to_install(module: str, missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; import ratelimit_rs.asgi, ratelimit_rs.wsgi, ratelimit_rs.{module}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert f"pip install 'ratelimit_rs[{module}]'" in ended.stderr
