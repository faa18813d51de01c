"""A primary is lost while callers in PHP, Python and C use up budgets, and a replica takes its place.

Replication is asynchronous, so what the primary had taken and not yet told its replica is forgotten: these tests cut the
replication some time before, so that there is such a loss, and check that no more than that is given twice.
"""

import threading
import time
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from callers import Answer, callers
from deployments import Cluster, Sentinels, cut_replication, is_primary
from servers import eventually

LIMIT = 4000
TIMEOUT = CONNECT_TIMEOUT = 0.5
# What a call may take, and what a busy machine may take on top of it.
DEADLINE, MARGIN = TIMEOUT + CONNECT_TIMEOUT, 0.5
OPTIONS = f"?timeout={TIMEOUT}&connect_timeout={CONNECT_TIMEOUT}"


class Call(NamedTuple):
    key: str
    started: float
    ended: float
    answer: Answer


class Load:
    """Callers that ask for one key after the other, each as fast as it is answered."""

    def __init__(self, processes, keys):
        self.keys = keys
        self.calls = [[] for _ in processes]
        """The calls of each caller, in order."""
        self.admitted = dict.fromkeys(keys, 0)
        self.used_up = [set() for _ in processes]
        """Of each caller the keys that it was denied."""
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._run, args=each) for each in enumerate(processes)]

    def _run(self, number, caller):
        while not self.ended.is_set():
            for key in self.keys:
                started = time.monotonic()
                caller.ask(key)
                answer = caller.answer()
                self.calls[number].append(Call(key, started, time.monotonic(), answer))
                if answer.outcome == "denied":
                    self.used_up[number].add(key)
                elif answer.outcome == "allowed":
                    with self.lock:
                        self.admitted[key] += 1

    def until(self, what, done):
        """Lets the callers go on until it is so."""
        limit = time.monotonic() + 60
        while not done():
            assert time.monotonic() < limit, f"{what} did not happen within 60 s"
            assert all(thread.is_alive() for thread in self.threads), "a caller has ended"
            time.sleep(0.005)


@contextmanager
def load_on(dsn, keys):
    with callers(dsn + OPTIONS, LIMIT, each=2) as processes:
        for caller in processes:
            # All begin together, however long a language takes to start.
            caller.ask("start")
            assert caller.answer().outcome == "allowed"
        load = Load(processes, keys)
        for thread in load.threads:
            thread.start()
        try:
            yield load
        finally:
            load.ended.set()
            for thread in load.threads:
                thread.join()


class Loss(NamedTuple):
    """When it happened, and to which key."""

    key: str
    cut: float
    """The replication ended."""
    gone: float
    """The primary was lost."""
    healed: float
    """Everybody who is asked names the replica as the primary."""


def lose(load, key, primary, how, has_healed):
    """Takes the primary of a key away under load, and waits until its replica has its place."""
    load.until("the use of the primary", lambda: load.admitted[key] >= LIMIT // 8)
    cut = time.monotonic()
    cut_replication(primary)
    before = load.admitted[key]
    load.until("the loss", lambda: load.admitted[key] >= before + LIMIT // 8)
    gone = time.monotonic()
    if how == "killed":
        primary.stop()
    else:
        primary.freeze()
    eventually("the failover", has_healed)
    healed = time.monotonic()
    everything, until_then = set(load.keys), [len(calls) for calls in load.calls]
    load.until("the end of all budgets", lambda: all(used_up == everything for used_up in load.used_up))
    # However fast that was, each caller is to have some calls of each key after it.
    enough = 4 * len(load.keys)
    load.until("more calls", lambda: all(len(calls) - then >= enough for calls, then in zip(load.calls, until_then)))
    return Loss(key, cut, gone, healed)


def check(load, loss):
    for calls in load.calls:
        slowest = max(call.answer.seconds for call in calls)
        assert slowest <= DEADLINE + MARGIN, f"a call took {slowest} s"
        assert any(call.answer.outcome == "allowed" for call in calls if call.ended < loss.gone)
        # From the second call on everybody has real answers again.
        after = [call.answer.outcome for call in calls if call.started > loss.healed and call.key == loss.key]
        assert len(after) >= 2
        assert "away" not in after[1:], after

    everything = [call for calls in load.calls for call in calls]
    admitted = [call for call in everything if call.key == loss.key and call.answer.outcome == "allowed"]
    old = [call.answer.remaining for call in admitted if call.ended <= loss.gone]
    new = [call.answer.remaining for call in admitted if call.started > loss.gone]
    assert len(old) == len(set(old)), "the old primary gave a unit twice"
    assert len(new) == len(set(new)), "the new primary gave a unit twice"
    unreplicated = [call for call in admitted if call.ended >= loss.cut and call.started <= loss.gone]
    assert LIMIT < len(admitted) <= LIMIT + len(unreplicated)
    return everything


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_primary_that_sentinels_watch(how):
    sentinels = Sentinels()
    try:
        with load_on(sentinels.dsn, ["budget"]) as load:
            replica = sentinels.replica
            loss = lose(
                load, "budget", sentinels.primary, how, lambda: is_primary(replica) and sentinels.name(replica)
            )
        check(load, loss)
    finally:
        sentinels.close()


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_node_of_a_cluster(how):
    # The other nodes go on while nobody has the slots of one of them.
    cluster = Cluster("--cluster-require-full-coverage", "no", replicas=True)
    try:
        keys = cluster.keys()
        lost, replica = cluster.primaries[0], cluster.replicas[0]
        others = [node for node in cluster.nodes if node is not lost]
        with load_on(cluster.dsn, keys) as load:
            loss = lose(
                load, keys[0], lost, how, lambda: all(cluster.owner(node, keys[0]) == replica.port for node in others)
            )
        everything = check(load, loss)
        for key in keys[1:]:
            answers = [call.answer for call in everything if call.key == key]
            assert all(answer.outcome != "away" for answer in answers), "the other nodes went on"
            granted = sorted(answer.remaining for answer in answers if answer.outcome == "allowed")
            assert granted == list(range(LIMIT))
    finally:
        cluster.close()
