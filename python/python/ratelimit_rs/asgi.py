"""A middleware for whatever speaks ASGI: Starlette, FastAPI, Quart, or a function of one's own.

    app.add_middleware(RateLimitMiddleware, limiter=Limiter(Policy.parse("100/m")), key=ClientIp())
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any

from . import http
from ._gate import Admission, Gate, run_async
from ._native import Refusal

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._gate import AnyKey, AnyLimiter
    from .http import Options

__all__ = ["AsgiRequest", "RateLimitMiddleware"]

_Scope = MutableMapping[str, Any]
_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


class AsgiRequest(http.Request):
    """The scope of a request, or an object with one: Starlette's `Request`."""

    __slots__ = ("scope",)

    def __init__(self, scope: Any, native: Any = None) -> None:
        super().__init__(scope if native is None else native)
        self.scope = scope

    @property
    def peer(self) -> str | None:
        client = self.scope.get("client")
        return client[0] if client else None

    @property
    def route(self) -> str:
        return f"{self.scope.get('method', 'GET')} {self.scope['path']}"

    def lines(self, name: str) -> list[str]:
        wanted = name.lower().encode("latin-1")
        return [value.decode("latin-1") for found, value in self.scope["headers"] if found.lower() == wanted]

    def attribute(self, name: str) -> Any:
        state = self.scope.get("state") or {}
        return state[name] if name in state else self.scope.get(name)


class RateLimitMiddleware:
    """Asks a limiter before a request reaches the application.

    An allowed request gets the application's response with the rate limit headers added; a header that the response has
    already is left alone, so of two limiters the inner one's stay. A refused request never reaches the application: it is
    answered with 429, `Retry-After`, the headers and a problem+json body, or with 503 where the limiter refuses only because
    its store is away (`on_error="closed"`). WebSockets are refused before they are accepted.

    `limiter` is a `Limiter`, one of `ratelimit_rs.aio`, or a function of the scope that gives the one for it, or None. `key`
    is an `http.Key` such as `ClientIp()`, or a function of the scope. For `options` see `http.Options`. Every
    function may be a coroutine function; a limiter that has to ask a server does so in a thread.
    """

    def __init__(self, app: _App, limiter: AnyLimiter, key: AnyKey, **options: Unpack[Options]) -> None:
        self.app = app
        self._gate = Gate(limiter, key, **options)

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        request = AsgiRequest(scope)
        outcome = await run_async(self._gate.ask(request))
        if isinstance(outcome, Refusal):
            answer = _refuse if scope["type"] == "http" else _refuse_websocket
            return await answer(outcome, scope, receive, send)
        return await self.app(scope, receive, send if outcome is None else self._sender(outcome, request, send))

    def _sender(self, admission: Admission, request: AsgiRequest, send: _Send) -> _Send:
        """Sends on what the application sends, with the headers added."""

        async def sender(message: _Message) -> None:
            if message["type"] == "http.response.start":
                sent = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", [])]
                response = http.Response(message["status"], sent)
                await run_async(self._gate.settle(admission, response, request))
            if message["type"] in ("http.response.start", "websocket.accept"):
                present = list(message.get("headers", []))
                names = {name.lower() for name, _ in present}
                added = [field for field in _fields(admission.headers().items()) if field[0] not in names]
                message = {**message, "headers": present + added}
            await send(message)

        return sender


async def _refuse(refusal: Refusal, scope: _Scope, receive: _Receive, send: _Send) -> None:
    body = refusal.body.encode()
    headers = _fields([*refusal.headers.items(), ("Content-Length", str(len(body)))])
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def _refuse_websocket(refusal: Refusal, scope: _Scope, receive: _Receive, send: _Send) -> None:
    await receive()
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        # The server makes 403 of it.
        return await send({"type": "websocket.close", "code": 1008, "reason": "rate limit"})
    headers = _fields(refusal.headers.items())
    await send({"type": "websocket.http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": refusal.body.encode()})


def _fields(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
