"""Who is calling, and what the answer to a refused call is: what the modules for the frameworks share.

>>> from ratelimit_rs.http import ClientIp
>>> client_ip = ClientIp(["10.0.0.0/8"])
>>> client_ip.resolve("10.0.0.1", x_forwarded_for="6.6.6.6, 203.0.113.9, 10.0.0.2")
'203.0.113.9'
>>> client_ip.resolve("198.51.100.7", x_forwarded_for="6.6.6.6")
'198.51.100.7'
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict
from urllib.parse import quote_from_bytes
from uuid import UUID

from ._native import SHARED_KEY, Refusal, _ClientIp, unidentified
from .errors import RateLimitError

if TYPE_CHECKING:
    from ._native import _BodyStyle, _ForwardedHeader, _HeaderStyle, _ProblemType

    _Part = str | bytes | int | UUID | None

__all__ = [
    "SHARED_KEY",
    "ClientIp",
    "IdentityMissing",
    "Key",
    "Options",
    "Refusal",
    "Request",
    "Response",
    "unidentified",
]


class IdentityMissing(RateLimitError):
    """A request does not say who is calling, and `on_missing_key` is `throw`."""


class Request(ABC):
    """A request as a `Key` reads it. Each framework's module makes its own of what the framework has, `native`."""

    __slots__ = ("native",)

    def __init__(self, native: Any) -> None:
        self.native = native

    @property
    @abstractmethod
    def peer(self) -> str | None:
        """The other end of the connection; None or empty where it has no address."""

    @property
    @abstractmethod
    def route(self) -> str:
        """The method and the path."""

    @abstractmethod
    def lines(self, name: str) -> list[str]:
        """The lines of a header, in the order received."""

    @abstractmethod
    def attribute(self, name: str) -> Any:
        """What the application has put under that name, or None."""

    def cookie(self, name: str) -> str | None:
        """The value of a cookie."""
        for line in self.lines("cookie"):
            for pair in line.split(";"):
                found, equals, value = pair.partition("=")
                if equals and found.strip() == name:
                    return value.strip().strip('"')
        return None


class Response(NamedTuple):
    """A response as `after` sees it where the framework has no object for one: ASGI and WSGI."""

    status_code: int
    headers: list[tuple[str, str]]


class Key:
    """Says whose budget a request spends, for the argument `key` of every middleware: one of those below.

    A function of the framework's own request does as well: it gives str, bytes, an int, a UUID, a dict of one of them for
    each policy by its name, or None where the request does not say who is calling.

    What the caller wrote himself is hashed, so that no token is readable in a store: with HMAC-SHA-256 where there is a
    `secret`, else with SHA-256, which hides only what cannot be guessed.
    """

    def __init__(self, of: Callable[[Request], _Part]) -> None:
        self.of = of

    @staticmethod
    def user(attribute: str = "user") -> Key:
        """The user who is logged in, from an attribute of the request: an id, or an object that has one."""
        return Key.attribute(attribute)

    @staticmethod
    def tenant(attribute: str = "tenant") -> Key:
        """The tenant, from an attribute of the request."""
        return Key.attribute(attribute)

    @staticmethod
    def attribute(name: str) -> Key:
        """An attribute, which the application has set.

        It is one of `request` in Django, of `flask.g`, of `request.state` or the scope in ASGI, of the environ in WSGI.
        """
        return Key(lambda request: _identity(request.attribute(name)))

    @staticmethod
    def api_key(header: str = "X-API-Key", secret: str | bytes | None = None) -> Key:
        """An API key, hashed; of `Authorization` what follows the scheme."""

        def of(request: Request) -> str | None:
            value = ", ".join(request.lines(header))
            if header.lower() == "authorization":
                value = value.partition(" ")[2].strip()
            return _hashed(value, secret)

        return Key(of)

    @staticmethod
    def header(name: str, secret: str | bytes | None = None) -> Key:
        """A header, hashed. The caller writes it, so it makes a key only where something before has checked it."""
        return Key(lambda request: _hashed(", ".join(request.lines(name)), secret))

    @staticmethod
    def cookie(name: str, secret: str | bytes | None = None) -> Key:
        """A cookie, hashed. The caller writes it, so it makes a key only where something before has checked it."""
        return Key(lambda request: _hashed(request.cookie(name), secret))

    @staticmethod
    def route() -> Key:
        """The method and the path of the request."""
        return Key(lambda request: request.route)

    @staticmethod
    def all(*parts: Key | Callable[[Any], _Part]) -> Key:
        """All of them together: one budget for each combination. None where one is."""

        def of(request: Request) -> str | None:
            keys = []
            for part in parts:
                key = _part(part, request)
                if key is None:
                    return None
                # No two combinations read the same.
                keys.append(key.replace("%", "%25").replace("|", "%7C"))
            return "|".join(keys) or None

        return Key(of)

    @staticmethod
    def first(*choices: Key | Callable[[Any], _Part]) -> Key:
        """The first that is known, such as the user, else the address. A user is never taken for an address."""

        def of(request: Request) -> str | None:
            for number, choice in enumerate(choices):
                key = _part(choice, request)
                if key is not None:
                    return f"{number}:{key}"
            return None

        return Key(of)


