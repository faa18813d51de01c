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


def test_its_repr_makes_the_same_policy_again() -> None:
    policy = Policy.token_bucket(10, 0.5, 60, continuous=True, name="it's")
    assert repr(policy) == "Policy.token_bucket(10, 0.5, 60.0, continuous=True, name=\"it's\")"
    assert eval(repr(policy)) == policy


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
def test_a_policy_can_be_pickled(protocol: int) -> None:
    policy = Policy.token_bucket(10, 0.1, 3.5, continuous=True, name="a b")
    copy = pickle.loads(pickle.dumps(policy, protocol))
    assert copy == policy
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
        limiter = Limiter(policies, Store.memory())  # type: ignore[arg-type]
        assert limiter.allow("k").remaining == 2


@pytest.mark.parametrize("count", [0, 2])
def test_another_number_of_policies_is_refused(count: int) -> None:
    with pytest.raises(InvalidPolicy, match=f"^policies must hold exactly one policy, got {count}$"):
        Limiter([Policy.token_bucket(3, 1)] * count, Store.memory())


@pytest.mark.parametrize("policies", [None, 3, object(), "100/m", [None], [3]])
def test_what_holds_no_policies_is_a_type_error(policies: Any) -> None:
    with pytest.raises(TypeError, match="^policies must"):
        Limiter(policies, Store.memory())
