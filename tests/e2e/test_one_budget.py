"""Callers in PHP, Python and C share one budget, on one Redis or in the memory of one host, exactly."""

import random
import subprocess

import callers
import pytest

CAPACITY = 100


def callers_of(port, each):
    return callers.callers(redis(port), CAPACITY, each)


def redis(port):
    return f"redis://127.0.0.1:{port}?timeout=5&connect_timeout=5"


@pytest.fixture(params=["redis", "shared"])
def store(request, server, tmp_path):
    """The DSN of each store that processes share."""
    return redis(server) + "&prefix=store:" if request.param == "redis" else f"shared:{tmp_path}/limits?timeout=5"


def test_three_languages_taking_turns_count_down_together(store):
    with callers.callers(store, CAPACITY, each=1) as three:
        for expected in range(CAPACITY - 1, -1, -1):
            caller = random.choice(three)
            caller.ask("turns")
            assert caller.answer()[:2] == ("allowed", expected)
        for caller in three:
            caller.ask("turns")
            assert caller.answer()[:2] == ("denied", 0)


def test_many_processes_in_three_languages_at_once_get_what_is_there_and_not_one_more(store):
    with callers.callers(store, CAPACITY, each=3) as nine:
        for caller in nine:
            caller.ask("start")
            caller.answer()
        for caller in nine:
            caller.ask("crowd", times=50)
        answers = [caller.answer() for caller in nine for _ in range(50)]
    assert {answer.outcome for answer in answers} == {"allowed", "denied"}
    granted = sorted(answer.remaining for answer in answers if answer.outcome == "allowed")
    assert granted == list(range(CAPACITY))


def test_all_languages_run_the_same_script(server):
    """One text, so the server caches one script, whoever asked first."""
    subprocess.run(["redis-cli", "-p", str(server), "script", "flush"], check=True, capture_output=True)
    subprocess.run(["redis-cli", "-p", str(server), "config", "resetstat"], check=True, capture_output=True)
    with callers_of(server, each=1) as three:
        for caller in three:
            caller.ask("script")
            assert caller.answer().outcome == "allowed"
    stats = subprocess.run(["redis-cli", "-p", str(server), "info", "commandstats"], check=True, capture_output=True, text=True)
    calls = dict(line.split(":calls=") for line in stats.stdout.splitlines() if ":calls=" in line)
    assert calls["cmdstat_eval"].split(",")[0] == "1"
    assert calls["cmdstat_evalsha"].split(",")[0] == "3"
