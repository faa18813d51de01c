"""The native half of `ratelimit_rs`. Private: import from `ratelimit_rs`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, final

__all__ = [
    "BucketState",
    "Decision",
    "Fail",
    "GlobalLimit",
    "Go",
    "Governor",
    "InvalidRequestLimit",
    "Limit",
    "Limiter",
    "ManualClock",
    "Observation",
    "Policy",
    "Quota",
    "Refuse",
    "Retry",
    "Return",
    "Store",
    "Ticket",
    "TokenBucket",
    "Wait",
    "_Waiting",
    "__version__",
    "parse_headers",
    "restore_decision",
    "restore_policy",
]

__version__: str

_Source = Literal["store", "deny_cache", "lease", "local", "fail_open", "fail_closed"]
_HeaderStyle = Literal["ietf", "draft-7", "draft-3", "x-ratelimit", "none"]
_FailureRule = Literal["throw", "open", "closed", "local"]

# One key for all policies, or one for each by the policy's name.
_Key = str | bytes | dict[str, str] | dict[str, bytes] | dict[str, str | bytes]
_Function = TypeVar("_Function", bound=Callable[..., Any])

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
        """The store that a DSN names: `memory:`, `shared:`, `redis://host:6379/0` or `redis+unix:///run/redis.sock`.

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
    def headers(self, style: _HeaderStyle = "ietf") -> dict[str, str]:
        """The header fields of a response; `none` is Retry-After alone.

        They tell of the policy that ruled. A denial has a Retry-After, unless the call can never pass. Another style raises `InvalidArgument`.
        """
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class Limiter:
    """Decides by one policy or several, with the state in one store.

    `policies` is a `Policy` or a list of them: all are charged, or none is, in one atomic step. `store` is None for the
    default store (the environment variable `RATELIMIT_STORE`, else `shared:`), a DSN, a `Store`, or a
    redis.Redis, of which only the address and the credentials are read. Cheap to build: nothing is sent to the store
    until the first call.

    `on_error` says what to answer when the store does not: `throw` raises `StoreUnavailable`, `open` allows, `closed`
    refuses, `local` decides in the shared store by the limit divided by `share`; such a decision is `degraded`.
    `hash_keys` stores every key as its hash, keyed with `secret`. `clock` replaces the store's own clock: a
    `ManualClock`, or any object whose `now()` gives seconds since 1970; it is called before any lock is taken.

    Every verb takes a key, which is str or bytes, or with several policies also a dict of one key per policy's name. It
    raises `InvalidCost` unless `cost` is an int from 1 to 2147483647, and `StoreUnavailable` when the store fails and
    `on_error` is `throw`. With a `token` (str or bytes) a call may be sent again, as after a time-out: what a call with
    the same token on the same key took within the last minute is not taken again, and its decision is given again. A
    refund may have the token of what it gives back.

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
        secret: None | str | bytes = None,
        clock: None | _Clock = None,
    ) -> Limiter: ...
    def allow(self, key: _Key, cost: int = 1, *, token: None | str | bytes = None) -> Decision:
        """Takes `cost` units of the budget of `key`, if they are there.

        A cost above the limit is no error: it is denied with a `retry_after` of `math.inf`.
        """
    def peek(self, key: _Key, cost: int = 1) -> Decision:
        """What `allow` would answer, without taking anything."""
    def reserve(
        self, key: _Key, cost: int = 1, max_wait: float | None = ..., *, token: None | str | bytes = None
    ) -> Decision:
        """Takes `cost` units now, for a start after `decision.delay` seconds: ahead of time where they are not there yet.

        What would start later than after `max_wait` seconds (`math.inf` when left out) is denied and takes nothing.
        Token bucket and GCRA go into debt; a leaky bucket is a queue, and denies when it is full. A window policy
        raises `InvalidArgument`: `wait` is for them.
        """
    def wait(
        self, key: _Key, cost: int = 1, max_wait: float | None = ..., *, token: None | str | bytes = None
    ) -> Decision:
        """Takes `cost` units, sleeping until they are there; at most `max_wait` seconds (`math.inf` when left out).

        Raises `WaitTooLong` at once, taking nothing, when the wait would be longer or the cost can never pass. Sleeps
        as `time.sleep` does, so that other threads go on and Ctrl-C interrupts it; a wait that an exception ends gives
        back the slot that it had reserved. With a `ManualClock` it moves the clock instead.
        """
    def refund(self, key: _Key, cost: int = 1, *, token: None | str | bytes = None) -> None:
        """Gives `cost` units back, for work that was not done after all: at most what was taken, never above the limit.

        When the store gives no answer it raises `StoreUnavailable`; where `on_error` is open or closed it is dropped instead.
        """
    def reset(self, key: _Key) -> None:
        """Forgets what `key` has used: its budget is whole again. Raises `StoreUnavailable`."""
    def limit(
        self, key: _Key | Callable[..., _Key], cost: int = 1, wait: bool = False
    ) -> Callable[[_Function], _Function]:
        """Decorates a function, so that each call of it takes `cost` units first, or raises `LimitExceeded`.

        `key` is what the verbs take, or a function that makes it of the call's arguments. With `wait` a call waits for
        its turn instead, and raises `WaitTooLong` when it can never come. A coroutine function is one still: it sleeps
        in its event loop, has a server asked by a thread of the loop's executor, and gives back the slot that it had
        reserved when its task is cancelled.
        """
    @property
    def _blocks(self) -> bool: ...

@final
class _Waiting:
    """A wait without a bound that is under way. Private. Each step is given the same key and cost."""

    def __new__(cls, limiter: Limiter) -> _Waiting: ...
    def step(self, key: _Key, cost: int) -> tuple[float, Decision | None]:
        """The next step: (seconds to sleep before the one after it, the decision at the end of the wait)."""
    def cancel(self, key: _Key, cost: int) -> None:
        """Gives the wait up, and the slot back that it may have reserved.

        A step that is under way is waited for, and none is taken afterwards.
        """

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

def restore_policy(text: str, name: str) -> Policy:
    """Makes a policy from what pickle kept of it: its text and its name."""

def restore_decision(
    each: list[tuple[bool, int, int, int, int, int, int, str]], policies: list[Policy]
) -> Decision:
    """Makes a decision from what pickle kept of it: the numbers of each policy's decision, and the policies."""

# The lines of a response's header, as pairs or as a mapping.
_Headers = Iterable[tuple[str | bytes, str | bytes]] | Mapping[str, str] | Mapping[bytes, bytes]
_Scope = Literal["identity", "host", "route", "everything"]
_Reason = Literal["cooldown", "learning", "quota", "limit", "global", "invalid_requests"]

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
        """What it waits for: `cooldown`, `learning`, `quota`, `limit`, `global` or `invalid_requests`."""
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
