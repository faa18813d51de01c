"""The exceptions of ratelimit_rs.

Each message is a sentence that names the argument and holds the offending value, and never a key or a password.

```
RateLimitError
├── InvalidArgument (ValueError)
│   ├── InvalidPolicy
│   ├── InvalidCost
│   └── InvalidStore
├── StoreUnavailable (ConnectionError)
├── LimitExceeded
└── WaitTooLong
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ._native import Decision

    _Kind = Literal[
        "timeout", "refused", "readonly", "loading", "busy", "noperm", "oom", "wrongtype", "protocol", "closed"
    ]

__all__ = [
    "InvalidArgument",
    "InvalidCost",
    "InvalidPolicy",
    "InvalidStore",
    "LimitExceeded",
    "RateLimitError",
    "StoreUnavailable",
    "WaitTooLong",
]


class RateLimitError(Exception):
    """Everything that this package raises on its own account."""


class InvalidArgument(RateLimitError, ValueError):
    """An argument has the right type and a value that cannot be used."""


class InvalidPolicy(InvalidArgument):
    """Numbers or a name that make no policy."""


class InvalidCost(InvalidArgument):
    """A cost that is not an integer between 1 and 2147483647."""


class InvalidStore(InvalidArgument):
    """A store description (DSN, client, prefix) that cannot be used."""


class StoreUnavailable(RateLimitError, ConnectionError):
    """The store gave no usable answer.

    `kind` says why. After `timeout` and `closed` the command may have been carried out. Of a call of `allow_many`,
    `decisions` has one entry per call, in order: None where there was no answer. Else it is empty.
    """

    kind: _Kind
    decisions: list[Decision | None]

    def __init__(self, message: str, kind: _Kind, decisions: list[Decision | None] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.decisions = decisions or []

    def __reduce__(self) -> tuple[type[StoreUnavailable], tuple[str, _Kind, list[Decision | None]]]:
        return type(self), (str(self), self.kind, self.decisions)


class LimitExceeded(RateLimitError):
    """The limit is used up; `decision` says for how long."""

    decision: Decision

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision)
        self.decision = decision

    def __str__(self) -> str:
        decision = self.decision
        return f"the limit of policy {decision.policy!r} is used up; retry after {decision.retry_after} s"


class WaitTooLong(RateLimitError):
    """The wait needed is longer than the caller is ready to wait."""
