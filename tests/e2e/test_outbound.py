"""A fleet of clients in PHP and Python shares what it learns of an API, is never refused, and wastes next to nothing.

The APIs are servers on loopback that enforce their limits and keep books. Limits are small enough that the clients, and
not the machine, could break them. With LONG set there are several times as many requests.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from api_server import ApiServer, Discord, Leaky, Windows
from callers import HERE

MORE = 5 if os.environ.get("LONG") else 1

PYTHON = [sys.executable, str(HERE / "outbound_client.py")]
PHP = ["php", "-d", f"extension={os.environ['RATELIMIT_SO']}", str(HERE / "outbound_client.php")]

# One of each kind: one request after the other, and several at a time.
FLEET = [[*PHP, "guzzle"], [*PHP, "pool"], [*PYTHON, "requests"], [*PYTHON, "aiohttp"]]


@dataclass
class Story:
    api: Any
    paths: list[str]
    requests: int
    """Altogether."""
    buffer: float = 0.05
    """Seconds beyond a reset. Windows are short here, so the usual second would be a large part of one."""

CHANNELS = [f"/channels/{channel}/{route}" for channel in (1, 2, 3) for route in ("messages", "typing")]

STORIES = {
    "github": lambda: Story(Windows(200, 2.0, "github"), ["/user", "/repos/o/r/issues"], 600),
    "ietf": lambda: Story(Windows(200, 2.0, "ietf"), ["/things", "/things/1"], 600),
    "shopify": lambda: Story(Leaky(400, 20.0, "shopify"), ["/admin/products.json", "/admin/orders.json"], 500),
    "openai": lambda: Story(Leaky(60, 80.0, "openai"), ["/v1/chat/completions"], 480),
}


@pytest.fixture(params=["redis", "shared"])
def store(request, server, tmp_path):
    """The DSN of each store that processes share."""
    if request.param == "redis":
        subprocess.run(["redis-cli", "-p", str(server), "flushall"], check=True, capture_output=True)
        return f"redis://127.0.0.1:{server}?timeout=5&connect_timeout=5"
    return f"shared:{tmp_path}/limits?size=4MiB&timeout=5"


def run(preset, api, store, paths, requests, options):
    """Has the fleet send so many requests; the statuses that its members saw, and how long it took."""
    remote = ApiServer(api)
    began = time.monotonic()
    try:
        clients = []
        for number, command in enumerate(FLEET):
            turned = paths[number % len(paths) :] + paths[: number % len(paths)]
            arguments = [preset, store, remote.url, str(requests // len(FLEET)), json.dumps(options), f"worker-{number}"]
            clients.append(subprocess.Popen([*command, *arguments, *turned], stdout=subprocess.PIPE, text=True))
        statuses = Counter()
        for client in clients:
            printed, _ = client.communicate(timeout=300)
            assert client.returncode == 0, client.args
            statuses.update(json.loads(printed))
    finally:
        remote.close()
    return dict(statuses), time.monotonic() - began


def report(name, api, statuses, seconds):
    """What was measured, for whoever runs this with -s."""
    print(f"\n{name}: {sum(statuses.values())} requests, {api.throughput():.1%} of what the limits allow, {seconds:.1f} s")


@pytest.mark.parametrize("name", STORIES)
def test_nobody_is_refused_and_little_is_wasted(name, store):
    story = STORIES[name]()
    count = story.requests * MORE
    statuses, seconds = run(name, story.api, store, story.paths, count, {"buffer": story.buffer})
    report(f"{name} on {store.split(':')[0]}", story.api, statuses, seconds)
    assert statuses == {"200": count}
    assert story.api.refused == []
    assert story.api.throughput() >= 0.9


def test_buckets_that_move_are_followed(store):
    # The limit on everything is out of the way.
    api = Discord(limit=14, window=2.0, moves_after=168 * MORE, everything=(200, 1.0))
    count = 420 * MORE
    options = {"buffer": 0.03, "everything": [200, 1.0]}
    statuses, seconds = run("discord", api, store, CHANNELS, count, options)
    report(f"discord on {store.split(':')[0]}", api, statuses, seconds)
    assert (statuses, api.refused, api.bans) == ({"200": count}, [], 0)
    # Whoever has not heard of the move yet may run into it, once.
    assert len(api.learning) <= len(FLEET) * len(CHANNELS)
    assert api.throughput() >= 0.9


def test_a_limit_on_everything_is_kept_over_all_buckets(store):
    paths = [f"/channels/{channel}/messages" for channel in range(1, 9)]
    api = Discord(limit=40, window=2.0, everything=(100, 2.0))
    count = 500 * MORE
    options = {"buffer": 0.1, "everything": [100, 2.0]}
    statuses, seconds = run("discord", api, store, paths, count, options)
    report(f"discord's limit on everything on {store.split(':')[0]}", api, statuses, seconds)
    assert (statuses, api.refused, api.bans) == ({"200": count}, [], 0)
    assert api.throughput() >= 0.9


def test_what_others_have_used_up_is_waited_out_and_nobody_is_shut_out(store):
    paths = ["/channels/1/shared", "/channels/2/shared"]
    api = Discord(limit=50, window=0.5, shared_every=25, invalid=4, invalid_window=60.0)
    statuses, _ = run("discord", api, store, paths, 200 * MORE, {"buffer": 0.05, "invalid": [4, 60.0]})
    assert (statuses, api.refused, api.bans) == ({"200": 200 * MORE}, [], 0)
    assert api.shared > 200 * MORE


def test_nobody_sends_the_invalid_request_that_shuts_all_out(store):
    api = Discord(limit=50, window=1.0, invalid=10, invalid_window=1.0)
    statuses, seconds = run("discord", api, store, ["/channels/1/forbidden"], 40, {"buffer": 0.05, "invalid": [9, 1.0]})
    assert (statuses, api.bans) == ({"403": 40}, 0)
    assert seconds >= 3
