"""The native half of `ratelimit_rs`. Private: import from `ratelimit_rs`."""

from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Final, Literal, Protocol, TypeVar, final

from .errors import StoreUnavailable, WaitTooLong

__all__ = [
    "BucketState",
    "Concurrency",
    "Decision",
    "DecisionEvent",
    "Fail",
    "GlobalLimit",
    "Go",
    "Governor",
    "InvalidRequestLimit",
    "Limit",
    "Limiter",
    "Lock",
    "ManualClock",
    "Observation",
    "Policy",
    "Quota",
    "Refusal",
    "Refuse",
    "Retry",
    "Return",
    "SHARED_KEY",
    "Store",
    "StoreErrorEvent",
    "StoreInfo",
    "Ticket",
    "TokenBucket",
    "Wait",
    "_Acquiring",
    "_ClientIp",
    "_HeldLease",
    "_HeldLock",
    "_Mailbox",
    "_Waiting",
    "__version__",
    "_check_answer",
    "begin_acquire",
    "begin_allow_many",
    "begin_call",
    "begin_cancel",
    "begin_extend",
    "begin_give_up",
    "begin_is_held",
    "begin_look",
    "begin_ping",
    "begin_release",
    "begin_reset",
    "begin_return_leases",
    "begin_step",
    "begin_take",
    "metrics",
    "parse_headers",
    "restore_decision",
    "restore_policy",
    "unidentified",
]

__version__: str

SHARED_KEY: Final[str]
"""The key of all requests that do not say who is calling, where such requests are to share one budget.

It is none that a person would write.
"""

_Source = Literal["store", "deny_cache", "lease", "local", "fail_open", "fail_closed"]
_HeaderStyle = Literal["ietf", "draft-7", "draft-3", "x-ratelimit", "x-ratelimit-epoch", "none"]
_BodyStyle = Literal["problem", "json", "none"]
_ProblemType = Literal["quota-exceeded", "temporary-reduced-capacity", "abnormal-usage-detected"]
_ForwardedHeader = Literal["auto", "forwarded", "x-forwarded-for"]
_FailureRule = Literal["throw", "open", "closed", "local"]
_Secret = str | bytes | Sequence[str | bytes]

# One key for all policies, or one for each by the policy's name.
_Key = str | bytes | dict[str, str] | dict[str, bytes] | dict[str, str | bytes]
_Function = TypeVar("_Function", bound=Callable[..., Any])

# redis.Redis and its like, without a need for redis-py.
class _SingleClient(Protocol):
    connection_pool: Any

# redis.RedisCluster and its like.
class _ClusterClient(Protocol):
    nodes_manager: Any

_RedisClient = _SingleClient | _ClusterClient

class _Clock(Protocol):
    def now(self) -> float: ...

@final
class DecisionEvent:
    """A decision has been made; what `on_decision` is called with."""

    @property
    def verb(self) -> Literal["allow", "peek", "reserve", "refund"]:
        """What was asked. A wait is told as what it asks at each step."""
    @property
    def policy(self) -> str:
        """The name of the policy that ruled."""
    @property
    def key(self) -> str:
        """Whose budget: 16 characters of the key's hash, the same for each call on the key.

        Keyed with the limiter's `secret` where there is one; without one an address can be found by trying all of them.
        Never the key.
        """
    @property
    def cost(self) -> int:
        """Units."""
    @property
    def store(self) -> str:
        """The kind of the limiter's store."""
    @property
    def duration(self) -> float:
        """Seconds until the answer was there; for one of many calls, until all answers were."""
    @property
    def decision(self) -> Decision:
        """The decision."""
    def context(self) -> dict[str, Any]:
        """All of it by name, for structured logs: the members of the event and the numbers of the decision.

        A `retry_after` of None is never.
        """

@final
class StoreErrorEvent:
    """A store has given no usable answer; what `on_store_error` is called with.

    Unless the failure rule is `throw`, a `DecisionEvent` follows.
    """

    @property
    def verb(self) -> Literal["allow", "peek", "reserve", "refund", "reset"]:
        """What was asked."""
    @property
    def policy(self) -> str:
        """The name of the limiter's policy; of several the first."""
    @property
    def key(self) -> str:
        """Whose budget, as for a decision. Never the key."""
    @property
    def cost(self) -> int:
        """Units; 0 for `reset`."""
    @property
    def store(self) -> str:
        """The kind of the limiter's store."""
    @property
    def duration(self) -> float:
        """Seconds until the failure was there."""
    @property
    def kind(self) -> str:
        """What went wrong, in a word: `timeout`, `refused` and so on."""
    @property
    def error(self) -> StoreUnavailable:
        """What went wrong: an exception that is not raised."""
    def context(self) -> dict[str, Any]:
        """All of it by name, for structured logs; `error` as its sentence."""

_OnDecision = Callable[[DecisionEvent], Any] | Iterable[Callable[[DecisionEvent], Any]]
_OnStoreError = Callable[[StoreErrorEvent], Any] | Iterable[Callable[[StoreErrorEvent], Any]]

def metrics() -> str:
    """All metrics as Prometheus text: calls let pass and refused by policy and source, errors of the store by kind, how
    long servers took to answer, and how the stores are. No key is in it.

    The counters are those of this process and of the processes it forks after the import, so workers of a server that
    loads the application before it forks tell their sum.
    """