class ClientIp(Key):
    """The address of the caller, also behind proxies that are trusted; the network of an IPv6 address.

    `trusted_proxies` are addresses, networks such as `10.0.0.0/8`, and `unix` for peers without an address, which come
    through a Unix socket; without any no header is read. `ipv6_prefix` leading bits of an IPv6 address make one caller, 1
    to 128. `header` is the one that the proxies write, `forwarded` or `x-forwarded-for`, and no other is looked at; `auto`
    is the one that is there, and where both are and do not agree neither is believed. Raises `InvalidArgument`.

    Headers are read only when the peer is trusted, and from the right, where the nearest proxy has written; what cannot
    be read ends the walk at the last proxy known, so a caller can never say who he is.
    """

    def __init__(
        self, trusted_proxies: Iterable[str] = (), ipv6_prefix: int = 64, header: _ForwardedHeader = "auto"
    ) -> None:
        self._resolver = _ClientIp(trusted_proxies, ipv6_prefix, header)
        super().__init__(self._of)

    def resolve(
        self,
        peer: str | bytes | None = None,
        forwarded: str | bytes | Iterable[str | bytes] = "",
        x_forwarded_for: str | bytes | Iterable[str | bytes] = "",
    ) -> str | None:
        """Who a request comes from, as a key: an IPv4 address, or a network such as `2001:db8:0:1::/64`.

        `peer` is the other end of the connection, with or without a port; the headers are their lines, in the order
        received. None where nobody can tell: the peer has no address, and is not trusted or says nothing.
        """
        return self._resolver.resolve(peer, forwarded, x_forwarded_for)

    def _of(self, request: Request) -> str | None:
        return self.resolve(request.peer, request.lines("forwarded"), request.lines("x-forwarded-for"))


class Options(TypedDict, total=False):
    """What every middleware, dependency and decorator takes besides a limiter and a key, all of it by name."""

    headers: _HeaderStyle
    """The family of headers; `ietf` without it. `none` is `Retry-After` alone."""
    body: _BodyStyle
    """Of a refusal: `problem` (without it), `json` or `none`."""
    type: _ProblemType | None
    """Of the problem, such as `abnormal-usage-detected`; without it `quota-exceeded`."""
    on_missing_key: Literal["reject", "skip", "shared", "throw"]
    """What to do when the key is None or empty: `reject` (without it) answers 403, `skip` lets the request pass unlimited,
    `shared` lets all such requests share one budget, `throw` raises `IdentityMissing`."""
    cost: int | Callable[[Any], int | Awaitable[int]]
    """Units that a request takes, at least 1, or a function of the request that says so; 1 without it."""
    skip: Callable[[Any], bool | Awaitable[bool]] | None
    """A function of the request that says whether it passes unlimited."""
    after: Callable[[Any, Any], int | Awaitable[int]] | None
    """A function of the response and the request that says what it has cost after all: 0 or more. The cost is taken before
    the request is handled, so that many at once cannot pass, and the difference is given back or taken afterwards; what an
    exception ends stays charged."""
    logger: logging.Logger
    """Hears of the first request that does not say who is calling; `ratelimit_rs` without it."""


def ask(key: Key | Callable[[Any], Any], request: Request) -> Any:
    """What a key says of a request: its own keys read our view of it, functions the framework's own."""
    return key.of(request) if isinstance(key, Key) else key(request.native)


def text_or_none(key: Any) -> Any:
    """What the verbs take as a key, with None for what is missing; of a dict for each of its keys."""
    return {name: _text(part) for name, part in key.items()} if isinstance(key, Mapping) else _text(key)


def _part(key: Key | Callable[[Any], Any], request: Request) -> str | None:
    """A part of a longer key, which is a text."""
    part = _text(ask(key, request))
    return quote_from_bytes(part) if isinstance(part, bytes) else part


def _text(key: Any) -> str | bytes | None:
    if isinstance(key, (int, UUID)) and not isinstance(key, bool):
        return str(key)
    if key is not None and not isinstance(key, (str, bytes)):
        raise TypeError(f"key must give str, bytes, int, UUID, a dict of them or None, got {type(key).__name__}")
    return key or None


def _identity(value: Any) -> Any:
    """An id as it is, or that of an object; None for a visitor who is not logged in."""
    if value is None or isinstance(value, (str, bytes, int, UUID)):
        return value
    if not getattr(value, "is_authenticated", True):
        return None
    for name in ("pk", "id", "username"):
        if isinstance(found := getattr(value, name, None), (str, bytes, int, UUID)):
            return found
    return None


def _hashed(value: str | None, secret: str | bytes | None) -> str | None:
    if not value:
        return None
    data = value.encode(errors="surrogateescape")
    if secret is None:
        return hashlib.sha256(data).hexdigest()
    return hmac.new(secret.encode() if isinstance(secret, str) else secret, data, "sha256").hexdigest()
