"""APIs on loopback that enforce their limits and count who breaks them. Real HTTP, one thread per connection.

`Windows`, `Leaky` and `Discord` keep their own books: `refused` has whom they turned away, and `throughput()` says how much
of what the limits allowed was used, by the server's own count and clock.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, dict[str, str], bytes]


class QuietServer(ThreadingHTTPServer):
    """A client that ends without closing its connections is none of the server's business."""

    def handle_error(self, request: object, address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, address)


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
            # A header and a body are two writes, of which the second would wait for the first to be acknowledged.
            disable_nagle_algorithm = True

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

        self._server = QuietServer(("127.0.0.1", 0), Handler)
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


class Count:
    """A limit on so many requests per window, which the first request opens."""

    def __init__(self, limit: int, window: float, whole_seconds: bool = False) -> None:
        self.limit, self.window, self.whole_seconds = limit, window, whole_seconds
        self.start, self.used = -math.inf, 0
        self.windows, self.served, self.idle = 0, 0, 0.0

    def turn(self, now: float) -> None:
        """Begins a new window where the last one is over; as the request does that is about to be counted."""
        if now < self.ends:
            return
        if self.windows:
            self.idle += now - self.ends
        self.start, self.used = (math.floor(now) if self.whole_seconds else now), 0
        self.windows += 1

    def has_room(self) -> bool:
        return self.used < self.limit

    def take(self) -> None:
        self.used += 1
        self.served += 1

    @property
    def ends(self) -> float:
        return self.start + self.window

    @property
    def left(self) -> int:
        return self.limit - self.used

    def allowed(self) -> float:
        """What could have been served: every window full, but for the last one, and one more in the time between them."""
        return (self.windows - 1) * self.limit + self.used + self.idle * self.limit / self.window


