"""What `@limiter.limit(key=…)` makes of a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from . import aio
from .errors import LimitExceeded

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
            awaited = aio.Limiter.of(limiter)
            take_later = awaited.wait if wait else awaited.allow

            @functools.wraps(function)
            async def limited_coroutine(*arguments: Any, **named: Any) -> Any:
                _check(await take_later(key_of(*arguments, **named), cost))
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