@final
class StoreInfo:
    """How full a store is that holds its state itself. The numbers are about right at no single instant."""

    @property
    def slots(self) -> int:
        """States it can hold."""
    @property
    def used(self) -> int:
        """States it holds that still count."""
    @property
    def expired(self) -> int:
        """States that have expired; their slots are taken as others are needed."""
    @property
    def evicted(self) -> int:
        """Live states forgotten to make room, since the store was made. Above zero it is too small for its keys."""
    @property
    def bytes(self) -> int:
        """Memory it may take, in bytes."""

@final
class Store:
    """Where state lives. Made by one of the static methods; connects on first use.

    May be used from any thread and after `os.fork()`: a child opens connections of its own.
    """

    @staticmethod
    def open(dsn: str) -> Store:
        """The store that a DSN names: `memory:`, `shared:`, `redis://host:6379/0`, `redis+unix:///run/redis.sock`,
        `redis+sentinel://host1,host2/mymaster` or `redis+cluster://host1,host2`; with `rediss` they are encrypted.

        The same DSN gives the same store within a process: its connections and its memory are shared. Raises
        `InvalidStore`, naming the part of the DSN that is wrong.
        """
    @staticmethod
    def memory(max_keys: int = 1000000) -> Store:
        """A memory store of its own for at most `max_keys` keys, shared with nobody who does not hold it."""
    @staticmethod
    def shared(path: str | PathLike[str] | None = None, bytes: int = 67108864) -> Store:
        """The store that all processes of this user share: in a file, or in the default place without a path.

        The file is made with so many `bytes` where there is none. Raises `InvalidStore` where it cannot be made or is not
        what it should be.
        """
    @staticmethod
    def redis(
        url: str = "redis://127.0.0.1:6379",
        *,
        timeout: float = 0.2,
        connect_timeout: float = 0.2,
        prefix: str = "rl:",
    ) -> Store:
        """A store on Redis or Valkey servers: one, the primary that sentinels name, or a cluster, as the DSN says.

        `timeout` and `connect_timeout` are in seconds, for one exchange and for connecting; every key starts with
        `prefix`. What is not given is taken from the DSN's query, else 0.2, 0.2 and `rl:`.
        """
    def ping(self) -> float:
        """Seconds that a round trip takes. Raises `StoreUnavailable`."""
    def info(self) -> StoreInfo | None:
        """How full it is, for stores that hold their state themselves; None for a server. Looks at every slot."""
    @property
    def breaker(self) -> Literal["closed", "open"]:
        """Whether callers are kept away from a server that let them wait: `closed` when all is well, else `open`."""
    @property
    def kind(self) -> str:
        """What kind of store it is: `memory`, `shared`, `redis`, `sentinel` or `cluster`."""

