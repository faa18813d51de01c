"""How long a decision takes, of programs that take turns on the same machine at the same time (S2, S4, S7)."""

import re
import statistics
import subprocess
from collections.abc import Callable

from .server import Server

Turn = Callable[[int], float]


class Caller:
    """A program that makes so many calls when told to, and says how long they took."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __call__(self, calls: int) -> float:
        """Microseconds per call."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer.strip().isdigit():
            raise SystemExit(f"{self._process.args!r} has stopped; what it said is above")
        return int(answer) / calls / 1000

    def stop(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def redis_benchmark(server: Server, text: bytes, parts: list[bytes]) -> Turn:
    """The same script from `redis-benchmark` with one client.

    It cannot send an argument with a zero byte, so the script is given a line that makes it; the server works a fifth
    of a microsecond longer for that.
    """
    argument = ",".join(str(byte) for byte in parts[-1])
    sha = server.ask("SCRIPT", "LOAD", f"local ARGV = {{ string.char({argument}) }}\n".encode() + text)
    assert isinstance(sha, bytes)
    options = ["redis-benchmark", "-p", str(server.port), "-c", "1", "--csv", "-n"]
    command = ["EVALSHA", sha.decode(), "1", *(key.decode() for key in parts[3:-1])]

    def turn(calls: int) -> float:
        run = subprocess.run([*options, str(calls), *command], capture_output=True, check=True, text=True)
        # The requests per second of all of them, with whatever the program does between two.
        found = re.search(r'^"EVALSHA [^"]*","([\d.]+)"', run.stdout, re.MULTILINE)
        if found is None or run.stderr:
            raise SystemExit(f"redis-benchmark says something new: {run.stdout}{run.stderr}")
        return 1e6 / float(found[1])

    return turn


def take_turns(turns: dict[str, Turn], calls: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds per call of each, round by round; each round starts with another one."""
    times: dict[str, list[float]] = {name: [] for name in turns}
    names = list(turns)
    for name in names:
        turns[name](calls)
    for round_ in range(rounds):
        turn = round_ % len(names)
        for name in names[turn:] + names[:turn]:
            times[name].append(turns[name](calls))
    return times


def median(times: list[float]) -> float:
    return statistics.median(times)


def ratio(ours: list[float], peers: list[float]) -> float:
    """The median of the rounds' ratios: what disturbs one round disturbs both."""
    return statistics.median(our / peer for our, peer in zip(ours, peers, strict=True))
