"""A middleware for Django, synchronous and asynchronous, and a decorator for views.

    MIDDLEWARE = [..., "ratelimit_rs.django.RateLimitMiddleware"]
    RATELIMIT = {"limiter": Limiter(Policy.parse("100/m")), "key": ClientIp()}
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

try:
    from asgiref.sync import iscoroutinefunction, markcoroutinefunction
    from django import conf  # type: ignore[import-untyped, unused-ignore]
    from django.core.exceptions import ImproperlyConfigured  # type: ignore[import-untyped, unused-ignore]
    from django.http import HttpRequest, HttpResponse  # type: ignore[import-untyped, unused-ignore]
    from django.utils.module_loading import import_string  # type: ignore[import-untyped, unused-ignore]
except ImportError as _error:
    raise ImportError("ratelimit_rs.django needs Django: pip install 'ratelimit_rs[django]'") from _error

from ._gate import Admission, Gate, Steps, run, run_async
from ._native import Refusal
from .wsgi import WsgiRequest

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._gate import AnyKey, AnyLimiter
    from .http import Options

__all__ = ["DjangoRequest", "RateLimitMiddleware", "ratelimit"]

_View = TypeVar("_View", bound=Callable[..., Any])


class DjangoRequest(WsgiRequest):
    """Django's request, with its attributes for what the application has put there."""

    __slots__ = ()

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request.META, request)

    @property
    def route(self) -> str:
        return f"{self.native.method} {self.native.path}"

    def attribute(self, name: str) -> Any:
        return getattr(self.native, name, None)


class RateLimitMiddleware:
    """Asks a limiter before a request reaches its view.

    An allowed request gets the response of the view with the rate limit headers added; a header that the response has
    already is left alone, so of two limiters the inner one's stay. A refused request never reaches the view: it is answered
    with 429, `Retry-After`, the headers and a problem+json body, or with 503 where the limiter refuses only because its
    store is away (`on_error="closed"`).

    The setting `RATELIMIT` is a dict with `limiter` and `key`, and of `http.Options` what is wanted. The limiter
    is a `Limiter`, or a function of the request that gives the one for it, or None; where the application is asynchronous it
    may be one of `ratelimit_rs.aio`. The key is an `http.Key` such as `ClientIp()`, or a function of the request. Texts are
    paths to import, such as `"shop.limits.api"`, for `limiter`, `key`, `cost`, `skip` and `after`.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        options = getattr(conf.settings, "RATELIMIT", None)
        if not isinstance(options, dict) or not {"limiter", "key"} <= options.keys():
            raise ImproperlyConfigured("the setting RATELIMIT must be a dict with a limiter and a key")
        paths = {name: import_string(options[name]) for name in _IMPORTED & options.keys() if isinstance(options[name], str)}
        self._gate = Gate(**{**options, **paths})
        self._limited = _limited(self._gate, get_response)
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        return self._limited(request)


_IMPORTED = {"limiter", "key", "cost", "skip", "after"}


def ratelimit(limiter: AnyLimiter, key: AnyKey, **options: Unpack[Options]) -> Callable[[_View], _View]:
    """Decorates a view, synchronous or asynchronous, as `RateLimitMiddleware` does all of them.

    For a class use `@method_decorator(ratelimit(…), name="dispatch")`.
    """
    gate = Gate(limiter, key, **options)

    def decorate(view: _View) -> _View:
        return cast("_View", functools.wraps(view)(_limited(gate, view)))

    return decorate


def _limited(gate: Gate, respond: Callable[..., Any]) -> Callable[..., Any]:
    if iscoroutinefunction(respond):

        async def limited_coroutine(request: HttpRequest, *arguments: Any, **named: Any) -> Any:
            outcome = await run_async(gate.ask(DjangoRequest(request)))
            if isinstance(outcome, Refusal):
                return _answer(outcome)
            response = await respond(request, *arguments, **named)
            return response if outcome is None else await run_async(_finish(gate, outcome, response, request))

        return limited_coroutine

    def limited(request: HttpRequest, *arguments: Any, **named: Any) -> Any:
        outcome = run(gate.ask(DjangoRequest(request)))
        if isinstance(outcome, Refusal):
            return _answer(outcome)
        response = respond(request, *arguments, **named)
        return response if outcome is None else run(_finish(gate, outcome, response, request))

    return limited


def _answer(refusal: Refusal) -> HttpResponse:
    return HttpResponse(refusal.body, status=refusal.status, headers=refusal.headers)


def _finish(gate: Gate, admission: Admission, response: Any, request: HttpRequest) -> Steps[Any]:
    yield from gate.settle(admission, response, DjangoRequest(request))
    for name, value in admission.headers().items():
        response.setdefault(name, value)
    return response
