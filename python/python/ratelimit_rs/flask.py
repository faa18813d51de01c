"""An extension for Flask, and a decorator for views.

    limits = RateLimit(Limiter(Policy.parse("100/m")), ClientIp(), app=app)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

try:
    import flask
except ImportError as _error:
    raise ImportError("ratelimit_rs.flask needs Flask: pip install 'ratelimit_rs[flask]'") from _error

from ._gate import Gate, run
from ._native import Refusal
from .wsgi import WsgiRequest

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._gate import AnyKey, AnyLimiter
    from .http import Options

__all__ = ["FlaskRequest", "RateLimit"]

_View = TypeVar("_View", bound=Callable[..., Any])


class FlaskRequest(WsgiRequest):
    """Flask's request, with `flask.g` for what the application has put there."""

    __slots__ = ()

    def attribute(self, name: str) -> Any:
        return flask.g.get(name)


class RateLimit:
    """Asks a limiter before a view runs: before every view of an application, and by `limit` before single ones.

    An allowed request gets the response of the view with the rate limit headers added; a header that the response has
    already is left alone, and of two limiters the inner one's are told. A refused request never reaches the view: it is
    answered with 429, `Retry-After`, the headers and a problem+json body, or with 503 where the limiter refuses only because
    its store is away (`on_error="closed"`).

    `limiter` is a `Limiter`, a function of Flask's request that gives the one for it, or None where only single views are
    limited. `key` is an `http.Key` such as `ClientIp()`, or a function of Flask's request. For `options` see
    `http.Options`. Without `app`, call `init_app`.
    """

    def __init__(
        self, limiter: AnyLimiter | None, key: AnyKey, app: flask.Flask | None = None, **options: Unpack[Options]
    ) -> None:
        self._key, self._options = key, options
        self._gate = Gate(_unlimited if limiter is None else limiter, key, **options)
        if app is not None:
            self.init_app(app)

    def init_app(self, app: flask.Flask) -> None:
        """Asks before every view of `app` from now on."""
        app.before_request(self._before_request)

    def limit(
        self, limiter: AnyLimiter, key: AnyKey | None = None, **options: Unpack[Options]
    ) -> Callable[[_View], _View]:
        """Decorates a view, below `@app.route`; what is not given is as for the application."""
        together = cast("Options", {**self._options, **options})
        gate = Gate(limiter, self._key if key is None else key, **together)

        def decorate(view: _View) -> _View:
            @functools.wraps(view)
            def limited(*arguments: Any, **named: Any) -> Any:
                refused = _ask(gate)
                return flask.current_app.ensure_sync(view)(*arguments, **named) if refused is None else refused

            return cast("_View", limited)

        return decorate

    def exempt(self, view: _View) -> _View:
        """Decorates a view that the application's limit is not for, such as one that tells whether it is alive."""
        view._ratelimit_exempt = True  # type: ignore[attr-defined]
        return view

    def _before_request(self) -> flask.Response | None:
        view = flask.current_app.view_functions.get(flask.request.endpoint or "")
        return None if getattr(view, "_ratelimit_exempt", False) else _ask(self._gate)


def _ask(gate: Gate) -> flask.Response | None:
    """The answer to a request that does not go ahead; one that does has its response looked at."""
    request = FlaskRequest(flask.request.environ, flask.request)
    outcome = run(gate.ask(request))
    if isinstance(outcome, Refusal):
        return flask.Response(outcome.body, outcome.status, outcome.headers)
    if outcome is not None:
        admitted = flask.g.setdefault("_ratelimit_admitted", [])
        admitted.append((gate, outcome, request))
        if len(admitted) == 1:
            flask.after_this_request(_finish)
    return None


def _finish(response: flask.Response) -> flask.Response:
    # The innermost limiter speaks first.
    for gate, admission, request in reversed(flask.g.pop("_ratelimit_admitted")):
        run(gate.settle(admission, response, request))
        for name, value in admission.headers().items():
            response.headers.setdefault(name, value)
    return response


def _unlimited(_: Any) -> None:
    return None
