"""Policies: what makes one, and what is refused with the argument's name and value."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from ratelimit_rs import InvalidPolicy, Limiter, Policy, RateLimitError, Store, TokenBucket


def test_a_policy_says_its_name_and_limit() -> None:
    policy = Policy.token_bucket(10, 0.5, 2.0, name="login")
    assert (policy.name, policy.limit) == ("login", 10)
    assert Policy.token_bucket(1, 1).name == "default"


# Each kind of policy: how it is made again, as a call and as a text.
KINDS = [
    (
        Policy.token_bucket(10, 0.5, 60, continuous=True, name="it's"),
        'Policy.token_bucket(10, 0.5, 60.0, continuous=True, name="it\'s")',
        "10 burst, 0.5/60s continuous",
    ),
    (
        Policy.token_bucket(20, 5),
        "Policy.token_bucket(20, 5.0, 1.0, continuous=False, name='default')",
        "20 burst, 5/1s",
    ),
    (Policy.leaky_bucket(10, 1 / 3, name="l"), f"Policy.leaky_bucket(10, {1 / 3}, name='l')", None),
    (Policy.gcra(10, 0.75), "Policy.gcra(10, 0.75, 10, name='default')", "10/0.75s burst 10"),
    (Policy.gcra(10, 1, 20, name="g"), "Policy.gcra(10, 1.0, 20, name='g')", "10/1s burst 20"),
    (
        Policy.fixed_window(100, 60.000001),
        "Policy.fixed_window(100, 60.000001, aligned=False, name='default')",
        "100/60.000001s",
    ),
    (
        Policy.fixed_window(100, 3600, aligned=True, name="h"),
        "Policy.fixed_window(100, 3600.0, aligned=True, name='h')",
        "100/3600s aligned",
    ),
    (
        Policy.sliding_window_log(3, 0.5),
        "Policy.sliding_window_log(3, 0.5, name='default')",
        "3/0.5s log",
    ),
    (
        Policy.sliding_window_counter(2**31 - 1, 86400),
        "Policy.sliding_window_counter(2147483647, 86400.0, name='default')",
        "2147483647/86400s sliding",
    ),
    (
        Policy.parse("1000 per day aligned Europe/Berlin", name="b"),
        "Policy.parse('1000/day aligned Europe/Berlin', name='b')",
        "1000/day aligned Europe/Berlin",
    ),
]
POLICIES = [policy for policy, _, _ in KINDS]


@pytest.mark.parametrize(("policy", "call", "text"), KINDS, ids=[call.split("(")[0] for _, call, _ in KINDS])
def test_its_repr_and_its_text_make_the_same_policy_again(policy: Policy, call: str, text: str | None) -> None:
    assert repr(policy) == call
    assert eval(repr(policy)) == policy
    if text is not None:
        assert str(policy) == text
    assert Policy.parse(str(policy), name=policy.name) == policy


def test_no_two_kinds_are_equal() -> None:
    assert len(set(POLICIES)) == len(POLICIES)


def test_equal_numbers_and_names_make_equal_policies() -> None:
    policy = Policy.token_bucket(10, 1)
    assert policy == Policy.token_bucket(10.0, 1.0, 1.0, continuous=False, name="default")
    assert hash(policy) == hash(Policy.token_bucket(10, 1))
    others = [
        Policy.token_bucket(11, 1),
        Policy.token_bucket(10, 2),
        Policy.token_bucket(10, 1, 2),
        Policy.token_bucket(10, 1, continuous=True),
        Policy.token_bucket(10, 1, name="other"),
    ]
    assert policy not in others
    assert policy != "default"
    assert len({policy, Policy.token_bucket(10, 1), *others}) == 6


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_a_policy_can_be_pickled(policy: Policy, protocol: int) -> None:
    copy = pickle.loads(pickle.dumps(policy, protocol))
    assert copy == policy
    assert hash(copy) == hash(policy)
    assert repr(copy) == repr(policy)


def test_it_cannot_be_changed_or_made_without_an_algorithm() -> None:
    policy: Any = Policy.token_bucket(10, 1)
    with pytest.raises(AttributeError):
        policy.limit = 11
    make: Any = Policy
    with pytest.raises(TypeError):
        make()


@pytest.mark.parametrize("number", [10, 10.0, Decimal(10), Fraction(10)])
def test_rates_and_intervals_may_be_any_real_number(number: Any) -> None:
    assert Policy.token_bucket(10, number, number) == Policy.token_bucket(10, 10, 10)


WRONG = [
    ("capacity", 0, "between 1 and 2147483647, got 0"),
    ("capacity", -1, "between 1 and 2147483647, got -1"),
    ("capacity", 2**31, "between 1 and 2147483647, got 2147483648"),
    ("capacity", 2**53 - 1, "between 1 and 2147483647, got 9007199254740991"),
    ("capacity", 2**70, "between 1 and 2147483647, got 1180591620717411303424"),
    pytest.param("capacity", 10**5000, "between 1 and 2147483647, got a very long int", id="huge"),
    ("capacity", 1e30, "between 1 and 2147483647, got 1e+30"),
    ("capacity", 1.5, "an integer between 1 and 2147483647, got 1.5"),
    ("capacity", Decimal("1.5"), "an integer between 1 and 2147483647, got Decimal('1.5')"),
    ("capacity", math.nan, "an integer between 1 and 2147483647, got nan"),
    ("capacity", math.inf, "an integer between 1 and 2147483647, got inf"),
    ("capacity", True, "an integer between 1 and 2147483647, got True"),
    ("refill_rate", 0, "above 0"),
    ("refill_rate", -1, "above 0"),
    ("refill_rate", math.nan, "got NaN"),
    ("refill_rate", math.inf, "got inf"),
    ("refill_rate", 10**400, "got inf"),
    ("refill_rate", 5e-324, "above 0"),
    ("refill_rate", True, "got True"),
    ("refill_interval", 0, "above 0"),
    ("refill_interval", -5, "above 0"),
    ("refill_interval", math.nan, "got NaN"),
    ("refill_interval", -math.inf, "got -inf"),
]


@pytest.mark.parametrize("make", [Policy.token_bucket, TokenBucket])
@pytest.mark.parametrize(("argument", "value", "text"), WRONG)
def test_numbers_that_make_no_policy_are_refused_by_name(make: Any, argument: str, value: Any, text: str) -> None:
    numbers = {"capacity": 10, "refill_rate": 1, "refill_interval": 1.0, argument: value}
    with pytest.raises(InvalidPolicy) as caught:
        make(**numbers)
    assert str(caught.value).startswith(f"{argument} must be ")
    assert text in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, RateLimitError)


# Every number of the other algorithms: how it is called, and a policy that has it.
NUMBERS: list[tuple[str, Any, dict[str, Any]]] = [
    ("limit", Policy.fixed_window, {"window": 60}),
    ("limit", Policy.sliding_window_log, {"window": 60}),
    ("limit", Policy.sliding_window_counter, {"window": 60}),
    ("limit", Policy.gcra, {"period": 60}),
    ("burst", Policy.gcra, {"limit": 10, "period": 60}),
    ("capacity", Policy.leaky_bucket, {"leak_rate": 1}),
    ("window", Policy.fixed_window, {"limit": 10}),
    ("window", Policy.sliding_window_log, {"limit": 10}),
    ("window", Policy.sliding_window_counter, {"limit": 10}),
    ("period", Policy.gcra, {"limit": 10}),
    ("leak_rate", Policy.leaky_bucket, {"capacity": 10}),
]
COUNTS = ("limit", "burst", "capacity")


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number[1].__name__}-{number[0]}")
def test_numbers_of_every_algorithm_are_refused_by_name(number: tuple[str, Any, dict[str, Any]]) -> None:
    argument, make, others = number
    wrong: list[Any] = [0, -1, -5.0, 2**70, math.nan, math.inf, -math.inf, True]
    wrong += [1.5, 2**31, -(2**63)] if argument in COUNTS else [1e-300]
    for value in wrong:
        with pytest.raises(InvalidPolicy) as caught:
            make(**others, **{argument: value})
        assert str(caught.value).startswith(f"{argument} ")
        assert isinstance(caught.value, ValueError)
    # No burst is as many as the limit.
    for value in (["10"] if argument == "burst" else [None, "10"]):
        with pytest.raises(TypeError, match=f"^{argument} must be an? (int|number), got {type(value).__name__}$"):
            make(**others, **{argument: value})
    # A float that is whole is a count.
    assert make(**others, **{argument: 7.0}) == make(**others, **{argument: 7})


def test_the_largest_burst_is_what_can_ever_pass() -> None:
    assert Policy.gcra(10, 1, 20).limit == 20
    assert Policy.gcra(10, 1, None).limit == Policy.gcra(10, 1).limit == 10


TEXTS = [
    ("100/m", Policy.fixed_window(100, 60)),
    ("5 per 10 minutes", Policy.fixed_window(5, 600)),
    ("100/h aligned", Policy.fixed_window(100, 3600, aligned=True)),
    ("100/h sliding", Policy.sliding_window_counter(100, 3600)),
    ("100/h log", Policy.sliding_window_log(100, 3600)),
    ("10/s burst 20", Policy.gcra(10, 1, 20)),
    ("10/s gcra", Policy.gcra(10, 1)),
    ("20 burst, 5/s", Policy.token_bucket(20, 5)),
    ("20 burst, 0.5/10s continuous", Policy.token_bucket(20, 0.5, 10, continuous=True)),
    ("10 burst, 120/m leaky", Policy.leaky_bucket(10, 2)),
]


@pytest.mark.parametrize(("text", "policy"), TEXTS)
def test_a_text_is_read_as_the_policy_it_means(text: str, policy: Policy) -> None:
    assert Policy.parse(text) == policy
    assert Policy.parse(text, name="api").name == "api"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", 'text "" needs a number of units at character 1, where there is the end'),
        ("10/fortnight", 'text "10/fortnight" needs a unit of time: us, ms, s, m, h, d, w or month at character 4'),
        ("10/s burst", 'text "10/s burst" needs a burst at character 11'),
        ("1.5/s", 'text "1.5/s" says 1.5 for the limit'),
        ("0/s", "limit must be between 1 and 2147483647, got 0"),
        ("1/day aligned Mars/Base", 'zone must be a time zone such as Europe/Berlin, got "Mars/Base"'),
    ],
)
def test_a_fault_in_a_text_is_pointed_at(text: str, fault: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        Policy.parse(text)
    assert str(caught.value).startswith(fault)


@pytest.mark.parametrize("text", [None, 5, b"10/s"])
def test_what_is_no_text_is_a_type_error(text: Any) -> None:
    with pytest.raises(TypeError, match="text"):
        Policy.parse(text)


@pytest.mark.parametrize("make", [Policy.token_bucket, TokenBucket])
@pytest.mark.parametrize("argument", ["capacity", "refill_rate", "refill_interval"])
@pytest.mark.parametrize("value", [None, "10", b"10", [], object()])
def test_what_is_no_number_is_a_type_error(make: Any, argument: str, value: Any) -> None:
    numbers = {"capacity": 10, "refill_rate": 1, "refill_interval": 1.0, argument: value}
    with pytest.raises(TypeError, match=f"^{argument} must be an? (int|number), got {type(value).__name__}$"):
        make(**numbers)


@pytest.mark.parametrize("name", ["", "ü", "a\nb", "x" * 101])
def test_a_name_that_would_not_be_printable_is_refused(name: str) -> None:
    with pytest.raises(InvalidPolicy, match="^name must be 1 to 100 printable ASCII characters"):
        Policy.token_bucket(10, 1, name=name)


def test_a_limiter_takes_one_policy_alone_or_in_a_list() -> None:
    policy = Policy.token_bucket(3, 1)
    for policies in (policy, [policy], (policy,)):
        limiter = Limiter(policies, Store.memory())
        assert limiter.allow("k").remaining == 2


def test_policies_that_cannot_go_together_are_refused() -> None:
    for count in (0, 33):
        policies = [Policy.token_bucket(3, 1, name=f"p{number}") for number in range(count)]
        with pytest.raises(InvalidPolicy, match=f"^policies must be 1 to 32 policies, got {count}$"):
            Limiter(policies, Store.memory())
    with pytest.raises(InvalidPolicy, match="^policies must differ in name, algorithm or window"):
        Limiter([Policy.token_bucket(3, 1)] * 2, Store.memory())


@pytest.mark.parametrize("policies", [None, 3, object(), "100/m", [None], [3]])
def test_what_holds_no_policies_is_a_type_error(policies: Any) -> None:
    with pytest.raises(TypeError, match="^policies must"):
        Limiter(policies, Store.memory())
