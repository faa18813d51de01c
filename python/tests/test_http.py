"""What a decision looks like in a response, and who a request comes from."""

from __future__ import annotations

import hashlib
import json
import math
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import http_sf
import pytest

from ratelimit_rs import Decision, InvalidArgument, Limiter, ManualClock, Policy, Store
from ratelimit_rs.asgi import AsgiRequest
from ratelimit_rs.http import SHARED_KEY, ClientIp, Key, unidentified

EMIT = Path(__file__).parents[2] / "tests" / "vectors" / "headers" / "emit"
CASES = [case for path in sorted(EMIT.glob("*.json")) for case in json.loads(path.read_text())["cases"]]


class Sundial:
    """A clock in Python, which says what another one says."""

    def __init__(self, clock: ManualClock) -> None:
        self.now = clock.now


def decided(case: dict[str, Any], clock: ManualClock, given: Any) -> Decision:
    policies = [Policy.parse(it["text"], name=it["name"]) for it in case["policies"]]
    limiter = Limiter(policies, Store.memory(), clock=given)
    at_us = 0
    for step in case["steps"]:
        clock.advance((step["at_us"] - at_us) / 1e6)
        at_us = step["at_us"]
        decision: Decision = getattr(limiter, step["verb"])("key", step["cost"])
    return decision


@pytest.mark.parametrize("of_python", [False, True], ids=["a manual clock", "a clock in Python"])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_decision_is_written_as_the_vectors_say(case: dict[str, Any], of_python: bool) -> None:
    clock = ManualClock(1_700_000_000)
    decision = decided(case, clock, Sundial(clock) if of_python else clock)
    for style, expected in case["headers"].items():
        assert list(decision.headers(style).items()) == list(expected.items())
        refusal = decision.refusal(style)
        if case["problem"] is None:
            assert refusal is None
            continue
        assert refusal is not None
        more = {"Content-Type": "application/problem+json", "Cache-Control": "no-store"}
        assert refusal.headers == expected | more
        assert json.loads(refusal.body) == case["problem"]
        assert refusal.status == case["problem"]["status"]
    assert decision.problem() == case["problem"]


@pytest.fixture
def limiter() -> Limiter:
    return Limiter(Policy.parse("1/m"), Store.memory(), clock=ManualClock())


def test_a_partition_key_and_a_unit_are_written_as_structured_fields(limiter: Limiter) -> None:
    headers = limiter.allow("key").headers(partition_key=b"\0\xff", quota_unit="content-bytes")
    [(name, quota)] = http_sf.parse(headers["RateLimit-Policy"].encode(), tltype="list")
    assert (name, quota) == ("default", {"q": 1, "qu": "content-bytes", "w": 60, "pk": b"\0\xff"})
    [(name, state)] = http_sf.parse(headers["RateLimit"].encode(), tltype="list")
    assert (name, state) == ("default", {"r": 0, "t": 60, "pk": b"\0\xff"})
    refusal = limiter.allow("key").refusal(partition_key="k", quota_unit="tokens")
    assert refusal is not None
    assert refusal.headers["RateLimit"] == '"default";r=0;t=60;pk=:aw==:'
    with pytest.raises(InvalidArgument, match=r'^quota_unit must be printable ASCII characters, got "ü"$'):
        limiter.peek("key").headers(quota_unit="ü")
    with pytest.raises(TypeError, match=r"^partition_key must be str or bytes, got int$"):
        limiter.peek("key").headers(partition_key=5)  # type: ignore[arg-type]


def test_an_epoch_is_not_before_the_real_reset_without_a_clock_of_ones_own() -> None:
    before = time.time()
    decision = Limiter(Policy.parse("1/m"), Store.memory()).allow("key")
    reset = int(decision.headers("x-ratelimit-epoch")["X-RateLimit-Reset"])
    assert before + 60 <= reset <= time.time() + 61


