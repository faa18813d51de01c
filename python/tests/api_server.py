"""APIs on loopback that enforce their limits and count who breaks them. Real HTTP, one thread per connection."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, dict[str, str], bytes]


class ApiServer:
    """A server whose answers come from `answer(method, path, headers)`; it records when each request came."""

    def __init__(self, answer: Callable[[str, str, dict[str, str]], Answer]) -> None:
        self.lock = threading.Lock()
        self.statuses: list[int] = []
        self.times: list[float] = []
        self.bodies: list[bytes] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                received = self.rfile.read(int(self.headers.get("content-length", "0")))
                with outer.lock:
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    status, fields, body = answer(self.command, self.path, headers)
                    outer.statuses.append(status)
                    outer.times.append(time.monotonic())
                    outer.bodies.append(received)
                self.send_response_only(status)
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = handle_any

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stops it."""
        self._server.shutdown()
        self._server.server_close()


class Script:
    """Answers in turn; the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = deque(answers)

    def __call__(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        return self.answers.popleft() if len(self.answers) > 1 else self.answers[0]


class Windows:
    """So many requests per window and bucket, told by one of a few families of headers."""

    def __init__(self, limit: int, window: float, family: str) -> None:
        self.limit, self.window, self.family = limit, window, family
        self.buckets: dict[str, tuple[float, int]] = {}

    def __call__(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        bucket = path.split("?")[0] if self.family == "discord" else "all"
        now = time.time()
        start, used = self.buckets.get(bucket, (now, 0))
        if now >= start + self.window:
            start, used = now, 0
        passes = used < self.limit
        self.buckets[bucket] = (start, used + passes)
        left, after = self.limit - used - passes, start + self.window - now
        fields = self.fields(left, after, start + self.window, bucket)
        if passes:
            return 200, fields, b"{}"
        return 429, {**fields, "Retry-After": f"{after:.3f}"}, b'{"global": false}'

    def fields(self, left: int, after: float, ends: float, bucket: str) -> dict[str, str]:
        if self.family == "ietf":
            return {
                "RateLimit-Policy": f'"default";q={self.limit};w={max(1, round(self.window))}',
                "RateLimit": f'"default";r={left};t={-int(-after // 1)}',
            }
        fields = {"X-RateLimit-Limit": str(self.limit), "X-RateLimit-Remaining": str(left), "X-RateLimit-Reset": f"{ends:.3f}"}
        if self.family == "discord":
            fields |= {"X-RateLimit-Reset-After": f"{after:.3f}", "X-RateLimit-Bucket": f"hash{len(bucket)}"}
        if self.family == "github":
            fields |= {"X-RateLimit-Resource": "core"}
        return fields


class Leaky:
    """Shopify's leaky bucket, or with `family="openai"` a token bucket of requests."""

    def __init__(self, limit: int, rate: float, family: str) -> None:
        self.limit, self.rate, self.family = limit, rate, family
        self.level, self.updated = 0.0, time.time()

    def __call__(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        now = time.time()
        self.level = max(0.0, self.level - (now - self.updated) * self.rate)
        self.updated = now
        passes = self.level + 1 <= self.limit
        self.level += passes
        if self.family == "shopify":
            fields = {"X-Shopify-Shop-Api-Call-Limit": f"{-int(-self.level // 1)}/{self.limit}"}
        else:
            fields = {
                "x-ratelimit-limit-requests": str(self.limit),
                "x-ratelimit-remaining-requests": str(int(self.limit - self.level)),
                "x-ratelimit-reset-requests": f"{int(self.level / self.rate * 1000)}ms",
                "x-ratelimit-limit-tokens": "100000",
                "x-ratelimit-remaining-tokens": "99000",
                "x-ratelimit-reset-tokens": "6ms",
            }
        if passes:
            return 200, fields, json.dumps({"data": []}).encode()
        return 429, {**fields, "Retry-After": "1.0"}, b"{}"
