"""Locks and concurrency limits that are awaited; `ratelimit_rs.aio` has the names for users."""

from __future__ import annotations

import asyncio
import contextlib
import math
from types import TracebackType
from typing import TYPE_CHECKING

from . import _native
from ._mailbox import mailbox
from ._native import (
    _Acquiring,
    begin_acquire,
    begin_extend,
    begin_give_up,
    begin_is_held,
    begin_look,
    begin_release,
)
from .errors import LimitExceeded

if TYPE_CHECKING:
    from ._native import Decision, Store, _Clock, _RedisClient

__all__ = ["Concurrency", "Lock"]


class Lock:
    """`ratelimit_rs.Lock`, its methods awaited: same arguments, same answers, same exceptions.

    A task that is cancelled while it waits for a lock leaves none behind.

    >>> from ratelimit_rs import Store
    >>> async def main():
    ...     lock = Lock(Store.memory())
    ...     async with lock.hold("report:7", 30):
    ...         return await lock.is_held("report:7")
    >>> asyncio.run(main())
    True
    """

    __slots__ = ("_blocks", "_lock")

    def __init__(self, store: None | str | Store | _RedisClient = None) -> None:
        self._lock = _native.Lock(store)
        self._blocks = self._lock._blocks

    @classmethod
    def of(cls, lock: _native.Lock) -> Lock:
        """The same locks, to be awaited."""
        if not isinstance(lock, _native.Lock):
            raise TypeError(f"lock must be a ratelimit_rs.Lock, got {type(lock).__name__}")
        made = cls.__new__(cls)
        made._lock = lock
        made._blocks = lock._blocks
        return made

    async def acquire(self, key: str | bytes, ttl: float, max_wait: float | None = 0.0) -> str | None:
        """Takes a lock for `ttl` seconds, waiting for it for at most `max_wait` seconds. None where somebody else still
        holds it.

        What it returns is the holder's text, by which the lock is extended and released, in any process and language.
        """
        return await _acquire(_Acquiring(self._lock, key, max_wait, ttl), self._blocks)

    async def extend(self, key: str | bytes, holder: str, ttl: float) -> bool:
        """Makes a lock that is held end `ttl` seconds from now. False where it is not, or not any more, this holder's."""
        if self._blocks:
            return await begin_extend(mailbox(), self._lock, key, holder, ttl)
        return self._lock.extend(key, holder, ttl)

    async def release(self, key: str | bytes, holder: str) -> bool:
        """Lets a lock go. False where it was not, or not any more, this holder's: what it was to protect may have been done
        by two at once.
        """
        if self._blocks:
            return await begin_release(mailbox(), self._lock, key, holder)
        return self._lock.release(key, holder)

    async def is_held(self, key: str | bytes) -> bool:
        """Whether anybody holds a lock. The answer may be out of date when it arrives."""
        if self._blocks:
            return await begin_is_held(mailbox(), self._lock, key)
        return self._lock.is_held(key)

    def hold(self, key: str | bytes, ttl: float, max_wait: float | None = math.inf) -> _HeldLock:
        """`acquire` for an `async with` statement, at whose end the lock is released, also where the block raises.

        Raises `WaitTooLong` where somebody else holds the lock for all of `max_wait`. The object that it gives has the
        `holder`, and `extend` and `release` to be awaited. Where the store gives no answer to the release, the lock ends by
        itself.
        """
        return _HeldLock(self, key, ttl, max_wait)

    def __repr__(self) -> str:
        return repr(self._lock).replace("ratelimit_rs.", "ratelimit_rs.aio.", 1)


class Concurrency:
    """`ratelimit_rs.Concurrency`, its methods awaited: same arguments, same answers, same exceptions.

    A task that is cancelled while it waits for a lease leaves none behind.

    >>> from ratelimit_rs import Store
    >>> async def main():
    ...     uploads = Concurrency(1, 60, Store.memory(), name="uploads")
    ...     async with uploads.lease("user:42"):
    ...         return (await uploads.peek("user:42")).remaining
    >>> asyncio.run(main())
    0
    """

    __slots__ = ("_blocks", "_leases")

    def __init__(
        self,
        limit: float,
        lease_ttl: float,
        store: None | str | Store | _RedisClient = None,
        *,
        name: str = "default",
        clock: None | _Clock = None,
    ) -> None:
        self._leases = _native.Concurrency(limit, lease_ttl, store, name=name, clock=clock)
        self._blocks = self._leases._blocks

    @classmethod
    def of(cls, concurrency: _native.Concurrency) -> Concurrency:
        """The same limit, to be awaited."""
        if not isinstance(concurrency, _native.Concurrency):
            raise TypeError(f"concurrency must be a ratelimit_rs.Concurrency, got {type(concurrency).__name__}")
        made = cls.__new__(cls)
        made._leases = concurrency
        made._blocks = concurrency._blocks
        return made

    async def acquire(self, key: str | bytes, max_wait: float | None = 0.0) -> str | None:
        """Takes a lease, waiting for one for at most `max_wait` seconds. None where all are still taken.

        What it returns is the lease's text, by which it is extended and released, in any process and language.
        """
        return await _acquire(_Acquiring(self._leases, key, max_wait), self._blocks)

    async def extend(self, key: str | bytes, lease: str) -> bool:
        """Makes a lease last anew. False where its time was over before, or nobody has it."""
        if self._blocks:
            return await begin_extend(mailbox(), self._leases, key, lease)
        return self._leases.extend(key, lease)

    async def release(self, key: str | bytes, lease: str) -> bool:
        """Gives a lease back. False where its time was over before, or nobody has it."""
        if self._blocks:
            return await begin_release(mailbox(), self._leases, key, lease)
        return self._leases.release(key, lease)

    async def peek(self, key: str | bytes) -> Decision:
        """How many leases are left, taking none: `remaining` of `limit`."""
        if self._blocks:
            return await begin_look(mailbox(), self._leases, key, False)
        return self._leases.peek(key)

    def lease(self, key: str | bytes, max_wait: float | None = 0.0) -> _HeldLease:
        """`acquire` for an `async with` statement, at whose end the lease is given back, also where the block raises.

        Raises `LimitExceeded`, with the decision, where all leases are taken for all of `max_wait`. The object that it gives
        has the `holder`, and `extend` and `release` to be awaited. Where the store gives no answer to the release, the lease
        ends by itself.
        """
        return _HeldLease(self, key, max_wait)

    async def _refusal(self, key: str | bytes) -> Decision:
        if self._blocks:
            return await begin_look(mailbox(), self._leases, key, True)
        return self._leases._refusal(key)

    def __repr__(self) -> str:
        return repr(self._leases).replace("ratelimit_rs.", "ratelimit_rs.aio.", 1)


