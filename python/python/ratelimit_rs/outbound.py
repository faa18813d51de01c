"""Keeps one's own calls to somebody's API under that API's limits.

A `Governor` is asked before each request and told after it. It sends nothing and never sleeps; `ratelimit_rs.httpx`,
`ratelimit_rs.requests` and `ratelimit_rs.aiohttp` do that around it.

>>> from ratelimit_rs import ManualClock, Store
>>> governor = Governor("github", store=Store.memory(), clock=ManualClock())
>>> governor.before("GET", "https://api.github.com/user").ticket.route
'GET api.github.com /user'
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ._native import (
    BucketState,
    Fail,
    GlobalLimit,
    Go,
    Governor,
    InvalidRequestLimit,
    Limit,
    ManualClock,
    Observation,
    Quota,
    Refuse,
    Retry,
    Return,
    Ticket,
    Wait,
    parse_headers,
)
from .errors import InvalidArgument, RateLimitError, WaitTooLong

__all__ = [
    "BucketState",
    "Delayed",
    "DelayExceeded",
    "Exceeded",
    "Fail",
    "GlobalLimit",
    "Go",
    "Governor",
    "InvalidLimitReached",
    "InvalidRequestLimit",
    "Limit",
    "Observation",
    "Quota",
    "RateLimitExceeded",
    "RecordingSleeper",
    "Refuse",
    "Retry",
    "RetryScheduled",
    "Return",
    "Ticket",
    "Updated",
    "Wait",
    "parse_headers",
    "request_options",
]

_log = logging.getLogger(__name__)

_Response = TypeVar("_Response")


class RateLimitExceeded(RateLimitError):
    """A remote API refused a request, and sending it again is not allowed or would take too long.

    `request` and `response` are those of the HTTP library, `retry_after` is in seconds, `is_global` says whether
    everything of this identity is refused.
    """

    def __init__(
        self, message: str, *, request: Any = None, response: Any = None, retry_after: float = 0.0, is_global: bool = False
    ) -> None:
        super().__init__(message)
        self.request = request
        self.response = response
        self.retry_after = retry_after
        self.is_global = is_global


class DelayExceeded(RateLimitExceeded, WaitTooLong):
    """The wait would be longer than `max_delay`: `retry_after` seconds."""


@dataclass(frozen=True)
class Delayed:
    """A request waits before it is sent."""

    route: str
    delay: float
    reason: str


@dataclass(frozen=True)
class RetryScheduled:
    """A request will be sent again."""

    route: str
    delay: float
    attempt: int
    status: int


@dataclass(frozen=True)
class Exceeded:
    """A request was given up."""

    route: str
    retry_after: float
    is_global: bool


@dataclass(frozen=True)
class Updated:
    """A response told about limits."""

    route: str
    observation: Observation


@dataclass(frozen=True)
class InvalidLimitReached:
    """So many requests were invalid that none is sent for a while."""

    route: str


Event = Delayed | RetryScheduled | Exceeded | Updated | InvalidLimitReached


class RecordingSleeper:
    """A sleeper for tests: records each sleep, and moves a clock instead of sleeping.

    >>> clock = ManualClock()
    >>> sleeper = RecordingSleeper(clock)
    >>> sleeper(1.5)
    >>> sleeper.sleeps, clock.now()
    ([1.5], 1700000001.5)
    """

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock
        self.sleeps: list[float] = []

    def __call__(self, seconds: float) -> None:
        """Records the sleep, and moves the clock."""
        self.sleeps.append(seconds)
        if self.clock is not None:
            self.clock.advance(seconds)

    sleep = __call__

    @property
    def total(self) -> float:
        """Seconds slept altogether."""
        return sum(self.sleeps)


_OPTIONS = frozenset({"enabled", "bucket", "identity", "max_delay", "max_retries"})
_current: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar("ratelimit_rs_request_options", default={})


@contextlib.contextmanager
def request_options(**options: Any) -> Iterator[None]:
    """The requests sent inside are governed by these options: `enabled`, `bucket`, `identity`, `max_delay`, `max_retries`.

    >>> with request_options(bucket="reports", max_delay=5):
    ...     pass
    """
    token = _current.set({**_current.get(), **_checked(options)})
    try:
        yield
    finally:
        _current.reset(token)


def _checked(options: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(options, Mapping):
        raise TypeError(f"rate_limit must be a mapping, got {type(options).__name__}")
    strangers = sorted(set(options) - _OPTIONS)
    if strangers:
        raise InvalidArgument(f"rate_limit must have no entry but {', '.join(sorted(_OPTIONS))}, got {strangers[0]!r}")
    return options


@dataclass(frozen=True)
class _Ask:
    """A question to the governor."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class _Sleep:
    seconds: float


