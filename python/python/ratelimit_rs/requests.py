"""An adapter for requests that keeps its requests under an API's limits.

```python
import requests
from ratelimit_rs.requests import RateLimitAdapter

session = requests.Session()
session.mount("https://api.github.com", RateLimitAdapter("github"))
```
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

try:
    import requests
    from requests.adapters import HTTPAdapter
    from requests.utils import rewind_body
except ImportError as _missing:  # pragma: no cover
    raise ImportError("ratelimit_rs.requests needs requests: pip install requests") from _missing

from .outbound import Event, Governor, _emitter, _exchange, _run

__all__ = ["RateLimitAdapter"]


class RateLimitAdapter(HTTPAdapter):
    """Sends what a governor lets go, waits where it says so, and sends again what may be.

    `governor` is a `Governor` or the name of a preset, for which `options` are those of `Governor`. `adapter` is what
    sends, by default requests' own. `events` is called with each event of `ratelimit_rs.outbound`. Options for some
    requests only are those of `ratelimit_rs.outbound.request_options`. A body that cannot be rewound is not sent again.

    Raises `RateLimitExceeded`, and `DelayExceeded` where a wait would be longer than `max_delay`.
    """

    def __init__(
        self,
        governor: Governor | str = "default",
        adapter: Any = None,
        *,
        events: Callable[[Event], None] | None = None,
        sleeper: Callable[[float], None] = time.sleep,
        **options: Any,
    ) -> None:
        super().__init__()
        self.governor = Governor(governor, **options) if isinstance(governor, str) else governor
        self._adapter = adapter
        self._emit = _emitter(events)
        self._sleeper = sleeper

    def send(self, request: requests.PreparedRequest, *arguments: Any, **options: Any) -> requests.Response:
        """Sends one request."""
        once = self._adapter.send if self._adapter is not None else super().send
        sent = 0

        def send() -> tuple[requests.Response, int, Any, bytes]:
            nonlocal sent
            if sent and not isinstance(request.body, (str, bytes, type(None))):
                rewind_body(request)
            sent += 1
            response = once(request, *arguments, **options)
            wanted = self.governor.reads_body(response.status_code)
            wanted = wanted and (response.status_code >= 400 or "json" in response.headers.get("content-type", ""))
            return response, response.status_code, _pairs(response), response.content if wanted else b""

        def drain(response: requests.Response) -> None:
            try:
                response.content  # noqa: B018
            finally:
                response.close()

        plain = isinstance(request.body, (str, bytes, type(None)))
        position = getattr(request, "_body_position", None)
        steps = _exchange(
            self.governor,
            request,
            request.method or "GET",
            request.url or "",
            request.headers.get("authorization"),
            {},
            plain or isinstance(position, int),
            self._emit,
        )
        response: requests.Response = _run(steps, send, drain, self._sleeper)
        return response


def _pairs(response: requests.Response) -> list[tuple[str, str]]:
    # The lines of a field are apart in urllib3's headers only.
    raw = getattr(response.raw, "headers", None)
    items = getattr(raw, "iteritems", None)
    return list(items()) if items is not None else list(response.headers.items())
