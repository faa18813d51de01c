"""The header vectors, which every language writes to the letter, read back by a parser that is not ours."""

import json
import re
from pathlib import Path

import http_sf
import pytest

VECTORS = Path(__file__).parents[1] / "vectors" / "headers" / "emit"
CASES = [case for path in sorted(VECTORS.glob("*.json")) for case in json.loads(path.read_text())["cases"]]


def named(names):
    return pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])(names)


def seconds(policy):
    """The window of a policy's text, such as `10 burst, 1/s` or `4/h`, in seconds, rounded up."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    count, unit = re.search(r"/([\d.]*)([smhdw])", policy["text"]).groups()
    window = float(count or 1) * units[unit]
    burst = re.match(r"(\d+) burst, (\d+)/", policy["text"])
    return -int(-(window * int(burst[1]) / int(burst[2]) if burst else window) // 1)


def limit(policy):
    return int(re.match(r"\d+", policy["text"])[0])


@named
def test_the_lists_of_the_newest_draft_say_what_the_policies_are(case):
    fields = case["headers"]["ietf"]
    quotas = http_sf.parse(fields["RateLimit-Policy"].encode(), tltype="list")
    states = http_sf.parse(fields["RateLimit"].encode(), tltype="list")
    expected = [(it["name"], {"q": limit(it), "w": seconds(it)}) for it in case["policies"]]
    assert quotas == expected
    assert [name for name, _ in states] == [it["name"] for it in case["policies"]]
    for (_, state), policy in zip(states, case["policies"], strict=True):
        assert set(state) == {"r", "t"}
        assert 0 <= state["r"] <= limit(policy)
        assert isinstance(state["t"], int) and state["t"] >= 0
    if "Retry-After" in fields:
        assert int(fields["Retry-After"]) in [state["t"] for _, state in states]


@named
def test_the_dictionary_of_draft_7_agrees_with_the_older_families(case):
    if "draft-7" not in case["headers"]:
        return
    fields = case["headers"]["draft-7"]
    quotas = http_sf.parse(fields["RateLimit-Policy"].encode(), tltype="list")
    assert quotas == [(limit(it), {"w": seconds(it)}) for it in case["policies"]]
    state = http_sf.parse(fields["RateLimit"].encode(), tltype="dictionary")
    state = {name: value for name, (value, _) in state.items()}
    for style, prefix in (("draft-3", "RateLimit-"), ("x-ratelimit", "X-RateLimit-")):
        older = case["headers"][style]
        assert {name: int(older[prefix + name.title()]) for name in ("limit", "remaining", "reset")} == state
