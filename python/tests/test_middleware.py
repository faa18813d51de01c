"""What a middleware, an extension and a decorator do alike in every framework."""

from __future__ import annotations

import json
import logging
import socket
from typing import Any
from uuid import UUID

import http_sf
import pytest
from servers import RedisServer
from stacks import STACKS, Stack

import ratelimit_rs.aio
from ratelimit_rs import InvalidArgument, InvalidCost, Limiter, ManualClock, Policy, Store, StoreUnavailable
from ratelimit_rs.http import SHARED_KEY, ClientIp, IdentityMissing, Key

ANN = Key(lambda _: "ann")


@pytest.fixture(params=STACKS, ids=lambda stack: stack.__name__.removesuffix("Stack"))
def stack(request: pytest.FixtureRequest) -> type[Stack]:
    kind: type[Stack] = request.param
    return kind


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def limiter(clock: ManualClock) -> Limiter:
    return Limiter(Policy.parse("3/m"), Store.memory(), clock=clock)


def test_an_allowed_request_gets_the_response_with_the_headers_added(stack: type[Stack], limiter: Limiter) -> None:
    answer = stack(limiter, ANN).send()
    assert (answer.status, answer.body) == (200, "hello")
    assert http_sf.parse(answer.headers["RateLimit-Policy"].encode(), tltype="list") == [("default", {"q": 3, "w": 60})]
    assert http_sf.parse(answer.headers["RateLimit"].encode(), tltype="list") == [("default", {"r": 2, "t": 60})]
    assert "Retry-After" not in answer.headers


def test_a_refused_request_is_answered_without_the_application(
    stack: type[Stack], limiter: Limiter, clock: ManualClock
) -> None:
    site = stack(limiter, ANN)
    for _ in range(3):
        assert site.send().status == 200
    clock.advance(59.1)
    answer = site.send()
    assert (answer.status, site.site.calls) == (429, 3)
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert http_sf.parse(answer.headers["RateLimit"].encode(), tltype="list") == [("default", {"r": 0, "t": 1})]
    assert json.loads(answer.body) == {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": 429,
        "detail": "The rate limit of 3 is used up. Try again in 1 second.",
        "violated-policies": ["default"],
    }
    assert int(answer.headers.get("Content-Length", len(answer.body))) == len(answer.body)
    clock.advance(0.9)
    assert site.send().status == 200


def test_refused_requests_never_move_the_headers_out_of_their_range(
    stack: type[Stack], limiter: Limiter, clock: ManualClock
) -> None:
    site = stack(limiter, ANN, headers="x-ratelimit")
    limiter.allow("ann", 3)
    for _ in range(50):
        clock.advance(1.199)
        answer = site.send()
        assert (answer.status, answer.headers["X-RateLimit-Remaining"]) == (429, "0")
        assert 1 <= int(answer.headers["Retry-After"]) == int(answer.headers["X-RateLimit-Reset"]) <= 60
    clock.advance(0.05)
    assert site.send().status == 200


@pytest.mark.parametrize("style", ["ietf", "draft-7", "draft-3", "x-ratelimit", "x-ratelimit-epoch", "none"])
def test_the_headers_are_those_of_the_style(stack: type[Stack], limiter: Limiter, style: Any) -> None:
    site = stack(limiter, ANN, headers=style, body="none")
    twin = Limiter(Policy.parse("3/m"), Store.memory(), clock=ManualClock())
    for _ in range(4):
        expected, answer = twin.allow("ann"), site.send()
        told = {name: value for name, value in answer.headers.items() if "ratelimit" in name or name == "retry-after"}
        wanted = {name.lower(): value for name, value in expected.headers(style).items()}
        assert told == wanted
    assert (answer.status, answer.body) == (429, "")


def test_a_head_request_is_refused_without_a_body(stack: type[Stack], limiter: Limiter) -> None:
    limiter.allow("ann", 3)
    answer = stack(limiter, ANN).send(method="HEAD")
    assert (answer.status, answer.body, answer.headers["Retry-After"]) == (429, "", "60")


