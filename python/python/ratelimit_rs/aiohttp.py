"""A client middleware for aiohttp that keeps its requests under an API's limits.

```python
import aiohttp
from ratelimit_rs.aiohttp import RateLimitMiddleware

async with aiohttp.ClientSession(middlewares=(RateLimitMiddleware("github"),)) as session:
    await session.get("https://api.github.com/user")
```
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

try:
    import aiohttp
except ImportError as _missing:  # pragma: no cover
    raise ImportError("ratelimit_rs.aiohttp needs aiohttp 3.12 or later: pip install aiohttp") from _missing

from .outbound import Event, Governor, _emitter, _exchange, _run_async

__all__ = ["RateLimitMiddleware"]


class RateLimitMiddleware:
    """Sends what a governor lets go, waits in the event loop where it says so, and sends again what may be.

    `governor` is a `Governor` or the name of a preset, for which `options` are those of `Governor`. `events` is called
    with each event of `ratelimit_rs.outbound`. Options for some requests only are those of
    `ratelimit_rs.outbound.request_options`. A body that cannot be sent twice is not sent twice.

    Raises `RateLimitExceeded`, and `DelayExceeded` where a wait would be longer than `max_delay`.
    """

    def __init__(
        self,
        governor: Governor | str = "default",
        *,
        events: Callable[[Event], None] | None = None,
        sleeper: Callable[[float], Awaitable[None] | None] | None = None,
        **options: Any,
    ) -> None:
        self.governor = Governor(governor, **options) if isinstance(governor, str) else governor
        self._emit = _emitter(events)
        self._sleeper = sleeper

    async def __call__(
        self,
        request: aiohttp.ClientRequest,
        handler: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]],
    ) -> aiohttp.ClientResponse:
        """Sends one request."""

        async def send() -> tuple[aiohttp.ClientResponse, int, Any, bytes]:
            response = await handler(request)
            wanted = self.governor.reads_body(response.status)
            wanted = wanted and (response.status >= 400 or "json" in response.headers.get("content-type", ""))
            body = await response.read() if wanted else b""
            return response, response.status, list(response.headers.items()), body

        async def drain(response: aiohttp.ClientResponse) -> None:
            try:
                await response.read()
            finally:
                response.release()

        steps = _exchange(
            self.governor,
            request,
            request.method,
            str(request.url),
            request.headers.get("authorization"),
            {},
            _replayable(request.body),
            self._emit,
        )
        response: aiohttp.ClientResponse = await _run_async(self.governor, steps, send, drain, self._sleeper)
        return response


def _replayable(body: Any) -> bool:
    return isinstance(body, (bytes, bytearray, str)) or isinstance(
        body, (aiohttp.payload.BytesPayload, aiohttp.payload.StringPayload)
    ) or not body
