"""Processes in PHP, Python and C that ask for what they are told."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent

COMMANDS = {
    "c": [os.environ["RATELIMIT_C_CALLER"]],
    "php": ["php", "-d", f"extension={os.environ['RATELIMIT_SO']}", str(HERE / "caller.php")],
    "python": [sys.executable, str(HERE / "caller.py")],
}


class Answer(NamedTuple):
    outcome: str
    """`allowed`, `denied`, or `away` where the store gave no answer."""
    remaining: int
    seconds: float
    """How long the call took, as its process saw it."""


class Caller:
    """A process that asks once for each key it is told."""

    def __init__(self, language, dsn, capacity):
        self.language = language
        command = [*COMMANDS[language], dsn, str(capacity)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, key, times=1):
        self.process.stdin.write(f"{key}\n" * times)
        self.process.stdin.flush()

    def answer(self):
        outcome, remaining, microseconds = self.process.stdout.readline().split()
        return Answer(outcome, int(remaining), int(microseconds) / 1e6)


@contextmanager
def callers(dsn, capacity, each):
    """So many callers in each language; they end in order."""
    started = [Caller(language, dsn, capacity) for language in COMMANDS for _ in range(each)]
    try:
        yield started
    finally:
        for caller in started:
            caller.process.stdin.close()
            assert caller.process.wait(timeout=10) == 0
