#!/usr/bin/env python3
"""A naive oracle: decides with exact fractions and no cleverness, and writes the vectors with it.

    oracle.py           writes the vector files
    oracle.py --check   exits with 1 when a committed file is not what the oracle gives
"""

import json
import sys
from fractions import Fraction
from math import ceil
from pathlib import Path

HERE = Path(__file__).parent
SECOND = 1_000_000


def ratio(number):
    """The ratio a person means by a float: 0.1 is a tenth."""
    return Fraction(number).limit_denominator(10**9)


def policy(capacity, refill_rate, refill_interval=1.0, continuous=False):
    return {
        "algorithm": "token_bucket",
        "capacity": capacity,
        "refill_rate": float(refill_rate),
        "refill_interval": float(refill_interval),
        "continuous": continuous,
    }


class TokenBucket:
    """Tokens as a fraction, added at each tick; a tick is an interval, or a microsecond (or a coarser tick)."""

    def __init__(self, tick_us=1):
        self.continuous_tick_us = tick_us
        self.reset()

    def reset(self):
        self.tokens = None
        self.since = 0
        self.whole_at = 0

    def numbers(self, p):
        rate, interval = ratio(p["refill_rate"]), ratio(p["refill_interval"]) * SECOND
        if p["continuous"]:
            return self.continuous_tick_us, rate / interval * self.continuous_tick_us
        return int(interval), rate

    def bring_up_to(self, p, now):
        tick, gain = self.numbers(p)
        if self.tokens is None or now >= self.whole_at:
            self.tokens, self.since = Fraction(p["capacity"]), now
        self.tokens = min(self.tokens, p["capacity"])
        if self.since > now:  # The clock stepped back: no time has passed.
            self.since = now
            self.whole_at = self.reaches(p, p["capacity"])
        while self.since + tick <= now and self.tokens < p["capacity"]:
            ticks = max(1, min((now - self.since) // tick, int((p["capacity"] - self.tokens) / gain)))
            self.since += ticks * tick
            self.tokens = min(self.tokens + ticks * gain, Fraction(p["capacity"]))
        if self.tokens == p["capacity"]:
            self.since = now  # A full bucket forgets its phase.

    def reaches(self, p, tokens):
        tick, gain = self.numbers(p)
        return self.since + max(0, ceil((tokens - self.tokens) / gain)) * tick

    def decide(self, p, now, verb, cost):
        before = (self.tokens, self.since, self.whole_at)
        stepped_back = self.tokens is not None and now < self.whole_at and self.since > now
        self.bring_up_to(p, now)
        allowed = cost <= self.tokens
        if allowed and verb == "allow":
            self.tokens -= cost
        # What is not stored anew is forgotten when it was to be whole, also under a policy raised since.
        stored = before[0] is not None and self.tokens < p["capacity"] and not (allowed and verb == "allow" or stepped_back)
        reaches = lambda tokens: min(self.reaches(p, tokens), before[2]) if stored else self.reaches(p, tokens)
        decision = {
            "allowed": allowed,
            "limit": p["capacity"],
            "remaining": int(self.tokens),
            "retry_after_us": 0 if allowed else None if cost > p["capacity"] else reaches(cost) - now,
            "reset_after_us": reaches(p["capacity"]) - now,
        }
        if allowed and verb == "allow" or stepped_back:
            self.whole_at = self.reaches(p, p["capacity"])
        else:
            self.tokens, self.since, self.whole_at = before
        return decision


def case(name, first, *steps, tick_us=1):
    """Steps are (seconds, cost), (seconds, cost, "peek"), (seconds, "reset") or a new policy."""
    bucket, current, out = TokenBucket(tick_us), first, []
    changed = False
    for step in steps:
        if isinstance(step, dict):
            current, changed = step, True
            continue
        at_us = round(step[0] * SECOND)
        if step[1] == "reset":
            bucket.reset()
            out.append({"at_us": at_us, "verb": "reset"})
            continue
        verb = step[2] if len(step) > 2 else "allow"
        entry = {"at_us": at_us, "verb": verb, "cost": step[1]}
        if changed:
            entry["policy"], changed = current, False
        entry["expect"] = bucket.decide(current, 1_700_000_000 * SECOND + at_us, verb, step[1])
        out.append(entry)
    return {"name": name, "policy": first, "steps": out}


def token_bucket():
    hits = lambda at, count: [(at, 1)] * count
    yield case("a fresh bucket is full and gives its tokens one by one", policy(3, 1), *hits(0, 4))
    yield case(
        "polling faster than the interval does not starve the bucket",
        policy(5, 1), *hits(0, 5), *[(0.5 + 0.4 * n, 1) for n in range(25)],
    )
    yield case("less than one per second: 1 per 10 s", policy(1, 1, 10), (0, 1), (5, 1), (10, 1))
    yield case("less than one per second: 0.5 per 1 s", policy(1, 0.5), (0, 1), (1, 1), (2, 1))
    yield case("a tenth of a token is exactly a tenth", policy(1, 0.1), *[(n, 1) for n in range(22)])
    yield case("nothing arrives within an interval", policy(10, 4, 2), (0, 10), (1.999999, 1), (2, 4), (2, 1))
    yield case("a full bucket forgets its phase", policy(2, 1, 10), (0, 1), (10, 1), (14, 1), (19.999999, 1), (20, 1))
    yield case("a bucket left alone for long starts afresh", policy(2, 1, 10), (0, 2), (1005, 1), (1014, 2), (1015, 2))
    yield case("more per interval than the capacity fills the bucket", policy(5, 100, 1), (0, 5), (0.5, 1), (1, 5), (1, 1))
    yield case("very high rates still limit", policy(20, 2000), *hits(0, 100))
    yield case("very high continuous rates still limit", policy(20, 2000, 1, True), *hits(0, 21), (0.0004, 1), (0.0005, 1), (0.0005, 1))
    yield case(
        "a cost above what is left takes nothing",
        policy(5, 1, 10), *hits(0, 3), (0, 5), (0, 2), *[(0, 5)] * 3, (30, 4), (30, 3),
    )
    yield case(
        "a cost above the capacity never passes and takes nothing",
        policy(5, 1), (0, 6), (0, 2**31 - 1), (0, 200_000_000), (0, 5), (0, 6), (5, 5),
    )
    yield case("a look takes nothing", policy(2, 1), (0, 1, "peek"), (0, 2, "peek"), (0, 3, "peek"), (0, 2), (0, 1, "peek"), (1, 1, "peek"), (1, 1))
    yield case("a reset makes the budget whole", policy(2, 1, 60), (0, 2), (1, 1), (1, "reset"), (1, 2), (1, 1))
    yield case("the largest capacity", policy(2**31 - 1, 1), (0, 2**31 - 1), (0, 1), (1, 1), (1, 1))
    yield case("a wait of 25 days", policy(1, 1, 2_160_000), (0, 1), (0, 1), (2_159_999.999999, 1), (2_160_000, 1))
    yield case("a wait above 2^31 ms", policy(1, 1, 2_500_000.001), (0, 1), (0, 1), (2_500_000, 1), (2_500_000.001, 1))
    yield case("an interval of a fraction of a second", policy(2, 1, 0.75), (0, 2), (0.749999, 1), (0.75, 1), (0.75, 1))
    yield case("an interval of 600.001 s", policy(2, 2, 600.001), (0, 2), (600, 1), (600.001, 2), (600.001, 1))
    yield case("an interval of one microsecond", policy(3, 1, 0.000001), (0, 3), (0, 1), (0.000001, 1), (0.000002, 2), (0.000003, 2))
    yield case("continuous: a token every tenth of a second", policy(10, 10, 1, True), (0, 10), (0.05, 1), (0.099999, 1), (0.1, 1), (0.25, 1), (0.25, 1), (1.25, 10))
    yield case("continuous: thirds stay exact", policy(1, 1, 3, True), (0, 1), (1, 1), (2.999999, 1), (3, 1), (6, 1), (8.999999, 1), (9, 1))
    yield case("continuous: 7 per minute", policy(7, 7, 60, True), *[(n * 4.285714, 3) for n in range(12)])
    yield case("continuous: one per day", policy(2, 1, 86_400, True), (0, 2), (43_200, 1), (86_399.999999, 1), (86_400, 1), (86_400, 2))
    yield case(
        "continuous: a tick of a millisecond where a microsecond would not fit",
        policy(15_000, 7, 950_400, True), (0, 15_000), (135_771.428, 1), (135_771.4285, 1), (135_771.429, 1), (950_400.0005, 7), (950_400.5, 6),
        tick_us=1000,
    )
    yield case(
        "a lowered capacity holds at once",
        policy(1000, 5, 900), (0, 1), policy(10, 5, 900), *hits(0, 11),
    )
    yield case(
        "a raised capacity grants nothing for free",
        policy(10, 5, 900), *hits(0, 6), policy(1000, 5, 900), (0, 1), (900, 1),
    )
    yield case(
        "what nobody used under a raised capacity is forgotten when it was to be whole",
        policy(1, 1), (0, 1), policy(11, 1), (0, 2), (0.5, 1, "peek"), (0.999999, 2), (1, 2),
    )
    yield case(
        "tokens stay tokens when the rate changes",
        policy(10, 1, 1, True), (0, 6), policy(10, 3, 7, True), (0, 1), (1, 1), policy(10, 0.3, 1), (1, 1), (2, 1), (8, 1),
    )
    yield case(
        "from continuous to intervals and back the part of a token is kept",
        policy(5, 1, 1, True), (0, 5), (0.5, 1), policy(5, 0.25, 1, True), (1.5, 1), (1.5, 1), policy(5, 1, 1, True), (2, 1), (3, 1),
    )
    yield case(
        "a clock that steps back gains nobody anything and locks nobody out",
        policy(2, 1), *hits(600, 2), (0, 1), (0.5, 1), (1, 1), (1, 1), (2, 1), (600, 2), (600, 1),
    )
    yield case(
        "a look after a step back promises a wait that is enough",
        policy(1, 1, 10), (600, 1), (0, 1, "peek"), (9.999999, 1), (10, 1),
    )


def main():
    text = json.dumps({"cases": list(token_bucket())}, indent=None, separators=(",", ":"))
    # A step a line: diffs stay readable.
    text = text.replace('{"name"', '\n\n{"name"').replace('"steps":[', '"steps":[\n').replace(',{"at_us"', ',\n{"at_us"') + "\n"
    path = HERE / "policy" / "token_bucket.json"
    if "--check" in sys.argv:
        if path.read_text() != text:
            sys.exit(f"{path} is not what the oracle gives; run {Path(__file__).name} and look at the difference")
    else:
        path.write_text(text)


if __name__ == "__main__":
    main()
