"""The native half of `ratelimit_rs`. Private: import from `ratelimit_rs`."""

from typing import Any, Literal, Protocol, final

__all__ = [
    "Decision",
    "Limiter",
    "ManualClock",
    "Policy",
    "Store",
    "TokenBucket",
    "__version__",
    "restore_decision",
    "restore_policy",
]

__version__: str

_Source = Literal["store", "deny_cache", "lease", "local", "fail_open", "fail_closed"]
_HeaderStyle = Literal["ietf", "draft-7", "draft-3", "x-ratelimit", "none"]
_FailureRule = Literal["throw", "open", "closed", "local"]

# redis.Redis and its like, without a need for redis-py.
class _RedisClient(Protocol):
    connection_pool: Any

class _Clock(Protocol):
    def now(self) -> float: ...

@final
class Store:
    """Where state lives. Made by one of the static methods; connects on first use.

    May be used from any thread and after `os.fork()`: a child opens connections of its own.
    """

    @staticmethod
    def open(dsn: str) -> Store:
        """The store that a DSN names: `memory:`, `redis://host:6379/0` or `redis+unix:///run/redis.sock`.

        The same DSN gives the same store within a process: its connections and its memory are shared. Raises
        `InvalidStore`, naming the part of the DSN that is wrong.
        """
    @staticmethod
    def memory(max_keys: int = 1000000) -> Store:
        """A memory store of its own for at most `max_keys` keys, shared with nobody who does not hold it."""
    @staticmethod
    def redis(
        url: str = "redis://127.0.0.1:6379",
        *,
        timeout: float = 0.2,
        connect_timeout: float = 0.2,
        prefix: str = "rl:",
    ) -> Store:
        """A store on one Redis or Valkey server, named by a `redis://` or `redis+unix://` DSN.

        `timeout` and `connect_timeout` are in seconds, for one exchange and for connecting; every key starts with
        `prefix`. What is not given is taken from the DSN's query, else 0.2, 0.2 and `rl:`.
        """
    def ping(self) -> float:
        """Seconds that a round trip takes. Raises `StoreUnavailable`."""
    @property
    def kind(self) -> str:
        """What kind of store it is: `memory` or `redis`."""