def test_a_header_that_the_response_has_is_left_alone(stack: type[Stack], limiter: Limiter) -> None:
    site = stack(limiter, ANN)
    site.site.own = {"ratelimit": "mine"}
    answer = site.send()
    assert answer.headers.get_list("RateLimit") == ["mine"]
    assert "RateLimit-Policy" in answer.headers


def test_the_body_and_the_type_of_a_refusal_are_chosen(stack: type[Stack], limiter: Limiter) -> None:
    limiter.allow("ann", 3)
    answer = stack(limiter, ANN, body="json").send()
    assert (answer.body, answer.headers["Content-Type"]) == (
        '{"error":"Too many requests","retry_after":60}',
        "application/json",
    )
    answer = stack(limiter, ANN, type="abnormal-usage-detected").send()
    assert json.loads(answer.body)["type"].endswith("#abnormal-usage-detected")


def test_only_failed_logins_are_charged(stack: type[Stack], limiter: Limiter) -> None:
    site = stack(limiter, ANN, after=lambda response, request: 1 if response.status_code == 401 else 0)
    for _ in range(6):
        assert site.send(method="POST").headers["RateLimit"] == '"default";r=3;t=0'
    site.site.status = 401
    for remaining in (2, 1, 0):
        answer = site.send(method="POST")
        assert (answer.status, answer.headers["RateLimit"]) == (401, f'"default";r={remaining};t=60')
        assert "Retry-After" not in answer.headers
    site.site.status = 200
    assert site.send(method="POST").status == 429


def test_many_logins_at_once_cannot_guess_more_often_than_the_limit(stack: type[Stack], limiter: Limiter) -> None:
    site = stack(limiter, ANN, after=lambda response, request: 1 if response.status_code == 401 else 0)
    site.site.status = 401
    refused = []

    def meanwhile() -> None:
        # While the one before is being handled, the next one is asked for: each is charged before it is handled.
        refused.append(not limiter.peek("ann").allowed)
        assert limiter.peek("ann").remaining == 3 - site.site.calls

    site.site.meanwhile = meanwhile
    assert [site.send().status for _ in range(5)] == [401, 401, 401, 429, 429]
    assert refused == [False, False, True]


def test_a_response_may_cost_more_as_far_as_it_is_there(stack: type[Stack], limiter: Limiter) -> None:
    costs = iter([2, 5])
    site = stack(limiter, ANN, after=lambda response, request: next(costs))
    assert site.send().headers["RateLimit"] == '"default";r=1;t=60'
    assert site.send().headers["RateLimit"] == '"default";r=0;t=60'
    assert limiter.peek("ann").remaining == 0


def test_a_request_may_cost_more_and_pass_unlimited(stack: type[Stack], limiter: Limiter) -> None:
    site = stack(limiter, ANN, cost=lambda request: 2, skip=path_is_free)
    assert [site.send().status for _ in range(2)] == [200, 429]
    for _ in range(3):
        answer = site.send("/free")
        assert answer.status == 200 and "RateLimit" not in answer.headers
    assert limiter.peek("ann").remaining == 1


def path_is_free(request: Any) -> bool:
    """The path in whatever the framework's request is."""
    if isinstance(request, dict):
        return request.get("path", request.get("PATH_INFO")) == "/free"
    path: str = request.path
    return path == "/free"


def test_each_route_has_its_limiter(stack: type[Stack], limiter: Limiter) -> None:
    site = stack(lambda request: None if path_is_free(request) else limiter, ANN)
    assert [site.send("/free").status for _ in range(5)] == [200] * 5
    assert [site.send().status for _ in range(4)] == [200, 200, 200, 429]


