"""Units that a host takes in advance."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest
from servers import RedisServer

import ratelimit_rs.aio
from ratelimit_rs import InvalidArgument, Limiter, ManualClock, Policy

PAGE = Path(__file__).parents[2] / "docs" / "leases.md"
WINDOW = Policy.fixed_window(100, 3600)


def test_the_example_of_the_page_prints_what_the_page_says(server: RedisServer) -> None:
    [(block, printed)] = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    block = block.replace("redis://127.0.0.1:6379", f"{server.dsn}?timeout=5")
    # All of it within the life of a lease, by a clock that stands.
    block = block.replace("lease=2000", "lease=2000, clock=ManualClock()").replace("Policy\n", "Policy, ManualClock\n")
    ended = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == (printed, "")


def test_leased_units_are_spent_here_and_go_back(server: RedisServer) -> None:
    dsn, clock = f"{server.dsn}?timeout=5", ManualClock()
    limiter, other = Limiter(WINDOW, dsn, clock=clock, lease=50), Limiter(WINDOW, dsn, clock=clock)
    # 1, 2, 4 and 8 units are leased.
    sources = [limiter.allow("hot").source for _ in range(15)]
    assert sources == ["store", "store", "lease"] + ["store"] + 3 * ["lease"] + ["store"] + 7 * ["lease"]
    assert limiter.allow("hot").source == "store"
    assert other.peek("hot").remaining == 100 - 31
    limiter.return_leases()
    assert other.peek("hot").remaining == 100 - 16


def test_awaited_calls_lease_as_well(server: RedisServer) -> None:
    dsn, clock = f"{server.dsn}?timeout=5", ManualClock()
    limiter = ratelimit_rs.aio.Limiter(WINDOW, dsn, clock=clock, lease=50)

    async def ask() -> list[str]:
        sources = [(await limiter.allow("awaited")).source for _ in range(4)]
        await limiter.return_leases()
        return sources

    assert asyncio.run(ask()) == ["store", "store", "lease", "store"]
    assert Limiter(WINDOW, dsn, clock=clock).peek("awaited").remaining == 96


@pytest.mark.parametrize(
    ("policy", "lease", "said"),
    [
        (WINDOW, -1, "lease must be an integer between 0 and 2147483647, got -1"),
        (WINDOW, 1.5, "lease must be an integer between 0 and 2147483647, got 1.5"),
        (WINDOW, True, "lease must be an integer between 0 and 2147483647, got True"),
        (Policy.gcra(5, 1), 5, "lease does not go with policy 'default'"),
    ],
)
def test_what_is_no_lease_is_refused(server: RedisServer, policy: Policy, lease: int, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Limiter(policy, server.dsn, lease=lease)
    assert str(caught.value).replace('"', "'").startswith(said)


def test_a_lease_is_an_int(server: RedisServer) -> None:
    with pytest.raises(TypeError, match="lease must be an int"):
        Limiter(WINDOW, server.dsn, lease="many")  # type: ignore[arg-type]
