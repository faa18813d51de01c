"""One small application in each framework, behind the framework's own way to limit it; nothing is asked that is not real."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import django
import fastapi
import flask
import httpx2 as httpx
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpResponse
from django.test import Client, override_settings
from django.urls import path as django_path
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import ratelimit_rs.asgi
import ratelimit_rs.django
import ratelimit_rs.fastapi
import ratelimit_rs.flask
import ratelimit_rs.wsgi

Headers = list[tuple[str, str]]


@dataclass
class Answer:
    status: int
    headers: httpx.Headers
    body: str


@dataclass
class Site:
    """What every application does: says hello, and counts. `/own` has a header of its own, `/missing` raises."""

    status: int = 200
    calls: int = 0
    meanwhile: Callable[[], None] = lambda: None
    own: dict[str, str] = field(default_factory=dict)

    def answer(self) -> tuple[str, int, dict[str, str]]:
        self.calls += 1
        self.meanwhile()
        return "hello", self.status, self.own


class Stack:
    """An application behind a limiter; `send` is a request of the framework's own test client."""

    asynchronous = False
    """Whether functions that the middleware is given may be coroutine functions."""

    def __init__(self, limiter: Any, key: Any, **options: Any) -> None:
        self.site = Site()
        self.build(limiter, key, **options)

    def build(self, limiter: Any, key: Any, **options: Any) -> None:
        raise NotImplementedError

    def send(
        self, path: str = "/", headers: Headers | None = None, peer: str = "198.51.100.7", method: str = "GET"
    ) -> Answer:
        raise NotImplementedError


def answered(response: httpx.Response) -> Answer:
    return Answer(response.status_code, response.headers, response.text)


class StarletteStack(Stack):
    asynchronous = True

    def build(self, limiter: Any, key: Any, **options: Any) -> None:
        async def hello(request: Request) -> PlainTextResponse:
            body, status, headers = self.site.answer()
            return PlainTextResponse(body, status, headers)

        routes = [Route(path, hello, methods=["GET", "POST"]) for path in ("/", "/free")]
        self.app: Any = Starlette(routes=routes)
        self.app.add_middleware(ratelimit_rs.asgi.RateLimitMiddleware, limiter=limiter, key=key, **options)

    def send(
        self, path: str = "/", headers: Headers | None = None, peer: str = "198.51.100.7", method: str = "GET"
    ) -> Answer:
        return answered(TestClient(self.app, client=(peer, 50000)).request(method, path, headers=headers))


class FastApiStack(StarletteStack):
    def build(self, limiter: Any, key: Any, **options: Any) -> None:
        self.app = fastapi.FastAPI()

        @self.app.api_route("/", methods=["GET", "POST"])
        @self.app.get("/free")
        def hello() -> fastapi.Response:
            body, status, headers = self.site.answer()
            return fastapi.Response(body, status, headers)

        self.app.add_middleware(ratelimit_rs.asgi.RateLimitMiddleware, limiter=limiter, key=key, **options)


class WsgiStack(Stack):
    def build(self, limiter: Any, key: Any, **options: Any) -> None:
        def hello(environ: dict[str, Any], start_response: Any) -> list[bytes]:
            body, status, headers = self.site.answer()
            start_response(f"{status} whatever", list(headers.items()))
            return [body.encode()]

        self.app: Any = ratelimit_rs.wsgi.RateLimitMiddleware(hello, limiter, key, **options)

    def send(
        self, path: str = "/", headers: Headers | None = None, peer: str = "198.51.100.7", method: str = "GET"
    ) -> Answer:
        transport = httpx.WSGITransport(app=self.app, remote_addr=peer)
        with httpx.Client(transport=transport, base_url="http://testserver") as client:
            return answered(client.request(method, path, headers=joined(headers)))


class FlaskStack(Stack):
    def build(self, limiter: Any, key: Any, **options: Any) -> None:
        self.app = flask.Flask("stacks")
        self.app.testing = True

        @self.app.route("/", methods=["GET", "POST"])
        @self.app.route("/free")
        def hello() -> tuple[str, int, dict[str, str]]:
            return self.site.answer()

        ratelimit_rs.flask.RateLimit(limiter, key, app=self.app, **options)

    def send(
        self, path: str = "/", headers: Headers | None = None, peer: str = "198.51.100.7", method: str = "GET"
    ) -> Answer:
        environ = {"REMOTE_ADDR": peer}
        response = self.app.test_client().open(path, method=method, headers=joined(headers), environ_base=environ)
        return Answer(response.status_code, httpx.Headers(list(response.headers)), response.text)


