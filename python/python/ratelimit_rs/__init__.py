"""Rate limits decided in one place, in memory or in Redis.

>>> from ratelimit_rs import Limiter, Policy, Store
>>> limiter = Limiter(Policy.token_bucket(10, 1), Store.memory())
>>> decision = limiter.allow("user:42")
>>> decision.allowed, decision.remaining
(True, 9)
"""

# The exceptions come first: the native module raises them.
from .errors import (
    InvalidArgument,
    InvalidCost,
    InvalidPolicy,
    InvalidStore,
    LimitExceeded,
    RateLimitError,
    StoreUnavailable,
    WaitTooLong,
)
from ._native import (
    Concurrency,
    Decision,
    DecisionEvent,
    Limiter,
    Lock,
    ManualClock,
    Policy,
    Store,
    StoreErrorEvent,
    StoreInfo,
    TokenBucket,
    __version__,
    metrics,
)

__all__ = [
    "Concurrency",
    "Decision",
    "DecisionEvent",
    "InvalidArgument",
    "InvalidCost",
    "InvalidPolicy",
    "InvalidStore",
    "LimitExceeded",
    "Limiter",
    "Lock",
    "ManualClock",
    "Policy",
    "RateLimitError",
    "Store",
    "StoreErrorEvent",
    "StoreInfo",
    "StoreUnavailable",
    "TokenBucket",
    "WaitTooLong",
    "__version__",
    "metrics",
]