@final
class Policy:
    """How much is allowed: an algorithm with its numbers and a name. Immutable; made by one of the static methods.

    Limits, capacities and bursts are integers from 1 to 2147483647 (10.0 will do); rates are positive and finite, and
    0.5 and the like are kept exactly; windows and periods are seconds. `name` is 1 to 100 printable ASCII characters
    and part of the stored key, so two policies with different names never share a budget. Anything else raises
    `InvalidPolicy`, which names the argument and the value.

    `str()` of a policy is a text that `Policy.parse` reads as the same policy, but for the name.
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

        With `continuous`, tokens arrive all the time at that rate instead.
        """
    @staticmethod
    def fixed_window(limit: float, window: float, *, aligned: bool = False, name: str = "default") -> Policy:
        """At most `limit` units in each window of `window` seconds.

        A window is opened by the first hit; with `aligned`, windows stand at multiples of their length since 1970.
        Around the edge of two windows up to twice the limit may pass within one window's length.
        """
    @staticmethod
    def sliding_window_log(limit: float, window: float, *, name: str = "default") -> Policy:
        """At most `limit` units in any `window` seconds.

        Exact; every grant is remembered, so memory grows with the limit.
        """
    @staticmethod
    def sliding_window_counter(limit: float, window: float, *, name: str = "default") -> Policy:
        """About `limit` units in any `window` seconds, from two counters."""
    @staticmethod
    def leaky_bucket(capacity: float, leak_rate: float, *, name: str = "default") -> Policy:
        """A bucket of `capacity` units that leaks `leak_rate` of them per second; what would overflow it is denied.

        `reserve` and `wait` use it as a queue: starts are spaced evenly, and a full queue denies.
        """
    @staticmethod
    def gcra(limit: float, period: float, burst: float | None = None, *, name: str = "default") -> Policy:
        """`limit` units per `period` seconds, evenly spaced, of which `burst` may come at once; None is the limit."""
    @staticmethod
    def parse(text: str, *, name: str = "default") -> Policy:
        """Reads a policy from a text. A text that is none raises `InvalidPolicy`, which points at the place.

        | text | policy |
        |---|---|
        | `100/m`, `5 per 10 minutes` | fixed window, opened by the first hit |
        | `100/h aligned` | fixed window at multiples of an hour |
        | `1000/day aligned Europe/Berlin` | fixed window: the days (`week`, `month`) of a time zone |
        | `100/h sliding` | sliding window counter |
        | `100/h log` | sliding window log |
        | `10/s burst 20`, `10/s gcra` | GCRA, 20 (10) at once |
        | `20 burst, 5/s` | token bucket of 20 tokens, 5 arriving at the end of each second |
        | `20 burst, 5/s continuous` | token bucket, the tokens arriving all the time |
        | `10 burst, 2/s leaky` | leaky bucket of 10 units, leaking 2 per second |

        Units of time are `us`, `ms`, `s`, `m`, `h`, `d` and `w`, or the words for them.
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
        """Seconds until the caller may start, for a reservation; else 0.0."""
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
    def headers(
        self,
        style: _HeaderStyle = "ietf",
        *,
        partition_key: str | bytes | None = None,
        quota_unit: str | None = None,
    ) -> dict[str, str]:
        """The header fields of a response; `x-ratelimit-epoch` has the reset in seconds since 1970, `none` is Retry-After alone.

        A denial has a Retry-After, in whole seconds rounded up, unless the call can never pass. With several policies
        `ietf` tells of all of them in the order given, `draft-7` lists them all, and the other numbers are those of the
        policy that ruled. `partition_key` says in `ietf` whose budget it is: no raw identity, since whoever sees the
        response can read it. `quota_unit` says there what is counted, such as `content-bytes`; without it requests.
        Another style, or a unit that is not printable ASCII, raises `InvalidArgument`.
        """
    def problem(self, type: _ProblemType | None = None) -> dict[str, Any] | None:
        """Problem details (RFC 9457) of a denial, for a body of the type `application/problem+json`; None where the call
        was allowed.

        The members are `type`, `title`, `status`, `detail` and `violated-policies`, which is a list of names and is left
        out where nobody could look at the budget. `type` says why; without it, and where the failure rule refuses since
        the store is away, it goes by the decision. Another type raises `InvalidArgument`.
        """
    def refusal(
        self,
        style: _HeaderStyle = "ietf",
        body: _BodyStyle = "problem",
        type: _ProblemType | None = None,
        *,
        partition_key: str | bytes | None = None,
        quota_unit: str | None = None,
    ) -> Refusal | None:
        """The whole answer to a call that was denied, for whatever makes responses; None where it was allowed.

        The headers are those of `headers`, with `Cache-Control: no-store` and the `Content-Type` of the body. `body` is
        `problem` for what `problem` gives, as JSON, `json` for `{"error":"Too many requests","retry_after":60}`, or
        `none`. What is not known raises `InvalidArgument`.
        """
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class Refusal:
    """The answer to a request that does not go ahead, for any HTTP library to send."""

    @property
    def status(self) -> int:
        """429, 503 where the service is to blame, or 403 for a caller who cannot be told from others."""
    @property
    def headers(self) -> dict[str, str]:
        """The header fields, with those of the body."""
    @property
    def body(self) -> str:
        """The body; empty where none was asked for."""
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]

def unidentified(body: _BodyStyle = "problem") -> Refusal:
    """The answer to a request that does not say who is calling, where such requests are rejected: 403.

    `body` is as for `Decision.refusal`; another raises `InvalidArgument`.
    """

@final
class _ClientIp:
    """Finds the address of the caller behind proxies that are trusted. The native half of `ratelimit_rs.http.ClientIp`."""

    def __new__(cls, trusted_proxies: Iterable[str], ipv6_prefix: int, header: _ForwardedHeader) -> _ClientIp: ...
    def resolve(
        self,
        peer: str | bytes | None,
        forwarded: str | bytes | Iterable[str | bytes],
        x_forwarded_for: str | bytes | Iterable[str | bytes],
    ) -> str | None:
        """The key of the caller; None where nobody can tell."""

def _check_answer(style: str, body: str, type: str | None) -> None:
    """Raises `InvalidArgument` unless there are that style, that body and that type of a problem."""

@final
class Limiter:
    """Decides by one policy or several, with the state in one store.

    `policies` is a `Policy` or a list of them: all are charged, or none is, in one atomic step. `store` is None for the
    default store (the environment variable `RATELIMIT_STORE`, else `shared:`), a DSN, a `Store`, or a client
    of redis-py (of one server, of a Sentinel's primary, of a cluster), of which only the addresses, the credentials and
    the encryption are read. Cheap to build: nothing is sent to the store until the first call.

    `on_error` says what to answer when the store does not: `throw` raises `StoreUnavailable`, `open` allows, `closed`
    refuses, `local` decides in the shared store by the limit divided by `share`; such a decision is `degraded`.
    `hash_keys` stores every key as its hash, keyed with `secret`: str or bytes, or a sequence of up to 4 while one secret
    takes over from another, the new one first. A call is then charged under each, all or nothing, so that processes with
    either share their limits; drop the old one when all have had both for as long as the longest window. `clock` replaces the store's own clock: a
    `ManualClock`, or any object whose `now()` gives seconds since 1970; it is called before any lock is taken.

    `on_decision` is called with a `DecisionEvent` for each decision and `on_store_error` with a `StoreErrorEvent` each time
    the store gives no answer: functions, or lists of them. They are called when the call is over and before it returns;
    what they raise goes to `sys.unraisablehook` and changes nothing. They may ask the same limiter: of what they ask
    themselves, nothing is told.

    With `lease` up to so many units at once are taken from Redis, for keys that are asked for very often, and spent by
    all processes of this host without asking it. Never more passes than the policy allows; a call may be refused while
    another host has units left. It goes with one policy, a fixed window or a sliding window counter.

    Every verb takes a key, which is str or bytes, or with several policies also a dict of one key per policy's name. It
    raises `InvalidCost` unless `cost` is an int from 1 to 2147483647, and `StoreUnavailable` when the store fails and
    `on_error` is `throw`. With a `token` (str or bytes) a call may be sent again, as after a time-out: what a call with
    the same token on the same key took within the last minute is not taken again, and its decision is given again. A
    refund may have the token of what it gives back. A call with an `on_error` is answered by that rule and not by the
    limiter's when the store fails.

    May be used from any thread and after `os.fork()`.
    """

    def __new__(
        cls,
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
    ) -> Limiter: ...
    def allow(
        self, key: _Key, cost: int = 1, *, token: None | str | bytes = None, on_error: None | _FailureRule = None
    ) -> Decision:
        """Takes `cost` units of the budget of `key`, if they are there.

        A cost above the limit is no error: it is denied with a `retry_after` of `math.inf`.
        """
    def allow_many(
        self, calls: Iterable[_Key | tuple[_Key, int]], *, on_error: None | _FailureRule = None
    ) -> list[Decision]:
        """`allow` for many calls, in order, in as few round trips as the store allows: one per server.

        `calls` has a pair of a key and a cost for each, or a key alone where the cost is 1. Each decision stands alone.
        A wrong argument raises before anything is asked, and names the index of its call. When the store fails for some
        of the calls and `on_error` is `throw`, the `decisions` of the `StoreUnavailable` are those of the others.
        """
    def peek(self, key: _Key, cost: int = 1, *, on_error: None | _FailureRule = None) -> Decision:
        """What `allow` would answer, without taking anything."""
    def reserve(
        self,
        key: _Key,
        cost: int = 1,
        max_wait: float | None = ...,
        *,
        token: None | str | bytes = None,
        on_error: None | _FailureRule = None,
    ) -> Decision:
        """Takes `cost` units now, for a start after `decision.delay` seconds: ahead of time where they are not there yet.

        What would start later than after `max_wait` seconds (`math.inf` when left out) is denied and takes nothing.
        Token bucket and GCRA go into debt; a leaky bucket is a queue, and denies when it is full. A window policy
        raises `InvalidArgument`: `wait` is for them.
        """
    def wait(
        self,
        key: _Key,
        cost: int = 1,
        max_wait: float | None = ...,
        *,
        token: None | str | bytes = None,
        on_error: None | _FailureRule = None,
    ) -> Decision:
        """Takes `cost` units, sleeping until they are there; at most `max_wait` seconds (`math.inf` when left out).

        Raises `WaitTooLong` at once, taking nothing, when the wait would be longer or the cost can never pass. Sleeps
        as `time.sleep` does, so that other threads go on and Ctrl-C interrupts it; a wait that an exception ends gives
        back the slot that it had reserved. With a `ManualClock` it moves the clock instead.
        """
    def refund(
        self, key: _Key, cost: int = 1, *, token: None | str | bytes = None, on_error: None | _FailureRule = None
    ) -> None:
        """Gives `cost` units back, for work that was not done after all: at most what was taken, never above the limit.

        When the store gives no answer it raises `StoreUnavailable`; where `on_error` is open or closed it is dropped instead.
        """
    def reset(self, key: _Key) -> None:
        """Forgets what `key` has used: its budget is whole again. Raises `StoreUnavailable`."""
    def return_leases(self) -> None:
        """Gives back what this process has leased and nobody has spent, of all keys; see `lease`.

        For the end of a program, or before a pause. Other processes of this host lease anew. Without leases it does
        nothing. Raises `StoreUnavailable`: what was on its way is lost then until its window ends.
        """
    def limit(
        self, key: _Key | Callable[..., _Key], cost: int = 1, wait: bool = False
    ) -> Callable[[_Function], _Function]:
        """Decorates a function, so that each call of it takes `cost` units first, or raises `LimitExceeded`.

        `key` is what the verbs take, or a function that makes it of the call's arguments. With `wait` a call waits for
        its turn instead, and raises `WaitTooLong` when it can never come. A coroutine function is one still: it asks and
        sleeps as `ratelimit_rs.aio` does, and gives back the slot that it had reserved when its task is cancelled.
        """
    @property
    def _blocks(self) -> bool: ...

@final
class _Waiting:
    """A wait that is under way. Private."""

    def __new__(
        cls,
        limiter: Limiter,
        key: _Key,
        cost: int = 1,
        max_wait: float | None = ...,
        token: None | str | bytes = None,
        on_error: None | _FailureRule = None,
    ) -> _Waiting: ...
    def step(self) -> tuple[float, Decision | None]:
        """The next step: (seconds to sleep before the one after it, the decision at the end of the wait)."""
    def cancel(self) -> None:
        """Gives the wait up, and the slot back that it may have reserved.

        A step that is under way is waited for, and none is taken afterwards.
        """
    def abandon(self) -> None:
        """`cancel` for a caller who cannot wait for it, nor hear of it."""

@final
class _Mailbox:
    """Where the answers to one event loop's calls arrive. Private.

    The loop watches the file descriptor and then has the answers delivered. That callback is what holds the mailbox,
    so a loop that is closed closes it.
    """

    def __new__(cls, loop: AbstractEventLoop) -> _Mailbox: ...
    def fileno(self) -> int:
        """The file descriptor that is readable when answers have arrived."""
    def deliver(self) -> None:
        """Gives each answer that has arrived to its future. One that was cancelled gets none."""

@final
class TokenBucket:
    """A token bucket with the constructor and the answers of the class in redis.io's guide.

    `redis_client` is None (the default store), a DSN, a `Store` or a client of redis-py, of which only the addresses,
    the credentials and the encryption are read. The bucket holds `capacity` tokens and gains `refill_rate` of them at
    the end of every `refill_interval` seconds. Raises `InvalidPolicy` and `InvalidStore`, naming the argument.
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
    @property
    def _blocks(self) -> bool: ...

@final
class Lock:
    """Locks by key, in one store: at most one holder at a time.

    A lock ends by itself after `ttl` seconds, so that a holder that dies blocks nobody for longer; a holder that needs longer
    extends it. On Redis it is as safe as that one server: a failover may lose it. Nothing keeps a holder whose time is over
    from going on. `store` is what a `Limiter` takes.

    A key is str or bytes. Every method raises `StoreUnavailable` when the store gives no answer. May be used from any thread
    and after `os.fork()`.
    """

    def __new__(cls, store: None | str | Store | _RedisClient = None) -> Lock: ...
    def acquire(self, key: str | bytes, ttl: float, max_wait: float | None = 0.0) -> str | None:
        """Takes a lock for `ttl` seconds, waiting for it for at most `max_wait` seconds. None where somebody else still holds
        it.

        What it returns is the holder's text, by which the lock is extended and released, in any process and language. Those
        who wait are in no queue. It sleeps as `time.sleep` does, so that other threads go on and Ctrl-C interrupts it; nothing
        is held then. Where it raises `StoreUnavailable` the lock may be taken, until its time is over. A `ttl` below 0.001
        raises `InvalidArgument`, and the store is not asked.
        """

    def extend(self, key: str | bytes, holder: str, ttl: float) -> bool:
        """Makes a lock that is held end `ttl` seconds from now. False where it is not, or not any more, this holder's."""

    def release(self, key: str | bytes, holder: str) -> bool:
        """Lets a lock go. False where it was not, or not any more, this holder's: what it was to protect may have been done
        by two at once.
        """

    def is_held(self, key: str | bytes) -> bool:
        """Whether anybody holds a lock. The answer may be out of date when it arrives."""

    def hold(self, key: str | bytes, ttl: float, max_wait: float | None = ...) -> _HeldLock:
        """`acquire` for a `with` statement, at whose end the lock is released, also where the block raises.

        Raises `WaitTooLong` where somebody else holds the lock for all of `max_wait`, which has no bound by default. The
        object that `with` gives has the `holder`, and `extend` and `release`. Where the store gives no answer to the release,
        the lock ends by itself.
        """

    @property
    def _blocks(self) -> bool: ...

@final
class Concurrency:
    """Lets at most `limit` pieces of work on a key be under way at a time, whoever does them.

    Each piece of work holds a lease, which ends by itself after `lease_ttl` seconds where its holder dies; a holder that
    needs longer extends it. Two names share no leases. `store` and `clock` are what a `Limiter` takes. On an embedded store
    every step looks at all leases of a key, so limits beyond some thousands belong on Redis.

    A key is str or bytes. Every method raises `StoreUnavailable` when the store gives no answer. May be used from any thread
    and after `os.fork()`.
    """

    def __new__(
        cls,
        limit: float,
        lease_ttl: float,
        store: None | str | Store | _RedisClient = None,
        *,
        name: str = "default",
        clock: None | _Clock = None,
    ) -> Concurrency: ...
    def acquire(self, key: str | bytes, max_wait: float | None = 0.0) -> str | None:
        """Takes a lease, waiting for one for at most `max_wait` seconds. None where all are still taken.

        What it returns is the lease's text, by which it is extended and released, in any process and language. Those who wait
        are in no queue. It sleeps as `time.sleep` does, so that other threads go on and Ctrl-C interrupts it; nothing is held
        then. With a `ManualClock` it moves the clock instead. Where it raises `StoreUnavailable` a lease may be taken, until
        its time is over.
        """

    def extend(self, key: str | bytes, lease: str) -> bool:
        """Makes a lease last anew. False where its time was over before, or nobody has it."""

    def release(self, key: str | bytes, lease: str) -> bool:
        """Gives a lease back. False where its time was over before, or nobody has it."""

    def peek(self, key: str | bytes) -> Decision:
        """How many leases are left, taking none: `remaining` of `limit`.

        Where none is left, `retry_after` is how long it is at most until one is.
        """

    def lease(self, key: str | bytes, max_wait: float | None = 0.0) -> _HeldLease:
        """`acquire` for a `with` statement, at whose end the lease is given back, also where the block raises.

        Raises `LimitExceeded`, with the decision, where all leases are taken for all of `max_wait`. The object that `with`
        gives has the `holder`, and `extend` and `release`. Where the store gives no answer to the release, the lease ends by
        itself.
        """

    @property
    def _blocks(self) -> bool: ...
    def _refusal(self, key: str | bytes) -> Decision: ...

@final
class _HeldLock:
    """A lock that is held inside a `with` statement."""

    @property
    def holder(self) -> str | None:
        """The text by which it is held; None outside the block."""

    def extend(self, ttl: float | None = None) -> bool:
        """Makes it end `ttl` seconds from now, those of `hold` without it. False where its time was over before."""

    def release(self) -> bool:
        """Releases it before the block ends. False where it was not held any more."""

    def __enter__(self) -> _HeldLock: ...
    def __exit__(self, *_raised: object) -> None: ...

@final
class _HeldLease:
    """A lease that is held inside a `with` statement."""

    @property
    def holder(self) -> str | None:
        """The text by which it is held; None outside the block."""

    def extend(self) -> bool:
        """Makes it last anew. False where its time was over before."""

    def release(self) -> bool:
        """Gives it back before the block ends. False where it was not held any more."""

    def __enter__(self) -> _HeldLease: ...
    def __exit__(self, *_raised: object) -> None: ...

@final
class _Acquiring:
    """A wait for a lock or a lease that is under way. Private."""

    def __new__(
        cls, owner: Lock | Concurrency, key: str | bytes, max_wait: float | None = ..., ttl: float | None = None
    ) -> _Acquiring: ...
    def step(self) -> float | str | None:
        """The next step: the seconds to sleep before the one after it, or the holder's text, or None where the wait is over."""

    def cancel(self) -> None:
        """Gives the wait up, and what it may have taken back. A step that is under way is waited for, and none is taken
        afterwards.
        """

    def abandon(self) -> None:
        """`cancel` for a caller who cannot wait for it, nor hear of it."""

    def refused(self) -> WaitTooLong:
        """The exception for a lock that somebody else holds."""

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

def begin_call(
    mailbox: _Mailbox,
    limiter: Limiter,
    verb: Literal["allow", "peek", "reserve", "refund"],
    key: _Key,
    cost: int = 1,
    max_wait: float | None = ...,
    token: None | str | bytes = None,
    on_error: None | _FailureRule = None,
) -> Future[Decision]:
    """Begins `allow`, `peek`, `reserve` or `refund`, whose outcome is None."""

def begin_allow_many(
    mailbox: _Mailbox,
    limiter: Limiter,
    calls: Iterable[_Key | tuple[_Key, int]],
    on_error: None | _FailureRule = None,
) -> Future[list[Decision]]:
    """Begins `allow_many`."""

def begin_reset(mailbox: _Mailbox, limiter: Limiter, key: _Key) -> Future[None]:
    """Begins `reset`."""

def begin_return_leases(mailbox: _Mailbox, limiter: Limiter) -> Future[None]:
    """Begins `return_leases`."""

def begin_take(mailbox: _Mailbox, bucket: TokenBucket, key: str | bytes) -> Future[tuple[bool, float]]:
    """Begins `TokenBucket.allow`."""

def begin_step(mailbox: _Mailbox, waiting: _Waiting) -> Future[tuple[float, Decision | None]]:
    """Begins a step of a wait: (seconds to sleep before the next, the decision at the end)."""

def begin_cancel(mailbox: _Mailbox, waiting: _Waiting) -> Future[None]:
    """Begins to give a wait up, and its slot back."""

def begin_ping(mailbox: _Mailbox, store: Store) -> Future[float]:
    """Begins a round trip: the seconds that it takes."""

def begin_acquire(mailbox: _Mailbox, acquiring: _Acquiring) -> Future[float | str | None]:
    """Begins a step of a wait for a lock or a lease."""

def begin_give_up(mailbox: _Mailbox, acquiring: _Acquiring) -> Future[None]:
    """Begins to give such a wait up."""

def begin_extend(
    mailbox: _Mailbox, owner: Lock | Concurrency, key: str | bytes, holder: str, ttl: float | None = None
) -> Future[bool]:
    """Begins `extend`; a lease needs no `ttl`."""

def begin_release(mailbox: _Mailbox, owner: Lock | Concurrency, key: str | bytes, holder: str) -> Future[bool]:
    """Begins `release`."""

def begin_is_held(mailbox: _Mailbox, lock: Lock, key: str | bytes) -> Future[bool]:
    """Begins `is_held`."""

def begin_look(mailbox: _Mailbox, leases: Concurrency, key: str | bytes, refused: bool) -> Future[Decision]:
    """Begins `peek`, or the look at what refused a lease just now."""

def restore_policy(text: str, name: str) -> Policy:
    """Makes a policy from what pickle kept of it: its text and its name."""

def restore_decision(
    each: list[tuple[bool, int, int, int, int, int, int, str]], policies: list[Policy]
) -> Decision:
    """Makes a decision from what pickle kept of it: the numbers of each policy's decision, and the policies."""

# The lines of a response's header, as pairs or as a mapping.
_Headers = Iterable[tuple[str | bytes, str | bytes]] | Mapping[str, str] | Mapping[bytes, bytes]
_Scope = Literal["identity", "host", "route", "everything"]
_Reason = Literal["cooldown", "learning", "quota", "limit", "global", "invalid_requests", "store"]

@final
class Observation:
    """What one response told about a remote API's limits. Times are in seconds; what the response did not say is None."""

    @property
    def limit(self) -> float | None:
        """Units per window, of the quota that runs out first."""
    @property
    def remaining(self) -> float | None:
        """Units left. Some APIs count in fractions."""
    @property
    def reset_after(self) -> float | None:
        """Until the quota is whole again."""
    @property
    def reset_at(self) -> float | None:
        """The instant of the reset, in seconds since 1970."""
    @property
    def retry_after(self) -> float | None:
        """What `Retry-After`, or what the API has in its place, asks for."""
    @property
    def bucket(self) -> str | None:
        """What the API counts the request under."""
    @property
    def scope(self) -> str | None:
        """Which of the API's limits it is about, in the API's own words."""
    @property
    def rate_limited(self) -> bool:
        """Whether the request was turned away by a rate limit."""
    @property
    def is_global(self) -> bool:
        """Whether the limit is on everything that this identity sends."""
    @property
    def wait(self) -> float | None:
        """How long to wait before sending again; None when it was not turned away, or when nothing says how long."""
    @property
    def quotas(self) -> list[Quota]:
        """Every quota that the response speaks of."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]

@final
class Quota:
    """One of the things that a remote API counts. Times are in seconds."""

    @property
    def name(self) -> str | None:
        """What the API calls it."""
    @property
    def limit(self) -> float | None:
        """Units per window."""
    @property
    def remaining(self) -> float | None:
        """Units left."""
    @property
    def reset_after(self) -> float | None:
        """Until it is whole again."""
    @property
    def window(self) -> float | None:
        """The length of its window."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]

def parse_headers(
    preset: str, status: int, headers: _Headers, body: bytes | str | None = None, now: float | None = None
) -> Observation | None:
    """Reads what a response says about limits; None when it says nothing. Never raises for what a server sent.

    `preset` is the name of an API, such as `github`. `headers` is a list of pairs (or a mapping) of str or bytes; a field
    on several lines stands there several times. `now` is the client's clock in seconds since 1970, by default this
    machine's; where the response has a `Date`, instants are counted from that one.

    >>> parse_headers("reddit", 200, [("x-ratelimit-used", "5"), ("x-ratelimit-remaining", "595.0")]).limit
    600
    """

@final
class Limit:
    """A limit of one's own on requests, by any policy.

    `scope` says whose requests one budget counts: `identity` (each identity on each host), `host`, `route` or
    `everything`. `applies_to` is a pattern for paths, in which `*` stands for anything, a list of them, or a function of
    the method and the URL.

    >>> Limit(Policy.sliding_window_log(10, 1), scope="host", applies_to="/v2/*")
    <ratelimit_rs.outbound.Limit 10/1s log>
    """

    def __new__(
        cls,
        policy: Policy | str,
        *,
        scope: _Scope = "identity",
        applies_to: str | list[str] | Callable[[str, str], bool] | None = None,
        name: str | None = None,
    ) -> Limit: ...

@final
class GlobalLimit:
    """A limit on everything that one identity sends to a host: at most `limit` requests in any `window` seconds.

    Paths that fit one of `exempt_paths`, in which `*` stands for anything, are neither counted nor held back.
    """

    def __new__(cls, limit: int, window: float = 1.0, exempt_paths: Sequence[str] = ()) -> GlobalLimit: ...

@final
class InvalidRequestLimit:
    """A limit on requests that an API calls invalid, beyond which it shuts the address out: at most `limit` responses of one
    of `status_codes` in about `window` seconds. Those of one of `ignored_scopes` (None is `shared`) are not counted.
    """

    def __new__(
        cls,
        limit: int = 10000,
        window: float = 600.0,
        status_codes: Sequence[int] = (401, 403, 429),
        ignored_scopes: Sequence[str] | None = None,
    ) -> InvalidRequestLimit: ...

@final
class Ticket:
    """A request on its way. Holds no credential and no URL."""

    @property
    def attempt(self) -> int:
        """How often the request has been sent again."""
    @property
    def route(self) -> str:
        """Where it goes, as logs may show it: `GET api.example.com /users/:id`."""
    @property
    def degraded(self) -> bool:
        """Whether the store gave no answer when it was last asked for the request, so that `on_error` decided."""

@final
class Go:
    """Send the request."""

    @property
    def ticket(self) -> Ticket:
        """To be handed to `after`."""

@final
class Wait:
    """Sleep for `delay` seconds, then ask `resume`. Nothing has been taken."""

    @property
    def delay(self) -> float:
        """In seconds."""
    @property
    def reason(self) -> _Reason:
        """What it waits for: `cooldown`, `learning`, `quota`, `limit`, `global`, `invalid_requests` or `store`."""
    @property
    def ticket(self) -> Ticket:
        """To be handed to `resume`."""

@final
class Refuse:
    """Do not send the request: the wait would be longer than `max_delay`. Nothing has been taken."""

    @property
    def delay(self) -> float:
        """The wait that it would have been, in seconds."""
    @property
    def reason(self) -> _Reason:
        """What it would have waited for."""

@final
class Return:
    """Hand the response to the caller."""

    @property
    def observation(self) -> Observation | None:
        """What it told about limits."""
    @property
    def invalid_limit_reached(self) -> bool:
        """Whether it was the invalid request after which none is sent for a while."""

@final
class Retry:
    """Sleep for `delay` seconds, ask `resume`, and send the request again."""

    @property
    def delay(self) -> float:
        """In seconds."""
    @property
    def attempt(self) -> int:
        """Which retry it will be, from 1."""
    @property
    def ticket(self) -> Ticket:
        """To be handed to `resume`."""
    @property
    def observation(self) -> Observation | None:
        """What the response told about limits."""
    @property
    def invalid_limit_reached(self) -> bool:
        """Whether it was the invalid request after which none is sent for a while."""

@final
class Fail:
    """Raise an error: the request was refused, and sending it again is not allowed or would take too long."""

    @property
    def retry_after(self) -> float:
        """When it might pass, in seconds from now."""
    @property
    def is_global(self) -> bool:
        """Whether everything of this identity is refused."""
    @property
    def too_long(self) -> bool:
        """Whether the wait is longer than `max_delay`, and not the retries used up."""
    @property
    def observation(self) -> Observation | None:
        """What the response told about limits."""
    @property
    def invalid_limit_reached(self) -> bool:
        """Whether it was the invalid request after which none is sent for a while."""

@final
class BucketState:
    """What is known of a bucket. Times are in seconds; what is not known is None."""

    @property
    def limit(self) -> int | None:
        """Units per window."""
    @property
    def remaining(self) -> int | None:
        """Units left."""
    @property
    def reset_after(self) -> float | None:
        """Until it is whole again."""
    @property
    def retry_after(self) -> float:
        """Until the next request may go; 0 when it may go now."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]

@final
class Governor:
    """Keeps one client of an API under that API's limits; shared by all its threads. Sends nothing and never sleeps.

    `preset` is the name of an API (`github`, `discord`, `openai` …), or `default`, `conservative` or `aggressive` for any
    that speaks one of the common families of headers; what is not given is taken from it. `store` is where what is
    learnt is kept, shared by everyone who uses the same one. All times are in seconds.

    A host asks `before`, sleeps and asks `resume` as often as it is told to wait, sends, and tells `after`. The modules
    `ratelimit_rs.httpx`, `.requests` and `.aiohttp` do that.

    `strategy` is a function of a refusal's status, of how often the request has been sent again, and of its Observation or
    None, that says in how many seconds to send it again, or None for the usual wait. `on_error` says what happens while the
    store gives no answer: `local` has the store of this host take its place, `open` lets requests go, `closed` holds them
    back, `throw` raises `StoreUnavailable`. `resolver` is a function of a method and a URL that says what the request is
    counted under, or None to leave that to its route.
    """

    def __new__(
        cls,
        preset: str = "default",
        *,
        store: Store | str | _RedisClient | None = None,
        limits: Iterable[Limit] | None = None,
        global_limit: GlobalLimit | None = None,
        invalid_request_limit: InvalidRequestLimit | None = None,
        max_retries: int | None = None,
        safety_buffer: float = 1.0,
        jitter: float = 0.0,
        max_delay: float | None = None,
        retry_status_codes: Sequence[int] | None = None,
        throw_on_rate_limit: bool | None = None,
        clock: _Clock | None = None,
        max_store_ttl: float = 86400.0,
        secret: str | bytes | None = None,
        strategy: Callable[[int, int, Observation | None], float | None] | None = None,
        headers: dict[str, str] | None = None,
        on_error: Literal["throw", "open", "closed", "local"] | None = "local",
        resolver: Callable[[str, str], str | None] | None = None,
    ) -> Governor: ...
    def before(
        self,
        method: str,
        url: str,
        *,
        authorization: str | bytes | None = None,
        enabled: bool = True,
        bucket: str | None = None,
        identity: str | bytes | None = None,
        max_delay: float | None = ...,
        max_retries: int = ...,
    ) -> Go | Wait | Refuse:
        """Asks for a request to be sent: Go, Wait or Refuse.

        `authorization` is the value of that header, if there is one: whose budget it is. `identity` takes its place. Only
        a fingerprint is kept. With `enabled=False` the request goes as if there were no governor; `bucket` is what it is
        counted under, in place of what its route says; `max_delay` (None: as long as it takes) and `max_retries` take the
        place of the governor's.
        """
    def resume(self, ticket: Ticket) -> Go | Wait | Refuse:
        """Asks again, after the wait that `before`, `resume` or `after` asked for: Go, Wait or Refuse."""
    def after(
        self, ticket: Ticket, status: int, headers: _Headers, body: bytes | str = b""
    ) -> Return | Retry | Fail:
        """Tells what came back: Return, Retry or Fail. `headers` and `body` are as `parse_headers` takes them."""
    def abandon(self, ticket: Ticket) -> None:
        """Tells that a request failed before any response came, so that others need not wait for what it would have told."""
    def state(
        self,
        method: str,
        url: str,
        authorization: str | bytes | None = None,
        *,
        identity: str | bytes | None = None,
        bucket: str | None = None,
    ) -> BucketState | None:
        """What is known of the bucket that a request would be taken from; None when nothing is."""
    def forget(
        self,
        method: str,
        url: str,
        authorization: str | bytes | None = None,
        *,
        identity: str | bytes | None = None,
        bucket: str | None = None,
    ) -> None:
        """Forgets what was learnt of the bucket that a request would be taken from, and what was taken from the limits that
        apply to it.
        """
    def global_budget(
        self, method: str, url: str, authorization: str | bytes | None = None, *, identity: str | bytes | None = None
    ) -> BucketState | None:
        """What is left of the limit on everything, for the identity and host of a request; None without such a limit."""
    def invalid_request_budget(
        self, method: str, url: str, authorization: str | bytes | None = None, *, identity: str | bytes | None = None
    ) -> BucketState | None:
        """What is left of the limit on invalid requests to the host of a request; None without such a limit."""
    def reads_body(self, status: int) -> bool:
        """Whether a response of this status has to be told with its body, since only that says whether it was refused."""
    @property
    def preset(self) -> str:
        """The name of the API it was made for."""
    @property
    def blocks(self) -> bool:
        """Whether asking may take the time of a round trip to a server, so that an event loop should not wait for it."""