class FlaskViewStack(FlaskStack):
    """The decorator alone, on an asynchronous view."""

    def build(self, limiter: Any, key: Any, **options: Any) -> None:
        self.app = flask.Flask("stacks")
        self.app.testing = True
        limits = ratelimit_rs.flask.RateLimit(None, key, app=self.app)

        @self.app.route("/", methods=["GET", "POST"])
        @self.app.route("/free")
        @limits.limit(limiter, **options)
        async def hello() -> tuple[str, int, dict[str, str]]:
            return self.site.answer()


class DjangoStack(Stack):
    def build(self, limiter: Any, key: Any, **options: Any) -> None:
        middleware = ["ratelimit_rs.django.RateLimitMiddleware"]
        with override_settings(MIDDLEWARE=middleware, RATELIMIT={"limiter": limiter, "key": key, **options}):
            self.client = self.loaded()
        self.route(self.hello)

    def route(self, view: Any) -> None:
        self.routes = (django_path("", view), django_path("free", view))

    def hello(self, request: Any) -> HttpResponse:
        body, status, headers = self.site.answer()
        return HttpResponse(body, status=status, headers=headers)

    def loaded(self) -> Any:
        client = Client()
        client.handler.load_middleware()
        return client

    def send(
        self, path: str = "/", headers: Headers | None = None, peer: str = "198.51.100.7", method: str = "GET"
    ) -> Answer:
        with override_settings(ROOT_URLCONF=self.routes):
            return django_answer(self.client.generic(method, path, headers=joined(headers), REMOTE_ADDR=peer))


class DjangoViewStack(DjangoStack):
    """The decorator alone."""

    def build(self, limiter: Any, key: Any, **options: Any) -> None:
        self.route(ratelimit_rs.django.ratelimit(limiter, key, **options)(self.hello))
        self.client = Client()


class Handler(ASGIHandler):  # type: ignore[misc]
    """Keeps the body, which Django leaves open where an exception goes through it."""

    body: Any = None

    def create_request(self, scope: Any, body_file: Any) -> Any:
        self.body = body_file
        return super().create_request(scope, body_file)


class AsyncDjangoStack(DjangoStack):
    """Django as an ASGI server runs it."""

    asynchronous = True

    async def hello(self, request: Any) -> HttpResponse:  # type: ignore[override]
        return super().hello(request)

    def loaded(self) -> Any:
        return Handler()

    def send(
        self, path: str = "/", headers: Headers | None = None, peer: str = "198.51.100.7", method: str = "GET"
    ) -> Answer:
        with override_settings(ROOT_URLCONF=self.routes, DEBUG_PROPAGATE_EXCEPTIONS=True):
            try:
                return answered(TestClient(self.client, client=(peer, 50000)).request(method, path, headers=headers))
            finally:
                self.client.body.close()


class AsyncDjangoViewStack(AsyncDjangoStack):
    def build(self, limiter: Any, key: Any, **options: Any) -> None:
        self.route(ratelimit_rs.django.ratelimit(limiter, key, **options)(self.hello))
        self.client = self.loaded()


STACKS = [
    StarletteStack, FastApiStack, WsgiStack, FlaskStack, FlaskViewStack,
    DjangoStack, DjangoViewStack, AsyncDjangoStack, AsyncDjangoViewStack,
]  # fmt: skip

def django_answer(response: Any) -> Answer:
    return Answer(response.status_code, httpx.Headers(list(response.items())), response.content.decode())


def joined(headers: Headers | None) -> dict[str, str]:
    """What a WSGI server makes of headers: one line of all of a name."""
    lines: dict[str, str] = {}
    for name, value in headers or []:
        lines[name] = f"{lines[name]},{value}" if name in lines else value
    return lines


if not settings.configured:
    settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="of the tests")
    django.setup()