def test_a_refusal_comes_with_the_body_and_the_type_that_are_asked_for(limiter: Limiter) -> None:
    assert limiter.allow("key").problem() is None
    decision = limiter.allow("key")
    refusal = decision.refusal("none", "json")
    assert refusal is not None
    assert refusal.headers == {"Retry-After": "60", "Content-Type": "application/json", "Cache-Control": "no-store"}
    assert (refusal.status, refusal.body) == (429, '{"error":"Too many requests","retry_after":60}')
    assert repr(refusal) == "<ratelimit_rs.http.Refusal 429>"
    nothing, reduced = decision.refusal(body="none"), decision.refusal(type="temporary-reduced-capacity")
    assert nothing is not None and nothing.body == "" and "Content-Type" not in nothing.headers
    assert reduced is not None and reduced.status == 503
    problem = decision.problem("abnormal-usage-detected")
    assert problem is not None and problem["type"].endswith("#abnormal-usage-detected")
    never = limiter.allow("key", 2).refusal("none", "json")
    assert limiter.allow("key", 2).retry_after == math.inf
    assert never is not None and (never.body, "Retry-After" in never.headers) == ('{"error":"Too many requests"}', False)


def test_a_caller_who_cannot_be_told_is_answered_with_403() -> None:
    assert unidentified().status == 403
    assert json.loads(unidentified().body)["detail"] == "The request does not say who is calling."
    assert unidentified("json").body == '{"error":"Forbidden"}'
    assert unidentified() == unidentified("problem") != unidentified("none")
    assert "\0" in SHARED_KEY


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("headers", ["draft-8"], 'style must be ietf, draft-7, draft-3, x-ratelimit, x-ratelimit-epoch or none, got "draft-8"'),
        ("refusal", ["ietf", "html"], 'body must be problem, json or none, got "html"'),
        (
            "problem",
            ["quota"],
            'type must be quota-exceeded, temporary-reduced-capacity or abnormal-usage-detected, got "quota"',
        ),
    ],
)
def test_what_is_not_known_is_refused(limiter: Limiter, method: str, arguments: list[str], message: str) -> None:
    limiter.allow("key")
    with pytest.raises(InvalidArgument) as raised:
        getattr(limiter.allow("key"), method)(*arguments)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("expected", "peer", "forwarded", "x_forwarded_for"),
    [
        ("192.0.2.1", "192.0.2.1", "", ""),
        ("192.0.2.1", "192.0.2.1", "for=6.6.6.6", "6.6.6.6"),
        ("203.0.113.9", "10.0.0.1", "", "6.6.6.6, 203.0.113.9"),
        ("203.0.113.9", "10.0.0.1", "", ["6.6.6.6, 203.0.113.9", "10.0.0.2"]),
        ("203.0.113.9", b"10.0.0.1:443", [], [b"203.0.113.9"]),
        ("203.0.113.9", "::1", 'for=6.6.6.6, FOR="203.0.113.9:80";proto=https', ""),
        ("2001:db8:1:2::/64", "10.0.0.1", 'for="[2001:db8:1:2:3::4]:4711"', ""),
        ("192.0.2.1", "::ffff:192.0.2.1", "", ""),
        ("fe80::/64", "fe80::1%eth0", "", ""),
        ("10.0.0.1", "10.0.0.1", "for=6.6.6.6, for=_hidden", ""),
        ("10.0.0.1", "10.0.0.1", "", "6.6.6.6, unknown"),
        ("10.0.0.1", "10.0.0.1", "", "6.6.6.6, \xff"),
        ("10.0.0.1", "10.0.0.1", "", "6.6.6.6, \udcff"),
        ("10.0.0.1", "10.0.0.1", "for=6.6.6.6", "203.0.113.9"),
        (None, None, "for=6.6.6.6", "6.6.6.6"),
        (None, "", "for=6.6.6.6", "6.6.6.6"),
    ],
)
def test_the_key_is_the_nearest_address_that_is_no_proxys(
    expected: str | None, peer: Any, forwarded: Any, x_forwarded_for: Any
) -> None:
    assert ClientIp(["10.0.0.0/8", "::1"]).resolve(peer, forwarded, x_forwarded_for) == expected


