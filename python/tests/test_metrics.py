"""What limiters have done, as a Prometheus server reads it."""

from __future__ import annotations

import os

from prometheus_client.parser import text_string_to_metric_families
from servers import RedisServer, free_port

from ratelimit_rs import Limiter, Policy, Store, metrics


def samples() -> dict[tuple[str, str, str], float]:
    """By name, policy and whatever else there is; read by a parser that is not ours."""
    found = {}
    for family in text_string_to_metric_families(metrics()):
        for sample in family.samples:
            labels = dict(sample.labels)
            policy = labels.pop("policy", "")
            found[sample.name, policy, " ".join(labels.values())] = sample.value
    return found


def test_the_counts_are_what_the_caller_saw(server: RedisServer) -> None:
    limiter = Limiter(Policy.token_bucket(3, 1, 3600, name="seen"), Store.open(server.dsn + "?timeout=5"))
    seen = [limiter.allow("k") for _ in range(8)]
    limiter.peek("k")
    seen += limiter.allow_many(["k", ("other", 2)])
    counted = samples()
    for source in ("store", "deny_cache"):
        for name, allowed in (("rate_limiter_allowed_total", True), ("rate_limiter_denied_total", False)):
            expected = sum(it.allowed == allowed and it.source == source for it in seen)
            assert counted.get((name, "seen", source), 0) == expected, (name, source)
    assert counted["rate_limiter_latency_seconds_count", "", ""] >= 4
    assert counted["rate_limiter_latency_seconds_bucket", "", "+Inf"] == counted["rate_limiter_latency_seconds_count", "", ""]


def test_a_failure_rule_is_counted_and_so_is_why() -> None:
    refused = ("rate_limiter_redis_errors_total", "", "refused")
    before = samples().get(refused, 0)
    away = f"redis://127.0.0.1:{free_port()}"
    limiter = Limiter(Policy.token_bucket(3, 1, name="failing"), away, on_error="open")
    for _ in range(4):
        limiter.allow("secret identity")
    counted = samples()
    assert counted["rate_limiter_fail_open_total", "failing", ""] == 4
    assert counted[refused] - before == 4
    assert "secret identity" not in metrics()


def test_forked_workers_count_together() -> None:
    limiter = Limiter(Policy.token_bucket(100, 1, name="forked"), Store.memory())
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            for _ in range(5):
                limiter.allow("k")
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    limiter.allow("k")
    assert samples()["rate_limiter_allowed_total", "forked", "store"] == 16
