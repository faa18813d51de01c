"""Callers in PHP, Python and C share one budget on one Redis, exactly."""

import os
import random
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
CAPACITY = 100

COMMANDS = {
    "c": [os.environ["RATELIMIT_C_CALLER"]],
    "php": ["php", "-d", f"extension={os.environ['RATELIMIT_SO']}", str(HERE / "caller.php")],
    "python": [sys.executable, str(HERE / "caller.py")],
}


class Caller:
    """A process that asks once for each key it is told."""

    def __init__(self, language, port):
        command = [*COMMANDS[language], f"redis://127.0.0.1:{port}?timeout=5&connect_timeout=5"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, key, times=1):
        self.process.stdin.write(f"{key}\n" * times)
        self.process.stdin.flush()

    def answer(self):
        allowed, remaining = self.process.stdout.readline().split()
        return allowed == "1", int(remaining)


@contextmanager
def callers(port, each):
    started = [Caller(language, port) for language in COMMANDS for _ in range(each)]
    try:
        yield started
    finally:
        for caller in started:
            caller.process.stdin.close()
            assert caller.process.wait(timeout=10) == 0


def test_three_languages_taking_turns_count_down_together(server):
    with callers(server, each=1) as three:
        for expected in range(CAPACITY - 1, -1, -1):
            caller = random.choice(three)
            caller.ask("turns")
            assert caller.answer() == (True, expected)
        for caller in three:
            caller.ask("turns")
            assert caller.answer() == (False, 0)


def test_many_processes_in_three_languages_at_once_get_what_is_there_and_not_one_more(server):
    with callers(server, each=3) as nine:
        for caller in nine:
            caller.ask("start")
            caller.answer()
        for caller in nine:
            caller.ask("crowd", times=50)
        answers = [caller.answer() for caller in nine for _ in range(50)]
    granted = sorted(remaining for allowed, remaining in answers if allowed)
    assert granted == list(range(CAPACITY))


def test_all_languages_run_the_same_script(server):
    """One text, so the server caches one script, whoever asked first."""
    subprocess.run(["redis-cli", "-p", str(server), "script", "flush"], check=True, capture_output=True)
    subprocess.run(["redis-cli", "-p", str(server), "config", "resetstat"], check=True, capture_output=True)
    with callers(server, each=1) as three:
        for caller in three:
            caller.ask("script")
            assert caller.answer()[0]
    stats = subprocess.run(["redis-cli", "-p", str(server), "info", "commandstats"], check=True, capture_output=True, text=True)
    calls = dict(line.split(":calls=") for line in stats.stdout.splitlines() if ":calls=" in line)
    assert calls["cmdstat_eval"].split(",")[0] == "1"
    assert calls["cmdstat_evalsha"].split(",")[0] == "3"