def test_a_socket_and_a_header_may_be_trusted() -> None:
    socket = ClientIp(["unix"], 128, "x-forwarded-for")
    assert socket.resolve("", ["for=6.6.6.6"], ["2001:db8::1"]) == "2001:db8::1"
    assert ClientIp().resolve() is None


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ([["10.0.0.0/33"]], InvalidArgument, 'trusted_proxies must be addresses, networks such as 10.0.0.0/8, or unix, got "10.0.0.0/33"'),
        (["10.0.0.1"], TypeError, "trusted_proxies must be a list of str, got str"),
        ([[1]], TypeError, "trusted_proxies must be a list of str, got int"),
        ([5], TypeError, "trusted_proxies must be a list of str, got int"),
        ([[], 0], InvalidArgument, "ipv6_prefix must be between 1 and 128, got 0"),
        ([[], 63.5], InvalidArgument, "ipv6_prefix must be between 1 and 128, got 63.5"),
        ([[], 2**64], InvalidArgument, f"ipv6_prefix must be between 1 and 128, got {2**64}"),
        ([[], "64"], TypeError, "ipv6_prefix must be an int, got str"),
        ([[], 64, "via"], InvalidArgument, 'header must be auto, forwarded or x-forwarded-for, got "via"'),
    ],
)  # fmt: skip
def test_a_wrong_proxy_prefix_or_header_is_refused(arguments: list[Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as raised:
        ClientIp(*arguments)
    assert str(raised.value) == message


@pytest.mark.parametrize("lines", [5, [5], None])
def test_lines_that_are_no_text_are_a_type_error(lines: Any) -> None:
    with pytest.raises(TypeError, match=r"^forwarded must be str"):
        ClientIp().resolve("192.0.2.1", lines)


def request(headers: dict[str, str] | None = None, **scope: Any) -> AsgiRequest:
    fields = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
    return AsgiRequest({"type": "http", "method": "GET", "path": "/a", "headers": fields, **scope})


class User:
    def __init__(self, pk: Any, is_authenticated: bool = True) -> None:
        self.pk, self.is_authenticated = pk, is_authenticated


SECRET = hashlib.sha256(b"s3cr3t").hexdigest()


@pytest.mark.parametrize(
    ("key", "given", "expected"),
    [
        (Key.user(), request(user=5), 5),
        (Key.user(), request(user=User(7)), 7),
        (Key.user(), request(state={"user": "ann"}, user=User(7)), "ann"),
        (Key.user(), request(user=User(None, is_authenticated=False)), None),
        (Key.user(), request(user=User(9, is_authenticated=False)), None),
        (Key.user(), request(user=object()), None),
        (Key.user(), request(), None),
        (Key.tenant(), request(state={"tenant": UUID(int=1)}), UUID(int=1)),
        (Key.attribute("plan"), request(state={"plan": "free"}), "free"),
        (Key.api_key(), request({"X-API-Key": "s3cr3t"}), SECRET),
        (Key.api_key(), request(), None),
        (Key.api_key("Authorization"), request({"Authorization": "Bearer s3cr3t"}), SECRET),
        (Key.api_key("Authorization"), request({"Authorization": "Bearer"}), None),
        (Key.header("X-Device"), request({"X-Device": "s3cr3t"}), SECRET),
        (Key.cookie("id"), request({"Cookie": 'a={"b":1}; id=s3cr3t; c=d'}), SECRET),
        (Key.cookie("id"), request({"Cookie": "a=b"}), None),
        (Key.route(), request(), "GET /a"),
        (Key.all(Key.route(), lambda scope: scope["path"]), request(), "GET /a|/a"),
        (Key.all(lambda _: "a|b", lambda _: "c"), request(), "a%7Cb|c"),
        (Key.all(lambda _: "a", lambda _: "b|c"), request(), "a|b%7Cc"),
        (Key.all(Key.user(), Key.route()), request(), None),
        (Key.all(), request(), None),
        (Key.first(Key.user(), ClientIp()), request(user="1.2.3.4", client=("5.6.7.8", 1)), "0:1.2.3.4"),
        (Key.first(Key.user(), ClientIp()), request(client=("1.2.3.4", 1)), "1:1.2.3.4"),
        (Key.first(Key.user(), ClientIp()), request(client=None), None),
    ],
)
def test_a_key_is_what_the_request_says(key: Key, given: AsgiRequest, expected: Any) -> None:
    assert key.of(given) == expected


def test_a_secret_makes_hashes_that_nobody_can_look_up() -> None:
    given = request({"X-API-Key": "s3cr3t"})
    keyed = {Key.api_key(secret=secret).of(given) for secret in ("one", b"one", "two", None)}
    assert len(keyed) == 3
    assert all(isinstance(key, str) and len(key) == 64 for key in keyed)
