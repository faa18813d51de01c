"""Processes in PHP, Python and C hold one lock and share one concurrency limit, on one Redis or in the memory of one host."""

import itertools
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent

COMMANDS = {
    "c": [os.environ["RATELIMIT_C_HOLDER"]],
    "php": ["php", "-d", f"extension={os.environ['RATELIMIT_SO']}", str(HERE / "holder.php")],
    "python": [sys.executable, str(HERE / "holder.py")],
}

LIMIT = 2


class Holder:
    """A process that does what it is told."""

    def __init__(self, language, dsn):
        self.language = language
        command = [*COMMANDS[language], dsn, str(LIMIT)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, *words):
        print(*words, file=self.process.stdin, flush=True)

    def answer(self):
        return self.process.stdout.readline().rstrip("\n")

    def ask(self, *words):
        self.tell(*words)
        return self.answer()


@contextmanager
def holders(dsn, each=1):
    """So many holders in each language; they end in order."""
    started = [Holder(language, dsn) for language in COMMANDS for _ in range(each)]
    try:
        yield started
    finally:
        for holder in started:
            holder.process.stdin.close()
            assert holder.process.wait(timeout=10) == 0


@pytest.fixture(params=["redis", "shared"])
def store(request, server, tmp_path):
    """The DSN of each store that processes share."""
    if request.param == "shared":
        return f"shared:{tmp_path}/limits?timeout=5"
    return f"redis://127.0.0.1:{server}?timeout=5&connect_timeout=5&prefix={tmp_path.name}:"


def test_what_one_language_holds_another_cannot_take_and_a_third_releases(store):
    with holders(store) as three:
        for take, give in (("lock", "unlock"), ("lease", "return")):
            for one, other, third in itertools.permutations(three):
                texts = [one.ask(take, "report") for _ in range(1 if take == "lock" else LIMIT)]
                assert all(len(text) == 32 for text in texts), texts
                assert other.ask(take, "report") == "none"
                assert other.ask(give, "report", "0" * 31 + "1") == "no"
                for text in texts:
                    assert third.ask(give, "report", text) == "yes"
                    assert one.ask(give, "report", text) == "no"


def test_processes_in_three_languages_that_count_under_one_lock_count_right(store, tmp_path):
    file = tmp_path / "count"
    file.write_text("0")
    with holders(store, each=2) as six:
        for holder in six:
            holder.tell("count", "file", file, 100)
        assert [holder.answer() for holder in six] == ["100"] * 6
    assert file.read_text() == "600"


def test_of_processes_in_three_languages_never_more_than_the_limit_are_inside(store, tmp_path):
    folder = tmp_path / "inside"
    folder.mkdir()
    with holders(store, each=2) as six:
        for holder in six:
            holder.tell("enter", "folder", folder, 60)
        most = [int(holder.answer()) for holder in six]
        assert all(1 <= one <= LIMIT for one in most), most
        # All of it has been given back.
        texts = [six[at].ask("lease", "folder") for at in range(LIMIT)]
        assert "none" not in texts