@pytest.mark.parametrize(
    ("rule", "statuses", "shared"),
    [("reject", [403, 403, 403, 403], 3), ("skip", [200, 200, 200, 200], 3), ("shared", [200, 200, 200, 429], 0)],
)
@pytest.mark.parametrize("missing", [None, "", {}, b""], ids=repr)
def test_a_missing_identity_follows_the_rule_and_is_reported_once(
    stack: type[Stack],
    limiter: Limiter,
    caplog: pytest.LogCaptureFixture,
    rule: Any,
    statuses: list[int],
    shared: int,
    missing: Any,
) -> None:
    site = stack(limiter, lambda request: missing, on_missing_key=rule)
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="ratelimit_rs"):
        assert [site.send().status for _ in range(4)] == statuses
    told = [record for record in caplog.records if record.name == "ratelimit_rs"]
    assert [record.getMessage() for record in told] == [f"A request does not say who is calling; rule: {rule}."]
    assert limiter.peek(SHARED_KEY).remaining == shared
    assert limiter.peek("").remaining == 3


def test_a_missing_identity_may_be_an_exception(stack: type[Stack], limiter: Limiter) -> None:
    site = stack(limiter, lambda request: None, on_missing_key="throw", logger=logging.getLogger("mine"))
    with pytest.raises(IdentityMissing, match=r"^the request does not say who is calling$"):
        site.send()


def test_of_several_keys_only_the_missing_one_is_shared(stack: type[Stack]) -> None:
    policies = [Policy.parse("9/m", name="user"), Policy.parse("9/m", name="tenant")]
    limiter = Limiter(policies, Store.memory(), clock=ManualClock())
    site = stack(limiter, lambda request: {"user": 7, "tenant": None}, on_missing_key="shared")
    assert site.send().status == 200
    left = limiter.peek({"user": "7", "tenant": SHARED_KEY})
    assert [one.remaining for one in left.each()] == [8, 8]
    assert stack(limiter, lambda request: {"user": 7, "tenant": None}).send().status == 403


@pytest.mark.parametrize("key", ["k", b"k", 5, UUID(int=5)], ids=repr)
def test_a_key_is_a_text_or_becomes_one(stack: type[Stack], limiter: Limiter, key: Any) -> None:
    assert stack(limiter, lambda request: key).send().status == 200
    assert limiter.peek(key if isinstance(key, (str, bytes)) else str(key)).remaining == 2


def test_a_key_that_is_none_is_an_error_that_does_not_tell_it(stack: type[Stack], limiter: Limiter) -> None:
    with pytest.raises(TypeError, match=r"^key must give str, bytes, int, UUID, a dict of them or None, got float$"):
        stack(limiter, lambda request: 1.5).send()


PROXIES = ["198.51.100.7", "10.0.0.2"]
ENDS = [
    *(("X-Forwarded-For", [f"RANDOM, {end}"]) for end in ("203.0.113.9", "not-an-ip", "203.0.113.9, 10.0.0.2", "")),
    ("X-Forwarded-For", ["RANDOM", "203.0.113.9"]),
    ("X-Forwarded-For", ["RANDOM, 203.0.113.9", "10.0.0.2"]),
    *(
        ("Forwarded", [f"for=RANDOM, {end}"])
        for end in ("for=203.0.113.9", 'for="[2001:db8::1]:80"', "for=unknown", "for=_x, for=10.0.0.2", "proto=https", 'for="')
    ),
    ("Forwarded", ['for="RANDOM, for=203.0.113.9']),
    ("Forwarded", ["for=RANDOM", "for=203.0.113.9"]),
]  # fmt: skip


