"""What one decision costs the Redis server, under pipelined load (S6).

Each script is asked a number of times for each of 1000 callers, on an empty database. `script_us` is what the server
counts for running the command; `cpu_us` is all its processor time, with reading commands and writing replies.
"""

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from . import paths
from .server import Server, encode

ROUNDS = 7
CALLERS = 1000
BATCH = 200


@dataclass(frozen=True)
class Load:
    """One script with its arguments, or several to be run one after the other for one decision."""

    name: str
    text: bytes
    arguments: tuple[bytes | str | int | float, ...]
    keys: tuple[str, ...] = ("rl:tb:default:{user:%d}",)
    scripts_per_decision: int = 1


@dataclass(frozen=True)
class Cost:
    """Microseconds per decision, round by round."""

    script_us: list[float]
    cpu_us: list[float]


def own_commands() -> dict[str, tuple[bytes, list[bytes]]]:
    """The scripts and commands of the library by name, as it writes them itself."""
    output = subprocess.run([paths.COMMANDS], check=True, capture_output=True, text=True).stdout
    commands = {}
    for line in output.splitlines():
        name, text, *parts = line.split(" ")
        commands[name] = bytes.fromhex(text), [bytes.fromhex(part) for part in parts]
    return commands


def own_load(name: str, text: bytes, parts: list[bytes]) -> Load:
    keys = int(parts[2])
    # The key that was asked about is "key"; each caller gets one as long as a real one.
    names = tuple(key.decode().replace("key", "user:%d") for key in parts[3 : 3 + keys])
    return Load(name.split("/")[1], text, tuple(parts[3 + keys :]), names)


def peer_loads(capacity: int, interval: float) -> list[Load]:
    text = (paths.BENCH / "redis" / "token_bucket.lua").read_bytes()
    bucket = (capacity, 1, interval, time.time())
    value = b"x" * 40
    return [
        Load("floor", (paths.BENCH / "redis" / "floor.lua").read_bytes(), (value,)),
        Load("redis.io", text, bucket),
        Load("redis.io_three_times", text, bucket, ("a:{user:%d}", "b:{user:%d}", "c:{user:%d}"), 3),
    ]


def measure(server: Server, calls_per_caller: dict[str, int], rounds: int = ROUNDS) -> dict[str, dict[str, Cost]]:
    """Costs by load (`allowed`, `exceeding`) and script, of rounds in which the scripts take turns."""
    loads: dict[str, list[Load]] = {"allowed": peer_loads(1_000_000, 1.0), "exceeding": peer_loads(20, 180.0)}
    for name, (text, parts) in own_commands().items():
        loads[name.split("/")[0]].append(own_load(name, text, parts))
    costs: dict[str, dict[str, Cost]] = {}
    for kind, scripts in loads.items():
        seen = {load.name: Cost([], []) for load in scripts}
        for round_ in range(rounds):
            # Starting elsewhere in each round, so that no script always follows the same one.
            turn = round_ % len(scripts)
            for load in scripts[turn:] + scripts[:turn]:
                script_us, cpu_us = once(server, load, calls_per_caller[kind])
                seen[load.name].script_us.append(script_us)
                seen[load.name].cpu_us.append(cpu_us)
        costs[kind] = seen
    return costs


def once(server: Server, load: Load, calls_per_caller: int) -> tuple[float, float]:
    """One round of one script: microseconds per decision in the script, and of the processor."""
    server.ask("FLUSHALL")
    sha = server.ask("SCRIPT", "LOAD", load.text)
    assert isinstance(sha, bytes)
    commands = []
    for caller in range(CALLERS):
        keys = [key % caller for key in load.keys]
        if load.scripts_per_decision == 1:
            commands.append(encode("EVALSHA", sha, len(keys), *keys, *load.arguments))
        else:
            commands += [encode("EVALSHA", sha, 1, key, *load.arguments) for key in keys]
    batches = [commands[at : at + BATCH] for at in range(0, len(commands), BATCH)]
    joined = [(b"".join(batch), len(batch)) for batch in batches]
    server.ask("CONFIG", "RESETSTAT")
    before = server.cpu_ns()
    for _ in range(calls_per_caller):
        for batch, size in joined:
            server.send(batch)
            for _ in range(size):
                server.read()
    cpu_ns = server.cpu_ns() - before
    decisions = CALLERS * calls_per_caller
    return server.script_us() * load.scripts_per_decision, cpu_ns / decisions / 1000
