"""A dependency for FastAPI, where a limit belongs to some routes; for all of them, `ratelimit_rs.asgi` has a middleware.

    @app.get("/reports", dependencies=[Depends(RateLimit(Limiter(Policy.parse("100/m")), ClientIp()))])
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

try:
    from fastapi import FastAPI, HTTPException, Request, Response
    from fastapi.requests import HTTPConnection
except ImportError as _error:
    raise ImportError("ratelimit_rs.fastapi needs FastAPI: pip install 'ratelimit_rs[fastapi]'") from _error

from ._gate import Admission, Gate, run_async
from ._native import Decision, Refusal
from .asgi import AsgiRequest

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._gate import AnyKey, AnyLimiter
    from .http import Options

__all__ = ["Charge", "RateLimit", "Refused", "install"]


class Refused(HTTPException):
    """A request that does not go ahead. `refusal` is the whole answer, which `install` has sent.

    Without `install` FastAPI sends the status and the headers, and of the problem the member `detail`.
    """

    refusal: Refusal

    def __init__(self, refusal: Refusal) -> None:
        problem = json.loads(refusal.body or "{}")
        super().__init__(refusal.status, problem.get("detail", HTTPStatus(refusal.status).phrase), refusal.headers)
        self.refusal = refusal


def install(app: FastAPI) -> None:
    """Has refusals answered with the body that a `RateLimit` was asked for."""

    async def answer(request: Request, refused: Refused) -> Response:
        refusal = refused.refusal
        return Response(refusal.body, refusal.status, refusal.headers)

    app.add_exception_handler(Refused, answer)  # type: ignore[arg-type]


class Charge:
    """What a route may know of its request's charge: the parameter of a route that depends on a `RateLimit`.

    `decision` is None where the request is not limited.
    """

    def __init__(self, admission: Admission | None, response: Response) -> None:
        self._admission, self._response = admission, response
        self._tell()

    @property
    def decision(self) -> Decision | None:
        """What was decided, with the numbers after `settle`."""
        return None if self._admission is None else self._admission.decision

    async def settle(self, cost: int) -> None:
        """Gives back or takes the difference to what the request has cost after all, 0 or more, as far as it is there.

        A store that is away changes nothing about the response.
        """
        if self._admission is not None:
            await run_async(self._admission.settle(cost))
            self._tell()

    def _tell(self) -> None:
        if self._admission is not None:
            self._response.headers.update(self._admission.headers())


class RateLimit:
    """Asks a limiter before a route runs. `Depends(…)` on it, at a route, at a router or for all of an application.

    A refused request never reaches the route: it raises `Refused`, which is answered with 429, `Retry-After` and the rate
    limit headers, or with 503 where the limiter refuses only because its store is away (`on_error="closed"`); after
    `install(app)` with a problem+json body, too. An allowed one gets the headers added, unless the route raises or makes
    its own `Response`: then FastAPI drops them.

    `limiter` is a `Limiter`, one of `ratelimit_rs.aio`, or a function of the request that gives the one for it, or None.
    `key` is an `http.Key` such as `ClientIp()`, or a function of the request. For `options` see
    `http.Options`; there is no `after`, since a dependency does not see the response: a route that knows what
    its request has cost takes the `Charge`.
    """

    def __init__(self, limiter: AnyLimiter, key: AnyKey, **options: Unpack[Options]) -> None:
        self._gate = Gate(limiter, key, **options)
        if self._gate.after is not None:
            raise TypeError("a dependency does not see the response: settle the Charge in the route instead of after")

    async def __call__(self, connection: HTTPConnection, response: Response) -> Charge:
        """Asks for one request; FastAPI calls it."""
        outcome = await run_async(self._gate.ask(AsgiRequest(connection.scope, connection)))
        if isinstance(outcome, Refusal):
            raise Refused(outcome)
        return Charge(outcome, response)
