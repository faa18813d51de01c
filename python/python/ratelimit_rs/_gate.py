"""Asks a limiter before a request goes on, and lets the response say afterwards what the request really cost.

It is written once, as steps: a generator yields each call that may take its time, and `run` or `run_async` makes it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from . import http
from ._native import SHARED_KEY, Decision, Limiter, Refusal, _check_answer, unidentified
from .errors import InvalidArgument, StoreUnavailable

if TYPE_CHECKING:
    from ._native import _BodyStyle, _HeaderStyle, _Key, _ProblemType

# A limiter, or a function of the request that gives the one for it, or None where it is not limited.
AnyLimiter: TypeAlias = Any
# A function of the framework's request or an `http.Key`; coroutine functions only where the framework is asynchronous.
AnyKey: TypeAlias = http.Key | Callable[[Any], Any]

T = TypeVar("T")
# A call, its arguments, and whether it may block; the answer is sent back.
Steps = Generator[tuple[Callable[..., Any], tuple[Any, ...], bool], Any, T]


class Admission:
    """The decision on one request that goes ahead, and the charge that can still be set right."""

    def __init__(self, gate: Gate, limiter: Any, key: _Key, cost: int, decision: Decision) -> None:
        self._gate, self._limiter, self._key, self._cost = gate, limiter, key, cost
        self.decision = decision

    def settle(self, cost: int) -> Steps[None]:
        """Gives back or takes the difference to what the request has cost after all, as far as it is there.

        The request has been handled, so a store that is away changes nothing about the response.
        """
        if cost == self._cost:
            return
        limiter, key, blocks = self._limiter, self._key, _blocks(self._limiter)
        try:
            if cost < self._cost:
                yield limiter.refund, (key, self._cost - max(0, cost)), blocks
            else:
                rest = yield limiter.allow, (key, cost - self._cost), blocks
                if not rest.allowed and rest.remaining > 0:
                    yield limiter.allow, (key, rest.remaining), blocks
            self._cost = cost
            self.decision = yield limiter.peek, (key,), blocks
        except StoreUnavailable as away:
            self._gate.logger.warning(
                "The charge for a request could not be set right: the store is away (%s).", away.kind
            )

    def headers(self) -> dict[str, str]:
        """Header fields for the response of a request that went ahead; it needs no `Retry-After`."""
        headers = self.decision.headers(self._gate.style)
        headers.pop("Retry-After", None)
        return headers


class Gate:
    """What the modules of the frameworks share: it knows no framework."""

    def __init__(
        self,
        limiter: AnyLimiter,
        key: AnyKey,
        *,
        headers: _HeaderStyle = "ietf",
        body: _BodyStyle = "problem",
        type: _ProblemType | None = None,
        on_missing_key: str = "reject",
        cost: int | Callable[[Any], Any] = 1,
        skip: Callable[[Any], Any] | None = None,
        after: Callable[[Any, Any], Any] | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        _check_answer(headers, body, type)
        if on_missing_key not in ("reject", "skip", "shared", "throw"):
            raise InvalidArgument(f"on_missing_key must be reject, skip, shared or throw, got {on_missing_key!r}")
        if not hasattr(limiter, "allow") and not callable(limiter):
            raise TypeError(f"limiter must be a limiter or a function, got {limiter.__class__.__name__}")
        for name, given in (("key", key), ("skip", skip or _one), ("after", after or _one)):
            if not callable(given) and not isinstance(given, http.Key):
                raise TypeError(f"{name} must be a function, got {given.__class__.__name__}")
        self._limiter, self._key, self._cost, self._skip, self.after = limiter, key, cost, skip, after
        self.style, self.body, self._type, self._on_missing_key = headers, body, type, on_missing_key
        self.logger = logger or logging.getLogger("ratelimit_rs")
        self._reported = False

    def ask(self, request: http.Request) -> Steps[Admission | Refusal | None]:
        """How a request goes ahead, the answer to one that does not, or None for one that is not limited."""
        if self._skip is not None and (yield self._skip, (request.native,), False):
            return None
        limiter = self._limiter
        if not hasattr(limiter, "allow"):
            limiter = yield limiter, (request.native,), False
        if limiter is None:
            return None
        key = http.text_or_none((yield http.ask, (self._key, request), False))
        if key is None or key == {} or (isinstance(key, dict) and None in key.values()):
            self._report()
            if self._on_missing_key == "throw":
                raise http.IdentityMissing("the request does not say who is calling")
            if self._on_missing_key != "shared":
                return None if self._on_missing_key == "skip" else unidentified(self.body)
            key = {name: part or SHARED_KEY for name, part in key.items()} if key else SHARED_KEY
        cost = (yield self._cost, (request.native,), False) if callable(self._cost) else self._cost
        decision: Decision = yield limiter.allow, (key, cost), _blocks(limiter)
        refusal = decision.refusal(self.style, self.body, self._type)
        return refusal or Admission(self, limiter, key, cost, decision)

    def settle(self, admission: Admission, response: Any, request: http.Request) -> Steps[None]:
        """Charges what a response says that the request has cost."""
        if self.after is not None:
            cost = yield self.after, (response, request.native), False
            yield from admission.settle(cost)

    def _report(self) -> None:
        if not self._reported:
            self._reported = True
            self.logger.warning("A request does not say who is calling; rule: %s.", self._on_missing_key)


def run(steps: Steps[T]) -> T:
    """Makes each call in turn."""
    try:
        call, arguments, _ = next(steps)
        while True:
            try:
                answer = call(*arguments)
                if hasattr(answer, "__await__"):
                    raise _asynchronous(call, answer)
            except Exception as error:
                call, arguments, _ = steps.throw(error)
            else:
                call, arguments, _ = steps.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value


async def run_async(steps: Steps[T]) -> T:
    """Makes each call in turn: one that may block in a thread, and what is to be awaited is awaited."""
    try:
        call, arguments, blocks = next(steps)
        while True:
            try:
                answer = await asyncio.to_thread(call, *arguments) if blocks else call(*arguments)
                if hasattr(answer, "__await__"):
                    answer = await answer
            except Exception as error:
                call, arguments, blocks = steps.throw(error)
            else:
                call, arguments, blocks = steps.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value


def _asynchronous(call: Callable[..., Any], answer: Any) -> TypeError:
    if inspect.iscoroutine(answer):
        answer.close()
    name = getattr(call, "__qualname__", repr(call))
    return TypeError(f"{name} has to be awaited, which this framework does not: give a function or limiter that is not")


def _blocks(limiter: Any) -> bool:
    """Whether a limiter may make its caller wait for a server. One that is awaited never does."""
    return isinstance(limiter, Limiter) and limiter._blocks


def _one(*_: Any) -> int:
    return 1