@pytest.mark.parametrize("trusted", [[], PROXIES], ids=["nobody is trusted", "behind proxies"])
@pytest.mark.parametrize(("header", "lines"), ENDS, ids=lambda value: "" if isinstance(value, str) else repr(value))
def test_a_new_forwarded_address_per_request_gives_no_new_budget(
    stack: type[Stack], limiter: Limiter, trusted: list[str], header: str, lines: list[str]
) -> None:
    site = stack(limiter, ClientIp(trusted))
    statuses = []
    for number in range(6):
        headers = [(header, line.replace("RANDOM", f"192.0.2.{number}")) for line in lines]
        statuses.append(site.send(headers=headers).status)
    assert statuses == [200] * 3 + [429] * 3


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Forwarded-For", "203.0.113.NUMBER")],
        [("X-Forwarded-For", "6.6.6.6, 203.0.113.NUMBER"), ("X-Forwarded-For", "10.0.0.2")],
        [("Forwarded", 'for=6.6.6.6, for="203.0.113.NUMBER:80";proto=https')],
        [("Forwarded", 'for="[2001:db8:NUMBER::5]"'), ("Forwarded", "for=10.0.0.2")],
    ],
)
def test_callers_behind_proxies_have_a_budget_each(
    stack: type[Stack], limiter: Limiter, headers: list[tuple[str, str]]
) -> None:
    site = stack(limiter, ClientIp(PROXIES))
    for number in range(1, 6):
        own = [(name, value.replace("NUMBER", str(number))) for name, value in headers]
        assert [site.send(headers=own).status for _ in range(4)] == [200, 200, 200, 429]


