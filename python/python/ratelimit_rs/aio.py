"""The limiter, the token bucket, the locks and the concurrency limits of `ratelimit_rs` with verbs that are awaited, for
asyncio and loops like it.

>>> import asyncio
>>> from ratelimit_rs import Policy, Store
>>> from ratelimit_rs.aio import Limiter
>>> async def main():
...     limiter = Limiter(Policy.token_bucket(10, 1), Store.memory())
...     return (await limiter.allow("user:42")).remaining
>>> asyncio.run(main())
9

Policies, stores, decisions and exceptions are those of `ratelimit_rs`, and so are the state and the options: a limiter of
either kind sees what the other has taken. All calls of a process to one server share one connection, which a single thread
drives, whatever the number of tasks and loops. A task that is cancelled leaves the connection in order; what it had sent
may have been counted. The time limits of a store hold here too; no other is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from . import _native
from ._holding import Concurrency, Lock
from ._mailbox import mailbox as _mailbox
from ._native import (
    _Waiting,
    begin_allow_many,
    begin_call,
    begin_cancel,
    begin_ping,
    begin_reset,
    begin_return_leases,
    begin_step,
    begin_take,
)

if TYPE_CHECKING:
    from ._native import (
        Decision,
        Policy,
        Store,
        _Clock,
        _FailureRule,
        _Key,
        _OnDecision,
        _OnStoreError,
        _RedisClient,
        _Secret,
    )

__all__ = ["Concurrency", "Limiter", "Lock", "TokenBucket", "ping"]

_Function = TypeVar("_Function", bound=Callable[..., Coroutine[Any, Any, Any]])


class Limiter:
    """`ratelimit_rs.Limiter`, its verbs awaited: same arguments, same decisions, same exceptions.

    May be used from several event loops, in any threads, and after `os.fork()`. A memory store, which nobody has to wait
    for, is asked at once. `on_decision` and `on_store_error` are plain functions; they are called in the thread of the
    event loop, in a copy of the context of the task that asked, also when it has been cancelled since.
    """

    __slots__ = ("_blocks", "_limiter")

    def __init__(
        self,
        policies: Policy | Iterable[Policy],
        store: None | str | Store | _RedisClient = None,
        *,
        on_error: _FailureRule = "throw",
        share: int = 1,
        hash_keys: bool = False,
        secret: None | _Secret = None,
        clock: None | _Clock = None,
        on_decision: None | _OnDecision = None,
        on_store_error: None | _OnStoreError = None,
        lease: int = 0,
    ) -> None:
        self._limiter = _native.Limiter(
            policies,
            store,
            on_error=on_error,
            share=share,
            hash_keys=hash_keys,
            secret=secret,
            clock=clock,
            on_decision=on_decision,
            on_store_error=on_store_error,
            lease=lease,
        )
        self._blocks = self._limiter._blocks

    @classmethod
    def of(cls, limiter: _native.Limiter) -> Limiter:
        """The same limiter, to be awaited."""
        if not isinstance(limiter, _native.Limiter):
            raise TypeError(f"limiter must be a ratelimit_rs.Limiter, got {type(limiter).__name__}")
        made = cls.__new__(cls)
        made._limiter = limiter
        made._blocks = limiter._blocks
        return made

    async def allow(
        self, key: _Key, cost: int = 1, *, token: None | str | bytes = None, on_error: None | _FailureRule = None
    ) -> Decision:
        """Takes `cost` units of the budget of `key`, if they are there."""
        if self._blocks:
            return await begin_call(_mailbox(), self._limiter, "allow", key, cost, token=token, on_error=on_error)
        return self._limiter.allow(key, cost, token=token, on_error=on_error)

    async def allow_many(
        self, calls: Iterable[_Key | tuple[_Key, int]], *, on_error: None | _FailureRule = None
    ) -> list[Decision]:
        """`allow` for many calls, in order, in as few round trips as the store allows: one per server."""
        if self._blocks:
            return await begin_allow_many(_mailbox(), self._limiter, calls, on_error)
        return self._limiter.allow_many(calls, on_error=on_error)

    async def peek(self, key: _Key, cost: int = 1, *, on_error: None | _FailureRule = None) -> Decision:
        """What `allow` would answer, without taking anything."""
        if self._blocks:
            return await begin_call(_mailbox(), self._limiter, "peek", key, cost, on_error=on_error)
        return self._limiter.peek(key, cost, on_error=on_error)

    async def reserve(
        self,
        key: _Key,
        cost: int = 1,
        max_wait: float | None = math.inf,
        *,
        token: None | str | bytes = None,
        on_error: None | _FailureRule = None,
    ) -> Decision:
        """Takes `cost` units now, for a start after `decision.delay` seconds: ahead of time where they are not there yet."""
        if self._blocks:
            return await begin_call(_mailbox(), self._limiter, "reserve", key, cost, max_wait, token, on_error)
        return self._limiter.reserve(key, cost, max_wait, token=token, on_error=on_error)

    async def wait(
        self,
        key: _Key,
        cost: int = 1,
        max_wait: float | None = math.inf,
        *,
        token: None | str | bytes = None,
        on_error: None | _FailureRule = None,
    ) -> Decision:
        """Takes `cost` units, sleeping in the event loop until they are there; at most `max_wait` seconds.

        Raises `WaitTooLong` at once, taking nothing, when the wait would be longer or the cost can never pass. A wait whose
        task is cancelled gives back the slot that it had reserved, which may take as long as the store's time limits; the
        task ends then.
        """
        waiting = _Waiting(self._limiter, key, cost, max_wait, token, on_error)
        try:
            while True:
                seconds, decision = await begin_step(_mailbox(), waiting) if self._blocks else waiting.step()
                if decision is not None:
                    return decision
                await asyncio.sleep(seconds)
        except GeneratorExit:
            # The loop has gone with the task in it, so nothing can be awaited any more.
            with contextlib.suppress(Exception):
                waiting.abandon() if self._blocks else waiting.cancel()
            raise
        except BaseException:
            # The caller has to hear of what ended the wait, also when the slot cannot be given back.
            with contextlib.suppress(Exception):
                await self._give_up(waiting)
            raise

    async def refund(
        self, key: _Key, cost: int = 1, *, token: None | str | bytes = None, on_error: None | _FailureRule = None
    ) -> None:
        """Gives `cost` units back, for work that was not done after all: at most what was taken, never above the limit."""
        if self._blocks:
            await begin_call(_mailbox(), self._limiter, "refund", key, cost, token=token, on_error=on_error)
        else:
            self._limiter.refund(key, cost, token=token, on_error=on_error)

    async def reset(self, key: _Key) -> None:
        """Forgets what `key` has used: its budget is whole again. Raises `StoreUnavailable`."""
        if self._blocks:
            await begin_reset(_mailbox(), self._limiter, key)
        else:
            self._limiter.reset(key)

    async def return_leases(self) -> None:
        """Gives back what this process has leased and nobody has spent, of all keys. Raises `StoreUnavailable`."""
        if self._blocks:
            await begin_return_leases(_mailbox(), self._limiter)

    def limit(
        self, key: _Key | Callable[..., _Key], cost: int = 1, wait: bool = False
    ) -> Callable[[_Function], _Function]:
        """Decorates a coroutine function, so that each call of it takes `cost` units first, or raises `LimitExceeded`.

        `key` is what the verbs take, or a function that makes it of the call's arguments. With `wait` a call waits for
        its turn instead, and raises `WaitTooLong` when it can never come.
        """
        decorate = self._limiter.limit(key, cost, wait)

        def decorate_coroutine(function: _Function) -> _Function:
            if not inspect.iscoroutinefunction(function):
                kind = getattr(function, "__name__", type(function).__name__)
                raise TypeError(f"limit decorates a coroutine function (async def) here, got {kind}")
            return decorate(function)

        return decorate_coroutine

    async def _give_up(self, waiting: _Waiting) -> None:
        """Gives back the slot of a wait. Neither a step still under way nor a further cancellation keeps it."""
        if not self._blocks:
            waiting.cancel()
            return
        given_back = begin_cancel(_mailbox(), waiting)
        while not given_back.done():
            # Cut short, the slot might be lost with the process; it takes no longer than the store's time limits.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([given_back])
        given_back.result()

    def __repr__(self) -> str:
        return repr(self._limiter).replace("ratelimit_rs.", "ratelimit_rs.aio.", 1)


class TokenBucket:
    """`ratelimit_rs.TokenBucket`, its `allow` awaited: same arguments, same answers.

    >>> from ratelimit_rs import Store
    >>> asyncio.run(TokenBucket(Store.memory(), capacity=10).allow("user:42"))
    (True, 9.0)
    """

    __slots__ = ("_blocks", "_bucket")

    def __init__(
        self,
        redis_client: None | str | Store | _RedisClient = None,
        capacity: float = 10,
        refill_rate: float = 1,
        refill_interval: float = 1.0,
    ) -> None:
        self._bucket = _native.TokenBucket(redis_client, capacity, refill_rate, refill_interval)
        self._blocks = self._bucket._blocks

    async def allow(self, key: str | bytes) -> tuple[bool, float]:
        """Takes a token of the bucket of `key`, if there is one: (whether there was, how many are left).

        Raises `StoreUnavailable` when the store gives no answer.
        """
        if self._blocks:
            return await begin_take(_mailbox(), self._bucket, key)
        return self._bucket.allow(key)

    @property
    def redis(self) -> Any:
        """What was given as `redis_client`, or the default store."""
        return self._bucket.redis

    @property
    def capacity(self) -> int:
        """The most tokens it holds."""
        return self._bucket.capacity

    @property
    def refill_rate(self) -> float:
        """Tokens added per interval."""
        return self._bucket.refill_rate

    @property
    def refill_interval(self) -> float:
        """Seconds between refills."""
        return self._bucket.refill_interval

    def __repr__(self) -> str:
        return repr(self._bucket).replace("ratelimit_rs.", "ratelimit_rs.aio.", 1)


async def ping(store: Store) -> float:
    """Seconds that a round trip takes. Raises `StoreUnavailable`."""
    return await begin_ping(_mailbox(), store)