class _HeldLock:
    """A lock that is held inside an `async with` statement."""

    __slots__ = ("_key", "_lock", "_max_wait", "_ttl", "holder")

    holder: str | None
    """The text by which it is held; None outside the block."""

    def __init__(self, lock: Lock, key: str | bytes, ttl: float, max_wait: float | None) -> None:
        # What is no key or no number raises here, as it does without `async`.
        _Acquiring(lock._lock, key, max_wait, ttl)
        self._lock, self._key, self._ttl, self._max_wait = lock, key, ttl, max_wait
        self.holder = None

    async def extend(self, ttl: float | None = None) -> bool:
        """Makes it end `ttl` seconds from now, those of `hold` without it. False where its time was over before."""
        if self.holder is None:
            return False
        return await self._lock.extend(self._key, self.holder, self._ttl if ttl is None else ttl)

    async def release(self) -> bool:
        """Releases it before the block ends. False where it was not held any more."""
        holder, self.holder = self.holder, None
        return holder is not None and await self._lock.release(self._key, holder)

    async def __aenter__(self) -> _HeldLock:
        _check_empty(self.holder)
        acquiring = _Acquiring(self._lock._lock, self._key, self._max_wait, self._ttl)
        self.holder = await _acquire(acquiring, self._lock._blocks)
        if self.holder is None:
            raise acquiring.refused()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What the block raised matters more, and where the store gives no answer the lock ends by itself.
        with contextlib.suppress(Exception):
            if kind is GeneratorExit and self.holder is not None:
                # The loop has gone with the task in it, so nothing can be awaited any more.
                self._lock._lock.release(self._key, self.holder)
            else:
                await self.release()


class _HeldLease:
    """A lease that is held inside an `async with` statement."""

    __slots__ = ("_key", "_leases", "_max_wait", "holder")

    holder: str | None
    """The text by which it is held; None outside the block."""

    def __init__(self, leases: Concurrency, key: str | bytes, max_wait: float | None) -> None:
        # What is no key or no number raises here, as it does without `async`.
        _Acquiring(leases._leases, key, max_wait)
        self._leases, self._key, self._max_wait = leases, key, max_wait
        self.holder = None

    async def extend(self) -> bool:
        """Makes it last anew. False where its time was over before."""
        return self.holder is not None and await self._leases.extend(self._key, self.holder)

    async def release(self) -> bool:
        """Gives it back before the block ends. False where it was not held any more."""
        holder, self.holder = self.holder, None
        return holder is not None and await self._leases.release(self._key, holder)

    async def __aenter__(self) -> _HeldLease:
        _check_empty(self.holder)
        self.holder = await self._leases.acquire(self._key, self._max_wait)
        if self.holder is None:
            raise LimitExceeded(await self._leases._refusal(self._key))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What the block raised matters more, and where the store gives no answer the lease ends by itself.
        with contextlib.suppress(Exception):
            if kind is GeneratorExit and self.holder is not None:
                # The loop has gone with the task in it, so nothing can be awaited any more.
                self._leases._leases.release(self._key, self.holder)
            else:
                await self.release()


def _check_empty(holder: str | None) -> None:
    if holder is not None:
        raise RuntimeError("it is held already: another `async with` needs another hold")


async def _acquire(acquiring: _Acquiring, blocks: bool) -> str | None:
    """Waits in the event loop. A wait that is cancelled leaves nothing held."""
    try:
        while True:
            step = await begin_acquire(mailbox(), acquiring) if blocks else acquiring.step()
            if not isinstance(step, float):
                return step
            await asyncio.sleep(step)
    except Exception:
        # Where the store gave no answer, nothing is gained by asking it once more.
        raise
    except GeneratorExit:
        # The loop has gone with the task in it, so nothing can be awaited any more.
        with contextlib.suppress(Exception):
            acquiring.abandon() if blocks else acquiring.cancel()
        raise
    except BaseException:
        # The caller has to hear of what ended the wait, also when the lock cannot be given back.
        with contextlib.suppress(Exception):
            await _give_up(acquiring, blocks)
        raise


async def _give_up(acquiring: _Acquiring, blocks: bool) -> None:
    """Gives back what a wait may have taken. Neither a step still under way nor a further cancellation keeps it."""
    if not blocks:
        acquiring.cancel()
        return
    given_up = begin_give_up(mailbox(), acquiring)
    while not given_up.done():
        # Cut short, it might be lost with the process; it takes no longer than the store's time limits.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([given_up])
    given_up.result()