class Windows:
    """So many requests per window and path, or in all, told by one of a few families of headers."""

    def __init__(self, limit: int, window: float, family: str) -> None:
        self.limit, self.window, self.family = limit, window, family
        self.counts: dict[str, Count] = {}
        self.refused: list[str] = []

    def __call__(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        bucket = path.split("?")[0] if self.family == "discord" else "all"
        now = time.time()
        # GitHub's windows begin and end with a second.
        count = self.counts.setdefault(bucket, Count(self.limit, self.window, self.family == "github"))
        count.turn(now)
        passes = count.has_room()
        if passes:
            count.take()
        fields = self.fields(count.left, count.ends - now, count.ends, bucket)
        if passes:
            return 200, fields, b"{}"
        self.refused.append(path)
        if self.family == "github":
            return 403, fields, b'{"message": "API rate limit exceeded"}'
        return 429, {**fields, "Retry-After": f"{count.ends - now:.3f}"}, b'{"global": false}'

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
            fields |= {"X-RateLimit-Reset": str(int(ends)), "X-RateLimit-Resource": "core"}
        return fields

    def throughput(self) -> float:
        """How much of what the limits allowed was used."""
        counts = self.counts.values()
        return sum(count.served for count in counts) / sum(count.allowed() for count in counts)


class Leaky:
    """Shopify's leaky bucket, or with `family="openai"` a token bucket of requests."""

    def __init__(self, limit: int, rate: float, family: str) -> None:
        self.limit, self.rate, self.family = limit, rate, family
        self.level, self.updated = 0.0, time.time()
        self.first, self.served = math.inf, 0
        self.refused: list[str] = []

    def __call__(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        now = time.time()
        self.first = min(self.first, now)
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
            self.served += 1
            return 200, fields, json.dumps({"data": []}).encode()
        self.refused.append(path)
        return 429, {**fields, "Retry-After": "1.0"}, b"{}"

    def throughput(self) -> float:
        """How much of what the limit allowed was used: a full bucket, and what came back until the last request."""
        return self.served / (self.limit + (self.updated - self.first) * self.rate)


class Discord:
    """Buckets with a hash, apart by channel; a limit on everything; resources that others use, too; and no patience.

    `/channels/N/messages` and `/channels/N/typing` are counted apart at first; after `moves_after` requests both are in
    one bucket of twice the size. `everything` are a count and a window. Interactions are no part of the limit on everything. Every request to `/channels/N/forbidden` is invalid,
    and whoever sends more than `invalid` such in `invalid_window` is shut out. Each `shared_every`-th request to
    `/channels/N/shared` meets a limit that somebody else has used up.
    """

    # So long after it has been told of a bucket a worker has heard of it.
    HEARD = 0.5

    def __init__(
        self,
        limit: int,
        window: float,
        everything: tuple[int, float] = (50, 1.0),
        moves_after: float = math.inf,
        invalid: int = 10_000,
        invalid_window: float = 600.0,
        shared_every: int = 0,
    ) -> None:
        self.limit, self.window, self.moves_after, self.shared_every = limit, window, moves_after, shared_every
        self.invalid_limit, self.invalid_window = invalid, invalid_window
        self.everything = Count(*everything)
        self.buckets: dict[tuple[str, str], Count] = {}
        self.requests, self.shared, self.bans = 0, 0, 0
        self.invalid: deque[float] = deque()
        self.refused: list[str] = []
        self.learning: list[str] = []
        self._told: dict[tuple[str, str, str], float] = {}

    def __call__(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        now = time.time()
        self.requests += 1
        if self._is_banned(now):
            self.bans += 1
            return 403, {}, b"banned"
        _, kind, major, resource = path.split("/")[:4]
        if resource == "forbidden":
            self.invalid.append(now)
            return 403, {}, b'{"code": 50001}'
        if kind != "interactions":
            self.everything.turn(now)
            if not self.everything.has_room():
                return self._refuse(now, path, {"X-RateLimit-Global": "true", "X-RateLimit-Scope": "global"}, self.everything, "global")
            self.everything.take()
        moved = self.requests > self.moves_after and resource in ("messages", "typing")
        name = "moved" if moved else f"first-{resource}"
        count = self.buckets.setdefault((name, major), Count(self.limit * (1 + moved), self.window))
        count.turn(now)
        fields = {"X-RateLimit-Limit": str(count.limit), "X-RateLimit-Bucket": name, "X-RateLimit-Scope": "user"}
        worker = headers.get("x-worker", "")
        heard = self._told.setdefault((worker, resource, name), now)
        if resource == "shared":
            self.shared += 1
            if self.shared_every and self.shared % self.shared_every == 0:
                return 429, {**fields, "Retry-After": "1", "X-RateLimit-Scope": "shared"}, b'{"retry_after": 0.2, "global": false}'
        if not count.has_room():
            kind = "bucket" if now - heard > self.HEARD else "learning"
            return self._refuse(now, path, {**fields, **self._numbers(count, now)}, count, kind)
        count.take()
        return 200, {**fields, **self._numbers(count, now)}, b"{}"

    def _numbers(self, count: Count, now: float) -> dict[str, str]:
        after = count.ends - now
        return {
            "X-RateLimit-Remaining": str(count.left),
            "X-RateLimit-Reset": f"{count.ends:.3f}",
            "X-RateLimit-Reset-After": f"{after:.3f}",
        }

    def _refuse(self, now: float, path: str, fields: dict[str, str], count: Count, kind: str) -> Answer:
        self.invalid.append(now)
        (self.learning if kind == "learning" else self.refused).append(f"{kind} {path}")
        after = count.ends - now
        body = json.dumps({"retry_after": round(after, 3), "global": kind == "global"}).encode()
        return 429, {**fields, "Retry-After": str(math.ceil(after))}, body

    def _is_banned(self, now: float) -> bool:
        while self.invalid and self.invalid[0] <= now - self.invalid_window:
            self.invalid.popleft()
        return len(self.invalid) > self.invalid_limit

    def throughput(self) -> float:
        """How much of what the limits allowed was used, by the limit that allowed the least."""
        buckets = self.buckets.values()
        least = min(sum(bucket.allowed() for bucket in buckets), self.everything.allowed())
        return sum(bucket.served for bucket in buckets) / least
