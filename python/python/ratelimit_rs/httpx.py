"""Transports for httpx that keep its requests under an API's limits.

```python
import httpx
from ratelimit_rs.httpx import RateLimitTransport

client = httpx.Client(transport=RateLimitTransport("github"))
client.get("https://api.github.com/user", extensions={"rate_limit": {"max_delay": 5}})
```
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

try:
    import httpx
except ImportError as _missing:  # pragma: no cover
    raise ImportError("ratelimit_rs.httpx needs httpx: pip install httpx") from _missing

from .outbound import Event, Governor, _emitter, _exchange, _run, _run_async

__all__ = ["AsyncRateLimitTransport", "RateLimitTransport"]

# Bodies that are larger are not read ahead of the caller.
_MAX_BODY = 1 << 20


def _governor(governor: Governor | str, options: Mapping[str, Any]) -> Governor:
    return Governor(governor, **options) if isinstance(governor, str) else governor


def _options(request: httpx.Request) -> Mapping[str, Any]:
    # The option is for this transport and not for the next one.
    options: Mapping[str, Any] = request.extensions.get("rate_limit", {})
    request.extensions = {key: value for key, value in request.extensions.items() if key != "rate_limit"}
    return options


def _replayable(request: httpx.Request) -> bool:
    return isinstance(request.stream, httpx.ByteStream)


def _wants_body(governor: Governor, response: httpx.Response) -> bool:
    if not governor.reads_body(response.status_code):
        return False
    if response.status_code >= 400:
        return True
    length = response.headers.get("content-length", "")
    is_json = "json" in response.headers.get("content-type", "")
    return is_json and (not length.isdigit() or int(length) <= _MAX_BODY)


class RateLimitTransport(httpx.BaseTransport):
    """Sends through another transport what a governor lets go, waits where it says so, and sends again what may be.

    `governor` is a `Governor` or the name of a preset, for which `options` are those of `Governor`. `events` is called
    with each event of `ratelimit_rs.outbound`. A request may have `extensions={"rate_limit": {...}}` with `enabled`,
    `bucket`, `identity`, `max_delay` and `max_retries`. A body that cannot be sent twice is not sent twice.

    Raises `RateLimitExceeded`, and `DelayExceeded` where a wait would be longer than `max_delay`.
    """

    def __init__(
        self,
        governor: Governor | str = "default",
        transport: httpx.BaseTransport | None = None,
        *,
        events: Callable[[Event], None] | None = None,
        sleeper: Callable[[float], None] = time.sleep,
        **options: Any,
    ) -> None:
        self.governor = _governor(governor, options)
        self._transport = transport or httpx.HTTPTransport()
        self._emit = _emitter(events)
        self._sleeper = sleeper

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends one request."""
        options = _options(request)

        def send() -> tuple[httpx.Response, int, Any, bytes]:
            response = self._transport.handle_request(request)
            body = response.read() if _wants_body(self.governor, response) else b""
            return response, response.status_code, response.headers.multi_items(), body

        def drain(response: httpx.Response) -> None:
            try:
                response.read()
            finally:
                response.close()

        authorization = request.headers.get("authorization")
        steps = _exchange(
            self.governor, request, request.method, str(request.url), authorization, options, _replayable(request), self._emit
        )
        response: httpx.Response = _run(steps, send, drain, self._sleeper)
        return response

    def close(self) -> None:
        """Closes the transport that sends."""
        self._transport.close()


class AsyncRateLimitTransport(httpx.AsyncBaseTransport):
    """`RateLimitTransport` for `httpx.AsyncClient`: waits in the event loop, and asks a server in a thread of its own."""

    def __init__(
        self,
        governor: Governor | str = "default",
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        events: Callable[[Event], None] | None = None,
        sleeper: Callable[[float], Awaitable[None] | None] | None = None,
        **options: Any,
    ) -> None:
        self.governor = _governor(governor, options)
        self._transport = transport or httpx.AsyncHTTPTransport()
        self._emit = _emitter(events)
        self._sleeper = sleeper

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends one request."""
        options = _options(request)

        async def send() -> tuple[httpx.Response, int, Any, bytes]:
            response = await self._transport.handle_async_request(request)
            body = await response.aread() if _wants_body(self.governor, response) else b""
            return response, response.status_code, response.headers.multi_items(), body

        async def drain(response: httpx.Response) -> None:
            try:
                await response.aread()
            finally:
                await response.aclose()

        authorization = request.headers.get("authorization")
        steps = _exchange(
            self.governor, request, request.method, str(request.url), authorization, options, _replayable(request), self._emit
        )
        response: httpx.Response = await _run_async(self.governor, steps, send, drain, self._sleeper)
        return response

    async def aclose(self) -> None:
        """Closes the transport that sends."""
        await self._transport.aclose()
