"""What `@limiter.limit(key=…)` makes of a function."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ._native import _Waiting
from .errors import LimitExceeded, RateLimitError

if TYPE_CHECKING:
    from ._native import Decision, Limiter, _Key

__all__ = ["limit"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def limit(
    limiter: Limiter, key: _Key | Callable[..., _Key], cost: int, wait: bool
) -> Callable[[_Function], _Function]:
    """Use `Limiter.limit`, which checks the arguments."""

    key_of: Callable[..., _Key] = key if callable(key) else lambda *_, **__: key

    def decorate(function: _Function) -> _Function:
        if not callable(function):
            kind = type(function).__name__
            raise TypeError(f"limit decorates a function, as in @limiter.limit(key='…'), got {kind}")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def limited_coroutine(*arguments: Any, **named: Any) -> Any:
                take = _wait if wait else _allow
                _check(await take(limiter, key_of(*arguments, **named), cost))
                return await function(*arguments, **named)

            return cast("_Function", limited_coroutine)

        take = limiter.wait if wait else limiter.allow

        @functools.wraps(function)
        def limited(*arguments: Any, **named: Any) -> Any:
            _check(take(key_of(*arguments, **named), cost))
            return function(*arguments, **named)

        return cast("_Function", limited)

    return decorate


def _check(decision: Decision) -> None:
    if not decision:
        raise LimitExceeded(decision)


async def _allow(limiter: Limiter, key: _Key, cost: int) -> Decision:
    return await _ask(limiter, limiter.allow, key, cost)


async def _wait(limiter: Limiter, key: _Key, cost: int) -> Decision:
    waiting = _Waiting(limiter)
    try:
        while True:
            seconds, decision = await _ask(limiter, waiting.step, key, cost)
            if decision is not None:
                return decision
            await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        # The caller has to hear of the cancellation, also when the slot cannot be given back.
        with contextlib.suppress(RateLimitError):
            await _give_up(limiter, waiting, key, cost)
        raise


async def _give_up(limiter: Limiter, waiting: _Waiting, key: _Key, cost: int) -> None:
    """Gives back the slot of a wait, also when this is cancelled in turn; a step still under way is waited for."""
    if limiter._blocks:
        loop = asyncio.get_running_loop()
        await asyncio.shield(loop.run_in_executor(None, waiting.cancel, key, cost))
    else:
        waiting.cancel(key, cost)


_Answer = TypeVar("_Answer")


async def _ask(limiter: Limiter, verb: Callable[[_Key, int], _Answer], key: _Key, cost: int) -> _Answer:
    """Asks from a thread of the executor where the answer has to come from a server."""
    if limiter._blocks:
        return await asyncio.to_thread(verb, key, cost)
    return verb(key, cost)
