"""Lines of the standard library's `logging` about decisions and about stores that fail.

    from ratelimit_rs import Limiter, Policy
    from ratelimit_rs.logging import Log

    log = Log()
    limiter = Limiter(Policy.parse("100/m"), on_decision=log.on_decision, on_store_error=log.on_store_error)

The logger is `ratelimit_rs` unless another is given. A denied call is `INFO`, an answer of the failure rule `WARNING`, a
store that gives no answer `ERROR`; allowed calls are lines only when they are given a level. Of each kind there is one
line a second at most, so that neither an attack nor an outage floods the log.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._native import DecisionEvent, StoreErrorEvent

__all__ = ["Log"]


class Log:
    """Writes lines; its two methods are what a limiter's `on_decision` and `on_store_error` take.

    Each line's record has `ratelimit`: what the event's `context()` gives, and `left_out`, the number of lines of the same
    kind that were left out since the one before. `interval` is the seconds between two lines of a kind, 0 for no limit;
    `allowed` is a level for calls that were let pass, None for no line. One `Log` may serve many limiters, from any thread.
    """

    def __init__(
        self,
        logger: None | logging.Logger = None,
        *,
        interval: float = 1.0,
        allowed: None | int = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logging.getLogger("ratelimit_rs") if logger is None else logger
        self._interval = interval
        self._allowed = allowed
        self._clock = clock
        self._lock = threading.Lock()
        # When the last line of a kind was, and how many have been left out since.
        self._lines: dict[str, tuple[float, int]] = {}

    def on_decision(self, event: DecisionEvent) -> None:
        """Writes a line about a decision."""
        decision = event.decision
        if decision.degraded:
            self._log(logging.WARNING, "degraded", "the store is away; the failure rule (%(source)s) answers", event)
        elif not decision.allowed:
            self._log(logging.INFO, "denied", "policy %(policy)s refuses %(verb)s of %(key)s", event)
        elif self._allowed is not None:
            self._log(self._allowed, "allowed", "policy %(policy)s lets %(verb)s of %(key)s pass", event)

    def on_store_error(self, event: StoreErrorEvent) -> None:
        """Writes a line about a store that gave no answer."""
        self._log(logging.ERROR, "error", "the store of policy %(policy)s gave no usable answer: %(error)s", event)

    def _log(self, level: int, kind: str, line: str, event: DecisionEvent | StoreErrorEvent) -> None:
        if not self._logger.isEnabledFor(level):
            return
        left_out = self._turn(kind)
        if left_out is None:
            return
        context = event.context() | {"left_out": left_out}
        if left_out:
            line += " (%(left_out)d more like it)"
        self._logger.log(level, line, context, extra={"ratelimit": context})

    def _turn(self, kind: str) -> None | int:
        """How many lines were left out before this one; None where it is one of them."""
        now = self._clock()
        with self._lock:
            last, left_out = self._lines.get(kind, (-float("inf"), 0))
            if now - last < self._interval:
                self._lines[kind] = (last, left_out + 1)
                return None
            self._lines[kind] = (now, 0)
            return left_out