@dataclass(frozen=True)
class _Send:
    """The request is to be sent: (response, status, headers, body) comes back."""


@dataclass(frozen=True)
class _Drain(Generic[_Response]):
    """A response that nobody will see is to be read to its end, so that its connection can be used again."""

    response: _Response


def _exchange(
    governor: Governor,
    request: Any,
    method: str,
    url: str,
    authorization: str | bytes | None,
    options: Mapping[str, Any],
    replayable: bool,
    emit: Callable[[Event], None],
) -> Generator[Any, Any, Any]:
    """One request from before to after, as steps that each HTTP library takes in its own way."""
    options = {**_current.get(), **_checked(options)}
    if not replayable:
        # A body that cannot be sent twice is not.
        options["max_retries"] = 0
    answer = yield _Ask(governor.before, (method, url), {"authorization": authorization, **options})
    while True:
        while isinstance(answer, Wait):
            emit(Delayed(answer.ticket.route, answer.delay, answer.reason))
            yield _Sleep(answer.delay)
            answer = yield _Ask(governor.resume, (answer.ticket,), {})
        if isinstance(answer, Refuse):
            emit(Exceeded(f"{method} {_host(url)}", answer.delay, False))
            text = f"the request would have to wait {answer.delay} s ({answer.reason}), which is more than max_delay"
            raise DelayExceeded(text, request=request, retry_after=answer.delay)
        ticket = answer.ticket
        try:
            response, status, headers, body = yield _Send()
        except BaseException:
            yield _Ask(governor.abandon, (ticket,), {})
            raise
        after = yield _Ask(governor.after, (ticket, status, headers, body), {})
        if after.observation is not None:
            emit(Updated(ticket.route, after.observation))
        if after.invalid_limit_reached:
            emit(InvalidLimitReached(ticket.route))
        if isinstance(after, Return):
            return response
        if isinstance(after, Fail):
            emit(Exceeded(ticket.route, after.retry_after, after.is_global))
            kind = DelayExceeded if after.too_long else RateLimitExceeded
            text = f"{ticket.route} was refused with {status}; retry after {after.retry_after} s"
            raise kind(
                text, request=request, response=response, retry_after=after.retry_after, is_global=after.is_global
            )
        emit(RetryScheduled(ticket.route, after.delay, after.attempt, status))
        yield _Drain(response)
        yield _Sleep(after.delay)
        answer = yield _Ask(governor.resume, (after.ticket,), {})


def _run(
    steps: Generator[Any, Any, Any],
    send: Callable[[], tuple[Any, int, Any, bytes]],
    drain: Callable[[Any], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Any:
    """Takes the steps of an exchange one after the other, in this thread."""
    result: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.throw(error) if error is not None else steps.send(result)
        except StopIteration as end:
            return end.value
        result, error = None, None
        try:
            if isinstance(step, _Ask):
                result = step.function(*step.arguments, **step.options)
            elif isinstance(step, _Sleep):
                sleep(step.seconds)
            elif isinstance(step, _Send):
                result = send()
            else:
                drain(step.response)
        except BaseException as raised:  # What ends a step ends the exchange, which may have something to undo.
            error = raised


async def _run_async(
    governor: Governor,
    steps: Generator[Any, Any, Any],
    send: Callable[[], Any],
    drain: Callable[[Any], Any],
    sleep: Callable[[float], Any] | None = None,
) -> Any:
    """The same in an event loop, which other tasks use meanwhile."""
    import asyncio

    result: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.throw(error) if error is not None else steps.send(result)
        except StopIteration as end:
            return end.value
        result, error = None, None
        try:
            if isinstance(step, _Ask):
                if governor.blocks:
                    result = await asyncio.to_thread(step.function, *step.arguments, **step.options)
                else:
                    result = step.function(*step.arguments, **step.options)
            elif isinstance(step, _Sleep):
                slept = (sleep or asyncio.sleep)(step.seconds)
                if slept is not None:
                    await slept
            elif isinstance(step, _Send):
                result = await send()
            else:
                await drain(step.response)
        except BaseException as raised:
            error = raised


def _emitter(events: Callable[[Event], None] | None) -> Callable[[Event], None]:
    def emit(event: Event) -> None:
        _log.debug("%s", event)
        if events is not None:
            events(event)

    return emit


def _host(url: str) -> str:
    from urllib.parse import urlsplit

    return urlsplit(url).hostname or ""
