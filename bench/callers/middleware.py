"""One request after another through a middleware from Python, in memory, so that the middleware is what is measured.

    middleware.py WAY     reads a number per line, makes so many requests, prints the nanoseconds they took
"""

import asyncio
import sys
import time
from collections.abc import Callable

MANY = 1_000_000

Run = Callable[[int], None]


def ours() -> tuple[object, object]:
    from ratelimit_rs import Limiter, Policy
    from ratelimit_rs.http import ClientIp

    return Limiter(Policy.fixed_window(MANY, 3600), "memory:"), ClientIp()


def starlette(kind: str | None) -> Run:
    """A Starlette application alone, behind our middleware, or behind slowapi's."""
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def hello(request: object) -> PlainTextResponse:
        return PlainTextResponse("hello")

    app = Starlette(routes=[Route("/", hello)])
    if kind == "ours":
        from ratelimit_rs.asgi import RateLimitMiddleware

        limiter, key = ours()
        app.add_middleware(RateLimitMiddleware, limiter=limiter, key=key)
    elif kind == "slowapi":
        from slowapi import Limiter
        from slowapi.middleware import SlowAPIASGIMiddleware
        from slowapi.util import get_remote_address

        app.state.limiter = Limiter(get_remote_address, default_limits=[f"{MANY}/hour"], headers_enabled=True)
        app.add_middleware(SlowAPIASGIMiddleware)
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": "/", "raw_path": b"/", "root_path": "", "query_string": b"", "headers": [(b"host", b"localhost")],
        "client": ("192.0.2.1", 50000), "server": ("127.0.0.1", 80),
    }  # fmt: skip

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b""}

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            check(message["status"], dict(message["headers"]), b"ratelimit", b"x-ratelimit-limit", kind)  # type: ignore[call-overload]

    async def requests(count: int) -> None:
        for _ in range(count):
            await app(dict(scope), receive, send)

    loop = asyncio.new_event_loop()
    return lambda count: loop.run_until_complete(requests(count))


def through_wsgi(app: Callable[..., object], kind: str | None, peer_tells: bool = True) -> Run:
    import io

    environ = {
        "REQUEST_METHOD": "GET", "PATH_INFO": "/", "SCRIPT_NAME": "", "QUERY_STRING": "", "REMOTE_ADDR": "192.0.2.1",
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "localhost",
        "wsgi.url_scheme": "http", "wsgi.version": (1, 0), "wsgi.errors": sys.stderr, "wsgi.multithread": False,
        "wsgi.multiprocess": False, "wsgi.run_once": False,
    }  # fmt: skip

    def start_response(status: str, headers: list[tuple[str, str]], *_: object) -> None:
        names = {name.lower(): value for name, value in headers}
        check(int(status[:3]), names, "ratelimit", "x-ratelimit-limit" if peer_tells else None, kind)

    def requests(count: int) -> None:
        for _ in range(count):
            body = app({**environ, "wsgi.input": io.BytesIO()}, start_response)
            b"".join(body)  # type: ignore[arg-type]
            if close := getattr(body, "close", None):
                close()

    return requests


def flask(kind: str | None) -> Run:
    """A Flask application alone, with our extension, or with Flask-Limiter."""
    from flask import Flask

    app = Flask("bench")
    app.add_url_rule("/", view_func=lambda: "hello")
    if kind == "ours":
        from ratelimit_rs.flask import RateLimit

        RateLimit(*ours(), app=app)  # type: ignore[arg-type]
    elif kind == "flask-limiter":
        from flask_limiter import Limiter
        from flask_limiter.util import get_remote_address

        options = {"default_limits": [f"{MANY}/hour"], "storage_uri": "memory://", "headers_enabled": True}
        Limiter(get_remote_address, app=app, **options)  # type: ignore[arg-type]
    return through_wsgi(app.wsgi_app, kind)


def django(kind: str | None) -> Run:
    """A view of Django alone, behind our decorator, or behind django-ratelimit's, which sends no headers."""
    import django
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import path

    def view(request: object) -> HttpResponse:
        return HttpResponse("hello")

    settings.configure(ALLOWED_HOSTS=["*"])
    django.setup()
    if kind == "ours":
        from ratelimit_rs.django import ratelimit

        view = ratelimit(*ours())(view)  # type: ignore[arg-type]
    elif kind == "django-ratelimit":
        from django_ratelimit.decorators import ratelimit as theirs

        view = theirs(key="ip", rate=f"{MANY}/h")(view)
    settings.ROOT_URLCONF = (path("", view),)
    return through_wsgi(get_wsgi_application(), kind, peer_tells=False)


def check(status: object, headers: dict[object, object], ours: object, theirs: object, kind: str | None) -> None:
    """What is not limited, or tells nothing, would be no comparison."""
    told = {None: None, "ours": ours}.get(kind, theirs)
    if status != 200 or (told is not None and told not in headers):
        raise SystemExit(f"{kind}: {status} {headers}")


framework, _, kind = sys.argv[1].partition(":")
run = {"starlette": starlette, "flask": flask, "django": django}[framework](kind or None)
run(1)
for line in sys.stdin:
    started = time.perf_counter_ns()
    run(int(line))
    print(time.perf_counter_ns() - started, flush=True)