@final
class Policy:
    """How much is allowed: an algorithm with its numbers and a name. Immutable; made by one of the static methods.

    The name is part of the stored key, so two policies with different names never share a budget.
    """

    @staticmethod
    def token_bucket(
        capacity: float,
        refill_rate: float,
        refill_interval: float = 1.0,
        *,
        continuous: bool = False,
        name: str = "default",
    ) -> Policy:
        """A bucket of `capacity` tokens that gains `refill_rate` tokens at the end of every `refill_interval` seconds.

        With `continuous`, tokens arrive all the time at that rate instead. `capacity` is an integer from 1 to
        2147483647 (10.0 will do), the other two are positive and finite; 0.5 and the like are kept exactly. `name` is
        1 to 100 printable ASCII characters. Anything else raises `InvalidPolicy`, which names the argument and the
        value.
        """
    @property
    def name(self) -> str:
        """What it is called."""
    @property
    def limit(self) -> int:
        """The largest cost that can ever pass."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class Decision:
    """The outcome of one call: whether it may go ahead, and the numbers that go with it. Truthy when allowed.

    A decision is a snapshot: by the time you read it another process may have spent what remained. Schedule by
    `retry_after`, not by `remaining`. All times are in seconds.
    """

    @property
    def allowed(self) -> bool:
        """Whether the call may go ahead."""
    @property
    def limit(self) -> int:
        """The largest cost that can ever pass."""
    @property
    def remaining(self) -> int:
        """The largest cost that would pass now, from 0 to `limit`."""
    @property
    def retry_after(self) -> float:
        """Seconds until the same call passes, if nobody else calls: 0.0 when allowed, `math.inf` when it never can."""
    @property
    def reset_after(self) -> float:
        """Seconds until the budget is whole again."""
    @property
    def delay(self) -> float:
        """Seconds until the caller may start, for the verbs that hand out slots; else 0.0."""
    @property
    def policy(self) -> str:
        """The name of the policy that ruled: refused with the longest wait, or has least left."""
    @property
    def source(self) -> _Source:
        """Where the answer came from."""
    @property
    def degraded(self) -> bool:
        """Whether the store could not be asked and a failure rule answered instead."""
    def each(self) -> list[Decision]:
        """One decision per policy, in the order of the limiter's policies."""
    def headers(self, style: _HeaderStyle = "ietf") -> dict[str, str]:
        """The header fields of a response; `none` is Retry-After alone.

        A denial has a Retry-After, unless the call can never pass. Another style raises `InvalidArgument`.
        """
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class Limiter:
    """Decides by one policy, with the state in one store.

    `policies` is a `Policy`, or a list with one. `store` is None for the default store (the environment variable
    `RATELIMIT_STORE`, else this process's memory), a DSN, a `Store`, or a redis.Redis, of which only the address and
    the credentials are read. Cheap to build: nothing is sent to the store until the first call.

    `on_error` says what to answer when the store does not: `throw` raises `StoreUnavailable`, `open` allows, `closed`
    refuses, `local` decides in this process's memory by the limit divided by `share`; such a decision is `degraded`.
    `hash_keys` stores every key as its hash, keyed with `secret`. `clock` replaces the store's own clock: a
    `ManualClock`, or any object whose `now()` gives seconds since 1970; it is called before any lock is taken.

    May be used from any thread and after `os.fork()`.
    """

    def __new__(
        cls,
        policies: Policy | list[Policy],
        store: None | str | Store | _RedisClient = None,
        *,
        on_error: _FailureRule = "throw",
        share: int = 1,
        hash_keys: bool = False,
        secret: None | str | bytes = None,
        clock: None | _Clock = None,
    ) -> Limiter: ...
    def allow(self, key: str | bytes, cost: int = 1) -> Decision:
        """Takes `cost` units of the budget of `key`, if they are there.

        Raises `InvalidCost` unless `cost` is an int from 1 to 2147483647, and `StoreUnavailable` when the store fails
        and `on_error` is `throw`. A cost above the limit is no error: it is denied with a `retry_after` of `math.inf`.
        """
    def peek(self, key: str | bytes, cost: int = 1) -> Decision:
        """What `allow` would answer, without taking anything."""
    def reset(self, key: str | bytes) -> None:
        """Forgets what `key` has used: its budget is whole again. Raises `StoreUnavailable`."""

@final
class TokenBucket:
    """A token bucket with the constructor and the answers of the class in redis.io's guide.

    `redis_client` is None (the default store), a DSN, a `Store` or a redis.Redis; of the latter only the address and
    the credentials are read. The bucket holds `capacity` tokens and gains `refill_rate` of them at the end of every
    `refill_interval` seconds. Raises `InvalidPolicy` and `InvalidStore`, naming the argument.
    """

    def __new__(
        cls,
        redis_client: None | str | Store | _RedisClient = None,
        capacity: float = 10,
        refill_rate: float = 1,
        refill_interval: float = 1.0,
    ) -> TokenBucket: ...
    def allow(self, key: str | bytes) -> tuple[bool, float]:
        """Takes a token of the bucket of `key`, if there is one: (whether there was, how many are left).

        Raises `StoreUnavailable` when the store gives no answer.
        """
    @property
    def redis(self) -> Any:
        """What was given as `redis_client`, or the default store: good for building another one on the same server."""
    @property
    def capacity(self) -> int:
        """The most tokens it holds."""
    @property
    def refill_rate(self) -> float:
        """Tokens added per interval."""
    @property
    def refill_interval(self) -> float:
        """Seconds between refills."""

@final
class ManualClock:
    """A clock that moves only when told to, so that tests never sleep.

    `now` is in seconds since 1970 and kept to the microsecond.
    """

    def __new__(cls, now: float = 1700000000.0) -> ManualClock: ...
    def advance(self, seconds: float) -> None:
        """Moves the clock by so many seconds; a negative number moves it back."""
    def now(self) -> float:
        """Seconds since 1970."""

def restore_policy(algorithm: str, numbers: tuple[Any, ...], name: str) -> Policy:
    """Makes a policy from what pickle kept of it."""

def restore_decision(
    numbers: tuple[bool, bool, int, int, int, int, int],
    source: str,
    policy: Policy,
    headers: list[tuple[str, list[tuple[str, str]]]],
) -> Decision:
    """Makes a decision from what pickle kept of it."""
