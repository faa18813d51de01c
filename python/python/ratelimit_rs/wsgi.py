"""A middleware for whatever speaks WSGI: Flask, Bottle, Pyramid, or a function of one's own.

    app = RateLimitMiddleware(app, Limiter(Policy.parse("100/m")), ClientIp())
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from . import http
from ._gate import Admission, Gate, run
from ._native import Refusal

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._gate import AnyKey, AnyLimiter
    from .http import Options

__all__ = ["RateLimitMiddleware", "WsgiRequest"]

_Environ = dict[str, Any]
_StartResponse = Callable[..., Any]
_App = Callable[[_Environ, _StartResponse], Iterable[bytes]]


class WsgiRequest(http.Request):
    """The environ of a request, or an object with one. The server has joined the lines of a header."""

    __slots__ = ("environ",)

    def __init__(self, environ: _Environ, native: Any = None) -> None:
        super().__init__(environ if native is None else native)
        self.environ = environ

    @property
    def peer(self) -> str | None:
        return self.environ.get("REMOTE_ADDR")

    @property
    def route(self) -> str:
        environ = self.environ
        return f"{environ['REQUEST_METHOD']} {environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"

    def lines(self, name: str) -> list[str]:
        value = self.environ.get(f"HTTP_{name.upper().replace('-', '_')}")
        return [] if value is None else [value]

    def attribute(self, name: str) -> Any:
        return self.environ.get(name)


class RateLimitMiddleware:
    """Asks a limiter before a request reaches the application.

    An allowed request gets the application's response with the rate limit headers added; a header that the response has
    already is left alone, so of two limiters the inner one's stay. A refused request never reaches the application: it is
    answered with 429, `Retry-After`, the headers and a problem+json body, or with 503 where the limiter refuses only because
    its store is away (`on_error="closed"`).

    `limiter` is a `Limiter`, or a function of the environ that gives the one for it, or None. `key` is an `http.Key` such as
    `ClientIp()`, or a function of the environ. For `options` see `http.Options`.
    """

    def __init__(self, app: _App, limiter: AnyLimiter, key: AnyKey, **options: Unpack[Options]) -> None:
        self.app = app
        self._gate = Gate(limiter, key, **options)

    def __call__(self, environ: _Environ, start_response: _StartResponse) -> Iterable[bytes]:
        request = WsgiRequest(environ)
        outcome = run(self._gate.ask(request))
        if isinstance(outcome, Refusal):
            return _refuse(outcome, environ, start_response)
        return self.app(environ, start_response if outcome is None else self._starter(outcome, request, start_response))

    def _starter(self, admission: Admission, request: WsgiRequest, start_response: _StartResponse) -> _StartResponse:
        """Starts the response as the application does, with the headers added."""
        settled = False

        def starter(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            nonlocal settled
            # A response that failed midway is started again.
            if not settled:
                settled = True
                run(self._gate.settle(admission, http.Response(int(status[:3]), headers), request))
            names = {name.lower() for name, _ in headers}
            added = [field for field in admission.headers().items() if field[0].lower() not in names]
            return start_response(status, [*headers, *added], *exc_info)

        return starter


def _refuse(refusal: Refusal, environ: _Environ, start_response: _StartResponse) -> Iterable[bytes]:
    body = refusal.body.encode()
    headers = [*refusal.headers.items(), ("Content-Length", str(len(body)))]
    start_response(f"{refusal.status} {HTTPStatus(refusal.status).phrase}", headers)
    return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]
