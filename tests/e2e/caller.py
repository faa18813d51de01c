"""Asks once for each key on standard input, and says for each "allowed", "denied" or "away" (the store gave no answer),
what remains, and how many microseconds the call took."""

import sys
import time

from ratelimit_rs import Limiter, Policy, StoreUnavailable

dsn, capacity = sys.argv[1:]
limiter = Limiter(Policy.token_bucket(int(capacity), 1.0, 86400.0), dsn)
for line in sys.stdin:
    started = time.monotonic()
    try:
        decision = limiter.allow(line.rstrip("\n"))
        outcome, remaining = "allowed" if decision.allowed else "denied", decision.remaining
    except StoreUnavailable:
        outcome, remaining = "away", 0
    print(outcome, remaining, int((time.monotonic() - started) * 1e6), flush=True)