def test_a_token_is_readable_nowhere(stack: type[Stack], server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    limiter = Limiter(Policy.parse("2/m"), f"{server.dsn}?timeout=5")
    site = stack(limiter, Key.api_key("Authorization"))
    seen, statuses = "", []
    with socket.create_connection(("127.0.0.1", server.port)) as monitor:
        monitor.sendall(b"MONITOR\r\n")
        for token in ("s3cr3t-token", "s3cr3t-token", "s3cr3t-token", "s3cr3t-other"):
            answer = site.send(headers=[("Authorization", f"Bearer {token}")])
            statuses.append(answer.status)
            seen += f"{answer.headers}{answer.body}"
        with server.client() as client:
            client.echo("the end")
        while "the end" not in seen:
            seen += monitor.recv(65536).decode("latin-1")
    assert statuses == [200, 200, 429, 200]
    seen += caplog.text
    assert "eval" in seen.lower()
    assert "s3cr3t" not in seen


def test_a_store_that_is_away_is_503_where_the_rule_is_closed(stack: type[Stack], own_server: RedisServer) -> None:
    limiter = Limiter(Policy.parse("3/m"), own_server.dsn, on_error="closed")
    own_server.stop()
    answer = stack(limiter, ANN, type="quota-exceeded").send()
    assert (answer.status, json.loads(answer.body)["status"]) == (503, 503)
    assert json.loads(answer.body)["type"].endswith("#temporary-reduced-capacity")
    assert "RateLimit" not in answer.headers
    assert int(answer.headers["Retry-After"]) >= 1


def test_a_store_that_is_away_is_passed_by_or_told_where_the_rule_says_so(
    stack: type[Stack], own_server: RedisServer
) -> None:
    own_server.stop()
    site = stack(Limiter(Policy.parse("3/m"), own_server.dsn, on_error="open"), ANN)
    answer = site.send()
    assert answer.status == 200 and "RateLimit" not in answer.headers
    with pytest.raises(StoreUnavailable) as raised:
        stack(Limiter(Policy.parse("3/m"), own_server.dsn), ANN).send()
    assert raised.value.kind == "refused"


def test_a_store_that_goes_away_meanwhile_does_not_undo_the_response(
    stack: type[Stack], own_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    site = stack(Limiter(Policy.parse("3/m"), f"{own_server.dsn}?timeout=5"), ANN, after=lambda response, request: 0)
    site.site.meanwhile = own_server.stop
    answer = site.send()
    assert (answer.status, answer.headers["RateLimit"]) == (200, '"default";r=2;t=60')
    told = [record.getMessage() for record in caplog.records if record.name == "ratelimit_rs"]
    # What the server's end was noticed by is not the same each time.
    expected = [f"The charge for a request could not be set right: the store is away ({kind})." for kind in ("refused", "closed")]
    assert len(told) == 1 and told[0] in expected


def test_what_an_application_raises_goes_on_and_stays_charged(stack: type[Stack], limiter: Limiter) -> None:
    site = stack(limiter, ANN, after=lambda response, request: 0 if response.status_code < 500 else 1)

    def meanwhile() -> None:
        raise ZeroDivisionError

    site.site.meanwhile = meanwhile
    with pytest.raises(ZeroDivisionError):
        site.send()
    assert limiter.peek("ann").remaining == 2


def test_a_wrong_cost_never_reaches_the_store(stack: type[Stack], server: RedisServer) -> None:
    limiter = Limiter(Policy.parse("3/m"), f"{server.dsn}?timeout=5")
    with pytest.raises(InvalidCost, match="got 0$"):
        stack(limiter, ANN, cost=lambda request: 0).send()
    assert server.decisions() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"headers": "draft-8"}, "style must be ietf"),
        ({"body": "html"}, "body must be problem"),
        ({"type": "quota"}, "type must be quota-exceeded"),
        ({"on_missing_key": "pass"}, "on_missing_key must be reject, skip, shared or throw, got 'pass'"),
    ],
)
def test_a_mistake_is_told_when_it_is_made(
    stack: type[Stack], limiter: Limiter, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        # Starlette builds its middlewares with the first request.
        stack(limiter, ANN, **options).send()


@pytest.mark.parametrize("options", [{"key": 5}, {"skip": 5}, {"after": 5}, {"limiter": 5}, {"what": 5}])
def test_what_is_no_function_is_a_type_error(stack: type[Stack], limiter: Limiter, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        stack(**{"limiter": limiter, "key": ANN, **options}).send()


class Awaited:
    """A limiter whose verbs are awaited."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter

    async def allow(self, key: Any, cost: int = 1) -> Any:
        return self.limiter.allow(key, cost)

    async def peek(self, key: Any, cost: int = 1) -> Any:
        return self.limiter.peek(key, cost)

    async def refund(self, key: Any, cost: int = 1) -> None:
        self.limiter.refund(key, cost)


def test_what_is_awaited_is_awaited_where_the_framework_does(stack: type[Stack], limiter: Limiter) -> None:
    async def key(request: Any) -> str:
        return "ann"

    async def after(response: Any, request: Any) -> int:
        return 1 if response.status_code == 401 else 0

    async def skip(request: Any) -> bool:
        return path_is_free(request)

    if not stack.asynchronous:
        for arguments in ((Awaited(limiter), ANN), (limiter, key)):
            with pytest.raises(TypeError, match="has to be awaited, which this framework does not"):
                stack(*arguments).send()
        assert limiter.peek("ann").remaining == 3
        return
    site = stack(Awaited(limiter), key, after=after, skip=skip)
    assert site.send().headers["RateLimit"] == '"default";r=3;t=0'
    site.site.status = 401
    assert [site.send().status for _ in range(4)] == [401, 401, 401, 429]
    assert site.send("/free").status == 401


def test_a_limiter_for_event_loops_is_asked_on_the_loop_alone(
    stack: type[Stack], server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    limiter = ratelimit_rs.aio.Limiter(Policy.parse("2/m"), f"{server.dsn}?timeout=5")
    if not stack.asynchronous:
        with pytest.raises(TypeError, match="has to be awaited, which this framework does not"):
            stack(limiter, ANN).send()
        return
    monkeypatch.setattr("ratelimit_rs._gate.asyncio.to_thread", None)
    site = stack(limiter, ANN, after=lambda response, request: 1 if response.status_code == 401 else 0)
    assert site.send().headers["RateLimit"] == '"default";r=2;t=0'
    site.site.status = 401
    assert [site.send().status for _ in range(3)] == [401, 401, 429]
