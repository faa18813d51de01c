"""Asks once for each key on standard input, and says "allowed remaining" for each."""

import sys

from ratelimit_rs import Limiter, Policy

limiter = Limiter(Policy.token_bucket(100, 1.0, 86400.0), sys.argv[1])
for line in sys.stdin:
    decision = limiter.allow(line.rstrip("\n"))
    print(int(decision.allowed), decision.remaining, flush=True)
